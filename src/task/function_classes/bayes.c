/* The labels that functions get (labels.h), and the posterior mean of functions, given labels. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "task/draws.h"
#include "task/function_classes/labels.h"
#include "task/function_classes/predictors.h"
#include "task/laws.h"

/* ---- Noise ---- */

typedef enum noise_kind { LAW_NORMAL = 0, LAW_STUDENT } noise_kind;
typedef enum noise_unit { UNIT_DEVIATION = 0, UNIT_SCALE } noise_unit;
typedef enum outlier_kind { OUTLIER_WIDE = 0, OUTLIER_MULTIPLIED } outlier_kind;

/* Recipe keys of labels; members have the keys' names. */
typedef struct label_keys {
    icl_label_kind label_law;
    double flipped, freedom, outliers, outlier_size;
    noise_kind noise_law;
    noise_unit noise_unit;
    outlier_kind outlier_law;
    icl_noise_change noise_varies;
} label_keys;

#define KEY(field)  ICL_KEY("task", label_keys, field)
#define NAME(field) ICL_KEY_NAME("task", label_keys, field)

/* Up to this noise, squares of labels, summed over a batch, stay floats. */
static const double LARGEST_NOISE = 1e16;

/* Up to this sigma, times an input. */
static const double LARGEST_OF_INPUT = 1e6;

/* Larger than the largest normal that is drawn. */
static const double LARGEST_NORMAL = 7;

static const icl_choice units[] = {{"deviation", UNIT_DEVIATION}, {"scale", UNIT_SCALE}, {0}};

static const icl_recipe_key student_rows[] = {
    {KEY(freedom), "3", 1, 1e6, .help = "degrees of freedom of Student's t"},
    {KEY(noise_unit), "deviation", .choices = units,
     .help = "what task.noise is of Student's t: its standard deviation or its scale"},
};
static const icl_recipe_group student_keys = ICL_RECIPE_GROUP(student_rows);
static const icl_recipe_group *const student_groups[] = {&student_keys, NULL};

static const icl_choice laws[] = {{"normal", LAW_NORMAL}, {"student-t", LAW_STUDENT, student_groups}, {0}};

static const icl_choice outlier_laws[] = {{"wide", OUTLIER_WIDE}, {"multiplied", OUTLIER_MULTIPLIED}, {0}};

static const icl_recipe_key outlier_rows[] = {
    {KEY(outlier_law), "wide", .choices = outlier_laws, .help = "outliers have wide noise, or are multiplied labels"},
    {KEY(outlier_size), "10", 1e-6, 1e6,
     .help = "of outliers: what their noise has in place of sigma, or their factor"},
};
static const icl_recipe_group outlier_keys = ICL_RECIPE_GROUP(outlier_rows);
static const icl_recipe_group *const outlier_groups[] = {&outlier_keys, NULL};

static const icl_choice changes[] = {
    {"none", ICL_NOISE_STEADY}, {"by-input", ICL_NOISE_BY_INPUT}, {"by-place", ICL_NOISE_BY_PLACE}, {0}};

static const icl_recipe_key noise_rows[] = {
    {KEY(noise_law), "normal", .choices = laws, .help = "what noise is of"},
    {KEY(outliers), "0", 0, 1, .help = "share of the labels", .keys = outlier_groups, .neutral = "0"},
    {KEY(noise_varies), "none", .choices = changes,
     .help = "how sigma changes within a sequence: with the first coordinate of an input, or along it"},
};
static const icl_recipe_group noise_keys = ICL_RECIPE_GROUP(noise_rows);

/* Returns the radius that t in two dimensions exceeds with probability u, in units of c. */
static double radius(double freedom, double u) {
    return sqrt(freedom * (icl_exponential(-2 / freedom * icl_logarithm(u)) - 1));
}

/* Returns the largest noise that can be drawn if sigma is at most this. */
static double largest_noise(const icl_noise_law *law, double sigma) {
    const double eps = law->freedom > 0 ? law->unit * radius(law->freedom, 0x1p-33) : LARGEST_NORMAL;
    const double size = law->outliers > 0 ? law->outlier_size : 0;
    return eps * (law->multiplies ? sigma * fmax(1, size) : fmax(sigma, size));
}

/* Reads task.noise_law, task.outliers, task.noise_varies and the keys that they bring into use; `largest` is the
 * largest sigma. */
static icl_status read_noise_law(const icl_recipe *recipe, double largest, icl_noise_law *law, icl_noise_change *varies,
                                 icl_error *error) {
    label_keys keys;
    icl_recipe_read(recipe, &noise_keys, &keys);
    icl_recipe_read(recipe, &student_keys, &keys);
    icl_recipe_read(recipe, &outlier_keys, &keys);
    const bool is_student = keys.noise_law == LAW_STUDENT, is_scale = keys.noise_unit == UNIT_SCALE;

    *law = (icl_noise_law){.freedom = is_student ? keys.freedom : 0,
                           .unit = 1,
                           .outliers = keys.outliers,
                           .outlier_size = keys.outlier_size,
                           .multiplies = keys.outlier_law == OUTLIER_MULTIPLIED};
    if (is_student && !is_scale && !(keys.freedom > 2))
        return icl_recipe_reject(recipe, NAME(freedom), error,
                                 "more than 2, or task.noise_unit = scale: the variance is infinite");
    law->unit = is_student && !is_scale ? sqrt((keys.freedom - 2) / keys.freedom) : 1;
    *varies = keys.noise_varies;
    if (*varies == ICL_NOISE_BY_INPUT && largest > LARGEST_OF_INPUT)
        return icl_recipe_reject(recipe, ICL_LAW_KEY(noise), error, "at most %g beside task.noise_varies = by-input",
                                 LARGEST_OF_INPUT);
    const double most = largest_noise(law, *varies == ICL_NOISE_BY_PLACE ? sqrt(2) * largest : largest);
    if (most > LARGEST_NOISE)
        return icl_recipe_reject(recipe, ICL_LAW_KEY(noise), error,
                                 "less: with what is asked of it, it reaches %g, and at most %g is kept", most,
                                 LARGEST_NOISE);
    return ICL_OK;
}

/*
 * Returns c t as a marginal of the bivariate t, whose radius exceeds r with probability (1 + r^2 / nu)^(-nu / 2)
 * (Bailey 1994, "Polar generation of random variates with the t-distribution"). The direction is that of two normals.
 */
static double make_student(const icl_noise_law *law, double normal, double other, uint32_t word) {
    const double r = radius(law->freedom, ((double)word + .5) * 0x1p-32);
    return law->unit * r * normal / sqrt(normal * normal + other * other);
}

/* Returns the label of a function's value. `normal` is of N(0, 1); all other randomness comes from four words of the
 * key, from 4 number on. Made with +, -, *, / and sqrt. */
static double add_noise(const icl_noise_law *law, double value, double sigma, double normal, icl_random_key key,
                        uint64_t number) {
    icl_words stream = {.key = key, .next = 4 * number};

    if (law->freedom == 0 && law->outliers == 0)
        return value + sigma * normal;
    const double other = icl_words_normal(&stream);
    const uint32_t tail = icl_words_next(&stream), choice = icl_words_next(&stream);
    const double eps = law->freedom > 0 ? make_student(law, normal, other, tail) : normal;
    if ((double)choice * 0x1p-32 >= law->outliers)
        return value + sigma * eps;
    return law->multiplies ? law->outlier_size * (value + sigma * eps) : value + law->outlier_size * eps;
}

/* Returns the log density of sigma eps at `miss`, up to a constant. */
static double log_density(const icl_noise_law *law, double miss, double sigma) {
    const double scale = law->unit * sigma, u = miss / scale;

    if (law->freedom == 0)
        return -.5 * u * u - log(scale);
    return -.5 * (law->freedom + 1) * log1p(u * u / law->freedom) - log(scale);
}

/* Returns the log density of a label, up to a number that is the same for all labels, values and sigma > 0. */
static double noise_density(const icl_noise_law *law, double label, double value, double sigma) {
    const double plain = log_density(law, label - value, sigma), size = law->outlier_size;

    if (law->outliers == 0)
        return plain;
    const double outlier =
        law->multiplies ? log_density(law, label - size * value, size * sigma) : log_density(law, label - value, size);
    if (law->outliers == 1)
        return outlier;
    const double larger = fmax(plain, outlier);
    return larger + log((1 - law->outliers) * exp(plain - larger) + law->outliers * exp(outlier - larger));
}

/* Returns the mean of 1 / variance of the noise that misses by this much. */
static double precision_at(const icl_noise_law *law, double miss, double sigma) {
    const double square = law->unit * law->unit * sigma * sigma;
    return law->freedom > 0 ? (law->freedom + 1) / (law->freedom * square + miss * miss) : 1 / square;
}

void icl_noise_law_weigh(const icl_noise_law *law, double label, double value, double sigma, double *precision,
                         double *seen) {
    const double factor = law->multiplies ? law->outlier_size : 1, far = law->multiplies ? sigma : law->outlier_size;
    const double outlier = law->outliers * exp(log_density(law, label - factor * value, factor * far) -
                                               noise_density(law, label, value, sigma));
    const double share = law->outliers > 0 ? fmin(outlier, 1) : 0;
    const double plain = (1 - share) * precision_at(law, label - value, sigma);
    const double other = share * precision_at(law, label / factor - value, far);

    *precision = plain + other;
    *seen = (plain * label + other * label / factor) / *precision;
}

double icl_noise_law_variance(const icl_noise_law *law, double sigma) {
    const double tails = law->freedom > 2 ? law->unit * law->unit * law->freedom / (law->freedom - 2) : 1;
    const double share = law->multiplies ? 0 : law->outliers, size = law->outlier_size;
    return tails * ((1 - share) * sigma * sigma + share * size * size);
}

/* ---- Labels ---- */

static const icl_recipe_key flip_rows[] = {
    {KEY(flipped), "0", 0, 1, .help = "share of the signs that are wrong"},
};
static const icl_recipe_group flip_keys = ICL_RECIPE_GROUP(flip_rows);

static const icl_recipe_group *const value_groups[] = {&icl_noise_keys, &noise_keys, NULL};
static const icl_recipe_group *const sign_groups[] = {&flip_keys, &icl_logistic_keys, NULL};
static const icl_recipe_group *const logistic_groups[] = {&icl_logistic_keys, NULL};

static const icl_choice kinds[] = {{"values", ICL_LABELS_ARE_VALUES, value_groups},
                                   {"signs", ICL_LABELS_ARE_SIGNS, sign_groups},
                                   {"logistic", ICL_LABELS_ARE_LOGISTIC, logistic_groups},
                                   {0}};

static const icl_recipe_key label_rows[] = {
    {KEY(label_law), "values", .choices = kinds,
     .help = "what labels say of a function: its values, or classes, by their signs or at random"},
};
const icl_recipe_group icl_label_keys = ICL_RECIPE_GROUP(label_rows);

/* Beyond this, exp(-|value|) is less than what a word of 32 bits tells apart. */
static const double LARGEST_LOGIT = 40;

/* The probability of a sign that cannot be, so that functions still differ by how many labels they miss. */
static const double LEAST_CHANCE = 1e-12;

icl_status icl_labels_read(const icl_recipe *recipe, icl_label_law *law, icl_noise *sigma, icl_error *error) {
    label_keys keys;

    icl_recipe_read(recipe, &icl_label_keys, &keys);
    icl_recipe_read(recipe, &flip_keys, &keys);
    *law = (icl_label_law){.kind = keys.label_law, .noise = {.unit = 1}, .flipped = keys.flipped};
    if (icl_labels_are_classes(law)) {
        *sigma = (icl_noise){.level = {.distribution = ICL_CHOICE, .choice_count = 1}};
        return ICL_OK;
    }
    ICL_CHECK(icl_noise_read(recipe, sigma, error));
    return read_noise_law(recipe, sigma->most, &law->noise, &law->varies, error);
}

/* Returns 1 / P(y = 1) - 1 with the same bits everywhere. */
static double odds_against(double value) {
    return icl_exponential(-fmax(-LARGEST_LOGIT, fmin(value, LARGEST_LOGIT)));
}

double icl_label_draw(const icl_label_law *law, double value, double sigma, double normal, icl_random_key key,
                      uint64_t number) {
    if (!icl_labels_are_classes(law))
        return add_noise(&law->noise, value, sigma, normal, key, number);
    const double u = ((double)icl_random_word(key, 4 * number + 3) + .5) * 0x1p-32;
    if (law->kind == ICL_LABELS_ARE_LOGISTIC)
        return u * (1 + odds_against(value)) < 1 ? 1 : -1;
    return (value > 0) == (u >= law->flipped) ? 1 : -1;
}

/* Returns P(y = 1) for classes. */
static double label_chance(const icl_label_law *law, double value) {
    if (law->kind == ICL_LABELS_ARE_LOGISTIC)
        return 1 / (1 + odds_against(value));
    return value > 0 ? 1 - law->flipped : law->flipped;
}

double icl_label_density(const icl_label_law *law, double label, double value, double sigma) {
    if (!icl_labels_are_classes(law))
        return noise_density(&law->noise, label, value, sigma);
    if (law->kind == ICL_LABELS_ARE_LOGISTIC)
        return -log1p(odds_against(label * value));
    return log(fmax((label > 0) == (value > 0) ? 1 - law->flipped : law->flipped, LEAST_CHANCE));
}

/* ---- The posterior mean ---- */

/*
 * The posterior mean of functions that are linear in Gaussian weights, given a hypothesis h: the class among those of a
 * mixture, the coordinates that a sparse function reads, the noise level (below). With the features phi of h, f(x) =
 * <w, phi(x)> with w ~ N(0, I):
 *
 *     E f(x_k) = sum_h p_h <m_h, phi(x_k)>,   p_h in proportion to P(h) P(y_0 … y_(k-1) | h),
 *
 * with the marginal likelihood from its factors N(y_i; <m, phi>, v), v = phi^T P phi + sigma^2, while each label
 * updates the posterior mean m and covariance P:
 *
 *     m <- m + P phi (y - <m, phi>) / v,   P <- P - P phi phi^T P / v
 */

/* ---- Noise levels ---- */

/*
 * The law of a sequence's noise level as a list of levels with probabilities, for sums over unknown levels.
 *
 * Levels of fixed:S and choice:S1,S2,… are themselves the list. For sigma ~ U[0, S] it is a quadrature over
 * t = log(sigma / S), d sigma / S = exp(t) dt: what k labels say of sigma has a curvature of at most 2 k in t, so that
 * panels of 4 Gauss-Legendre nodes are 1 / sqrt(2 n) wide. All mass below S exp(-7) = .0009 S stands in one level.
 */

enum { NODES = 4 };

/* The lowest log(sigma / S), and the widest panel. */
static const double LOWEST = -7, WIDEST = .5;

/* Abramowitz and Stegun, table 25.4, n = 4. */
static const double nodes[NODES] = {-.8611363115940526, -.3399810435848563, .3399810435848563, .8611363115940526};
static const double node_weights[NODES] = {.3478548451374538, .6521451548625461, .6521451548625461, .3478548451374538};

static bool is_continuous(const icl_random_params *law) {
    return law->distribution == ICL_UNIFORM && law->high > 0;
}

static size_t count_panels(size_t labels) {
    return (size_t)ceil(-LOWEST / fmin(WIDEST, 1 / sqrt(2 * (double)(labels > 0 ? labels : 1))));
}

size_t icl_noise_level_count(const icl_random_params *law, size_t labels) {
    if (is_continuous(law))
        return 1 + NODES * count_panels(labels);
    return law->distribution == ICL_UNIFORM ? 1 : law->choice_count;
}

double icl_noise_level(const icl_random_params *law, size_t labels, size_t i, double *share) {
    if (!is_continuous(law)) {
        *share = 1 / (double)icl_noise_level_count(law, labels);
        return law->distribution == ICL_UNIFORM ? 0 : (double)law->choices[i];
    }
    if (i == 0) {
        *share = exp(LOWEST);
        return (double)law->high * exp(LOWEST);
    }
    const double half = -LOWEST / (double)count_panels(labels) / 2;
    const size_t panel = (i - 1) / NODES, node = (i - 1) % NODES;
    const double t = LOWEST + half * (double)(2 * panel + 1) + half * nodes[node];
    *share = half * node_weights[node] * exp(t);
    return (double)law->high * exp(t);
}

/* ---- Hypotheses ---- */

#define SQRT_1_3 0.57735026918962576451

/* The most hypotheses, which take a minute for ten thousand sequences of 40 pairs. */
static const double MOST_HYPOTHESES = 20000;

/* The sigma^2 that stands for no noise, as a share of the mean square of functions. */
static const double LEAST_SHARE = 1e-9;

/* Sums over hypotheses, divided by exp(most): `total` of P(h) P(y_0 … y_(k-1) | h), `sum` of this times
 * E[f(x_k) | h]. */
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

/* ---- The hypotheses that exist ---- */

static double count_supports(const icl_function_law *law, icl_function_class kind) {
    double count = 1;
    for (size_t i = 0; i < law->support && kind == ICL_CLASS_SPARSE; i++)
        count = floor(count * (double)(law->dimension - i) / (double)(i + 1) + .5);
    return count;
}

static bool is_gaussian(icl_function_class kind) {
    return kind == ICL_CLASS_LINEAR || kind == ICL_CLASS_SPARSE || kind == ICL_CLASS_QUADRATIC;
}

bool icl_bayes_exists(const icl_function_classes *state, int only) {
    const double levels = (double)icl_noise_level_count(&state->noise_level, state->prompt.points - 1);
    double count = 0;

    if (icl_labels_are_classes(&state->labels) || icl_label_has_tails(&state->labels) ||
        state->labels.varies != ICL_NOISE_STEADY)
        return false;
    for (size_t i = 0; i < icl_function_components(&state->law); i++) {
        const icl_function_class kind = icl_function_component(&state->law, i);
        if (only != ICL_BAYES_ALL && (int)kind != only)
            continue;
        if (!is_gaussian(kind))
            return false;
        count += count_supports(&state->law, kind) * levels;
    }
    return count > 0 && count <= MOST_HYPOTHESES;
}

/* Moves to the next ascending choice of coordinates; returns false after the last one. */
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
    const double scale = points->state->law.scale;

    for (size_t j = 0; j < h->size; j++) {
        const double value = (double)x[h->support[j]];
        h->features[j] = scale * (h->kind == ICL_CLASS_QUADRATIC ? SQRT_1_3 * value * value : value);
    }
}

/* Updates m and P by the label of the features; returns log N(y; <m, phi>, v) + log(2 pi) / 2. */
static double observe(const hypothesis *h, double y) {
    const size_t size = h->size;
    const double miss = y - icl_dot(h->mean, h->features, size);

    for (size_t j = 0; j < size; j++)
        h->gain[j] = icl_dot(h->covariance + j * size, h->features, size);
    const double v = icl_dot(h->gain, h->features, size) + h->variance;
    for (size_t j = 0; j < size; j++) {
        h->mean[j] += h->gain[j] * miss / v;
        for (size_t l = 0; l < size; l++)
            h->covariance[j * size + l] -= h->gain[j] * h->gain[l] / v;
    }
    return -.5 * (miss * miss / v + log(v));
}

static void join(evidence *joined, double log_weight, double value) {
    if (log_weight > joined->most) {
        const double factor = exp(joined->most - log_weight);
        joined->total *= factor;
        joined->sum *= factor;
        joined->most = log_weight;
    }
    const double weight = exp(log_weight - joined->most);
    joined->total += weight;
    joined->sum += weight * value;
}

static void follow(const icl_points *points, const hypothesis *h, evidence *at) {
    double log_weight = h->prior;

    memset(h->mean, 0, h->size * sizeof *h->mean);
    memset(h->covariance, 0, h->size * h->size * sizeof *h->covariance);
    for (size_t j = 0; j < h->size; j++)
        h->covariance[j * h->size + j] = 1;
    for (size_t k = 0; k < points->count; k++) {
        read_features(points, h, k);
        join(&at[k], log_weight, icl_dot(h->mean, h->features, h->size));
        if (k + 1 < points->count)
            log_weight += observe(h, icl_points_y(points, k));
    }
}

/* ---- All hypotheses ---- */

static size_t count_bayes(size_t dimension, size_t count, const icl_function_classes *state) {
    (void)state;
    return 3 * count + dimension * (dimension + 3) + (dimension * sizeof(size_t) + sizeof(double) - 1) / sizeof(double);
}

/* Adds the evidence of every support and level of one class. */
static void follow_class(const icl_points *points, icl_function_class kind, double share, hypothesis *h, evidence *at) {
    const icl_function_classes *state = points->state;
    const size_t labels = state->prompt.points - 1, levels = icl_noise_level_count(&state->noise_level, labels);
    const double least = LEAST_SHARE * icl_function_mean_square(&state->law);

    h->kind = kind;
    h->size = kind == ICL_CLASS_SPARSE ? state->law.support : points->dimension;
    const double support_share = share / count_supports(&state->law, kind);
    for (size_t j = 0; j < h->size; j++)
        h->support[j] = j;
    do
        for (size_t l = 0; l < levels; l++) {
            double level_share;
            const double sigma = icl_noise_level(&state->noise_level, labels, l, &level_share);
            h->prior = log(support_share * level_share);
            h->variance = fmax(sigma * sigma, least);
            follow(points, h, at);
        }
    while (advance(h->support, h->size, points->dimension));
}

/* Predicts the posterior mean. number is ICL_BAYES_ALL, or the one class that functions are taken to be of. */
static void predict_bayes(const icl_points *points, double number, const void *shared, double *work, double *outputs) {
    const icl_function_law *law = &points->state->law;
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

const icl_points_predictor icl_points_bayes = {.predict = predict_bayes, .count_work = count_bayes};

/* ---- Pools ---- */

/*
 * The posterior mean over a pool of M functions, dMMSE of Raventos and others 2023 (arXiv 2306.15063), section 2:
 *
 *     sum_m p_m f_m(x_k),   p_m in proportion to prod_(i < k) p(y_i | f_m(x_i)),
 *
 * which for normal noise is exp(-sum_(i < k) (y_i - f_m(x_i))^2 / (2 sigma^2)). Without noise p is uniform over the
 * functions that fit the pairs best. For classes the output is the logit of sum_m p_m P(y = 1 | f_m(x_k)), cut to +-40.
 */

/* The most doubles in a table of all functions: 1 GiB. */
#define MOST_DOUBLES ((uint64_t)1 << 27)

/* The share of functions' mean square that stands for sigma^2 = 0: rounding makes far smaller errors, and others are
 * larger. */
static const double LEAST_POOL_SHARE = 1e-9;

static icl_status draw_pool(const icl_function_classes *state, void **shared, icl_error *error) {
    const size_t size = icl_function_size(&state->law);
    double *table = NULL;

    if (state->pool > MOST_DOUBLES / size)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "dmmse: task.pool = %llu functions of %zu numbers, expected at most %llu numbers in all",
                        (unsigned long long)state->pool, size, (unsigned long long)MOST_DOUBLES);
    ICL_CHECK(icl_allocate((size_t)state->pool, size * sizeof *table, "pool of functions", &table, error));
    for (size_t m = 0; m < state->pool; m++)
        icl_function_of_pool(state, m, table + m * size);
    *shared = table;
    return ICL_OK;
}

static size_t count_pool(size_t dimension, size_t count, const icl_function_classes *state) {
    (void)dimension;
    (void)count;
    return 2 * (size_t)state->pool;
}

/* Returns log(p / (1 - p)) of p = sum / total, cut to +-LARGEST_LOGIT. */
static double logit(double sum, double total) {
    return fmax(-LARGEST_LOGIT, fmin(log(sum) - log(total - sum), LARGEST_LOGIT));
}

static void predict_from_pool(const icl_points *points, double number, const void *shared, double *work,
                              double *outputs) {
    const icl_function_classes *state = points->state;
    const size_t pool = (size_t)state->pool, size = icl_function_size(&state->law);
    const double sigma = fmax(points->sigma, sqrt(LEAST_POOL_SHARE * icl_function_mean_square(&state->law)));
    const double *functions = shared;
    const bool are_classes = icl_labels_are_classes(&state->labels);
    double *logs = work, *values = work + pool;

    (void)number;
    memset(logs, 0, pool * sizeof *logs);
    for (size_t k = 0; k < points->count; k++) {
        const double y = k + 1 < points->count ? icl_points_y(points, k) : 0;
        double most = -(double)INFINITY, sum = 0, total = 0;
        for (size_t m = 0; m < pool; m++)
            most = fmax(most, logs[m]);
        for (size_t m = 0; m < pool; m++) {
            const double p = exp(logs[m] - most);
            values[m] = icl_function_value(&state->law, functions + m * size, icl_points_x(points, k));
            sum += p * (are_classes ? label_chance(&state->labels, values[m]) : values[m]);
            total += p;
            logs[m] += icl_label_density(&state->labels, y, values[m], sigma);
        }
        outputs[k] = are_classes ? logit(sum, total) : sum / total;
    }
}

const icl_points_predictor icl_points_posterior = {
    .predict = predict_from_pool, .count_work = count_pool, .share = draw_pool, .gives_logits = true};
