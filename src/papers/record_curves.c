/* Points of curves over seeds in the record of a reproduction: curves.csv, and a table of the report. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "papers/record.h"

#define CURVES "curves.csv"

icl_status icl_record_curve(icl_reproducing *run, const icl_curve_row *row, icl_error *error) {
    ICL_CHECK(icl_grow(&run->curves, run->curve_count, &run->curve_capacity, sizeof *run->curves, "curves", error));
    run->curves[run->curve_count++] = *row;
    return ICL_OK;
}

void icl_record_forget_curves(icl_reproducing *run, const char *figure) {
    size_t kept = 0;

    for (size_t i = 0; i < run->curve_count; i++)
        if (strcmp(run->curves[i].figure, figure) != 0)
            run->curves[kept++] = run->curves[i];
    run->curve_count = kept;
}

static icl_status add_line(icl_text *table, const icl_curve_row *row, icl_error *error) {
    ICL_CHECK(icl_text_field(table, row->figure, ",", error));
    ICL_CHECK(icl_text_field(table, row->curve, ",", error));
    ICL_CHECK(icl_text_number_field(table, row->x, ",", error));
    ICL_CHECK(icl_text_number_field(table, row->mean, ",", error));
    ICL_CHECK(icl_text_number_field(table, row->standard_error, ",", error));
    return icl_text_print(table, error, "%zu\n", row->seeds);
}

icl_status icl_record_write_curves(const icl_reproducing *run, icl_error *error) {
    icl_text table = {0};
    char *path = NULL;
    icl_status status = ICL_OK;

    if (run->listener)
        return ICL_OK;
    ICL_TRY(icl_text_print(&table, error, "figure,curve,x,mean,standard_error,seeds\n"));
    for (size_t i = 0; i < run->curve_count; i++)
        ICL_TRY(add_line(&table, &run->curves[i], error));
    ICL_TRY(icl_path_join(run->params->folder, CURVES, &path, error));
    ICL_TRY(icl_file_write(path, table.bytes, table.length, error));
done:
    icl_free(&path);
    icl_text_release(&table);
    return status;
}

static icl_status add_row(const icl_reproducing *run, const icl_curve_row *row, icl_error *error) {
    char x[32], mean[32], spread[32], seeds[32];

    icl_finding_number(row->x, x);
    icl_finding_number(row->mean, mean);
    snprintf(seeds, sizeof seeds, "%zu", row->seeds);
    icl_finding_number(row->standard_error, spread);
    const char *const cells[] = {
        row->figure, row->curve, x, isnan(row->mean) ? "-" : mean, isnan(row->standard_error) ? "" : spread, seeds};
    return icl_report_table_row(run->report, ICL_TONE_PLAIN, cells, error);
}

icl_status icl_record_report_curves(const icl_reproducing *run, icl_error *error) {
    static const icl_report_column columns[] = {{"figure", false}, {"curve", false},         {"x", true},
                                                {"mean", true},    {"standard error", true}, {"seeds", true}};

    if (run->curve_count == 0)
        return ICL_OK;
    ICL_CHECK(icl_report_section(run->report, "Curves", error));
    ICL_CHECK(icl_report_table_begin(run->report, columns, sizeof columns / sizeof *columns, error));
    for (size_t i = 0; i < run->curve_count; i++)
        ICL_CHECK(add_row(run, &run->curves[i], error));
    return icl_report_table_end(run->report, error);
}
