#include "task/function_classes/labels.h"

#include <math.h>

#include "core/recipe_keys.h"
#include "task/draws.h"
#include "task/elementary.h"
#include "task/function_classes/predictors.h"
#include "task/noise.h"

static const icl_recipe_key flip_rows[] = {
    {"task", "flipped", ICL_KEY_NUMBER, "0", 0, 1, .help = "share of the signs that are wrong"},
};
static const icl_recipe_group flip_keys = ICL_RECIPE_GROUP(flip_rows);

static const icl_recipe_group *const value_groups[] = {&icl_noise_keys, &icl_noise_law_keys, NULL};
static const icl_recipe_group *const sign_groups[] = {&flip_keys, &icl_logistic_keys, NULL};
static const icl_recipe_group *const logistic_groups[] = {&icl_logistic_keys, NULL};

static const icl_choice kinds[] = {{"values", ICL_LABELS_ARE_VALUES, value_groups},
                                   {"signs", ICL_LABELS_ARE_SIGNS, sign_groups},
                                   {"logistic", ICL_LABELS_ARE_LOGISTIC, logistic_groups},
                                   {0}};

static const icl_recipe_key rows[] = {
    {"task", "label_law", ICL_KEY_WORD, "values", .choices = kinds,
     .help = "what labels say of a function: its values, or classes, by their signs or at random"},
};
const icl_recipe_group icl_label_keys = ICL_RECIPE_GROUP(rows);

/* Beyond it exp(-|value|) is less than what a word of 32 bits tells apart. */
static const double LARGEST_LOGIT = 40;

/* Of a sign that cannot be, so that functions that fit all labels but few are not alike. */
static const double LEAST_CHANCE = 1e-12;

icl_status icl_labels_read(const icl_recipe *recipe, icl_task_prior *prior, icl_label_law *law, icl_error *error) {
    *law = (icl_label_law){.kind = (icl_label_kind)icl_recipe_choice(recipe, "task", "label_law"),
                           .noise = {.unit = 1},
                           .flipped = icl_recipe_number(recipe, "task", "flipped")};
    if (icl_labels_are_classes(law)) {
        prior->noise = ICL_NOISE_FIXED;
        prior->noise_count = 1;
        return ICL_OK;
    }
    ICL_CHECK(icl_noise_read(recipe, prior, error));
    return icl_noise_law_read(recipe, prior->noise_max, &law->noise, error);
}

/* 1 / P(y = 1) - 1 with the same bits everywhere. */
static double odds_against(double value) {
    return icl_exponential(-fmax(-LARGEST_LOGIT, fmin(value, LARGEST_LOGIT)));
}

double icl_label_draw(const icl_label_law *law, double value, double sigma, double normal, icl_random_key key,
                      uint64_t number) {
    if (!icl_labels_are_classes(law))
        return icl_noise_law_label(&law->noise, value, sigma, normal, key, number);
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
        return icl_noise_law_density(&law->noise, label, value, sigma);
    if (law->kind == ICL_LABELS_ARE_LOGISTIC)
        return -log1p(odds_against(label * value));
    return log(fmax((label > 0) == (value > 0) ? 1 - law->flipped : law->flipped, LEAST_CHANCE));
}
