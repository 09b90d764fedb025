/*
 * Autoregressive models beyond the series they fit by construction: von Oswald and others 2023, "Uncovering
 * mesa-optimization algorithms in Transformers" (arXiv 2309.05858). A layer that binds tokens to those before them,
 * then a mesa layer, are trained to predict the next observation of a system that each sequence has to
 * itself. Both studies set them beside ridge regression of an observation on the K before it,
 *
 *     min_W sum_i |s_(i+1) - W z_i|^2 + lambda |W|^2,   z_i = (s_i, …, s_(i-K+1)),   prediction W z_t.
 *
 * mesa-partial: two random combinations of a state of four numbers are seen, and a convolution over four tokens, or
 * attention, binds them. One observation does not fix the state,
 * several do. So a model that regresses on the last observation alone is above the regression on two; no predictor is
 * below the Kalman filter, which knows the system.
 *
 * mesa-fewshot: a model of fully seen systems is shown pairs x_1, y_1, x_2, y_2, … with y_k = W x_k, W orthogonal and
 * x ~ N(0, I), on which it was never trained. As a regression on all neighbours it also learns from (y_k, x_(k+1)),
 * which have no relation: sum y x^T and sum x x^T + y y^T of many pairs tend to N W and 2 N I, and W^ to W / 2, which
 * leaves n / 4 of the squared error n of predicting 0. A regression that knows the pairs leaves none.
 */
#include <math.h>
#include <string.h>

#include "iclab/random.h"
#include "numeric/statistics.h"
#include "papers/papers.h"
#include "run/evaluation.h"

/* The stream of this file's random numbers. Tasks have other streams (task/streams.h). */
#define PAIRS_STREAM 0x70616972u

enum { MOST_LAGS = 4, MOST_RULES = MOST_LAGS };

/* ---- Regression on the observations before ---- */

typedef struct regression {
    size_t lags;     /* K */
    double penalty;  /* lambda */
    bool pairs_only; /* it learns only from positions 2 k to 2 k + 1 */
} regression;

/* The memory of a regression: [K n][K n], [n][K n], [K n], [K n]. */
typedef struct regression_state {
    double *inverse, *weights, *now, *along;
} regression_state;

static size_t count_work(size_t n) {
    const size_t p = MOST_LAGS * n;
    return p * p + n * p + 2 * p;
}

/* z_t; observations before the first one are 0. */
static void gather(const float *seen, size_t n, size_t lags, size_t t, double *z) {
    for (size_t lag = 0; lag < lags; lag++)
        for (size_t i = 0; i < n; i++)
            z[lag * n + i] = lag <= t ? (double)seen[(t - lag) * n + i] : 0;
}

/* R <- R - R z z^T R / (1 + z^T R z), W <- W + (s - W z) (R z)^T with the new R. */
static void learn(const regression_state *state, const float *next, size_t n, size_t p) {
    double product = 1;

    for (size_t i = 0; i < p; i++) {
        state->along[i] = 0;
        for (size_t j = 0; j < p; j++)
            state->along[i] += state->inverse[i * p + j] * state->now[j];
        product += state->now[i] * state->along[i];
    }
    for (size_t i = 0; i < p; i++)
        for (size_t j = 0; j < p; j++)
            state->inverse[i * p + j] -= state->along[i] * state->along[j] / product;
    for (size_t o = 0; o < n; o++) {
        double error = (double)next[o];
        for (size_t j = 0; j < p; j++)
            error -= state->weights[o * p + j] * state->now[j];
        for (size_t j = 0; j < p; j++)
            state->weights[o * p + j] += error * state->along[j] / product;
    }
}

/* Predicts s_(t+1) from s_1 … s_t at every position: seen and outputs are [positions][n]. */
static void regress(const regression *rule, const float *seen, size_t n, size_t positions, double *work,
                    double *outputs) {
    const size_t p = rule->lags * n;
    const regression_state state = {work, work + p * p, work + p * p + n * p, work + p * p + n * p + p};

    memset(work, 0, count_work(n) * sizeof *work);
    for (size_t i = 0; i < p; i++)
        state.inverse[i * p + i] = 1 / rule->penalty;
    for (size_t t = 0; t < positions; t++) {
        if (t >= rule->lags && (t % 2 == 1 || !rule->pairs_only)) {
            gather(seen, n, rule->lags, t - 1, state.now);
            learn(&state, seen + t * n, n, p);
        }
        gather(seen, n, rule->lags, t, state.now);
        for (size_t o = 0; o < n; o++) {
            outputs[t * n + o] = 0;
            for (size_t j = 0; j < p; j++)
                outputs[t * n + o] += state.weights[o * p + j] * state.now[j];
        }
    }
}

/* ---- A model beside regressions on the same sequences ---- */

/* Squares at every position, [sequences][positions]: of the model's error, of each rule's, and of the distance between
 * the two. */
typedef struct comparison {
    size_t sequences, positions;
    double *model, *rules[MOST_RULES], *apart[MOST_RULES], *room;
} comparison;

static double square_between(const double *output, const float *target, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += pow(output[i] - (double)target[i], 2);
    return sum;
}

static icl_status allocate_comparison(const icl_study *study, size_t rules, comparison *all, icl_error *error) {
    const size_t each = all->positions * sizeof(double);

    ICL_CHECK(icl_study_room(study, all->sequences, each, &all->model, error));
    for (size_t i = 0; i < rules; i++) {
        ICL_CHECK(icl_study_room(study, all->sequences, each, &all->rules[i], error));
        ICL_CHECK(icl_study_room(study, all->sequences, each, &all->apart[i], error));
    }
    return icl_study_room(study, all->sequences, sizeof(double), &all->room, error);
}

/* Fills a row of the comparison: seen, targets and the model's outputs are [positions][n]. */
static void compare_sequence(const comparison *all, size_t row, const regression *rules, size_t count, size_t n,
                             const float *seen, const float *targets, const float *model, double *work) {
    double *outputs = work + count_work(n);

    for (size_t t = 0; t < all->positions; t++) {
        double sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += pow((double)model[t * n + i] - (double)targets[t * n + i], 2);
        all->model[row * all->positions + t] = sum;
    }
    for (size_t rule = 0; rule < count; rule++) {
        regress(&rules[rule], seen, n, all->positions, work, outputs);
        for (size_t t = 0; t < all->positions; t++) {
            const size_t at = row * all->positions + t;
            all->rules[rule][at] = square_between(outputs + t * n, targets + t * n, n);
            all->apart[rule][at] = square_between(outputs + t * n, model + t * n, n);
        }
    }
}

/* Shows the sequences of a chunk something else, before the model predicts. */
typedef icl_status change_chunk(const icl_study *study, icl_sequences *drawn, uint64_t chunk, icl_error *error);

/* Compares on evaluation sequences of the study's seed; `change` may be NULL. Targets are the observations that follow,
 * and the task's own for the last position. */
static icl_status compare(const icl_study *study, icl_trainer *trainer, const regression *rules, size_t count,
                          change_chunk *change, comparison *all, icl_error *error) {
    const icl_task *task = icl_trainer_task(trainer);
    const icl_task_shape *shape = icl_task_get_shape(task);
    const size_t n = shape->outputs, size = shape->positions * n;
    icl_sequences drawn = {0};
    double *work = NULL;
    icl_status status = ICL_OK;

    all->positions = shape->positions;
    ICL_TRY(allocate_comparison(study, count, all, error));
    ICL_TRY(icl_study_room(study, count_work(n) + size, sizeof *work, &work, error));
    ICL_TRY(icl_sequences_create(study->run->params->backend, task, study->run->params->seed, &drawn, error));
    for (size_t i = 0; i < all->sequences; i++) {
        const size_t at = i % drawn.chunk;
        if (at == 0) {
            ICL_TRY(icl_reproduce_poll(study->run, error));
            ICL_TRY(icl_sequences_sample(&drawn, i / drawn.chunk, error));
            if (change)
                ICL_TRY(change(study, &drawn, i / drawn.chunk, error));
            ICL_TRY(icl_sequences_predict(&drawn, trainer, error));
            ICL_TRY(icl_sequences_refer(&drawn, NULL, drawn.chunk, NULL, error));
        }
        float *targets = drawn.targets + at * size;
        memcpy(targets, drawn.inputs + at * size + n, (size - n) * sizeof *targets);
        compare_sequence(all, i, rules, count, n, drawn.inputs + at * size, targets, drawn.model + at * size, work);
    }
done:
    icl_sequences_release(&drawn);
    return status;
}

/* Returns the mean over sequences and over every `step`-th position from `first` to before `end`; less that of other
 * squares unless they are NULL. */
static icl_number mean_of(const comparison *all, const double *squares, const double *others, size_t first, size_t end,
                          size_t step) {
    for (size_t i = 0; i < all->sequences; i++) {
        size_t count = 0;
        all->room[i] = 0;
        for (size_t t = first; t < end; t += step, count++) {
            const size_t at = i * all->positions + t;
            all->room[i] += squares[at] - (others ? others[at] : 0);
        }
        all->room[i] /= (double)count;
    }
    return (icl_number){icl_mean(all->room, all->sequences), icl_standard_error(all->room, all->sequences)};
}

/* ---- Both studies ---- */

#define BOUND_MODEL                                                                                                    \
    "task.constructed=false model.mixer=softmax,mesa model.layers=2 model.heads=2 model.width=32 model.key_width=8 "   \
    "model.value_width=8 model.iterations=8 model.positions=learned model.norm=rms model.normalize_keys=unit "         \
    "eval.every=0"

static const struct {
    size_t steps, batch, sequences, seeds;
} budgets[ICL_SCALES] = {{30, 16, 512, 1}, {2000, 32, 4096, 2}, {20000, 64, 32768, 5}};

/* Adds trainings with seeds of their own; at[1] is the kind of model. */
static void add_cells(icl_study *study, const char *name, const char *settings, size_t kind, size_t count) {
    for (size_t i = 0; i < count; i++)
        ICL_ADD_CELL(
            study, .name = ICL_PHRASE("%s, training %zu", name, i + 1), .group = name, .recipe = "mesa",
            .seed = icl_study_seed(study, i), .folder = ICL_PHRASE("%s-%zu", name, i + 1), .at = {i, kind},
            .settings = {BOUND_MODEL, settings,
                         ICL_PHRASE("train.steps=%zu train.batch=%zu eval.sequences=%zu", budgets[study->scale].steps,
                                    budgets[study->scale].batch, budgets[study->scale].sequences)});
}

/* At scale ci models hardly learn: only what holds for every model is judged. */
static icl_evidence evidence_of(const icl_study *study, icl_evidence evidence) {
    return study->scale == ICL_SCALE_CI ? ICL_EVIDENCE_NONE : evidence;
}

/* ---- Systems that are seen in part ---- */

enum { POSITIONS = 40, LATE = 30 };

static const regression by_lags[MOST_LAGS] = {{1, .1, false}, {2, .1, false}, {3, .1, false}, {4, .1, false}};

/* Squared errors, of all numbers of an observation together: over late positions, of the model and of the rules; the
 * rules less the model; distances of the model; all positions of the model, of one lag here and in the task, and the
 * Kalman filter's less the model's. */
enum {
    PARTIAL_MODEL = 0,
    PARTIAL_RULES,
    PARTIAL_ABOVE = PARTIAL_RULES + MOST_LAGS,
    PARTIAL_APART = PARTIAL_ABOVE + MOST_LAGS,
    PARTIAL_SECOND = PARTIAL_APART + MOST_LAGS, /* one lag less two */
    PARTIAL_ALL,
    PARTIAL_ONE_LAG,
    PARTIAL_TASK_LAG,
    PARTIAL_KALMAN,
    PARTIAL_NUMBERS
};

/* The kinds of layers that bind tokens. Attention does not learn to in the few steps of scale short: it has no verdict
 * there. */
enum { CONVOLUTION = 0, ATTENTION };

#define PARTLY                                                                                                         \
    "task.observation=partial task.hidden=4 task.observed=2 task.observation_noise=0.1 task.positions=40 "             \
    "eval.predictors=kalman,ridge:0.1 model.heads=4"

static void plan_partial(icl_study *study) {
    add_cells(study, "convolution", PARTLY " model.mixer=conv,mesa model.convolution=4 model.positions=none",
              CONVOLUTION, budgets[study->scale].seeds);
    if (study->scale != ICL_SCALE_CI)
        add_cells(study, "attention", PARTLY, ATTENTION, 1);
}

static icl_status measure_partial(icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                  icl_number *numbers, icl_error *error) {
    comparison all = {.sequences = budgets[study->scale].sequences};
    icl_evaluation *evaluation = NULL;

    ICL_CHECK(compare(study, trained, by_lags, MOST_LAGS, NULL, &all, error));
    numbers[PARTIAL_MODEL] = mean_of(&all, all.model, NULL, LATE, POSITIONS, 1);
    for (size_t i = 0; i < MOST_LAGS; i++) {
        numbers[PARTIAL_RULES + i] = mean_of(&all, all.rules[i], NULL, LATE, POSITIONS, 1);
        numbers[PARTIAL_ABOVE + i] = mean_of(&all, all.rules[i], all.model, LATE, POSITIONS, 1);
        numbers[PARTIAL_APART + i] = mean_of(&all, all.apart[i], NULL, LATE, POSITIONS, 1);
    }
    numbers[PARTIAL_SECOND] = mean_of(&all, all.rules[0], all.rules[1], LATE, POSITIONS, 1);
    numbers[PARTIAL_ALL] = mean_of(&all, all.model, NULL, 0, POSITIONS, 1);
    numbers[PARTIAL_ONE_LAG] = mean_of(&all, all.rules[0], NULL, 0, POSITIONS, 1);
    ICL_CHECK(icl_study_evaluate(study, cell, trained, NULL, &evaluation, error));
    const icl_score *ridge = icl_reproduce_score(evaluation, "ridge:0.1");
    const icl_score *kalman = icl_reproduce_score(evaluation, "kalman");
    numbers[PARTIAL_TASK_LAG].value = ridge->mse;
    numbers[PARTIAL_KALMAN] = (icl_number){kalman->minus_model, kalman->minus_model_se};
    return ICL_OK;
}

static size_t find_nearest(const icl_number *distances) {
    size_t nearest = 0;
    for (size_t i = 1; i < MOST_LAGS; i++)
        if (distances[i].value < distances[nearest].value)
            nearest = i;
    return nearest;
}

static void judge_partial(icl_study *study, const icl_study_cell *cell) {
    const icl_number *numbers = cell->numbers, *apart = numbers + PARTIAL_APART;
    const icl_number kalman = numbers[PARTIAL_KALMAN], second = numbers[PARTIAL_SECOND], first = numbers[PARTIAL_ABOVE];
    const size_t nearest = find_nearest(apart);
    const bool learns = cell->at[1] == CONVOLUTION || study->scale == ICL_SCALE_FULL;
    const icl_evidence inferred = learns ? evidence_of(study, ICL_INFERRED) : ICL_EVIDENCE_NONE;

    if (cell->at[0] == 0 && cell->at[1] == CONVOLUTION) {
        ICL_JUDGE(study, .what = "ridge .1 on the last observation", .quantity = "squared error",
                  .ours = numbers[PARTIAL_ONE_LAG].value, .target = numbers[PARTIAL_TASK_LAG].value,
                  .tolerance = 1e-6 * numbers[PARTIAL_TASK_LAG].value, .evidence = ICL_COMPUTED,
                  .source = "the task's own, on the same sequences");
        ICL_JUDGE(study, .what = "ridge .1 on one observation, above that on two", .quantity = "squared error, late",
                  ICL_OURS(second), .target = 4 * second.standard_error, .criterion = ICL_AT_LEAST,
                  .evidence = ICL_COMPUTED, .source = "two observations fix the state",
                  .note = ICL_PHRASE("on 1 to 4: %.4g, %.4g, %.4g, %.4g", numbers[PARTIAL_RULES].value,
                                     numbers[PARTIAL_RULES + 1].value, numbers[PARTIAL_RULES + 2].value,
                                     numbers[PARTIAL_RULES + 3].value));
    }
    ICL_JUDGE(study, .what = ICL_PHRASE("%s: Kalman filter less model", cell->name), .quantity = "squared error",
              ICL_OURS(kalman), .target = 0, .tolerance = 4 * kalman.standard_error, .criterion = ICL_AT_MOST,
              .evidence = ICL_COMPUTED, .source = "no predictor is below it",
              .note = ICL_PHRASE("model %.4g", numbers[PARTIAL_ALL].value));
    ICL_JUDGE(study, .what = ICL_PHRASE("%s: ridge on one observation less model", cell->name),
              .quantity = "squared error, late", ICL_OURS(first), .target = 4 * first.standard_error,
              .criterion = ICL_AT_LEAST, .evidence = inferred, .source = "it binds several observations",
              .note = ICL_PHRASE("model %.4g, ridge on two %.4g", numbers[PARTIAL_MODEL].value,
                                 numbers[PARTIAL_RULES + 1].value));
    ICL_JUDGE(study, .what = ICL_PHRASE("%s: observations of the nearest regression", cell->name),
              .quantity = "how many", .ours = (double)nearest + 1, .target = 2, .criterion = ICL_AT_LEAST,
              .evidence = inferred, .source = "it binds several observations",
              .note = ICL_PHRASE("distances to 1 to 4: %.4g, %.4g, %.4g, %.4g", apart[0].value, apart[1].value,
                                 apart[2].value, apart[3].value));
}

const icl_reproduction icl_mesa_partial =
    ICL_STUDY(.name = "mesa-partial", .source = "arXiv 2309.05858, partly observed systems",
              .about =
                  "a layer that binds tokens and a mesa layer on systems that are seen in part, beside regressions "
                  "on one to four observations",
              .claim = "On systems that are seen in part a trained model regresses on several observations at once.",
              .scope = "A met table means that a trained model is nearer to regressions on several observations "
                       "than on the last one; that it holds a state as the Kalman filter does was not shown, and "
                       "at scale ci no model is judged but by the floor.",
              .cost = {"1 s", "1 min", "2 h"}, .numbers = PARTIAL_NUMBERS, .plan = plan_partial,
              .measure = measure_partial, .judge = judge_partial);

/* ---- Pairs, which were never trained on ---- */

enum { STATE = 4, PAIRS = 20, MANY_PAIRS = 1000, MANY_SEQUENCES = 64, ALL_NEIGHBOURS = 0, PAIRS_ALONE, PAIR_RULES };

static const regression by_pairs[PAIR_RULES] = {{1, .1, false}, {1, .1, true}};

/* Squared errors at inputs, by pairs seen: of the model and of both rules. Then means over the last half: of the model,
 * its distance from both rules and the difference of these; and the first rule's after very many pairs. */
enum {
    PAIRS_MODEL = 0,
    PAIRS_RULES = PAIRS_MODEL + PAIRS,
    PAIRS_LATE = PAIRS_RULES + PAIR_RULES * PAIRS,
    PAIRS_APART,
    PAIRS_NEARER = PAIRS_APART + PAIR_RULES,
    PAIRS_FALL, /* the model's first error with a pair, less its last one */
    PAIRS_LIMIT,
    PAIRS_NUMBERS
};

static void plan_fewshot(icl_study *study) {
    add_cells(study, "pairs", ICL_PHRASE("task.hidden=%d task.positions=%d eval.predictors=", STATE, 2 * PAIRS), 0,
              budgets[study->scale].seeds);
}

/* Fills tokens [2 pairs][n] with x_1, y_1, x_2, …: y = W x. */
static void fill_pairs(icl_random_key key, uint64_t sequence, const float *transition, size_t pairs, float *tokens) {
    for (size_t k = 0; k < pairs; k++) {
        float *x = tokens + 2 * k * STATE, *y = x + STATE;
        for (size_t i = 0; i < STATE; i++)
            x[i] = icl_normal_from_word(icl_random_word(key, (sequence * pairs + k) * STATE + i));
        for (size_t i = 0; i < STATE; i++) {
            double sum = 0;
            for (size_t j = 0; j < STATE; j++)
                sum += (double)transition[i * STATE + j] * (double)x[j];
            y[i] = (float)sum;
        }
    }
}

/* Writes pairs by the transitions of the sequences into the chunk. */
static icl_status show_pairs(const icl_study *study, icl_sequences *drawn, uint64_t chunk, icl_error *error) {
    const icl_random_key key = {.seed = study->run->params->seed, .stream = PAIRS_STREAM, .step = chunk};
    float *transitions = NULL;

    ICL_CHECK(icl_study_read(study, icl_batch_side(&drawn->batch, ICL_SIDE_TRANSITION), &transitions, error));
    for (size_t i = 0; i < drawn->chunk; i++)
        fill_pairs(key, i, transitions + i * STATE * STATE, PAIRS, drawn->inputs + i * 2 * PAIRS * STATE);
    return icl_tensor_write(drawn->batch.inputs, drawn->inputs, error);
}

/* Measures the regression on all neighbours after very many pairs, as a mean over its last half. */
static icl_status measure_limit(const icl_study *study, const icl_task *task, icl_number *limit, icl_error *error) {
    enum { SIZE = 2 * MANY_PAIRS * STATE };
    const icl_random_key key = {.seed = study->run->params->seed, .stream = PAIRS_STREAM, .step = UINT64_MAX};
    float *tokens = NULL, *transitions = NULL;
    double *work = NULL, *errors = NULL;
    icl_batch batch;

    ICL_CHECK(icl_study_batch(study, task, MANY_SEQUENCES, 0, 0, &batch, error));
    ICL_CHECK(icl_study_read(study, icl_batch_side(&batch, ICL_SIDE_TRANSITION), &transitions, error));
    ICL_CHECK(icl_study_room(study, SIZE, sizeof *tokens, &tokens, error));
    ICL_CHECK(icl_study_room(study, count_work(STATE) + SIZE, sizeof *work, &work, error));
    ICL_CHECK(icl_study_room(study, MANY_SEQUENCES, sizeof *errors, &errors, error));
    for (size_t i = 0; i < MANY_SEQUENCES; i++) {
        double *outputs = work + count_work(STATE);
        fill_pairs(key, i, transitions + i * STATE * STATE, MANY_PAIRS, tokens);
        regress(&by_pairs[ALL_NEIGHBOURS], tokens, STATE, 2 * MANY_PAIRS, work, outputs);
        for (size_t t = MANY_PAIRS; t < 2 * MANY_PAIRS; t += 2)
            errors[i] += square_between(outputs + t * STATE, tokens + (t + 1) * STATE, STATE) / (MANY_PAIRS / 2.);
    }
    *limit = (icl_number){icl_mean(errors, MANY_SEQUENCES), icl_standard_error(errors, MANY_SEQUENCES)};
    return ICL_OK;
}

static icl_status measure_fewshot(icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                  icl_number *numbers, icl_error *error) {
    comparison all = {.sequences = budgets[study->scale].sequences};
    double *first = NULL;

    ICL_CHECK(compare(study, trained, by_pairs, PAIR_RULES, show_pairs, &all, error));
    for (size_t k = 0; k < PAIRS; k++) {
        numbers[PAIRS_MODEL + k] = mean_of(&all, all.model, NULL, 2 * k, 2 * k + 1, 1);
        for (size_t rule = 0; rule < PAIR_RULES; rule++)
            numbers[PAIRS_RULES + rule * PAIRS + k] = mean_of(&all, all.rules[rule], NULL, 2 * k, 2 * k + 1, 1);
    }
    numbers[PAIRS_LATE] = mean_of(&all, all.model, NULL, PAIRS, 2 * PAIRS, 2);
    for (size_t rule = 0; rule < PAIR_RULES; rule++)
        numbers[PAIRS_APART + rule] = mean_of(&all, all.apart[rule], NULL, PAIRS, 2 * PAIRS, 2);
    numbers[PAIRS_NEARER] = mean_of(&all, all.apart[PAIRS_ALONE], all.apart[ALL_NEIGHBOURS], PAIRS, 2 * PAIRS, 2);
    ICL_CHECK(icl_study_room(study, all.sequences, all.positions * sizeof *first, &first, error));
    for (size_t i = 0; i < all.sequences; i++)
        first[i * all.positions + 2 * PAIRS - 2] = all.model[i * all.positions + 2];
    numbers[PAIRS_FALL] = mean_of(&all, first, all.model, 2 * PAIRS - 2, 2 * PAIRS - 1, 1);
    return cell->at[0] == 0 ? measure_limit(study, icl_trainer_task(trained), &numbers[PAIRS_LIMIT], error) : ICL_OK;
}

static void judge_fewshot(icl_study *study, const icl_study_cell *cell) {
    const icl_number *numbers = cell->numbers, late = numbers[PAIRS_LATE], fall = numbers[PAIRS_FALL];
    const icl_number nearer = numbers[PAIRS_NEARER];

    if (cell->at[0] == 0)
        /* W^ errs by the noise of 2 N equations in n unknowns for each of n outputs: a share n / (2 N) of residuals. */
        ICL_JUDGE(study, .what = "regression on all neighbours, 500 to 1,000 pairs", .quantity = "squared error",
                  ICL_OURS(numbers[PAIRS_LIMIT]), .target = STATE / 4.,
                  .tolerance = STATE * STATE / (double)MANY_PAIRS + 4 * numbers[PAIRS_LIMIT].standard_error,
                  .evidence = ICL_COMPUTED, .source = "W^ tends to W / 2");
    ICL_JUDGE(study, .what = ICL_PHRASE("%s: from 1 to %d", cell->name, PAIRS - 1), .quantity = "fall of squared error",
              ICL_OURS(fall), .target = 4 * fall.standard_error, .criterion = ICL_AT_LEAST,
              .evidence = evidence_of(study, ICL_STATED), .source = "few-shot tasks at once, without training",
              .note = ICL_PHRASE("%.4g, %.4g after 1 and %d pairs", numbers[PAIRS_MODEL + 1].value,
                                 numbers[PAIRS_MODEL + PAIRS - 1].value, PAIRS - 1));
    ICL_JUDGE(study, .what = ICL_PHRASE("%s: 10 to 19", cell->name), .quantity = "squared error, predicting 0: 4",
              ICL_OURS(late), .target = STATE - 4 * late.standard_error, .criterion = ICL_AT_MOST,
              .evidence = evidence_of(study, ICL_STATED), .source = "few-shot tasks at once, without training",
              .note = ICL_PHRASE("regression on all neighbours %.4g, on pairs alone %.4g after 19",
                                 numbers[PAIRS_RULES + PAIRS - 1].value, numbers[PAIRS_RULES + 2 * PAIRS - 1].value));
    ICL_JUDGE(study, .what = ICL_PHRASE("%s: nearer to all neighbours than to pairs alone", cell->name),
              .quantity = "difference of distances", ICL_OURS(nearer), .target = 4 * nearer.standard_error,
              .criterion = ICL_AT_LEAST, .evidence = evidence_of(study, ICL_INFERRED),
              .source = "it goes on with its regression on all neighbours",
              .note = ICL_PHRASE("%.4g and %.4g", numbers[PAIRS_APART].value, numbers[PAIRS_APART + 1].value));
}

static void conclude_fewshot(icl_study *study) {
    icl_curves curves = ICL_CURVES(.name = "mesa-fewshot", .title = "A model of series shown pairs",
                                   .x_label = "pairs seen", .y_label = "squared error; predicting 0: 4");

    for (size_t i = 0; i < study->count; i++)
        for (size_t k = 0; k < PAIRS && study->cells[i]->is_measured; k++) {
            const icl_number *numbers = study->cells[i]->numbers;
            icl_study_plot(study, &curves, "model", ICL_SERIES_OURS, (double)k, numbers[PAIRS_MODEL + k].value);
            icl_study_plot(study, &curves, "regression on all neighbours", ICL_SERIES_REFERENCE, (double)k,
                           numbers[PAIRS_RULES + k].value);
            icl_study_plot(study, &curves, "regression on pairs alone", ICL_SERIES_REFERENCE, (double)k,
                           numbers[PAIRS_RULES + PAIRS + k].value);
        }
    icl_study_draw(study, &curves);
}

const icl_reproduction icl_mesa_fewshot =
    ICL_STUDY(.name = "mesa-fewshot", .source = "arXiv 2309.05858, few-shot tasks",
              .about = "a model trained on dynamical systems, shown pairs of a linear map that it was never trained on",
              .claim = "What a model learned of series solves few-shot regression without further training.",
              .scope = "A met table means that a model of series gets better from pair to pair on maps that it "
                       "was never trained on; few-shot tasks of language were not tested, and at scale ci no "
                       "model is judged.",
              .cost = {"1 s", "1 min", "2 h"}, .numbers = PAIRS_NUMBERS, .plan = plan_fewshot,
              .measure = measure_fewshot, .judge = judge_fewshot, .conclude = conclude_fewshot);
