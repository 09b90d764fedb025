/* The reports of a sweep and of its cells. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "iclab/file.h"
#include "iclab/text.h"
#include "report/curves.h"
#include "report/report.h"
#include "run/evaluation.h"
#include "run/recipe_keys.h"
#include "train/settings.h"

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

/* ---- The picture ---- */

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

    ICL_CHECK(icl_curves_reserve_places(curves, length, error));
    for (size_t i = 0; i < length; i++)
        curves->names[i] = icl_sweep_value(r->sweep, point_of(r, stride, 0, i)->cell, 0);
    icl_curves_place(curves, 0);
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

/* ---- The whole ---- */

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

/* ---- A cell ---- */

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
