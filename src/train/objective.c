#include "train/objective.h"

#include <lbfgs.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/status.h"
#include "train/gradient.h"

#define MOST_IN_A_BATCH ((size_t)2048)
#define MOST_BYTES      134217728.0 /* of an objective's sequences */

struct icl_objective {
    const icl_task *task;
    const icl_model *model;
    icl_task_purpose purpose;
    icl_backend *backend; /* of double precision */
    icl_differentiator *differentiator;
    size_t count, length; /* number of batches, and sequences in each */
    icl_batch *batches;
    size_t tail;                     /* the first `tail` batches hold the largest losses */
    double *shares;                  /* [count]: weight of each batch's mean in the overall mean */
    icl_tensor parameters, gradient; /* [N] */
    icl_tensor losses;               /* [length] */
    double *part;                    /* [N]: a batch's gradient */
    double *last_losses;             /* [length]: of the last batch */
};

/* ---- Creation ---- */

icl_status icl_objective_choose_task(const icl_recipe *recipe, icl_task **task, icl_error *error) {
    icl_recipe *with_grams = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_clone(recipe, &with_grams, error));
    status = icl_recipe_set_text(with_grams, "task", "sampler", "gram", error);
    if (status == ICL_OK)
        status = icl_task_create(with_grams, task, error);
    if (status != ICL_ERROR_MEMORY)
        status = ICL_OK; /* the task has no Gram matrices */
done:
    icl_recipe_destroy(&with_grams);
    return status;
}

static icl_status create_tensors(icl_objective *objective, icl_error *error) {
    const size_t size = icl_model_size(objective->model);

    ICL_CHECK(icl_tensor_create(objective->backend, 1, &size, &objective->parameters, error));
    ICL_CHECK(icl_tensor_create(objective->backend, 1, &size, &objective->gradient, error));
    ICL_CHECK(icl_tensor_create(objective->backend, 1, &objective->length, &objective->losses, error));
    ICL_CHECK(icl_allocate(objective->count, sizeof *objective->batches, "batches", &objective->batches, error));
    for (size_t i = 0; i < objective->count; i++)
        ICL_CHECK(icl_batch_create(objective->task, objective->backend, objective->purpose, objective->length,
                                   &objective->batches[i], error));
    ICL_CHECK(icl_allocate(objective->count, sizeof(double), "shares", &objective->shares, error));
    ICL_CHECK(icl_allocate(size, sizeof(double), "gradient", &objective->part, error));
    return icl_allocate(objective->length, sizeof(double), "losses", &objective->last_losses, error);
}

/* Creates a differentiator that takes batches as a whole, without micro-batches, so that results do not depend on
 * threads. */
static icl_status create_differentiator(icl_objective *objective, icl_error *error) {
    const icl_gradient_plan plan = icl_gradient_plan_choose(&(icl_gradient_wish){.model = objective->model,
                                                                                 .backend = objective->backend,
                                                                                 .batch = &objective->batches[0],
                                                                                 .slices = 1,
                                                                                 .is_whole = true});

    return icl_differentiator_create(objective->backend, objective->model, &plan, &objective->differentiator, error);
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
    icl_objective *created = NULL;
    icl_status status = ICL_OK;

    if (sequences == 0)
        return icl_fail(error, ICL_ERROR_INPUT, "objective: 0 sequences, expected at least 1");
    name_device(params->beside, spec);
    ICL_TRY(icl_allocate(1, sizeof *created, "objective", &created, error));
    created->task = params->task;
    created->model = params->model;
    created->purpose = params->purpose;
    created->count = (sequences + MOST_IN_A_BATCH - 1) / MOST_IN_A_BATCH;
    created->length = (sequences + created->count - 1) / created->count;
    ICL_TRY(icl_backend_open(&device, &created->backend, error));
    ICL_TRY(create_tensors(created, error));
    ICL_TRY(create_differentiator(created, error));
    *objective = created;
    created = NULL;
done:
    icl_objective_destroy(&created);
    return status;
}

void icl_objective_destroy(icl_objective **objective) {
    icl_objective *gone = *objective;

    if (!gone)
        return;
    icl_differentiator_destroy(&gone->differentiator);
    for (size_t i = 0; gone->batches && i < gone->count; i++)
        icl_batch_release(&gone->batches[i]);
    icl_tensor_release(&gone->parameters);
    icl_tensor_release(&gone->gradient);
    icl_tensor_release(&gone->losses);
    icl_backend_close(&gone->backend);
    icl_free(&gone->batches);
    icl_free(&gone->shares);
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

double icl_objective_sequence_bytes(const icl_task *task, bool has_tokens) {
    const double width = (double)icl_task_dimension(task) + 1;
    const double rows = has_tokens ? (double)icl_task_context(task) + 1 : width;

    return sizeof(double) * (rows + 2) * width;
}

size_t icl_objective_fitting(double sequence_bytes) {
    return (size_t)fmax(1, MOST_BYTES / sequence_bytes);
}

void icl_objective_shares(const icl_objective *objective, double *shares) {
    for (size_t s = 0; s < icl_objective_sequences(objective); s++)
        shares[s] = objective->shares[s / objective->length] / (double)objective->length;
}

/* ---- Sequences ---- */

/* Computes losses and gradient of one batch, at the parameters on the device. losses [length] may be NULL. */
static icl_status differentiate(icl_objective *objective, const icl_batch *batch, double *losses, icl_error *error) {
    const icl_gradient_call call = {
        .depth = icl_model_layers(objective->model),
        .batch = batch,
        .with = {.parameters = objective->parameters, .gradient = objective->gradient, .losses = objective->losses},
    };
    icl_tensor each;

    ICL_CHECK(icl_differentiate(objective->differentiator, &call, &each, error));
    if (losses)
        ICL_CHECK(icl_tensor_read_double(each, losses, error));
    return ICL_OK;
}

static icl_status sample(icl_objective *objective, uint32_t seed, uint64_t number, icl_batch *batch, icl_error *error) {
    return icl_task_sample(objective->task, objective->backend, objective->purpose, seed, number, batch, error);
}

icl_status icl_objective_draw(icl_objective *objective, uint32_t seed, uint64_t number, icl_error *error) {
    objective->tail = 0;
    for (size_t i = 0; i < objective->count; i++) {
        ICL_CHECK(sample(objective, seed, number * objective->count + i, &objective->batches[i], error));
        objective->shares[i] = 1 / (double)objective->count;
    }
    return ICL_OK;
}

/* A large sample of which only some sequences are kept. */
typedef struct pool {
    uint64_t first;   /* number of its first batch */
    size_t batches;   /* number of batches, each of the objective's length */
    size_t tail;      /* the objective's batches for the largest losses; the others hold the rest */
    double *scores;   /* [batches * length] */
    double threshold; /* the least score in the tail */
    icl_batch batch;
    double *row; /* room for a row of any of the batch's tensors */
    size_t kept[2], seen;
} pool;

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Adds each sequence's loss at `at`, divided by the mean loss, to its score; a loss that is not finite scores
 * infinity. */
static void add_scores(double *scores, const double *losses, size_t count) {
    double sum = 0;

    for (size_t s = 0; s < count; s++)
        sum += isfinite(losses[s]) ? losses[s] : 0;
    for (size_t s = 0; s < count; s++)
        scores[s] += !isfinite(losses[s]) ? HUGE_VAL : sum > 0 ? losses[s] / sum * (double)count : 0;
}

static icl_status score_pool(icl_objective *objective, const double *at, uint32_t seed, pool *from, icl_error *error) {
    const size_t length = objective->length, sequences = from->batches * length;
    double *losses = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(sequences, sizeof *losses, "losses", &losses, error));
    ICL_TRY(icl_tensor_write_double(objective->parameters, at, error));
    for (size_t i = 0; i < from->batches; i++) {
        ICL_TRY(sample(objective, seed, from->first + i, &from->batch, error));
        ICL_TRY(differentiate(objective, &from->batch, losses + i * length, error));
    }
    add_scores(from->scores, losses, sequences);
    memcpy(losses, from->scores, sequences * sizeof *losses);
    qsort(losses, sequences, sizeof *losses, compare_doubles);
    from->threshold = losses[sequences - from->tail * length];
done:
    icl_free(&losses);
    return status;
}

static icl_status copy_row(icl_tensor to, size_t row, icl_tensor from, size_t from_row, double *values,
                           icl_error *error) {
    if (!from.buffer)
        return ICL_OK;
    ICL_CHECK(icl_tensor_read_double(icl_tensor_slice(from, 0, from_row, 1), values, error));
    return icl_tensor_write_double(icl_tensor_slice(to, 0, row, 1), values, error);
}

static icl_status copy_sequence(icl_batch *to, size_t row, const pool *from, size_t from_row, icl_error *error) {
    ICL_CHECK(copy_row(to->inputs, row, from->batch.inputs, from_row, from->row, error));
    ICL_CHECK(copy_row(to->targets, row, from->batch.targets, from_row, from->row, error));
    ICL_CHECK(copy_row(to->weights, row, from->batch.weights, from_row, from->row, error));
    for (size_t i = 0; i < to->side_count; i++)
        ICL_CHECK(copy_row(to->sides[i].tensor, row, from->batch.sides[i].tensor, from_row, from->row, error));
    return ICL_OK;
}

/* Returns whether the next sequence of the rest is kept: `wanted` of `all` are, evenly spaced. */
static bool is_kept(size_t seen, size_t wanted, size_t all) {
    return (seen + 1) * wanted / all > seen * wanted / all;
}

static icl_status keep_batch(icl_objective *objective, pool *from, const double *scores, icl_error *error) {
    const size_t length = objective->length, tail = from->tail * length;
    const size_t wanted = objective->count * length - tail, all = from->batches * length - tail;

    for (size_t s = 0; s < length; s++) {
        const bool is_tail = scores[s] >= from->threshold && from->kept[0] < tail;
        if (!is_tail && !is_kept(from->seen++, wanted, all))
            continue;
        const size_t place = is_tail ? from->kept[0]++ : tail + from->kept[1]++;
        ICL_CHECK(copy_sequence(&objective->batches[place / length], place % length, from, s, error));
    }
    return ICL_OK;
}

static size_t larger(size_t size, const icl_tensor *tensor) {
    const size_t count = tensor->buffer ? icl_tensor_count(tensor) / tensor->shape[0] : 0;
    return count > size ? count : size;
}

static size_t largest_row(const icl_batch *batch) {
    size_t most = larger(larger(larger(0, &batch->inputs), &batch->targets), &batch->weights);

    for (size_t i = 0; i < batch->side_count; i++)
        most = larger(most, &batch->sides[i].tensor);
    return most;
}

icl_status icl_objective_draw_tail(icl_objective *objective, const double *at, size_t times, double *scores,
                                   uint32_t seed, uint64_t number, icl_error *error) {
    const size_t count = objective->count;
    pool from = {.batches = times * count, .tail = count / 2, .scores = scores};
    icl_status status = ICL_OK;

    if (times < 2 || from.tail == 0)
        return icl_objective_draw(objective, seed, number, error);
    from.first = number * from.batches;
    ICL_TRY(icl_batch_create(objective->task, objective->backend, objective->purpose, objective->length, &from.batch,
                             error));
    ICL_TRY(icl_allocate(largest_row(&from.batch), sizeof(double), "a sequence", &from.row, error));
    ICL_TRY(score_pool(objective, at, seed, &from, error));
    for (size_t i = 0; i < from.batches; i++) {
        ICL_TRY(sample(objective, seed, from.first + i, &from.batch, error));
        ICL_TRY(keep_batch(objective, &from, scores + i * objective->length, error));
    }
    objective->tail = from.tail;
    for (size_t i = 0; i < count; i++)
        objective->shares[i] = (i < from.tail ? 1 : (double)(from.batches - from.tail) / (double)(count - from.tail)) /
                               (double)from.batches;
done:
    icl_batch_release(&from.batch);
    icl_free(&from.row);
    return status;
}

/* ---- Gradients ---- */

static double square(const double *vector, size_t size) {
    double sum = 0;
    for (size_t k = 0; k < size; k++)
        sum += vector[k] * vector[k];
    return sum;
}

/* The contributions of batches first to end - 1 to the mean. */
typedef struct sums {
    double loss;
    double *gradient; /* [N] */
    double squares;   /* summed squares of each batch's contribution to the gradient */
} sums;

static icl_status add_up(icl_objective *objective, size_t first, size_t end, sums *to, icl_error *error) {
    const size_t size = icl_objective_size(objective), length = objective->length;

    for (size_t i = first; i < end; i++) {
        const double share = objective->shares[i];
        double loss = 0;
        ICL_CHECK(differentiate(objective, &objective->batches[i], objective->last_losses, error));
        for (size_t s = 0; s < length; s++)
            loss += objective->last_losses[s];
        to->loss += share * loss / (double)length;
        if (!to->gradient)
            continue;
        ICL_CHECK(icl_tensor_read_double(objective->gradient, objective->part, error));
        for (size_t k = 0; k < size; k++)
            to->gradient[k] += share * objective->part[k];
        to->squares += share * share * square(objective->part, size);
    }
    return ICL_OK;
}

icl_status icl_objective_gradient(icl_objective *objective, const double *at, double *loss, double *gradient,
                                  icl_error *error) {
    sums total = {.gradient = gradient};

    ICL_CHECK(icl_tensor_write_double(objective->parameters, at, error));
    if (gradient)
        memset(gradient, 0, icl_objective_size(objective) * sizeof *gradient);
    ICL_CHECK(add_up(objective, 0, objective->count, &total, error));
    if (loss)
        *loss = total.loss;
    return ICL_OK;
}

/* Adds a stratum of m independent g_b, each with share c, whose weighted sum is S. Its variance is (c^2 sum |g_b|^2 -
 * |S|^2 / m) m / (m - 1). */
static icl_status add_stratum(icl_objective *objective, size_t first, size_t end, double *loss, double *gradient,
                              double *variance, icl_error *error) {
    const size_t size = icl_objective_size(objective);
    const double count = (double)(end - first);
    sums stratum = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(size, sizeof(double), "gradient", &stratum.gradient, error));
    ICL_TRY(add_up(objective, first, end, &stratum, error));
    *loss += stratum.loss;
    for (size_t k = 0; k < size; k++)
        gradient[k] += stratum.gradient[k];
    if (count > 0)
        *variance +=
            count > 1 ? (stratum.squares - square(stratum.gradient, size) / count) * count / (count - 1) : (double)NAN;
done:
    icl_free(&stratum.gradient);
    return status;
}

icl_status icl_objective_sampled_gradient(icl_objective *objective, const double *at, double *loss, double *gradient,
                                          double *variance, icl_error *error) {
    ICL_CHECK(icl_tensor_write_double(objective->parameters, at, error));
    memset(gradient, 0, icl_objective_size(objective) * sizeof *gradient);
    *loss = *variance = 0;
    ICL_CHECK(add_stratum(objective, 0, objective->tail, loss, gradient, variance, error));
    return add_stratum(objective, objective->tail, objective->count, loss, gradient, variance, error);
}

icl_status icl_objective_losses(icl_objective *objective, const double *at, double *losses, icl_error *error) {
    ICL_CHECK(icl_tensor_write_double(objective->parameters, at, error));
    for (size_t i = 0; i < objective->count; i++)
        ICL_CHECK(differentiate(objective, &objective->batches[i], losses + i * objective->length, error));
    return ICL_OK;
}

/* ---- Minima ---- */

typedef struct search {
    icl_objective *objective;
    const icl_minimise_params *params;
    double *units; /* [N]: the unit of each parameter in the search */
    double *point; /* [N]: the current point, in the parameters' own units */
    icl_minimised *result;
    bool ends;         /* the observer asked for the end */
    icl_status status; /* the first failure */
    icl_error *error;
} search;

static void move_to(search *s, const double *at) {
    for (size_t i = 0; i < icl_objective_size(s->objective); i++)
        s->point[i] = s->units[i] * at[i];
}

static icl_status evaluate_point(search *s, double *loss, double *gradient) {
    ICL_CHECK(icl_objective_gradient(s->objective, s->point, loss, gradient, s->error));
    s->result->evaluations++;
    return s->params->evaluated ? s->params->evaluated(s->params->user, *loss, s->error) : ICL_OK;
}

/* Evaluates loss and gradient for liblbfgs. A loss that is not finite counts as too high. liblbfgs has no status for a
 * failure: the loss -infinity with gradient 0 satisfies its line search, and then follow() ends the search. */
static double evaluate(void *instance, const double *at, double *gradient, const int size, const double step) {
    search *s = instance;
    double loss = HUGE_VAL;

    (void)step;
    move_to(s, at);
    s->status = evaluate_point(s, &loss, gradient);
    for (int i = 0; i < size; i++)
        gradient[i] = s->status == ICL_OK ? gradient[i] * s->units[i] : 0;
    if (s->status != ICL_OK)
        return -HUGE_VAL;
    return isfinite(loss) ? loss : HUGE_VAL;
}

/* Called after each iteration; a result other than 0 ends the search. */
static int follow(void *instance, const double *at, const double *gradient, const double loss, const double length,
                  const double slope, const double step, int size, int iteration, int trials) {
    search *s = instance;
    const icl_minimise_params *params = s->params;
    double squares = 0;

    (void)length, (void)slope, (void)step, (void)iteration, (void)trials;
    if (s->status != ICL_OK)
        return 1;
    for (int i = 0; i < size; i++)
        squares += gradient[i] / s->units[i] * gradient[i] / s->units[i];
    *s->result = (icl_minimised){s->result->iterations + 1, s->result->evaluations, loss, sqrt(squares)};
    move_to(s, at);
    if (params->observe)
        s->status = params->observe(params->user, s->point, loss, s->result->iterations, &s->ends, s->error);
    return s->status != ICL_OK || s->ends || s->result->iterations >= params->iterations;
}

/* Searches from `at`. If a line search finds nothing lower, L-BFGS begins anew along the gradient. */
static icl_status search_from(search *s, double *at, icl_error *error) {
    const int size = (int)icl_objective_size(s->objective);
    lbfgs_parameter_t settings;
    size_t before;
    int code;

    lbfgs_parameter_init(&settings);
    settings.m = (int)s->params->history;
    settings.epsilon = 0;
    settings.linesearch = LBFGS_LINESEARCH_BACKTRACKING_WOLFE;
    do {
        before = s->result->iterations;
        code = lbfgs(size, at, NULL, evaluate, follow, s, &settings);
        ICL_CHECK(s->status);
        if (code == LBFGSERR_OUTOFMEMORY)
            return icl_fail(error, ICL_ERROR_MEMORY, "L-BFGS: no memory for %d parameters", size);
    } while (code < 0 && s->result->iterations > before);
    return ICL_OK;
}

/* Chooses the units of the search. liblbfgs begins with a step of length 1 along the gradient. If the gradient is
 * shorter than 1, the units shrink by its norm, so that the first step is the gradient itself. */
static icl_status choose_units(search *s, const double *at, icl_error *error) {
    const size_t size = icl_objective_size(s->objective);
    const double *scale = s->params->scale;
    double *gradient = s->point, loss = 0, squares = 0; /* the point is not in use yet */

    ICL_CHECK(icl_objective_gradient(s->objective, at, &loss, gradient, error));
    if (!isfinite(loss))
        return icl_fail(error, ICL_ERROR_INPUT, "L-BFGS: the loss is %g at the start, expected a number", loss);
    for (size_t i = 0; i < size; i++) {
        s->units[i] = scale ? scale[i] : 1;
        squares += gradient[i] * s->units[i] * gradient[i] * s->units[i];
    }
    const double norm = sqrt(squares), unit = norm > 0 && norm < 1 ? norm : 1;
    *s->result = (icl_minimised){.loss = loss, .gradient_norm = sqrt(square(gradient, size))};
    for (size_t i = 0; i < size; i++)
        s->units[i] *= unit;
    return ICL_OK;
}

icl_status icl_objective_minimise(icl_objective *objective, const icl_minimise_params *params, double *at,
                                  icl_minimised *result, icl_error *error) {
    const size_t size = icl_objective_size(objective);
    search s = {.objective = objective, .params = params, .result = result, .error = error};
    double *scaled = lbfgs_malloc((int)size); /* aligned for liblbfgs's vector instructions */
    icl_status status = ICL_OK;

    if (!scaled)
        ICL_TRY(icl_fail(error, ICL_ERROR_MEMORY, "L-BFGS: no memory for %zu parameters", size));
    ICL_TRY(icl_allocate(size, sizeof *s.units, "L-BFGS", &s.units, error));
    ICL_TRY(icl_allocate(size, sizeof *s.point, "L-BFGS", &s.point, error));
    ICL_TRY(choose_units(&s, at, error));
    for (size_t i = 0; i < size; i++)
        scaled[i] = at[i] / s.units[i];
    ICL_TRY(search_from(&s, scaled, error));
    move_to(&s, scaled);
    memcpy(at, s.point, size * sizeof *at);
done:
    lbfgs_free(scaled);
    icl_free(&s.units);
    icl_free(&s.point);
    return status;
}
