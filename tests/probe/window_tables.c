/* Reads the output of an inspection of a window back by heading and name: every number stands under its own heading in
 * inspect.csv, inspect.md and report.html, and in its picture. */
#include "model/model.h"
#include "numeric/matrix.h"
#include "probe/window.h"
#include "shown.h"

enum { D = 3 };

static const char *const nothing[] = {NULL};

static void check_window(tap_run *tap, const shown_documents *read, const double *M, double best,
                         const icl_window_ratio *ratio) {
    double smallest = 0, largest = 0;
    icl_error error = {0};
    shown_table table = shown_section(tap, read, "Weights and window", "number");

    tap_status(tap, icl_singular_extremes(M, D, D, &smallest, &largest, &error), &error, "singular values");
    const struct {
        const char *what, *quantity;
        double value, standard_error;
    } rows[] = {
        {"M", "w = tr(M) / d, the multiple of I nearest to it", (M[0] + M[D + 1] + M[2 * (D + 1)]) / D, 0},
        {"M", "Dist(M, I), the norm of M - w I over that of M", icl_matrix_distance(M, D), 0},
        {"M", "spectral norm", largest, 0},
        {"M", "smallest singular value", smallest, 0},
        {"window", "squared error", ratio->of.loss, ratio->of.standard_error},
        {"window", "labels that are averaged over, 1 / mean sum beta^2", ratio->of.neighbours, 0},
        {"window", "radius", ratio->of.reach, 0},
        {"w I", "w of the best window", best, 0},
        {"w I", "squared error", ratio->to.loss, ratio->to.standard_error},
        {"window", "squared error over that of w I", ratio->ratio, ratio->standard_error},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char row[160];
        snprintf(row, sizeof row, "%s: %s", rows[i].what, rows[i].quantity);
        shown_found(tap, read, 0, rows[i].what, rows[i].quantity, rows[i].value, rows[i].standard_error);
        shown_is_measured(tap, &table, row, "value", rows[i].value, rows[i].standard_error);
    }
    shown_table_release(&table);
}

/* The result in words. */
static void check_summary(tap_run *tap, const fixture *f, const double *M, double best, const icl_window_ratio *ratio) {
    char words[3][256];

    snprintf(words[0], sizeof words[0], "Its window is worth %.3g of the 8 labels and has radius %.3g.",
             ratio->of.neighbours, ratio->of.reach);
    snprintf(words[1], sizeof words[1], "it is %.2g of its norm away from %.4g I.", icl_matrix_distance(M, D),
             icl_matrix_multiple(M, D));
    snprintf(words[2], sizeof words[2], "%.4g +- %.2g times that of the best window w I, w = %.4g.", ratio->ratio,
             ratio->standard_error, best);
    for (size_t i = 0; i < 3; i++)
        tap_ok(tap, strstr(f->summary, words[i]) != NULL, "%s", words[i]);
}

static void test_window(tap_run *tap) {
    static const char *const window[] = {
        "task.d=3",           "task.n=8",      "model.family=softmax", "model.layers=1", "task.family=functions",
        "task.inputs=sphere", "train.batch=1", "eval.every=0",         "eval.seed=53",   NULL};
    enum { FITTED = 2048 };
    double M[D * D], of_identity[D * D] = {0};
    icl_window_set measured = {0}, fitting = {0};
    shown_documents read = {0};
    fixture f = {0};
    icl_error error = {0};
    icl_status status;

    ICL_TRY(open_fixture(&f, window, nothing, &error));
    set_parameters(&f, 1, 4, D);
    ICL_TRY(inspect(&f, &error));
    ICL_TRY(icl_matrix_of_model(icl_trainer_model(f.trainer), f.values, "M", D, D, M, &error));
    ICL_TRY(icl_window_draw(f.backend, f.recipe, ICL_FOR_EVALUATION, 53, SEQUENCES, &measured, &error));
    ICL_TRY(icl_window_draw(f.backend, f.recipe, ICL_FOR_FITTING, 53, FITTED, &fitting, &error));
    const double best = icl_window_search(&fitting, NULL);
    for (size_t i = 0; i < D; i++)
        of_identity[i * (D + 1)] = best;
    const icl_window_ratio ratio = icl_window_compare(&measured, M, true, of_identity, true);
    read = shown_documents_read(&f);
    check_window(tap, &read, M, best, &ratio);
    check_summary(tap, &f, M, best, &ratio);
    shown_report_is(tap, &f, &read);
    shown_figure *figure = shown_figure_read(f.out.folder, "weights");
    tap_ok(tap, shown_matrix_is(figure, "M", D, D, M), "the map of M");
    shown_figure_free(&figure);
done:
    tap_status(tap, status, &error, "a window, inspected");
    shown_documents_release(&read);
    icl_window_release(&measured);
    icl_window_release(&fitting);
    close_fixture(&f);
}

int main(void) {
    tap_run tap = {0};

    test_window(&tap);
    return tap_done(&tap);
}
