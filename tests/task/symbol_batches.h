/* Batches of symbols and their targets on the host, for the tests of tasks that have them. */
#ifndef ICLAB_TESTS_SYMBOL_BATCHES_H
#define ICLAB_TESTS_SYMBOL_BATCHES_H

#include "same_bits.h"

enum { BATCH = 37 };

/* A batch on the host. */
typedef struct host_batch {
    float *inputs, *targets, *weights;
    size_t size, length, scored, target_count;
} host_batch;

static inline icl_status host_batch_read(const icl_batch *batch, host_batch *host, icl_error *error) {
    const size_t scored = batch->size * batch->shape.scored;
    icl_status status = ICL_OK;

    *host = (host_batch){.size = batch->size,
                         .length = batch->shape.positions,
                         .scored = batch->shape.scored,
                         .target_count = icl_tensor_count(&batch->targets)};
    ICL_TRY(icl_allocate(batch->size * host->length, sizeof(float), "symbols", &host->inputs, error));
    ICL_TRY(icl_allocate(host->target_count, sizeof(float), "targets", &host->targets, error));
    ICL_TRY(icl_allocate(scored, sizeof(float), "weights", &host->weights, error));
    ICL_TRY(icl_tensor_read(batch->inputs, host->inputs, error));
    ICL_TRY(icl_tensor_read(batch->targets, host->targets, error));
    ICL_TRY(icl_tensor_read(batch->weights, host->weights, error));
done:
    return status;
}

static inline void host_batch_release(host_batch *host) {
    icl_free(&host->inputs);
    icl_free(&host->targets);
    icl_free(&host->weights);
}

/* Whether sequence `number` is what the law says; may count what it has drawn. */
typedef bool (*sequence_check)(const host_batch *host, size_t number, void *law);

/* How many sequences of `steps` batches are not what the law says. */
static inline icl_status count_wrong(const char *overrides, icl_task_purpose purpose, uint64_t steps,
                                     icl_backend *backend, sequence_check check, void *law, size_t *wrong,
                                     icl_error *error) {
    icl_task *task = NULL;
    icl_batch batch = {0};
    host_batch host = {0};
    icl_status status = ICL_OK;

    *wrong = 0;
    ICL_TRY(make_task(overrides, &task, error));
    ICL_TRY(icl_batch_create(task, backend, purpose, BATCH, &batch, error));
    for (uint64_t step = 0; step < steps; step++) {
        ICL_TRY(icl_task_sample(task, backend, purpose, SEED, step, &batch, error));
        ICL_TRY(host_batch_read(&batch, &host, error));
        for (size_t i = 0; i < BATCH; i++)
            *wrong += !check(&host, i, law);
        host_batch_release(&host);
    }
done:
    host_batch_release(&host);
    icl_batch_release(&batch);
    icl_task_destroy(&task);
    return status;
}

/* Batches of different purposes, seeds and steps share nothing; one of the same is the same on both devices. */
static inline icl_status compare_symbol_batches(tap_run *tap, const char *overrides, icl_backend *backend,
                                                icl_backend *cpu, icl_error *error) {
    static const struct {
        icl_task_purpose purpose;
        uint32_t seed;
        uint64_t step;
    } others[] = {{ICL_FOR_EVALUATION, SEED, 5},
                  {ICL_FOR_FITTING, SEED, 5},
                  {ICL_FOR_TRAINING, SEED + 1, 5},
                  {ICL_FOR_TRAINING, SEED, 6},
                  {ICL_FOR_TRAINING, SEED, ((uint64_t)1 << 32) + 5},
                  {ICL_FOR_TRAINING, SEED, 5}};
    icl_task *task = NULL;
    icl_batch ours = {0}, theirs = {0};
    host_batch a = {0}, b = {0};
    icl_status status = ICL_OK;

    ICL_TRY(make_task(overrides, &task, error));
    ICL_TRY(icl_batch_create(task, backend, ICL_FOR_TRAINING, BATCH, &ours, error));
    ICL_TRY(icl_batch_create(task, cpu, ICL_FOR_TRAINING, BATCH, &theirs, error));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const bool same = i + 1 == sizeof others / sizeof *others;
        ICL_TRY(icl_task_sample(task, backend, ICL_FOR_TRAINING, SEED, 5, &ours, error));
        ICL_TRY(icl_task_sample(task, cpu, others[i].purpose, others[i].seed, others[i].step, &theirs, error));
        ICL_TRY(host_batch_read(&ours, &a, error));
        ICL_TRY(host_batch_read(&theirs, &b, error));
        const bool equal = memcmp(a.inputs, b.inputs, a.size * a.length * sizeof(float)) == 0 &&
                           memcmp(a.targets, b.targets, a.target_count * sizeof(float)) == 0 &&
                           memcmp(a.weights, b.weights, a.size * a.scored * sizeof(float)) == 0;
        tap_ok(tap, equal == same, "%s: %s", overrides,
               same ? "a batch has the cpu's bits" : "another purpose, seed or step: other numbers");
        host_batch_release(&a);
        host_batch_release(&b);
    }
done:
    host_batch_release(&a);
    host_batch_release(&b);
    icl_batch_release(&ours);
    icl_batch_release(&theirs);
    icl_task_destroy(&task);
    return status;
}

#endif
