#include "train/objective.h"

#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "iclab/status.h"
#include "train/gradient.h"

#define MOST_IN_A_BATCH ((size_t)2048)

struct icl_objective {
    const icl_task *task;
    const icl_model *model;
    icl_task_purpose purpose;
    icl_backend *backend; /* of double precision */
    icl_tape *tape;
    size_t count, length; /* batches, and sequences in each */
    icl_batch *batches;
    icl_tensor parameters, gradient; /* [N] */
    icl_tensor losses;               /* [length] */
    double *part;                    /* [N]: a batch's gradient */
    double *last_losses;             /* [length]: of the last batch */
};

/* ---- Creation ---- */

static icl_status create_tensors(icl_objective *made, icl_error *error) {
    const size_t size = icl_model_size(made->model);

    ICL_CHECK(icl_tensor_create(made->backend, 1, &size, &made->parameters, error));
    ICL_CHECK(icl_tensor_create(made->backend, 1, &size, &made->gradient, error));
    ICL_CHECK(icl_tensor_create(made->backend, 1, &made->length, &made->losses, error));
    ICL_CHECK(icl_allocate(made->count, sizeof *made->batches, "batches", &made->batches, error));
    for (size_t i = 0; i < made->count; i++)
        ICL_CHECK(icl_batch_create(made->task, made->backend, made->purpose, made->length, &made->batches[i], error));
    ICL_CHECK(icl_allocate(size, sizeof(double), "gradient", &made->part, error));
    return icl_allocate(made->length, sizeof(double), "losses", &made->last_losses, error);
}

static void name_device(const icl_backend *beside, char spec[ICL_NAME_CAPACITY]) {
    if (beside && icl_backend_capabilities(beside)->kind == ICL_DEVICE_HOST)
        snprintf(spec, ICL_NAME_CAPACITY, "ref:threads=%zu", icl_backend_workers(beside));
    else
        snprintf(spec, ICL_NAME_CAPACITY, "ref");
}

icl_status icl_objective_create(const icl_objective_params *params, icl_objective **objective, icl_error *error) {
    const size_t sequences = params->sequences;
    char spec[ICL_NAME_CAPACITY];
    const icl_backend_params device = {.spec = spec};
    icl_objective *made = NULL;
    icl_status status = ICL_OK;

    if (sequences == 0)
        return icl_fail(error, ICL_ERROR_INPUT, "objective: 0 sequences, expected at least 1");
    name_device(params->beside, spec);
    ICL_TRY(icl_allocate(1, sizeof *made, "objective", &made, error));
    made->task = params->task;
    made->model = params->model;
    made->purpose = params->purpose;
    made->count = (sequences + MOST_IN_A_BATCH - 1) / MOST_IN_A_BATCH;
    made->length = (sequences + made->count - 1) / made->count;
    ICL_TRY(icl_backend_open(&device, &made->backend, error));
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
    icl_tensor_release(&gone->losses);
    icl_backend_close(&gone->backend);
    icl_free(&gone->batches);
    icl_free(&gone->part);
    icl_free(&gone->last_losses);
    icl_free(objective);
}

size_t icl_objective_size(const icl_objective *objective) {
    return icl_model_size(objective->model);
}

size_t icl_objective_sequences(const icl_objective *objective) {
    return objective->count * objective->length;
}

icl_status icl_objective_draw(icl_objective *objective, uint32_t seed, uint64_t number, icl_error *error) {
    for (size_t i = 0; i < objective->count; i++)
        ICL_CHECK(icl_task_sample(objective->task, objective->backend, objective->purpose, seed,
                                  number * objective->count + i, &objective->batches[i], error));
    return ICL_OK;
}

/* ---- Gradients ---- */

/* Losses and gradient of one batch at the parameters on the device. losses [length] may be NULL. */
static icl_status differentiate(icl_objective *objective, size_t batch, double *losses, icl_error *error) {
    const icl_differentiation what = {
        .model = objective->model,
        .tape = objective->tape,
        .depth = icl_model_layers(objective->model),
        .batch = &objective->batches[batch],
        .with = {.parameters = objective->parameters, .gradient = objective->gradient, .losses = objective->losses},
    };
    icl_tensor each;

    ICL_CHECK(icl_differentiate(&what, &each, error));
    if (losses)
        ICL_CHECK(icl_tensor_read_double(each, losses, error));
    return ICL_OK;
}

static double square(const double *vector, size_t size) {
    double sum = 0;
    for (size_t k = 0; k < size; k++)
        sum += vector[k] * vector[k];
    return sum;
}

/* squares: the sum over batches of |g|^2; may be NULL. */
static icl_status add_up(icl_objective *objective, const double *at, double *loss, double *gradient, double *squares,
                         icl_error *error) {
    const size_t size = icl_objective_size(objective), length = objective->length;
    const double share = 1 / (double)objective->count;
    double sum = 0;

    ICL_CHECK(icl_tensor_write_double(objective->parameters, at, error));
    for (size_t k = 0; gradient && k < size; k++)
        gradient[k] = 0;
    for (size_t i = 0; i < objective->count; i++) {
        ICL_CHECK(differentiate(objective, i, loss ? objective->last_losses : NULL, error));
        ICL_CHECK(icl_tensor_read_double(objective->gradient, objective->part, error));
        for (size_t k = 0; gradient && k < size; k++)
            gradient[k] += share * objective->part[k];
        if (squares)
            *squares += square(objective->part, size);
        for (size_t s = 0; loss && s < length; s++)
            sum += objective->last_losses[s];
    }
    if (loss)
        *loss = sum * share / (double)length;
    return ICL_OK;
}

icl_status icl_objective_gradient(icl_objective *objective, const double *at, double *loss, double *gradient,
                                  icl_error *error) {
    return add_up(objective, at, loss, gradient, NULL, error);
}

/* Of the mean of m independent g_b: (sum |g_b|^2 / m - |mean|^2) / (m - 1). */
icl_status icl_objective_sampled_gradient(icl_objective *objective, const double *at, double *loss, double *gradient,
                                          double *variance, icl_error *error) {
    const double count = (double)objective->count;
    double squares = 0;

    ICL_CHECK(add_up(objective, at, loss, gradient, &squares, error));
    *variance =
        count > 1 ? (squares / count - square(gradient, icl_objective_size(objective))) / (count - 1) : (double)NAN;
    return ICL_OK;
}

icl_status icl_objective_losses(icl_objective *objective, const double *at, double *losses, icl_error *error) {
    ICL_CHECK(icl_tensor_write_double(objective->parameters, at, error));
    for (size_t i = 0; i < objective->count; i++)
        ICL_CHECK(differentiate(objective, i, losses + i * objective->length, error));
    return ICL_OK;
}
