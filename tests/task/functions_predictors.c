/*
 * Reference predictors of functions on the sphere by their definitions, in plain loops over the same sequences, and
 * their two fitted numbers: of least error on the sequences drawn for fitting.
 */
#include "task/functions.h"

#include <math.h>

#include "make_task.h"

enum { D = 3, N = 6, COUNT = 64, FIT = 4096 };

typedef struct shown {
    icl_task *task;
    icl_backend *backend;
    icl_batch batch;
    float inputs[FIT * (N + 1) * (D + 1)], targets[FIT];
    size_t count;
} shown;

static icl_status draw(shown *all, icl_task_purpose purpose, size_t count, icl_error *error) {
    icl_batch_release(&all->batch);
    all->count = count;
    ICL_CHECK(icl_batch_create(all->task, all->backend, purpose, count, &all->batch, error));
    ICL_CHECK(icl_task_sample(all->task, all->backend, purpose, 1, 0, &all->batch, error));
    ICL_CHECK(icl_tensor_read(all->batch.inputs, all->inputs, error));
    return icl_tensor_read(all->batch.targets, all->targets, error);
}

static double square_distance(const float *a, const float *b) {
    double sum = 0;
    for (int j = 0; j < D; j++)
        sum += ((double)a[j] - (double)b[j]) * ((double)a[j] - (double)b[j]);
    return sum;
}

static const float *row(const shown *all, size_t sequence, size_t position) {
    return all->inputs + (sequence * (N + 1) + position) * (D + 1);
}

/* By the definition: k of 0 is the kernel of this bandwidth. */
static double expected(const shown *all, size_t sequence, size_t neighbours, double bandwidth) {
    double sum = 0, weights = 0;

    for (size_t i = 0; i < N; i++) {
        const double square = square_distance(row(all, sequence, i), row(all, sequence, N));
        double weight = exp(-square / (2 * bandwidth * bandwidth));
        size_t nearer = 0;
        for (size_t j = 0; j < N; j++)
            nearer += square_distance(row(all, sequence, j), row(all, sequence, N)) < square;
        if (neighbours > 0)
            weight = nearer < neighbours;
        sum += weight * (double)row(all, sequence, i)[D];
        weights += weight;
    }
    return sum / weights;
}

static double error_of(const shown *all, size_t neighbours, double bandwidth) {
    double sum = 0;
    for (size_t s = 0; s < all->count; s++)
        sum += pow(expected(all, s, neighbours, bandwidth) - (double)all->targets[s], 2);
    return sum / (double)all->count;
}

static void compare(tap_run *tap, shown *all, const icl_reference_predictor *predictor, size_t neighbours,
                    double bandwidth, bool is_zero) {
    const icl_shown_sequences sequences = {all->task, all->count, all->inputs, &all->batch};
    double outputs[COUNT] = {0}, worst = 0;
    icl_error error = {0};
    const icl_status status = predictor->predict(predictor, &sequences, outputs, &error);

    for (size_t s = 0; s < all->count; s++)
        worst = fmax(worst, fabs(outputs[s] - (is_zero ? 0 : expected(all, s, neighbours, bandwidth))));
    tap_ok(tap, status == ICL_OK && worst < 1e-12, "%s is what it is by definition, within %.1e %s", predictor->name,
           worst, error.message);
}

/* Of the sequences drawn for fitting: the best k of all, and an h that its neighbours do not better. */
static void check_fit(tap_run *tap, const shown *all, const icl_functions_fit *fit) {
    double least = (double)INFINITY;
    size_t best = 0;

    for (size_t k = 1; k <= N; k++)
        if (error_of(all, k, 1) < least) {
            least = error_of(all, k, 1);
            best = k;
        }
    tap_ok(tap, fit->neighbours == best, "k = %zu neighbours have the least error (%zu)", fit->neighbours, best);
    const double at = error_of(all, 0, fit->bandwidth);
    tap_ok(tap, at < error_of(all, 0, 1.02 * fit->bandwidth) && at < error_of(all, 0, fit->bandwidth / 1.02),
           "h = %.4f has less error than 2 %% beside it", fit->bandwidth);
    tap_ok(tap, at < least && least <= error_of(all, N, 1), "kernel %.4f, nearest %.4f, mean %.4f", at, least,
           error_of(all, N, 1));
}

static icl_status check(tap_run *tap, const char *overrides, shown *all, double *bandwidth, icl_error *error) {
    const icl_reference_predictor *known;
    double outputs[COUNT];
    char text[64] = "";
    icl_status status = ICL_OK;

    ICL_TRY(make_task(overrides, &all->task, error));
    ICL_TRY(draw(all, ICL_FOR_EVALUATION, COUNT, error));
    known = all->task->family->references(all->task);
    compare(tap, all, &known[0], 0, 1, true);
    compare(tap, all, &known[1], N, 1, false);
    tap_ok(tap, !icl_functions_fit_of(all->task)->is_there, "nothing is fitted for zero and mean");
    ICL_TRY(known[3].predict(&known[3], &(icl_shown_sequences){all->task, COUNT, all->inputs, &all->batch}, outputs,
                             error));
    const icl_functions_fit *fit = icl_functions_fit_of(all->task);
    compare(tap, all, &known[2], fit->neighbours, 1, false);
    compare(tap, all, &known[3], 0, fit->bandwidth, false);
    known[3].describe(&known[3], all->task, text, sizeof text);
    tap_ok(tap, fabs(strtod(text + strlen("h = "), NULL) / fit->bandwidth - 1) < 1e-3, "the table has %s", text);
    ICL_TRY(draw(all, ICL_FOR_FITTING, FIT, error));
    check_fit(tap, all, fit);
    *bandwidth = fit->bandwidth;
done:
    icl_batch_release(&all->batch);
    icl_task_destroy(&all->task);
    return status;
}

int main(void) {
    static const char family[] = "task.family=functions task.d=3 task.n=6 ";
    tap_run tap = {0};
    static shown all;
    double bandwidths[2] = {0};
    char overrides[128];
    icl_error error = {0};
    icl_status status = icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &all.backend, &error);

    for (int noisy = 0; noisy < 2 && status == ICL_OK; noisy++) {
        snprintf(overrides, sizeof overrides, "%stask.noise=%s", family, noisy ? "1" : "0");
        status = check(&tap, overrides, &all, &bandwidths[noisy], &error);
    }
    tap_status(&tap, status, &error, "both tasks");
    tap_ok(&tap, bandwidths[1] > 1.5 * bandwidths[0], "noise widens the kernel: h from %.3f to %.3f", bandwidths[0],
           bandwidths[1]);
    icl_backend_close(&all.backend);
    return tap_done(&tap);
}
