/* What is exact of linear attention with momentum (momentum.c), of layers that are not trained. */
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "core/print.h"
#include "papers/architecture/momentum.h"
#include "papers/seeds.h"

enum { SEQUENCES = 16 };

void icl_momentum_mixer(const char *before, double momentum, char text[ICL_MOMENTUM_MIXER]) {
    if (momentum < 0)
        snprintf(text, ICL_MOMENTUM_MIXER, "model.mixer=%slinear", before);
    else
        icl_print(text, ICL_MOMENTUM_MIXER, "model.mixer=%smomentum model.momentum=%g", before, momentum);
}

/* Outputs of an untrained layer. */
typedef struct outputs {
    icl_seeded made;
    float *whole, *stepwise; /* of whole sequences, and from states: [sequences][positions][numbers] */
} outputs;

static void release_outputs(outputs *of) {
    icl_seeded_release(&of->made);
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
    char mixer[ICL_MOMENTUM_MIXER];
    const icl_seeded_cell cell = {
        .name = "exact", .recipe = "mesa", .overrides = {"eval.predictors=", mixer}, .seed = run->params->seed};
    icl_batch batch = {0};
    size_t count;
    icl_status status = ICL_OK;

    icl_momentum_mixer("", momentum, mixer);
    ICL_TRY(icl_reproduce_train_seed(run, &cell, &out->made, error));
    ICL_TRY(icl_batch_create(icl_trainer_task(out->made.trainer), run->params->backend, ICL_FOR_EVALUATION, SEQUENCES,
                             &batch, error));
    ICL_TRY(icl_task_sample(icl_trainer_task(out->made.trainer), run->params->backend, ICL_FOR_EVALUATION,
                            run->params->seed, 0, &batch, error));
    if (repeats)
        ICL_TRY(repeat_tokens(&batch, error));
    count = SEQUENCES * batch.shape.scored * batch.shape.outputs;
    ICL_TRY(icl_allocate(count, sizeof *out->whole, "outputs", &out->whole, error));
    ICL_TRY(icl_allocate(count, sizeof *out->stepwise, "outputs", &out->stepwise, error));
    ICL_TRY(icl_trainer_predict(out->made.trainer, &batch, out->whole, error));
    ICL_TRY(icl_trainer_decode(out->made.trainer, &batch, out->stepwise, error));
done:
    icl_batch_release(&batch);
    return status;
}

/* The largest difference over the largest number. */
static double relative_distance(const outputs *of, const float *a, const float *b) {
    const icl_task_shape *shape = icl_task_get_shape(icl_trainer_task(of->made.trainer));
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
    outputs linear = {.whole = NULL}, none = {.whole = NULL}, ball = {.whole = NULL};
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
    const icl_task_shape *shape = icl_task_get_shape(icl_trainer_task(linear->made.trainer));
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
    outputs linear = {.whole = NULL}, ball = {.whole = NULL};
    icl_status status = ICL_OK;

    ICL_TRY(run_layer(run, -1, true, &linear, error));
    ICL_TRY(run_layer(run, b, true, &ball, error));
    const size_t last = icl_task_get_shape(icl_trainer_task(ball.made.trainer))->scored, ends[] = {1, last / 2, last};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const double t = (double)ends[i], limit = 1 / (1 - b);
        char what[ICL_SEEDED_NAME], note[64];
        icl_print(what, sizeof what, "b = %g, %zu equal tokens", b, ends[i]);
        icl_print(note, sizeof note, "the limit is %g", limit);
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

icl_status icl_momentum_judge_exact(icl_reproducing *run, icl_error *error) {
    ICL_CHECK(judge_equalities(run, error));
    ICL_CHECK(judge_factor(run, .5, error));
    return judge_factor(run, .9, error);
}
