/*
 * Gram matrices drawn without tokens have the same bits on every device: batches against the cpu backend, all 32 bits of every
 * element. (That these are the bits of the definition is for the conformance cases of gram_sample.) Also who gets them: batches
 * for training alone.
 */
#include <stdint.h>

#include "core/allocate.h"
#include "core/status.h"
#include "make_task.h"

enum { BATCH = 53, BATCHES = 20, SEED = 7, PARTS = 5 };

static const char *const recipes[] = {
    "task.sampler=gram task.d=10 task.n=20 task.noise=uniform:5",
    "task.sampler=gram task.d=20 task.n=10000 task.noise=fixed:0",
    "task.sampler=gram task.d=3 task.n=1 task.noise=choice:1,3,5",
    "task.sampler=gram task.d=1 task.n=4 task.noise=fixed:0.25",
    ("task.sampler=gram task.d=5 task.n=20 task.noise=fixed:1 task.covariance=spectrum:1,1,0.25,0.0625,1 "
     "task.rotate=true task.weights=inverse-covariance"),
    "task.sampler=gram task.d=7 task.n=4 task.noise=choice:0,2 task.covariance=spectrum:4,1,0.25,9,1,1,2",
};

typedef struct parts {
    float *values[PARTS];
    size_t count[PARTS];
} parts;

static void parts_release(parts *all) {
    for (int i = 0; i < PARTS; i++)
        icl_free(&all->values[i]);
}

static icl_status parts_read(const icl_batch *batch, parts *all, icl_error *error) {
    const icl_tensor tensors[PARTS] = {batch->gram, batch->query, batch->targets, batch->noise,
                                       batch->weights};
    icl_status status = ICL_OK;

    for (int i = 0; i < PARTS; i++) {
        all->count[i] = icl_tensor_count(&tensors[i]);
        if (!all->values[i])
            ICL_TRY(icl_allocate(all->count[i], sizeof(float), "batch on the host", &all->values[i], error));
        ICL_TRY(icl_tensor_read(tensors[i], all->values[i], error));
    }
done:
    return status;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static size_t parts_differ(const parts *a, const parts *b) {
    size_t different = 0;
    for (int i = 0; i < PARTS; i++)
        for (size_t k = 0; k < a->count[i]; k++)
            different += bits_of(a->values[i][k]) != bits_of(b->values[i][k]);
    return different;
}

static icl_status compare_recipe(tap_run *tap, const char *overrides, icl_backend *backend, icl_backend *cpu,
                                 icl_error *error) {
    icl_task *task = NULL;
    icl_batch ours = {0}, theirs = {0};
    parts seen = {0}, expected = {0}, before = {0};
    size_t different = 0, repeated = 0;
    icl_status status;

    ICL_TRY(make_task(overrides, &task, error));
    ICL_TRY(icl_batch_create(task, backend, ICL_FOR_TRAINING, BATCH, &ours, error));
    ICL_TRY(icl_batch_create(task, cpu, ICL_FOR_TRAINING, BATCH, &theirs, error));
    for (uint64_t step = 0; step < BATCHES; step++) {
        /* Steps beyond 32 bits, and not in order: a batch depends on nothing before it. */
        const uint64_t shuffled = (step * 7 % BATCHES) + (step % 3 ? 0 : (uint64_t)1 << 33);
        ICL_TRY(icl_task_sample(task, backend, ICL_FOR_TRAINING, SEED, shuffled, &ours, error));
        ICL_TRY(icl_task_sample(task, cpu, ICL_FOR_TRAINING, SEED, shuffled, &theirs, error));
        ICL_TRY(parts_read(&ours, &seen, error));
        ICL_TRY(parts_read(&theirs, &expected, error));
        different += parts_differ(&seen, &expected);
        repeated += step > 0 && before.values[0][0] == seen.values[0][0];
        ICL_TRY(parts_read(&ours, &before, error));
    }
    tap_ok(tap, different == 0, "%d batches have the cpu's bits: %s (%zu elements differ)", BATCHES,
           overrides, different);
    tap_ok(tap, repeated == 0 && !ours.tokens.buffer, "each step has its own, and no tokens");
done:
    icl_batch_release(&ours);
    icl_batch_release(&theirs);
    parts_release(&seen);
    parts_release(&expected);
    parts_release(&before);
    icl_task_destroy(&task);
    return status;
}

/* Evaluation and fitting see tokens, the same ones as with task.sampler = tokens. */
static icl_status check_purposes(tap_run *tap, icl_backend *backend, icl_error *error) {
    static const char *const overrides[] = {"task.d=3 task.n=5", "task.sampler=gram task.d=3 task.n=5"};
    float tokens[2][4 * 6 * 4];
    size_t different = 0;
    icl_status status = ICL_OK;

    for (int purpose = ICL_FOR_EVALUATION; purpose <= ICL_FOR_FITTING; purpose++) {
        for (int i = 0; i < 2; i++) {
            icl_task *task = NULL;
            icl_batch batch = {0};
            status = make_task(overrides[i], &task, error);
            if (status == ICL_OK)
                status = icl_batch_create(task, backend, (icl_task_purpose)purpose, 4, &batch, error);
            if (status == ICL_OK)
                status = icl_task_sample(task, backend, (icl_task_purpose)purpose, 1, 2, &batch, error);
            if (status == ICL_OK)
                status = icl_tensor_read(batch.tokens, tokens[i], error);
            icl_batch_release(&batch);
            icl_task_destroy(&task);
            ICL_TRY(status);
        }
        for (size_t k = 0; k < sizeof tokens[0] / sizeof *tokens[0]; k++)
            different += tokens[0][k] != tokens[1][k];
        tap_ok(tap, different == 0, "purpose %d: the same tokens", purpose);
    }
done:
    return status;
}

int main(int count, char **arguments) {
    tap_run tap = {0};
    icl_error error = {0};
    icl_backend *backend = tap_open_device(&tap, count > 1 ? arguments[1] : "cpu"), *cpu = NULL;

    if (backend && tap_status(&tap, icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &cpu, &error),
                              &error, "open the cpu to compare with")) {
        for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
            tap_status(&tap, compare_recipe(&tap, recipes[i], backend, cpu, &error), &error, "sampling runs");
        tap_status(&tap, check_purposes(&tap, backend, &error), &error, "batches of other purposes");
        tap_ok(&tap, icl_backend_get_statistics(backend).fallbacks == 0, "every op ran on the device itself");
    }
    icl_backend_close(&cpu);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
