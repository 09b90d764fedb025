/* Makes tables of lagged values from series: a row of features from the past of each row. */
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/table.h"
#include "iclab/text.h"

/* ---- The layout ---- */

/* A plan says what the rows of a series are made of. */
typedef struct lag_plan {
    const icl_table *table;
    icl_time_series series;
    size_t lagged;      /* columns of the target's past */
    bool has_season;    /* the last of these is a season's */
    size_t past;        /* rows before a row that it needs */
    size_t rows, width; /* of the table with lags */
} lag_plan;

/* Returns how many rows before its own row the value of a column of the past stands. */
static size_t distance_of(const lag_plan *plan, size_t column) {
    return plan->has_season && column + 1 == plan->lagged ? plan->series.season : plan->series.ahead + column;
}

static icl_status check_targets(const icl_table *table, icl_error *error) {
    const size_t target = table->columns - 1;

    for (size_t row = 0; row < table->rows; row++)
        if (isnan(table->values[row * table->columns + target]))
            return icl_fail(error, ICL_ERROR_INPUT,
                            "%s:%zu: column %zu (%s): a missing value: expected a number in every row of a series",
                            table->name, table->lines[row], table->numbers[target], table->names[target]);
    return ICL_OK;
}

static icl_status plan_lags(const icl_table *table, const icl_time_series *series, lag_plan *plan, icl_error *error) {
    const size_t ahead = series->ahead > 0 ? series->ahead : 1, oldest = series->lags + ahead - 1;

    if (series->lags == 0)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: 0 lags: expected 1 or more", table->name);
    if (series->season > 0 && series->season < ahead)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s: a season of %zu rows for forecasts %zu rows ahead: expected a season of at least %zu",
                        table->name, series->season, ahead, ahead);
    *plan = (lag_plan){.table = table, .series = {series->lags, ahead, series->season}};
    plan->has_season = series->season > oldest;
    plan->lagged = series->lags + plan->has_season;
    plan->past = plan->has_season ? series->season : oldest;
    plan->width = plan->lagged + table->columns;
    if (table->rows <= plan->past)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s: %zu row%s, and a forecast needs the %zu before it: expected more rows, or fewer lags",
                        table->name, table->rows, table->rows == 1 ? "" : "s", plan->past);
    plan->rows = table->rows - plan->past + 1;
    if (plan->rows > ICL_TABLE_MAX_CELLS / plan->width)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s: %zu rows of %zu columns with lags: expected at most %zu cells, so fewer lags", table->name,
                        plan->rows, plan->width, ICL_TABLE_MAX_CELLS);
    return check_targets(table, error);
}

/* ---- The table ---- */

/* Sets a column of the table with lags: the table's column `source`, `distance` rows before (0: the target itself). */
static icl_status name_column(const lag_plan *plan, size_t source, size_t distance, size_t column, icl_table *created,
                              icl_error *error) {
    const icl_table *table = plan->table;
    icl_text name = {0};
    icl_status status;

    created->numbers[column] = table->numbers[source];
    ICL_TRY(icl_text_print(&name, error, "%s", table->names[source]));
    if (distance > 0)
        ICL_TRY(icl_text_print(&name, error, "[t-%zu]", distance));
    ICL_TRY(icl_duplicate(name.bytes, &created->names[column], error));
    ICL_TRY(icl_duplicate(table->sources ? table->sources[source] : table->names[source], &created->sources[column],
                          error));
done:
    icl_text_release(&name);
    return status;
}

static icl_status make_columns(const lag_plan *plan, icl_table *created, icl_error *error) {
    const size_t others = plan->table->columns - 1;

    ICL_CHECK(icl_allocate(plan->width, sizeof *created->names, "columns", &created->names, error));
    ICL_CHECK(icl_allocate(plan->width, sizeof *created->sources, "columns", &created->sources, error));
    ICL_CHECK(icl_allocate(plan->width, sizeof *created->levels, "columns", &created->levels, error));
    ICL_CHECK(icl_allocate(plan->width, sizeof *created->numbers, "columns", &created->numbers, error));
    created->columns = plan->width;
    for (size_t k = 0; k < plan->lagged; k++)
        ICL_CHECK(name_column(plan, others, distance_of(plan, k), k, created, error));
    for (size_t k = 0; k < others; k++)
        ICL_CHECK(name_column(plan, k, plan->series.ahead, plan->lagged + k, created, error));
    return name_column(plan, others, 0, plan->width - 1, created, error);
}

/* Makes the row of time t; t may lie beyond the table's last row, as its features do not. */
static void make_row(const lag_plan *plan, size_t t, double *row) {
    const icl_table *table = plan->table;
    const size_t columns = table->columns, others = columns - 1;

    for (size_t k = 0; k < plan->lagged; k++)
        row[k] = table->values[(t - distance_of(plan, k)) * columns + others];
    for (size_t k = 0; k < others; k++)
        row[plan->lagged + k] = table->values[(t - plan->series.ahead) * columns + k];
    row[plan->width - 1] = t < table->rows ? table->values[t * columns + others] : (double)NAN;
}

static icl_status make_rows(const lag_plan *plan, icl_table *created, icl_error *error) {
    const icl_table *table = plan->table;
    const size_t last = table->rows - 1;

    ICL_CHECK(
        icl_allocate(plan->rows, plan->width * sizeof *created->values, "rows with lags", &created->values, error));
    ICL_CHECK(icl_allocate(plan->rows, sizeof *created->lines, "rows with lags", &created->lines, error));
    created->rows = plan->rows;
    for (size_t i = 0; i + 1 < plan->rows; i++) {
        make_row(plan, plan->past + i, created->values + i * plan->width);
        created->lines[i] = table->lines[plan->past + i];
    }
    make_row(plan, last + plan->series.ahead, created->values + (plan->rows - 1) * plan->width);
    created->lines[plan->rows - 1] = table->lines[last] + plan->series.ahead;
    return ICL_OK;
}

/* ---- Steps ---- */

static icl_status describe_lags(const lag_plan *plan, icl_text *text, icl_error *error) {
    const icl_time_series *series = &plan->series;
    const icl_table *table = plan->table;
    const char *target = table->names[table->columns - 1];

    ICL_CHECK(icl_text_print(text, error, "a series: %s is forecast %zu row%s ahead from %zu value%s of its own",
                             target, series->ahead, series->ahead == 1 ? "" : "s", series->lags,
                             series->lags == 1 ? "" : "s"));
    if (series->season > 0)
        ICL_CHECK(icl_text_print(text, error, " and that of %zu rows before", series->season));
    if (table->columns > 1)
        ICL_CHECK(icl_text_print(text, error, ", and from the other features %zu row%s before", series->ahead,
                                 series->ahead == 1 ? "" : "s"));
    return icl_text_print(text, error, "; the first %zu rows lack them", plan->past);
}

/* Copies the table's steps, and adds that of the lags. */
static icl_status make_steps(const lag_plan *plan, icl_table *created, icl_error *error) {
    const icl_table *table = plan->table;
    icl_table_step *last;
    icl_text text = {0};
    icl_status status;

    ICL_TRY(icl_allocate(table->step_count + 1, sizeof *created->steps, "steps", &created->steps, error));
    for (; created->step_count < table->step_count; created->step_count++) {
        created->steps[created->step_count] = table->steps[created->step_count];
        created->steps[created->step_count].text = NULL;
        ICL_TRY(
            icl_duplicate(table->steps[created->step_count].text, &created->steps[created->step_count].text, error));
    }
    last = &created->steps[created->step_count++];
    *last = (icl_table_step){.what = "lags", .number = table->numbers[table->columns - 1], .count = plan->series.lags};
    ICL_TRY(describe_lags(plan, &text, error));
    ICL_TRY(icl_duplicate(text.bytes, &last->text, error));
done:
    icl_text_release(&text);
    return status;
}

icl_status icl_table_lag(const icl_table *table, const icl_time_series *series, icl_table **lagged, icl_error *error) {
    icl_table *created = NULL;
    lag_plan plan;
    icl_status status;

    ICL_CHECK(plan_lags(table, series, &plan, error));
    ICL_TRY(icl_allocate(1, sizeof *created, "table", &created, error));
    ICL_TRY(icl_duplicate(table->name, &created->name, error));
    created->has_header = table->has_header;
    created->separator = table->separator;
    created->decimal = table->decimal;
    created->series = plan.series;
    ICL_TRY(make_columns(&plan, created, error));
    ICL_TRY(make_rows(&plan, created, error));
    ICL_TRY(make_steps(&plan, created, error));
    *lagged = created;
    created = NULL;
done:
    icl_table_destroy(&created);
    return status;
}
