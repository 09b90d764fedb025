/*
 * A task, a model and two reference predictors as a program of its own would define them: noiseless regression with
 * labels at all positions but the first, and one layer of causal linear attention.
 *
 *     position t < T has (x_t, y_(t-1)), the first (x_0, 0);  y_t = <w, x_t>;  positions 1 … T - 1 are scored
 *     the model's output there: x_t^T A sum_(i<t) y_i x_i, with the parameter A [d, d]
 */
#ifndef ICLAB_TESTS_TRAIN_OWN_PARTS_H
#define ICLAB_TESTS_TRAIN_OWN_PARTS_H

#include "fixture.h"

enum { D = 3, T = 6, S = T - 1 };

/* ---- The task ---- */

enum { LABELS, WEIGHTS }; /* of the scratch: [B, T, 1] and [B, d, 1] */

static inline icl_status causal_create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    (void)recipe;
    ICL_CHECK(icl_allocate(1, sizeof *task->prior, "prior", &task->prior, error)); /* dropped: the shape has no pairs */
    task->state = task->prior;
    task->shape = (icl_task_shape){.positions = T, .inputs = D + 1, .outputs = 1, .first_scored = 1, .scored = S};
    return ICL_OK;
}

static inline void causal_destroy(icl_task *task) {
    icl_free(&task->state);
}

static inline icl_status causal_batch(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                                      icl_batch *batch, icl_error *error) {
    icl_status status = ICL_OK;

    (void)task;
    (void)purpose;
    ICL_TRY(icl_tensor_create(backend, 3, (size_t[]){size, T, D + 1}, &batch->inputs, error));
    ICL_TRY(icl_tensor_create(backend, 3, (size_t[]){size, T, 1}, &batch->scratch[LABELS], error));
    ICL_TRY(icl_tensor_create(backend, 3, (size_t[]){size, D, 1}, &batch->scratch[WEIGHTS], error));
    ICL_TRY(icl_fill(backend, batch->inputs, 0, error));
    batch->targets = icl_tensor_slice(batch->scratch[LABELS], 1, 1, S);
    ICL_TRY(icl_batch_add_side(batch, ICL_SIDE_COEFFICIENTS, batch->scratch[WEIGHTS], error));
done:
    return status;
}

static inline icl_status causal_sample(const icl_task *task, icl_backend *backend, icl_task_purpose purpose,
                                       uint32_t seed, uint64_t step, icl_batch *batch, icl_error *error) {
    const icl_tensor x = icl_tensor_slice(batch->inputs, 2, 0, D);
    const icl_tensor shown = icl_tensor_slice(icl_tensor_slice(batch->inputs, 2, D, 1), 1, 1, S);
    icl_random_params normal = {.key = {seed, 1000u + 2 * (uint32_t)purpose, step}, .distribution = ICL_NORMAL};
    icl_status status = ICL_OK;

    (void)task;
    ICL_TRY(icl_random_fill(backend, &normal, x, error));
    normal.key.stream++;
    ICL_TRY(icl_random_fill(backend, &normal, batch->scratch[WEIGHTS], error));
    ICL_TRY(icl_matmul_strict(backend, batch->scratch[LABELS], x, batch->scratch[WEIGHTS], error));
    ICL_TRY(icl_copy(backend, shown, icl_tensor_slice(batch->scratch[LABELS], 1, 0, S), error));
done:
    return status;
}

static const icl_task_family causal_task = {.name = "causal-regression",
                                            .create = causal_create,
                                            .destroy = causal_destroy,
                                            .batch_create = causal_batch,
                                            .sample = causal_sample};

/* ---- The model ---- */

static inline icl_status attention_create(const icl_recipe *recipe, icl_model *model, icl_error *error) {
    (void)recipe;
    if (model->shape.inputs < 2 || model->shape.outputs != 1 || model->shape.first_scored != 1 ||
        model->shape.scored + 1 != model->shape.positions)
        return icl_model_refuse(model, "one number at every position but the first", error);
    return icl_model_add_parameter(model, 2, (size_t[]){model->shape.inputs - 1, model->shape.inputs - 1}, error, "A");
}

static inline void attention_initialize(const icl_model *model, uint32_t seed, float *values) {
    for (size_t i = 0; i < model->size; i++)
        values[i] = 0.05F * icl_model_noise(seed, i);
}

static inline icl_variable attention_predict(const icl_model *model, icl_tape *tape, const icl_variable *parameters,
                                             icl_variable inputs, size_t depth) {
    const icl_attention_params attention = {.kind = ICL_ATTENTION_LINEAR, .mask = ICL_MASK_CAUSAL, .scale = 1.0};
    const size_t d = model->shape.inputs - 1, pairs = model->shape.positions - 1;
    const icl_variable x = icl_tape_slice(tape, inputs, 2, 0, d);
    const icl_variable labels = icl_tape_slice(tape, icl_tape_slice(tape, inputs, 2, d, 1), 1, 1, pairs);
    const icl_variable queries = icl_tape_matmul(tape, 1.0, icl_tape_slice(tape, x, 1, 1, pairs), parameters[0]);

    (void)depth;
    return icl_tape_attention(tape, &attention, queries, icl_tape_slice(tape, x, 1, 0, pairs), labels);
}

static const icl_model_family attention_model = {.name = "causal-attention",
                                                 .create = attention_create,
                                                 .initialize = attention_initialize,
                                                 .predict = attention_predict};

/* ---- Reference predictors: always 0, and one that is told w ---- */

static inline icl_status predict_zero(const icl_reference_predictor *predictor, const icl_shown_sequences *sequences,
                                      double *outputs, icl_error *error) {
    (void)predictor;
    (void)error;
    for (size_t i = 0; i < sequences->count * S; i++)
        outputs[i] = 0;
    return ICL_OK;
}

static inline icl_status predict_told(const icl_reference_predictor *predictor, const icl_shown_sequences *sequences,
                                      double *outputs, icl_error *error) {
    const icl_tensor coefficients = icl_batch_side(sequences->batch, ICL_SIDE_COEFFICIENTS);
    float *w = NULL;
    icl_status status = ICL_OK;

    (void)predictor;
    ICL_TRY(icl_allocate(icl_tensor_count(&coefficients), sizeof *w, "coefficients", &w, error));
    ICL_TRY(icl_tensor_read(coefficients, w, error));
    for (size_t i = 0; i < sequences->count * S; i++) {
        const float *x = sequences->inputs + (i / S * T + i % S + 1) * (D + 1);
        outputs[i] = 0;
        for (size_t k = 0; k < D; k++)
            outputs[i] += (double)x[k] * (double)w[i / S * D + k];
    }
done:
    icl_free(&w);
    return status;
}

static const icl_reference_predictor zero = {.name = "zero", .predict = predict_zero},
                                     told = {.name = "told", .predict = predict_told};
static const icl_reference_predictor *const own_references[] = {&zero, &told};
static const icl_trainer_parts own_parts = {&causal_task, &attention_model, own_references, 2};

#endif
