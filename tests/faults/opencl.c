/*
 * Blocks: memory of an OpenCL device is taken and written. Every allocation on the host, and every call that creates a
 * block or transfers numbers, fails once, and then once with all that follow. Each time the outcome is an error of one
 * line, or the numbers as they were written; and nothing is held afterwards.
 *
 * Launches: every argument, launch and flush of a row of predictions fails once, and then once with all that follow.
 * Each time the outcome is an error of one line, and the backend then predicts as before, whether or not the kernel has
 * run whose launch is said to have failed: the teams of a CPU count their work on the device, and the host counts too.
 */
#include "attempts.h"
#include "backend/opencl/pool.h"
#include "faults.h"
#include "iclab/ops_linear_transformer.h"
#include "iclab/tensor.h"

/* ---- Memory ---- */

enum { SIZES = 3, MOST = 5000 };

static const size_t sizes[SIZES] = {1, 300, MOST};

typedef struct block_trial {
    icl_backend *backend;
    float numbers[MOST], seen[SIZES][MOST];
} block_trial;

static icl_status fill_blocks(void *context, icl_error *error) {
    block_trial *t = context;
    icl_tensor tensors[SIZES] = {{0}};
    icl_status status = ICL_OK;

    memset(t->seen, 0, sizeof t->seen);
    for (size_t i = 0; i < SIZES; i++) {
        ICL_TRY(icl_tensor_create(t->backend, 1, &sizes[i], &tensors[i], error));
        ICL_TRY(icl_tensor_write(tensors[i], t->numbers, error));
        ICL_TRY(icl_tensor_read(tensors[i], t->seen[i], error));
    }
done:
    for (size_t i = 0; i < SIZES; i++)
        icl_tensor_release(&tensors[i]);
    icl_pool_trim(icl_opencl_of(t->backend));
    return status;
}

static bool are_filled(const void *context) {
    const block_trial *t = context;

    for (size_t i = 0; i < SIZES; i++)
        if (memcmp(t->seen[i], t->numbers, sizes[i] * sizeof t->numbers[0]) != 0)
            return false;
    return true;
}

void fault_blocks(tap_run *tap) {
    static block_trial t;
    const fault_work work = {.attempt = fill_blocks, .as_expected = are_filled, .context = &t};
    icl_error error = {0};

    if (!(t.backend = tap_open_device(tap, "opencl:pocl")))
        return;
    for (size_t i = 0; i < MOST; i++)
        t.numbers[i] = (float)i + 1;
    tap_ok(tap, fill_blocks(&t, &error) == ICL_OK && are_filled(&t), "numbers go there and back");
    for (int lasting = 0; lasting < 2; lasting++) {
        fault_check(tap, &work, FAULT_ALLOCATION, lasting);
        fault_check(tap, &work, FAULT_OPENCL_WORK, lasting);
    }
    fault_check(tap, &work, FAULT_OPENCL_SETUP, true); /* a call that fails only once is repeated */
    const icl_backend_statistics held = icl_backend_get_statistics(t.backend);
    tap_ok(tap, held.bytes_live == 0, "%zu bytes are in use then", held.bytes_live);
    icl_backend_close(&t.backend);
}

/* ---- Launches ---- */

enum { SIZE = 4, BATCH = 640, LAUNCHES = 33 }; /* LAUNCHES: more than come between two flushes */

typedef struct trial {
    icl_backend *backend;
    icl_linear_transformer_params params;
    icl_tensor predictions, parameters, gram, query;
    float expected[BATCH], seen[BATCH];
    unsigned recovered, failed;
} trial;

static icl_status fill(const trial *t, uint32_t stream, icl_tensor tensor, icl_error *error) {
    const icl_random_params normal = {.distribution = ICL_NORMAL, .key = {.seed = 3, .stream = stream}};
    return icl_random_fill(t->backend, &normal, tensor, error);
}

static icl_status prepare(trial *t, icl_error *error) {
    icl_status status = ICL_OK;

    t->params = (icl_linear_transformer_params){.layers = 3, .depth = 3, .heads = 1, .factor = 0.1};
    const size_t parameters[] = {icl_linear_transformer_size(&t->params, SIZE - 1)}, gram[] = {BATCH, SIZE, SIZE},
                 query[] = {BATCH, SIZE};
    ICL_TRY(icl_tensor_create(t->backend, 1, query, &t->predictions, error));
    ICL_TRY(icl_tensor_create(t->backend, 1, parameters, &t->parameters, error));
    ICL_TRY(icl_tensor_create(t->backend, 3, gram, &t->gram, error));
    ICL_TRY(icl_tensor_create(t->backend, 2, query, &t->query, error));
    ICL_TRY(fill(t, 0, t->parameters, error));
    ICL_TRY(fill(t, 1, t->gram, error));
    ICL_TRY(fill(t, 2, t->query, error));
done:
    return status;
}

static icl_status predict(const trial *t, int times, float *predictions, icl_error *error) {
    icl_status status = ICL_OK;

    for (int i = 0; i < times; i++)
        ICL_TRY(icl_linear_transformer_predict(t->backend, &t->params, t->predictions, t->parameters, (icl_tensor){0},
                                               t->gram, t->query, error));
    ICL_TRY(icl_tensor_read(t->predictions, predictions, error));
done:
    return status;
}

static icl_status attempt(void *context, icl_error *error) {
    trial *t = context;
    return predict(t, LAUNCHES, t->seen, error);
}

static bool as_expected(const void *context) {
    const trial *t = context;
    return memcmp(t->seen, t->expected, sizeof t->seen) == 0;
}

/* Predicts once more after the fault is gone. The old predictions are wiped out first, so that the next launch shows
 * that it does its work. */
static void go_on(void *context) {
    trial *t = context;
    icl_error error = {0};

    memset(t->seen, 0, sizeof t->seen);
    if (icl_tensor_write(t->predictions, t->seen, &error) == ICL_OK && predict(t, 1, t->seen, &error) == ICL_OK &&
        as_expected(t))
        t->recovered++;
    else
        t->failed++;
}

void fault_launches(tap_run *tap) {
    static trial t;
    const fault_work work = {.attempt = attempt, .as_expected = as_expected, .clear = go_on, .context = &t};
    icl_error error = {0};
    const fault_holdings before = fault_held();

    if (!(t.backend = tap_open_device(tap, "opencl:pocl")))
        return;
    if (tap_status(tap, prepare(&t, &error), &error, "operands") &&
        tap_status(tap, predict(&t, LAUNCHES, t.expected, &error), &error, "predictions")) {
        for (int lasting = 0; lasting < 2; lasting++)
            fault_check(tap, &work, FAULT_OPENCL_WORK, lasting);
        tap_ok(tap, t.failed == 0, "after %u of %u faults the same is predicted again", t.recovered,
               t.recovered + t.failed);
    }
    icl_tensor_release(&t.predictions);
    icl_tensor_release(&t.parameters);
    icl_tensor_release(&t.gram);
    icl_tensor_release(&t.query);
    icl_backend_close(&t.backend);
    const fault_holdings after = fault_held();
    tap_ok(tap, after.objects == before.objects && after.memory == before.memory,
           "closing gives back all: %ld of OpenCL's objects are left, and %ld blocks of memory",
           after.objects - before.objects, after.memory - before.memory);
}
