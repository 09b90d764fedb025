/* The reports of evaluation grids, with their pictures, of sweeps, and of the cells of sweeps. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "iclab/file.h"
#include "iclab/number.h"
#include "iclab/text.h"
#include "report/curves.h"
#include "report/report.h"
#include "run/evaluation.h"
#include "run/recipe_keys.h"
#include "train/settings.h"

/* ---- Values of a key along x ---- */

/* A key whose values span this factor gets a logarithmic axis. */
#define LOGARITHMIC_SPAN 50

/* Allocates places [count] and names [count], which the caller fills. */
static icl_status reserve_places(icl_curves *curves, size_t count, icl_error *error) {
    curves->place_count = count;
    ICL_CHECK(icl_allocate(count, sizeof *curves->places, "values of a key", &curves->places, error));
    return icl_allocate(count, sizeof(const char *), "values of a key", &curves->names, error);
}

/* Reads the names as numbers after the prefix, which become the places. Returns false unless all are numbers. */
static bool read_places(icl_curves *curves, size_t prefix) {
    double least = (double)INFINITY, largest = -(double)INFINITY;

    for (size_t i = 0; i < curves->place_count; i++) {
        const char *name = curves->names[i];
        if (strncmp(name, curves->names[0], prefix) != 0 ||
            !icl_parse_number(name + prefix, strlen(name + prefix), &curves->places[i]))
            return false;
        least = fmin(least, curves->places[i]);
        largest = fmax(largest, curves->places[i]);
    }
    curves->figure.log_x = least > 0 && largest >= LOGARITHMIC_SPAN * least;
    return true;
}

/* Places the names: as numbers, without the first `prefix` bytes if all names share them, on a logarithmic axis if they
 * are far apart; otherwise as words from 0 on. Returns whether they are numbers. */
static bool place_names(icl_curves *curves, size_t prefix) {
    if (read_places(curves, prefix))
        return true;
    for (size_t i = 0; i < curves->place_count; i++)
        curves->places[i] = (double)i;
    curves->figure.x_names = curves->names;
    curves->figure.x_name_count = curves->place_count;
    return false;
}

/* ---- Grids of evaluations ---- */

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

    ICL_CHECK(reserve_places(curves, icl_evaluation_grid_values(grid, 0), error));
    for (size_t i = 0; i < curves->place_count; i++)
        curves->names[i] = value_of(grid, 0, i);
    prefix = place_names(curves, (size_t)prefix) ? prefix : 0;
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

/* ---- The report of a grid ---- */

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

/* ---- Sweeps ---- */

#define ERRORS_FIGURE "errors"

/* The most curves that can be told apart. */
#define MOST_CURVES 8

/* The most keys of a row, which has up to seven other columns. */
enum { MOST_AXES = ICL_REPORT_MAX_COLUMNS - 7 };

typedef struct reporting {
    const icl_sweep_report *params;
    const icl_sweep *sweep;
    const icl_sweep_result *results;
    icl_sweep_points points;
    size_t axes, shown; /* keys without a repeated seed; those that fit in a table */
    bool has_accuracy;  /* the task has one */
    icl_report *report;
} reporting;

static const char *error_name(const reporting *r) {
    return r->points.is_adjusted ? "half adjusted loss" : "error on fresh sequences";
}

/* ---- The picture of a sweep ---- */

/* Returns a point of the grid. Points are row by row: each value of the first key has `stride` of them, one for each
 * curve. */
static const icl_sweep_point *point_of(const reporting *r, size_t stride, size_t curve, size_t at) {
    return &r->points.of[at * stride + curve];
}

/* Begins the curve, named by all keys but the first: "task.noise = fixed:1, model.heads = 2". */
static icl_status begin_curve(const reporting *r, size_t cell, icl_curves *curves, icl_error *error) {
    char label[ICL_CURVE_LABEL] = "the model";
    size_t used = 0;

    for (size_t axis = 1; axis < r->axes && used < sizeof label; axis++)
        used += (size_t)snprintf(label + used, sizeof label - used, "%s%s = %s", axis > 1 ? ", " : "",
                                 icl_sweep_axis(r->sweep, axis), icl_sweep_value(r->sweep, cell, axis));
    return icl_curves_begin(curves, ICL_SERIES_OURS, error, "%s", label);
}

/* Counts the values of the first key, which change slowest. */
static size_t count_values(const reporting *r) {
    size_t count = 1;

    for (size_t i = 1; i < r->points.count; i++)
        count += strcmp(icl_sweep_value(r->sweep, r->points.of[i].cell, 0),
                        icl_sweep_value(r->sweep, r->points.of[i - 1].cell, 0)) != 0;
    return count;
}

static icl_status add_curves(const reporting *r, size_t stride, icl_curves *curves, icl_error *error) {
    const size_t length = r->points.count / stride;

    ICL_CHECK(reserve_places(curves, length, error));
    for (size_t i = 0; i < length; i++)
        curves->names[i] = icl_sweep_value(r->sweep, point_of(r, stride, 0, i)->cell, 0);
    place_names(curves, 0);
    for (size_t curve = 0; curve < stride && curve < MOST_CURVES; curve++) {
        ICL_CHECK(begin_curve(r, point_of(r, stride, curve, 0)->cell, curves, error));
        for (size_t i = 0; i < length; i++) {
            const icl_sweep_point *point = point_of(r, stride, curve, i);
            ICL_CHECK(icl_curves_measured(curves, curves->places[i], point->error, point->se, error));
        }
    }
    return icl_curves_fill(curves, error);
}

static bool spans_a_decade(const reporting *r) {
    double least = (double)INFINITY, most = 0;

    for (size_t i = 0; i < r->points.count; i++)
        if (r->points.of[i].error > 0) {
            least = fmin(least, r->points.of[i].error);
            most = fmax(most, r->points.of[i].error);
        }
    return most > 10 * least;
}

static icl_status add_picture(const reporting *r, icl_error *error) {
    const icl_drawing drawing = {
        .folder = r->params->folder, .command = "iclab sweep", .draw = r->params->draw, .user = r->params->user};
    const size_t stride = r->points.count / count_values(r);
    icl_curves curves =
        ICL_CURVES(.name = ERRORS_FIGURE, .title = "What the trained models come to",
                   .x_label = icl_sweep_axis(r->sweep, 0), .y_label = error_name(r), .log_y = spans_a_decade(r));
    icl_text caption = {0};
    icl_status status = ICL_OK;

    ICL_TRY(add_curves(r, stride, &curves, error));
    ICL_TRY(icl_figure_write(&drawing, &curves.figure, error));
    ICL_TRY(icl_text_print(&caption, error, "Bars are standard errors%s. Data: errors.csv; every cell: table.csv.",
                           icl_sweep_seeds(r->sweep) > 1 ? " over seeds" : ""));
    if (curves.curve_count < stride)
        ICL_TRY(icl_text_print(&caption, error, " The first %zu of %zu curves.", curves.curve_count, stride));
    ICL_TRY(icl_report_picture(r->report, r->params->folder, ERRORS_FIGURE, caption.bytes, error));
done:
    icl_text_release(&caption);
    icl_curves_release(&curves);
    return status;
}

/* ---- Tables ---- */

static size_t add_axis_columns(const reporting *r, icl_report_column *columns) {
    for (size_t axis = 0; axis < r->shown; axis++)
        columns[axis] = (icl_report_column){icl_sweep_axis(r->sweep, axis), false};
    return r->shown;
}

static size_t add_axis_cells(const reporting *r, size_t cell, const char **cells) {
    for (size_t axis = 0; axis < r->shown; axis++)
        cells[axis] = icl_sweep_value(r->sweep, cell, axis);
    return r->shown;
}

/* Returns the mean over a point's cells; NaN if all of them diverged. */
static double accuracy_of(const reporting *r, const icl_sweep_point *point) {
    double sum = 0;

    for (size_t i = point->cell; i < point->cell + point->seeds; i++)
        sum += r->results[i].diverged ? 0 : r->results[i].accuracy;
    return sum / (double)(point->seeds - point->diverged);
}

static icl_status add_point(const reporting *r, const icl_sweep_point *point, icl_report_tone tone, icl_error *error) {
    const char *cells[ICL_REPORT_MAX_COLUMNS];
    char seeds[24], diverged[24], texts[4][16];
    size_t at = add_axis_cells(r, point->cell, cells);

    snprintf(seeds, sizeof seeds, "%zu", point->seeds);
    snprintf(diverged, sizeof diverged, "%zu", point->diverged);
    cells[at++] = seeds;
    cells[at++] = diverged;
    cells[at++] = icl_loss_text(point->error, texts[0]);
    cells[at++] = icl_loss_text(point->se, texts[1]);
    if (r->has_accuracy)
        cells[at++] = icl_loss_text(accuracy_of(r, point), texts[2]);
    cells[at] = icl_loss_text(point->final_loss, texts[3]);
    return icl_report_table_row(r->report, tone, cells, error);
}

/* Adds means over seeds, or the cells themselves if there are no seeds. */
static icl_status add_points(const reporting *r, icl_error *error) {
    icl_report_column columns[ICL_REPORT_MAX_COLUMNS];
    size_t at = add_axis_columns(r, columns);

    columns[at++] = (icl_report_column){"seeds", true};
    columns[at++] = (icl_report_column){"diverged", true};
    columns[at++] = (icl_report_column){error_name(r), true};
    columns[at++] = (icl_report_column){"\u00b1", true};
    if (r->has_accuracy)
        columns[at++] = (icl_report_column){"accuracy", true};
    columns[at++] = (icl_report_column){"training loss at the end", true};
    ICL_CHECK(icl_report_section(r->report, "Points of the grid", error));
    ICL_CHECK(icl_report_table_begin(r->report, columns, at, error));
    for (size_t i = 0; i < r->points.count; i++)
        ICL_CHECK(add_point(r, &r->points.of[i],
                            i == r->points.best            ? ICL_TONE_STRONG
                            : r->points.of[i].diverged > 0 ? ICL_TONE_BAD
                                                           : ICL_TONE_PLAIN,
                            error));
    return icl_report_table_end(r->report, error);
}

static icl_status add_cell(const reporting *r, size_t cell, icl_error *error) {
    const icl_sweep_result *result = &r->results[cell];
    const char *cells[ICL_REPORT_MAX_COLUMNS], *links[ICL_REPORT_MAX_COLUMNS] = {NULL};
    char steps[24], seconds[24], texts[3][16], *name = NULL, *folder = NULL, *path = NULL;
    icl_text link = {0};
    icl_status status = ICL_OK;
    size_t at = add_axis_cells(r, cell, cells);

    ICL_TRY(icl_sweep_cell_name(r->sweep, cell, &name, error));
    ICL_TRY(icl_path_join(r->params->folder, name, &folder, error));
    ICL_TRY(icl_path_join(folder, ICL_REPORT_FILE, &path, error));
    ICL_TRY(icl_text_print(&link, error, "%s/" ICL_REPORT_FILE, name));
    snprintf(steps, sizeof steps, "%" PRIu64, result->steps);
    icl_print(seconds, sizeof seconds, "%.3g", result->seconds);
    if (icl_sweep_seeds(r->sweep) > 1)
        cells[at++] = icl_sweep_value(r->sweep, cell, r->axes);
    cells[at++] = icl_loss_text(r->points.is_adjusted ? 0.5 * result->adjusted : result->mse, texts[0]);
    if (r->has_accuracy)
        cells[at++] = icl_loss_text(result->accuracy, texts[2]);
    cells[at++] = icl_loss_text(result->final_loss, texts[1]);
    cells[at++] = steps;
    cells[at++] = seconds;
    cells[at] = result->diverged ? "diverged" : icl_path_exists(path) ? "report" : "none";
    links[at] = icl_path_exists(path) ? link.bytes : NULL;
    ICL_TRY(
        icl_report_table_linked_row(r->report, result->diverged ? ICL_TONE_BAD : ICL_TONE_PLAIN, cells, links, error));
done:
    icl_text_release(&link);
    icl_text_free(&path);
    icl_text_free(&folder);
    icl_text_free(&name);
    return status;
}

static icl_status add_cells(const reporting *r, icl_error *error) {
    icl_report_column columns[ICL_REPORT_MAX_COLUMNS];
    size_t at = add_axis_columns(r, columns);

    if (icl_sweep_seeds(r->sweep) > 1)
        columns[at++] = (icl_report_column){"seed", true};
    columns[at++] = (icl_report_column){error_name(r), true};
    if (r->has_accuracy)
        columns[at++] = (icl_report_column){"accuracy", true};
    columns[at++] = (icl_report_column){"training loss at the end", true};
    columns[at++] = (icl_report_column){"steps", true};
    columns[at++] = (icl_report_column){"seconds", true};
    columns[at++] = (icl_report_column){"report", false};
    ICL_CHECK(icl_report_section(r->report, "Cells", error));
    ICL_CHECK(icl_report_table_begin(r->report, columns, at, error));
    for (size_t cell = 0; cell < icl_sweep_cells(r->sweep); cell++)
        ICL_CHECK(add_cell(r, cell, error));
    return icl_report_table_end(r->report, error);
}

/* ---- The report of a sweep ---- */

/* Writes "12 cells, 3 seeds a point. The best: model.layers = 3, with a half adjusted loss of 0.05 ± 0.001." */
static icl_status write_lead(const reporting *r, icl_text *lead, icl_error *error) {
    const icl_sweep_point *best = r->points.best < r->points.count ? &r->points.of[r->points.best] : NULL;
    char texts[2][16];

    ICL_CHECK(icl_text_print(lead, error, "%zu cells, %zu at each point of the grid.", icl_sweep_cells(r->sweep),
                             icl_sweep_seeds(r->sweep)));
    if (!best)
        return icl_text_print(lead, error, " No point is without a cell that diverged.");
    ICL_CHECK(icl_text_print(lead, error, " The best:"));
    for (size_t axis = 0; axis < r->axes; axis++)
        ICL_CHECK(icl_text_print(lead, error, "%s %s = %s", axis > 0 ? "," : "", icl_sweep_axis(r->sweep, axis),
                                 icl_sweep_value(r->sweep, best->cell, axis)));
    ICL_CHECK(icl_text_print(lead, error, "; %s %s \u00b1 %s.", error_name(r), icl_loss_text(best->error, texts[0]),
                             icl_loss_text(best->se, texts[1])));
    if (r->points.close > 0)
        ICL_CHECK(icl_text_print(lead, error, " %zu other%s not clearly worse: by 2 standard errors at most.",
                                 r->points.close, r->points.close == 1 ? " is" : "s are"));
    return ICL_OK;
}

static icl_status write_report(reporting *r, icl_error *error) {
    const icl_report_fact facts[] = {{"command", r->params->command_line ? r->params->command_line : ""},
                                     {"recipe", icl_sweep_recipe_name(r->sweep)},
                                     {"devices", "those of the cells: their reports say which"}};
    icl_text lead = {0}, title = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_report_create(&r->report, error));
    if (r->axes > 0)
        ICL_TRY(add_picture(r, error));
    ICL_TRY(add_points(r, error));
    ICL_TRY(add_cells(r, error));
    ICL_TRY(icl_report_provenance(r->report, &(icl_provenance){.facts = facts, .count = sizeof facts / sizeof *facts},
                                  error));
    ICL_TRY(write_lead(r, &lead, error));
    ICL_TRY(icl_text_print(&title, error, "A sweep of %s", icl_path_name(icl_sweep_recipe_name(r->sweep))));
    ICL_TRY(icl_report_write(r->report, title.bytes, lead.bytes, r->params->folder, error));
done:
    icl_text_release(&lead);
    icl_text_release(&title);
    icl_report_destroy(&r->report);
    return status;
}

icl_status icl_sweep_report_write(const icl_sweep_report *params, const icl_sweep_result *results, icl_error *error) {
    reporting r = {.params = params, .sweep = params->sweep, .results = results};
    icl_status status = ICL_OK;

    r.axes = icl_sweep_axes(params->sweep) - (icl_sweep_seeds(params->sweep) > 1);
    r.shown = r.axes < MOST_AXES ? r.axes : MOST_AXES;
    for (size_t cell = 0; cell < icl_sweep_cells(params->sweep); cell++)
        r.has_accuracy = r.has_accuracy || !isnan(results[cell].accuracy);
    ICL_TRY(icl_sweep_find_points(params->sweep, results, &r.points, error));
    ICL_TRY(write_report(&r, error));
done:
    icl_sweep_free_points(&r.points);
    return status;
}

/* ---- The report of a cell ---- */

icl_status icl_sweep_cell_report_write(const icl_sweep_report *params, const icl_backend *backend, size_t cell,
                                       const char *folder, const icl_sweep_result *result, icl_error *error) {
    const double nan = (double)NAN;
    icl_recipe *recipe = NULL;
    icl_task *task = NULL;
    icl_status status = ICL_OK;

    if (result->diverged)
        return ICL_OK;
    ICL_TRY(icl_sweep_cell_recipe(params->sweep, cell, &recipe, error));
    ICL_TRY(icl_task_create(recipe, &task, error));
    const bool is_text = icl_task_get_text(task) != NULL;
    icl_score score = {.predictor = "model",
                       .loss_kind = icl_task_get_shape(task)->loss,
                       .mse = result->mse,
                       .se = result->se,
                       .accuracy = result->accuracy,
                       .bits_per_byte = is_text ? result->mse / log(2) : nan,
                       .bits_per_byte_se = is_text ? result->se / log(2) : nan,
                       .minus_model = nan,
                       .minus_model_se = nan,
                       .half_minus_model = nan,
                       .half_minus_model_se = nan,
                       .adjusted = result->adjusted,
                       .adjusted_se = result->adjusted_se,
                       .half_adjusted = 0.5 * result->adjusted,
                       .half_adjusted_se = 0.5 * result->adjusted_se,
                       .half_above_bayes = nan,
                       .adjusted_median = nan,
                       .adjusted_trimmed = nan};
    const icl_evaluation evaluation = {
        .count = 1, .scores = &score, .sequences = icl_evaluation_read(recipe).sequences};
    const icl_run_facts facts = {.device = icl_backend_capabilities(backend),
                                 .recipe_name = icl_sweep_recipe_name(params->sweep),
                                 .command_line = params->command_line,
                                 .seed = (uint32_t)icl_train_keys_read(recipe).seed,
                                 .steps = result->steps,
                                 .skipped_steps = result->skipped_steps,
                                 .training_seconds = result->seconds};
    ICL_TRY(icl_run_report_write(&(icl_run_report){.folder = folder,
                                                   .recipe = recipe,
                                                   .facts = &facts,
                                                   .evaluation = &evaluation,
                                                   .draw = params->draw,
                                                   .user = params->user},
                                 error));
done:
    icl_task_destroy(&task);
    icl_recipe_destroy(&recipe);
    return status;
}
