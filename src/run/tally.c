#include "run/tally.h"

#include <assert.h>
#include <math.h>

#include "core/allocate.h"
#include "numeric/statistics.h"

/* The share of the largest squared distances that the trimmed mean leaves out. */
#define TRIMMED_SHARE 0.01

icl_status icl_tally_create(icl_tally *tally, bool with_weights, icl_error *error) {
    const icl_task_shape *shape = &tally->shape;
    const size_t row = shape->scored * sizeof(double), target = icl_loss_target_size(shape->loss, shape->outputs);
    size_t rows;

    if (!icl_multiply_sizes(tally->sequences, tally->columns, &rows))
        return icl_fail(error, ICL_ERROR_MEMORY, "eval.sequences: %zu predictions overflow the address space",
                        tally->sequences);
    ICL_CHECK(icl_allocate(rows, row, "losses (fewer eval.sequences need less)", &tally->losses, error));
    if (icl_loss_has_accuracy(shape->loss))
        ICL_CHECK(icl_allocate(rows, row, "accuracies (fewer eval.sequences need less)", &tally->right, error));
    if (tally->oracle > 0)
        ICL_CHECK(icl_allocate(rows, row, "predictions (fewer eval.sequences need less)", &tally->values, error));
    if (with_weights)
        ICL_CHECK(icl_allocate(tally->sequences, row, "weights of positions", &tally->weights, error));
    ICL_CHECK(icl_allocate(tally->sequences, sizeof(double), "means of sequences", &tally->means, error));
    return icl_allocate(target, sizeof(double), "a target", &tally->target, error);
}

void icl_tally_release(icl_tally *tally) {
    icl_free(&tally->losses);
    icl_free(&tally->right);
    icl_free(&tally->weights);
    icl_free(&tally->values);
    icl_free(&tally->means);
    icl_free(&tally->target);
}

/* ---- Taking in ---- */

/* Where the row of a sequence begins in the tables of all columns. */
static size_t row_of(const icl_tally *tally, size_t column, size_t sequence) {
    return (column * tally->sequences + sequence) * tally->shape.scored;
}

void icl_tally_weigh(icl_tally *tally, size_t first, size_t count, const float *weights) {
    const size_t scored = tally->shape.scored;

    assert(tally->weights);
    for (size_t i = 0; i < count * scored; i++)
        tally->weights[first * scored + i] = (double)weights[i];
}

/* A position of weight 0 may have any loss, infinite ones among them. */
static double weighted(double weight, double value) {
    return weight == 0 ? 0 : weight * value;
}

void icl_tally_add(icl_tally *tally, size_t column, size_t first, size_t count, const double *outputs,
                   const float *targets) {
    const icl_task_shape *shape = &tally->shape;
    const size_t q = shape->outputs, c = icl_loss_target_size(shape->loss, q);
    const size_t row = row_of(tally, column, first);

    assert(tally->losses && tally->target);
    for (size_t at = 0; at < count * shape->scored; at++) {
        const double weight = tally->weights ? tally->weights[first * shape->scored + at] : 1;
        const double *output = outputs + at * q;
        for (size_t k = 0; k < c; k++)
            tally->target[k] = (double)targets[at * c + k];
        tally->losses[row + at] = weighted(weight, icl_loss_of(shape->loss, q, output, tally->target));
        if (tally->right)
            tally->right[row + at] = weighted(weight, icl_loss_accuracy(shape->loss, q, output, tally->target));
        if (tally->values)
            tally->values[row + at] = *output;
    }
}

/* ---- The distance to the oracle and to Bayes: where the loss is the squared error of one number ---- */

/* For each sequence the mean over its scored positions. */
static const double *squared_distance(const icl_tally *tally, size_t a, size_t b) {
    const size_t scored = tally->shape.scored;

    for (size_t i = 0; i < tally->sequences; i++) {
        const double *p = tally->values + row_of(tally, a, i), *o = tally->values + row_of(tally, b, i);
        double sum = 0;
        for (size_t s = 0; s < scored; s++)
            sum += (p[s] - o[s]) * (p[s] - o[s]);
        tally->means[i] = sum / (double)scored;
    }
    return tally->means;
}

static void score_distances(const icl_tally *tally, size_t column, icl_score *score) {
    const size_t count = tally->sequences;
    const double *squares;

    score->adjusted = score->adjusted_se = score->half_adjusted = score->half_adjusted_se = (double)NAN;
    score->half_above_bayes = score->adjusted_median = score->adjusted_trimmed = (double)NAN;
    if (tally->oracle == 0)
        return;
    squares = squared_distance(tally, column, tally->bayes);
    score->half_above_bayes = column == tally->oracle ? (double)NAN : 0.5 * icl_mean(squares, count);

    squares = squared_distance(tally, column, tally->oracle);
    score->adjusted = icl_mean(squares, count);
    score->adjusted_se = icl_standard_error(squares, count);
    score->half_adjusted = 0.5 * score->adjusted;
    score->half_adjusted_se = 0.5 * score->adjusted_se;
    score->adjusted_median = icl_median(tally->means, count);
    score->adjusted_trimmed = icl_trimmed_mean(tally->means, count, TRIMMED_SHARE);
}

/* ---- The loss ---- */

/* Of a column's table the mean over `count` positions from `first` on, for each sequence. */
static const double *mean_of(const icl_tally *tally, const double *table, size_t column, size_t first, size_t count) {
    for (size_t i = 0; i < tally->sequences; i++) {
        const double *row = table + row_of(tally, column, i);
        double sum = 0;
        for (size_t s = first; s < first + count; s++)
            sum += row[s];
        tally->means[i] = sum / (double)count;
    }
    return tally->means;
}

/* The mean weight of these positions: what accuracies are divided by. */
static double mean_weight(const icl_tally *tally, size_t first, size_t count) {
    const size_t scored = tally->shape.scored;
    double sum = 0;

    for (size_t i = 0; i < tally->sequences && tally->weights; i++)
        for (size_t s = first; s < first + count; s++)
            sum += tally->weights[i * scored + s];
    return tally->weights ? sum / (double)(tally->sequences * count) : 1;
}

static icl_position_score score_positions(const icl_tally *tally, size_t column, size_t first, size_t count) {
    const size_t sequences = tally->sequences;
    const double *losses = mean_of(tally, tally->losses, column, first, count);
    icl_position_score made = {
        .position = tally->shape.first_scored + first, .loss = icl_mean(losses, sequences), .accuracy = (double)NAN};

    made.se = icl_standard_error(losses, sequences);
    if (tally->right)
        made.accuracy =
            icl_mean(mean_of(tally, tally->right, column, first, count), sequences) / mean_weight(tally, first, count);
    return made;
}

void icl_tally_score(const icl_tally *tally, size_t column, icl_position_score *positions, icl_score *score) {
    const icl_position_score mean = score_positions(tally, column, 0, tally->shape.scored);

    assert(tally->means);
    score->loss_kind = tally->shape.loss;
    score->mse = mean.loss;
    score->se = mean.se;
    score->accuracy = mean.accuracy;
    score_distances(tally, column, score);
    score->positions = positions;
    score->position_count = 0;
    for (size_t s = 0; positions && s < tally->shape.scored; s++)
        if (mean_weight(tally, s, 1) > 0)
            positions[score->position_count++] = score_positions(tally, column, s, 1);
}
