/* The pictures and the report of an evaluation grid. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/number.h"
#include "iclab/run_report.h"
#include "iclab/text.h"
#include "report/report.h"
#include "run/evaluation_text.h"

#define LOSS_FIGURE      "loss"
#define MAP_FIGURE       "map"
#define POSITIONS_FIGURE "curves" /* positions.csv is the table of every predictor */

/* A loss this much smaller than the largest is one of rounding errors, and would flatten all others. */
#define LEAST_SHARE 1e-6

/* Values of a key so much apart get a logarithmic axis. */
#define LOGARITHMIC_SPAN 50

static const char *unit_of(const icl_evaluation_grid *grid) {
    const icl_loss_kind kind = icl_evaluation_grid_score(grid, 0, 0)->loss_kind;
    return kind == ICL_LOSS_SQUARED_ERROR ? "squared error (squares of y's unit)" : icl_loss_name(kind);
}

/* ---- Values of a key ---- */

/* The cell with a value of the one key, and the first of the other. */
static size_t cell_of(const icl_evaluation_grid *grid, size_t axis, size_t value) {
    return axis + 1 == icl_evaluation_grid_axes(grid) ? value : value * icl_evaluation_grid_values(grid, axis + 1);
}

static const char *value_of(const icl_evaluation_grid *grid, size_t axis, size_t value) {
    return icl_evaluation_grid_value(grid, cell_of(grid, axis, value), axis);
}

/* Where the values of a key stand on an axis: as numbers, or behind a word that they share, fixed:1; else words from 0
 * on. */
typedef struct places {
    double *x;          /* [count] */
    const char **names; /* [count]; NULL: numbers */
    size_t count;
    int prefix; /* bytes of what the values share */
    bool is_wide;
} places;

static void release_places(places *p) {
    icl_free(&p->x);
    icl_free(&p->names);
}

static bool read_numbers(const icl_evaluation_grid *grid, size_t axis, places *p) {
    const char *first = value_of(grid, axis, 0), *colon = strchr(first, ':');
    double least = (double)INFINITY, largest = -(double)INFINITY;

    p->prefix = colon ? (int)(colon - first) + 1 : 0;
    for (size_t i = 0; i < p->count; i++) {
        const char *value = value_of(grid, axis, i);
        if (strncmp(value, first, (size_t)p->prefix) != 0 ||
            !icl_parse_number(value + p->prefix, strlen(value + p->prefix), &p->x[i]))
            return false;
        least = fmin(least, p->x[i]);
        largest = fmax(largest, p->x[i]);
    }
    p->is_wide = least > 0 && largest >= LOGARITHMIC_SPAN * least;
    return true;
}

static icl_status place_values(const icl_evaluation_grid *grid, size_t axis, places *p, icl_error *error) {
    p->count = icl_evaluation_grid_values(grid, axis);
    ICL_CHECK(icl_allocate(p->count, sizeof *p->x, "values of a key", &p->x, error));
    if (read_numbers(grid, axis, p))
        return ICL_OK;
    ICL_CHECK(icl_allocate(p->count, sizeof(const char *), "values of a key", &p->names, error));
    for (size_t i = 0; i < p->count; i++) {
        p->x[i] = (double)i;
        p->names[i] = value_of(grid, axis, i);
    }
    p->prefix = 0;
    return ICL_OK;
}

/* ---- Curves ---- */

typedef struct curves {
    icl_series *series; /* [count] */
    double *values;     /* [count][2][points]: y, then standard errors */
    char (*labels)[96]; /* [count] */
    size_t count, points;
} curves;

static void release_curves(curves *c) {
    icl_free(&c->series);
    icl_free(&c->values);
    icl_free(&c->labels);
}

static icl_status create_curves(size_t count, size_t points, curves *c, icl_error *error) {
    c->count = count;
    c->points = points;
    ICL_CHECK(icl_allocate(count, sizeof *c->series, "curves", &c->series, error));
    ICL_CHECK(icl_allocate(count, 2 * points * sizeof *c->values, "curves", &c->values, error));
    return icl_allocate(count, sizeof *c->labels, "names of curves", &c->labels, error);
}

static double *y_of(const curves *c, size_t curve) {
    return c->values + 2 * curve * c->points;
}

static void set_point(const curves *c, size_t curve, size_t point, const icl_score *score) {
    y_of(c, curve)[point] = score ? score->mse : (double)NAN;
    y_of(c, curve)[c->points + point] = score ? score->se : (double)NAN;
}

static icl_status draw_curves(const icl_grid_report *of, const icl_drawing *drawing, const char *name,
                              const char *title, const char *x_label, const curves *c, const places *at,
                              icl_error *error) {
    double least = (double)INFINITY, largest = 0;
    icl_figure figure = {
        .name = name, .title = title, .x_label = x_label, .y_label = unit_of(of->grid), .count = c->count};

    for (size_t i = 0; i < c->count; i++)
        for (size_t p = 0; p < c->points; p++)
            if (y_of(c, i)[p] > 0) {
                least = fmin(least, y_of(c, i)[p]);
                largest = fmax(largest, y_of(c, i)[p]);
            }
    figure.log_y = largest > 10 * least;
    figure.least_y = least < LEAST_SHARE * largest ? LEAST_SHARE * largest : 0;
    figure.series = c->series;
    if (at) {
        figure.log_x = at->is_wide;
        figure.x_names = at->names;
        figure.x_name_count = at->count;
    }
    return icl_figure_write(drawing, &figure, error);
}

/* "task.noise = fixed:", where the numbers behind it stand on the axis. */
static void write_axis_label(const icl_evaluation_grid *grid, const places *at, char label[128]) {
    snprintf(label, 128, "%s%s%.*s", icl_evaluation_grid_axis(grid, 0), at->prefix > 0 ? " = " : "", at->prefix,
             value_of(grid, 0, 0));
}

/* Over the first key: every predictor; or, of two keys, the model with each value of the second. */
static icl_status draw_losses(const icl_grid_report *of, const icl_drawing *drawing, icl_error *error) {
    const icl_evaluation_grid *grid = of->grid;
    const size_t points = icl_evaluation_grid_values(grid, 0), columns = icl_evaluation_grid_cells(grid) / points;
    const bool both = icl_evaluation_grid_axes(grid) > 1;
    icl_status status = ICL_OK;
    places at = {0};
    curves c = {0};
    char label[128];

    ICL_TRY(place_values(grid, 0, &at, error));
    ICL_TRY(create_curves(both ? columns : icl_evaluation_grid_predictors(grid), points, &c, error));
    for (size_t i = 0; i < c.count; i++) {
        const bool ours = both || i == 0;
        for (size_t p = 0; p < points; p++)
            set_point(&c, i, p, icl_evaluation_grid_score(grid, p * columns + (both ? i : 0), both ? 0 : i));
        if (both)
            snprintf(c.labels[i], sizeof c.labels[i], "%s = %s", icl_evaluation_grid_axis(grid, 1),
                     value_of(grid, 1, i));
        c.series[i] = (icl_series){both ? c.labels[i] : icl_evaluation_grid_predictor(grid, i),
                                   ours ? ICL_SERIES_OURS : ICL_SERIES_REFERENCE,
                                   points,
                                   at.x,
                                   y_of(&c, i),
                                   y_of(&c, i) + points};
    }
    write_axis_label(grid, &at, label);
    ICL_TRY(draw_curves(of, drawing, LOSS_FIGURE, both ? "The model's loss" : "Loss of the model and the predictors",
                        label, &c, &at, error));
done:
    release_places(&at);
    release_curves(&c);
    return status;
}

/* The model's loss at every position, a curve for each value of the only key. */
static icl_status draw_positions(const icl_grid_report *of, const icl_drawing *drawing, icl_error *error) {
    const icl_evaluation_grid *grid = of->grid;
    const size_t cells = icl_evaluation_grid_cells(grid);
    size_t points = 0;
    icl_status status = ICL_OK;
    double *x = NULL;
    curves c = {0};

    for (size_t cell = 0; cell < cells; cell++) {
        const size_t count = icl_evaluation_grid_score(grid, cell, 0)->position_count;
        points = count > points ? count : points;
    }
    ICL_TRY(create_curves(cells, points, &c, error));
    ICL_TRY(icl_allocate(cells, points * sizeof *x, "positions", &x, error));
    for (size_t cell = 0; cell < cells; cell++) {
        const icl_score *model = icl_evaluation_grid_score(grid, cell, 0);
        for (size_t p = 0; p < model->position_count; p++) {
            x[cell * points + p] = (double)model->positions[p].position;
            y_of(&c, cell)[p] = model->positions[p].loss;
            y_of(&c, cell)[points + p] = model->positions[p].se;
        }
        snprintf(c.labels[cell], sizeof c.labels[cell], "%s = %s", icl_evaluation_grid_axis(grid, 0),
                 value_of(grid, 0, cell));
        c.series[cell] = (icl_series){c.labels[cell],    ICL_SERIES_OURS, model->position_count,
                                      x + cell * points, y_of(&c, cell),  y_of(&c, cell) + points};
    }
    ICL_TRY(draw_curves(of, drawing, POSITIONS_FIGURE, "The model's loss by position", "position", &c, NULL, error));
done:
    icl_free(&x);
    release_curves(&c);
    return status;
}

static bool has_positions(const icl_evaluation_grid *grid) {
    bool has = icl_evaluation_grid_axes(grid) == 1;
    for (size_t cell = 0; cell < icl_evaluation_grid_cells(grid) && has; cell++)
        has = icl_evaluation_grid_score(grid, cell, 0)->position_count > 0;
    return has;
}

/* ---- The heat map ---- */

/* The model's loss by both keys. */
static icl_status draw_map(const icl_grid_report *of, const icl_drawing *drawing, icl_error *error) {
    const icl_evaluation_grid *grid = of->grid;
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

static icl_status add_pictures(const icl_grid_report *of, icl_report *report, icl_error *error) {
    const icl_drawing drawing = {
        .folder = of->folder, .command = "iclab eval --over", .draw = of->draw, .user = of->user};
    const bool both = icl_evaluation_grid_axes(of->grid) > 1;

    ICL_CHECK(icl_report_section(report, "Pictures", error));
    if (both) {
        ICL_CHECK(draw_map(of, &drawing, error));
        ICL_CHECK(icl_report_picture(report, of->folder, MAP_FIGURE, "By both keys. Data: map-1.csv.", error));
    }
    ICL_CHECK(draw_losses(of, &drawing, error));
    ICL_CHECK(icl_report_picture(report, of->folder, LOSS_FIGURE,
                                 "Bars are standard errors of the model's loss. Data: loss.csv; everything: table.csv.",
                                 error));
    if (!has_positions(of->grid))
        return ICL_OK;
    ICL_CHECK(draw_positions(of, &drawing, error));
    return icl_report_picture(
        report, of->folder, POSITIONS_FIGURE,
        "The model at every scored position. Data: curves.csv; the predictors', too: positions.csv.", error);
}

static icl_status add_row(const icl_grid_report *of, size_t cell, size_t shown, icl_report *report, icl_error *error) {
    const size_t axes = icl_evaluation_grid_axes(of->grid);
    char texts[ICL_REPORT_MAX_COLUMNS][16];
    const char *cells[ICL_REPORT_MAX_COLUMNS];
    size_t at = 0;

    for (; at < axes; at++)
        cells[at] = icl_evaluation_grid_value(of->grid, cell, at);
    for (size_t i = 0; i < shown; i++, at++) {
        const icl_score *score = icl_evaluation_grid_score(of->grid, cell, i);
        cells[at] = icl_loss_text(score ? score->mse : (double)NAN, texts[at]);
        if (i == 0) {
            at++;
            cells[at] = icl_loss_text(score->se, texts[at]);
        }
    }
    return icl_report_table_row(report, ICL_TONE_PLAIN, cells, error);
}

/* As many predictors as a report's table has columns for. */
static icl_status add_table(const icl_grid_report *of, icl_report *report, icl_error *error) {
    const size_t axes = icl_evaluation_grid_axes(of->grid), room = ICL_REPORT_MAX_COLUMNS - axes - 1;
    const size_t all = icl_evaluation_grid_predictors(of->grid), shown = all < room ? all : room;
    icl_report_column columns[ICL_REPORT_MAX_COLUMNS] = {{0}};
    size_t at = 0;

    for (; at < axes; at++)
        columns[at] = (icl_report_column){icl_evaluation_grid_axis(of->grid, at), false};
    for (size_t i = 0; i < shown; i++) {
        columns[at++] = (icl_report_column){icl_evaluation_grid_predictor(of->grid, i), true};
        if (i == 0)
            columns[at++] = (icl_report_column){"\u00b1", true};
    }
    ICL_CHECK(icl_report_section(report, "Losses", error));
    ICL_CHECK(icl_report_table_begin(report, columns, at, error));
    for (size_t cell = 0; cell < icl_evaluation_grid_cells(of->grid); cell++)
        ICL_CHECK(add_row(of, cell, shown, report, error));
    ICL_CHECK(icl_report_table_end(report, error));
    return icl_report_paragraph(report,
                                shown < all ? "\u00b1 is one standard error of the model's. More predictors: table.csv."
                                            : "\u00b1 is one standard error of the model's; the others' stand in "
                                              "table.csv.",
                                error);
}

static icl_status add_facts(const icl_grid_report *of, icl_report *report, icl_error *error) {
    char seed[16];

    snprintf(seed, sizeof seed, "%" PRIu32, of->facts->seed);
    const icl_report_fact rows[] = {
        {"command", of->facts->command_line ? of->facts->command_line : ""},
        {"recipe", of->facts->recipe_name},
        {"seed of training", seed},
    };
    return icl_report_provenance(
        report, &(icl_provenance){.facts = rows, .count = sizeof rows / sizeof *rows, .device = of->facts->device},
        error);
}

static icl_status write_title(const icl_grid_report *of, icl_text *title, icl_error *error) {
    const icl_evaluation_grid *grid = of->grid;
    const bool both = icl_evaluation_grid_axes(grid) > 1;
    return icl_text_print(title, error, "%s over %s%s%s", icl_path_name(of->facts->recipe_name),
                          icl_evaluation_grid_axis(grid, 0), both ? " and " : "",
                          both ? icl_evaluation_grid_axis(grid, 1) : "");
}

icl_status icl_grid_report_write(const icl_grid_report *of, icl_error *error) {
    const uint64_t sequences = icl_evaluation_grid_sequences(of->grid);
    icl_report *report = NULL;
    icl_text lead = {0}, title = {0};
    char *path = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_report_create(&report, error));
    ICL_TRY(add_pictures(of, report, error));
    ICL_TRY(add_table(of, report, error));
    ICL_TRY(add_facts(of, report, error));
    ICL_TRY(write_title(of, &title, error));
    ICL_TRY(icl_text_print(&lead, error, "The trained model and the reference predictors on %zu tasks, ",
                           icl_evaluation_grid_cells(of->grid)));
    ICL_TRY(sequences > 0 ? icl_text_print(&lead, error, "%" PRIu64 " fresh sequences of each.", sequences)
                          : icl_text_print(&lead, error, "on fresh sequences of each."));
    ICL_TRY(icl_path_join(of->folder, ICL_REPORT_FILE, &path, error));
    ICL_TRY(icl_report_write(report, title.bytes, lead.bytes, path, error));
done:
    icl_free(&path);
    icl_text_release(&title);
    icl_text_release(&lead);
    icl_report_destroy(&report);
    return status;
}
