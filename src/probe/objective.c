#include "probe/objective.h"

#include "core/allocate.h"
#include "core/status.h"
#include "iclab/tape.h"

#define MOST_IN_A_BATCH ((size_t)2048)

struct icl_objective {
    const icl_task *task;
    const icl_model *model;
    icl_backend *backend; /* "ref" */
    icl_tape *tape;
    size_t count, length; /* batches, and sequences in each */
    icl_batch *batches;
    icl_tensor parameters, gradient; /* [N] */
    icl_tensor predictions;          /* [length] */
    icl_variable *variables;         /* one for each named parameter, on the tape */
    double *part;                    /* [N]: a batch's gradient */
    double *losses, *targets;        /* [length] and [count][length] */
};

/* ---- Creation ---- */

static icl_status create_tensors(icl_objective *made, icl_error *error) {
    const size_t size = icl_model_size(made->model);
    icl_status status;

    ICL_TRY(icl_tensor_create(made->backend, 1, &size, &made->parameters, error));
    ICL_TRY(icl_tensor_create(made->backend, 1, &size, &made->gradient, error));
    ICL_TRY(icl_tensor_create(made->backend, 1, &made->length, &made->predictions, error));
    ICL_TRY(icl_allocate(made->count, sizeof *made->batches, "batches", &made->batches, error));
    for (size_t i = 0; i < made->count; i++)
        ICL_TRY(icl_batch_create(made->task, made->backend, ICL_FOR_EVALUATION, made->length,
                                 &made->batches[i], error));
    ICL_TRY(icl_allocate(size, sizeof(double), "gradient", &made->part, error));
    ICL_TRY(icl_allocate(made->length, sizeof(double), "losses", &made->losses, error));
    ICL_TRY(icl_allocate(made->count * made->length, sizeof(double), "targets", &made->targets, error));
    ICL_TRY(icl_allocate(icl_model_parameter_count(made->model), sizeof *made->variables, "variables",
                         &made->variables, error));
done:
    return status;
}

icl_status icl_objective_create(const icl_task *task, const icl_model *model, size_t sequences,
                                icl_objective **objective, icl_error *error) {
    icl_objective *made = NULL;
    icl_status status = ICL_OK;

    if (sequences == 0)
        return icl_fail(error, ICL_ERROR_INPUT, "objective: 0 sequences, expected at least 1");
    ICL_TRY(icl_allocate(1, sizeof *made, "objective", &made, error));
    made->task = task;
    made->model = model;
    made->count = (sequences + MOST_IN_A_BATCH - 1) / MOST_IN_A_BATCH;
    made->length = (sequences + made->count - 1) / made->count;
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "ref"}, &made->backend, error));
    ICL_TRY(icl_tape_create(made->backend, &made->tape, error));
    ICL_TRY(create_tensors(made, error));
    *objective = made;
    made = NULL;
done:
    icl_objective_destroy(&made);
    return status;
}

void icl_objective_destroy(icl_objective **objective) {
    icl_objective *gone = *objective;

    if (!gone)
        return;
    icl_tape_destroy(&gone->tape);
    for (size_t i = 0; gone->batches && i < gone->count; i++)
        icl_batch_release(&gone->batches[i]);
    icl_tensor_release(&gone->parameters);
    icl_tensor_release(&gone->gradient);
    icl_tensor_release(&gone->predictions);
    icl_backend_close(&gone->backend);
    icl_free(&gone->batches);
    icl_free(&gone->variables);
    icl_free(&gone->part);
    icl_free(&gone->losses);
    icl_free(&gone->targets);
    icl_free(objective);
}

size_t icl_objective_size(const icl_objective *objective) {
    return icl_model_size(objective->model);
}

size_t icl_objective_sequences(const icl_objective *objective) {
    return objective->count * objective->length;
}

icl_status icl_objective_draw(icl_objective *objective, uint32_t seed, uint64_t number, icl_error *error) {
    icl_status status = ICL_OK;

    for (size_t i = 0; i < objective->count; i++) {
        ICL_TRY(icl_task_sample(objective->task, objective->backend, ICL_FOR_EVALUATION, seed,
                                number * objective->count + i, &objective->batches[i], error));
        ICL_TRY(icl_tensor_read_double(objective->batches[i].targets,
                                       objective->targets + i * objective->length, error));
    }
done:
    return status;
}

/* ---- Gradients ---- */

static icl_tensor view_of(icl_tensor flat, const icl_parameter_info *info) {
    return icl_tensor_reshape(icl_tensor_slice(flat, 0, info->offset, info->count), info->rank, info->shape);
}

/* By the model's own ops. */
static icl_status differentiate_fused(icl_objective *objective, const icl_batch *batch, icl_error *error) {
    icl_tensor targets = batch->targets;
    targets.rank = 1; /* [B, 1, 1] -> [B] */
    const icl_model_tensors with = {
        .tokens = batch->tokens,
        .parameters = objective->parameters,
        .predictions = objective->predictions,
        .targets = targets,
        .gradient = objective->gradient,
    };
    return icl_model_gradient_fused(objective->model, objective->backend, icl_model_layers(objective->model),
                                    &with, error);
}

/* On the tape, for models that have none. */
static icl_status differentiate_on_tape(icl_objective *objective, const icl_batch *batch, icl_error *error) {
    icl_tape *tape = objective->tape;
    icl_status status;

    icl_tape_reset(tape);
    for (size_t i = 0; i < icl_model_parameter_count(objective->model); i++) {
        const icl_parameter_info *info = icl_model_parameter(objective->model, i);
        objective->variables[i] = icl_tape_parameter(tape, view_of(objective->parameters, info),
                                                     view_of(objective->gradient, info));
    }
    const icl_variable prediction = icl_model_predict(objective->model, tape, objective->variables,
                                                      icl_tape_constant(tape, batch->tokens));
    const icl_variable miss =
        icl_tape_binary(tape, ICL_SUBTRACT, prediction, icl_tape_constant(tape, batch->targets));
    ICL_TRY(icl_tape_backward(
        tape, icl_tape_reduce(tape, ICL_MEAN, 7, icl_tape_unary(tape, ICL_SQUARE, miss)), error));
    icl_tensor predictions = icl_tape_value(tape, prediction);
    predictions.rank = 1;
    ICL_TRY(icl_copy(objective->backend, objective->predictions, predictions, error));
done:
    return status;
}

/* Predictions and gradient of one batch at the parameters on the device. */
static icl_status differentiate(icl_objective *objective, size_t batch, icl_error *error) {
    return icl_model_is_fused(objective->model)
               ? differentiate_fused(objective, &objective->batches[batch], error)
               : differentiate_on_tape(objective, &objective->batches[batch], error);
}

/* Squared errors of the batch that was differentiated last. */
static icl_status read_losses(icl_objective *objective, size_t batch, double *losses, icl_error *error) {
    const icl_status status = icl_tensor_read_double(objective->predictions, losses, error);

    for (size_t s = 0; s < objective->length && status == ICL_OK; s++) {
        const double miss = losses[s] - objective->targets[batch * objective->length + s];
        losses[s] = miss * miss;
    }
    return status;
}

icl_status icl_objective_gradient(icl_objective *objective, const double *at, double *loss, double *gradient,
                                  icl_error *error) {
    const size_t size = icl_objective_size(objective), length = objective->length;
    const double share = 1 / (double)objective->count;
    double sum = 0;
    icl_status status = ICL_OK;

    ICL_TRY(icl_tensor_write_double(objective->parameters, at, error));
    for (size_t k = 0; gradient && k < size; k++)
        gradient[k] = 0;
    for (size_t i = 0; i < objective->count; i++) {
        ICL_TRY(differentiate(objective, i, error));
        ICL_TRY(icl_tensor_read_double(objective->gradient, objective->part, error));
        for (size_t k = 0; gradient && k < size; k++)
            gradient[k] += share * objective->part[k];
        if (!loss)
            continue;
        ICL_TRY(read_losses(objective, i, objective->losses, error));
        for (size_t s = 0; s < length; s++)
            sum += objective->losses[s];
    }
    if (loss)
        *loss = sum * share / (double)length;
done:
    return status;
}

icl_status icl_objective_losses(icl_objective *objective, const double *at, double *losses,
                                icl_error *error) {
    icl_status status;

    ICL_TRY(icl_tensor_write_double(objective->parameters, at, error));
    for (size_t i = 0; i < objective->count; i++) {
        ICL_TRY(differentiate(objective, i, error));
        ICL_TRY(read_losses(objective, i, losses + i * objective->length, error));
    }
done:
    return status;
}
