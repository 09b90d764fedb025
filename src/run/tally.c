#include "run/tally.h"

#include <assert.h>
#include <math.h>

#include "core/allocate.h"
#include "numeric/statistics.h"

/* The share of the largest squared distances that the trimmed mean leaves out. */
#define TRIMMED_SHARE 0.01

enum { MODEL = 0 }; /* its column */

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

double icl_tally_bytes(const icl_tally *tally, bool with_weights) {
    const size_t tables = 1 + icl_loss_has_accuracy(tally->shape.loss) + (tally->oracle > 0);
    const double row = (double)tally->shape.scored * (double)(tally->columns * tables + with_weights) + 1;

    return (double)tally->sequences * row * sizeof(double);
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

void icl_tally_add(icl_tally *tally, size_t column, size_t first, size_t count, const double *outputs,
                   const float *targets) {
    const icl_task_shape *shape = &tally->shape;
    const size_t q = shape->outputs, c = icl_loss_target_size(shape->loss, q);
    const size_t row = row_of(tally, column, first);

    assert(tally->losses && tally->target);
    for (size_t at = 0; at < count * shape->scored; at++) {
        /* A position of weight 0 may have any loss, infinite ones among them. */
        const bool counts = !tally->weights || tally->weights[first * shape->scored + at] != 0;
        const double *output = outputs + at * q;
        for (size_t k = 0; k < c; k++)
            tally->target[k] = (double)targets[at * c + k];
        tally->losses[row + at] = counts ? icl_loss_of(shape->loss, q, output, tally->target) : 0;
        if (tally->right)
            tally->right[row + at] = counts ? icl_loss_accuracy(shape->loss, q, output, tally->target) : 0;
        if (tally->values)
            tally->values[row + at] = *output;
    }
}

/* ---- The distance to the oracle and to Bayes: where the loss is the squared error of one number ---- */

/* The mean over the scored positions of a sequence. */
static double squared_distance(const icl_tally *tally, size_t a, size_t b, size_t sequence) {
    const size_t scored = tally->shape.scored;
    const double *p = tally->values + row_of(tally, a, sequence), *o = tally->values + row_of(tally, b, sequence);
    double sum = 0;

    for (size_t s = 0; s < scored; s++)
        sum += (p[s] - o[s]) * (p[s] - o[s]);
    return sum / (double)scored;
}

static const double *squared_distances(const icl_tally *tally, size_t a, size_t b) {
    for (size_t i = 0; i < tally->sequences; i++)
        tally->means[i] = squared_distance(tally, a, b, i);
    return tally->means;
}

static void compare_distances(const icl_tally *tally, size_t column, icl_score *score) {
    for (size_t i = 0; i < tally->sequences; i++)
        tally->means[i] =
            .5 * (squared_distance(tally, column, tally->oracle, i) - squared_distance(tally, MODEL, tally->oracle, i));
    score->half_minus_model = icl_mean(tally->means, tally->sequences);
    score->half_minus_model_se = icl_standard_error(tally->means, tally->sequences);
}

static void score_distances(const icl_tally *tally, size_t column, icl_score *score) {
    const size_t count = tally->sequences;
    const double *squares;

    score->adjusted = score->adjusted_se = score->half_adjusted = score->half_adjusted_se = (double)NAN;
    score->half_above_bayes = score->adjusted_median = score->adjusted_trimmed = (double)NAN;
    score->half_minus_model = score->half_minus_model_se = (double)NAN;
    if (tally->oracle == 0)
        return;
    if (column != MODEL)
        compare_distances(tally, column, score);
    squares = squared_distances(tally, column, tally->bayes);
    score->half_above_bayes = column == tally->oracle ? (double)NAN : 0.5 * icl_mean(squares, count);

    squares = squared_distances(tally, column, tally->oracle);
    score->adjusted = icl_mean(squares, count);
    score->adjusted_se = icl_standard_error(squares, count);
    score->half_adjusted = 0.5 * score->adjusted;
    score->half_adjusted_se = 0.5 * score->adjusted_se;
    score->adjusted_median = icl_median(tally->means, count);
    score->adjusted_trimmed = icl_trimmed_mean(tally->means, count, TRIMMED_SHARE);
}

/* ---- The loss ---- */

/* The numbers of a mean: a column of a table, less another column, at `count` positions from `first` on. */
typedef struct taken {
    const double *table;
    size_t column, less; /* less: NO_COLUMN for none */
    size_t first, count;
} taken;

#define NO_COLUMN SIZE_MAX

typedef struct mean {
    double value, se;
} mean;

static double weight_at(const icl_tally *tally, size_t sequence, size_t s) {
    return tally->weights ? tally->weights[sequence * tally->shape.scored + s] : 1;
}

/* The mean weight of a sequence at these positions. */
static double weight_of(const icl_tally *tally, const taken *of, size_t sequence) {
    double sum = 0;

    for (size_t s = of->first; s < of->first + of->count; s++)
        sum += weight_at(tally, sequence, s);
    return sum / (double)of->count;
}

static double mean_weight(const icl_tally *tally, const taken *of) {
    double sum = 0;

    for (size_t i = 0; i < tally->sequences; i++)
        sum += weight_of(tally, of, i);
    return sum / (double)tally->sequences;
}

static double value_at(const icl_tally *tally, const taken *of, size_t sequence, size_t s) {
    const double value = of->table[row_of(tally, of->column, sequence) + s];
    return of->less == NO_COLUMN ? value : value - of->table[row_of(tally, of->less, sequence) + s];
}

/* A value of the mean's size, so that what is the same everywhere has that very mean, and no error from rounding. */
static double find_base(const icl_tally *tally, const taken *of) {
    for (size_t i = 0; i < tally->sequences; i++)
        for (size_t s = of->first; s < of->first + of->count; s++)
            if (weight_at(tally, i, s) != 0)
                return isfinite(value_at(tally, of, i, s)) ? value_at(tally, of, i, s) : 0;
    return 0;
}

/* sum w v / sum w over sequences and positions. Its standard error is that of a ratio of two means over sequences: that
 * of the residuals, by sequence the mean of w (v - ratio), over the mean weight. */
static mean take_mean(const icl_tally *tally, const taken *of) {
    const size_t count = tally->sequences;
    const double base = tally->weights ? find_base(tally, of) : 0, weight = mean_weight(tally, of);
    double above;

    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (size_t s = of->first; s < of->first + of->count; s++)
            sum += weight_at(tally, i, s) * (value_at(tally, of, i, s) - base);
        tally->means[i] = sum / (double)of->count;
    }
    above = icl_mean(tally->means, count) / weight;
    for (size_t i = 0; i < count && tally->weights; i++)
        tally->means[i] -= above * weight_of(tally, of, i);
    return (mean){base + above, icl_standard_error(tally->means, count) / weight};
}

static icl_position_score score_positions(const icl_tally *tally, size_t column, size_t first, size_t count) {
    taken of = {tally->losses, column, NO_COLUMN, first, count};
    const mean loss = take_mean(tally, &of);
    mean difference = {(double)NAN, (double)NAN};
    icl_position_score made = {
        .position = tally->shape.first_scored + first, .loss = loss.value, .se = loss.se, .accuracy = (double)NAN};

    of.less = MODEL;
    if (column != MODEL)
        difference = take_mean(tally, &of);
    made.minus_model = difference.value;
    made.minus_model_se = difference.se;
    of = (taken){tally->right, column, NO_COLUMN, first, count};
    if (tally->right)
        made.accuracy = take_mean(tally, &of).value;
    return made;
}

static bool has_weight(const icl_tally *tally, size_t s) {
    for (size_t i = 0; i < tally->sequences; i++)
        if (weight_at(tally, i, s) > 0)
            return true;
    return false;
}

void icl_tally_score(const icl_tally *tally, size_t column, icl_position_score *positions, icl_score *score) {
    const icl_position_score whole = score_positions(tally, column, 0, tally->shape.scored);

    assert(tally->means);
    score->loss_kind = tally->shape.loss;
    score->mse = whole.loss;
    score->se = whole.se;
    score->accuracy = whole.accuracy;
    score->minus_model = whole.minus_model;
    score->minus_model_se = whole.minus_model_se;
    score_distances(tally, column, score);
    score->positions = positions;
    score->position_count = 0;
    for (size_t s = 0; positions && s < tally->shape.scored; s++)
        if (has_weight(tally, s))
            positions[score->position_count++] = score_positions(tally, column, s, 1);
}
