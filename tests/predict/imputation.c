/* Tests missing features that are filled in: fills are compared with means and medians by hand, held-out rows do not
 * affect them, and predictions equal those of a table filled in by hand. */
#include "predict/predict.h"

#include <math.h>

#include "tap.h"

enum { ROWS = 5, FEATURES = 2, COLUMNS = 3 };

static icl_table make_table(double *values, size_t *lines) {
    static char name[] = "made", a[] = "a", b[] = "b", y[] = "y";
    static char *names[COLUMNS] = {a, b, y};
    static size_t numbers[COLUMNS] = {3, 5, 4}; /* The file has more columns, in another order. */
    const double hole = (double)NAN;
    const double made[ROWS * COLUMNS] = {1, hole, 1, hole, 20, 2, 4, 30, 3, 100, hole, 4, 7, 70, 5};

    for (size_t i = 0; i < ROWS; i++)
        lines[i] = i + 2;
    memcpy(values, made, sizeof made);
    return (icl_table){.name = name,
                       .rows = ROWS,
                       .columns = COLUMNS,
                       .values = values,
                       .lines = lines,
                       .names = names,
                       .numbers = numbers};
}

static void check_fills(tap_run *tap, const icl_table *table) {
    const size_t all[ROWS] = {0, 1, 2, 3, 4}, some[3] = {0, 1, 2}, bare[2] = {0, 3};
    const icl_table_rows rows = {table, all, ROWS}, few = {table, some, 3}, none = {table, bare, 2};
    double work[ROWS], fills[FEATURES];

    icl_imputation_fit(&rows, FEATURES, ICL_IMPUTE_MEAN, work, fills);
    tap_ok(tap, fills[0] == 28 && fills[1] == 40, "means %g, %g of what is there", fills[0], fills[1]);
    icl_imputation_fit(&rows, FEATURES, ICL_IMPUTE_MEDIAN, work, fills);
    tap_ok(tap, fills[0] == 5.5 && fills[1] == 30, "medians %g, %g", fills[0], fills[1]);
    icl_imputation_fit(&few, FEATURES, ICL_IMPUTE_MEAN, work, fills);
    tap_ok(tap, fills[0] == 2.5 && fills[1] == 25, "of these rows alone: %g, %g", fills[0], fills[1]);
    icl_imputation_fit(&none, FEATURES, ICL_IMPUTE_MEDIAN, work, fills);
    tap_ok(tap, fills[0] == 50.5 && fills[1] == 0, "0 for a feature that no row has: %g, %g", fills[0], fills[1]);
}

static void check_holes(tap_run *tap, const icl_table *table) {
    icl_filled_table filled;
    icl_error error = {0};
    icl_table whole = *table;
    bool is_same = true;

    tap_ok(tap,
           icl_filled_table_create(table, FEATURES, ICL_IMPUTE_NONE, &filled, &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "made:2: column 5 (b): a missing value: expected a number; --impute"),
           "%s", error.message);
    icl_filled_table_release(&filled);
    tap_status(tap, icl_filled_table_create(table, FEATURES, ICL_IMPUTE_MEAN, &filled, &error), &error, "holes");
    icl_imputation_apply(&filled, (const double[]){-1, -2});
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        is_same = is_same &&
                  filled.table.values[i] == (isnan(table->values[i]) ? -1 - (double)(i % COLUMNS) : table->values[i]);
    tap_ok(tap, is_same && filled.hole_count == 3 && isnan(table->values[1]),
           "every hole has its column's fill, all else is what it was");
    icl_filled_table_release(&filled);
    whole.rows = 0;
    tap_ok(tap,
           icl_filled_table_create(&whole, FEATURES, ICL_IMPUTE_NONE, &filled, &error) == ICL_OK &&
               filled.table.values == table->values,
           "without holes the table itself serves");
    icl_filled_table_release(&filled);
}

int main(void) {
    tap_run tap = {0};
    double values[ROWS * COLUMNS];
    size_t lines[ROWS];
    const icl_table table = make_table(values, lines);

    check_fills(&tap, &table);
    check_holes(&tap, &table);
    return tap_done(&tap);
}
