/*
 * Memory of an OpenCL device: every allocation on the host, and every call to make a block or bring numbers there,
 * fails once, and then once with all that follow. Each time the outcome is an error of one line, or the numbers as they
 * were written, and nothing is held afterwards.
 */
#include "attempts.h"
#include "backend/opencl/pool.h"
#include "faults.h"
#include "iclab/tensor.h"

enum { SIZES = 3, MOST = 5000 };

static const size_t sizes[SIZES] = {1, 300, MOST};

typedef struct trial {
    icl_backend *backend;
    float numbers[MOST], seen[SIZES][MOST];
} trial;

static icl_status attempt(void *context, icl_error *error) {
    trial *t = context;
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

static bool as_expected(const void *context) {
    const trial *t = context;

    for (size_t i = 0; i < SIZES; i++)
        if (memcmp(t->seen[i], t->numbers, sizes[i] * sizeof t->numbers[0]) != 0)
            return false;
    return true;
}

void fault_blocks(tap_run *tap) {
    static trial t;
    const fault_work work = {.attempt = attempt, .as_expected = as_expected, .context = &t};
    icl_error error = {0};

    if (!(t.backend = tap_open_device(tap, "opencl:pocl")))
        return;
    for (size_t i = 0; i < MOST; i++)
        t.numbers[i] = (float)i + 1;
    tap_ok(tap, attempt(&t, &error) == ICL_OK && as_expected(&t), "numbers go there and back");
    for (int lasting = 0; lasting < 2; lasting++) {
        fault_check(tap, &work, FAULT_ALLOCATION, lasting);
        fault_check(tap, &work, FAULT_OPENCL_WORK, lasting);
    }
    fault_check(tap, &work, FAULT_OPENCL_SETUP, true); /* one that fails once is asked for again */
    const icl_backend_statistics held = icl_backend_get_statistics(t.backend);
    tap_ok(tap, held.bytes_live == 0, "%zu bytes are in use then", held.bytes_live);
    icl_backend_close(&t.backend);
}
