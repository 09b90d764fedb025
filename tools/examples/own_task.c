/*
 * A program's own task: y = |<w, x>|. Inputs and labels are shown, and one more label is to be predicted. The library's
 * softmax attention learns it; it is compared with the mean of the shown labels.
 *
 *     cc own_task.c experiment.c $(pkg-config --cflags --libs iclab) -lm -o own_task && ./own_task cpu opencl
 */
#include <math.h>

#include "experiment.h"

enum { D = 2, N = 30, WIDTH = D + 1 };

/* The random streams of this task begin here: those below 1000 are the library's. */
#define FIRST_STREAM 1000

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    (void)recipe;
    (void)error;
    task->shape = icl_regression_shape(D, N);
    return ICL_OK;
}

/* Draws sequence b. Its w and its inputs x_0 ... x_N are consecutive numbers of one stream; the last position shows no
 * label. */
static float draw_sequence(const icl_random_params *normal, size_t b, float *inputs) {
    const size_t first = b * (N + 2) * D;
    float label = 0;

    for (size_t t = 0; t <= N; t++) {
        float *position = inputs + t * WIDTH;
        label = 0;
        for (size_t k = 0; k < D; k++) {
            position[k] = icl_random_value(normal, first + (t + 1) * D + k);
            label += position[k] * icl_random_value(normal, first + k);
        }
        label = fabsf(label);
        position[D] = t < N ? label : 0;
    }
    return label;
}

static icl_status draw(const icl_task *task, icl_task_purpose purpose, uint32_t seed, uint64_t step,
                       const icl_batch_values *values, icl_error *error) {
    const icl_random_params normal = {.key = {seed, FIRST_STREAM + (uint32_t)purpose, step},
                                      .distribution = ICL_NORMAL};

    (void)task;
    (void)error;
    for (size_t b = 0; b < values->size; b++)
        values->targets[b] = draw_sequence(&normal, b, values->inputs + b * (N + 1) * WIDTH);
    return ICL_OK;
}

static icl_status predict_mean(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                               double *outputs, icl_error *error) {
    (void)predictor;
    (void)error;
    for (size_t b = 0; b < shown->count; b++) {
        outputs[b] = 0;
        for (size_t t = 0; t < N; t++)
            outputs[b] += (double)shown->inputs[(b * (N + 1) + t) * WIDTH + D] / N;
    }
    return ICL_OK;
}

int main(int count, char **arguments) {
    static const char *const settings[] = {"model.family=softmax",     "model.layers=1",     "train.batch=64",
                                           "train.steps=200",          "train.warmup=0",     "train.growth=0",
                                           "train.learning_rate=0.02", "eval.sequences=2000"};
    const icl_task_family task = {.name = "distance", .create = create, .draw = draw};
    const icl_reference_predictor mean = {.name = "mean", .predict = predict_mean};
    const icl_reference_predictor *const references[] = {&mean};
    const icl_trainer_parts parts = {.task = &task, .references = references, .reference_count = 1};

    return experiment("own_task", &parts, settings, sizeof settings / sizeof *settings, count, arguments);
}
