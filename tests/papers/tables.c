/* Tables with gaps: a picture has their complete columns, of the rows that any of them has. */
#include "papers/tables.h"

#include <math.h>
#include <string.h>

#include "shown_figure.h"
#include "tap.h"

#include "../core/scratch.h"

#define NO ((double)NAN)

/* Row "b" is nowhere. Ours lacks a number of "z", theirs of "x" and "y"; the last table has no complete column. */
static icl_status draw(icl_reproducing *run, icl_error *error) {
    static const char *const rows[] = {"a", "b", "c"}, *const columns[] = {"x", "y", "z"};
    const double ours[] = {1, 2, NO, NO, NO, NO, 3, 4, 5}, theirs[] = {NO, 6, 7, NO, NO, NO, 8, NO, 9};
    const double gaps[] = {NO, 6, 7, NO, NO, NO, 8, NO, NO};
    const icl_tables tables = {.figure = {.name = "map", .title = "A table"},
                               .rows = 3,
                               .columns = 3,
                               .count = 3,
                               .row_names = rows,
                               .column_names = columns,
                               .tables = {{"gaps", gaps}, {"ours", ours}, {"theirs", theirs}}};

    ICL_CHECK(icl_tables_draw(run, &tables, error));
    return ICL_FOUND(run, error, .what = "one", .quantity = "share", .ours = 1);
}

int main(void) {
    const icl_reproduction reproduction = {.name = "example", .run = draw};
    tap_run tap = {0};
    scratch_folder scratch;
    icl_reproduce_summary summary;
    icl_error error = {0};

    scratch_open(&scratch);
    const icl_reproduce_params params = {.folder = scratch.folder};
    tap_status(&tap, icl_reproduce(&reproduction, &params, &summary, &error), &error, "a run");
    shown_figure *figure = shown_figure_read(scratch.folder, "map");
    tap_ok(&tap, figure && figure->maps == 2 && strcmp(figure->map[0].label, "ours") == 0,
           "two tables have complete columns, ours first");
    tap_ok(&tap,
           shown_value(figure, "ours", "a", "x") == 1 && shown_value(figure, "ours", "a", "y") == 2 &&
               shown_value(figure, "ours", "c", "x") == 3 && shown_value(figure, "ours", "c", "y") == 4 &&
               isnan(shown_value(figure, "ours", "c", "z")),
           "ours has x and y");
    tap_ok(&tap,
           shown_value(figure, "theirs", "a", "z") == 7 && shown_value(figure, "theirs", "c", "z") == 9 &&
               isnan(shown_value(figure, "theirs", "a", "y")),
           "theirs has z");
    tap_ok(&tap, figure && figure->map[0].row_names == 2, "and no row that has no number anywhere");
    shown_figure_free(&figure);
    scratch_close(&scratch);
    return tap_done(&tap);
}
