#include "train/objective.h"

#include <inttypes.h>
#include <lbfgs.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "iclab/status.h"
#include "train/gradient.h"
#include "train/trainer.h"

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

/* ---- Polish ---- */

/* The numbers of batches that no step draws: steps end at ICL_MAX_STEPS, below 2^40. */
#define FIXED_BATCHES ((uint64_t)1 << 41)
#define HELD_BATCHES  ((uint64_t)1 << 42)

/* The most and fewest sequences of either set, if an objective holds that many. Each set has a sixteenth of the
 * budget's sequences, so that about sixty evaluations cost as much as the steps. */
#define MOST_SEQUENCES  131072
#define LEAST_SEQUENCES 8192
#define SHARE_OF_BUDGET 16

/* Losses have a heavy tail if the mean of their squares is over HEAVY times the square of their mean. Sets are then
 * drawn from TIMES_IF_HEAVY times the sequences, and hold the tail of these. */
#define HEAVY          1000
#define TIMES_IF_HEAVY 16
#define MOST_ROUNDS    3

#define CHEAP_SIZE      2048
#define CHEAP_SEQUENCES 1048576.0

#define HISTORY         50
#define MOST_ITERATIONS 150
#define CHECK_EVERY     5
#define PATIENCE        3    /* checks without a lower held-out loss */
#define LEAST_DECREASE  1e-6 /* relative to the loss, between checks */

/* ---- Whether to polish ---- */

/* Returns the sequences up to the end of the schedule, so that a run that stops before and continues later is the same
 * run. */
static double sequences_of_budget(const icl_training_settings *settings) {
    return (double)settings->schedule.total * (double)settings->batch;
}

bool icl_trainer_is_cheap(const icl_trainer *trainer) {
    return icl_trainer_has_objective(trainer) && trainer->problem.settings.average == 0 &&
           icl_model_size(trainer->problem.model) <= CHEAP_SIZE &&
           sequences_of_budget(&trainer->problem.settings) >= CHEAP_SEQUENCES;
}

bool icl_polish_is_wanted(const icl_trainer *trainer) {
    const icl_polish_choice polish = trainer->problem.settings.polish;
    return polish == ICL_POLISH_AUTO ? icl_trainer_is_cheap(trainer) : polish == ICL_POLISH_ON;
}

/* ---- The two sets ---- */

typedef enum set { FIXED = 0, HELD, SETS } set;

static const uint64_t numbers[SETS] = {FIXED_BATCHES, HELD_BATCHES};

typedef struct polish {
    const icl_training_problem *problem;
    const icl_backend *beside; /* the trainer's */
    const volatile sig_atomic_t *stop;
    icl_task *task; /* NULL: the trainer's own */
    icl_objective *sets[SETS];
    bool is_heavy;        /* few sequences carry the loss */
    double *scores[SETS]; /* [TIMES_IF_HEAVY * sequences], if heavy: see icl_objective_draw_tail */
    size_t size;
    double *origin;            /* [N]: where the steps ended */
    double *at, *best;         /* [N] */
    double *scale;             /* [N]: the unit of each number in the search */
    double *before, *after;    /* [held sequences]: losses at the origin and at an iterate */
    double *shares;            /* [held sequences]: weight of each in the mean */
    double start, least;       /* held-out means, at the origin and at the best iterate */
    double least_se;           /* standard error of their paired difference */
    double last_value, lowest; /* of the fixed set: at the last check, and at the end */
    int since_least;
} polish;

static size_t choose_sequences(const polish *p) {
    const size_t fitting = icl_objective_fitting(icl_objective_sequence_bytes(p->problem->task, !p->task));
    const double share = sequences_of_budget(&p->problem->settings) / SHARE_OF_BUDGET;
    const size_t count = (size_t)fmax(LEAST_SEQUENCES, fmin(MOST_SEQUENCES, share));
    return count < fitting ? count : fitting;
}

/* Returns the ratio of the mean square of the losses to the square of their mean. */
static double heaviness(const double *losses, size_t count) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        sum += losses[i];
        squares += losses[i] * losses[i];
    }
    return squares / (sum * sum) * (double)count;
}

/* Draws a set. If the tail is heavy, it is the tail at p->at. */
static icl_status draw_set(polish *p, set which, icl_error *error) {
    const uint32_t seed = p->problem->settings.seed;

    return p->is_heavy ? icl_objective_draw_tail(p->sets[which], p->at, TIMES_IF_HEAVY, p->scores[which], seed,
                                                 numbers[which], error)
                       : icl_objective_draw(p->sets[which], seed, numbers[which], error);
}

static icl_status draw_sets(polish *p, icl_error *error) {
    for (set which = FIXED; which < SETS; which++)
        ICL_CHECK(draw_set(p, which, error));
    icl_objective_shares(p->sets[HELD], p->shares);
    return ICL_OK;
}

icl_status icl_polish_measure_memory(const icl_trainer *trainer, double *bytes, icl_error *error) {
    polish p = {.problem = &trainer->problem};

    *bytes = 0;
    if (!icl_polish_is_wanted(trainer))
        return ICL_OK;
    const icl_status status = icl_objective_choose_task(p.problem->recipe, &p.task, error);
    *bytes = SETS * (double)choose_sequences(&p) *
             (icl_objective_sequence_bytes(trainer->problem.task, !p.task) + TIMES_IF_HEAVY * sizeof(double));
    icl_task_destroy(&p.task);
    return status;
}

static icl_status create_sets(polish *p, icl_error *error) {
    const icl_objective_params params = {.task = p->task ? p->task : p->problem->task,
                                         .model = p->problem->model,
                                         .purpose = ICL_FOR_TRAINING,
                                         .sequences = choose_sequences(p),
                                         .beside = p->beside};

    for (set which = FIXED; which < SETS; which++)
        ICL_CHECK(icl_objective_create(&params, &p->sets[which], error));
    return ICL_OK;
}

static icl_status reserve(polish *p, icl_error *error) {
    const size_t sequences = icl_objective_sequences(p->sets[HELD]);

    ICL_CHECK(icl_allocate(p->size, sizeof(double), "polish", &p->origin, error));
    ICL_CHECK(icl_allocate(p->size, sizeof(double), "polish", &p->at, error));
    ICL_CHECK(icl_allocate(p->size, sizeof(double), "polish", &p->scale, error));
    ICL_CHECK(icl_allocate(p->size, sizeof(double), "polish", &p->best, error));
    ICL_CHECK(icl_allocate(sequences, sizeof(double), "polish", &p->before, error));
    ICL_CHECK(icl_allocate(sequences, sizeof(double), "polish", &p->shares, error));
    return icl_allocate(sequences, sizeof(double), "polish", &p->after, error);
}

static void release(polish *p) {
    for (set which = FIXED; which < SETS; which++) {
        icl_objective_destroy(&p->sets[which]);
        icl_free(&p->scores[which]);
    }
    icl_task_destroy(&p->task);
    icl_free(&p->origin);
    icl_free(&p->at);
    icl_free(&p->scale);
    icl_free(&p->best);
    icl_free(&p->before);
    icl_free(&p->after);
    icl_free(&p->shares);
}

/* ---- Lowering the loss of the fixed set while watching that of the held-out set ---- */

/* Returns the weighted mean over the held-out sequences. */
static double mean_of(const polish *p, const double *values) {
    const size_t count = icl_objective_sequences(p->sets[HELD]);
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += p->shares[i] * values[i];
    return sum;
}

/* Compares the held-out losses at an iterate with those at the origin, and keeps the iterate if its mean is the
 * least. */
static icl_status check(polish *p, const double *at, icl_error *error) {
    const size_t count = icl_objective_sequences(p->sets[HELD]);
    double squares = 0;

    ICL_CHECK(icl_objective_losses(p->sets[HELD], at, p->after, error));
    const double mean = mean_of(p, p->after), difference = mean - p->start;
    p->since_least++;
    if (!(mean < p->least))
        return ICL_OK;
    for (size_t i = 0; i < count; i++) {
        const double residual = p->after[i] - p->before[i] - difference;
        squares += p->shares[i] * p->shares[i] * residual * residual;
    }
    p->since_least = 0;
    p->least = mean;
    p->least_se = sqrt(squares);
    memmove(p->best, at, p->size * sizeof *at); /* `at` may be p->best */
    return ICL_OK;
}

static icl_status look_for_stop(void *user, double loss, icl_error *error) {
    const polish *p = user;

    (void)loss;
    return p->stop && *p->stop ? icl_fail(error, ICL_ERROR_INTERRUPTED, "stopped while polishing") : ICL_OK;
}

static icl_status observe(void *user, const double *at, double value, size_t iterations, bool *ends, icl_error *error) {
    polish *p = user;

    if (iterations % CHECK_EVERY != 0)
        return ICL_OK;
    ICL_CHECK(check(p, at, error));
    *ends = (!p->is_heavy && p->since_least >= PATIENCE) || p->last_value - value <= LEAST_DECREASE * value;
    p->last_value = value;
    return ICL_OK;
}

/* Decides whether few sequences carry the loss where the last round ended, and if so allocates their scores. */
static icl_status weigh(polish *p, icl_error *error) {
    const size_t count = icl_objective_sequences(p->sets[HELD]);

    if (p->is_heavy)
        return ICL_OK;
    ICL_CHECK(icl_objective_losses(p->sets[HELD], p->at, p->after, error));
    p->is_heavy = !(heaviness(p->after, count) <= HEAVY); /* true for NaN, too */
    for (set which = FIXED; which < SETS && p->is_heavy; which++)
        ICL_CHECK(icl_allocate(TIMES_IF_HEAVY * count, sizeof(double), "scores", &p->scores[which], error));
    return ICL_OK;
}

static double norm(const double *vector, size_t size) {
    double sum = 0;
    for (size_t i = 0; i < size; i++)
        sum += vector[i] * vector[i];
    return sqrt(sum);
}

/* Scales each number by the root mean square of the parameter that it belongs to. */
static void choose_scale(polish *p) {
    for (size_t part = 0; part < icl_model_parameter_count(p->problem->model); part++) {
        const icl_parameter_info *info = icl_model_parameter(p->problem->model, part);
        const double size = norm(p->at + info->offset, info->count) / sqrt((double)info->count);
        for (size_t i = 0; i < info->count; i++)
            p->scale[info->offset + i] = size > 0 ? size : 1;
    }
}

/* Runs one round from where the last one ended. If the tail is heavy, the round has sets of its own. */
static icl_status lower(polish *p, icl_polish_result *result, icl_error *error) {
    const icl_minimise_params params = {.history = HISTORY,
                                        .iterations = MOST_ITERATIONS,
                                        .scale = p->scale,
                                        .evaluated = look_for_stop,
                                        .observe = observe,
                                        .user = p};
    icl_minimised found = {0};

    ICL_CHECK(draw_sets(p, error));
    ICL_CHECK(icl_objective_losses(p->sets[HELD], p->origin, p->before, error));
    p->start = mean_of(p, p->before);
    p->least = HUGE_VAL;
    p->last_value = HUGE_VAL;
    ICL_CHECK(check(p, p->best, error));
    choose_scale(p);
    ICL_CHECK(icl_objective_minimise(p->sets[FIXED], &params, p->at, &found, error));
    if (found.iterations % CHECK_EVERY != 0)
        ICL_CHECK(check(p, p->at, error));
    p->lowest = found.loss;
    result->sequences = icl_objective_sequences(p->sets[HELD]);
    result->iterations += found.iterations;
    result->is_taken = p->start - p->least > p->least_se;
    result->loss = p->least;
    result->gain = 1 - p->least / p->start;
    result->gain_se = p->least_se / p->start;
    return ICL_OK;
}

/* Runs rounds while the tail is heavy. A minimum over a set is low at its sequences, but may be high at others that are
 * as rare. With a heavy tail, such sequences join the next round's sets, as points do in an exchange algorithm. */
static icl_status lower_in_rounds(polish *p, icl_polish_result *result, icl_error *error) {
    *result = (icl_polish_result){0};
    ICL_CHECK(lower(p, result, error));
    for (size_t round = 1; round < MOST_ROUNDS; round++) {
        ICL_CHECK(weigh(p, error));
        if (!p->is_heavy)
            break;
        ICL_CHECK(lower(p, result, error));
    }
    return ICL_OK;
}

/* ---- The result ---- */

/* Measures how far `at` is from a stationary point; p->at becomes the gradient. */
static icl_status measure(polish *p, const double *at, icl_polish_result *result, icl_error *error) {
    double fixed = 0, variance = 0;

    ICL_CHECK(icl_objective_sampled_gradient(p->sets[HELD], at, &result->loss, p->at, &variance, error));
    const double scale = norm(at, p->size) / result->loss;
    result->gradient = norm(p->at, p->size) * scale;
    result->gradient_se = sqrt(variance) * scale;
    ICL_CHECK(icl_objective_gradient(p->sets[FIXED], at, &fixed, NULL, error));
    result->below = 1 - p->lowest / fixed;
    return ICL_OK;
}

icl_status icl_trainer_polish(icl_trainer *trainer, const volatile sig_atomic_t *stop, icl_polish_result *result,
                              icl_error *error) {
    polish p = {.problem = &trainer->problem,
                .beside = trainer->backend,
                .stop = stop,
                .size = icl_model_size(trainer->problem.model)};
    float *values = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_objective_choose_task(p.problem->recipe, &p.task, error));
    ICL_TRY(create_sets(&p, error));
    ICL_TRY(reserve(&p, error));
    ICL_TRY(icl_allocate(p.size, sizeof *values, "parameters", &values, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, values, error));
    for (size_t i = 0; i < p.size; i++)
        p.at[i] = (double)values[i];
    memcpy(p.origin, p.at, p.size * sizeof *p.at);
    memcpy(p.best, p.at, p.size * sizeof *p.at);
    status = lower_in_rounds(&p, result, error);
    if (status == ICL_ERROR_INPUT) { /* the loss at the start is not finite */
        *result = (icl_polish_result){0};
        status = ICL_OK;
        goto done;
    }
    if (status != ICL_OK)
        goto done;
    for (size_t i = 0; i < p.size; i++) {
        values[i] = result->is_taken ? (float)p.best[i] : values[i];
        p.best[i] = (double)values[i];
    }
    ICL_TRY(measure(&p, p.best, result, error));
    if (result->is_taken)
        ICL_TRY(icl_trainer_set_parameters(trainer, values, error));
    trainer->state.polished = *result;
done:
    release(&p);
    icl_free(&values);
    return status;
}

icl_status icl_polish_text(const icl_polish_result *result, char **text, icl_error *error) {
    char line[512];

    icl_print(
        line, sizeof line,
        "polish: %" PRIu64 " iterations of L-BFGS on %" PRIu64 " sequences lowered the loss of as many others by\n"
        "%.2g %% +- %.2g %%%s. |gradient| |parameters| / loss is %.2g at the end, where sampling\n"
        "alone makes about %.2g; a minimum of those sequences lies %.2g %% lower.\n",
        result->iterations, result->sequences, 100 * result->gain, 100 * result->gain_se,
        result->is_taken ? "" : " and were not taken", result->gradient, result->gradient_se, 100 * result->below);
    return icl_duplicate(line, text, error);
}

void icl_polish_add_json(const icl_polish_result *polished, icl_json *json) {
    if (polished->sequences == 0)
        return;
    icl_json_count(json, "polish_sequences", polished->sequences);
    icl_json_count(json, "polish_iterations", polished->iterations);
    icl_json_flag(json, "polish_is_taken", polished->is_taken);
    icl_json_number(json, "polish_loss", polished->loss);
    icl_json_number(json, "polish_gain", polished->gain);
    icl_json_number(json, "polish_gain_se", polished->gain_se);
    icl_json_number(json, "polish_below", polished->below);
    icl_json_number(json, "polish_gradient", polished->gradient);
    icl_json_number(json, "polish_gradient_se", polished->gradient_se);
}
