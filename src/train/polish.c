#include "train/polish.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "train/objective.h"
#include "train/trainer.h"

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
