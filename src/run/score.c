#include "run/score.h"

#include <assert.h>
#include <math.h>

#include "core/allocate.h"
#include "numeric/statistics.h"

/* The share of the largest squared distances that the trimmed mean leaves out. */
#define TRIMMED_SHARE 0.01

icl_status icl_outputs_create(icl_outputs *outputs, bool with_weights, icl_error *error) {
    const icl_task_shape *shape = &outputs->shape;
    const size_t targets = shape->scored * icl_loss_target_size(shape->loss, shape->outputs);
    size_t elements;

    if (!icl_multiply_sizes(outputs->sequences, outputs->columns, &elements))
        return icl_fail(error, ICL_ERROR_MEMORY, "eval.sequences: %zu predictions overflow the address space",
                        outputs->sequences);
    ICL_CHECK(icl_allocate(elements, shape->scored * shape->outputs * sizeof(double),
                           "predictions (fewer eval.sequences need less)", &outputs->values, error));
    ICL_CHECK(icl_allocate(outputs->sequences, targets * sizeof(double), "targets", &outputs->targets, error));
    ICL_CHECK(icl_allocate(outputs->sequences, sizeof(double), "losses", &outputs->losses, error));
    if (with_weights)
        ICL_CHECK(icl_allocate(outputs->sequences, shape->scored * sizeof(double), "weights of positions",
                               &outputs->weights, error));
    return ICL_OK;
}

void icl_outputs_release(icl_outputs *outputs) {
    icl_free(&outputs->values);
    icl_free(&outputs->targets);
    icl_free(&outputs->weights);
    icl_free(&outputs->losses);
}

double *icl_outputs_column(const icl_outputs *outputs, size_t column) {
    return outputs->values + column * outputs->sequences * outputs->shape.scored * outputs->shape.outputs;
}

/* ---- The distance to the oracle and to Bayes: where the loss is the squared error of one number ---- */

/* For each sequence the mean over its scored positions. */
static const double *squared_distance(const icl_outputs *all, const double *a, const double *b) {
    const size_t scored = all->shape.scored;

    for (size_t i = 0; i < all->sequences; i++) {
        double sum = 0;
        for (size_t at = i * scored; at < (i + 1) * scored; at++)
            sum += (a[at] - b[at]) * (a[at] - b[at]);
        all->losses[i] = sum / (double)scored;
    }
    return all->losses;
}

static void score_distances(const icl_outputs *all, size_t column, icl_score *score) {
    const double *predicted = icl_outputs_column(all, column), *squares;
    const size_t count = all->sequences;

    score->adjusted = score->adjusted_se = score->half_adjusted = score->half_adjusted_se = (double)NAN;
    score->half_above_bayes = score->adjusted_median = score->adjusted_trimmed = (double)NAN;
    if (all->oracle == 0)
        return;
    squares = squared_distance(all, predicted, icl_outputs_column(all, all->bayes));
    score->half_above_bayes = column == all->oracle ? (double)NAN : 0.5 * icl_mean(squares, count);

    squares = squared_distance(all, predicted, icl_outputs_column(all, all->oracle));
    score->adjusted = icl_mean(squares, count);
    score->adjusted_se = icl_standard_error(squares, count);
    score->half_adjusted = 0.5 * score->adjusted;
    score->half_adjusted_se = 0.5 * score->adjusted_se;
    score->adjusted_median = icl_median(all->losses, count);
    score->adjusted_trimmed = icl_trimmed_mean(all->losses, count, TRIMMED_SHARE);
}

/* ---- The loss ---- */

/* A measure of one scored position: its loss, or its share of right answers. */
typedef double icl_measure(icl_loss_kind kind, size_t outputs, const double *output, const double *target);

/* Of position `first` and the `count` - 1 behind it, for each sequence the mean of weight times measure, into
 * all->losses. */
static const double *measure(const icl_outputs *all, size_t column, icl_measure *of, size_t first, size_t count) {
    const icl_task_shape *shape = &all->shape;
    const size_t q = shape->outputs, c = icl_loss_target_size(shape->loss, q);

    for (size_t i = 0; i < all->sequences; i++) {
        double sum = 0;
        for (size_t at = i * shape->scored + first; at < i * shape->scored + first + count; at++) {
            const double value = of(shape->loss, q, icl_outputs_column(all, column) + at * q, all->targets + at * c);
            sum += all->weights ? all->weights[at] * value : value;
        }
        all->losses[i] = sum / (double)count;
    }
    return all->losses;
}

/* The mean weight of these positions: what accuracies are divided by. */
static double mean_weight(const icl_outputs *all, size_t first, size_t count) {
    const size_t scored = all->shape.scored;
    double sum = 0;

    for (size_t i = 0; i < all->sequences && all->weights; i++)
        for (size_t s = first; s < first + count; s++)
            sum += all->weights[i * scored + s];
    return all->weights ? sum / (double)(all->sequences * count) : 1;
}

static icl_position_score score_positions(const icl_outputs *all, size_t column, size_t first, size_t count) {
    const size_t sequences = all->sequences;
    const double *losses = measure(all, column, icl_loss_of, first, count);
    icl_position_score made = {
        .position = all->shape.first_scored + first, .loss = icl_mean(losses, sequences), .accuracy = (double)NAN};

    made.se = icl_standard_error(losses, sequences);
    if (icl_loss_has_accuracy(all->shape.loss))
        made.accuracy =
            icl_mean(measure(all, column, icl_loss_accuracy, first, count), sequences) / mean_weight(all, first, count);
    return made;
}

void icl_outputs_score(const icl_outputs *all, size_t column, icl_position_score *positions, icl_score *score) {
    const icl_position_score mean = score_positions(all, column, 0, all->shape.scored);

    assert(all->losses);
    score->loss_kind = all->shape.loss;
    score->mse = mean.loss;
    score->se = mean.se;
    score->accuracy = mean.accuracy;
    score_distances(all, column, score);
    for (size_t s = 0; positions && s < all->shape.scored; s++)
        positions[s] = score_positions(all, column, s, 1);
    score->positions = positions;
    score->position_count = positions ? all->shape.scored : 0;
}
