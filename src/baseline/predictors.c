/* The table of reference predictors, and how they are fitted and run. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "baseline/estimator.h"
#include "core/allocate.h"
#include "core/threads.h"
#include "iclab/nearest.h"
#include "iclab/number.h"
#include "task/task.h"

enum { ESTIMATORS = 11, NAME_CAPACITY = 32, CONSTANTS_CAPACITY = 512 };

static const icl_estimator *const estimators[ESTIMATORS] = {
    &icl_oracle,
    &icl_bayes,
    &icl_least_squares,
    &icl_constant_ridge,
    &icl_adaptive_ridge,
    &icl_tuned_ridge,
    &icl_gradient_descent,
    &icl_gradient_descent_plus,
    &icl_fitted_ridge,
    &icl_preconditioned_descent,
    &icl_preconditioned_descent_plus,
};

typedef struct predictor {
    const icl_estimator *estimator;
    size_t steps;
    void *state;
    char name[NAME_CAPACITY];
    char constants[CONSTANTS_CAPACITY];
} predictor;

struct icl_predictors {
    icl_task_shape shape;
    icl_task_prior prior; /* a copy, with its root, because the task may be destroyed first */
    double *weight_root;
    size_t threads;   /* that fit and run them */
    size_t count;     /* of predictors */
    predictor *items; /* [S][count]: at each scored position, predictors for the pairs before it */
};

/* Returns the prior of a query at the scored position s, with as many pairs as there are positions before it. */
static icl_task_prior prior_at(const icl_predictors *predictors, size_t s) {
    icl_task_prior prior = predictors->prior;
    prior.context = predictors->shape.first_scored + s;
    return prior;
}

/* ---- Names ---- */

static const icl_estimator *find_estimator(const char *name, size_t length) {
    for (size_t i = 0; i < ESTIMATORS; i++)
        if (strlen(estimators[i]->name) == length && memcmp(estimators[i]->name, name, length) == 0)
            return estimators[i];
    return NULL;
}

static icl_status reject_name(const char *name, icl_error *error) {
    char stem[NAME_CAPACITY], known[256] = "";
    const char *names[ESTIMATORS];

    snprintf(stem, sizeof stem, "%.*s", (int)strcspn(name, ":"), name);
    for (size_t i = 0; i < ESTIMATORS; i++) {
        names[i] = estimators[i]->name;
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s%s", i ? ", " : "", names[i],
                 estimators[i]->has_steps ? ":K" : "");
    }
    return icl_fail(error, ICL_ERROR_INPUT, "predictor \"%s\" is not known (nearest: \"%s\"); expected one of %s", name,
                    icl_nearest(stem, names, ESTIMATORS), known);
}

/* Reads "name" or "name:K" from item->name. */
static icl_status read_name(predictor *item, icl_error *error) {
    const char *colon = strchr(item->name, ':');
    const size_t length = colon ? (size_t)(colon - item->name) : strlen(item->name);
    uint64_t steps;

    item->estimator = find_estimator(item->name, length);
    if (!item->estimator)
        return reject_name(item->name, error);
    if (colon && !item->estimator->has_steps)
        return icl_fail(error, ICL_ERROR_INPUT, "predictor \"%s\": %s takes no number of steps", item->name,
                        item->estimator->name);
    if (!item->estimator->has_steps)
        return ICL_OK;
    if (colon && icl_parse_count(colon + 1, strlen(colon + 1), &steps) && steps <= ICL_MAX_DESCENT_STEPS)
        item->steps = (size_t)steps;
    if (item->steps < 1)
        return icl_fail(error, ICL_ERROR_INPUT, "predictor \"%s\": expected %s:K with 1 to %d steps", item->name,
                        item->estimator->name, ICL_MAX_DESCENT_STEPS);
    return ICL_OK;
}

/* Copies the next name of a comma-separated list without the blanks around it; returns what follows the
 * comma, NULL at the end. */
static const char *next_name(const char *list, char *name) {
    const size_t length = strcspn(list, ",");
    size_t start = 0, end = length;

    while (start < end && isspace((unsigned char)list[start]))
        start++;
    while (end > start && isspace((unsigned char)list[end - 1]))
        end--;
    snprintf(name, NAME_CAPACITY, "%.*s", (int)(end - start), list + start);
    return list[length] == ',' ? list + length + 1 : NULL;
}

static icl_status read_names(icl_predictors *predictors, const char *names, icl_error *error) {
    size_t capacity = 1;

    for (const char *at = names; *at; at++)
        capacity += *at == ',';
    ICL_CHECK(icl_allocate(capacity, predictors->shape.scored * sizeof *predictors->items, "predictors",
                           &predictors->items, error));
    for (const char *rest = names; rest; predictors->count++) {
        predictor *item = &predictors->items[predictors->count];
        rest = next_name(rest, item->name);
        ICL_CHECK(read_name(item, error));
        for (size_t i = 0; i < predictors->count; i++)
            if (strcmp(predictors->items[i].name, item->name) == 0)
                ICL_CHECK(icl_fail(error, ICL_ERROR_INPUT, "predictor \"%s\" is listed twice", item->name));
    }
    for (size_t s = 1; s < predictors->shape.scored; s++)
        memcpy(predictors->items + s * predictors->count, predictors->items,
               predictors->count * sizeof *predictors->items);
    return ICL_OK;
}

/* ---- Private memory of each thread that decomposes sequences ---- */

typedef struct thread_workspace {
    icl_spectrum spectra[ICL_BASIS_COUNT]; /* the input basis only if it is wanted and differs */
    double *filter;                        /* [d] */
    float *tokens;                         /* [n + 1][d + 1], if labels are not in the rows of their inputs */
} thread_workspace;

typedef struct workspaces {
    const icl_task_prior *prior;
    size_t threads;
    bool both_bases;
    thread_workspace *workspaces; /* [threads] */
} workspaces;

/* Creates one workspace for each thread. The prior is borrowed. destroy_workspaces cleans up, also after a failure. */
static icl_status create_workspaces(const icl_task_prior *prior, bool both_bases, size_t threads, workspaces *spaces,
                                    icl_error *error) {
    memset(spaces, 0, sizeof *spaces);
    spaces->prior = prior;
    spaces->both_bases = both_bases && prior->weight_root;
    ICL_CHECK(icl_allocate(threads, sizeof *spaces->workspaces, "workspaces", &spaces->workspaces, error));
    spaces->threads = threads;
    for (size_t i = 0; i < spaces->threads; i++) {
        thread_workspace *workspace = &spaces->workspaces[i];
        ICL_CHECK(icl_spectrum_create(prior->dimension, prior->context, prior->weight_root,
                                      &workspace->spectra[ICL_PRIOR_BASIS], error));
        if (spaces->both_bases)
            ICL_CHECK(icl_spectrum_create(prior->dimension, prior->context, NULL, &workspace->spectra[ICL_INPUT_BASIS],
                                          error));
        ICL_CHECK(icl_allocate(prior->dimension, sizeof(double), "filter", &workspace->filter, error));
        if (prior->labels == ICL_LABELS_NEXT)
            ICL_CHECK(icl_allocate(prior->context + 1, (prior->dimension + 1) * sizeof(float), "pairs",
                                   &workspace->tokens, error));
    }
    return ICL_OK;
}

static void destroy_workspaces(workspaces *spaces) {
    for (size_t i = 0; i < spaces->threads; i++) {
        for (int basis = 0; basis < ICL_BASIS_COUNT; basis++)
            icl_spectrum_destroy(&spaces->workspaces[i].spectra[basis]);
        icl_free(&spaces->workspaces[i].filter);
        icl_free(&spaces->workspaces[i].tokens);
    }
    icl_free(&spaces->workspaces);
    spaces->threads = 0;
}

/* Makes rows (x_i, y_i) of rows (x_i, y_(i - 1)). The label of the last one, the query, is not read. */
static void pair_labels(const icl_task_prior *prior, const float *inputs, float *tokens) {
    const size_t d = prior->dimension, width = d + 1;

    memcpy(tokens, inputs, (prior->context + 1) * width * sizeof *tokens);
    for (size_t i = 0; i < prior->context; i++)
        tokens[i * width + d] = inputs[(i + 1) * width + d];
}

/* Decomposes the pairs before position n, the prior's context, of inputs [T][d + 1], with that position's input as the
 * query, in the bases of the workspaces. */
static void load_workspace(const workspaces *spaces, thread_workspace *workspace, const float *inputs) {
    const float *tokens = workspace->tokens ? workspace->tokens : inputs;

    if (workspace->tokens)
        pair_labels(spaces->prior, inputs, workspace->tokens);
    icl_spectrum_compute(&workspace->spectra[ICL_PRIOR_BASIS], tokens);
    if (spaces->both_bases)
        icl_spectrum_compute(&workspace->spectra[ICL_INPUT_BASIS], tokens);
}

/* ---- Sequences that constants are fitted on ---- */

/* The target that the fitted constants minimise the distance to, and how it is sampled. */
typedef struct fitting {
    const icl_imitation *imitated; /* NULL: the oracle, on sequences that are drawn */
    icl_backend *backend;          /* draws the sequences; NULL: a backend of the host */
    size_t threads;
    size_t sequences;
    uint32_t seed;
} fitting;

/* The most sequences of one batch. It does not depend on the total, so that a larger set begins with the smaller
 * one. */
#define MOST_IN_A_BATCH 1024

typedef struct drawing {
    const icl_task_prior *prior;
    icl_fit_set *sets;
    workspaces all;
    float *tokens, *noise; /* of the current batch */
    size_t stride;         /* of a sequence in tokens */
    size_t first;          /* index in the sets of the batch's first sequence */
    double *covariance;    /* [d][d], of the query in the prior's basis; NULL: identity */
    const icl_imitation *imitated;
} drawing;

/* Computes M = C^T R R^T C, the covariance of C^T x; NULL if the prior has no covariance, where M is the identity. */
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
    set->noise[sequence] = icl_spectrum_residual_variance(spectrum, draw->prior->mean_square_noise);
    memcpy(set->eigenvalues + sequence * set->dimension, spectrum->eigenvalues, set->dimension * sizeof(double));
}

/* Stores a sequence whose filter is to give `prediction` for the query as it was drawn. */
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
    thread_workspace *workspace = &draw->all.workspaces[thread];
    icl_fit_set *prior_set = &draw->sets[ICL_PRIOR_BASIS], *input_set = &draw->sets[ICL_INPUT_BASIS];
    const icl_spectrum *prior = &workspace->spectra[ICL_PRIOR_BASIS], *input = &workspace->spectra[ICL_INPUT_BASIS];
    const size_t sequence = draw->first + index, at = sequence * d;
    const double sigma = (double)draw->noise[index];

    load_workspace(&draw->all, workspace, draw->tokens + index * draw->stride);
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
    const double prediction = draw->imitated->predictions[sequence];
    thread_workspace *workspace = &draw->all.workspaces[thread];

    load_workspace(&draw->all, workspace, draw->imitated->tokens + sequence * tokens);
    for (int basis = 0; basis < ICL_BASIS_COUNT; basis++)
        if (draw->sets[basis].count > 0 && workspace->spectra[basis].finite && isfinite(prediction))
            store_drawn(draw, &draw->sets[basis], &workspace->spectra[basis], sequence, prediction);
}

static icl_status allocate_set(const icl_task_prior *prior, const fitting *to, icl_fit_set *set, icl_error *error) {
    const size_t d = prior->dimension, count = to->sequences;

    *set = (icl_fit_set){.count = count, .dimension = d, .threads = to->threads};
    ICL_CHECK(icl_allocate(count, d * sizeof(double), "fitting eigenvalues", &set->eigenvalues, error));
    ICL_CHECK(icl_allocate(count, d * sizeof(double), "fitting factors", &set->factors, error));
    ICL_CHECK(icl_allocate(count, d * sizeof(double), "fitting targets", &set->targets, error));
    return icl_allocate(count, sizeof(double), "fitting noise estimates", &set->noise, error);
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

/* Draws sequences of the task for ICL_FOR_FITTING, and decomposes the pairs before position `context` of each. sets[b]
 * is for estimators of basis b; with input_basis = false the set of the input basis stays empty. Release with
 * release_sets, even after a failure. */
static icl_status draw_sets(const icl_task *task, const fitting *to, size_t context, bool input_basis,
                            icl_fit_set sets[ICL_BASIS_COUNT], icl_error *error) {
    const icl_task_shape *shape = icl_task_get_shape(task);
    icl_task_prior prior = *icl_task_get_prior(task);
    drawing draw = {.prior = &prior, .sets = sets, .stride = shape->positions * shape->inputs};
    icl_backend *own = NULL;
    icl_status status;

    prior.context = context;
    ICL_TRY(create_workspaces(&prior, input_basis, to->threads, &draw.all, error));
    ICL_TRY(allocate_set(&prior, to, &sets[ICL_PRIOR_BASIS], error));
    if (draw.all.both_bases) {
        ICL_TRY(allocate_set(&prior, to, &sets[ICL_INPUT_BASIS], error));
        sets[ICL_INPUT_BASIS].summed = true;
    }
    ICL_TRY(query_covariance(&prior, &draw.covariance, error));
    if (!to->backend)
        ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &own, error));
    ICL_TRY(draw_batches(task, own ? own : to->backend, to->seed, &draw, error));
done:
    icl_free(&draw.tokens);
    icl_free(&draw.noise);
    icl_free(&draw.covariance);
    destroy_workspaces(&draw.all);
    icl_backend_close(&own);
    return status;
}

/* As above, but for given sequences and predictions, which the filters are to approximate. A sequence or prediction
 * that is not finite is left out. */
static icl_status imitate_sets(const icl_task_prior *prior, const fitting *to, bool input_basis,
                               icl_fit_set sets[ICL_BASIS_COUNT], icl_error *error) {
    drawing draw = {.prior = prior, .sets = sets, .imitated = to->imitated};
    icl_status status;

    ICL_TRY(create_workspaces(prior, input_basis, to->threads, &draw.all, error));
    for (int basis = 0; basis < (draw.all.both_bases ? ICL_BASIS_COUNT : 1); basis++) {
        ICL_TRY(allocate_set(prior, to, &sets[basis], error));
        sets[basis].summed = true;
    }
    /* If both bases are the same, descent is not preconditioned. */
    sets[ICL_PRIOR_BASIS].start = prior->weight_root ? to->imitated->preconditioned : to->imitated->plain;
    sets[ICL_INPUT_BASIS].start = to->imitated->plain;
    icl_parallel_for(to->sequences, draw.all.threads, decompose_imitated, &draw);
done:
    destroy_workspaces(&draw.all);
    return status;
}

static void release_sets(icl_fit_set sets[ICL_BASIS_COUNT]) {
    for (int basis = 0; basis < ICL_BASIS_COUNT; basis++) {
        icl_free(&sets[basis].eigenvalues);
        icl_free(&sets[basis].factors);
        icl_free(&sets[basis].targets);
        icl_free(&sets[basis].noise);
    }
}

/* ---- Making ---- */

static icl_status copy_prior(const icl_task_prior *prior, icl_predictors *predictors, icl_error *error) {
    const size_t elements = prior->dimension * prior->dimension;

    predictors->prior = *prior;
    predictors->prior.covariance_root = NULL; /* fitting alone uses it, and takes it from the task */
    if (prior->weight_root) {
        ICL_CHECK(icl_allocate(elements, sizeof(double), "weight root", &predictors->weight_root, error));
        memcpy(predictors->weight_root, prior->weight_root, elements * sizeof(double));
        predictors->prior.weight_root = predictors->weight_root;
    }
    return ICL_OK;
}

static bool wants_basis(const icl_predictors *predictors, icl_basis basis) {
    for (size_t i = 0; i < predictors->count; i++)
        if (predictors->items[i].estimator->basis == basis)
            return true;
    return false;
}

static bool wants_fit(const icl_predictors *predictors) {
    for (size_t i = 0; i < predictors->count; i++)
        if (predictors->items[i].estimator->fit)
            return true;
    return false;
}

/* Fits the predictors of the scored position s. */
static icl_status fit_at(icl_predictors *predictors, size_t s, const icl_task *task, const fitting *to,
                         icl_error *error) {
    const icl_task_prior prior = prior_at(predictors, s);
    const bool input_basis = wants_basis(predictors, ICL_INPUT_BASIS);
    icl_fit_set sets[ICL_BASIS_COUNT] = {{0}};
    icl_status status = ICL_OK;

    if (prior.context == 0)
        return ICL_OK;
    ICL_TRY(to->imitated ? imitate_sets(&prior, to, input_basis, sets, error)
                         : draw_sets(task, to, prior.context, input_basis, sets, error));
    for (size_t i = 0; i < predictors->count; i++) {
        const predictor *item = &predictors->items[s * predictors->count + i];
        if (item->estimator->fit)
            ICL_TRY(item->estimator->fit(
                item->state, &sets[predictors->weight_root ? item->estimator->basis : ICL_PRIOR_BASIS], error));
    }
done:
    release_sets(sets);
    return status;
}

static icl_status fit_all(icl_predictors *predictors, const icl_task *task, const fitting *to, icl_error *error) {
    icl_status status = ICL_OK;

    if (!wants_fit(predictors))
        return ICL_OK;
    if (to->sequences < 1)
        return icl_fail(error, ICL_ERROR_INPUT, "fitting the predictors' constants takes at least 1 sequence");
    for (size_t s = 0; status == ICL_OK && s < predictors->shape.scored; s++)
        status = fit_at(predictors, s, task, to, error);
    return status;
}

static icl_status create_items(icl_predictors *predictors, icl_error *error) {
    for (size_t i = 0; i < predictors->shape.scored * predictors->count; i++) {
        const icl_task_prior prior = prior_at(predictors, i / predictors->count);
        predictor *item = &predictors->items[i];
        ICL_CHECK(icl_allocate(1, item->estimator->state_size, item->name, &item->state, error));
        if (item->estimator->create)
            item->estimator->create(&prior, item->steps, item->state);
    }
    return ICL_OK;
}

static icl_status create(const icl_task *task, const char *names, const fitting *to, icl_predictors **predictors,
                         icl_error *error) {
    icl_predictors *created = NULL;
    icl_status status;

    *predictors = NULL;
    if (!icl_task_get_prior(task))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "predictors \"%s\": reference predictors are those of linear regression; "
                        "expected none for functions",
                        names);
    if (to->imitated && icl_task_get_shape(task)->scored != 1)
        return icl_fail(error, ICL_ERROR_INPUT, "predictors \"%s\": %zu scored positions, expected one to imitate",
                        names, icl_task_get_shape(task)->scored);
    ICL_TRY(icl_allocate(1, sizeof *created, "predictors", &created, error));
    created->shape = *icl_task_get_shape(task);
    created->threads = to->threads;
    ICL_TRY(copy_prior(icl_task_get_prior(task), created, error));
    ICL_TRY(read_names(created, names, error));
    ICL_TRY(create_items(created, error));
    ICL_TRY(fit_all(created, task, to, error));
    for (size_t i = 0; i < created->shape.scored * created->count; i++)
        if (created->items[i].estimator->describe)
            created->items[i].estimator->describe(created->items[i].state, created->items[i].constants,
                                                  CONSTANTS_CAPACITY);
    *predictors = created;
    created = NULL;
done:
    icl_predictors_destroy(&created);
    return status;
}

/* Returns the threads of a host's backend; with another device, all threads of the host. */
static size_t threads_of(const icl_backend *backend) {
    const bool on_host = backend && icl_backend_capabilities(backend)->kind == ICL_DEVICE_HOST;
    return on_host ? icl_backend_workers(backend) : icl_parallel_threads();
}

icl_status icl_predictors_create(const icl_task *task, icl_backend *backend, const char *names, size_t fit_sequences,
                                 uint32_t seed, icl_predictors **predictors, icl_error *error) {
    const fitting oracle = {
        .backend = backend, .threads = threads_of(backend), .sequences = fit_sequences, .seed = seed};

    return create(task, names, &oracle, predictors, error);
}

icl_status icl_predictors_imitate(const icl_task *task, const icl_backend *backend, const char *names,
                                  const icl_imitation *imitated, icl_predictors **predictors, icl_error *error) {
    const fitting given = {.imitated = imitated, .threads = threads_of(backend), .sequences = imitated->count};

    return create(task, names, &given, predictors, error);
}

/* Returns the bytes of the workspaces' arrays whose size depends on the length of a sequence. */
static double workspace_bytes(const icl_task_prior *prior, size_t threads) {
    const size_t d = prior->dimension, bases = prior->weight_root ? ICL_BASIS_COUNT : 1;
    const size_t row = bases * d * sizeof(double) + (prior->labels == ICL_LABELS_NEXT ? (d + 1) * sizeof(float) : 0);

    return (double)(threads * row) * (double)(prior->context + 1);
}

double icl_predictors_run_bytes(const icl_task *task, const icl_backend *backend) {
    return workspace_bytes(icl_task_get_prior(task), threads_of(backend));
}

double icl_predictors_fit_bytes(const icl_task *task, const icl_backend *backend, size_t fit_sequences) {
    const icl_task_prior *prior = icl_task_get_prior(task);
    const icl_task_shape *shape = icl_task_get_shape(task);
    const size_t piece = icl_task_piece(task, MOST_IN_A_BATCH), sets = prior->weight_root ? ICL_BASIS_COUNT : 1;
    const double numbers = (double)(sets * fit_sequences) * (double)(3 * prior->dimension + 1);

    return numbers * sizeof(double) + (double)piece * (double)(shape->positions * shape->inputs) * sizeof(float) +
           icl_predictors_run_bytes(task, backend);
}

void icl_predictors_destroy(icl_predictors **predictors) {
    if (*predictors) {
        for (size_t i = 0; (*predictors)->items && i < (*predictors)->shape.scored * (*predictors)->count; i++)
            icl_free(&(*predictors)->items[i].state);
        icl_free(&(*predictors)->items);
        icl_free(&(*predictors)->weight_root);
    }
    icl_free(predictors);
}

size_t icl_predictors_count(const icl_predictors *predictors) {
    return predictors->count;
}

const char *icl_predictors_name(const icl_predictors *predictors, size_t index) {
    return predictors->items[index].name;
}

const char *icl_predictors_constants(const icl_predictors *predictors, size_t index) {
    return predictors->items[(predictors->shape.scored - 1) * predictors->count + index].constants;
}

/* ---- Running ---- */

typedef struct prediction_run {
    const icl_predictors *predictors;
    size_t position; /* s, of those scored */
    workspaces all;
    const float *inputs, *sigma;
    double *predictions; /* [count][S][number of predictors], or NULL */
    double *weights;     /* [count][S][number of predictors][d], or NULL */
} prediction_run;

void icl_predictors_filter(const icl_predictors *predictors, size_t index, const icl_spectrum *spectrum, double sigma,
                           double *filter) {
    const predictor *item = &predictors->items[index];
    item->estimator->filter(item->state, spectrum, sigma, filter);
}

static void predict(void *context, size_t index, size_t thread) {
    const prediction_run *run = context;
    const icl_predictors *predictors = run->predictors;
    const size_t d = predictors->prior.dimension, first = run->position * predictors->count;
    thread_workspace *workspace = &run->all.workspaces[thread];

    load_workspace(&run->all, workspace, run->inputs + index * predictors->shape.positions * (d + 1));
    for (size_t i = first; i < first + predictors->count; i++) {
        const icl_spectrum *spectrum =
            &workspace->spectra[predictors->weight_root ? predictors->items[i].estimator->basis : ICL_PRIOR_BASIS];
        const size_t place = index * predictors->shape.scored * predictors->count + i;
        if (spectrum->finite)
            icl_predictors_filter(predictors, i, spectrum, (double)run->sigma[index], workspace->filter);
        if (run->predictions)
            run->predictions[place] = icl_spectrum_predict(spectrum, workspace->filter);
        if (run->weights)
            icl_spectrum_weights(spectrum, workspace->filter, run->weights + place * d);
    }
}

/* Predicts 0, with weights 0, before the first pair. */
static void predict_nothing(void *context, size_t index, size_t thread) {
    const prediction_run *run = context;
    const size_t count = run->predictors->count, d = run->predictors->prior.dimension;
    const size_t place = index * run->predictors->shape.scored * count;

    (void)thread;
    if (run->predictions)
        memset(run->predictions + place, 0, count * sizeof(double));
    if (run->weights)
        memset(run->weights + place * d, 0, count * d * sizeof(double));
}

static icl_status run_all(prediction_run *run, size_t count, icl_error *error) {
    const icl_predictors *predictors = run->predictors;
    icl_status status = ICL_OK;

    for (run->position = 0; run->position < predictors->shape.scored; run->position++) {
        const icl_task_prior prior = prior_at(predictors, run->position);
        ICL_TRY(
            create_workspaces(&prior, wants_basis(predictors, ICL_INPUT_BASIS), predictors->threads, &run->all, error));
        icl_parallel_for(count, run->all.threads, prior.context > 0 ? predict : predict_nothing, run);
        destroy_workspaces(&run->all);
    }
done:
    destroy_workspaces(&run->all);
    return status;
}

icl_status icl_predictors_run(const icl_predictors *predictors, size_t count, const float *inputs, const float *sigma,
                              double *predictions, icl_error *error) {
    return run_all(
        &(prediction_run){.predictors = predictors, .inputs = inputs, .sigma = sigma, .predictions = predictions},
        count, error);
}

icl_status icl_predictors_weights(const icl_predictors *predictors, size_t count, const float *tokens,
                                  const float *sigma, double *weights, icl_error *error) {
    return run_all(&(prediction_run){.predictors = predictors, .inputs = tokens, .sigma = sigma, .weights = weights},
                   count, error);
}
