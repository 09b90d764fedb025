/* One task's batches on a device and on the cpu backend, side by side on the host, for the tests of their bits. */
#ifndef ICLAB_TESTS_SAME_BITS_H
#define ICLAB_TESTS_SAME_BITS_H

#include <stdint.h>

#include "core/allocate.h"
#include "iclab/status.h"
#include "make_task.h"

enum { SEED = 7 };

enum { TOKENS, GRAM, QUERY, TARGETS, NOISE, WEIGHTS, PARTS };

/* A batch on the host; what the task's sampler leaves out is NULL. */
typedef struct parts {
    float *values[PARTS];
    size_t count[PARTS];
} parts;

static inline void parts_release(parts *all) {
    for (int i = 0; i < PARTS; i++)
        icl_free(&all->values[i]);
}

static inline icl_status parts_read(const icl_batch *batch, parts *all, icl_error *error) {
    const icl_tensor tensors[PARTS] = {
        batch->inputs,  icl_batch_side(batch, ICL_SIDE_GRAM),  icl_batch_side(batch, ICL_SIDE_QUERY),
        batch->targets, icl_batch_side(batch, ICL_SIDE_NOISE), icl_batch_side(batch, ICL_SIDE_COEFFICIENTS)};
    icl_status status = ICL_OK;

    for (int i = 0; i < PARTS; i++) {
        if (!tensors[i].buffer)
            continue;
        all->count[i] = icl_tensor_count(&tensors[i]);
        if (!all->values[i])
            ICL_TRY(icl_allocate(all->count[i], sizeof(float), "batch on the host", &all->values[i], error));
        ICL_TRY(icl_tensor_read(tensors[i], all->values[i], error));
    }
done:
    return status;
}

static inline uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The number of elements, of any part that either has. */
static inline size_t parts_differ(const parts *a, const parts *b) {
    size_t different = 0;
    for (int i = 0; i < PARTS; i++) {
        if (a->count[i] != b->count[i])
            different += a->count[i] + b->count[i];
        for (size_t k = 0; k < a->count[i] && a->count[i] == b->count[i]; k++)
            different += bits_of(a->values[i][k]) != bits_of(b->values[i][k]);
    }
    return different;
}

typedef struct two_devices {
    icl_backend *backend, *cpu;
    icl_task *task;
    icl_batch ours, theirs;
    parts seen, expected;
} two_devices;

/* Training batches of the recipe that the overrides make. To be closed, even when it failed. */
static inline icl_status two_devices_open(two_devices *both, const char *overrides, size_t batch, icl_backend *backend,
                                          icl_backend *cpu, icl_error *error) {
    icl_status status = ICL_OK;

    *both = (two_devices){.backend = backend, .cpu = cpu};
    ICL_TRY(make_task(overrides, &both->task, error));
    ICL_TRY(icl_batch_create(both->task, backend, ICL_FOR_TRAINING, batch, &both->ours, error));
    ICL_TRY(icl_batch_create(both->task, cpu, ICL_FOR_TRAINING, batch, &both->theirs, error));
done:
    return status;
}

static inline icl_status two_devices_sample(two_devices *both, uint64_t step, icl_error *error) {
    icl_status status = ICL_OK;

    ICL_TRY(icl_task_sample(both->task, both->backend, ICL_FOR_TRAINING, SEED, step, &both->ours, error));
    ICL_TRY(icl_task_sample(both->task, both->cpu, ICL_FOR_TRAINING, SEED, step, &both->theirs, error));
    ICL_TRY(parts_read(&both->ours, &both->seen, error));
    ICL_TRY(parts_read(&both->theirs, &both->expected, error));
done:
    return status;
}

static inline void two_devices_close(two_devices *both) {
    icl_batch_release(&both->ours);
    icl_batch_release(&both->theirs);
    parts_release(&both->seen);
    parts_release(&both->expected);
    icl_task_destroy(&both->task);
}

/* The steps of a test, beyond 32 bits and not in order: a batch depends on nothing before it. `stride`
 * and `steps` are coprime. */
static inline uint64_t shuffled_step(uint64_t step, uint64_t stride, uint64_t steps) {
    return step * stride % steps + (step % 3 ? 0 : (uint64_t)1 << 33);
}

/* A check that batches of a few steps have the cpu's bits. */
static inline icl_status two_devices_compare(tap_run *tap, const char *overrides, size_t batch, icl_backend *backend,
                                             icl_backend *cpu, icl_error *error) {
    enum { STEPS = 5 };
    two_devices both;
    size_t different = 0, numbers = 0;
    icl_status status = ICL_OK;

    ICL_TRY(two_devices_open(&both, overrides, batch, backend, cpu, error));
    for (uint64_t step = 0; step < STEPS; step++) {
        ICL_TRY(two_devices_sample(&both, shuffled_step(step, 3, STEPS), error));
        different += parts_differ(&both.seen, &both.expected);
        numbers += both.seen.count[TOKENS];
    }
    tap_ok(tap, different == 0 && numbers > 0, "%s: the cpu's bits in all of %zu numbers", overrides, numbers);
done:
    two_devices_close(&both);
    return status;
}

/* Opens the device that the test was given and the cpu, runs the checks, and sees that every op ran on the device
 * itself. Returns the process's exit code. */
static inline int test_beside_cpu(int count, char **arguments,
                                  void (*checks)(tap_run *tap, icl_backend *backend, icl_backend *cpu)) {
    tap_run tap = {0};
    icl_error error = {0};
    icl_backend *backend = tap_open_device(&tap, count > 1 ? arguments[1] : "cpu"), *cpu = NULL;

    if (backend && tap_status(&tap, icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &cpu, &error), &error,
                              "open the cpu to compare with")) {
        checks(&tap, backend, cpu);
        tap_ok(&tap, icl_backend_get_statistics(backend).fallbacks == 0, "every op ran on the device itself");
    }
    icl_backend_close(&cpu);
    icl_backend_close(&backend);
    return tap_done(&tap);
}

#endif
