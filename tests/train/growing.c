/* train.growth, step by step: which layers begin without effect, and Adam's moments, which start anew with each stage.
 * The steps are recomputed here, from the gradients that the trainer took. */
#include "fixture.h"
#include "train/trainer.h"

enum { LAYERS = 4, STAGE = 4, STEPS = 16, PARTS = 3 /* of a diagonal layer: P of inputs and of the label, Q */ };

#define SMALL                                                                                                          \
    "task.d=3", "task.n=5", "task.noise=fixed:0.5", "model.layers=4", "model.parameterization=diag",                   \
        "model.scale=mean", "model.init_std=0", "train.batch=16", "train.steps=16", "train.warmup=0", "train.clip=0",  \
        "train.learning_rate=0.01", "train.beta1=0.8", "train.beta2=0.9"

static const char *const grown[] = {SMALL, "train.growth=4", NULL};
static const char *const whole[] = {SMALL, NULL};

/* ---- The start ---- */

static icl_status read_start(icl_backend *backend, const char *const *settings, float *values, size_t *size,
                             icl_error *error) {
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(make_trainer(backend, settings, &trainer, error));
    *size = icl_model_size(icl_trainer_model(trainer));
    ICL_TRY(icl_trainer_get_parameters(trainer, values, error));
done:
    icl_trainer_destroy(&trainer);
    return status;
}

/* P is 0 in a layer without effect; the first and the last layer exist from the first stage on, and begin as they would
 * without growth. */
static void test_start(tap_run *tap, icl_backend *backend) {
    float values[MAX_PARAMETERS] = {0}, others[MAX_PARAMETERS] = {0};
    size_t size = 0;
    icl_error error = {0};
    icl_status status = read_start(backend, grown, values, &size, &error);

    if (status == ICL_OK)
        status = read_start(backend, whole, others, &size, &error);
    if (!tap_status(tap, status, &error, "starts with and without growth"))
        return;
    const size_t layer = size / LAYERS;
    for (size_t l = 0; l < LAYERS; l++) {
        const bool is_inserted = l == 1 || l == 2;
        const float *start = values + l * layer;
        const bool is_still = start[0] == 0 && start[1] == 0;
        const bool is_same = memcmp(start, others + l * layer, layer * sizeof *values) == 0;
        tap_ok(tap, is_still == is_inserted && is_same == !is_inserted, "layer %zu begins %s", l,
               is_inserted ? "as one that does nothing" : "as it does without growth");
    }
}

/* ---- Steps by hand ---- */

typedef struct by_hand {
    double at[MAX_PARAMETERS], first[MAX_PARAMETERS], second[MAX_PARAMETERS];
} by_hand;

/* Takes step k of a stage, from 1, with the moments of earlier steps of the stage. */
static void adam_step(by_hand *hand, const double *gradient, size_t size, int k, double rate) {
    const double beta1 = 0.8, beta2 = 0.9, epsilon = 1e-8;

    for (size_t i = 0; i < size; i++) {
        hand->first[i] = k == 1 ? 0 : hand->first[i];
        hand->second[i] = k == 1 ? 0 : hand->second[i];
        hand->first[i] = beta1 * hand->first[i] + (1 - beta1) * gradient[i];
        hand->second[i] = beta2 * hand->second[i] + (1 - beta2) * gradient[i] * gradient[i];
        hand->at[i] -=
            rate * hand->first[i] / (1 - pow(beta1, k)) / (sqrt(hand->second[i] / (1 - pow(beta2, k))) + epsilon);
    }
}

/* Returns the step within its stage: the stages have 2 and 3 layers, then 4 to the end. */
static int step_of_stage(int step) {
    return step < 2 * STAGE ? step % STAGE + 1 : step - 2 * STAGE + 1;
}

static icl_status follow(icl_trainer *trainer, double *worst, icl_error *error) {
    static by_hand hand;
    static double gradient[MAX_PARAMETERS];
    float values[MAX_PARAMETERS];
    const size_t size = icl_model_size(icl_trainer_model(trainer));

    ICL_CHECK(icl_trainer_get_parameters(trainer, values, error));
    for (size_t i = 0; i < size; i++)
        hand.at[i] = (double)values[i];
    *worst = 0;
    for (int step = 0; step < STEPS; step++) {
        const double rate = icl_trainer_rate_at(trainer, (uint64_t)step);
        ICL_CHECK(icl_trainer_run(trainer, 1, error));
        ICL_CHECK(icl_trainer_read_gradient(trainer, gradient, error));
        adam_step(&hand, gradient, size, step_of_stage(step), rate);
        ICL_CHECK(icl_trainer_get_parameters(trainer, values, error));
        for (size_t i = 0; i < size; i++) {
            *worst = fmax(*worst, fabs((double)values[i] - hand.at[i]) / 0.01);
            hand.at[i] = (double)values[i];
        }
    }
    return ICL_OK;
}

/* A parameter of order 1 is rounded by at most 6e-8, in units of the rate 6e-6; a step's own roundings are smaller. */
static void test_steps(tap_run *tap, icl_backend *backend) {
    icl_trainer *trainer = NULL;
    double worst = HUGE_VAL;
    icl_error error = {0};
    icl_status status = make_trainer(backend, grown, &trainer, &error);

    if (status == ICL_OK)
        status = follow(trainer, &worst, &error);
    if (tap_status(tap, status, &error, "three stages of growth"))
        tap_ok(tap, worst < 2e-5, "every step is Adam's with the moments of its own stage: off by %.1e of a step",
               worst);
    icl_trainer_destroy(&trainer);
}

/* Growth is refused for families whose layers cannot be without effect, and for tied layers. */
static void test_refusals(tap_run *tap, icl_backend *backend) {
    static const char *const sequence[] = {
        "task.d=3", "task.n=5", "model.family=sequence", "model.width=4", "model.layers=4", "train.growth=4", NULL};
    static const char *const tied[] = {SMALL, "model.tied=true", "train.growth=4", NULL};
    const char *const *const settings[] = {sequence, tied};

    for (size_t i = 0; i < 2; i++) {
        icl_trainer *trainer = NULL;
        icl_error error = {0};
        const icl_status status = make_trainer(backend, settings[i], &trainer, &error);
        tap_ok(tap, status == ICL_ERROR_INPUT && strstr(error.message, "train.growth = 4: expected 0: "), "%s",
               error.message);
        icl_trainer_destroy(&trainer);
    }
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "cpu");

    if (!backend)
        return tap_done(&tap);
    test_start(&tap, backend);
    test_steps(&tap, backend);
    test_refusals(&tap, backend);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
