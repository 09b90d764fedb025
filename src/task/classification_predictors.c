/* What a model of classification in context can be compared with: see classification.c. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "task/classification.h"

/* ---- What a context shows ---- */

static const float *item_at(const icl_task *task, const float *inputs, size_t position) {
    const icl_classification_state *is = task->state;
    return inputs + position * task->shape.inputs + is->places;
}

/* The number of the label of pair j, by its vector. */
static size_t label_at(const icl_task *task, const float *inputs, size_t j) {
    const icl_classification_state *is = task->state;
    const float *vector = item_at(task, inputs, 2 * j + 1);
    size_t label = 0;

    while (label + 1 < is->labels &&
           memcmp(vector, is->label_vectors + label * is->size, is->size * sizeof *vector) != 0)
        label++;
    return label;
}

static double square_distance(const float *a, double scale, const float *b, size_t size) {
    double sum = 0;
    for (size_t i = 0; i < size; i++) {
        const double difference = scale * (double)a[i] - (double)b[i];
        sum += difference * difference;
    }
    return sum;
}

/* ---- The predictors: logits [L] of one sequence ---- */

static void answer_uniform(const icl_task *task, const float *inputs, double *logits) {
    const icl_classification_state *is = task->state;

    (void)inputs;
    for (size_t l = 0; l < is->labels; l++)
        logits[l] = 0;
}

/* As often as it stands there. */
static void answer_context(const icl_task *task, const float *inputs, double *logits) {
    const icl_classification_state *is = task->state;

    memset(logits, 0, is->labels * sizeof *logits);
    for (size_t j = 0; j < is->pairs; j++)
        logits[label_at(task, inputs, j)]++;
    for (size_t l = 0; l < is->labels; l++)
        logits[l] = log(logits[l]);
}

/* Holds the label of the closest item to be e times as likely as any other. */
static void answer_nearest(const icl_task *task, const float *inputs, double *logits) {
    const icl_classification_state *is = task->state;
    const float *query = item_at(task, inputs, 2 * is->pairs);
    double least = (double)INFINITY;
    size_t nearest = 0;

    for (size_t j = 0; j < is->pairs; j++) {
        const double distance = square_distance(query, 1, item_at(task, inputs, 2 * j), is->size);
        if (distance < least) {
            least = distance;
            nearest = j;
        }
    }
    memset(logits, 0, is->labels * sizeof *logits);
    logits[label_at(task, inputs, nearest)] = 1;
}

/* Up to a constant, log p(l | x) of the query x, an item of a known class, is the log of the sum over the classes with
 * label l of (c + 1)^(-alpha) exp(-D |sqrt(1 + eps^2) x - mu_c|^2 / (2 eps^2)). An eps below 1e-6 counts as that, which
 * is as close as floats hold an item to its centre. */
static void answer_from_weights(const icl_task *task, const float *inputs, double *logits) {
    const icl_classification_state *is = task->state;
    const float *query = item_at(task, inputs, 2 * is->pairs);
    const double eps = is->spread > 1e-6 ? is->spread : 1e-6, scale = sqrt(1 + is->spread * is->spread);

    assert(is->labels > 0);
    for (size_t l = 0; l < is->labels; l++)
        logits[l] = -(double)INFINITY;
    for (size_t c = 0; c < is->classes; c++) {
        const double distance = square_distance(query, scale, is->centres + c * is->size, is->size);
        const double log_share = -is->exponent * log((double)(c + 1));
        const double now = log_share - (double)is->size * distance / (2 * eps * eps);
        double *sum = &logits[c % is->labels];
        const double larger = fmax(*sum, now), smaller = fmin(*sum, now);
        *sum = larger + log(1 + exp(smaller - larger));
    }
}

typedef struct answer {
    void (*give)(const icl_task *task, const float *inputs, double *logits);
} answer;

static icl_status predict(const icl_reference_predictor *predictor, const icl_shown_sequences *shown, double *outputs,
                          icl_error *error) {
    const answer *from = predictor->settings;
    const icl_task_shape *shape = &shown->task->shape;

    (void)error;
    for (size_t i = 0; i < shown->count; i++)
        from->give(shown->task, shown->inputs + i * shape->positions * shape->inputs, outputs + i * shape->outputs);
    return ICL_OK;
}

const icl_reference_predictor *icl_classification_references(const icl_task *task) {
    static const answer uniform = {answer_uniform}, context = {answer_context}, nearest = {answer_nearest},
                        weights = {answer_from_weights};
    static const icl_reference_predictor all[] = {{"uniform", &uniform, predict},
                                                  {"context", &context, predict},
                                                  {"nearest", &nearest, predict},
                                                  {"weights", &weights, predict},
                                                  {0}};

    (void)task;
    return all;
}
