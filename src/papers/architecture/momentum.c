/*
 * Linear attention with momentum: Nguyen and others 2022, "Momentum Transformer" (arXiv 2208.00579). The state of
 * linear attention takes a step for each token; with momentum b these are steps of the heavy ball,
 *
 *     m_t = b m_(t-1) + k_t v_t^T,  S_t = S_(t-1) + m_t
 *
 * so that S_t = sum over s <= t of (1 - b^(t-s+1)) / (1 - b) k_s v_s^T: earlier tokens weigh more than the last ones.
 *
 * Exactly: with b = 0 it is linear attention; where all tokens are the same, S_t is that of linear attention times
 *
 *     f_t = 1 / (1 - b) (1 - b (1 - b^t) / (t (1 - b))),  which tends to 1 / (1 - b);
 *
 * and token by token, from states, it gives what it gives for a whole sequence. The paper's tables are not at hand, so
 * that what momentum does to trained models is shown and not judged: loss by b, on the same seeds and sequences.
 */
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "numeric/statistics.h"
#include "papers/architecture/architecture.h"
#include "papers/curves.h"
#include "papers/papers.h"

enum { TASKS = 2, MOMENTA = 3, MOST_SEEDS = 5, SEQUENCES = 16 };

static const double momenta[MOMENTA] = {0, .5, .9};

/* Mixers and their momentum stand behind these overrides. */
static const struct {
    const char *name, *what, *recipe, *overrides;
    size_t steps[ICL_SCALES]; /* 0: not at this scale */
} tasks[TASKS] = {
    {"dynamics", "dynamical system", "mesa", "eval.predictors= model.mixer=", {60, 1000, 10000}},
    {"recall", "recall", "recall", "eval.predictors= eval.every=0 model.mixer=conv,", {0, 600, 6000}},
};

static const size_t seed_counts[ICL_SCALES] = {2, 3, MOST_SEEDS};

/* momentum < 0: linear attention itself. */
static void write_overrides(size_t task, double momentum, char *text, size_t size) {
    if (momentum < 0)
        snprintf(text, size, "%slinear", tasks[task].overrides);
    else
        snprintf(text, size, "%smomentum model.momentum=%g", tasks[task].overrides, momentum);
}

/* ---- What is exact ---- */

/* Outputs of an untrained layer. */
typedef struct outputs {
    icl_recipe *recipe;
    icl_trainer *trainer;
    float *whole, *stepwise; /* of whole sequences, and from states: [sequences][positions][numbers] */
} outputs;

static void release_outputs(outputs *of) {
    icl_trainer_destroy(&of->trainer);
    icl_recipe_destroy(&of->recipe);
    icl_free(&of->whole);
    icl_free(&of->stepwise);
}

/* Writes a token of its own for each sequence to all of its positions. */
static icl_status repeat_tokens(const icl_batch *batch, icl_error *error) {
    const size_t positions = batch->shape.positions, width = batch->shape.inputs;
    float *inputs = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(icl_tensor_count(&batch->inputs), sizeof *inputs, "inputs", &inputs, error));
    ICL_TRY(icl_tensor_read(batch->inputs, inputs, error));
    for (size_t row = 0; row < batch->size * positions; row++)
        for (size_t i = 0; i < width; i++) /* that of the last position, which is no copy of nothing */
            inputs[row * width + i] = inputs[(row / positions * positions + positions - 1) * width + i];
    ICL_TRY(icl_tensor_write(batch->inputs, inputs, error));
done:
    icl_free(&inputs);
    return status;
}

/* Models of all momenta begin with the same parameters, which have the same names and shapes. */
static icl_status run_layer(icl_reproducing *run, double momentum, bool repeats, outputs *out, icl_error *error) {
    char overrides[128];
    const icl_seeded_cell cell = {
        .name = "exact", .recipe = tasks[0].recipe, .overrides = overrides, .seed = run->params->seed};
    icl_batch batch = {0};
    size_t count;
    icl_status status = ICL_OK;

    write_overrides(0, momentum, overrides, sizeof overrides);
    ICL_TRY(icl_reproduce_train_seed(run, &cell, &out->recipe, &out->trainer, error));
    ICL_TRY(icl_batch_create(icl_trainer_task(out->trainer), run->params->backend, ICL_FOR_EVALUATION, SEQUENCES,
                             &batch, error));
    ICL_TRY(icl_task_sample(icl_trainer_task(out->trainer), run->params->backend, ICL_FOR_EVALUATION, run->params->seed,
                            0, &batch, error));
    if (repeats)
        ICL_TRY(repeat_tokens(&batch, error));
    count = SEQUENCES * batch.shape.scored * batch.shape.outputs;
    ICL_TRY(icl_allocate(count, sizeof *out->whole, "outputs", &out->whole, error));
    ICL_TRY(icl_allocate(count, sizeof *out->stepwise, "outputs", &out->stepwise, error));
    ICL_TRY(icl_trainer_predict(out->trainer, &batch, out->whole, error));
    ICL_TRY(icl_trainer_decode(out->trainer, &batch, out->stepwise, error));
done:
    icl_batch_release(&batch);
    return status;
}

/* The largest difference over the largest number. */
static double relative_distance(const outputs *of, const float *a, const float *b) {
    const icl_task_shape *shape = icl_task_get_shape(icl_trainer_task(of->trainer));
    double worst = 0, largest = 0;

    for (size_t i = 0; i < SEQUENCES * shape->scored * shape->outputs; i++) {
        worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
        largest = fmax(largest, fabs((double)a[i]));
    }
    return worst / largest;
}

/* Sums of fewer than 100 terms of single precision, with numbers up to ten times as large as what is compared. */
#define ROUNDING (1000 * 0x1p-24)

static icl_status judge_equalities(icl_reproducing *run, icl_error *error) {
    outputs linear = {NULL}, none = {NULL}, ball = {NULL};
    icl_status status = ICL_OK;

    ICL_TRY(run_layer(run, -1, false, &linear, error));
    ICL_TRY(run_layer(run, 0, false, &none, error));
    ICL_TRY(run_layer(run, .9, false, &ball, error));
    ICL_TRY(ICL_FOUND(run, error, .what = "b = 0 beside linear attention", .quantity = "largest difference",
                      .ours = relative_distance(&linear, linear.whole, none.whole), .target = 0,
                      .evidence = ICL_COMPUTED, .source = "the same operations"));
    ICL_TRY(ICL_FOUND(run, error, .what = "b = 0.9 beside linear attention", .quantity = "largest difference",
                      .ours = relative_distance(&linear, linear.whole, ball.whole), .target = .1,
                      .criterion = ICL_AT_LEAST, .evidence = ICL_COMPUTED, .source = "another state"));
    ICL_TRY(ICL_FOUND(run, error, .what = "b = 0.9, from states beside whole sequences",
                      .quantity = "largest difference", .ours = relative_distance(&ball, ball.whole, ball.stepwise),
                      .target = 0, .tolerance = ROUNDING, .evidence = ICL_COMPUTED, .source = "rounding"));
done:
    release_outputs(&linear);
    release_outputs(&none);
    release_outputs(&ball);
    return status;
}

/* Behind t equal tokens linear attention gives y + t c, and with momentum y + t f_t c. *factor receives the f_T that
 * the outputs have at the last position, in the mean over sequences and numbers weighted by |c|. */
static double measure_factor(const outputs *linear, const outputs *ball, size_t t) {
    const icl_task_shape *shape = icl_task_get_shape(icl_trainer_task(linear->trainer));
    const size_t width = shape->outputs, last = shape->scored - 1;
    double product = 0, square = 0;

    for (size_t row = 0; row < SEQUENCES; row++)
        for (size_t i = 0; i < width; i++) {
            const size_t first = row * shape->scored * width + i;
            const double c =
                ((double)linear->whole[first + last * width] - (double)linear->whole[first]) / (double)last;
            const double y = (double)linear->whole[first] - c;
            product += c * ((double)ball->whole[first + (t - 1) * width] - y) / (double)t;
            square += c * c;
        }
    return product / square;
}

static icl_status judge_factor(icl_reproducing *run, double b, icl_error *error) {
    outputs linear = {NULL}, ball = {NULL};
    icl_status status = ICL_OK;

    ICL_TRY(run_layer(run, -1, true, &linear, error));
    ICL_TRY(run_layer(run, b, true, &ball, error));
    const size_t last = icl_task_get_shape(icl_trainer_task(ball.trainer))->scored, ends[] = {1, last / 2, last};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const double t = (double)ends[i], limit = 1 / (1 - b);
        char what[ICL_SEEDED_NAME], note[64];
        snprintf(what, sizeof what, "b = %g, %zu equal tokens", b, ends[i]);
        snprintf(note, sizeof note, "the limit is %g", limit);
        ICL_TRY(ICL_FOUND(run, error, .what = what, .quantity = "factor",
                          .ours = measure_factor(&linear, &ball, ends[i]),
                          .target = limit * (1 - b * (1 - pow(b, t)) / (t * (1 - b))), .tolerance = limit * ROUNDING,
                          .evidence = ICL_COMPUTED, .source = "geometric sums", .note = note));
    }
done:
    release_outputs(&linear);
    release_outputs(&ball);
    return status;
}

/* ---- Trained models ---- */

/* What the seeds of one task gave. */
typedef struct trained {
    double loss[MOMENTA][MOST_SEEDS], accuracy[MOMENTA][MOST_SEEDS];
} trained;

static icl_status train_cell(icl_reproducing *run, size_t task, size_t momentum, size_t seed, trained *to,
                             icl_error *error) {
    char overrides[128], name[ICL_SEEDED_NAME];
    const icl_seeded_cell cell = {.name = name,
                                  .recipe = tasks[task].recipe,
                                  .overrides = overrides,
                                  .steps = tasks[task].steps[run->params->scale],
                                  .seed = run->params->seed + (uint32_t)seed};
    icl_evaluation *evaluation = NULL;
    icl_status status = ICL_OK;

    snprintf(name, sizeof name, "%s-momentum-%g", tasks[task].name, momenta[momentum]);
    write_overrides(task, momenta[momentum] > 0 ? momenta[momentum] : -1, overrides, sizeof overrides);
    ICL_TRY(icl_reproduce_evaluate_seed(run, &cell, &evaluation, error));
    to->loss[momentum][seed] = evaluation->scores[0].mse;
    to->accuracy[momentum][seed] = evaluation->scores[0].accuracy;
done:
    icl_evaluation_destroy(&evaluation);
    return status;
}

/* Means over seeds, and the mean of what momentum changes on the same seeds. */
static icl_status show_momentum(icl_reproducing *run, size_t task, size_t momentum, size_t seeds, const trained *of,
                                icl_error *error) {
    double changes[MOST_SEEDS];
    char what[ICL_SEEDED_NAME], note[64] = "";

    snprintf(what, sizeof what, momentum > 0 ? "%s, b = %g" : "%s, linear attention", tasks[task].what,
             momenta[momentum]);
    if (!isnan(of->accuracy[momentum][0]))
        snprintf(note, sizeof note, "accuracy %.4f +- %.4f", icl_mean(of->accuracy[momentum], seeds),
                 icl_standard_error(of->accuracy[momentum], seeds));
    ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = "loss", .ours = icl_mean(of->loss[momentum], seeds),
                        .standard_error = icl_standard_error(of->loss[momentum], seeds), .note = note));
    if (momentum == 0)
        return ICL_OK;
    for (size_t seed = 0; seed < seeds; seed++)
        changes[seed] = of->loss[momentum][seed] - of->loss[0][seed];
    return ICL_FOUND(run, error, .what = what, .quantity = "loss above that of linear attention",
                     .ours = icl_mean(changes, seeds), .standard_error = icl_standard_error(changes, seeds),
                     .note = "seed by seed");
}

static icl_status reproduce_task(icl_reproducing *run, size_t task, icl_error *error) {
    const size_t seeds = seed_counts[run->params->scale];
    icl_curves curves = {
        .figure = {.name = tasks[task].name, .title = "Loss by momentum", .x_label = "momentum b", .y_label = "loss"}};
    trained of = {.loss = {{0}}};
    icl_status status = ICL_OK;

    for (size_t momentum = 0; momentum < MOMENTA; momentum++) {
        for (size_t seed = 0; seed < seeds; seed++) {
            ICL_TRY(icl_reproduce_next(run, train_cell(run, task, momentum, seed, &of, error)));
            ICL_TRY(icl_curves_add(&curves, tasks[task].what, ICL_SERIES_OURS, momenta[momentum],
                                   of.loss[momentum][seed], error));
        }
        ICL_TRY(show_momentum(run, task, momentum, seeds, &of, error));
    }
    ICL_TRY(icl_curves_draw(run, &curves, error));
done:
    icl_curves_release(&curves);
    return status;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    if (icl_reproduce_judges(run) && icl_reproduce_wants(run, "exact")) {
        ICL_CHECK(judge_equalities(run, error));
        ICL_CHECK(judge_factor(run, .5, error));
        ICL_CHECK(judge_factor(run, .9, error));
    }
    for (size_t task = 0; task < TASKS; task++)
        if (tasks[task].steps[run->params->scale] > 0 && icl_reproduce_wants(run, tasks[task].name))
            ICL_CHECK(reproduce_task(run, task, error));
    return ICL_OK;
}

const icl_reproduction icl_momentum_recurrence = {
    .name = "momentum-recurrence",
    .source = "arXiv 2208.00579",
    .about = "linear attention with momentum: what is exact, and its loss by momentum",
    .cost = {"3 s", "5 min", "2 h"},
    .is_shared = true,
    .run = reproduce,
};
