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

#include "core/allocate.h"
#include "iclab/descent_optimum.h"
#include "iclab/random.h"
#include "numeric/statistics.h"
#include "papers/algorithms/algorithms.h"
#include "papers/papers.h"
#include "run/evaluation.h"
#include "task/function_classes/family.h"

/* ---- Linear algorithms ---- */

static double *lengths_of(const icl_algorithms *algorithms, size_t k, size_t row) {
    return algorithms->lengths + (k * algorithms->count + row) * ICL_ALGORITHM_MOST_STEPS;
}

static icl_status find_lengths(icl_algorithms *algorithms, size_t k, double noise_variance, icl_error *error) {
    for (size_t row = 0; row < algorithms->count; row++) {
        const icl_descent_problem problem = {.dimension = algorithms->dimension,
                                             .context = k,
                                             .steps = algorithms->rows[row].steps,
                                             .noise_variance = noise_variance};
        double *lengths = lengths_of(algorithms, k, row);
        if (problem.steps > 0)
            ICL_CHECK(icl_descent_optimum(&problem, lengths, NULL, error));
        for (size_t t = 0; t < problem.steps; t++)
            lengths[t] /= (double)k;
    }
    return ICL_OK;
}

icl_status icl_algorithms_create(const icl_algorithm *rows, size_t count, size_t dimension, size_t pairs,
                                 double noise_variance, icl_algorithms *algorithms, icl_error *error) {
    *algorithms = (icl_algorithms){.rows = rows, .count = count, .dimension = dimension, .pairs = pairs};
    ICL_CHECK(icl_allocate(pairs + 1, sizeof *algorithms->spectra, "spectra", &algorithms->spectra, error));
    ICL_CHECK(icl_allocate((pairs + 1) * count, ICL_ALGORITHM_MOST_STEPS * sizeof *algorithms->lengths, "step lengths",
                           &algorithms->lengths, error));
    ICL_CHECK(
        icl_allocate(pairs + 1, (dimension + 1) * sizeof *algorithms->tokens, "pairs", &algorithms->tokens, error));
    ICL_CHECK(icl_allocate(dimension, sizeof *algorithms->filter, "a filter", &algorithms->filter, error));
    for (size_t k = 1; k <= pairs; k++) {
        ICL_CHECK(icl_spectrum_create(dimension, k, NULL, &algorithms->spectra[k], error));
        ICL_CHECK(find_lengths(algorithms, k, noise_variance, error));
    }
    return ICL_OK;
}

void icl_algorithms_release(icl_algorithms *algorithms) {
    for (size_t k = 0; k <= algorithms->pairs && algorithms->spectra; k++)
        icl_spectrum_destroy(&algorithms->spectra[k]);
    icl_free(&algorithms->spectra);
    icl_free(&algorithms->lengths);
    icl_free(&algorithms->tokens);
    icl_free(&algorithms->filter);
}

/* (1 - prod_t (1 - a_t lambda)) / lambda; if lambda is 0, the products with it are 0, too. */
static void fill_filter(const icl_algorithms *algorithms, size_t k, size_t row) {
    const double *eigenvalues = algorithms->spectra[k].eigenvalues, *lengths = lengths_of(algorithms, k, row);

    if (algorithms->rows[row].steps == 0)
        icl_ridge_filter(eigenvalues, algorithms->dimension, algorithms->rows[row].penalty, algorithms->filter);
    for (size_t i = 0; i < algorithms->dimension && algorithms->rows[row].steps > 0; i++) {
        double left = 1;
        for (size_t t = 0; t < algorithms->rows[row].steps; t++)
            left *= 1 - lengths[t] * eigenvalues[i];
        algorithms->filter[i] = eigenvalues[i] > 0 ? (1 - left) / eigenvalues[i] : 0;
    }
}

void icl_algorithms_weights(icl_algorithms *algorithms, size_t k, const float *inputs, const float *labels,
                            size_t stride, double *weights) {
    const size_t d = algorithms->dimension;

    memset(algorithms->tokens, 0, (k + 1) * (d + 1) * sizeof *algorithms->tokens);
    for (size_t i = 0; i < k; i++) {
        memcpy(algorithms->tokens + i * (d + 1), inputs + i * stride, d * sizeof *inputs);
        algorithms->tokens[i * (d + 1) + d] = labels[i * stride];
    }
    icl_spectrum_compute(&algorithms->spectra[k], algorithms->tokens);
    for (size_t row = 0; row < algorithms->count; row++) {
        fill_filter(algorithms, k, row);
        icl_spectrum_weights(&algorithms->spectra[k], algorithms->filter, weights + row * d);
    }
}

/* ---- Distances ---- */

icl_status icl_predicted_distance(const icl_predicted *predicted, const icl_term *terms, size_t count, size_t first,
                                  size_t last, double unit, icl_number *distance, icl_error *error) {
    double *sums = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(predicted->sequences, sizeof *sums, "distances", &sums, error));
    for (size_t i = 0; i < predicted->sequences; i++) {
        for (size_t k = first; k <= last; k++) {
            const double *values = predicted->values + (i * predicted->positions + k) * predicted->count;
            for (size_t t = 0; t < count; t++) {
                const double between = values[terms[t].a] - values[terms[t].b];
                sums[i] += terms[t].factor * between * between;
            }
        }
        sums[i] /= unit * (double)(last - first + 1);
    }
    *distance = (icl_number){icl_mean(sums, predicted->sequences), icl_standard_error(sums, predicted->sequences)};
done:
    icl_free(&sums);
    return status;
}

/* ---- Implied weights ---- */

icl_implied icl_implied_weights(icl_spectrum *probes, const float *tokens, double *weights) {
    const double count = (double)probes->context;

    icl_spectrum_compute(probes, tokens);
    icl_ridge_filter(probes->eigenvalues, probes->dimension, 0, probes->vector);
    icl_spectrum_weights(probes, probes->vector, weights);
    return (icl_implied){.square = probes->label_square / count,
                         .residual = probes->residual / count,
                         .unexplained = probes->context > probes->dimension
                                            ? probes->residual / (count - (double)probes->dimension)
                                            : (double)NAN};
}

/* ---- A model and algorithms on the same prompts ---- */

#define PROBES_STREAM 0x70726f62u

/* Places in a sequence of separate tokens: x_k stands at position 2 k, y_k is the first number after it. */
typedef struct comparing {
    const icl_study *study;
    icl_trainer *trainer;
    icl_algorithms *algorithms;
    const icl_reference_predictor *neighbours;
    icl_sequences drawn;
    size_t d, points, positions, columns; /* n + 1; 2 n + 1 */
    double *outputs;                      /* [chunk][positions], predictions of the nearest neighbours */
    double *weights;                      /* [algorithms][d] */
} comparing;

static icl_status start(const icl_study *study, icl_trainer *trainer, icl_algorithms *algorithms, comparing *comparison,
                        icl_error *error) {
    const icl_task *task = icl_trainer_task(trainer);

    *comparison = (comparing){.study = study,
                              .trainer = trainer,
                              .algorithms = algorithms,
                              .neighbours = icl_class_references(task),
                              .d = algorithms->dimension,
                              .points = algorithms->pairs + 1,
                              .positions = 2 * algorithms->pairs + 1,
                              .columns = ICL_COLUMN_ALGORITHMS + algorithms->count};
    while (strcmp(comparison->neighbours->name, "nearest:3") != 0)
        comparison->neighbours++;
    ICL_CHECK(
        icl_sequences_create(study->run->params->backend, task, study->run->params->seed, &comparison->drawn, error));
    ICL_CHECK(icl_study_room(study, comparison->drawn.chunk, comparison->positions * sizeof *comparison->outputs,
                             &comparison->outputs, error));
    return icl_study_room(study, algorithms->count, comparison->d * sizeof *comparison->weights, &comparison->weights,
                          error);
}

/* Predicts for the sequences of the batch, into drawn.model and outputs. */
static icl_status run_model(comparing *comparison, icl_error *error) {
    const icl_shown_sequences shown = {comparison->drawn.task, comparison->drawn.chunk, comparison->drawn.inputs,
                                       &comparison->drawn.batch};

    ICL_CHECK(icl_reproduce_poll(comparison->study->run, error));
    ICL_CHECK(icl_sequences_predict(&comparison->drawn, comparison->trainer, error));
    return comparison->neighbours->predict(comparison->neighbours, &shown, comparison->outputs, error);
}

static void weigh(comparing *comparison, const float *tokens, size_t k) {
    icl_algorithms_weights(comparison->algorithms, k, tokens, tokens + comparison->d, 2 * comparison->d,
                           comparison->weights);
}

static double dot(const double *weights, const float *x, size_t d) {
    double sum = 0;
    for (size_t i = 0; i < d; i++)
        sum += weights[i] * (double)x[i];
    return sum;
}

/* ---- Predictions ---- */

/* Writes the values [points][columns] of a sequence of the chunk. */
static void gather(comparing *comparison, size_t sequence, double *values) {
    const size_t at = sequence * comparison->positions;
    const float *tokens = comparison->drawn.inputs + at * comparison->d;

    for (size_t k = 0; k < comparison->points; k++, values += comparison->columns) {
        values[ICL_COLUMN_MODEL] = (double)comparison->drawn.model[at + 2 * k];
        values[ICL_COLUMN_TARGET] = (double)comparison->drawn.targets[at + 2 * k];
        values[ICL_COLUMN_NEIGHBOURS] = comparison->outputs[at + 2 * k];
        if (k > 0)
            weigh(comparison, tokens, k);
        for (size_t a = 0; a < comparison->algorithms->count; a++)
            values[ICL_COLUMN_ALGORITHMS + a] =
                k > 0 ? dot(comparison->weights + a * comparison->d, tokens + 2 * k * comparison->d, comparison->d) : 0;
    }
}

/* Predicts for x_0 ... x_n of `sequences` sequences of the run's seed with a trainer's model, the targets, the mean
 * label of the three nearest inputs, and the algorithms; the study owns the values of *predicted. The task must have
 * separate tokens for inputs and labels. */
static icl_status predict_all(const icl_study *study, icl_trainer *trainer, icl_algorithms *algorithms,
                              size_t sequences, icl_predicted *predicted, icl_error *error) {
    icl_status status = ICL_OK;
    comparing comparison;

    ICL_TRY(start(study, trainer, algorithms, &comparison, error));
    *predicted = (icl_predicted){.sequences = sequences, .positions = comparison.points, .count = comparison.columns};
    ICL_TRY(icl_study_room(study, sequences, comparison.points * comparison.columns * sizeof *predicted->values,
                           &predicted->values, error));
    for (size_t i = 0; i < sequences; i++) {
        if (i % comparison.drawn.chunk == 0) {
            ICL_TRY(icl_sequences_sample(&comparison.drawn, i / comparison.drawn.chunk, error));
            ICL_TRY(icl_sequences_refer(&comparison.drawn, NULL, comparison.drawn.chunk, NULL, error));
            ICL_TRY(run_model(&comparison, error));
        }
        gather(&comparison, i % comparison.drawn.chunk, predicted->values + i * comparison.points * comparison.columns);
    }
done:
    icl_sequences_release(&comparison.drawn);
    return status;
}

/* ---- Implied weights ---- */

/* The least number of queries for each coordinate of x: with f queries for each, implied weights have a mean square
 * error of 1 / (f - 1) of the residual. */
static const size_t LEAST_PROBES = 4;

/* Results of the model and of the neighbours at one k. */
typedef struct probing {
    size_t prompts, probes;
    float *tokens;                    /* [prompts][T][d] */
    float *pairs;                     /* [probes + 1][d + 1], a query and its prediction */
    icl_spectrum spectrum;            /* spectrum of these queries */
    double *implied;                  /* [d] */
    double *values;                   /* [2][algorithms + 1][prompts]: distances, and residuals last */
    double *between;                  /* [prompts], distance of two algorithms */
    double square[2], unexplained[2]; /* sums over prompts */
} probing;

static icl_status start_probing(comparing *comparison, size_t prompts, size_t probes, probing *probe,
                                icl_error *error) {
    const size_t chunk = comparison->drawn.chunk, size = comparison->positions * comparison->d,
                 rows = comparison->algorithms->count + 1;

    *probe = (probing){.prompts = prompts, .probes = probes};
    if (probes < LEAST_PROBES * comparison->d || probes > chunk)
        return icl_fail(error, ICL_ERROR_INPUT, "implied weights: %zu queries for d = %zu; from %zu to %zu do", probes,
                        comparison->d, LEAST_PROBES * comparison->d, chunk);
    ICL_CHECK(icl_spectrum_create(comparison->d, probes, NULL, &probe->spectrum, error));
    ICL_CHECK(icl_study_room(comparison->study, prompts, size * sizeof *probe->tokens, &probe->tokens, error));
    ICL_CHECK(icl_study_room(comparison->study, probes + 1, (comparison->d + 1) * sizeof *probe->pairs, &probe->pairs,
                             error));
    ICL_CHECK(icl_study_room(comparison->study, comparison->d, sizeof *probe->implied, &probe->implied, error));
    ICL_CHECK(icl_study_room(comparison->study, 2 * rows, prompts * sizeof(double), &probe->values, error));
    ICL_CHECK(icl_study_room(comparison->study, prompts, sizeof *probe->between, &probe->between, error));
    for (size_t first = 0; first < prompts; first += chunk) {
        const size_t count = prompts - first < chunk ? prompts - first : chunk;
        ICL_CHECK(icl_sequences_sample(&comparison->drawn, first / chunk, error));
        ICL_CHECK(icl_tensor_read(comparison->drawn.batch.inputs, comparison->drawn.inputs, error));
        memcpy(probe->tokens + first * size, comparison->drawn.inputs, count * size * sizeof *probe->tokens);
    }
    return ICL_OK;
}

/* Copies the prompt's tokens once for each probe, which is placed at x_k. */
static void lay_out(comparing *comparison, const probing *probe, size_t prompt, size_t k, float *inputs) {
    const icl_random_key key = {.seed = comparison->study->run->params->seed, .stream = PROBES_STREAM, .step = prompt};
    const size_t d = comparison->d, size = comparison->positions * d;

    for (size_t j = 0; j < probe->probes; j++) {
        memcpy(inputs + j * size, probe->tokens + prompt * size, size * sizeof *inputs);
        for (size_t i = 0; i < d; i++)
            inputs[j * size + 2 * k * d + i] = icl_normal_from_word(icl_random_word(key, j * d + i));
    }
}

static double square_distance(const double *a, const double *b, size_t d) {
    double sum = 0;
    for (size_t i = 0; i < d; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum / (double)d;
}

/* Fits the weights implied by the predictions of the model (predictor 0) or of the neighbours (1) for the probes,
 * the first of which is sequence `first` of the batch. They are compared with the algorithms' weights for the same
 * prompt. */
static void fit(comparing *comparison, probing *probe, size_t prompt, size_t first, size_t k, size_t predictor) {
    const size_t d = comparison->d, count = comparison->algorithms->count;
    double *const values = probe->values + predictor * (count + 1) * probe->prompts + prompt;

    for (size_t j = 0; j < probe->probes; j++) {
        const size_t query = (first + j) * comparison->positions + 2 * k;
        memcpy(probe->pairs + j * (d + 1), comparison->drawn.inputs + query * d, d * sizeof *probe->pairs);
        probe->pairs[j * (d + 1) + d] =
            predictor == 0 ? comparison->drawn.model[query] : (float)comparison->outputs[query];
    }
    const icl_implied implied = icl_implied_weights(&probe->spectrum, probe->pairs, probe->implied);
    probe->square[predictor] += implied.square;
    probe->unexplained[predictor] += implied.unexplained;
    for (size_t a = 0; a < count; a++)
        values[a * probe->prompts] = square_distance(probe->implied, comparison->weights + a * d, d);
    values[count * probe->prompts] = implied.residual / (double)d;
}

static icl_number summarize(const double *values, size_t count) {
    return (icl_number){icl_mean(values, count), icl_standard_error(values, count)};
}

static icl_status probe_at(comparing *comparison, probing *probe, size_t k, icl_weights_at *weights, icl_error *error) {
    const size_t group = comparison->drawn.chunk / probe->probes, count = comparison->algorithms->count;
    const size_t size = comparison->positions * comparison->d, prompts = probe->prompts;

    memset(probe->square, 0, sizeof probe->square);
    memset(probe->unexplained, 0, sizeof probe->unexplained);
    for (size_t first = 0; first < prompts; first += group) {
        const size_t used = prompts - first < group ? prompts - first : group;
        for (size_t i = 0; i < used; i++)
            lay_out(comparison, probe, first + i, k, comparison->drawn.inputs + i * probe->probes * size);
        ICL_CHECK(icl_tensor_write(comparison->drawn.batch.inputs, comparison->drawn.inputs, error));
        ICL_CHECK(run_model(comparison, error));
        for (size_t i = 0; i < used; i++) {
            weigh(comparison, probe->tokens + (first + i) * size, k);
            for (size_t predictor = 0; predictor < 2; predictor++)
                fit(comparison, probe, first + i, i * probe->probes, k, predictor);
            probe->between[first + i] =
                square_distance(comparison->weights, comparison->weights + (count - 1) * comparison->d, comparison->d);
        }
    }
    for (size_t predictor = 0; predictor < 2; predictor++) {
        icl_implied_at *implied = predictor == 0 ? &weights->model : &weights->neighbours;
        const double *values = probe->values + predictor * (count + 1) * prompts;
        for (size_t a = 0; a < count; a++)
            implied->distances[a] = summarize(values + a * prompts, prompts);
        implied->residual = summarize(values + count * prompts, prompts);
        implied->linear = 1 - probe->unexplained[predictor] / probe->square[predictor];
    }
    weights->between = summarize(probe->between, prompts);
    return ICL_OK;
}

/* Measures these for k = 1 ... n, into weights [n + 1], from `probes` queries x ~ N(0, I) after the pairs of each of
 * `prompts` prompts. ICL_ERROR_INPUT for fewer than 4 d queries, or more than a chunk of sequences. */
static icl_status probe_all(const icl_study *study, icl_trainer *trainer, icl_algorithms *algorithms, size_t prompts,
                            size_t probes, icl_weights_at *weights, icl_error *error) {
    icl_status status = ICL_OK;
    probing with = {0};
    comparing comparison;

    ICL_TRY(start(study, trainer, algorithms, &comparison, error));
    ICL_TRY(start_probing(&comparison, prompts, probes, &with, error));
    for (size_t k = 1; k < comparison.points; k++)
        ICL_TRY(probe_at(&comparison, &with, k, &weights[k], error));
done:
    icl_spectrum_destroy(&with.spectrum);
    icl_sequences_release(&comparison.drawn);
    return status;
}

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
    ICL_TRY(predict_all(study, trained, &algorithms, settings[study->scale].sequences, &state->predicted, error));
    if (data->by_depth)
        ICL_TRY(probe_all(study, trained, &algorithms, settings[study->scale].prompts, settings[study->scale].probes,
                          state->weights, error));
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
