/* The average of parameters: its weights in plain double, what it changes (what is evaluated and exported) and what it
 * does not (the training), checkpoints, ranks. argv: device. */
#include "../core/scratch.h"
#include "core/safetensors.h"
#include "fixture.h"
#include "thread_ranks.h"
#include "train/objective.h"
#include "train/trainer.h"

enum { RANKS = 2, STEPS = 6, MOST_NUMBERS = 4096, AVERAGE = 3 };

#define HALF_LIFE 1.5
#define SMALL                                                                                                          \
    "task.d=3", "task.n=6", "model.family=sequence", "model.layers=2", "model.width=8", "model.heads=2",               \
        "model.mixer=gated-delta", "train.batch=8", "train.slices=2", "train.steps=40", "train.warmup=2"

static const char *const with[] = {SMALL, "train.average=1.5", NULL};
static const char *const without[] = {SMALL, NULL};
static const char *const by_muon[] = {SMALL, "train.average=1.5", "train.optimizer=muon", NULL};

static const char *spec;

/* ---- Weights ---- */

/* Takes a step and adds its parameters to the mean that the definition gives: sums [N] of those after each step, each
 * with half the weight of the one 1.5 steps later. */
static icl_status take_step(icl_trainer *trainer, icl_training_state *state, double *sums, double *weight,
                            icl_error *error) {
    const double decay = pow(2, -1 / HALF_LIFE);

    ICL_CHECK(icl_trainer_run(trainer, 1, error));
    ICL_CHECK(icl_trainer_read_state(trainer, state, error));
    for (size_t i = 0; i < state->size; i++)
        sums[i] = decay * sums[i] + state->vectors[0][i];
    *weight = decay * *weight + 1;
    return ICL_OK;
}

/* Returns the largest distance from the definition, relative to the largest parameter. */
static icl_status follow(icl_backend *backend, const char *const *settings, double *worst, icl_error *error) {
    static double sums[MOST_NUMBERS];
    icl_trainer *trainer = NULL;
    icl_training_state state = {0};
    double weight = 0, largest = 0;
    icl_status status = ICL_OK;

    memset(sums, 0, sizeof sums);
    ICL_TRY(make_trainer(backend, settings, &trainer, error));
    ICL_TRY(icl_training_state_create(trainer, &state, error));
    for (int step = 0; step < STEPS; step++) {
        ICL_TRY(take_step(trainer, &state, sums, &weight, error));
        for (size_t i = 0; i < state.size; i++) {
            largest = fmax(largest, fabs(state.vectors[0][i]));
            *worst = fmax(*worst, fabs(state.vectors[AVERAGE][i] - sums[i] / weight));
        }
    }
    *worst /= largest;
done:
    icl_training_state_clear(&state);
    icl_trainer_destroy(&trainer);
    return status;
}

/* Each step rounds two factors, two products and a sum: 4 units of the largest parameter, over six steps. */
static void check_weights(tap_run *tap, icl_backend *backend) {
    const double unit = icl_backend_capabilities(backend)->element_size == sizeof(float) ? 0x1p-24 : 0x1p-53;
    const char *const *const rows[] = {with, by_muon};

    for (int i = 0; i < 2; i++) {
        double worst = 0;
        icl_error error = {0};
        const icl_status status = follow(backend, rows[i], &worst, &error);
        if (tap_status(tap, status, &error, "six steps"))
            tap_ok(tap, worst <= 4 * STEPS * unit, "the average of each step, by %s: off by %.2g units",
                   i == 0 ? "Adam" : "Muon", worst / unit);
    }
}

/* ---- What it changes ---- */

typedef struct outcome {
    float predicted[8], decoded[8], parameters[MOST_NUMBERS], trained[MOST_NUMBERS], exported[MOST_NUMBERS];
    size_t size;
} outcome;

/* Reads the exported numbers, in the model's order. */
static icl_status read_export(icl_trainer *trainer, const char *path, float *values, icl_error *error) {
    const icl_model *model = icl_trainer_model(trainer);
    icl_safetensors *file = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_trainer_export(trainer, path, error));
    ICL_TRY(icl_safetensors_read(path, &file, error));
    for (size_t i = 0; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        memcpy(values + info->offset, icl_safetensors_find(file, info->name)->data, info->count * sizeof *values);
    }
done:
    icl_safetensors_destroy(&file);
    return status;
}

/* Evaluates after the steps; with `given` parameters in place of the trained ones. */
static icl_status evaluate(icl_backend *backend, const char *const *settings, const float *given, const char *path,
                           outcome *out, icl_error *error) {
    icl_trainer *trainer = NULL;
    icl_batch batch = {{0}};
    icl_status status = ICL_OK;

    ICL_TRY(make_trainer(backend, settings, &trainer, error));
    out->size = icl_model_size(icl_trainer_model(trainer));
    ICL_TRY(icl_trainer_run(trainer, STEPS, error));
    ICL_TRY(icl_tensor_read(trainer->state.parameters, out->trained, error));
    if (given)
        ICL_TRY(icl_trainer_set_parameters(trainer, given, error));
    ICL_TRY(icl_batch_create(icl_trainer_task(trainer), backend, ICL_FOR_EVALUATION, 8, &batch, error));
    ICL_TRY(icl_task_sample(icl_trainer_task(trainer), backend, ICL_FOR_EVALUATION, 1, 0, &batch, error));
    ICL_TRY(icl_trainer_predict(trainer, &batch, out->predicted, error));
    ICL_TRY(icl_trainer_decode(trainer, &batch, out->decoded, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, out->parameters, error));
    ICL_TRY(read_export(trainer, path, out->exported, error));
done:
    icl_batch_release(&batch);
    icl_trainer_destroy(&trainer);
    return status;
}

static bool same(const float *a, const float *b, size_t count) {
    return memcmp(a, b, count * sizeof *a) == 0;
}

/* On "ref" the average is read as floats, which round it: a trainer that is given them predicts from other doubles. */
static void check_outcome(tap_run *tap, icl_backend *backend) {
    static outcome averaged, plain, given;
    const bool is_float = icl_backend_capabilities(backend)->element_size == sizeof(float);
    scratch_folder scratch;
    icl_error error = {0};

    scratch_open(&scratch);
    const char *path = scratch_path(&scratch, "model");
    icl_status status = evaluate(backend, with, NULL, path, &averaged, &error);
    if (status == ICL_OK)
        status = evaluate(backend, without, NULL, path, &plain, &error);
    if (status == ICL_OK)
        status = evaluate(backend, without, averaged.parameters, path, &given, &error);
    if (tap_status(tap, status, &error, "evaluations")) {
        tap_ok(tap, same(averaged.trained, plain.trained, plain.size), "the training is as without an average");
        tap_ok(tap,
               !same(averaged.parameters, averaged.trained, plain.size) &&
                   same(averaged.exported, averaged.parameters, plain.size),
               "the average is read and exported");
        tap_ok(tap, same(plain.parameters, plain.trained, plain.size), "without one, the parameters are");
        for (int i = 0; i < 8; i++) {
            averaged.predicted[i] -= is_float ? 0 : given.predicted[i];
            averaged.decoded[i] -= is_float ? 0 : given.decoded[i];
        }
        tap_ok(tap,
               is_float ? same(averaged.predicted, given.predicted, 8) && same(averaged.decoded, given.decoded, 8)
                        : fabs((double)averaged.predicted[3]) < 1e-4 && fabs((double)averaged.decoded[3]) < 1e-4,
               "it predicts and decodes");
        tap_ok(tap, !same(plain.predicted, given.predicted, 8), "otherwise than the parameters");
    }
    scratch_close(&scratch);
}

/* ---- Ranks and checkpoints ---- */

typedef struct one_rank {
    double parameters[MOST_NUMBERS], average[MOST_NUMBERS];
    icl_status status;
    icl_error error;
} one_rank;

static icl_status read_both(icl_trainer *trainer, one_rank *own, icl_error *error) {
    ICL_CHECK(icl_tensor_read_double(trainer->state.parameters, own->parameters, error));
    return icl_tensor_read_double(trainer->state.average, own->average, error);
}

/* Rank 0 takes half of the steps alone; then all follow it. */
static icl_status train_rank(const icl_ranks *ranks, icl_backend **backend, icl_trainer **trainer, one_rank *own,
                             icl_error *error) {
    ICL_CHECK(icl_backend_open(&(icl_backend_params){.spec = spec}, backend, error));
    ICL_CHECK(make_trainer(*backend, with, trainer, error));
    if (ranks->index == 0)
        ICL_CHECK(icl_trainer_run(*trainer, STEPS / 2, error));
    ICL_CHECK(icl_trainer_set_ranks(*trainer, ranks->count > 1 ? ranks : NULL, error));
    ICL_CHECK(icl_trainer_follow_first(*trainer, error));
    ICL_CHECK(icl_trainer_run(*trainer, STEPS - STEPS / 2, error));
    return read_both(*trainer, own, error);
}

static void run_rank(const icl_ranks *ranks, void *user) {
    one_rank *own = (one_rank *)user + ranks->index;
    icl_backend *backend = NULL;
    icl_trainer *trainer = NULL;

    own->status = train_rank(ranks, &backend, &trainer, own, &own->error);
    icl_trainer_destroy(&trainer);
    icl_backend_close(&backend);
}

static bool same_bits(const one_rank *a, const one_rank *b) {
    return memcmp(a->parameters, b->parameters, sizeof a->parameters) == 0 &&
           memcmp(a->average, b->average, sizeof a->average) == 0;
}

static void check_ranks(tap_run *tap, one_rank *alone) {
    static one_rank several[RANKS];

    tap_ok(tap, thread_ranks_run(1, run_rank, alone) && thread_ranks_run(RANKS, run_rank, several), "ranks run");
    tap_status(tap, alone->status, &alone->error, "alone it trains");
    for (int i = 0; i < RANKS; i++) {
        tap_status(tap, several[i].status, &several[i].error, "a rank trains");
        tap_ok(tap, same_bits(alone, &several[i]), "rank %d has the bits of one that takes all slices", i);
    }
}

static icl_status resume(icl_backend *backend, const char *path, one_rank *own, icl_trainer **trainer,
                         icl_error *error) {
    ICL_CHECK(make_trainer(backend, with, trainer, error));
    ICL_CHECK(icl_trainer_run(*trainer, STEPS / 2, error));
    ICL_CHECK(icl_trainer_save(*trainer, path, error));
    icl_trainer_destroy(trainer);
    ICL_CHECK(make_trainer(backend, with, trainer, error));
    ICL_CHECK(icl_trainer_restore(*trainer, path, error));
    ICL_CHECK(icl_trainer_run(*trainer, STEPS - STEPS / 2, error));
    return read_both(*trainer, own, error);
}

static void check_resumed(tap_run *tap, icl_backend *backend, const one_rank *whole) {
    static one_rank resumed;
    icl_trainer *trainer = NULL;
    icl_error error = {0};
    scratch_folder scratch;

    scratch_open(&scratch);
    const icl_status status = resume(backend, scratch_path(&scratch, "checkpoint"), &resumed, &trainer, &error);
    if (tap_status(tap, status, &error, "save and restore"))
        tap_ok(tap, same_bits(&resumed, whole), "a checkpoint changes no bit");
    icl_trainer_destroy(&trainer);
    scratch_close(&scratch);
}

/* ---- Beside other stages ---- */

/* Numbers that are drawn for each step are those of the last one. */
static void check_redrawn(tap_run *tap, icl_backend *backend) {
    static const char *const favor[] = {"task.family=associative",
                                        "task.keys=4",
                                        "task.writes=4",
                                        "model.family=fast-weights",
                                        "model.layers=1",
                                        "model.width=4",
                                        "model.feature_map=favor:4",
                                        "model.directions=drawn",
                                        "train.batch=8",
                                        "train.average=10",
                                        NULL};
    static float drawn[MOST_NUMBERS], average[MOST_NUMBERS];
    icl_trainer *trainer = NULL;
    icl_error error = {0};
    icl_status status = make_trainer(backend, favor, &trainer, &error);

    if (status == ICL_OK)
        status = icl_trainer_run(trainer, 3, &error);
    if (status == ICL_OK)
        status = icl_tensor_read(trainer->state.parameters, drawn, &error);
    if (status == ICL_OK)
        status = icl_trainer_get_parameters(trainer, average, &error);
    if (tap_status(tap, status, &error, "directions that are drawn for each step")) {
        const icl_model *model = icl_trainer_model(trainer);
        const icl_parameter_info *info = icl_model_parameter(model, model->redrawn - 1);
        tap_ok(tap,
               same(drawn + info->offset, average + info->offset, info->count) &&
                   !same(drawn, average, icl_model_size(model)),
               "they are those of the last step, and all else is an average");
    }
    icl_trainer_destroy(&trainer);
}

static void check_stages(tap_run *tap, icl_backend *backend) {
    static const char *const refused[][3] = {{"train.average=2", "train.polish=on", NULL},
                                             {"train.average=2", "train.starts=2", NULL}};
    static const char *const cheap[][2] = {{"train.average=0", NULL}, {"train.average=2", NULL}};
    icl_trainer *trainer = NULL;

    for (int i = 0; i < 2; i++) {
        icl_error error = {0};
        const icl_status status = make_trainer(backend, refused[i], &trainer, &error);
        tap_ok(tap, status == ICL_ERROR_INPUT && strstr(error.message, "train.average = 2: expected 0 beside"),
               "%s: %s", refused[i][1], error.message);
        icl_trainer_destroy(&trainer);
    }
    for (int i = 0; i < 2; i++) {
        icl_error error = {0};
        if (tap_status(tap, make_trainer(backend, cheap[i], &trainer, &error), &error, cheap[i][0]))
            tap_ok(tap, icl_polish_is_wanted(trainer) == (i == 0), "a cheap model is %spolished", i ? "not " : "");
        icl_trainer_destroy(&trainer);
    }
}

int main(int argc, char **argv) {
    static one_rank alone;
    tap_run tap = {0};

    spec = argc > 1 ? argv[1] : "cpu";
    icl_backend *backend = tap_open_device(&tap, spec);
    if (backend) {
        check_weights(&tap, backend);
        check_outcome(&tap, backend);
        check_ranks(&tap, &alone);
        check_resumed(&tap, backend, &alone);
        check_redrawn(&tap, backend);
        check_stages(&tap, backend);
        icl_backend_close(&backend);
    }
    return tap_done(&tap);
}
