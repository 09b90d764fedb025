/* Tables with gaps: a picture has their complete columns, of the rows that any of them has. */
#include "papers/tables.h"

#include <math.h>
#include <string.h>

#include "tap.h"

#include "../core/scratch.h"
#include "contents.h"

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
    static const char *const left[] = {"findings.csv", "report.html", "map.gp", "map-1.csv", "map-2.csv"};
    const icl_reproduction reproduction = {.name = "example", .run = draw};
    tap_run tap = {0};
    scratch_folder scratch;
    icl_reproduce_summary summary;
    icl_error error = {0};

    scratch_open(&scratch);
    const icl_reproduce_params params = {.folder = scratch.folder};
    tap_status(&tap, icl_reproduce(&reproduction, &params, &summary, &error), &error, "a run");
    check_contents(&tap, scratch.folder, "map-1.csv", "1,2\n3,4\n");
    check_contents(&tap, scratch.folder, "map-2.csv", "7\n9\n");
    check_contents(&tap, scratch.folder, "map-3.csv", NULL);
    char *script = contents(scratch.folder, "map.gp");
    tap_ok(&tap, script && strstr(script, "theirs") && !strstr(script, "gaps"), "the picture has those two");
    icl_free(&script);
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        (void)remove(scratch_path(&scratch, left[i]));
    scratch_close(&scratch);
    return tap_done(&tap);
}
