#include "task/noise.h"

#include <string.h>

#include "core/recipe_keys.h"
#include "iclab/number.h"
#include "task/numbers.h"

static const icl_recipe_key keys[] = {
    {"task", "noise", ICL_KEY_TEXT, "uniform:5",
     .help = "sigma of a sequence: S or fixed:S | uniform:SMAX | choice:S1,S2,..."},
};
const icl_recipe_group icl_noise_keys = ICL_RECIPE_GROUP(keys);

/* A level whose square, times the square of any normal and summed over a context, stays a normal float. */
static const double LARGEST_NOISE = 1e15;

/*
 * Task data must have the same bits on devices that flush subnormal floats to zero, so that none may come about. The
 * smallest normal that is drawn is 1.87e-8 (arithmetic/random_words.h, found by trying all): a level times it stays
 * above 2^-126 = 1.18e-38 from 6.3e-31 on. A uniform level is a multiple of 2^-24 of the maximum.
 */
static const double SMALLEST_NOISE = 1e-30, SMALLEST_MAXIMUM = 1e-22;

static icl_status read_levels(const icl_recipe *recipe, const char *list, double smallest, icl_task_prior *prior,
                              icl_error *error) {
    double *levels = prior->noise_levels;

    if (!icl_parse_numbers(list, ICL_MAX_CHOICES, levels, &prior->noise_count))
        return icl_recipe_reject(recipe, "task", "noise", error, "numbers after the colon, separated by commas");
    if (prior->noise_count > ICL_MAX_CHOICES)
        return icl_recipe_reject(recipe, "task", "noise", error, "at most %d levels, not %zu", ICL_MAX_CHOICES,
                                 prior->noise_count);
    for (size_t i = 0; i < prior->noise_count; i++) {
        if (!(levels[i] >= 0 && levels[i] <= LARGEST_NOISE))
            return icl_recipe_reject(recipe, "task", "noise", error, "standard deviations from 0 to %g, not %g",
                                     LARGEST_NOISE, levels[i]);
        if (levels[i] > 0 && levels[i] < smallest)
            return icl_recipe_reject(recipe, "task", "noise", error,
                                     "0, or %g and more: %g makes numbers that some devices flush to 0", smallest,
                                     levels[i]);
        levels[i] = (double)(float)levels[i];
    }
    return ICL_OK;
}

icl_status icl_noise_read(const icl_recipe *recipe, icl_task_prior *prior, icl_error *error) {
    static const char *const prefixes[] = {
        [ICL_NOISE_FIXED] = "fixed:", [ICL_NOISE_UNIFORM] = "uniform:", [ICL_NOISE_CHOICE] = "choice:"};
    const char *text = icl_recipe_text(recipe, "task", "noise"), *list = text;
    double number;
    size_t kind = 0;
    icl_status status;

    while (kind < 3 && strncmp(text, prefixes[kind], strlen(prefixes[kind])) != 0)
        kind++;
    if (kind < 3)
        list += strlen(prefixes[kind]);
    else if (icl_parse_number(text, strlen(text), &number))
        kind = ICL_NOISE_FIXED;
    else
        return icl_recipe_reject(recipe, "task", "noise", error, "fixed:S, uniform:MAXIMUM or choice:S1,S2,...");
    status = read_levels(recipe, list, kind == ICL_NOISE_UNIFORM ? SMALLEST_MAXIMUM : SMALLEST_NOISE, prior, error);
    if (status != ICL_OK)
        return status;
    if (kind != ICL_NOISE_CHOICE && prior->noise_count != 1)
        return icl_recipe_reject(recipe, "task", "noise", error, "one number after %s (several are choice:S1,S2,...)",
                                 prefixes[kind]);
    prior->noise_max = 0;
    prior->mean_square_noise = 0;
    for (size_t i = 0; i < prior->noise_count; i++) {
        const double level = prior->noise_levels[i];
        prior->noise_max = level > prior->noise_max ? level : prior->noise_max;
        prior->mean_square_noise += level * level / (double)prior->noise_count;
    }
    switch (kind) {
    case ICL_NOISE_FIXED:
        prior->noise = ICL_NOISE_FIXED;
        break;
    case ICL_NOISE_UNIFORM:
        prior->noise = ICL_NOISE_UNIFORM;
        prior->noise_count = 0;
        prior->mean_square_noise /= 3; /* of U[0, 1] */
        break;
    default:
        prior->noise = ICL_NOISE_CHOICE;
        break;
    }
    return ICL_OK;
}

icl_random_params icl_noise_distribution(const icl_task_prior *prior) {
    icl_random_params params = {0};

    if (prior->noise == ICL_NOISE_UNIFORM) {
        params.distribution = ICL_UNIFORM;
        params.high = (float)prior->noise_max;
    } else {
        params.distribution = ICL_CHOICE;
        params.choice_count = (uint32_t)prior->noise_count;
        for (size_t i = 0; i < prior->noise_count; i++)
            params.choices[i] = (float)prior->noise_levels[i];
    }
    return params;
}
