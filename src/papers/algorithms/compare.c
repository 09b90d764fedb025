#include "papers/algorithms/compare.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/random.h"
#include "numeric/statistics.h"
#include "run/sequences.h"
#include "task/function_classes/family.h"

#define PROBES_STREAM 0x70726f62u

/* Where things stand in a sequence of separate tokens: x_k at position 2 k, y_k as first number behind it. */
typedef struct comparing {
    const icl_reproducing *run;
    icl_trainer *trainer;
    icl_algorithms *algorithms;
    const icl_reference_predictor *neighbours;
    icl_sequences drawn;
    size_t d, points, positions, columns; /* n + 1; 2 n + 1 */
    double *outputs;                      /* [chunk][positions], of the neighbours */
    double *weights;                      /* [algorithms][d] */
} comparing;

static icl_status start(const icl_reproducing *run, icl_trainer *trainer, icl_algorithms *algorithms, comparing *all,
                        icl_error *error) {
    const icl_task *task = icl_trainer_task(trainer);

    *all = (comparing){.run = run,
                       .trainer = trainer,
                       .algorithms = algorithms,
                       .neighbours = icl_class_references(task),
                       .d = algorithms->dimension,
                       .points = algorithms->pairs + 1,
                       .positions = 2 * algorithms->pairs + 1,
                       .columns = ICL_COLUMN_ALGORITHMS + algorithms->count};
    while (strcmp(all->neighbours->name, "nearest:3") != 0)
        all->neighbours++;
    ICL_CHECK(icl_sequences_create(run->params->backend, task, run->params->seed, &all->drawn, error));
    ICL_CHECK(
        icl_allocate(all->drawn.chunk, all->positions * sizeof *all->outputs, "predictions", &all->outputs, error));
    return icl_allocate(algorithms->count, all->d * sizeof *all->weights, "weights", &all->weights, error);
}

static void end(comparing *all) {
    icl_sequences_release(&all->drawn);
    icl_free(&all->outputs);
    icl_free(&all->weights);
}

/* Of what the batch holds, to drawn.model and outputs. */
static icl_status run_model(comparing *all, icl_error *error) {
    const icl_shown_sequences shown = {all->drawn.task, all->drawn.chunk, all->drawn.inputs, &all->drawn.batch};

    ICL_CHECK(icl_reproduce_poll(all->run, error));
    ICL_CHECK(icl_sequences_predict(&all->drawn, all->trainer, error));
    return all->neighbours->predict(all->neighbours, &shown, all->outputs, error);
}

static void weigh(comparing *all, const float *tokens, size_t k) {
    icl_algorithms_weights(all->algorithms, k, tokens, tokens + all->d, 2 * all->d, all->weights);
}

static double dot(const double *weights, const float *x, size_t d) {
    double sum = 0;
    for (size_t i = 0; i < d; i++)
        sum += weights[i] * (double)x[i];
    return sum;
}

/* ---- Predictions ---- */

/* values [points][columns] of a sequence of the chunk. */
static void gather(comparing *all, size_t sequence, double *values) {
    const size_t at = sequence * all->positions;
    const float *tokens = all->drawn.inputs + at * all->d;

    for (size_t k = 0; k < all->points; k++, values += all->columns) {
        values[ICL_COLUMN_MODEL] = (double)all->drawn.model[at + 2 * k];
        values[ICL_COLUMN_TARGET] = (double)all->drawn.targets[at + 2 * k];
        values[ICL_COLUMN_NEIGHBOURS] = all->outputs[at + 2 * k];
        if (k > 0)
            weigh(all, tokens, k);
        for (size_t a = 0; a < all->algorithms->count; a++)
            values[ICL_COLUMN_ALGORITHMS + a] =
                k > 0 ? dot(all->weights + a * all->d, tokens + 2 * k * all->d, all->d) : 0;
    }
}

icl_status icl_algorithms_predict(const icl_reproducing *run, icl_trainer *trainer, icl_algorithms *algorithms,
                                  size_t sequences, icl_predicted *predicted, icl_error *error) {
    icl_status status = ICL_OK;
    comparing all;

    ICL_TRY(start(run, trainer, algorithms, &all, error));
    *predicted = (icl_predicted){.sequences = sequences, .positions = all.points, .count = all.columns};
    ICL_TRY(icl_allocate(sequences, all.points * all.columns * sizeof *predicted->values, "predictions",
                         &predicted->values, error));
    for (size_t i = 0; i < sequences; i++) {
        if (i % all.drawn.chunk == 0) {
            ICL_TRY(icl_sequences_sample(&all.drawn, i / all.drawn.chunk, error));
            ICL_TRY(icl_sequences_refer(&all.drawn, NULL, all.drawn.chunk, NULL, error));
            ICL_TRY(run_model(&all, error));
        }
        gather(&all, i % all.drawn.chunk, predicted->values + i * all.points * all.columns);
    }
done:
    end(&all);
    return status;
}

/* ---- Implied weights ---- */

/* Queries for each coordinate of x, at least: with f queries for each, weights that are implied are off by 1 / (f - 1)
 * of what they leave, in mean square. */
static const size_t LEAST_PROBES = 4;

/* What comes of a predictor at one k. */
typedef struct gathered {
    double *values;             /* [algorithms + 1][prompts]: distances, residuals */
    double square, unexplained; /* sums over prompts */
} gathered;

typedef struct probing {
    size_t prompts, probes;
    float *tokens;         /* [prompts][T][d] */
    float *pairs;          /* [probes + 1][d + 1], a query and its prediction */
    icl_spectrum spectrum; /* of these */
    double *implied;       /* [d] */
    gathered model, neighbours;
    double *between; /* [prompts], of two algorithms */
} probing;

static icl_status start_probing(comparing *all, size_t prompts, size_t probes, probing *to, icl_error *error) {
    const size_t chunk = all->drawn.chunk, size = all->positions * all->d, rows = all->algorithms->count + 1;

    *to = (probing){.prompts = prompts, .probes = probes};
    if (probes < LEAST_PROBES * all->d || probes > chunk)
        return icl_fail(error, ICL_ERROR_INPUT, "implied weights: %zu queries for d = %zu; from %zu to %zu do", probes,
                        all->d, LEAST_PROBES * all->d, chunk);
    ICL_CHECK(icl_allocate(prompts, size * sizeof *to->tokens, "prompts", &to->tokens, error));
    ICL_CHECK(icl_allocate(probes + 1, (all->d + 1) * sizeof *to->pairs, "queries", &to->pairs, error));
    ICL_CHECK(icl_spectrum_create(all->d, probes, NULL, &to->spectrum, error));
    ICL_CHECK(icl_allocate(all->d, sizeof *to->implied, "implied weights", &to->implied, error));
    ICL_CHECK(icl_allocate(rows, prompts * sizeof(double), "distances", &to->model.values, error));
    ICL_CHECK(icl_allocate(rows, prompts * sizeof(double), "distances", &to->neighbours.values, error));
    ICL_CHECK(icl_allocate(prompts, sizeof *to->between, "distances", &to->between, error));
    for (size_t first = 0; first < prompts; first += chunk) {
        const size_t count = prompts - first < chunk ? prompts - first : chunk;
        ICL_CHECK(icl_sequences_sample(&all->drawn, first / chunk, error));
        ICL_CHECK(icl_tensor_read(all->drawn.batch.inputs, all->drawn.inputs, error));
        memcpy(to->tokens + first * size, all->drawn.inputs, count * size * sizeof *to->tokens);
    }
    return ICL_OK;
}

static void end_probing(probing *to) {
    icl_free(&to->tokens);
    icl_free(&to->pairs);
    icl_spectrum_destroy(&to->spectrum);
    icl_free(&to->implied);
    icl_free(&to->model.values);
    icl_free(&to->neighbours.values);
    icl_free(&to->between);
}

/* The prompt's tokens, once for each probe, which stands at x_k. */
static void lay_out(comparing *all, const probing *to, size_t prompt, size_t k, float *inputs) {
    const icl_random_key key = {.seed = all->run->params->seed, .stream = PROBES_STREAM, .step = prompt};
    const size_t d = all->d, size = all->positions * d;

    for (size_t j = 0; j < to->probes; j++) {
        memcpy(inputs + j * size, to->tokens + prompt * size, size * sizeof *inputs);
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

/* Weights that predictions imply for the probes of which sequence `first` of the batch is the first one: the model's,
 * or those of the neighbours. The algorithms' are those of the same prompt. */
static void fit(comparing *all, probing *with, size_t prompt, size_t first, size_t k, gathered *to) {
    const size_t d = all->d, count = all->algorithms->count;

    for (size_t j = 0; j < with->probes; j++) {
        const size_t at = (first + j) * all->positions + 2 * k;
        memcpy(with->pairs + j * (d + 1), all->drawn.inputs + at * d, d * sizeof *with->pairs);
        with->pairs[j * (d + 1) + d] = to == &with->model ? all->drawn.model[at] : (float)all->outputs[at];
    }
    const icl_implied is = icl_implied_weights(&with->spectrum, with->pairs, with->implied);
    to->square += is.square;
    to->unexplained += is.unexplained;
    for (size_t a = 0; a < count; a++)
        to->values[a * with->prompts + prompt] = square_distance(with->implied, all->weights + a * d, d);
    to->values[count * with->prompts + prompt] = is.residual / (double)d;
}

static icl_measured measure(const double *values, size_t count) {
    return (icl_measured){icl_mean(values, count), icl_standard_error(values, count)};
}

static icl_implied_at summarize(const gathered *from, size_t prompts, size_t algorithms) {
    icl_implied_at at = {.residual = measure(from->values + algorithms * prompts, prompts),
                         .linear = 1 - from->unexplained / from->square};

    for (size_t a = 0; a < algorithms; a++)
        at.distances[a] = measure(from->values + a * prompts, prompts);
    return at;
}

static icl_status probe_at(comparing *all, probing *with, size_t k, icl_weights_at *at, icl_error *error) {
    const size_t group = all->drawn.chunk / with->probes, count = all->algorithms->count;
    const size_t size = all->positions * all->d;

    with->model.square = with->model.unexplained = with->neighbours.square = with->neighbours.unexplained = 0;
    for (size_t first = 0; first < with->prompts; first += group) {
        const size_t used = with->prompts - first < group ? with->prompts - first : group;
        for (size_t i = 0; i < used; i++)
            lay_out(all, with, first + i, k, all->drawn.inputs + i * with->probes * size);
        ICL_CHECK(icl_tensor_write(all->drawn.batch.inputs, all->drawn.inputs, error));
        ICL_CHECK(run_model(all, error));
        for (size_t i = 0; i < used; i++) {
            weigh(all, with->tokens + (first + i) * size, k);
            fit(all, with, first + i, i * with->probes, k, &with->model);
            fit(all, with, first + i, i * with->probes, k, &with->neighbours);
            with->between[first + i] = square_distance(all->weights, all->weights + (count - 1) * all->d, all->d);
        }
    }
    at->model = summarize(&with->model, with->prompts, count);
    at->neighbours = summarize(&with->neighbours, with->prompts, count);
    at->between = measure(with->between, with->prompts);
    return ICL_OK;
}

icl_status icl_algorithms_probe(const icl_reproducing *run, icl_trainer *trainer, icl_algorithms *algorithms,
                                size_t prompts, size_t probes, icl_weights_at *at, icl_error *error) {
    icl_status status = ICL_OK;
    probing to = {0};
    comparing all;

    ICL_TRY(start(run, trainer, algorithms, &all, error));
    ICL_TRY(start_probing(&all, prompts, probes, &to, error));
    for (size_t k = 1; k < all.points; k++)
        ICL_TRY(probe_at(&all, &to, k, &at[k], error));
done:
    end_probing(&to);
    end(&all);
    return status;
}
