/*
 * Which algorithm a transformer is nearest to: Akyurek, Schuurmans, Andreas, Ma, Zhou 2022, "What learning algorithm is
 * in-context learning? Investigations with linear models" (arXiv 2211.15661), the figures of squared prediction
 * distances and of implied weights, by position, depth, width and label noise.
 *
 * Linear functions, x, w ~ N(0, I_d), a label at every position. Rows that compare only algorithms have closed forms,
 * with S = X^T X of k pairs and without noise:
 *
 *     gradient step, least squares    min(k, d) / d - k / (k + d + 1), of predictions and of weights alike
 *     least squares, f(x)             1 - k / d, then 0
 *     ridge, least squares            E sum over s > 0 of (penalty / (s + penalty))^2 / d, s the eigenvalues of S
 *
 * A model is judged by identities that hold for every predictor: its distance to the posterior mean is its loss minus
 * the least loss, and its distance to a linear predictor is that of the weights plus the part that no linear function
 * explains. Which algorithm it is nearest to follows from what the paper says: a gradient step for one layer, least
 * squares for deep models without noise, with noise sigma the ridge of penalty sigma^2. The paper prints no tables.
 * Distances are over d.
 */
#include <math.h>
#include <string.h>

#include "papers/algorithms/algorithms.h"
#include "papers/papers.h"

#define SOURCE_OF_PHASES "depth phases"

static const icl_algorithm rows[] = {
    {"gradient step", 1, 0}, {"2 gradient steps", 2, 0}, {"ridge 1/16", 0, .0625}, {"ridge 1/4", 0, .25},
    {"ridge 1/2", 0, .5},    {"ridge 1", 0, 1},          {"ridge 2", 0, 2},        {"ridge 4", 0, 4},
    {"ridge 8", 0, 8},       {"ridge 16", 0, 16},        {"least squares", 0, 0},
};
enum {
    ROWS = sizeof rows / sizeof *rows,
    STEP = 0,
    TWO_STEPS,
    FIRST_RIDGE,
    QUARTER,
    ONE = 5,
    LEAST_SQUARES = ROWS - 1
};

/* The algorithms that figures show. */
static const size_t drawn[] = {STEP, TWO_STEPS, QUARTER, ONE, LEAST_SQUARES};
enum { DRAWN = sizeof drawn / sizeof *drawn };

/* ---- Cells ---- */

/* A model, and the figures that it is in. */
typedef struct model_cell {
    icl_scale scale; /* scale at which it is trained */
    const char *name;
    size_t layers, width;
    double noise;
    bool by_depth, by_width;
} model_cell;

/* Cells by depth stand in the order of layers. At scale ci models hardly learn: it checks only what holds for every
 * predictor. At scale short the largest noise is 1, because two layers with noise 2 are then worse than a gradient
 * step. */
static const model_cell models[] = {{ICL_SCALE_CI, "L1", 1, 16, 0, true, true},
                                    {ICL_SCALE_CI, "L2", 2, 8, 0, true, true},
                                    {ICL_SCALE_CI, "L1-noise0.5", 1, 16, .5, false, false},
                                    {ICL_SCALE_SHORT, "L1", 1, 64, 0, true, false},
                                    {ICL_SCALE_SHORT, "L2", 2, 64, 0, true, true},
                                    {ICL_SCALE_SHORT, "L3", 3, 64, 0, true, false},
                                    {ICL_SCALE_SHORT, "L2-noise1", 2, 64, 1, false, false},
                                    {ICL_SCALE_SHORT, "L2-width16", 2, 16, 0, false, true},
                                    {ICL_SCALE_FULL, "L1", 1, 512, 0, true, false},
                                    {ICL_SCALE_FULL, "L2", 2, 512, 0, true, false},
                                    {ICL_SCALE_FULL, "L4", 4, 512, 0, true, false},
                                    {ICL_SCALE_FULL, "L8", 8, 512, 0, true, false},
                                    {ICL_SCALE_FULL, "L16", 16, 512, 0, true, true},
                                    {ICL_SCALE_FULL, "L16-width16", 16, 16, 0, false, true},
                                    {ICL_SCALE_FULL, "L16-width32", 16, 32, 0, false, true},
                                    {ICL_SCALE_FULL, "L16-width128", 16, 128, 0, false, true},
                                    {ICL_SCALE_FULL, "L16-noise0.5", 16, 512, .5, false, false},
                                    {ICL_SCALE_FULL, "L16-noise1", 16, 512, 1, false, false}};

#define FULL "task.d=8 task.n=40 model.heads=4 train.learning_rate=0.0001 train.schedule=cosine train.warmup=100000"

static const struct {
    size_t dimension, pairs, steps, sequences, prompts, probes;
    const char *common;
} settings[ICL_SCALES] = {
    {3, 6, 150, 4000, 128, 32, "task.d=3 task.n=6 train.warmup=20"},
    {5, 10, 5000, 10000, 256, 32, "train.warmup=500"},
    {8, 40, 500000, 10000, 256, 64, FULL},
};

/* The first cell, with at[0] = 0, also judges the rows that compare only algorithms. */
static void plan(icl_study *study) {
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const model_cell *cell = &models[i];
        if (cell->scale == study->scale)
            ICL_ADD_CELL(
                study, .name = cell->name, .data = cell, .at = {study->count}, .recipe = "garg",
                .seed = icl_study_seed(study, 0),
                .settings = {settings[study->scale].common,
                             ICL_PHRASE("model.layers=%zu model.width=%zu task.noise=fixed:%g train.steps=%zu",
                                        cell->layers, cell->width, cell->noise, settings[study->scale].steps)});
    }
}

/* ---- Numbers ---- */

enum { FIRST_ALGORITHM = ICL_COLUMN_ALGORITHMS, COLUMN_OF_SQUARES = FIRST_ALGORITHM + LEAST_SQUARES };

/* Distances that are judged at every k against their expected values, between two columns (except those of weights);
 * the last one for every model by depth, the others only for the first model. */
enum { STEP_PAIR = 0, TARGET_PAIR, RIDGE_PAIR, WEIGHTS_PAIR, NEIGHBOURS_PAIR, MODEL_PAIR, PAIRS };
static const struct {
    const char *what, *source; /* NULL: of the model */
    size_t a, b;
} judged[PAIRS] = {
    {"gradient step to least squares", "closed form", FIRST_ALGORITHM + STEP, COLUMN_OF_SQUARES},
    {"least squares to f(x)", "closed form", COLUMN_OF_SQUARES, ICL_COLUMN_TARGET},
    {"ridge 1 to least squares", "eigenvalues of samples", FIRST_ALGORITHM + ONE, COLUMN_OF_SQUARES},
    {"weights, gradient step to least squares", "closed form", 0, 0},
    {"3 nearest inputs to ridge 1", "implied weights and residual", ICL_COLUMN_NEIGHBOURS, FIRST_ALGORITHM + ONE},
    {NULL, "implied weights and residual", ICL_COLUMN_MODEL, FIRST_ALGORITHM + ONE},
};

/* Distances are over d. Curves by pairs k are [MOST_PAIRS + 1], without k = 0. */
enum {
    MOST_PAIRS = 40,
    POINTS = MOST_PAIRS + 1,
    MEAN = 0,                       /* [ROWS] distance of the model to each, over k = 1 ... n */
    NEARER = MEAN + ROWS,           /* [ROWS] the same minus the distance to least squares, by sequences */
    SQUARES_NEARER = NEARER + ROWS, /* distance to least squares minus that to a gradient step */
    EXCESS,                         /* distance of the model, and of a gradient step, to the posterior mean, */
    GAP = EXCESS + 2,               /* and the same minus their excess loss */
    OURS = GAP + 2,                 /* [PAIRS][POINTS] */
    EXPECTED = OURS + PAIRS * POINTS,
    PREDICTIONS = EXPECTED + PAIRS * POINTS,   /* [DRAWN][POINTS] distances of predictions */
    NEIGHBOURS = PREDICTIONS + DRAWN * POINTS, /* [POINTS] those to the mean of the three nearest inputs */
    WEIGHTS = NEIGHBOURS + POINTS,             /* [DRAWN][POINTS] distances of implied weights */
    BENT = WEIGHTS + DRAWN * POINTS,           /* [POINTS] the share of the model that is not linear in x */
    BENT_NEIGHBOURS = BENT + POINTS,
    LINEAR = BENT_NEIGHBOURS + POINTS, /* the share of the model that is linear in x, after n pairs */
    LINEAR_NEIGHBOURS,
    NUMBERS
};

typedef struct comparison {
    const icl_study *study;
    icl_predicted predicted;
    icl_weights_at weights[POINTS];
} comparison;

/* Computes a sum of distances over the pairs from `first` to `last`. */
static icl_status combine(const comparison *state, const icl_term *terms, size_t count, size_t first, size_t last,
                          icl_number *sum, icl_error *error) {
    return icl_predicted_distance(&state->predicted, terms, count, first, last,
                                  (double)settings[state->study->scale].dimension, sum, error);
}

static icl_status distance(const comparison *state, size_t a, size_t b, size_t first, size_t last, icl_number *found,
                           icl_error *error) {
    return combine(state, &(icl_term){1, a, b}, 1, first, last, found, error);
}

/* Measures how much nearer the model is to one algorithm than to another, over all pairs. */
static icl_status compare_distances(const comparison *state, size_t near, size_t far, icl_number *found,
                                    icl_error *error) {
    const icl_term terms[] = {{1, ICL_COLUMN_MODEL, FIRST_ALGORITHM + near},
                              {-1, ICL_COLUMN_MODEL, FIRST_ALGORITHM + far}};

    return combine(state, terms, 2, 1, settings[state->study->scale].pairs, found, error);
}

/* Returns the posterior mean's row. */
static size_t find_bayes(const model_cell *cell) {
    for (size_t row = FIRST_RIDGE; row < ROWS; row++)
        if (rows[row].penalty == cell->noise * cell->noise)
            return row;
    return LEAST_SQUARES;
}

/* Measures both sides of E (A - B)^2 = E (A - f)^2 - E (B - f)^2 for the posterior mean B of f. */
static icl_status measure_posterior(const comparison *state, const model_cell *cell, icl_number *numbers,
                                    icl_error *error) {
    const size_t bayes = FIRST_ALGORITHM + find_bayes(cell), pairs = settings[state->study->scale].pairs;
    const size_t predictors[2] = {ICL_COLUMN_MODEL, FIRST_ALGORITHM + STEP};

    for (size_t i = 0; i < 2; i++) {
        const size_t own = predictors[i];
        const icl_term terms[] = {{1, own, bayes}, {1, bayes, ICL_COLUMN_TARGET}, {-1, own, ICL_COLUMN_TARGET}};
        ICL_CHECK(combine(state, terms, 3, 1, pairs, &numbers[GAP + i], error));
        ICL_CHECK(distance(state, own, bayes, 1, pairs, &numbers[EXCESS + i], error));
    }
    return ICL_OK;
}

static double ridge_from_least_squares(const void *user, size_t d, const double *eigenvalues) {
    const double penalty = *(const double *)user;
    double sum = 0;
    for (size_t i = 0; i < d; i++)
        sum += eigenvalues[i] > 1e-9 ? pow(penalty / (eigenvalues[i] + penalty), 2) : 0;
    return sum / (double)d;
}

/* Computes the expected distances of algorithms after k pairs: closed forms, and means over sampled spectra. */
static icl_status expect_algorithms(const icl_study *study, size_t k, icl_number *expected, icl_error *error) {
    enum { SAMPLES = 4000 };
    const size_t d = settings[study->scale].dimension;
    const double known = fmin((double)k, (double)d) / (double)d, penalty = 1 / (double)k; /* of S / k */
    icl_number *const ridge = &expected[RIDGE_PAIR * POINTS + k];

    expected[STEP_PAIR * POINTS + k].value = known - (double)k / (double)(k + d + 1);
    expected[WEIGHTS_PAIR * POINTS + k].value = known - (double)k / (double)(k + d + 1);
    expected[TARGET_PAIR * POINTS + k].value = 1 - known;
    return icl_wishart_mean(d, k, study->run->params->seed, SAMPLES, ridge_from_least_squares, &penalty, &ridge->value,
                            &ridge->standard_error, error);
}

/* Computes E (f - <w_A, x>)^2 = |w - w_A|^2 + the residual of f's own linear function w: prompts against probes after
 * prompts. */
static icl_number expect_distance(const icl_implied_at *implied) {
    const icl_number ridge = implied->distances[ONE], residual = implied->residual;

    return (icl_number){ridge.value + residual.value, hypot(ridge.standard_error, residual.standard_error)};
}

/* Measures the numbers for judgements and figures after k pairs. */
static icl_status measure_pairs(const comparison *state, size_t k, icl_number *numbers, icl_error *error) {
    const icl_weights_at *weights = &state->weights[k];

    for (size_t i = 0; i < PAIRS; i++)
        ICL_CHECK(distance(state, judged[i].a, judged[i].b, k, k, &numbers[OURS + i * POINTS + k], error));
    numbers[OURS + WEIGHTS_PAIR * POINTS + k] = weights->between;
    numbers[EXPECTED + NEIGHBOURS_PAIR * POINTS + k] = expect_distance(&weights->neighbours);
    numbers[EXPECTED + MODEL_PAIR * POINTS + k] = expect_distance(&weights->model);
    for (size_t i = 0; i < DRAWN; i++) {
        ICL_CHECK(distance(state, ICL_COLUMN_MODEL, FIRST_ALGORITHM + drawn[i], k, k,
                           &numbers[PREDICTIONS + i * POINTS + k], error));
        numbers[WEIGHTS + i * POINTS + k].value = weights->model.distances[drawn[i]].value;
    }
    numbers[LINEAR].value = weights->model.linear;
    numbers[LINEAR_NEIGHBOURS].value = weights->neighbours.linear;
    numbers[BENT + k].value = 1 - weights->model.linear;
    numbers[BENT_NEIGHBOURS + k].value = 1 - weights->neighbours.linear;
    return distance(state, ICL_COLUMN_MODEL, ICL_COLUMN_NEIGHBOURS, k, k, &numbers[NEIGHBOURS + k], error);
}

static icl_status fill_numbers(const comparison *state, const icl_study_cell *cell, icl_number *numbers,
                               icl_error *error) {
    const model_cell *data = cell->data;
    const size_t pairs = settings[state->study->scale].pairs;

    for (size_t row = 0; row < ROWS; row++) {
        ICL_CHECK(distance(state, ICL_COLUMN_MODEL, FIRST_ALGORITHM + row, 1, pairs, &numbers[MEAN + row], error));
        ICL_CHECK(compare_distances(state, row, LEAST_SQUARES, &numbers[NEARER + row], error));
    }
    ICL_CHECK(compare_distances(state, LEAST_SQUARES, STEP, &numbers[SQUARES_NEARER], error));
    ICL_CHECK(measure_posterior(state, data, numbers, error));
    for (size_t k = 1; data->by_depth && k <= pairs; k++) {
        ICL_CHECK(measure_pairs(state, k, numbers, error));
        if (cell->at[0] == 0)
            ICL_CHECK(expect_algorithms(state->study, k, numbers + EXPECTED, error));
    }
    return ICL_OK;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    const model_cell *data = cell->data;
    const size_t d = settings[study->scale].dimension, pairs = settings[study->scale].pairs;
    comparison *state = NULL;
    icl_algorithms algorithms = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_study_room(study, 1, sizeof *state, &state, error));
    state->study = study;
    ICL_TRY(icl_algorithms_create(rows, ROWS, d, pairs, data->noise * data->noise, &algorithms, error));
    ICL_TRY(icl_algorithms_predict(study, trained, &algorithms, settings[study->scale].sequences, &state->predicted,
                                   error));
    if (data->by_depth)
        ICL_TRY(icl_algorithms_probe(study, trained, &algorithms, settings[study->scale].prompts,
                                     settings[study->scale].probes, state->weights, error));
    ICL_TRY(fill_numbers(state, cell, numbers, error));
done:
    icl_algorithms_release(&algorithms);
    return status;
}

/* ---- What holds for every predictor ---- */

/* Judges the position at which ours is farthest from the expected value, in standard errors of both. If these are 0,
 * the difference is rounding. */
static void judge_farthest(icl_study *study, const icl_study_cell *cell, size_t pair) {
    const icl_number *ours = cell->numbers + OURS + pair * POINTS;
    const icl_number *expected = cell->numbers + EXPECTED + pair * POINTS;
    const char *what = judged[pair].what;
    double worst = 0;
    size_t farthest = 1;

    for (size_t k = 1; k <= settings[study->scale].pairs; k++) {
        const double error_of_both = hypot(ours[k].standard_error, expected[k].standard_error);
        const double gap = fabs(ours[k].value - expected[k].value) / fmax(error_of_both, 1e-7);
        if (!(gap <= worst)) {
            worst = gap;
            farthest = k;
        }
    }
    ICL_JUDGE(study, .what = what ? what : ICL_PHRASE("%s to ridge 1", cell->name),
              .quantity = "farthest from expected, standard errors", .ours = worst, .target = 0, .tolerance = 4,
              .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED, .source = judged[pair].source,
              .note =
                  ICL_PHRASE("k = %zu: %.4g beside %.4g", farthest, ours[farthest].value, expected[farthest].value));
}

static void judge_posterior(icl_study *study, const icl_study_cell *cell, const char *who, size_t number) {
    const icl_number gap = cell->numbers[GAP + number];

    ICL_JUDGE(study, .what = ICL_PHRASE("%s, %s: distance to the posterior mean", cell->name, who),
              .quantity = "less its excess loss", ICL_OURS(gap), .target = 0, .tolerance = 4 * gap.standard_error,
              .evidence = ICL_COMPUTED, .source = "orthogonality",
              .note = ICL_PHRASE("of %.4g", cell->numbers[EXCESS + number].value));
}

/* ---- Which algorithm it is nearest to ---- */

/* Returns the nearest of the rows from `first` to before `end`. */
static size_t find_nearest(const icl_study_cell *cell, size_t first, size_t end) {
    const icl_number *mean = cell->numbers + MEAN;
    size_t nearest = first;

    for (size_t row = first; row < end; row++)
        if (mean[row].value < mean[nearest].value)
            nearest = row;
    return nearest;
}

static void show_distance(icl_study *study, const icl_study_cell *cell, size_t row) {
    const bool is_printed = study->scale == ICL_SCALE_FULL && row == LEAST_SQUARES && strcmp(cell->name, "L16") == 0;

    ICL_JUDGE(study, .what = ICL_PHRASE("%s, to %s", cell->name, rows[row].name),
              .quantity = "distance / d, mean over k", ICL_OURS(cell->numbers[MEAN + row]),
              .target = .01 / (double)settings[study->scale].dimension, .criterion = ICL_AT_MOST,
              .evidence = is_printed ? ICL_READ : ICL_EVIDENCE_NONE, .source = is_printed ? "below .01 in all" : NULL,
              .note = ICL_PHRASE("nearest: %s", rows[find_nearest(cell, 0, ROWS)].name));
}

/* Judges whether the model is nearer to one algorithm than to another, by two standard errors of the difference. */
static void judge_nearer(icl_study *study, const icl_study_cell *cell, size_t near, size_t far) {
    const icl_number gap = cell->numbers[near == LEAST_SQUARES ? SQUARES_NEARER : NEARER + near];

    ICL_JUDGE(study, .what = ICL_PHRASE("%s, nearer to %s than %s", cell->name, rows[near].name, rows[far].name),
              .quantity = "difference of distances / d", ICL_OURS(gap), .target = -2 * gap.standard_error,
              .criterion = ICL_AT_MOST, .evidence = study->scale != ICL_SCALE_CI ? ICL_INFERRED : ICL_EVIDENCE_NONE,
              .source = SOURCE_OF_PHASES);
}

/* Judges the phase by depth: one layer is nearer to a gradient step than to least squares, two to four layers are
 * nearer to a ridge than to least squares, and three or more are nearer to least squares than to a gradient step. */
static void judge_phase(icl_study *study, const icl_study_cell *cell, size_t layers) {
    if (layers == 1)
        judge_nearer(study, cell, STEP, LEAST_SQUARES);
    if (layers > 1 && layers <= 4)
        judge_nearer(study, cell, find_nearest(cell, FIRST_RIDGE, LEAST_SQUARES), LEAST_SQUARES);
    if (layers >= 3)
        judge_nearer(study, cell, LEAST_SQUARES, STEP);
}

/* With noise the nearest ridge is the posterior mean. A model that has not learned everything shrinks its predictions,
 * as a larger penalty does: at scale short, with two layers and few steps, the next penalty on either side is accepted,
 * a factor of 2. */
static void judge_penalty(icl_study *study, const icl_study_cell *cell, double noise) {
    const size_t nearest = find_nearest(cell, FIRST_RIDGE, ROWS);

    ICL_JUDGE(study, .what = ICL_PHRASE("%s, nearest ridge", cell->name), .quantity = "log2 of penalty / sigma^2",
              .ours = log2(rows[nearest].penalty / (noise * noise)), .target = 0,
              .tolerance = study->scale == ICL_SCALE_SHORT ? 1 : 0,
              .evidence = study->scale == ICL_SCALE_CI ? ICL_EVIDENCE_NONE : ICL_INFERRED, .source = "posterior mean",
              .note = ICL_PHRASE("%s, at a distance of %.4g", rows[nearest].name, cell->numbers[MEAN + nearest].value));
}

/* ---- One model ---- */

/* Plots a curve by labelled pairs k, from 1 on. */
static void plot_by_pairs(icl_study *study, icl_curves *curves, const char *label, icl_series_style style,
                          const icl_number *values) {
    for (size_t k = 1; k <= settings[study->scale].pairs; k++)
        icl_study_plot(study, curves, label, style, (double)k, values[k].value);
}

static void draw_by_pairs(icl_study *study, const icl_study_cell *cell, bool shows_weights) {
    const icl_phrase figure = icl_phrase_print("algorithms-%s-%s", shows_weights ? "weights" : "distance", cell->name);
    const icl_phrase title = icl_phrase_print("%s: %s by labelled pairs", cell->name,
                                              shows_weights ? "implied weights" : "distance to algorithms");
    icl_curves curves = ICL_CURVES(.name = figure.text, .title = title.text, .x_label = "labelled pairs k",
                                   .y_label = shows_weights ? "|w - w_A|^2 / d, or a share" : "mean (A - B)^2 / d",
                                   .log_y = true, .least_y = 1e-3);

    for (size_t i = 0; i < DRAWN; i++)
        plot_by_pairs(study, &curves, rows[drawn[i]].name, ICL_SERIES_OURS,
                      cell->numbers + (shows_weights ? WEIGHTS : PREDICTIONS) + i * POINTS);
    if (shows_weights) {
        plot_by_pairs(study, &curves, "not linear: 3 nearest inputs", ICL_SERIES_REFERENCE,
                      cell->numbers + BENT_NEIGHBOURS);
        plot_by_pairs(study, &curves, "not linear: model", ICL_SERIES_REFERENCE, cell->numbers + BENT);
    } else {
        plot_by_pairs(study, &curves, "3 nearest inputs", ICL_SERIES_REFERENCE, cell->numbers + NEIGHBOURS);
    }
    icl_study_draw(study, &curves);
}

static void judge_depth(icl_study *study, const icl_study_cell *cell) {
    const model_cell *data = cell->data;
    const size_t pairs = settings[study->scale].pairs;

    judge_phase(study, cell, data->layers);
    judge_farthest(study, cell, MODEL_PAIR);
    ICL_JUDGE(study, .what = ICL_PHRASE("%s, after %zu pairs", cell->name, pairs), .quantity = "share linear in x",
              ICL_OURS(cell->numbers[LINEAR]),
              .note = ICL_PHRASE("3 nearest inputs: %.4g", cell->numbers[LINEAR_NEIGHBOURS].value));
    draw_by_pairs(study, cell, false);
    draw_by_pairs(study, cell, true);
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    const model_cell *data = cell->data;

    for (size_t i = 0; cell->at[0] == 0 && i < MODEL_PAIR; i++)
        judge_farthest(study, cell, i);
    judge_posterior(study, cell, "model", 0);
    if (data->noise > 0) {
        judge_posterior(study, cell, "gradient step", 1);
        judge_penalty(study, cell, data->noise);
        return;
    }
    show_distance(study, cell, STEP);
    show_distance(study, cell, LEAST_SQUARES);
    if (data->by_depth)
        judge_depth(study, cell);
}

/* ---- All models ---- */

/* Judges that distances to least squares fall with depth. */
static void judge_deeper(icl_study *study, const icl_study_cell *cell, const icl_study_cell *deeper) {
    const icl_number ours = cell->numbers[MEAN + LEAST_SQUARES], next = deeper->numbers[MEAN + LEAST_SQUARES];
    const double own = hypot(ours.standard_error, next.standard_error);
    const bool is_judged = study->scale != ICL_SCALE_CI;

    ICL_JUDGE(study, .what = ICL_PHRASE("%s above %s, by depth", cell->name, deeper->name),
              .quantity = "distance / d to least squares", .ours = ours.value - next.value, .standard_error = own,
              .target = 2 * own, .criterion = ICL_AT_LEAST, .evidence = is_judged ? ICL_INFERRED : ICL_EVIDENCE_NONE,
              .source = SOURCE_OF_PHASES,
              .note = ICL_PHRASE("%s less %s%s", cell->name, deeper->name,
                                 is_judged ? "" : "; no verdict: models of this scale hardly learn"));
}

static void add_means(icl_study *study, const icl_study_cell *cell, icl_curves *curves, double x) {
    for (size_t i = 0; i < DRAWN; i++)
        icl_study_plot(study, curves, rows[drawn[i]].name, ICL_SERIES_OURS, x, cell->numbers[MEAN + drawn[i]].value);
}

static void add_penalties(icl_study *study, const icl_study_cell *cell, icl_curves *curves, double noise) {
    for (size_t row = FIRST_RIDGE; row < LEAST_SQUARES; row++)
        icl_study_plot(study, curves, ICL_PHRASE("noise %g", noise), ICL_SERIES_OURS, rows[row].penalty,
                       cell->numbers[MEAN + row].value);
}

static const icl_figure figures[] = {
    {"algorithms-distance-depth", "Distance to algorithms by depth, without noise", "layers", "mean (A - B)^2 / d",
     .log_y = true},
    {"algorithms-distance-width", "Distance to algorithms by width, without noise", "width", "mean (A - B)^2 / d",
     .log_x = true, .log_y = true},
    {"algorithms-distance-penalty", "With noise: distance to ridge regressions", "penalty", "mean (A - B)^2 / d",
     .log_x = true, .log_y = true},
};
enum { BY_DEPTH = 0, BY_WIDTH, BY_PENALTY, FIGURES };

static void conclude(icl_study *study) {
    icl_curves curves[FIGURES] = {{.figure = figures[0]}, {.figure = figures[1]}, {.figure = figures[2]}};
    const icl_study_cell *shallower = NULL;

    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i];
        const model_cell *data = cell->data;
        if (data->by_depth && shallower && shallower->is_measured && cell->is_measured)
            judge_deeper(study, shallower, cell);
        shallower = data->by_depth ? cell : shallower;
        if (!cell->is_measured)
            continue;
        if (data->by_depth)
            add_means(study, cell, &curves[BY_DEPTH], (double)data->layers);
        if (data->by_width)
            add_means(study, cell, &curves[BY_WIDTH], (double)data->width);
        if (data->noise > 0)
            add_penalties(study, cell, &curves[BY_PENALTY], data->noise);
    }
    for (size_t i = 0; i < FIGURES; i++)
        icl_study_draw(study, &curves[i]);
}

const icl_reproduction icl_algorithms_distance = ICL_STUDY(
        .name = "algorithms-distance", .source = "arXiv 2211.15661",
        .about =
            "a transformer's distance to gradient descent, ridge and least squares, by position, depth, width, noise",
        .claim =
            "Transformers on linear functions go from a gradient step to ridge and least squares with depth and noise.",
        .scope = "A met table means that distances between algorithms are the closed forms, and above "
                 "scale ci that depth and noise order models as the paper says; that a model runs the "
                 "algorithm which it is near to was not shown.",
        .cost = {"3 s", "5 min", "weeks"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
        .conclude = conclude);
