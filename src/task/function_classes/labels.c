#include "task/function_classes/labels.h"

#include <math.h>

#include "core/recipe_keys.h"
#include "task/draws.h"
#include "task/function_classes/predictors.h"
#include "task/laws.h"
#include "task/quantiles.h"

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
} label_keys;

#define KEY(field)  ICL_KEY("task", label_keys, field)
#define NAME(field) ICL_KEY_NAME("task", label_keys, field)

/* Up to this noise, squares of labels, summed over a batch, stay floats. */
static const double LARGEST_NOISE = 1e16;

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

static const icl_recipe_key noise_rows[] = {
    {KEY(noise_law), "normal", .choices = laws, .help = "what noise is of"},
    {KEY(outliers), "0", 0, 1, .help = "share of the labels", .keys = outlier_groups, .neutral = "0"},
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

/* Reads task.noise_law, task.outliers and the keys that they bring into use; `largest` is the largest sigma. */
static icl_status read_noise_law(const icl_recipe *recipe, double largest, icl_noise_law *law, icl_error *error) {
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
    const double most = largest_noise(law, largest);
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
    return read_noise_law(recipe, sigma->most, &law->noise, error);
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

double icl_label_chance(const icl_label_law *law, double value) {
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
