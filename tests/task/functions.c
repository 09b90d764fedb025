/*
 * Functions on the sphere: the same bits on every device, and what they are by definition, in double precision from the
 * inputs and directions of a batch and the random numbers of its coefficients and noise. Inputs are of length 1 within
 * a few roundings; labels pass through fewer than 60 roundings of terms that add up to less than 10.
 */
#include <math.h>

#include "same_bits.h"
#include "task/covariance.h"
#include "task/streams.h"

enum { BATCH = 29, BATCHES = 12 };

typedef struct recipe {
    const char *overrides;
    char class; /* the first letter of task.function */
    double lipschitz, sigma, nuisance;
} recipe;

#define FAMILY "task.family=functions task.inputs=sphere "

static const recipe recipes[] = {
    {FAMILY "task.d=5 task.n=20 task.noise=fixed:0.5 task.lipschitz=3", 'a', 3, .5, 0},
    {FAMILY "task.d=3 task.n=7 task.noise=fixed:0 task.function=relu", 'r', 1, 0, 0},
    {FAMILY "task.d=2 task.n=9 task.noise=fixed:2 task.function=cosine task.lipschitz=10", 'c', 10, 2, 0},
    {FAMILY "task.d=4 task.n=5 task.noise=fixed:0 task.function=quadratic", 'q', 1, 0, 0},
    {FAMILY "task.d=6 task.n=5 task.noise=fixed:1 task.function=cosine task.subspace=2 task.nuisance=0.5", 'c', 1, 1,
     .5},
    {FAMILY "task.d=3 task.n=4 task.noise=fixed:0 task.function=affine task.subspace=1 task.nuisance=2", 'a', 1, 0, 2},
};

/* ---- The definition ---- */

static double uniform(uint64_t index, double limit) {
    const icl_random_params params = {.key = {SEED, icl_stream_for(ICL_FOR_TRAINING, ICL_COEFFICIENT_STREAMS), 5},
                                      .low = (float)-limit,
                                      .high = (float)limit};
    return (double)icl_random_value(&params, index);
}

static double noise(uint64_t index) {
    const icl_random_key key = {SEED, icl_task_stream(ICL_FOR_TRAINING, ICL_ROLE_LABEL_NOISE), 5};
    return (double)icl_normal_from_word(icl_random_word(key, index));
}

static double evaluate(const recipe *is, size_t sequence, double s) {
    const size_t own = is->class == 'r' ? 2 : 1, first = sequence * (own + 1);
    const double slope = uniform(first, is->lipschitz), offset = uniform(first + own, is->lipschitz);

    switch (is->class) {
    case 'r':
        return (s > 0 ? slope * s : uniform(first + 1, is->lipschitz) * -s) + offset;
    case 'c':
        return slope * cos(2 * s) / 2 + offset;
    case 'q':
        return slope * s * s / 2 + offset;
    default:
        return slope * s + offset;
    }
}

/* Lengths of x inside the subspace (of all of it without one) and outside, and s = a^T B^T x. */
static double project(const icl_task_prior *prior, const float *x, const float *a, double *inside, double *outside) {
    const size_t d = prior->dimension, k = prior->subspace ? prior->subspace : d;
    double s = 0, squares[2] = {0, 0};

    for (size_t column = 0; column < d; column++) {
        double part = prior->subspace ? 0 : (double)x[column];
        for (size_t i = 0; prior->subspace && i < d; i++)
            part += prior->subspace_rotation[i * d + column] * (double)x[i];
        squares[column >= k] += part * part;
        s += column < k ? part * (double)a[column] : 0;
    }
    *inside = sqrt(squares[0]);
    *outside = sqrt(squares[1]);
    return s;
}

static icl_status check_definition(tap_run *tap, two_devices *both, const recipe *is, icl_error *error) {
    const icl_task_prior *prior = icl_task_get_prior(both->task);
    const size_t d = prior->dimension, n = prior->context, k = prior->subspace ? prior->subspace : d;
    double length = 0, label = 0, largest = 0;
    icl_status status;

    ICL_TRY(two_devices_sample(both, 5, error));
    for (size_t s = 0; s < BATCH; s++)
        for (size_t i = 0; i <= n; i++) {
            const float *x = both->seen.values[TOKENS] + (s * (n + 1) + i) * (d + 1);
            double inside, outside;
            const double at = project(prior, x, both->seen.values[WEIGHTS] + s * k, &inside, &outside);
            const double clean = evaluate(is, s, at);
            const double seen = (double)(i < n ? x[d] : both->seen.values[TARGETS][s]);
            length = fmax(length, fmax(fabs(inside - 1), fabs(outside - is->nuisance)));
            label = fmax(label, fabs(seen - clean - (i < n ? is->sigma * noise(s * n + i) : 0)));
            largest = fmax(largest, fabs(at));
        }
    tap_ok(tap, length < 3e-6, "lengths inside and outside of the subspace are 1 and c (%.2g)", length);
    tap_ok(tap, label < 60 * 10 * 0x1p-24 * fmax(is->lipschitz, is->sigma),
           "labels and targets are the function's (%.2g)", label);
    tap_ok(tap, largest > .5 && largest < 1 + 1e-6, "projections use the sphere (%.3g)", largest);
done:
    return status;
}

static icl_status compare_recipe(tap_run *tap, const recipe *is, icl_backend *backend, icl_backend *cpu,
                                 icl_error *error) {
    two_devices both;
    size_t different = 0;
    icl_status status;

    ICL_TRY(two_devices_open(&both, is->overrides, BATCH, backend, cpu, error));
    for (uint64_t i = 0; i < BATCHES; i++) {
        ICL_TRY(two_devices_sample(&both, shuffled_step(i, 5, BATCHES), error));
        different += parts_differ(&both.seen, &both.expected);
    }
    tap_ok(tap, different == 0, "%d batches have the cpu's bits: %s (%zu elements differ)", BATCHES, is->overrides,
           different);
    ICL_TRY(check_definition(tap, &both, is, error));
done:
    two_devices_close(&both);
    return status;
}

/* ---- The subspace ---- */

/* task.rotation_seed decides which directions functions see. */
static void check_rotation(tap_run *tap) {
    enum { D = 5 };
    double *expected = NULL;
    icl_error error = {0};
    char overrides[128];

    for (uint32_t seed = 1; seed <= 2; seed++) {
        icl_task *task = NULL;
        double worst = 0;
        snprintf(overrides, sizeof overrides, FAMILY "task.d=%d task.n=7 task.subspace=2 task.rotation_seed=%u", D,
                 (unsigned)seed);
        icl_status status = make_task(overrides, &task, &error);
        if (status == ICL_OK)
            status = icl_random_rotation(D, seed, &expected, &error);
        for (size_t i = 0; status == ICL_OK && i < (size_t)D * D; i++)
            worst = fmax(worst, fabs(icl_task_get_prior(task)->subspace_rotation[i] - (double)(float)expected[i]));
        tap_ok(tap, status == ICL_OK && worst == 0, "the subspace is that of task.rotation_seed = %u %s",
               (unsigned)seed, error.message);
        icl_free(&expected);
        icl_task_destroy(&task);
    }
}

static void check_all(tap_run *tap, icl_backend *backend, icl_backend *cpu) {
    icl_error error = {0};
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        tap_status(tap, compare_recipe(tap, &recipes[i], backend, cpu, &error), &error, "sampling runs");
    check_rotation(tap);
}

int main(int count, char **arguments) {
    return test_beside_cpu(count, arguments, check_all);
}
