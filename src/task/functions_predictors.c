/*
 * What a model of functions on the sphere can be compared with: see functions.c.
 *
 *     zero     0
 *     mean     the mean of the context's labels
 *     nearest  the mean label of the k nearest inputs
 *     kernel   kernel regression (Nadaraya 1964, Watson 1964): labels weighed by exp(-|x_t - x_i|^2 / (2 h^2))
 *
 * k and h are those of least squared error on sequences of the same task, drawn for fitting. On the unit sphere
 * |x_t - x_i|^2 = 2 - 2 x_t . x_i, so that the kernel is softmax attention whose M is the identity times 1 / h^2.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "iclab/backend.h"
#include "numeric/parallel.h"
#include "task/functions.h"

/* Sequences to fit on: so many, or so that they have this many pairs. */
enum { MOST_SEQUENCES = 4096, LEAST_SEQUENCES = 64, MOST_PAIRS = 1 << 20 };

/* Bandwidths from the typical distance over REACH to REACH times it, then the best one's neighbourhood. */
#define REACH 100.0
enum { COARSE = 41, FINE = 40 };

typedef enum method { ZERO = 0, MEAN, NEAREST, KERNEL } method;

typedef struct settings {
    method by;
} settings;

/* ---- One sequence: squared distances to the query, and labels, of n pairs ---- */

static void measure(const float *tokens, size_t d, size_t n, double *squares, double *labels) {
    const float *query = tokens + n * (d + 1);

    for (size_t i = 0; i < n; i++) {
        const float *x = tokens + i * (d + 1);
        squares[i] = 0;
        for (size_t j = 0; j < d; j++)
            squares[i] += ((double)x[j] - (double)query[j]) * ((double)x[j] - (double)query[j]);
        labels[i] = (double)x[d];
    }
}

static double mean_of(const double *labels, size_t n) {
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += labels[i];
    return sum / (double)n;
}

/* Sorts pairs by their distance, of equal ones the first in front. */
static void sort_pairs(double *squares, double *labels, size_t n) {
    for (size_t i = 1; i < n; i++) {
        const double square = squares[i], label = labels[i];
        size_t at = i;
        for (; at > 0 && squares[at - 1] > square; at--) {
            squares[at] = squares[at - 1];
            labels[at] = labels[at - 1];
        }
        squares[at] = square;
        labels[at] = label;
    }
}

/* Weights are relative to the nearest pair's, or all could vanish. */
static double smooth(const double *squares, const double *labels, size_t n, double bandwidth) {
    double least = squares[0], sum = 0, weights = 0;

    for (size_t i = 1; i < n; i++)
        least = fmin(least, squares[i]);
    for (size_t i = 0; i < n; i++) {
        const double weight = exp((least - squares[i]) / (2 * bandwidth * bandwidth));
        sum += weight * labels[i];
        weights += weight;
    }
    return sum / weights;
}

/* ---- Fitting ---- */

typedef struct fit_set {
    size_t count, n;
    double *squares, *labels; /* [count][n], sorted by distance */
    double *targets;          /* [count] */
} fit_set;

static void release(fit_set *set) {
    icl_free(&set->squares);
    icl_free(&set->labels);
    icl_free(&set->targets);
}

static size_t count_to_fit(size_t n) {
    const size_t count = MOST_PAIRS / n < MOST_SEQUENCES ? MOST_PAIRS / n : MOST_SEQUENCES;
    return count > LEAST_SEQUENCES ? count : LEAST_SEQUENCES;
}

/* Tokens on the device and on the host, squares and labels. */
static double fit_bytes(const icl_reference_predictor *predictor, const icl_task *task) {
    const size_t d = task->prior.dimension, n = task->prior.context, token = (n + 1) * (d + 1);

    (void)predictor;
    return (double)count_to_fit(n) * (double)(2 * token * sizeof(float) + (2 * n + 1) * sizeof(double));
}

static icl_status draw(const icl_task *task, fit_set *set, icl_error *error) {
    const size_t d = task->prior.dimension, n = task->prior.context, token = (n + 1) * (d + 1);
    icl_backend *backend = NULL;
    icl_batch batch = {0};
    float *inputs = NULL;
    icl_status status = ICL_OK;

    set->n = n;
    set->count = count_to_fit(n);
    ICL_TRY(icl_allocate(set->count, n * sizeof(double), "distances to fit on", &set->squares, error));
    ICL_TRY(icl_allocate(set->count, n * sizeof(double), "labels to fit on", &set->labels, error));
    ICL_TRY(icl_allocate(set->count, sizeof(double), "targets to fit on", &set->targets, error));
    ICL_TRY(icl_allocate(set->count, token * sizeof *inputs, "sequences to fit on", &inputs, error));
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &backend, error));
    ICL_TRY(icl_batch_create(task, backend, ICL_FOR_FITTING, set->count, &batch, error));
    ICL_TRY(icl_task_sample(task, backend, ICL_FOR_FITTING, 1, 0, &batch, error));
    ICL_TRY(icl_tensor_read(batch.inputs, inputs, error));
    ICL_TRY(icl_tensor_read_double(batch.targets, set->targets, error));
    for (size_t s = 0; s < set->count; s++) {
        measure(inputs + s * token, d, n, set->squares + s * n, set->labels + s * n);
        sort_pairs(set->squares + s * n, set->labels + s * n, n);
    }
done:
    icl_free(&inputs);
    icl_batch_release(&batch);
    icl_backend_close(&backend);
    return status;
}

static double error_of_bandwidth(const fit_set *set, double bandwidth) {
    double sum = 0;

    for (size_t s = 0; s < set->count; s++) {
        const double found = smooth(set->squares + s * set->n, set->labels + s * set->n, set->n, bandwidth);
        sum += (found - set->targets[s]) * (found - set->targets[s]);
    }
    return sum;
}

/* A grid, then golden sections about the best of it, in the logarithm. */
static double fit_bandwidth(const fit_set *set) {
    const double golden = 2 / (1 + sqrt(5)), step = 2 * log(REACH) / (COARSE - 1);
    double typical = 0, best = 0, least = (double)INFINITY, low, high;

    for (size_t i = 0; i < set->count * set->n; i++)
        typical += set->squares[i] / (double)(set->count * set->n);
    typical = typical > 0 ? sqrt(typical) : 1;
    for (int i = 0; i < COARSE; i++) {
        const double at = i * step - log(REACH), error = error_of_bandwidth(set, typical * exp(at));
        if (error < least) {
            least = error;
            best = at;
        }
    }
    low = best - step;
    high = best + step;
    for (int i = 0; i < FINE; i++) {
        const double left = high - golden * (high - low), right = low + golden * (high - low);
        if (error_of_bandwidth(set, typical * exp(left)) < error_of_bandwidth(set, typical * exp(right)))
            high = right;
        else
            low = left;
    }
    return typical * exp((low + high) / 2);
}

/* errors [n] of every k, in one pass over the sorted labels. */
static size_t fit_neighbours(const fit_set *set, double *errors) {
    size_t best = 0;

    for (size_t s = 0; s < set->count; s++) {
        double sum = 0;
        for (size_t k = 0; k < set->n; k++) {
            sum += set->labels[s * set->n + k];
            const double off = sum / (double)(k + 1) - set->targets[s];
            errors[k] += off * off;
        }
    }
    for (size_t k = 1; k < set->n; k++)
        best = errors[k] < errors[best] ? k : best;
    return best + 1;
}

static icl_status fit(const icl_task *task, icl_error *error) {
    icl_functions_fit *to = icl_functions_fit_of(task);
    fit_set set = {0};
    double *errors = NULL;
    icl_status status = ICL_OK;

    if (to->is_there)
        return ICL_OK;
    ICL_TRY(draw(task, &set, error));
    ICL_TRY(icl_allocate(set.n, sizeof *errors, "errors of neighbours", &errors, error));
    to->bandwidth = fit_bandwidth(&set);
    to->neighbours = fit_neighbours(&set, errors);
    to->is_there = true;
done:
    icl_free(&errors);
    release(&set);
    return status;
}

/* ---- The predictors ---- */

typedef struct prediction {
    const icl_task *task;
    const icl_functions_fit *fit;
    method by;
    const float *inputs;
    double *works, *outputs; /* [threads][2 n], [count] */
} prediction;

static void predict_one(void *context, size_t index, size_t thread) {
    const prediction *all = context;
    const size_t d = all->task->prior.dimension, n = all->task->prior.context;
    double *squares = all->works + thread * 2 * n, *labels = squares + n, *output = &all->outputs[index];

    measure(all->inputs + index * (n + 1) * (d + 1), d, n, squares, labels);
    switch (all->by) {
    case ZERO:
        *output = 0;
        break;
    case MEAN:
        *output = mean_of(labels, n);
        break;
    case NEAREST:
        sort_pairs(squares, labels, n);
        *output = mean_of(labels, all->fit->neighbours);
        break;
    case KERNEL:
        *output = smooth(squares, labels, n, all->fit->bandwidth);
        break;
    }
}

static icl_status predict(const icl_reference_predictor *predictor, const icl_shown_sequences *shown, double *outputs,
                          icl_error *error) {
    const settings *own = predictor->settings;
    const size_t threads = icl_parallel_threads();
    prediction all = {.task = shown->task,
                      .fit = icl_functions_fit_of(shown->task),
                      .by = own->by,
                      .inputs = shown->inputs,
                      .outputs = outputs};
    icl_status status = ICL_OK;

    if (own->by == NEAREST || own->by == KERNEL)
        ICL_TRY(fit(shown->task, error));
    ICL_TRY(icl_allocate(threads, 2 * shown->task->prior.context * sizeof *all.works, "distances", &all.works, error));
    icl_parallel_for(shown->count, threads, predict_one, &all);
done:
    icl_free(&all.works);
    return status;
}

static void describe(const icl_reference_predictor *predictor, const icl_task *task, char *text, size_t capacity) {
    const settings *own = predictor->settings;
    const icl_functions_fit *fitted = icl_functions_fit_of(task);

    if (own->by == NEAREST)
        snprintf(text, capacity, "k = %zu", fitted->neighbours);
    else
        icl_print(text, capacity, "h = %.4g", fitted->bandwidth);
}

const icl_reference_predictor *icl_functions_references(const icl_task *task) {
    static const settings zero = {ZERO}, mean = {MEAN}, nearest = {NEAREST}, kernel = {KERNEL};
    static const icl_reference_predictor all[] = {{.name = "zero", .settings = &zero, .predict = predict},
                                                  {.name = "mean", .settings = &mean, .predict = predict},
                                                  {"nearest", &nearest, predict, describe, fit_bytes},
                                                  {"kernel", &kernel, predict, describe, fit_bytes},
                                                  {0}};

    (void)task;
    return all;
}
