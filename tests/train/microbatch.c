/* A batch in parts on a host's threads: the gradient of the whole batch, the same bits for any number of threads, each
 * part computed once, and the failure of the first part that failed. */
#include "own_parts.h"

#include <string.h>

enum { BATCH = 32, AT_ONCE = 3, STEPS = 4, PARTS = 37, N = D * D, SEQUENCES = 50, LENGTH = SEQUENCES * S };

/* ---- Parts of a program's own ---- */

typedef struct tally {
    icl_tensor ones, sums; /* [PARTS] */
    int fails_from;        /* the first part that fails, with all later ones */
} tally;

/* Adds 1 to the part's own sum. */
static icl_status count_part(void *context, icl_backend *worker, size_t number, size_t part, icl_error *error) {
    const tally *t = context;
    const icl_tensor sum = icl_tensor_slice(t->sums, 0, part, 1);

    (void)number;
    if ((int)part >= t->fails_from)
        return icl_fail(error, ICL_ERROR_INPUT, "part %zu fails", part);
    return icl_scale_add(worker, sum, 1, sum, 1, icl_tensor_slice(t->ones, 0, part, 1), error);
}

static void check_share(tap_run *tap, icl_backend *backend) {
    const size_t length = PARTS;
    tally t = {.fails_from = PARTS};
    float seen[PARTS] = {0};
    bool is_once = true;
    icl_error error = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_tensor_create(backend, 1, &length, &t.ones, &error));
    ICL_TRY(icl_tensor_create(backend, 1, &length, &t.sums, &error));
    ICL_TRY(icl_fill(backend, t.ones, 1, &error));
    ICL_TRY(icl_fill(backend, t.sums, 0, &error));
    const uint64_t before = icl_backend_get_statistics(backend).ops;
    ICL_TRY(icl_backend_share(backend, PARTS, count_part, &t, &error));
    ICL_TRY(icl_backend_share(backend, 0, count_part, &t, &error));
    const uint64_t ops = icl_backend_get_statistics(backend).ops - before;
    tap_ok(tap, ops == PARTS, "the ops of all workers count: %llu of %d", (unsigned long long)ops, PARTS);
    ICL_TRY(icl_tensor_read(t.sums, seen, &error));
    for (int i = 0; i < PARTS; i++)
        is_once = is_once && seen[i] == 1;
    tap_ok(tap, is_once, "each of %d parts is done once", PARTS);

    t.fails_from = 9;
    status = icl_backend_share(backend, PARTS, count_part, &t, &error);
    tap_ok(tap, status == ICL_ERROR_INPUT && strcmp(error.message, "part 9 fails") == 0,
           "of several parts that fail the first is reported: %s", error.message);
    status = icl_tensor_read(t.sums, seen, &error);
    tap_ok(tap, seen[8] == 2 && seen[9] == 1, "parts before it are done");
done:
    tap_status(tap, status, &error, "parts");
    icl_tensor_release(&t.ones);
    icl_tensor_release(&t.sums);
}

/* Creates a tensor whose length depends on the part: 1024, 2048 or 4096 numbers, as blocks of the pools have. */
static icl_status create_part(void *context, icl_backend *worker, size_t number, size_t part, icl_error *error) {
    icl_tensor *created = context;

    (void)number;
    return icl_tensor_create(worker, 1, (const size_t[]){(size_t)1024 << part}, &created[part], error);
}

/* Memory that workers hold counts as the backend's; its peak does not include it. */
static void check_memory(tap_run *tap, icl_backend *backend) {
    const icl_capabilities *device = icl_backend_capabilities(backend);
    const size_t bytes = (1024 + 2048 + 4096) * device->element_size;
    icl_tensor created[3] = {{0}};
    icl_error error = {0};
    const icl_backend_statistics before = icl_backend_get_statistics(backend);

    tap_status(tap, icl_backend_share(backend, 3, create_part, created, &error), &error, "three tensors of workers");
    const icl_backend_statistics held = icl_backend_get_statistics(backend);
    tap_ok(tap, held.bytes_live - before.bytes_live == bytes, "are %zu bytes of %zu",
           held.bytes_live - before.bytes_live, bytes);
    tap_ok(tap, held.allocations + held.pool_hits - before.allocations - before.pool_hits == 3, "in three blocks");
    if (device->kind == ICL_DEVICE_HOST)
        tap_ok(tap, held.bytes_reserved - before.bytes_reserved == bytes && held.bytes_peak == before.bytes_peak,
               "which are reserved by the workers, not by the backend");
    for (int i = 0; i < 3; i++)
        icl_tensor_release(&created[i]);
    const icl_backend_statistics after = icl_backend_get_statistics(backend);
    tap_ok(tap, after.bytes_live == before.bytes_live && after.bytes_reserved == held.bytes_reserved,
           "released they stay reserved");
}

/* In one more round than there are workers, some worker meets each of three sizes twice, and then takes it from its
 * pool. */
static void check_pools(tap_run *tap, icl_backend *backend) {
    const size_t rounds = icl_backend_workers(backend) + 1;
    const icl_backend_statistics before = icl_backend_get_statistics(backend);
    icl_tensor created[3] = {{0}};
    icl_error error = {0};

    for (size_t round = 0; round < rounds; round++) {
        tap_status(tap, icl_backend_share(backend, 3, create_part, created, &error), &error, "three tensors again");
        for (int i = 0; i < 3; i++)
            icl_tensor_release(&created[i]);
    }
    const icl_backend_statistics after = icl_backend_get_statistics(backend);
    tap_ok(tap, after.allocations + after.pool_hits - before.allocations - before.pool_hits == 3 * rounds,
           "blocks of workers' pools count in each of %zu rounds", rounds);
}

/* A worker refuses tensors of an unrelated backend. */
static icl_status take_stranger(void *context, icl_backend *worker, size_t number, size_t part, icl_error *error) {
    const icl_tensor *stranger = context;

    (void)number;
    (void)part;
    return icl_fill(worker, *stranger, 1, error);
}

static void check_stranger(tap_run *tap, icl_backend *backend) {
    icl_backend *other = NULL;
    icl_tensor stranger = {0};
    icl_error error = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &other, &error));
    ICL_TRY(icl_tensor_create(other, 1, (size_t[]){1}, &stranger, &error));
    tap_ok(tap, icl_backend_share(backend, 1, take_stranger, &stranger, &error) == ICL_ERROR_INPUT,
           "a worker refuses a tensor of another backend: %s", error.message);
done:
    tap_status(tap, status, &error, "a stranger");
    icl_tensor_release(&stranger);
    icl_backend_close(&other);
}

/* ---- Training ---- */

static icl_status create_in_parts(const icl_recipe *recipe, icl_model *model, icl_error *error) {
    model->sequences_at_once = AT_ONCE;
    return attention_create(recipe, model, error);
}

static const icl_model_family model_in_parts = {.name = "causal-attention",
                                                .create = create_in_parts,
                                                .initialize = attention_initialize,
                                                .predict = attention_predict};

/* Predicts for a batch of another size than training's. */
static icl_status predict(icl_backend *backend, icl_trainer *trainer, float outputs[LENGTH], icl_error *error) {
    const icl_task *task = icl_trainer_task(trainer);
    icl_batch batch = {{0}};
    icl_status status = ICL_OK;

    ICL_TRY(icl_batch_create(task, backend, ICL_FOR_EVALUATION, SEQUENCES, &batch, error));
    ICL_TRY(icl_task_sample(task, backend, ICL_FOR_EVALUATION, 3, 0, &batch, error));
    ICL_TRY(icl_trainer_predict(trainer, &batch, outputs, error));
done:
    icl_batch_release(&batch);
    return status;
}

static icl_status train(icl_backend *backend, const icl_model_family *model, const char *more, float parameters[N],
                        float outputs[LENGTH], double *loss, icl_error *error) {
    static const char *const settings[] = {
        "train.optimizer=sgd", "train.learning_rate=0.05", "train.schedule=constant", "train.batch=32",
        "train.steps=4",       "train.warmup=0",           "train.momentum=0",        "train.clip=0"};
    const icl_trainer_parts parts = {.task = &causal_task, .model = model};
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_complete(&recipe, error));
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        ICL_TRY(icl_recipe_override(recipe, settings[i], error));
    ICL_TRY(icl_recipe_override(recipe, more, error));
    ICL_TRY(icl_trainer_create_with(backend, &parts, recipe, &trainer, error));
    ICL_TRY(icl_trainer_run(trainer, STEPS, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, parameters, error));
    ICL_TRY(predict(backend, trainer, outputs, error));
    *loss = icl_trainer_progress(trainer).loss;
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

/* Only the order of a few hundred additions differs: float errors stay far below 1e-4 of numbers of order 1, and
 * results of a double device are rounded to float when read. */
static void check_training(tap_run *tap, icl_backend *backend, const char *more) {
    float whole[N], cut[N], whole_outputs[LENGTH], cut_outputs[LENGTH];
    double whole_loss = 0, cut_loss = 0, worst = 0, worst_output = 0;
    icl_error error = {0};
    icl_status status = ICL_OK;

    ICL_TRY(train(backend, &attention_model, more, whole, whole_outputs, &whole_loss, &error));
    ICL_TRY(train(backend, &model_in_parts, more, cut, cut_outputs, &cut_loss, &error));
    for (int i = 0; i < N; i++)
        worst = fmax(worst, fabs((double)whole[i] - (double)cut[i]));
    for (int i = 0; i < LENGTH; i++)
        worst_output = fmax(worst_output, fabs((double)whole_outputs[i] - (double)cut_outputs[i]));
    tap_ok(tap, worst_output < 1e-3, "%s: predictions of %d sequences differ by %g at most", more, SEQUENCES,
           worst_output);
    tap_ok(tap, worst < 1e-5, "%s: parameters after %d steps differ by %g at most", more, STEPS, worst);
    tap_ok(tap, fabs(whole_loss - cut_loss) < 1e-5 * whole_loss, "%s: losses %g and %g", more, whole_loss, cut_loss);
done:
    tap_status(tap, status, &error, "training in parts");
}

/* With products of bfloat16 there are 2 parts of the batch and 4 of the predictions, so that three threads do each
 * together. */
static void check_threads(tap_run *tap, const char *kind, icl_precision precision) {
    float seen[3][N], outputs[3][LENGTH];
    double loss[3] = {0};
    icl_error error = {0};
    icl_status status = ICL_OK;

    for (int threads = 1; threads <= 3; threads++) {
        char spec[32];
        icl_backend *backend = NULL;
        snprintf(spec, sizeof spec, "%s:threads=%d", kind, threads);
        ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = spec, .precision = precision}, &backend, &error));
        tap_ok(tap, icl_backend_workers(backend) == (size_t)threads, "%s has a worker for each thread", spec);
        status = train(backend, &model_in_parts, "train.slices=1", seen[threads - 1], outputs[threads - 1],
                       &loss[threads - 1], &error);
        icl_backend_close(&backend);
        ICL_TRY(status);
    }
    tap_ok(tap,
           memcmp(seen[0], seen[1], sizeof seen[0]) == 0 && memcmp(seen[0], seen[2], sizeof seen[0]) == 0 &&
               memcmp(outputs[0], outputs[1], sizeof outputs[0]) == 0,
           "%s, %s: the same bits with 1, 2 and 3 threads", kind, icl_precision_name(precision));
done:
    tap_status(tap, status, &error, "threads");
}

int main(int argc, char **argv) {
    const char *spec = argc > 1 ? argv[1] : "cpu";
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, spec);

    if (backend) {
        check_share(&tap, backend);
        check_memory(&tap, backend);
        check_pools(&tap, backend);
        check_stranger(&tap, backend);
        check_training(&tap, backend, "train.slices=1");
        check_training(&tap, backend, "train.slices=2");
        const bool on_host = icl_backend_capabilities(backend)->kind == ICL_DEVICE_HOST;
        for (int precision = ICL_PRECISION_FULL; precision <= ICL_PRECISION_BF16 && on_host; precision++)
            check_threads(&tap, spec, (icl_precision)precision);
        if (!on_host)
            tap_ok(&tap, icl_backend_workers(backend) == 1, "a device is its own worker");
        icl_backend_close(&backend);
    }
    return tap_done(&tap);
}
