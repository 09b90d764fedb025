#include "papers/algorithms/algorithms.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/descent_optimum.h"
#include "iclab/random.h"
#include "numeric/statistics.h"
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

icl_status icl_algorithms_predict(const icl_study *study, icl_trainer *trainer, icl_algorithms *algorithms,
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

icl_status icl_algorithms_probe(const icl_study *study, icl_trainer *trainer, icl_algorithms *algorithms,
                                size_t prompts, size_t probes, icl_weights_at *weights, icl_error *error) {
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
