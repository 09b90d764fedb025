/* The pictures and the report of an evaluation grid. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/text.h"
#include "report/curves.h"
#include "report/report.h"
#include "run/evaluation.h"

#define LOSS_FIGURE      "loss"
#define MAP_FIGURE       "map"
#define POSITIONS_FIGURE "curves" /* positions.csv is the table of every predictor */

/* A loss below this share of the model's least consists of rounding errors, and would flatten all others. */
#define LEAST_SHARE 1e-6

static const char *unit_of(const icl_evaluation_grid *grid) {
    const icl_loss_kind kind = icl_evaluation_grid_score(grid, 0, 0)->loss_kind;
    return kind == ICL_LOSS_SQUARED_ERROR ? "squared error (squares of y's unit)" : icl_loss_name(kind);
}

/* ---- Values of a key ---- */

/* Returns the cell with a value of one key and the first value of the other. */
static size_t cell_of(const icl_evaluation_grid *grid, size_t axis, size_t value) {
    return axis + 1 == icl_evaluation_grid_axes(grid) ? value : value * icl_evaluation_grid_values(grid, axis + 1);
}

static const char *value_of(const icl_evaluation_grid *grid, size_t axis, size_t value) {
    return icl_evaluation_grid_value(grid, cell_of(grid, axis, value), axis);
}

/* ---- Curves ---- */

static icl_status draw_curves(const icl_drawing *drawing, icl_curves *curves, icl_error *error) {
    double least = (double)INFINITY; /* of the model, all of whose losses lie in the picture */

    for (size_t i = 0; i < curves->count; i++)
        if (curves->curves[curves->values[i].curve].style == ICL_SERIES_OURS && curves->values[i].y > 0)
            least = fmin(least, curves->values[i].y);
    for (size_t i = 0; i < curves->count; i++)
        if (isfinite(least) && curves->values[i].y > 0 && curves->values[i].y < LEAST_SHARE * least)
            curves->figure.least_y = LEAST_SHARE * least;
    curves->figure.log_y = icl_curves_span_a_decade(curves);
    ICL_CHECK(icl_curves_fill(curves, error));
    return icl_figure_write(drawing, &curves->figure, error);
}

/* Places the values of the first key as numbers, also after a word that they share (fixed:1), or else as words. After a
 * shared word the label is "task.noise = fixed:". */
static icl_status place_values(const icl_evaluation_grid *grid, icl_curves *curves, char label[128], icl_error *error) {
    const char *first = value_of(grid, 0, 0), *colon = strchr(first, ':');
    int prefix = colon ? (int)(colon - first) + 1 : 0;

    ICL_CHECK(icl_curves_reserve_places(curves, icl_evaluation_grid_values(grid, 0), error));
    for (size_t i = 0; i < curves->place_count; i++)
        curves->names[i] = value_of(grid, 0, i);
    prefix = icl_curves_place(curves, (size_t)prefix) ? prefix : 0;
    snprintf(label, 128, "%s%s%.*s", icl_evaluation_grid_axis(grid, 0), prefix > 0 ? " = " : "", prefix, first);
    curves->figure.x_label = label;
    return ICL_OK;
}

/* Draws losses over the first key: every predictor's or, if there are two keys, the model's for each value of the
 * second. */
static icl_status draw_losses(const icl_grid_report *params, const icl_drawing *drawing, icl_error *error) {
    const icl_evaluation_grid *grid = params->grid;
    const size_t columns = icl_evaluation_grid_cells(grid) / icl_evaluation_grid_values(grid, 0);
    const bool both = icl_evaluation_grid_axes(grid) > 1;
    const size_t count = both ? columns : icl_evaluation_grid_predictors(grid);
    icl_curves curves =
        ICL_CURVES(.name = LOSS_FIGURE, .title = both ? "The model's loss" : "Loss of the model and the predictors",
                   .y_label = unit_of(grid));
    icl_status status = ICL_OK;
    char label[128];

    ICL_TRY(place_values(grid, &curves, label, error));
    for (size_t i = 0; i < count; i++) {
        if (both)
            ICL_TRY(icl_curves_begin(&curves, ICL_SERIES_OURS, error, "%s = %s", icl_evaluation_grid_axis(grid, 1),
                                     value_of(grid, 1, i)));
        else
            ICL_TRY(icl_curves_begin(&curves, i == 0 ? ICL_SERIES_OURS : ICL_SERIES_REFERENCE, error, "%s",
                                     icl_evaluation_grid_predictor(grid, i)));
        for (size_t p = 0; p < curves.place_count; p++) {
            const icl_score *score = icl_evaluation_grid_score(grid, p * columns + (both ? i : 0), both ? 0 : i);
            ICL_TRY(icl_curves_measured(&curves, curves.places[p], score ? score->mse : (double)NAN,
                                        score ? score->se : (double)NAN, error));
        }
    }
    ICL_TRY(draw_curves(drawing, &curves, error));
done:
    icl_curves_release(&curves);
    return status;
}

/* Draws the model's loss at every position, with a curve for each value of the only key. */
static icl_status draw_positions(const icl_grid_report *params, const icl_drawing *drawing, icl_error *error) {
    const icl_evaluation_grid *grid = params->grid;
    icl_curves curves = ICL_CURVES(.name = POSITIONS_FIGURE, .title = "The model's loss by position",
                                   .x_label = "position", .y_label = unit_of(grid));
    icl_status status = ICL_OK;

    for (size_t cell = 0; cell < icl_evaluation_grid_cells(grid); cell++) {
        const icl_score *model = icl_evaluation_grid_score(grid, cell, 0);
        ICL_TRY(icl_curves_begin(&curves, ICL_SERIES_OURS, error, "%s = %s", icl_evaluation_grid_axis(grid, 0),
                                 value_of(grid, 0, cell)));
        for (size_t p = 0; p < model->position_count; p++)
            ICL_TRY(icl_curves_measured(&curves, (double)model->positions[p].position, model->positions[p].loss,
                                        model->positions[p].se, error));
    }
    ICL_TRY(draw_curves(drawing, &curves, error));
done:
    icl_curves_release(&curves);
    return status;
}

static bool has_positions(const icl_evaluation_grid *grid) {
    bool has = icl_evaluation_grid_axes(grid) == 1;
    for (size_t cell = 0; cell < icl_evaluation_grid_cells(grid) && has; cell++)
        has = icl_evaluation_grid_score(grid, cell, 0)->position_count > 0;
    return has;
}

/* ---- The heat map ---- */

/* Draws the model's loss by both keys. */
static icl_status draw_map(const icl_grid_report *params, const icl_drawing *drawing, icl_error *error) {
    const icl_evaluation_grid *grid = params->grid;
    const size_t rows = icl_evaluation_grid_values(grid, 0), columns = icl_evaluation_grid_values(grid, 1);
    double *values = NULL;
    const char **names = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(rows, columns * sizeof *values, "map", &values, error));
    ICL_TRY(icl_allocate(rows + columns, sizeof(const char *), "names of a map", &names, error));
    for (size_t i = 0; i < rows + columns; i++)
        names[i] = i < rows ? value_of(grid, 0, i) : value_of(grid, 1, i - rows);
    for (size_t cell = 0; cell < rows * columns; cell++)
        values[cell] = icl_evaluation_grid_score(grid, cell, 0)->mse;
    ICL_TRY(icl_heat_figure_write(
        drawing,
        &(icl_heat_figure){.name = MAP_FIGURE,
                           .title = "The model's loss",
                           .row_label = icl_evaluation_grid_axis(grid, 0),
                           .column_label = icl_evaluation_grid_axis(grid, 1),
                           .value_label = unit_of(grid),
                           .count = 1,
                           .maps = &(icl_heat_map){"", rows, columns, values, names, names + rows},
                           .amounts = true},
        error));
done:
    icl_free(&values);
    icl_free(&names);
    return status;
}

/* ---- The report ---- */

static icl_status add_pictures(const icl_grid_report *params, icl_report *report, icl_error *error) {
    const icl_drawing drawing = {
        .folder = params->folder, .command = "iclab eval --over", .draw = params->draw, .user = params->user};
    const bool both = icl_evaluation_grid_axes(params->grid) > 1;

    ICL_CHECK(icl_report_section(report, "Pictures", error));
    if (both) {
        ICL_CHECK(draw_map(params, &drawing, error));
        ICL_CHECK(icl_report_picture(report, params->folder, MAP_FIGURE, "By both keys. Data: map-1.csv.", error));
    }
    ICL_CHECK(draw_losses(params, &drawing, error));
    ICL_CHECK(icl_report_picture(report, params->folder, LOSS_FIGURE,
                                 "Bars are standard errors of the model's loss. Data: loss.csv; everything: table.csv.",
                                 error));
    if (!has_positions(params->grid))
        return ICL_OK;
    ICL_CHECK(draw_positions(params, &drawing, error));
    return icl_report_picture(
        report, params->folder, POSITIONS_FIGURE,
        "The model at every scored position. Data: curves.csv; the predictors', too: positions.csv.", error);
}

static icl_status add_row(const icl_grid_report *params, size_t cell, size_t shown, icl_report *report,
                          icl_error *error) {
    const size_t axes = icl_evaluation_grid_axes(params->grid);
    char texts[ICL_REPORT_MAX_COLUMNS][16];
    const char *cells[ICL_REPORT_MAX_COLUMNS];
    size_t at = 0;

    for (; at < axes; at++)
        cells[at] = icl_evaluation_grid_value(params->grid, cell, at);
    for (size_t i = 0; i < shown; i++, at++) {
        const icl_score *score = icl_evaluation_grid_score(params->grid, cell, i);
        cells[at] = icl_loss_text(score ? score->mse : (double)NAN, texts[at]);
        if (i == 0) {
            at++;
            cells[at] = icl_loss_text(score->se, texts[at]);
        }
    }
    return icl_report_table_row(report, ICL_TONE_PLAIN, cells, error);
}

/* Adds the table, with as many predictors as it can have columns. */
static icl_status add_table(const icl_grid_report *params, icl_report *report, icl_error *error) {
    const size_t axes = icl_evaluation_grid_axes(params->grid), room = ICL_REPORT_MAX_COLUMNS - axes - 1;
    const size_t all = icl_evaluation_grid_predictors(params->grid), shown = all < room ? all : room;
    icl_report_column columns[ICL_REPORT_MAX_COLUMNS] = {{0}};
    size_t at = 0;

    for (; at < axes; at++)
        columns[at] = (icl_report_column){icl_evaluation_grid_axis(params->grid, at), false};
    for (size_t i = 0; i < shown; i++) {
        columns[at++] = (icl_report_column){icl_evaluation_grid_predictor(params->grid, i), true};
        if (i == 0)
            columns[at++] = (icl_report_column){"\u00b1", true};
    }
    ICL_CHECK(icl_report_section(report, "Losses", error));
    ICL_CHECK(icl_report_table_begin(report, columns, at, error));
    for (size_t cell = 0; cell < icl_evaluation_grid_cells(params->grid); cell++)
        ICL_CHECK(add_row(params, cell, shown, report, error));
    ICL_CHECK(icl_report_table_end(report, error));
    return icl_report_paragraph(report,
                                shown < all ? "\u00b1 is one standard error of the model's. More predictors: table.csv."
                                            : "\u00b1 is one standard error of the model's; the others' stand in "
                                              "table.csv.",
                                error);
}

static icl_status add_facts(const icl_grid_report *params, icl_report *report, icl_error *error) {
    char seed[16];

    snprintf(seed, sizeof seed, "%" PRIu32, params->facts->seed);
    const icl_report_fact rows[] = {
        {"command", params->facts->command_line ? params->facts->command_line : ""},
        {"recipe", params->facts->recipe_name},
        {"seed of training", seed},
    };
    return icl_report_provenance(
        report, &(icl_provenance){.facts = rows, .count = sizeof rows / sizeof *rows, .device = params->facts->device},
        error);
}

static icl_status write_title(const icl_grid_report *params, icl_text *title, icl_error *error) {
    const icl_evaluation_grid *grid = params->grid;
    const bool both = icl_evaluation_grid_axes(grid) > 1;
    return icl_text_print(title, error, "%s over %s%s%s", icl_path_name(params->facts->recipe_name),
                          icl_evaluation_grid_axis(grid, 0), both ? " and " : "",
                          both ? icl_evaluation_grid_axis(grid, 1) : "");
}

icl_status icl_grid_report_write(const icl_grid_report *params, icl_error *error) {
    const uint64_t sequences = icl_evaluation_grid_sequences(params->grid);
    icl_report *report = NULL;
    icl_text lead = {0}, title = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_report_create(&report, error));
    ICL_TRY(add_pictures(params, report, error));
    ICL_TRY(add_table(params, report, error));
    ICL_TRY(add_facts(params, report, error));
    ICL_TRY(write_title(params, &title, error));
    ICL_TRY(icl_text_print(&lead, error, "The trained model and the reference predictors on %zu tasks, ",
                           icl_evaluation_grid_cells(params->grid)));
    ICL_TRY(sequences > 0 ? icl_text_print(&lead, error, "%" PRIu64 " fresh sequences of each.", sequences)
                          : icl_text_print(&lead, error, "on fresh sequences of each."));
    ICL_TRY(icl_report_write(report, title.bytes, lead.bytes, params->folder, error));
done:
    icl_text_release(&title);
    icl_text_release(&lead);
    icl_report_destroy(&report);
    return status;
}
