/* Results of a sweep: the points of its grid, and tables of them and of the cells, as text for people, CSV and lines
 * of JSON. */
#include "run/sweep/sweep.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "iclab/json.h"
#include "iclab/text.h"
#include "numeric/statistics.h"

/* ---- Points of a grid but for the seed ---- */

static double error_of(const icl_sweep_result *result, bool is_adjusted) {
    return is_adjusted ? 0.5 * result->adjusted : result->mse;
}

/* Returns whether every cell that did not diverge has a distance to the oracle. */
static bool has_adjusted(const icl_sweep *sweep, const icl_sweep_result *results) {
    size_t used = 0;

    for (size_t cell = 0; cell < icl_sweep_cells(sweep); cell++) {
        if (!results[cell].diverged && isnan(results[cell].adjusted))
            return false;
        used += !results[cell].diverged;
    }
    return used > 0;
}

/* A point with a single seed takes the standard error of that cell's evaluation. */
static void summarize_point(const icl_sweep_result *results, bool is_adjusted, double *values, icl_sweep_point *point) {
    double losses = 0;
    size_t used = 0;

    for (size_t i = 0; i < point->seeds; i++) {
        point->diverged += results[i].diverged;
        if (results[i].diverged)
            continue;
        losses += results[i].final_loss;
        values[used++] = error_of(&results[i], is_adjusted);
    }
    point->error = used > 0 ? icl_mean(values, used) : (double)NAN;
    point->final_loss = used > 0 ? losses / (double)used : (double)NAN;
    if (point->seeds > 1)
        point->se = used > 1 ? icl_standard_error(values, used) : (double)NAN;
    else
        point->se = is_adjusted ? 0.5 * results->adjusted_se : results->se;
}

static size_t count_close(const icl_sweep_points *points) {
    const icl_sweep_point *best = &points->of[points->best];
    size_t count = 0;

    for (size_t i = 0; i < points->count; i++)
        count += i != points->best && points->of[i].diverged == 0 &&
                 points->of[i].error - best->error <= 2 * hypot(points->of[i].se, best->se);
    return count;
}

icl_status icl_sweep_find_points(const icl_sweep *sweep, const icl_sweep_result *results, icl_sweep_points *points,
                                 icl_error *error) {
    const size_t seeds = icl_sweep_seeds(sweep);
    icl_status status = ICL_OK;
    double *values = NULL;

    *points = (icl_sweep_points){.count = icl_sweep_cells(sweep) / seeds, .is_adjusted = has_adjusted(sweep, results)};
    points->best = points->count;
    ICL_TRY(icl_allocate(points->count, sizeof *points->of, "points of a sweep", &points->of, error));
    ICL_TRY(icl_allocate(seeds, sizeof *values, "errors of seeds", &values, error));
    for (size_t i = 0; i < points->count; i++) {
        icl_sweep_point *point = &points->of[i];
        *point = (icl_sweep_point){.cell = i * seeds, .seeds = seeds};
        summarize_point(results + point->cell, points->is_adjusted, values, point);
        if (point->diverged == 0 && isfinite(point->error) &&
            (points->best == points->count || point->error < points->of[points->best].error))
            points->best = i;
    }
    if (points->best < points->count)
        points->close = count_close(points);
done:
    icl_free(&values);
    return status;
}

void icl_sweep_free_points(icl_sweep_points *points) {
    icl_free(&points->of);
}

/* ---- Results as text ---- */

/* The optional columns of a sweep. Cells that diverged have no say; if all diverged, the distance to the oracle keeps
 * its column. */
typedef struct numbers {
    bool is_loss; /* as in icl_sweep_result */
    bool has_accuracy, has_adjusted;
} numbers;

static numbers find_numbers(const icl_sweep *sweep, const icl_sweep_result *results) {
    numbers found = {.is_loss = false};
    bool has_other = false;

    for (size_t cell = 0; cell < icl_sweep_cells(sweep); cell++) {
        if (results[cell].diverged)
            continue;
        found.is_loss = found.is_loss || results[cell].is_loss;
        found.has_accuracy = found.has_accuracy || !isnan(results[cell].accuracy);
        found.has_adjusted = found.has_adjusted || !isnan(results[cell].adjusted);
        has_other = has_other || isnan(results[cell].adjusted);
    }
    found.has_adjusted = found.has_adjusted || !has_other;
    return found;
}

enum { MOST_NUMBERS = 10 };

typedef struct column {
    char name[32];
    double value;
    bool is_count;
} column;

typedef struct row {
    const icl_sweep *sweep;
    size_t cell; /* any of the cells that it sums up */
    size_t axes; /* the number of axes whose values it shows */
    size_t count;
    column columns[MOST_NUMBERS];
} row;

static void add_column(row *line, bool is_count, double value, const char *before, const char *name) {
    column *added = &line->columns[line->count++];

    *added = (column){.value = value, .is_count = is_count};
    snprintf(added->name, sizeof added->name, "%s%s", before, name);
}

/* Makes the row of one cell. */
static row row_of_cell(const icl_sweep *sweep, size_t cell, const numbers *shown, const icl_sweep_result *result) {
    row line = {.sweep = sweep, .cell = cell, .axes = icl_sweep_axes(sweep)};

    add_column(&line, true, (double)result->steps, "", "steps");
    add_column(&line, true, (double)result->skipped_steps, "", "skipped_steps");
    add_column(&line, true, result->diverged, "", "diverged");
    add_column(&line, false, result->final_loss, "", "final_loss");
    add_column(&line, false, result->mse, "", shown->is_loss ? "loss" : "mse");
    add_column(&line, false, result->se, "", "se");
    if (shown->has_accuracy)
        add_column(&line, false, result->accuracy, "", "accuracy");
    if (shown->has_adjusted) {
        add_column(&line, false, 0.5 * result->adjusted, "", "half_adjusted");
        add_column(&line, false, 0.5 * result->adjusted_se, "", "half_adjusted_se");
    }
    add_column(&line, false, result->seconds, "", "seconds");
    return line;
}

/* Makes the row of one point of the grid without the seed: means and their standard errors, sd / sqrt(n), without the
 * cells that diverged; NaN if there are too few cells. values [seeds] is scratch. */
static row row_of_point(const icl_sweep *sweep, size_t cell, const numbers *shown, const icl_sweep_result *results,
                        double *values) {
    enum { QUANTITIES = 4 };
    const char *const names[QUANTITIES] = {"final_loss", shown->is_loss ? "loss" : "mse", "accuracy", "half_adjusted"};
    const bool are_shown[QUANTITIES] = {true, true, shown->has_accuracy, shown->has_adjusted};
    const size_t seeds = icl_sweep_seeds(sweep);
    row line = {.sweep = sweep, .cell = cell, .axes = icl_sweep_axes(sweep) - 1};
    size_t diverged = 0;

    for (size_t i = 0; i < seeds; i++)
        diverged += results[i].diverged;
    add_column(&line, true, (double)seeds, "", "seeds");
    add_column(&line, true, (double)diverged, "", "diverged");
    for (int quantity = 0; quantity < QUANTITIES; quantity++) {
        size_t used = 0;
        for (size_t i = 0; i < seeds; i++) {
            const double all[QUANTITIES] = {results[i].final_loss, results[i].mse, results[i].accuracy,
                                            0.5 * results[i].adjusted};
            if (!results[i].diverged)
                values[used++] = all[quantity];
        }
        if (!are_shown[quantity])
            continue;
        add_column(&line, false, used > 0 ? icl_mean(values, used) : (double)NAN, "mean_", names[quantity]);
        add_column(&line, false, used > 1 ? icl_standard_error(values, used) : (double)NAN, "se_", names[quantity]);
    }
    return line;
}

static icl_status add_csv_names(icl_text *csv, const row *line, icl_error *error) {
    for (size_t axis = 0; axis < line->axes; axis++)
        ICL_CHECK(icl_text_print(csv, error, "%s,", icl_sweep_axis(line->sweep, axis)));
    for (size_t i = 0; i < line->count; i++)
        ICL_CHECK(icl_text_print(csv, error, "%s%s", line->columns[i].name, i + 1 < line->count ? "," : "\n"));
    return ICL_OK;
}

/* A key's value is quoted if it needs quotes. */
static icl_status add_csv(icl_text *csv, const row *line, icl_error *error) {
    if (csv->length == 0)
        ICL_CHECK(add_csv_names(csv, line, error));
    for (size_t axis = 0; axis < line->axes; axis++) {
        const char *value = icl_sweep_value(line->sweep, line->cell, axis);
        ICL_CHECK(strpbrk(value, ",\" \r\n") ? icl_text_field(csv, value, ",", error)
                                             : icl_text_print(csv, error, "%s,", value));
    }
    for (size_t i = 0; i < line->count; i++)
        ICL_CHECK(icl_text_number_field(csv, line->columns[i].value, i + 1 < line->count ? "," : "\n", error));
    return ICL_OK;
}

static icl_status add_json(icl_text *lines, const row *line, const char *name, icl_error *error) {
    icl_json json = {0};
    char *text = NULL;
    icl_status status = ICL_OK;

    if (name)
        icl_json_text(&json, "cell", name);
    for (size_t axis = 0; axis < line->axes; axis++)
        icl_json_text(&json, icl_sweep_axis(line->sweep, axis), icl_sweep_value(line->sweep, line->cell, axis));
    for (size_t i = 0; i < line->count; i++)
        if (line->columns[i].is_count)
            icl_json_count(&json, line->columns[i].name, (uint64_t)line->columns[i].value);
        else
            icl_json_number(&json, line->columns[i].name, line->columns[i].value);
    ICL_TRY(icl_json_finish(&json, false, &text, error));
    ICL_TRY(icl_text_print(lines, error, "%s\n", text));
done:
    icl_free(&text);
    return status;
}

/* Returns the width of the column of an axis. */
static int axis_width(const icl_sweep *sweep, size_t axis) {
    size_t width = strlen(icl_sweep_axis(sweep, axis));

    for (size_t cell = 0; cell < icl_sweep_cells(sweep); cell++) {
        const size_t length = strlen(icl_sweep_value(sweep, cell, axis));
        width = length > width ? length : width;
    }
    return (int)width;
}

/* Adds a line for people: the names, or the values. widths [axes]. */
static icl_status add_line(icl_text *table, const row *line, const int *widths, bool is_header, icl_error *error) {
    for (size_t axis = 0; axis < line->axes; axis++)
        ICL_CHECK(icl_text_print(table, error, "%-*s  ", widths[axis],
                                 is_header ? icl_sweep_axis(line->sweep, axis)
                                           : icl_sweep_value(line->sweep, line->cell, axis)));
    for (size_t i = 0; i < line->count; i++) {
        const column *shown = &line->columns[i];
        const int length = (int)strlen(shown->name);
        char text[32] = "-";
        if (!isnan(shown->value))
            icl_print(text, sizeof text, shown->is_count ? "%.0f" : "%.4g", shown->value);
        ICL_CHECK(icl_text_print(table, error, "%*s%s", length > 9 ? length : 9, is_header ? shown->name : text,
                                 i + 1 < line->count ? "  " : "\n"));
    }
    return ICL_OK;
}

enum { TABLE = 0, CELLS_CSV, MEANS_CSV, JSON, MEANS_JSON, TEXTS };

typedef struct writer {
    icl_text texts[TEXTS];
    int *widths;    /* [axes] */
    double *values; /* [seeds], scratch */
    numbers shown;
} writer;

/* Adds a row to its three texts. */
static icl_status add_row(writer *out, const row *line, const char *name, int csv, int json, icl_error *error) {
    if (out->texts[csv].length == 0)
        ICL_CHECK(add_line(&out->texts[TABLE], line, out->widths, true, error));
    ICL_CHECK(add_line(&out->texts[TABLE], line, out->widths, false, error));
    ICL_CHECK(add_csv(&out->texts[csv], line, error));
    return add_json(&out->texts[json], line, name, error);
}

static icl_status write_cells(writer *out, const icl_sweep *sweep, const icl_sweep_result *results, icl_error *error) {
    icl_status status = ICL_OK;
    char *name = NULL;

    for (size_t cell = 0; cell < icl_sweep_cells(sweep); cell++) {
        const row line = row_of_cell(sweep, cell, &out->shown, &results[cell]);
        ICL_TRY(icl_sweep_cell_name(sweep, cell, &name, error));
        ICL_TRY(add_row(out, &line, name, CELLS_CSV, JSON, error));
        icl_free(&name);
    }
done:
    icl_free(&name);
    return status;
}

static icl_status write_means(writer *out, const icl_sweep *sweep, const icl_sweep_result *results, icl_error *error) {
    const size_t seeds = icl_sweep_seeds(sweep);

    if (seeds < 2)
        return ICL_OK;
    ICL_CHECK(icl_text_print(&out->texts[TABLE], error, "\nmeans over seeds, with their standard errors:\n"));
    for (size_t cell = 0; cell < icl_sweep_cells(sweep); cell += seeds) {
        const row line = row_of_point(sweep, cell, &out->shown, results + cell, out->values);
        ICL_CHECK(add_row(out, &line, NULL, MEANS_CSV, MEANS_JSON, error));
    }
    return ICL_OK;
}

icl_status icl_sweep_write_texts(const icl_sweep *sweep, const icl_sweep_result *results, icl_sweep_texts *texts,
                                 icl_error *error) {
    char **const taken[TEXTS] = {&texts->table, &texts->cells_csv, &texts->means_csv, &texts->json, &texts->means_json};
    icl_status status = ICL_OK;
    writer out = {.shown = find_numbers(sweep, results)};

    ICL_TRY(icl_allocate(icl_sweep_axes(sweep), sizeof *out.widths, "widths of columns", &out.widths, error));
    ICL_TRY(icl_allocate(icl_sweep_seeds(sweep), sizeof *out.values, "numbers of seeds", &out.values, error));
    for (size_t axis = 0; axis < icl_sweep_axes(sweep); axis++)
        out.widths[axis] = axis_width(sweep, axis);
    ICL_TRY(write_cells(&out, sweep, results, error));
    ICL_TRY(write_means(&out, sweep, results, error));
    for (int i = 0; i < TEXTS; i++)
        ICL_TRY(icl_duplicate(out.texts[i].bytes ? out.texts[i].bytes : "", taken[i], error));
done:
    for (int i = 0; i < TEXTS; i++)
        icl_text_release(&out.texts[i]);
    icl_free(&out.widths);
    icl_free(&out.values);
    return status;
}

void icl_sweep_free_texts(icl_sweep_texts *texts) {
    icl_free(&texts->table);
    icl_free(&texts->cells_csv);
    icl_free(&texts->means_csv);
    icl_free(&texts->json);
    icl_free(&texts->means_json);
}
