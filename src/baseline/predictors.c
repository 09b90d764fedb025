/* The table of reference predictors, and running them. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "baseline/fit_set.h"
#include "baseline/workspace.h"
#include "core/allocate.h"
#include "iclab/nearest.h"
#include "iclab/number.h"
#include "numeric/parallel.h"

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
    icl_task_prior prior; /* a copy, and its root with it: the task may go first */
    double *weight_root;
    size_t count;     /* of predictors */
    predictor *items; /* [S][count]: at each scored position those for a context of the pairs before it */
};

/* The prior of a query at the scored position s, behind as many pairs as there are positions before it. */
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

/* ---- Making ---- */

static icl_status copy_prior(const icl_task_prior *prior, icl_predictors *predictors, icl_error *error) {
    const size_t elements = prior->dimension * prior->dimension;

    predictors->prior = *prior;
    predictors->prior.covariance_root = NULL; /* serves the fitting alone, which asks the task */
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

/* What the fitted constants are to minimise the distance to. */
typedef struct fitting {
    const icl_imitation *of; /* NULL: the oracle, on sequences that are drawn */
    size_t sequences;
    uint32_t seed;
} fitting;

/* Fits the predictors of the scored position s. */
static icl_status fit_at(icl_predictors *predictors, size_t s, const icl_task *task, const fitting *to,
                         icl_error *error) {
    const icl_task_prior prior = prior_at(predictors, s);
    const bool input_basis = wants_basis(predictors, ICL_INPUT_BASIS);
    icl_fit_set sets[ICL_BASIS_COUNT] = {{0}};
    icl_status status = ICL_OK;

    if (prior.context == 0)
        return ICL_OK;
    if (to->of)
        ICL_TRY(icl_fit_sets_imitate(&prior, to->of, input_basis, sets, error));
    else
        ICL_TRY(icl_fit_sets_draw(task, prior.context, to->sequences, to->seed, input_basis, sets, error));
    for (size_t i = 0; i < predictors->count; i++) {
        const predictor *item = &predictors->items[s * predictors->count + i];
        if (item->estimator->fit)
            ICL_TRY(item->estimator->fit(
                item->state, &sets[predictors->weight_root ? item->estimator->basis : ICL_PRIOR_BASIS], error));
    }
done:
    icl_fit_sets_release(sets);
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
    icl_predictors *made = NULL;
    icl_status status;

    *predictors = NULL;
    if (!icl_task_get_prior(task))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "predictors \"%s\": reference predictors are those of linear regression; "
                        "expected none for functions",
                        names);
    if (to->of && icl_task_get_shape(task)->scored != 1)
        return icl_fail(error, ICL_ERROR_INPUT, "predictors \"%s\": %zu scored positions, expected one to imitate",
                        names, icl_task_get_shape(task)->scored);
    ICL_TRY(icl_allocate(1, sizeof *made, "predictors", &made, error));
    made->shape = *icl_task_get_shape(task);
    ICL_TRY(copy_prior(icl_task_get_prior(task), made, error));
    ICL_TRY(read_names(made, names, error));
    ICL_TRY(create_items(made, error));
    ICL_TRY(fit_all(made, task, to, error));
    for (size_t i = 0; i < made->shape.scored * made->count; i++)
        if (made->items[i].estimator->describe)
            made->items[i].estimator->describe(made->items[i].state, made->items[i].constants, CONSTANTS_CAPACITY);
    *predictors = made;
    made = NULL;
done:
    icl_predictors_destroy(&made);
    return status;
}

icl_status icl_predictors_create(const icl_task *task, const char *names, size_t fit_sequences, uint32_t seed,
                                 icl_predictors **predictors, icl_error *error) {
    return create(task, names, &(fitting){.sequences = fit_sequences, .seed = seed}, predictors, error);
}

icl_status icl_predictors_imitate(const icl_task *task, const char *names, const icl_imitation *of,
                                  icl_predictors **predictors, icl_error *error) {
    return create(task, names, &(fitting){.of = of, .sequences = of->count}, predictors, error);
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
    icl_workspaces all;
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
    icl_workspace *workspace = &run->all.workspaces[thread];

    icl_workspace_load(&run->all, workspace, run->inputs + index * predictors->shape.positions * (d + 1));
    for (size_t i = first; i < first + predictors->count; i++) {
        const icl_spectrum *spectrum =
            icl_workspace_spectrum(&run->all, workspace, predictors->items[i].estimator->basis);
        const size_t place = index * predictors->shape.scored * predictors->count + i;
        if (spectrum->finite)
            icl_predictors_filter(predictors, i, spectrum, (double)run->sigma[index], workspace->filter);
        if (run->predictions)
            run->predictions[place] = icl_spectrum_predict(spectrum, workspace->filter);
        if (run->weights)
            icl_spectrum_weights(spectrum, workspace->filter, run->weights + place * d);
    }
}

/* Before the first pair. */
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
        ICL_TRY(icl_workspaces_create(&prior, wants_basis(predictors, ICL_INPUT_BASIS), &run->all, error));
        icl_parallel_for(count, run->all.threads, prior.context > 0 ? predict : predict_nothing, run);
        icl_workspaces_destroy(&run->all);
    }
done:
    icl_workspaces_destroy(&run->all);
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
