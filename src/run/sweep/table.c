/* Results of a sweep: the points of its grid, and tables of them and of the cells, as text for people, CSV and lines of JSON. */
#include "run/sweep/sweep.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "iclab/json.h"
#include "iclab/number.h"
#include "numeric/statistics.h"

/* ---- Points of a grid but for the seed ---- */

static double error_of(const icl_sweep_result *result, bool is_adjusted) {
    return is_adjusted ? 0.5 * result->adjusted : result->mse;
}

/* Every cell that did not diverge has a distance to the oracle. */
static bool has_adjusted(const icl_sweep *sweep, const icl_sweep_result *results) {
    size_t used = 0;

    for (size_t cell = 0; cell < icl_sweep_cells(sweep); cell++) {
        if (!results[cell].diverged && isnan(results[cell].adjusted))
            return false;
        used += !results[cell].diverged;
    }
    return used > 0;
}

/* Of one seed the error has the standard error of its own evaluation. */
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

typedef struct mean {
    double value, se;
} mean;

/* Of the cells of one point of the grid but for the seed, those that diverged left out. */
typedef struct point {
    size_t seeds, diverged;
    mean final_loss, mse, accuracy, half_adjusted;
} point;

/* Which numbers the cells of a sweep have. A cell that diverged tells nothing; where all did, the distance to the
 * oracle keeps its place. */
typedef struct numbers {
    bool is_loss; /* of icl_sweep_result */
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

typedef double take_number(const icl_sweep_result *result);

static double take_final_loss(const icl_sweep_result *result) {
    return result->final_loss;
}

static double take_mse(const icl_sweep_result *result) {
    return result->mse;
}

static double take_accuracy(const icl_sweep_result *result) {
    return result->accuracy;
}

static double take_half_adjusted(const icl_sweep_result *result) {
    return 0.5 * result->adjusted;
}

/* Mean and standard error, sd / sqrt(n), in new memory on the way; NaN where there is nothing to tell them from. */
static icl_status find_mean(const icl_sweep_result *results, size_t count, take_number *take, mean *found,
                            icl_error *error) {
    icl_status status = ICL_OK;
    double *values = NULL;
    size_t used = 0;

    ICL_TRY(icl_allocate(count, sizeof *values, "numbers of seeds", &values, error));
    for (size_t i = 0; i < count; i++)
        if (!results[i].diverged)
            values[used++] = take(&results[i]);
    found->value = used > 0 ? icl_mean(values, used) : (double)NAN;
    found->se = used > 1 ? icl_standard_error(values, used) : (double)NAN;
done:
    icl_free(&values);
    return status;
}

static icl_status find_point(const icl_sweep_result *results, size_t count, point *found, icl_error *error) {
    *found = (point){.seeds = count};
    for (size_t i = 0; i < count; i++)
        found->diverged += results[i].diverged;
    ICL_CHECK(find_mean(results, count, take_final_loss, &found->final_loss, error));
    ICL_CHECK(find_mean(results, count, take_mse, &found->mse, error));
    ICL_CHECK(find_mean(results, count, take_accuracy, &found->accuracy, error));
    return find_mean(results, count, take_half_adjusted, &found->half_adjusted, error);
}

enum { MOST_NUMBERS = 10 };

typedef struct column {
    const char *name;
    double value;
    bool is_count;
} column;

typedef struct row {
    const icl_sweep *sweep;
    size_t cell; /* any of those that it is about */
    size_t axes; /* of which it shows the values */
    size_t count;
    column columns[MOST_NUMBERS];
} row;

static void add_column(row *line, const char *name, double value, bool is_count) {
    line->columns[line->count++] = (column){name, value, is_count};
}

static row row_of_cell(const icl_sweep *sweep, size_t cell, const numbers *shown, const icl_sweep_result *result) {
    row line = {.sweep = sweep, .cell = cell, .axes = icl_sweep_axes(sweep)};

    add_column(&line, "steps", (double)result->steps, true);
    add_column(&line, "skipped_steps", (double)result->skipped_steps, true);
    add_column(&line, "diverged", result->diverged, true);
    add_column(&line, "final_loss", result->final_loss, false);
    add_column(&line, shown->is_loss ? "loss" : "mse", result->mse, false);
    add_column(&line, "se", result->se, false);
    if (shown->has_accuracy)
        add_column(&line, "accuracy", result->accuracy, false);
    if (shown->has_adjusted) {
        add_column(&line, "half_adjusted", 0.5 * result->adjusted, false);
        add_column(&line, "half_adjusted_se", 0.5 * result->adjusted_se, false);
    }
    add_column(&line, "seconds", result->seconds, false);
    return line;
}

static row row_of_point(const icl_sweep *sweep, size_t cell, const numbers *shown, const point *found) {
    row line = {.sweep = sweep, .cell = cell, .axes = icl_sweep_axes(sweep) - 1};

    add_column(&line, "seeds", (double)found->seeds, true);
    add_column(&line, "diverged", (double)found->diverged, true);
    add_column(&line, "mean_final_loss", found->final_loss.value, false);
    add_column(&line, "se_final_loss", found->final_loss.se, false);
    add_column(&line, shown->is_loss ? "mean_loss" : "mean_mse", found->mse.value, false);
    add_column(&line, shown->is_loss ? "se_loss" : "se_mse", found->mse.se, false);
    if (shown->has_accuracy) {
        add_column(&line, "mean_accuracy", found->accuracy.value, false);
        add_column(&line, "se_accuracy", found->accuracy.se, false);
    }
    if (shown->has_adjusted) {
        add_column(&line, "mean_half_adjusted", found->half_adjusted.value, false);
        add_column(&line, "se_half_adjusted", found->half_adjusted.se, false);
    }
    return line;
}

/* As it is where it can, else in quotes, which are doubled within it. */
static void write_text(FILE *stream, const char *text) {
    const bool is_quoted = strpbrk(text, ",\" \r\n") != NULL;

    if (is_quoted)
        fputc('"', stream);
    for (; *text; text++)
        fputs((const char[]){*text, *text == '"' ? '"' : '\0', '\0'}, stream);
    if (is_quoted)
        fputc('"', stream);
}

static void write_csv(FILE *stream, const row *line, bool is_first) {
    for (size_t axis = 0; axis < line->axes && is_first; axis++)
        fprintf(stream, "%s,", icl_sweep_axis(line->sweep, axis));
    for (size_t i = 0; i < line->count && is_first; i++)
        fprintf(stream, "%s%s", line->columns[i].name, i + 1 < line->count ? "," : "\n");
    for (size_t axis = 0; axis < line->axes; axis++) {
        write_text(stream, icl_sweep_value(line->sweep, line->cell, axis));
        fputc(',', stream);
    }
    for (size_t i = 0; i < line->count; i++) {
        char text[ICL_NUMBER_CAPACITY];
        fprintf(stream, "%s%s", isnan(line->columns[i].value) ? "" : icl_format_number(line->columns[i].value, text),
                i + 1 < line->count ? "," : "\n");
    }
}

static icl_status write_json(FILE *stream, const row *line, const char *name, icl_error *error) {
    icl_json json = {0};
    char *text = NULL;
    icl_status status;

    if (name)
        icl_json_text(&json, "cell", name);
    for (size_t axis = 0; axis < line->axes; axis++)
        icl_json_text(&json, icl_sweep_axis(line->sweep, axis), icl_sweep_value(line->sweep, line->cell, axis));
    for (size_t i = 0; i < line->count; i++)
        if (line->columns[i].is_count)
            icl_json_count(&json, line->columns[i].name, (uint64_t)line->columns[i].value);
        else
            icl_json_number(&json, line->columns[i].name, line->columns[i].value);
    status = icl_json_finish(&json, false, &text, error);
    if (status == ICL_OK)
        fprintf(stream, "%s\n", text);
    icl_free(&text);
    return status;
}

/* The width of each axis's column, in new memory. */
static icl_status measure(const icl_sweep *sweep, size_t **widths, icl_error *error) {
    const size_t axes = icl_sweep_axes(sweep);
    const icl_status status = icl_allocate(axes, sizeof **widths, "widths of columns", widths, error);

    for (size_t axis = 0; axis < axes && status == ICL_OK; axis++) {
        (*widths)[axis] = strlen(icl_sweep_axis(sweep, axis));
        for (size_t cell = 0; cell < icl_sweep_cells(sweep); cell++) {
            const size_t length = strlen(icl_sweep_value(sweep, cell, axis));
            if (length > (*widths)[axis])
                (*widths)[axis] = length;
        }
    }
    return status;
}

static int width_of(const column *shown) {
    const int length = (int)strlen(shown->name);
    return length > 9 ? length : 9;
}

static void write_for_people(FILE *stream, const row *line, const size_t *widths, bool is_first) {
    for (size_t axis = 0; axis < line->axes && is_first; axis++)
        fprintf(stream, "%-*s  ", (int)widths[axis], icl_sweep_axis(line->sweep, axis));
    for (size_t i = 0; i < line->count && is_first; i++)
        fprintf(stream, "%*s%s", width_of(&line->columns[i]), line->columns[i].name, i + 1 < line->count ? "  " : "\n");
    for (size_t axis = 0; axis < line->axes; axis++)
        fprintf(stream, "%-*s  ", (int)widths[axis], icl_sweep_value(line->sweep, line->cell, axis));
    for (size_t i = 0; i < line->count; i++) {
        const column *shown = &line->columns[i];
        char text[32] = "-";
        if (!isnan(shown->value))
            icl_print(text, sizeof text, shown->is_count ? "%.0f" : "%.4g", shown->value);
        fprintf(stream, "%*s%s", width_of(shown), text, i + 1 < line->count ? "  " : "\n");
    }
}

enum { TABLE = 0, CELLS_CSV, MEANS_CSV, JSON, MEANS_JSON, TEXTS };

typedef struct writer {
    FILE *streams[TEXTS];
    char *memory[TEXTS];
    size_t sizes[TEXTS];
    size_t *widths;
    numbers shown;
} writer;

static icl_status write_cells(writer *out, const icl_sweep *sweep, const icl_sweep_result *results, icl_error *error) {
    icl_status status = ICL_OK;
    char *name = NULL;

    for (size_t cell = 0; cell < icl_sweep_cells(sweep); cell++) {
        const row line = row_of_cell(sweep, cell, &out->shown, &results[cell]);
        write_for_people(out->streams[TABLE], &line, out->widths, cell == 0);
        write_csv(out->streams[CELLS_CSV], &line, cell == 0);
        ICL_TRY(icl_sweep_cell_name(sweep, cell, &name, error));
        ICL_TRY(write_json(out->streams[JSON], &line, name, error));
        icl_free(&name);
    }
done:
    icl_free(&name);
    return status;
}

static icl_status write_means(writer *out, const icl_sweep *sweep, const icl_sweep_result *results, icl_error *error) {
    const size_t seeds = icl_sweep_seeds(sweep);
    point found;

    if (seeds < 2)
        return ICL_OK;
    fprintf(out->streams[TABLE], "\nmeans over seeds, with their standard errors:\n");
    for (size_t cell = 0; cell < icl_sweep_cells(sweep); cell += seeds) {
        ICL_CHECK(find_point(results + cell, seeds, &found, error));
        const row line = row_of_point(sweep, cell, &out->shown, &found);
        write_for_people(out->streams[TABLE], &line, out->widths, cell == 0);
        write_csv(out->streams[MEANS_CSV], &line, cell == 0);
        ICL_CHECK(write_json(out->streams[MEANS_JSON], &line, NULL, error));
    }
    return ICL_OK;
}

icl_status icl_sweep_write_texts(const icl_sweep *sweep, const icl_sweep_result *results, icl_sweep_texts *texts,
                                 icl_error *error) {
    char **const made[TEXTS] = {&texts->table, &texts->cells_csv, &texts->means_csv, &texts->json, &texts->means_json};
    icl_status status = ICL_OK;
    writer out = {.shown = find_numbers(sweep, results)};

    ICL_TRY(measure(sweep, &out.widths, error));
    for (int i = 0; i < TEXTS; i++) {
        out.streams[i] = open_memstream(&out.memory[i], &out.sizes[i]);
        if (!out.streams[i])
            ICL_TRY(icl_fail(error, ICL_ERROR_MEMORY, "table of a sweep: no memory"));
    }
    ICL_TRY(write_cells(&out, sweep, results, error));
    ICL_TRY(write_means(&out, sweep, results, error));
done:
    for (int i = 0; i < TEXTS; i++) {
        if (out.streams[i] && fclose(out.streams[i]) != 0 && status == ICL_OK)
            status = icl_fail(error, ICL_ERROR_MEMORY, "table of a sweep: no memory");
        if (status == ICL_OK)
            status = icl_duplicate(out.memory[i], made[i], error);
        free(out.memory[i]);
    }
    icl_free(&out.widths);
    return status;
}

void icl_sweep_free_texts(icl_sweep_texts *texts) {
    icl_free(&texts->table);
    icl_free(&texts->cells_csv);
    icl_free(&texts->means_csv);
    icl_free(&texts->json);
    icl_free(&texts->means_json);
}
