#include "baseline/fit_set.h"

#include <math.h>
#include <string.h>

#include "baseline/workspace.h"
#include "core/allocate.h"
#include "numeric/parallel.h"

/* Sequences of one batch at most: the same whatever the total, so that a larger set begins with the smaller one. */
#define MOST_IN_A_BATCH 1024

typedef struct drawing {
    const icl_task_prior *prior;
    icl_fit_set *sets;
    icl_workspaces all;
    float *tokens, *noise; /* of the current batch */
    size_t stride;         /* of a sequence in tokens */
    size_t first;          /* index in the sets of its first sequence */
    double *covariance;    /* [d][d], of the query in the prior's basis; NULL: identity */
    const icl_imitation *of;
} drawing;

/* M = C^T R R^T C, the covariance of C^T x; NULL when it is the identity, without a covariance. */
static icl_status query_covariance(const icl_task_prior *prior, double **covariance, icl_error *error) {
    const size_t d = prior->dimension;
    double *root = NULL; /* C^T R */
    icl_status status = ICL_OK;

    if (!prior->covariance_root)
        return ICL_OK;
    ICL_TRY(icl_allocate(d * d, sizeof(double), "query covariance", covariance, error));
    ICL_TRY(icl_allocate(d * d, sizeof(double), "query root", &root, error));
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++)
            for (size_t k = 0; k < d; k++)
                root[i * d + j] +=
                    (prior->weight_root ? prior->weight_root[k * d + i] : k == i) * prior->covariance_root[k * d + j];
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++)
            for (size_t k = 0; k < d; k++)
                (*covariance)[i * d + j] += root[i * d + k] * root[j * d + k];
done:
    icl_free(&root);
    return status;
}

/* v^T M v */
static double query_variance(const double *covariance, const double *direction, size_t d) {
    double sum = 0;

    if (!covariance)
        return 1;
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++)
            sum += direction[i] * covariance[i * d + j] * direction[j];
    return sum;
}

static void store(const drawing *draw, icl_fit_set *set, const icl_spectrum *spectrum, size_t sequence) {
    set->noise[sequence] = icl_residual_variance(spectrum, draw->prior->mean_square_noise);
    memcpy(set->eigenvalues + sequence * set->dimension, spectrum->eigenvalues, set->dimension * sizeof(double));
}

/* The filter is to give the prediction for the query as it was drawn. */
static void store_drawn(const drawing *draw, icl_fit_set *set, const icl_spectrum *spectrum, size_t sequence,
                        double prediction) {
    const size_t at = sequence * set->dimension;

    store(draw, set, spectrum, sequence);
    for (size_t k = 0; k < set->dimension; k++)
        set->factors[at + k] = spectrum->products[k] * spectrum->query[k];
    set->targets[at] = prediction;
}

static void decompose(void *context, size_t index, size_t thread) {
    const drawing *draw = context;
    const size_t d = draw->prior->dimension;
    icl_workspace *workspace = &draw->all.workspaces[thread];
    icl_fit_set *prior_set = &draw->sets[ICL_PRIOR_BASIS], *input_set = &draw->sets[ICL_INPUT_BASIS];
    const icl_spectrum *prior = &workspace->spectra[ICL_PRIOR_BASIS], *input = &workspace->spectra[ICL_INPUT_BASIS];
    const size_t sequence = draw->first + index, at = sequence * d;
    const double sigma = (double)draw->noise[index];

    icl_workspace_load(&draw->all, workspace, draw->tokens + index * draw->stride);
    icl_ridge_filter(prior->eigenvalues, prior->dimension, sigma * sigma, workspace->filter);
    store(draw, prior_set, prior, sequence);
    for (size_t k = 0; k < d; k++) {
        const double lambda = prior->eigenvalues[k];
        const double variance =
            (lambda + sigma * sigma) * lambda * query_variance(draw->covariance, prior->eigenvectors + k * d, d);
        prior_set->factors[at + k] = sqrt(variance);
        prior_set->targets[at + k] = prior_set->factors[at + k] * workspace->filter[k];
    }
    if (!draw->all.both_bases)
        return;
    store_drawn(draw, input_set, input, sequence, icl_spectrum_predict(prior, workspace->filter));
}

static void decompose_imitated(void *context, size_t sequence, size_t thread) {
    const drawing *draw = context;
    const size_t tokens = (draw->prior->context + 1) * (draw->prior->dimension + 1);
    const double prediction = draw->of->predictions[sequence];
    icl_workspace *workspace = &draw->all.workspaces[thread];

    icl_workspace_load(&draw->all, workspace, draw->of->tokens + sequence * tokens);
    for (int basis = 0; basis < ICL_BASIS_COUNT; basis++)
        if (draw->sets[basis].count > 0 && workspace->spectra[basis].finite && isfinite(prediction))
            store_drawn(draw, &draw->sets[basis], &workspace->spectra[basis], sequence, prediction);
}

static icl_status allocate_set(const icl_task_prior *prior, size_t count, icl_fit_set *set, icl_error *error) {
    const size_t d = prior->dimension;

    set->count = count;
    set->dimension = d;
    ICL_CHECK(icl_allocate(count, d * sizeof(double), "fitting eigenvalues", &set->eigenvalues, error));
    ICL_CHECK(icl_allocate(count, d * sizeof(double), "fitting factors", &set->factors, error));
    ICL_CHECK(icl_allocate(count, d * sizeof(double), "fitting targets", &set->targets, error));
    return icl_allocate(count, sizeof(double), "fitting noise estimates", &set->noise, error);
}

icl_status icl_batch_noise(const icl_batch *batch, const icl_task_prior *prior, float *noise, icl_error *error) {
    const icl_tensor side = icl_batch_side(batch, ICL_SIDE_NOISE);

    if (side.buffer)
        return icl_tensor_read(side, noise, error);
    if (prior && prior->noise != ICL_NOISE_FIXED)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "predictors: the batch has no side tensor \"" ICL_SIDE_NOISE
                        "\", expected one: the prior draws a sigma for each sequence");
    for (size_t i = 0; i < batch->size; i++)
        noise[i] = prior ? (float)prior->noise_levels[0] : 0;
    return ICL_OK;
}

static icl_status draw_batches(const icl_task *task, icl_backend *backend, uint32_t seed, drawing *draw,
                               icl_error *error) {
    const size_t count = draw->sets[ICL_PRIOR_BASIS].count, most = icl_task_piece(task, MOST_IN_A_BATCH);
    icl_batch batch = {0};
    icl_status status;

    ICL_TRY(icl_batch_create(task, backend, ICL_FOR_FITTING, most, &batch, error));
    ICL_TRY(icl_allocate(icl_tensor_count(&batch.inputs), sizeof(float), "tokens", &draw->tokens, error));
    ICL_TRY(icl_allocate(most, sizeof(float), "noise levels", &draw->noise, error));
    for (draw->first = 0; draw->first < count; draw->first += most) {
        const size_t size = count - draw->first < most ? count - draw->first : most;
        ICL_TRY(icl_task_sample(task, backend, ICL_FOR_FITTING, seed, draw->first / most, &batch, error));
        ICL_TRY(icl_tensor_read(batch.inputs, draw->tokens, error));
        ICL_TRY(icl_batch_noise(&batch, draw->prior, draw->noise, error));
        icl_parallel_for(size, draw->all.threads, decompose, draw);
    }
done:
    icl_batch_release(&batch);
    return status;
}

double icl_fit_sets_bytes(const icl_task *task, size_t count) {
    const icl_task_prior *prior = icl_task_get_prior(task);
    const icl_task_shape *shape = icl_task_get_shape(task);
    const size_t piece = icl_task_piece(task, MOST_IN_A_BATCH), sets = prior->weight_root ? ICL_BASIS_COUNT : 1;
    const double numbers = (double)(sets * count) * (double)(3 * prior->dimension + 1);

    return numbers * sizeof(double) + (double)piece * (double)(2 * shape->positions * shape->inputs) * sizeof(float) +
           icl_workspaces_bytes(prior, true);
}

icl_status icl_fit_sets_draw(const icl_task *task, size_t context, size_t count, uint32_t seed, bool input_basis,
                             icl_fit_set sets[ICL_BASIS_COUNT], icl_error *error) {
    const icl_task_shape *shape = icl_task_get_shape(task);
    icl_task_prior prior = *icl_task_get_prior(task);
    drawing draw = {.prior = &prior, .sets = sets, .stride = shape->positions * shape->inputs};
    icl_backend *backend = NULL;
    icl_status status;

    prior.context = context;
    memset(sets, 0, ICL_BASIS_COUNT * sizeof *sets);
    ICL_TRY(icl_workspaces_create(&prior, input_basis, &draw.all, error));
    ICL_TRY(allocate_set(&prior, count, &sets[ICL_PRIOR_BASIS], error));
    if (draw.all.both_bases) {
        ICL_TRY(allocate_set(&prior, count, &sets[ICL_INPUT_BASIS], error));
        sets[ICL_INPUT_BASIS].summed = true;
    }
    ICL_TRY(query_covariance(&prior, &draw.covariance, error));
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &backend, error));
    ICL_TRY(draw_batches(task, backend, seed, &draw, error));
done:
    icl_free(&draw.tokens);
    icl_free(&draw.noise);
    icl_free(&draw.covariance);
    icl_workspaces_destroy(&draw.all);
    icl_backend_close(&backend);
    return status;
}

icl_status icl_fit_sets_imitate(const icl_task_prior *prior, const icl_imitation *of, bool input_basis,
                                icl_fit_set sets[ICL_BASIS_COUNT], icl_error *error) {
    drawing draw = {.prior = prior, .sets = sets, .of = of};
    icl_status status;

    memset(sets, 0, ICL_BASIS_COUNT * sizeof *sets);
    ICL_TRY(icl_workspaces_create(prior, input_basis, &draw.all, error));
    for (int basis = 0; basis < (draw.all.both_bases ? ICL_BASIS_COUNT : 1); basis++) {
        ICL_TRY(allocate_set(prior, of->count, &sets[basis], error));
        sets[basis].summed = true;
    }
    /* Where both bases are one, descent is not preconditioned. */
    sets[ICL_PRIOR_BASIS].start = prior->weight_root ? of->preconditioned : of->plain;
    sets[ICL_INPUT_BASIS].start = of->plain;
    icl_parallel_for(of->count, draw.all.threads, decompose_imitated, &draw);
done:
    icl_workspaces_destroy(&draw.all);
    return status;
}

double icl_fit_set_mean_eigenvalue(const icl_fit_set *set) {
    double sum = 0;
    size_t count = 0;

    for (size_t k = 0; k < set->count * set->dimension; k++) {
        sum += set->eigenvalues[k];
        count += set->eigenvalues[k] > 0;
    }
    return count > 0 ? sum / (double)count : 1;
}

void icl_fit_sets_release(icl_fit_set sets[ICL_BASIS_COUNT]) {
    for (int basis = 0; basis < ICL_BASIS_COUNT; basis++) {
        icl_free(&sets[basis].eigenvalues);
        icl_free(&sets[basis].factors);
        icl_free(&sets[basis].targets);
        icl_free(&sets[basis].noise);
    }
}
