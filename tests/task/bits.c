/*
 * The same bits on every device: 100 batches against the cpu backend, all 32 bits of every element, and the first of
 * them against a recomputation on the host from the definition of the task and of the random numbers.
 */
#include <stdint.h>

#include "core/allocate.h"
#include "core/status.h"
#include "make_task.h"
#include "task/streams.h"

enum { BATCH = 48, BATCHES = 100, SEED = 7 };

static const char *const recipes[] = {
    "task.d=10 task.n=20 task.noise=uniform:5",
    "task.d=3 task.n=1 task.noise=choice:1,3,5",
    "task.d=1 task.n=4 task.noise=fixed:0.25",
    ("task.d=5 task.n=20 task.noise=fixed:0 task.covariance=spectrum:1,1,0.25,0.0625,1 task.rotate=true "
     "task.weights=inverse-covariance"),
    "task.d=4 task.n=3 task.noise=choice:0,2 task.covariance=spectrum:4,1,0.25,9",
};

/* One batch on the host: tokens, targets, noise, weights. */
typedef struct parts {
    size_t count[4];
    float *values[4];
} parts;

static void parts_release(parts *all) {
    for (int i = 0; i < 4; i++)
        icl_free(&all->values[i]);
}

static icl_status parts_create(const icl_task *task, parts *all, icl_error *error) {
    const size_t n = icl_task_context(task), d = icl_task_dimension(task);
    const size_t counts[4] = {BATCH * (n + 1) * (d + 1), BATCH, BATCH, BATCH * d};
    icl_status status = ICL_OK;

    for (int i = 0; i < 4 && status == ICL_OK; i++) {
        all->count[i] = counts[i];
        status = icl_allocate(counts[i], sizeof(float), "batch on the host", &all->values[i], error);
    }
    return status;
}

static icl_status parts_read(const icl_batch *batch, parts *all, icl_error *error) {
    const icl_tensor *tensors[4] = {&batch->tokens, &batch->targets, &batch->noise, &batch->weights};
    icl_status status = ICL_OK;

    for (int i = 0; i < 4 && status == ICL_OK; i++)
        status = icl_tensor_read(*tensors[i], all->values[i], error);
    return status;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static size_t parts_differ(const parts *a, const parts *b) {
    size_t different = 0;
    for (int i = 0; i < 4; i++)
        for (size_t k = 0; k < a->count[i]; k++)
            different += bits_of(a->values[i][k]) != bits_of(b->values[i][k]);
    return different;
}

/* ---- The definition, on the host ---- */

static float normal(icl_task_role role, uint64_t step, uint64_t index) {
    const icl_random_key key = {SEED, icl_task_stream(ICL_FOR_TRAINING, role), step};
    return icl_normal_from_word(icl_random_word(key, index));
}

/* root [d][d] times normals, summed from left to right in float; the normals themselves without a root. */
static void coloured(const double *root, size_t d, const float *normals, float *out) {
    for (size_t i = 0; i < d; i++) {
        volatile float sum = root ? (float)root[i * d] * normals[0] : normals[i];
        for (size_t j = 1; root && j < d; j++) {
            volatile float product = (float)root[i * d + j] * normals[j];
            sum = sum + product;
        }
        out[i] = sum;
    }
}

static float label(size_t d, const float *x, const float *w, float noise, float sigma) {
    volatile float sum = x[0] * w[0];
    for (size_t j = 1; j < d; j++) {
        volatile float product = x[j] * w[j];
        sum = sum + product;
    }
    {
        volatile float product = noise * sigma;
        sum = sum + product;
    }
    return sum;
}

static float noise_level(const icl_task_prior *prior, uint64_t step, uint64_t sequence) {
    icl_random_key key = {SEED, icl_task_stream(ICL_FOR_TRAINING, ICL_ROLE_NOISE_LEVEL), step};
    const uint32_t word = icl_random_word(key, sequence);

    if (prior->noise == ICL_NOISE_UNIFORM)
        return (float)prior->noise_max * ((float)(word >> 8) * 0x1p-24f);
    return (float)prior->noise_levels[((uint64_t)word * prior->noise_count) >> 32];
}

static void recompute(const icl_task *task, uint64_t step, parts *all) {
    const icl_task_prior *prior = icl_task_get_prior(task);
    const size_t n = prior->context, d = prior->dimension;
    float normals[16];

    for (size_t s = 0; s < BATCH; s++) {
        float *tokens = all->values[0] + s * (n + 1) * (d + 1), *w = all->values[3] + s * d;
        const float sigma = noise_level(prior, step, s);

        for (size_t k = 0; k < d; k++)
            normals[k] = normal(ICL_ROLE_WEIGHTS, step, s * d + k);
        coloured(prior->weight_root, d, normals, w);
        all->values[2][s] = sigma;
        for (size_t i = 0; i <= n; i++) {
            float *x = tokens + i * (d + 1);
            for (size_t k = 0; k < d; k++)
                normals[k] = normal(ICL_ROLE_INPUTS, step, (s * (n + 1) + i) * d + k);
            coloured(prior->covariance_root, d, normals, x);
            x[d] = i < n ? label(d, x, w, normal(ICL_ROLE_LABEL_NOISE, step, s * n + i), sigma) : 0;
            if (i == n)
                all->values[1][s] = label(d, x, w, 0, sigma);
        }
    }
}

/* ---- The checks ---- */

static icl_status compare_recipe(tap_run *tap, const char *overrides, icl_backend *backend, icl_backend *cpu,
                                 icl_error *error) {
    icl_task *task = NULL;
    icl_batch ours = {0}, theirs = {0};
    parts seen = {{0}, {0}}, expected = {{0}, {0}};
    size_t different = 0, first = 0;
    icl_status status;

    ICL_TRY(make_task(overrides, &task, error));
    ICL_TRY(parts_create(task, &seen, error));
    ICL_TRY(parts_create(task, &expected, error));
    ICL_TRY(icl_batch_create(task, backend, ICL_FOR_TRAINING, BATCH, &ours, error));
    ICL_TRY(icl_batch_create(task, cpu, ICL_FOR_TRAINING, BATCH, &theirs, error));
    for (uint64_t step = 0; step < BATCHES; step++) {
        /* Steps beyond 32 bits, and not in order: a batch depends on nothing before it. */
        const uint64_t shuffled = (step * 37 % BATCHES) + (step % 3 ? 0 : (uint64_t)1 << 33);
        ICL_TRY(icl_task_sample(task, backend, ICL_FOR_TRAINING, SEED, shuffled, &ours, error));
        ICL_TRY(icl_task_sample(task, cpu, ICL_FOR_TRAINING, SEED, shuffled, &theirs, error));
        ICL_TRY(parts_read(&ours, &seen, error));
        ICL_TRY(parts_read(&theirs, &expected, error));
        different += parts_differ(&seen, &expected);
        if (step == 1) {
            recompute(task, shuffled, &expected);
            first = parts_differ(&seen, &expected);
        }
    }
    tap_ok(tap, different == 0, "100 batches have the cpu's bits: %s (%zu elements differ)", overrides,
           different);
    tap_ok(tap, first == 0, "and those of the definition (%zu elements differ)", first);
done:
    icl_batch_release(&ours);
    icl_batch_release(&theirs);
    parts_release(&seen);
    parts_release(&expected);
    icl_task_destroy(&task);
    return status;
}

int main(int count, char **arguments) {
    tap_run tap = {0};
    icl_error error = {0};
    icl_backend *backend = tap_open_device(&tap, count > 1 ? arguments[1] : "cpu"), *cpu = NULL;

    if (backend && tap_status(&tap, icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &cpu, &error),
                              &error, "open the cpu to compare with"))
        for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
            tap_status(&tap, compare_recipe(&tap, recipes[i], backend, cpu, &error), &error, "sampling runs");
    if (backend)
        tap_ok(&tap, icl_backend_get_statistics(backend).fallbacks == 0, "every op ran on the device itself");
    icl_backend_close(&cpu);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
