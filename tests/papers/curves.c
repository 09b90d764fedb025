/* Tests curves over seeds: means and standard errors of the seeds' values, in any order; curves.csv, figure and
 * report. */
#include "papers/study.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "shown_figure.h"
#include "tap.h"

#include "../core/scratch.h"

/* Draws three seeds at x = 20, interleaved with two at x = 10, and a theory. */
static icl_status draw_curves(icl_reproducing *run, icl_error *error) {
    static const double x[] = {20, 10, 20, 10, 20}, y[] = {1, 4, 3, 2, 8};
    icl_curves curves = {.figure = {.name = "swept", .title = "A sweep", .x_label = "length", .y_label = "share"}};
    icl_status status = ICL_OK;

    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        ICL_TRY(icl_curves_add(&curves, "delta, (0, 2)", ICL_SERIES_OURS, x[i], y[i], error));
    ICL_TRY(icl_curves_add(&curves, "chance", ICL_SERIES_REFERENCE, 10, .5, error));
    ICL_TRY(icl_curves_add(&curves, "chance", ICL_SERIES_REFERENCE, 20, (double)NAN, error));
    ICL_TRY(icl_curves_draw(run, &curves, error));
    ICL_TRY(icl_curves_draw(run, &curves, error)); /* as after each cell */
    icl_curves_release(&curves);
    curves.figure.name = "not-asked-for";
    ICL_TRY(icl_curves_add(&curves, "delta, (0, 2)", ICL_SERIES_OURS, 10, (double)NAN, error));
    ICL_TRY(icl_curves_add(&curves, "chance", ICL_SERIES_REFERENCE, 10, .5, error));
    ICL_TRY(icl_curves_draw(run, &curves, error));
done:
    icl_curves_release(&curves);
    return status;
}

static void plan_nothing(icl_study *study) {
    (void)study;
}

static void conclude(icl_study *study) {
    ICL_STUDY_CALL(study, draw_curves, study->run);
    ICL_JUDGE(study, .what = "one", .quantity = "share", .ours = 1);
}

/* The values 2 and 4 give 3 +- sqrt(2 / 2), and 1, 3 and 8 give 4 +- sqrt(13 / 3). */
static const struct {
    const char *curve, *x, *mean, *spread, *seeds; /* as a report shows them */
    double in_full;
} rows[] = {{"delta, (0, 2)", "10", "3", "1", "2", 1},
            {"delta, (0, 2)", "20", "4", "2.082", "3", 2.0816659994661326},
            {"chance", "10", "0.5", "", "1", 0},
            {"chance", "20", "-", "", "1", 0}};
enum { ROWS = sizeof rows / sizeof *rows };

static void check_tables(tap_run *tap, const char *folder) {
    char *text = shown_file(folder, "curves.csv"), *html = shown_file(folder, "report.html");
    shown_table csv = shown_csv(text), report = shown_html(html, "Curves", NULL);

    tap_ok(tap, csv.rows == 1 + ROWS && report.rows == 1 + ROWS, "a row for each point");
    for (size_t i = 0; i < ROWS; i++) {
        const bool has_mean = rows[i].mean[0] != '-';
        char row[64];
        snprintf(row, sizeof row, "swept|%s|%s", rows[i].curve, rows[i].x);
        shown_is(tap, &csv, row, "x", rows[i].x);
        shown_is(tap, &csv, row, "mean", has_mean ? rows[i].mean : "");
        shown_is(tap, &csv, row, "seeds", rows[i].seeds);
        tap_ok(tap,
               rows[i].in_full > 0 ? shown_number(&csv, row, "standard_error") == rows[i].in_full
                                   : isnan(shown_number(&csv, row, "standard_error")),
               "the standard error in full");
        shown_is(tap, &report, row, "x", rows[i].x);
        shown_is(tap, &report, row, "mean", rows[i].mean);
        shown_is(tap, &report, row, "standard error", rows[i].spread);
        shown_is(tap, &report, row, "seeds", rows[i].seeds);
    }
    shown_table_release(&csv);
    shown_table_release(&report);
    free(text);
    free(html);
}

static void check_picture(tap_run *tap, const char *folder) {
    shown_figure *figure = shown_figure_read(folder, "swept");

    shown_axes_are(tap, figure, "length", "share");
    for (size_t i = 0; i < ROWS; i++) {
        const double x = strtod(rows[i].x, NULL), y = shown_y(figure, rows[i].curve, x);
        if (rows[i].mean[0] == '-')
            tap_ok(tap, isnan(y), "%s has no point at %g", rows[i].curve, x);
        else
            tap_ok(tap, y == strtod(rows[i].mean, NULL), "%s at %g: %g", rows[i].curve, x, y);
        if (rows[i].in_full > 0)
            tap_ok(tap, shown_bar(figure, rows[i].curve, x) == rows[i].in_full, "with its bar");
    }
    shown_figure_free(&figure);
    figure = shown_figure_read(folder, "not-asked-for");
    tap_ok(tap, !figure, "nothing is drawn where nothing of ours came out");
    shown_figure_free(&figure);
}

static void test_files(tap_run *tap, const char *folder) {
    const icl_reproduction reproduction = {.name = "example", .plan = plan_nothing, .conclude = conclude};
    const icl_reproduce_params params = {.folder = folder};
    icl_reproduce_summary summary;
    icl_error error = {0};

    tap_status(tap, icl_reproduce(&reproduction, &params, &summary, &error), &error, "a run");
    check_tables(tap, folder);
    check_picture(tap, folder);
}

static void test_points(tap_run *tap) {
    enum { MANY = 100 };
    icl_curves curves = {.figure = {.name = "full"}};
    icl_curve_point point, none;
    icl_error error = {0};
    icl_status status = ICL_OK;

    for (int seed = 0; seed < 4 && status == ICL_OK; seed++)
        status = icl_curves_add(&curves, "a", ICL_SERIES_OURS, 1, seed, &error);
    tap_status(tap, status, &error, "four seeds");
    point = icl_curves_at(&curves, "a", 1);
    tap_ok(tap, point.seeds == 4 && point.mean == 1.5 && fabs(point.standard_error - .6455) < 1e-4,
           "their point is %g +- %g", point.mean, point.standard_error);
    none = icl_curves_at(&curves, "a", 2);
    tap_ok(tap, none.seeds == 0 && isnan(none.mean), "elsewhere there is none");
    for (int i = 1; i < MANY && status == ICL_OK; i++) {
        char label[16];
        snprintf(label, sizeof label, "curve %d", i);
        status = icl_curves_add(&curves, label, ICL_SERIES_OURS, 1, i, &error);
    }
    tap_status(tap, status, &error, "many curves");
    tap_ok(tap, curves.curve_count == MANY && icl_curves_at(&curves, "curve 99", 1).mean == 99, "each has its points");
    icl_curves_release(&curves);
}

int main(void) {
    tap_run tap = {0};
    scratch_folder scratch;

    scratch_open(&scratch);
    test_files(&tap, scratch.folder);
    test_points(&tap);
    scratch_close(&scratch);
    return tap_done(&tap);
}
