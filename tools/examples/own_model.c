/*
 * A program's own causal transformer, on a task with a label y_t = <w, x_t> at every position: position t shows x_t and
 * the previous label, and every label but the first is to be predicted. It is compared with the prediction 0.
 *
 * With h = x E, pairs c_i = (x_i, y_i), and for each layer
 *
 *     h_t <- h_t + 1/T sum over i < t of <h_t Q, c_i K> c_i V,     h <- h + ReLU(h F) G,
 *
 * the output is h R. The tape differentiates it on every device.
 *
 *     cc own_model.c experiment.c $(pkg-config --cflags --libs iclab) -lm -o own_model && ./own_model cpu opencl
 */
#include <math.h>

#include "experiment.h"

enum { D = 3, T = 12, SCORED = T - 1, PAIR = D + 1, LAYERS = 2, WIDTH = 16 };

#define FIRST_STREAM 1000

/* ---- The task ---- */

static icl_status create_task(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    (void)recipe;
    (void)error;
    task->shape = (icl_task_shape){.positions = T, .inputs = PAIR, .outputs = 1, .first_scored = 1, .scored = SCORED};
    return ICL_OK;
}

/* Draws sequence b. Its w and its inputs x_0 ... x_(T-1) are consecutive numbers of one stream. */
static void draw_sequence(const icl_random_params *normal, size_t b, float *inputs, float *targets) {
    const size_t first = b * (T + 1) * D;

    for (size_t t = 0; t < T; t++) {
        float *position = inputs + t * PAIR, label = 0;
        for (size_t k = 0; k < D; k++) {
            position[k] = icl_random_value(normal, first + (t + 1) * D + k);
            label += position[k] * icl_random_value(normal, first + k);
        }
        if (t + 1 < T)
            position[PAIR + D] = label;
        if (t > 0)
            targets[t - 1] = label;
    }
}

static icl_status sample(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                         uint64_t step, icl_batch *batch, icl_error *error) {
    const icl_random_params normal = {.key = {seed, FIRST_STREAM + (uint32_t)purpose, step},
                                      .distribution = ICL_NORMAL};
    float *inputs = NULL, *targets = NULL;
    icl_status status = ICL_OK;

    (void)task;
    (void)backend;
    ICL_TRY(icl_allocate(batch->size * T * PAIR, sizeof *inputs, "inputs", &inputs, error));
    ICL_TRY(icl_allocate(batch->size * SCORED, sizeof *targets, "targets", &targets, error));
    for (size_t b = 0; b < batch->size; b++)
        draw_sequence(&normal, b, inputs + b * T * PAIR, targets + b * SCORED);
    ICL_TRY(icl_tensor_write(batch->inputs, inputs, error));
    ICL_TRY(icl_tensor_write(batch->targets, targets, error));
done:
    icl_free(&inputs);
    icl_free(&targets);
    return status;
}

/* ---- The model ---- */

enum { QUERIES, KEYS, VALUES, FORWARD, BACK, IN_LAYER };

static icl_status create_model(const icl_recipe *recipe, icl_model *model, icl_error *error) {
    static const char *const names[IN_LAYER] = {"Q", "K", "V", "F", "G"};
    static const size_t shapes[IN_LAYER][2] = {
        {WIDTH, WIDTH}, {PAIR, WIDTH}, {PAIR, WIDTH}, {WIDTH, 2 * WIDTH}, {2 * WIDTH, WIDTH}};

    (void)recipe;
    if (model->shape.inputs != PAIR || model->shape.outputs != 1 || model->shape.first_scored != 1 ||
        model->shape.scored + 1 != model->shape.positions)
        return icl_model_refuse(model, "3 coordinates and a label, and one number at every position but the first",
                                error);
    ICL_CHECK(icl_model_add_parameter(model, 2, (size_t[]){D, WIDTH}, error, "E"));
    for (int layer = 0; layer < LAYERS; layer++)
        for (int i = 0; i < IN_LAYER; i++)
            ICL_CHECK(icl_model_add_parameter(model, 2, shapes[i], error, "layer.%d.%s", layer, names[i]));
    return icl_model_add_parameter(model, 2, (size_t[]){WIDTH, 1}, error, "R");
}

/* Draws normal numbers, divided by the root of the rows, so that products keep the size of their inputs. */
static void initialize(const icl_model *model, uint32_t seed, float *values) {
    for (size_t i = 0; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        for (size_t k = info->offset; k < info->offset + info->count; k++)
            values[k] = icl_model_noise(seed, k) / sqrtf((float)info->shape[0]);
    }
}

static icl_variable predict(const icl_model *model, icl_tape *tape, const icl_variable *parameters, icl_variable inputs,
                            size_t depth) {
    const icl_attention_params attention = {.kind = ICL_ATTENTION_LINEAR, .mask = ICL_MASK_CAUSAL, .scale = 1.0 / T};
    const icl_variable labels = icl_tape_slice(tape, icl_tape_slice(tape, inputs, 2, D, 1), 1, 1, SCORED);
    const icl_variable asked = icl_tape_slice(tape, icl_tape_slice(tape, inputs, 2, 0, D), 1, 1, SCORED);
    const icl_variable pairs =
        icl_tape_place(tape, icl_tape_slice(tape, inputs, 1, 0, SCORED), labels, (size_t[]){0, 0, D});
    icl_variable h = icl_tape_matmul(tape, 1.0, asked, parameters[0]);

    (void)depth;
    for (int layer = 0; layer < LAYERS; layer++) {
        const icl_variable *variables = parameters + 1 + layer * IN_LAYER;
        const icl_variable seen = icl_tape_attention(
            tape, &attention, icl_tape_matmul(tape, 1.0, h, variables[QUERIES]),
            icl_tape_matmul(tape, 1.0, pairs, variables[KEYS]), icl_tape_matmul(tape, 1.0, pairs, variables[VALUES]));
        h = icl_tape_binary(tape, ICL_ADD, h, seen);
        const icl_variable hidden = icl_tape_unary(tape, ICL_RELU, icl_tape_matmul(tape, 1.0, h, variables[FORWARD]));
        h = icl_tape_binary(tape, ICL_ADD, h, icl_tape_matmul(tape, 1.0, hidden, variables[BACK]));
    }
    return icl_tape_matmul(tape, 1.0, h, parameters[icl_model_parameter_count(model) - 1]);
}

static icl_status predict_zero(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                               double *outputs, icl_error *error) {
    (void)predictor;
    (void)error;
    for (size_t i = 0; i < shown->count * SCORED; i++)
        outputs[i] = 0;
    return ICL_OK;
}

int main(int count, char **arguments) {
    static const char *const settings[] = {"train.batch=64", "train.steps=300",           "train.warmup=0",
                                           "train.growth=0", "train.learning_rate=0.003", "eval.sequences=2000"};
    const icl_task_family task = {.name = "labels at all positions", .create = create_task, .sample = sample};
    const icl_model_family model = {
        .name = "causal transformer", .create = create_model, .initialize = initialize, .predict = predict};
    const icl_reference_predictor zero = {.name = "zero", .predict = predict_zero};
    const icl_reference_predictor *const references[] = {&zero};
    const icl_trainer_parts parts = {&task, &model, references, 1};

    return experiment("own_model", &parts, settings, sizeof settings / sizeof *settings, count, arguments);
}
