#include "papers/architecture/distillation.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/ops.h"
#include "model/sequence/sequence.h"

#define NORMALIZER_EPSILON 1e-6 /* that of the mixer "linear" */

enum { EVALUATED = 256, MOST_LAYERS = 16, FLAT = 4 };

/* What softmax attention of one layer reads, on the tape. */
typedef struct seen {
    size_t layer;
    icl_attention_params params;
    icl_sequence_heads heads;
} seen;

typedef struct distillation {
    const icl_distillation_params *params;
    const icl_task *task;
    const icl_model *teacher;
    icl_backend *backend;
    icl_tape *tape;
    icl_tensor teacher_values, values, gradient; /* flat: the teacher's and the student's */
    icl_tensor moments[2], measures;             /* of Adam; [3] */
    icl_batch batch, evaluated;
    seen layers[MOST_LAYERS];
    size_t count; /* of layers */
} distillation;

static void see(void *user, const icl_sequence_pass *pass, const icl_sequence_layer *layer,
                const icl_attention_params *params, const icl_sequence_heads *heads) {
    distillation *d = user;

    (void)pass;
    if (d->count < MOST_LAYERS)
        d->layers[d->count++] = (seen){layer->index, *params, *heads};
}

icl_status icl_distillation_copy(const icl_model *from, const float *from_values, const icl_model *to, float *to_values,
                                 icl_error *error) {
    for (size_t i = 0; i < icl_model_parameter_count(from); i++)
        for (size_t j = 0; j < icl_model_parameter_count(to); j++) {
            const icl_parameter_info *a = icl_model_parameter(from, i), *b = icl_model_parameter(to, j);
            if (strcmp(a->name, b->name) != 0)
                continue;
            if (a->rank != b->rank || memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape) != 0)
                return icl_fail(error, ICL_ERROR_INPUT, "parameter %s: expected the same shape in both models",
                                a->name);
            memcpy(to_values + b->offset, from_values + a->offset, a->count * sizeof *to_values);
        }
    return ICL_OK;
}

/* ---- One layer ---- */

/* A parameter of the student on the tape. */
static icl_variable find_parameter(distillation *d, size_t layer, const char *name) {
    const icl_model *student = d->params->student;
    icl_error error = {0};
    char full[64];

    snprintf(full, sizeof full, "block.%zu.mixer.%s", layer, name);
    for (size_t i = 0; i < icl_model_parameter_count(student); i++) {
        const icl_parameter_info *info = icl_model_parameter(student, i);
        if (strcmp(info->name, full) == 0)
            return icl_tape_parameter(
                d->tape,
                icl_tensor_reshape(icl_tensor_slice(d->values, 0, info->offset, info->count), info->rank, info->shape),
                icl_tensor_reshape(icl_tensor_slice(d->gradient, 0, info->offset, info->count), info->rank,
                                   info->shape));
    }
    icl_fail(&error, ICL_ERROR_INPUT, "distillation: the student has no %s: expected model.feature_map = learned:M",
             full);
    icl_tape_fail(d->tape, &error);
    return (icl_variable){-1};
}

static icl_variable map(distillation *d, icl_variable x, icl_variable weight, icl_variable bias) {
    return icl_tape_unary(d->tape, ICL_RELU,
                          icl_tape_binary(d->tape, ICL_ADD, icl_tape_matmul(d->tape, 1, x, weight), bias));
}

/* o' and o, [B, H, queries, n]. */
static void attend(distillation *d, const seen *layer, icl_variable *ours, icl_variable *theirs) {
    const icl_attention_params linear = {.kind = ICL_ATTENTION_LINEAR, .mask = layer->params.mask, .scale = 1};
    const icl_variable weight = find_parameter(d, layer->layer, "features");
    const icl_variable bias = find_parameter(d, layer->layer, "features_bias");
    const icl_variable q = map(d, layer->heads.q, weight, bias), k = map(d, layer->heads.k, weight, bias);
    const icl_tensor v = icl_tape_value(d->tape, layer->heads.v);
    const icl_variable ones = icl_tape_filled(d->tape, 4, (const size_t[]){v.shape[0], v.shape[1], v.shape[2], 1}, 1);
    const icl_variable sum = icl_tape_scale_add(d->tape, 1, icl_tape_attention(d->tape, &linear, q, k, ones), 1,
                                                icl_tape_filled(d->tape, 0, NULL, NORMALIZER_EPSILON));

    *ours = icl_tape_binary(d->tape, ICL_DIVIDE, icl_tape_attention(d->tape, &linear, q, k, layer->heads.v), sum);
    *theirs = icl_tape_attention(d->tape, &layer->params, layer->heads.q, layer->heads.k, layer->heads.v);
}

/* Sums over heads, queries and numbers of squares, [B, 1, 1, 1]. */
static icl_variable squares(distillation *d, icl_variable x, icl_reduce_kind kind) {
    return icl_tape_reduce(d->tape, kind, 1u << 1 | 1u << 2 | 1u << 3, icl_tape_unary(d->tape, ICL_SQUARE, x));
}

/* Runs the teacher on the batch, which leaves d->layers on the tape. */
static icl_status run_teacher(distillation *d, const icl_batch *batch, icl_error *error) {
    const icl_sequence_watch watch = {.attention = see, .user = d};

    d->count = 0;
    icl_tape_reset(d->tape);
    return icl_sequence_watch_run(d->teacher, d->tape, d->teacher_values, batch->inputs, &watch, error);
}

/* ---- Measuring and training ---- */

static icl_status add_sum(const distillation *d, icl_variable sums, double *to, icl_error *error) {
    float values[EVALUATED];

    ICL_CHECK(icl_tensor_read(icl_tape_value(d->tape, sums), values, error));
    for (size_t i = 0; i < EVALUATED; i++)
        *to += (double)values[i];
    return ICL_OK;
}

static icl_status measure(distillation *d, double *loss, icl_error *error) {
    double misses = 0, all = 0;

    ICL_CHECK(run_teacher(d, &d->evaluated, error));
    for (size_t i = 0; i < d->count; i++) {
        icl_variable ours, theirs;
        attend(d, &d->layers[i], &ours, &theirs);
        const icl_variable miss = icl_tape_binary(d->tape, ICL_SUBTRACT, ours, theirs);
        ICL_CHECK(add_sum(d, squares(d, miss, ICL_SUM), &misses, error));
        ICL_CHECK(add_sum(d, squares(d, theirs, ICL_SUM), &all, error));
    }
    *loss = misses / all;
    return icl_tape_status(d->tape, error);
}

static icl_status step(distillation *d, size_t number, icl_error *error) {
    const double rest = (double)(d->params->steps - number) / (double)d->params->steps;
    const icl_update_params update = {
        .adam = {.learning_rate = d->params->learning_rate * .5 * (1 - cos(3.14159265358979323846 * rest)),
                 .beta1 = .9,
                 .beta2 = .999,
                 .epsilon = 1e-8,
                 .step = number + 1}};
    icl_variable loss = {-1};

    ICL_CHECK(icl_task_sample(d->task, d->backend, ICL_FOR_TRAINING, d->params->seed, number, &d->batch, error));
    ICL_CHECK(run_teacher(d, &d->batch, error));
    for (size_t i = 0; i < d->count; i++) {
        icl_variable ours, theirs;
        attend(d, &d->layers[i], &ours, &theirs);
        const icl_variable miss = squares(d, icl_tape_binary(d->tape, ICL_SUBTRACT, ours, theirs), ICL_MEAN);
        loss = i == 0 ? miss : icl_tape_binary(d->tape, ICL_ADD, loss, miss);
    }
    ICL_CHECK(icl_tape_backward(d->tape, loss, error));
    const icl_tensor losses = icl_tensor_reshape(icl_tape_value(d->tape, loss), 1, &d->params->batch);
    return icl_update_step(d->backend, &update, d->values, d->moments, d->measures, (icl_tensor){0}, d->gradient,
                           losses, (icl_tensor){0}, (icl_tensor){0}, error);
}

/* ---- The whole ---- */

/* The gradient of what is no map stays 0, and Adam leaves it. */
static icl_status create_tensors(icl_reproducing *run, distillation *d, const float *values, icl_error *error) {
    const size_t size = icl_model_size(d->params->student), teacher_size = icl_model_size(d->teacher), three = 3;
    icl_tensor *const flat[FLAT] = {&d->values, &d->gradient, &d->moments[0], &d->moments[1]};
    float *teacher_values = NULL;
    icl_status status = ICL_OK;

    for (size_t i = 0; i < FLAT; i++) {
        ICL_TRY(icl_tensor_create(d->backend, 1, &size, flat[i], error));
        ICL_TRY(icl_fill(d->backend, *flat[i], 0, error));
    }
    ICL_TRY(icl_tensor_write(d->values, values, error));
    ICL_TRY(icl_tensor_create(d->backend, 1, &three, &d->measures, error));
    ICL_TRY(icl_tensor_create(d->backend, 1, &teacher_size, &d->teacher_values, error));
    ICL_TRY(icl_allocate(teacher_size, sizeof *teacher_values, "parameters", &teacher_values, error));
    ICL_TRY(icl_trainer_get_parameters(d->params->teacher, teacher_values, error));
    ICL_TRY(icl_tensor_write(d->teacher_values, teacher_values, error));
    ICL_TRY(icl_batch_create(d->task, d->backend, ICL_FOR_TRAINING, d->params->batch, &d->batch, error));
    ICL_TRY(icl_batch_create(d->task, d->backend, ICL_FOR_EVALUATION, EVALUATED, &d->evaluated, error));
    ICL_TRY(icl_task_sample(d->task, d->backend, ICL_FOR_EVALUATION, run->params->seed, 0, &d->evaluated, error));
done:
    icl_free(&teacher_values);
    return status;
}

static void release(distillation *d) {
    icl_tape_destroy(&d->tape);
    icl_batch_release(&d->batch);
    icl_batch_release(&d->evaluated);
    icl_tensor_release(&d->teacher_values);
    icl_tensor_release(&d->values);
    icl_tensor_release(&d->gradient);
    icl_tensor_release(&d->moments[0]);
    icl_tensor_release(&d->moments[1]);
    icl_tensor_release(&d->measures);
}

icl_status icl_distillation_run(icl_reproducing *run, const icl_distillation_params *params, float *values,
                                double *before, double *after, icl_error *error) {
    distillation d = {.params = params,
                      .task = icl_trainer_task(params->teacher),
                      .teacher = icl_trainer_model(params->teacher),
                      .backend = run->params->backend};
    icl_status status = ICL_OK;

    ICL_TRY(icl_tape_create(d.backend, &d.tape, error));
    ICL_TRY(create_tensors(run, &d, values, error));
    ICL_TRY(measure(&d, before, error));
    for (size_t number = 0; number < params->steps; number++) {
        ICL_TRY(icl_reproduce_poll(run, error));
        ICL_TRY(step(&d, number, error));
    }
    ICL_TRY(measure(&d, after, error));
    ICL_TRY(icl_tensor_read(d.values, values, error));
done:
    release(&d);
    return status;
}
