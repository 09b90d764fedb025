/*
 * Gram matrices drawn without tokens have the same bits on every device: batches against the cpu backend, all 32 bits
 * of every element. (That these are the bits of the definition is for the conformance cases of gram_sample.) Also who
 * gets them: batches for training alone.
 */
#include "same_bits.h"

enum { BATCH = 53, BATCHES = 20 };

static const char *const recipes[] = {
    "task.sampler=gram task.d=10 task.n=20 task.noise=uniform:5",
    "task.sampler=gram task.d=20 task.n=10000 task.noise=fixed:0",
    "task.sampler=gram task.d=3 task.n=1 task.noise=choice:1,3,5",
    "task.sampler=gram task.d=1 task.n=4 task.noise=fixed:0.25",
    ("task.sampler=gram task.d=5 task.n=20 task.noise=fixed:1 task.covariance=spectrum:1,1,0.25,0.0625,1 "
     "task.rotate=true task.weights=inverse-covariance"),
    "task.sampler=gram task.d=2 task.n=1 task.noise=choice:0,1e-30",
    "task.sampler=gram task.d=2 task.n=3 task.noise=uniform:1e-22 task.covariance=spectrum:1e-22,1e-22",
    "task.sampler=gram task.d=7 task.n=4 task.noise=choice:0,2 task.covariance=spectrum:4,1,0.25,9,1,1,2",
};

static icl_status compare_recipe(tap_run *tap, const char *overrides, icl_backend *backend, icl_backend *cpu,
                                 icl_error *error) {
    two_devices both;
    parts before = {{0}, {0}};
    size_t different = 0, repeated = 0;
    icl_status status;

    ICL_TRY(two_devices_open(&both, overrides, BATCH, backend, cpu, error));
    for (uint64_t i = 0; i < BATCHES; i++) {
        ICL_TRY(two_devices_sample(&both, shuffled_step(i, 7, BATCHES), error));
        different += parts_differ(&both.seen, &both.expected);
        repeated += i > 0 && before.values[GRAM][0] == both.seen.values[GRAM][0];
        ICL_TRY(parts_read(&both.ours, &before, error));
    }
    tap_ok(tap, different == 0, "%d batches have the cpu's bits: %s (%zu elements differ)", BATCHES, overrides,
           different);
    tap_ok(tap, repeated == 0 && !both.ours.inputs.buffer, "each step has its own, and no tokens");
done:
    two_devices_close(&both);
    parts_release(&before);
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
                status = icl_tensor_read(batch.inputs, tokens[i], error);
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

static void check_all(tap_run *tap, icl_backend *backend, icl_backend *cpu) {
    icl_error error = {0};
    for (size_t i = 0; i < sizeof recipes / sizeof recipes[0]; i++)
        tap_status(tap, compare_recipe(tap, recipes[i], backend, cpu, &error), &error, "sampling runs");
    tap_status(tap, check_purposes(tap, backend, &error), &error, "batches of other purposes");
}

int main(int count, char **arguments) {
    return test_beside_cpu(count, arguments, check_all);
}
