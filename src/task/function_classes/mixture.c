#include "task/function_classes/mixture.h"

#include <math.h>
#include <string.h>

#include "core/recipe_keys.h"
#include "iclab/number.h"

static const icl_recipe_key rows[] = {
    {"task", "mixture", ICL_KEY_TEXT, "linear:1,sparse:1",
     .help = "classes of a mixture and their weights: CLASS:WEIGHT,CLASS:WEIGHT,..."},
};
const icl_recipe_group icl_mixture_keys = ICL_RECIPE_GROUP(rows);

static icl_status reject(const icl_recipe *recipe, const char *item, size_t length, const char *why, icl_error *error) {
    return icl_recipe_reject(recipe, "task", "mixture", error,
                             "CLASS:WEIGHT,CLASS:WEIGHT,... of task.class: \"%.*s\" %s", (int)length, item, why);
}

/* One CLASS:WEIGHT of this length. */
static icl_status read_item(const icl_recipe *recipe, const icl_choice *classes, int itself, const char *item,
                            size_t length, icl_mixture *mixture, icl_error *error) {
    const char *colon = memchr(item, ':', length);
    const size_t name = colon ? (size_t)(colon - item) : length;
    double weight = 1;

    while (classes->word && (strlen(classes->word) != name || memcmp(classes->word, item, name) != 0))
        classes++;
    if (!classes->word || classes->value == itself)
        return reject(recipe, item, length, "is none", error);
    for (size_t i = 0; i < mixture->count; i++)
        if (mixture->classes[i] == classes->value)
            return reject(recipe, item, length, "is there twice", error);
    if (colon && !(icl_parse_number(colon + 1, length - name - 1, &weight) && weight >= 1e-6 && weight <= 1e6))
        return reject(recipe, item, length, "has no weight from 1e-6 to 1e6", error);
    if (mixture->count == ICL_MOST_COMPONENTS)
        return reject(recipe, item, length, "is one too many", error);
    mixture->classes[mixture->count] = classes->value;
    mixture->shares[mixture->count++] = weight;
    return ICL_OK;
}

icl_status icl_mixture_read(const icl_recipe *recipe, const icl_choice *classes, int itself, icl_mixture *mixture,
                            icl_error *error) {
    const char *text = icl_recipe_text(recipe, "task", "mixture");
    double total = 0;

    *mixture = (icl_mixture){0};
    for (const char *at = text;; at++) {
        const size_t length = strcspn(at, ",");
        ICL_CHECK(read_item(recipe, classes, itself, at, length, mixture, error));
        at += length;
        if (!*at)
            break;
    }
    for (size_t i = 0; i < mixture->count; i++)
        total += mixture->shares[i];
    for (size_t i = 0; i < mixture->count; i++)
        mixture->shares[i] /= total;
    return ICL_OK;
}

size_t icl_mixture_choose(const icl_mixture *mixture, uint32_t word) {
    const double place = ((double)word + .5) * 0x1p-32;
    double below = 0;

    for (size_t i = 0; i + 1 < mixture->count; i++) {
        below += mixture->shares[i];
        if (place < below)
            return i;
    }
    return mixture->count - 1;
}
