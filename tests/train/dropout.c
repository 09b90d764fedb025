/* Dropout in trainings: it depends on the step and on the sequence's number in the batch, not on how the batch is
 * divided, among ranks or at all; predictions have none; a checkpoint changes no bit. argv: device. */
#include "../core/scratch.h"
#include "fixture.h"
#include "thread_ranks.h"
#include "train/trainer.h"

enum { RANKS = 2, STEPS = 6, MOST_NUMBERS = 4096 };

#define SMALL                                                                                                          \
    "task.d=3", "task.n=6", "model.family=sequence", "model.layers=2", "model.width=8", "model.heads=2",               \
        "model.mixer=gated-delta", "model.feed_forward=swiglu", "train.batch=8", "train.slices=2", "train.steps=40",   \
        "train.warmup=2"

static const char *const with[] = {SMALL, "model.dropout=0.5", NULL};
static const char *const without[] = {SMALL, NULL};

static const char *spec;

/* ---- Whole trainings ---- */

static icl_status train_rank(const icl_ranks *ranks, icl_backend **backend, icl_trainer **trainer, float *values,
                             icl_error *error) {
    ICL_CHECK(icl_backend_open(&(icl_backend_params){.spec = spec}, backend, error));
    ICL_CHECK(make_trainer(*backend, with, trainer, error));
    ICL_CHECK(icl_trainer_set_ranks(*trainer, ranks->count > 1 ? ranks : NULL, error));
    ICL_CHECK(icl_trainer_run(*trainer, STEPS, error));
    return icl_trainer_get_parameters(*trainer, values, error);
}

typedef struct one_rank {
    float values[MOST_NUMBERS];
    icl_status status;
    icl_error error;
} one_rank;

static void run_rank(const icl_ranks *ranks, void *user) {
    one_rank *own = (one_rank *)user + ranks->index;
    icl_backend *backend = NULL;
    icl_trainer *trainer = NULL;

    own->status = train_rank(ranks, &backend, &trainer, own->values, &own->error);
    icl_trainer_destroy(&trainer);
    icl_backend_close(&backend);
}

static void check_ranks(tap_run *tap, one_rank *alone) {
    static one_rank several[RANKS];

    tap_ok(tap, thread_ranks_run(1, run_rank, alone) && thread_ranks_run(RANKS, run_rank, several), "ranks run");
    tap_status(tap, alone->status, &alone->error, "alone it trains");
    for (int i = 0; i < RANKS; i++) {
        tap_status(tap, several[i].status, &several[i].error, "a rank trains");
        tap_ok(tap, memcmp(several[i].values, alone->values, sizeof alone->values) == 0,
               "rank %d has the bits of one that takes all slices", i);
    }
}

static icl_status resume(icl_backend *backend, const char *path, float *values, icl_trainer **trainer,
                         icl_error *error) {
    ICL_CHECK(make_trainer(backend, with, trainer, error));
    ICL_CHECK(icl_trainer_run(*trainer, STEPS / 2, error));
    ICL_CHECK(icl_trainer_save(*trainer, path, error));
    icl_trainer_destroy(trainer);
    ICL_CHECK(make_trainer(backend, with, trainer, error));
    ICL_CHECK(icl_trainer_restore(*trainer, path, error));
    ICL_CHECK(icl_trainer_run(*trainer, STEPS - STEPS / 2, error));
    return icl_trainer_get_parameters(*trainer, values, error);
}

static void check_resumed(tap_run *tap, icl_backend *backend, const one_rank *whole) {
    static float values[MOST_NUMBERS];
    icl_trainer *trainer = NULL;
    icl_error error = {0};
    scratch_folder scratch;

    scratch_open(&scratch);
    const icl_status status = resume(backend, scratch_path(&scratch, "checkpoint"), values, &trainer, &error);
    if (tap_status(tap, status, &error, "save and restore"))
        tap_ok(tap, memcmp(values, whole->values, sizeof values) == 0, "a checkpoint changes no bit");
    icl_trainer_destroy(&trainer);
    scratch_close(&scratch);
}

/* ---- Predictions ---- */

static icl_status predict(icl_backend *backend, const char *const *settings, float *outputs, float *loss,
                          icl_error *error) {
    icl_trainer *trainer = NULL;
    icl_batch batch = {{0}};
    size_t count;
    icl_status status = ICL_OK;

    ICL_TRY(make_trainer(backend, settings, &trainer, error));
    ICL_TRY(icl_batch_create(icl_trainer_task(trainer), backend, ICL_FOR_EVALUATION, 8, &batch, error));
    ICL_TRY(icl_task_sample(icl_trainer_task(trainer), backend, ICL_FOR_EVALUATION, 1, 0, &batch, error));
    ICL_TRY(icl_trainer_predict(trainer, &batch, outputs, error));
    ICL_TRY(icl_trainer_run(trainer, 1, error));
    *loss = icl_trainer_losses(trainer, &count)[0];
    ICL_TRY(icl_trainer_run(trainer, 1, error));
done:
    icl_batch_release(&batch);
    icl_trainer_destroy(&trainer);
    return status;
}

static void check_predictions(tap_run *tap, icl_backend *backend) {
    float outputs[2][8] = {{0}}, loss[2] = {0};
    icl_error error = {0};
    icl_status status = predict(backend, with, outputs[0], &loss[0], &error);

    if (status == ICL_OK)
        status = predict(backend, without, outputs[1], &loss[1], &error);
    if (tap_status(tap, status, &error, "predictions"))
        tap_ok(tap, memcmp(outputs[0], outputs[1], sizeof *outputs) == 0 && loss[0] != loss[1],
               "predictions have none, the loss of a training does: %g, %g without", (double)loss[0], (double)loss[1]);
}

/* ---- Parts of a batch ---- */

/* Takes two steps that move nothing, on windows of a text of "a", which are all the same, from parameters `start`. The
 * gradient is that of the second one. */
static icl_status differentiate(icl_backend *backend, const char *file, const char *own, const float *start,
                                double *gradient, float losses[2], size_t *size, icl_error *error) {
    const char *const settings[] = {"task.family=text",
                                    file,
                                    "task.length=8",
                                    "model.family=sequence",
                                    "model.layers=1",
                                    "model.width=4",
                                    "model.heads=2",
                                    "model.dropout=0.5",
                                    "train.batch=64",
                                    own,
                                    "train.optimizer=sgd",
                                    "train.learning_rate=1e-12",
                                    NULL};
    icl_trainer *trainer = NULL;
    size_t count;
    icl_status status = ICL_OK;

    ICL_TRY(make_trainer(backend, settings, &trainer, error));
    ICL_TRY(icl_trainer_set_parameters(trainer, start, error));
    ICL_TRY(icl_trainer_run(trainer, 2, error));
    memcpy(losses, icl_trainer_losses(trainer, &count), 2 * sizeof *losses);
    *size = icl_model_size(icl_trainer_model(trainer));
    ICL_TRY(icl_trainer_read_gradient(trainer, gradient, error));
done:
    icl_trainer_destroy(&trainer);
    return status;
}

static void write_text(const char *path) {
    FILE *file = fopen(path, "w");

    for (int i = 0; file && i < 1000; i++)
        fputc('a', file);
    if (file)
        fclose(file);
}

/*
 * The whole batch, which a host divides into two parts of 32 sequences, slices of 32, and slices of 8 have one gradient
 * to rounding only if each sequence drops the same numbers. A gradient is a mean over 512 positions of products of the
 * order of the largest element, a few roundings each: 2^10 units of that element.
 */
static void check_parts(tap_run *tap, icl_backend *backend) {
    static const char *const rows[] = {"train.slices=1", "train.slices=2", "train.slices=8", "train.seed=2"};
    static double gradients[4][MOST_NUMBERS];
    static float start[MOST_NUMBERS];
    scratch_folder scratch;
    char file[1024];
    float losses[4][2] = {{0}};
    size_t size = 0;
    icl_error error = {0};

    scratch_open(&scratch);
    write_text(scratch_path(&scratch, "text"));
    snprintf(file, sizeof file, "task.file=%s", scratch.path);
    for (size_t i = 0; i < MOST_NUMBERS; i++)
        start[i] = icl_normal_from_word(icl_random_word((icl_random_key){.seed = 3}, i)) / 2;
    for (size_t k = 0; k < 4; k++) {
        double worst = 0, largest = 0;
        const icl_status status = differentiate(backend, file, rows[k], start, gradients[k], losses[k], &size, &error);
        if (!tap_status(tap, status, &error, rows[k]))
            break;
        for (size_t i = 0; i < size; i++) {
            worst = fmax(worst, fabs(gradients[k][i] - gradients[0][i]));
            largest = fmax(largest, fabs(gradients[0][i]));
        }
        if (k < 3)
            tap_ok(tap, largest > 0 && worst <= 0x1p-14 * largest,
                   "%s: the gradient of the whole batch, to %.2g of %.2g", rows[k], worst, largest);
    }
    tap_ok(tap, losses[0][0] != losses[0][1], "another step drops others: losses %g and %g", (double)losses[0][0],
           (double)losses[0][1]);
    tap_ok(tap, losses[0][0] != losses[3][0], "and another seed: %g", (double)losses[3][0]);
    scratch_close(&scratch);
}

int main(int argc, char **argv) {
    static one_rank alone;
    tap_run tap = {0};

    spec = argc > 1 ? argv[1] : "cpu";
    icl_backend *backend = tap_open_device(&tap, spec);
    if (backend) {
        check_ranks(&tap, &alone);
        check_resumed(&tap, backend, &alone);
        check_predictions(&tap, backend);
        check_parts(&tap, backend);
        icl_backend_close(&backend);
    }
    return tap_done(&tap);
}
