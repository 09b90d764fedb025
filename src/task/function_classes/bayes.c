/*
 * The posterior mean where functions are linear in Gaussian weights, once one knows which hypothesis h holds: the class
 * among those of a mixture, the coordinates that a sparse function reads, the noise level (noise_levels.h). With
 * features phi of h, f(x) = <w, phi(x)> with w ~ N(0, I):
 *
 *     E f(x_k) = sum_h p_h <m_h, phi(x_k)>,   p_h in proportion to P(h) P(y_0 … y_(k-1) | h),
 *
 * with the marginal likelihood from its factors N(y_i; <m, phi>, v), v = phi^T P phi + sigma^2, while posterior mean m
 * and covariance P go from label to label:
 *
 *     m <- m + P phi (y - <m, phi>) / v,   P <- P - P phi phi^T P / v
 */
#include <math.h>
#include <string.h>

#include "task/function_classes/noise_levels.h"
#include "task/function_classes/predictors.h"

#define SQRT_1_3 0.57735026918962576451

/* Hypotheses at most: a minute for ten thousand sequences of 40 pairs. */
static const double MOST_HYPOTHESES = 20000;

/* What is left of sigma^2 without noise, as a share of the mean square of functions. */
static const double LEAST_VARIANCE = 1e-9;

/* P(y_0 … y_(k-1)) and E f(x_k), summed over hypotheses, both over exp(most). */
typedef struct evidence {
    double most, total, sum;
} evidence;

_Static_assert(sizeof(evidence) == 3 * sizeof(double), "they stand in an array of doubles");

typedef struct hypothesis {
    icl_function_class kind;
    size_t size;                                 /* of phi */
    size_t *support;                             /* [size] of coordinates, ascending */
    double prior;                                /* log P(h) */
    double variance;                             /* sigma^2 */
    double *mean, *covariance, *features, *gain; /* [size], [size][size], [size], [size] */
} hypothesis;

/* ---- Which there are ---- */

static double count_supports(const icl_function_law *law, icl_function_class kind) {
    double count = 1;
    for (size_t i = 0; i < law->support && kind == ICL_CLASS_SPARSE; i++)
        count = floor(count * (double)(law->dimension - i) / (double)(i + 1) + .5);
    return count;
}

static bool is_gaussian(icl_function_class kind) {
    return kind == ICL_CLASS_LINEAR || kind == ICL_CLASS_SPARSE || kind == ICL_CLASS_QUADRATIC;
}

bool icl_bayes_exists(const icl_function_classes *is, int only) {
    const double levels = (double)icl_noise_level_count(&is->noise_level, is->prompt.points - 1);
    double count = 0;

    if (icl_labels_are_classes(&is->labels) || is->labels.noise.freedom > 0 || is->labels.noise.outliers > 0)
        return false;
    for (size_t i = 0; i < icl_function_components(&is->law); i++) {
        const icl_function_class kind = icl_function_component(&is->law, i);
        if (only != ICL_BAYES_ALL && (int)kind != only)
            continue;
        if (!is_gaussian(kind))
            return false;
        count += count_supports(&is->law, kind) * levels;
    }
    return count > 0 && count <= MOST_HYPOTHESES;
}

/* The next ascending choice of coordinates; false behind the last. */
static bool advance(size_t *support, size_t size, size_t dimension) {
    size_t i = size;

    while (i > 0 && support[i - 1] == dimension - size + i - 1)
        i--;
    if (i == 0)
        return false;
    support[i - 1]++;
    for (; i < size; i++)
        support[i] = support[i - 1] + 1;
    return true;
}

/* ---- One hypothesis ---- */

static void read_features(const icl_points *points, const hypothesis *h, size_t k) {
    const float *x = icl_points_x(points, k);
    const double scale = points->is->law.scale;

    for (size_t j = 0; j < h->size; j++) {
        const double value = (double)x[h->support[j]];
        h->features[j] = scale * (h->kind == ICL_CLASS_QUADRATIC ? SQRT_1_3 * value * value : value);
    }
}

static double dot(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t j = 0; j < count; j++)
        sum += a[j] * b[j];
    return sum;
}

/* Takes the label of the features; returns log N(y; <m, phi>, v) + log(2 pi) / 2. */
static double observe(const hypothesis *h, double y) {
    const size_t size = h->size;
    const double miss = y - dot(h->mean, h->features, size);

    for (size_t j = 0; j < size; j++)
        h->gain[j] = dot(h->covariance + j * size, h->features, size);
    const double v = dot(h->gain, h->features, size) + h->variance;
    for (size_t j = 0; j < size; j++) {
        h->mean[j] += h->gain[j] * miss / v;
        for (size_t l = 0; l < size; l++)
            h->covariance[j * size + l] -= h->gain[j] * h->gain[l] / v;
    }
    return -.5 * (miss * miss / v + log(v));
}

static void join(evidence *to, double log_weight, double value) {
    if (log_weight > to->most) {
        const double factor = exp(to->most - log_weight);
        to->total *= factor;
        to->sum *= factor;
        to->most = log_weight;
    }
    const double weight = exp(log_weight - to->most);
    to->total += weight;
    to->sum += weight * value;
}

static void follow(const icl_points *points, const hypothesis *h, evidence *at) {
    double log_weight = h->prior;

    memset(h->mean, 0, h->size * sizeof *h->mean);
    memset(h->covariance, 0, h->size * h->size * sizeof *h->covariance);
    for (size_t j = 0; j < h->size; j++)
        h->covariance[j * h->size + j] = 1;
    for (size_t k = 0; k < points->count; k++) {
        read_features(points, h, k);
        join(&at[k], log_weight, dot(h->mean, h->features, h->size));
        if (k + 1 < points->count)
            log_weight += observe(h, icl_points_y(points, k));
    }
}

/* ---- All ---- */

static size_t count_work(size_t dimension, size_t count, const icl_function_classes *is) {
    (void)is;
    return 3 * count + dimension * (dimension + 3) + (dimension * sizeof(size_t) + sizeof(double) - 1) / sizeof(double);
}

/* Of one class: every support and level. */
static void follow_class(const icl_points *points, icl_function_class kind, double share, hypothesis *h, evidence *at) {
    const icl_function_classes *is = points->is;
    const size_t labels = is->prompt.points - 1, levels = icl_noise_level_count(&is->noise_level, labels);
    const double least = LEAST_VARIANCE * icl_function_mean_square(&is->law);

    h->kind = kind;
    h->size = kind == ICL_CLASS_SPARSE ? is->law.support : points->dimension;
    const double support_share = share / count_supports(&is->law, kind);
    for (size_t j = 0; j < h->size; j++)
        h->support[j] = j;
    do
        for (size_t l = 0; l < levels; l++) {
            double level_share;
            const double sigma = icl_noise_level(&is->noise_level, labels, l, &level_share);
            h->prior = log(support_share * level_share);
            h->variance = fmax(sigma * sigma, least);
            follow(points, h, at);
        }
    while (advance(h->support, h->size, points->dimension));
}

/* number: ICL_BAYES_ALL, or the one class that functions are taken to be of. */
static void predict(const icl_points *points, double number, const void *shared, double *work, double *outputs) {
    const icl_function_law *law = &points->is->law;
    const size_t d = points->dimension;
    evidence *at = (evidence *)work;
    double *matrix = work + 3 * points->count, *vectors = matrix + d * d;
    hypothesis h = {.covariance = matrix,
                    .mean = vectors,
                    .features = vectors + d,
                    .gain = vectors + 2 * d,
                    .support = (size_t *)(vectors + 3 * d)};

    (void)shared;
    for (size_t k = 0; k < points->count; k++)
        at[k] = (evidence){.most = -(double)INFINITY};
    for (size_t i = 0; i < icl_function_components(law); i++)
        if ((int)number == ICL_BAYES_ALL || (int)number == (int)icl_function_component(law, i))
            follow_class(points, icl_function_component(law, i), icl_function_share(law, i), &h, at);
    for (size_t k = 0; k < points->count; k++)
        outputs[k] = at[k].sum / at[k].total;
}

const icl_points_predictor icl_points_bayes = {.predict = predict, .count_work = count_work};
