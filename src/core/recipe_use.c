/* Which keys of a recipe are read: those of no choice, and those that a chosen word lists. */
#include <assert.h>
#include <string.h>

#include "core/recipe_store.h"
#include "iclab/text.h"

static bool lists(const icl_choice *choice, const icl_recipe_key *key) {
    for (const icl_recipe_group *const *group = choice->keys; group && *group; group++)
        for (size_t i = 0; i < (*group)->count; i++)
            if (strcmp((*group)->rows[i].section, key->section) == 0 && strcmp((*group)->rows[i].name, key->name) == 0)
                return true;
    return false;
}

static bool has_reader(const icl_recipe_key *governor, const icl_recipe_key *key) {
    for (const icl_choice *choice = governor->choices; choice && choice->word; choice++)
        if (lists(choice, key))
            return true;
    return false;
}

/* The key whose choices list this one, or key_count. */
static size_t find_governor(const icl_recipe *recipe, size_t index) {
    size_t i = 0;
    while (i < recipe->key_count && !has_reader(&recipe->keys[i], &recipe->keys[index]))
        i++;
    return i;
}

static bool is_listed(const icl_recipe *recipe, size_t governor, size_t index) {
    for (const icl_choice *choice = recipe->keys[governor].choices; choice->word; choice++)
        if (strcmp(choice->word, recipe->values[governor].text) == 0)
            return lists(choice, &recipe->keys[index]);
    return false;
}

static bool is_used(const icl_recipe *recipe, size_t index) {
    const size_t governor = find_governor(recipe, index);
    return governor == recipe->key_count || (is_listed(recipe, governor, index) && is_used(recipe, governor));
}

bool icl_recipe_is_used(const icl_recipe *recipe, const char *section, const char *key) {
    const size_t index = icl_recipe_find(recipe, section, key);
    assert(index < recipe->key_count && "a key that the table does not have");
    return is_used(recipe, index);
}

bool icl_recipe_is_idle(const icl_recipe *recipe, size_t index) {
    return recipe->values[index].is_default && !is_used(recipe, index);
}

/* "override: model.heads = 2: model.family = softmax does not read it: expected 1, its default, or model.family =
 * linear". */
static icl_status refuse(const icl_recipe *recipe, size_t index, icl_error *error) {
    const icl_recipe_key *key = &recipe->keys[index], *reader = key, *governor;
    size_t at = find_governor(recipe, index);
    icl_text words = {0};
    icl_status status = ICL_OK;

    for (; !is_used(recipe, at); at = find_governor(recipe, at))
        reader = &recipe->keys[at];
    governor = &recipe->keys[at];
    for (const icl_choice *choice = governor->choices; choice->word; choice++)
        if (lists(choice, reader))
            ICL_TRY(icl_text_print(&words, error, "%s%s", words.length > 0 ? " or " : "", choice->word));
    status = icl_fail(
        error, ICL_ERROR_INPUT, "%s: %s.%s = %s: %s.%s = %s does not read it: expected %s, its default, or %s.%s = %s",
        recipe->values[index].origin, key->section, key->name, recipe->values[index].text, governor->section,
        governor->name, recipe->values[at].text, key->default_value[0] ? key->default_value : "nothing",
        governor->section, governor->name, words.bytes);
done:
    icl_text_release(&words);
    return status;
}

icl_status icl_recipe_check(const icl_recipe *recipe, const char *section, icl_error *error) {
    for (size_t i = 0; i < recipe->key_count; i++)
        if (strcmp(recipe->keys[i].section, section) == 0 && !recipe->values[i].is_default && !is_used(recipe, i))
            return refuse(recipe, i, error);
    return ICL_OK;
}

icl_status icl_recipe_reset_unused(icl_recipe *recipe, icl_error *error) {
    icl_status status = ICL_OK;

    for (size_t i = 0; i < recipe->key_count; i++)
        if (!is_used(recipe, i))
            ICL_TRY(icl_recipe_set(recipe, recipe->keys[i].section, recipe->keys[i].name, recipe->keys[i].default_value,
                                   "default", error));
done:
    return status;
}
