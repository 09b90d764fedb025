/* Curves over seeds: means and standard errors of what seeds gave, in whatever order; curves.csv, figure and report. */
#include "papers/curves.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tap.h"

#include "../core/scratch.h"
#include "contents.h"

/* Three seeds at x = 20, out of order with two at x = 10, and a theory. */
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
    ICL_TRY(icl_reproduce_found(run, &(icl_finding){.what = "one", .quantity = "share", .ours = 1}, error));
done:
    icl_curves_release(&curves);
    return status;
}

static void test_files(tap_run *tap, const char *folder) {
    static const char *const parts[] = {"Curves", "delta, (0, 2)", ">2.082</td>", "swept.gp"};
    const icl_reproduction reproduction = {.name = "example", .run = draw_curves};
    const icl_reproduce_params params = {.folder = folder};
    icl_reproduce_summary summary;
    icl_error error = {0};
    char *report;

    tap_status(tap, icl_reproduce(&reproduction, &params, &summary, &error), &error, "a run");
    /* Of 2, 4: 3 +- sqrt(2 / 2). Of 1, 3, 8: 4 +- sqrt(13 / 3). */
    check_contents(tap, folder, "curves.csv",
                   "figure,curve,x,mean,standard_error,seeds\n"
                   "\"swept\",\"delta, (0, 2)\",10,3,1,2\n"
                   "\"swept\",\"delta, (0, 2)\",20,4,2.0816659994661326,3\n"
                   "\"swept\",\"chance\",10,0.5,,1\n"
                   "\"swept\",\"chance\",20,,,1\n");
    report = contents(folder, "report.html");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        tap_ok(tap, report && strstr(report, parts[i]), "the report has: %s", parts[i]);
    size_t rows = 0;
    for (const char *at = report; at && (at = strstr(at, ">swept</td>")); at++)
        rows++;
    tap_ok(tap, rows == 4, "and %zu rows of the curves' points", rows);
    icl_free(&report);
}

static void test_points(tap_run *tap) {
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
    for (int i = 1; i < ICL_MOST_CURVES && status == ICL_OK; i++) {
        char label[16];
        snprintf(label, sizeof label, "curve %d", i);
        status = icl_curves_add(&curves, label, ICL_SERIES_OURS, 1, 1, &error);
    }
    tap_status(tap, status, &error, "as many curves as there is room for");
    tap_ok(tap, icl_curves_add(&curves, "one more", ICL_SERIES_OURS, 1, 1, &error) == ICL_ERROR_INPUT, "one more: %s",
           error.message);
    icl_curves_release(&curves);
}

int main(void) {
    static const char *const left[] = {"findings.csv", "curves.csv", "swept.csv", "swept.gp", "report.html"};
    tap_run tap = {0};
    scratch_folder scratch;
    char folder[512];

    scratch_open(&scratch);
    snprintf(folder, sizeof folder, "%s", scratch_path(&scratch, "run"));
    test_files(&tap, folder);
    test_points(&tap);
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", folder, left[i]);
        (void)remove(path);
    }
    (void)remove(folder);
    scratch_close(&scratch);
    return tap_done(&tap);
}
