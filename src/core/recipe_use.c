/* Which keys of a recipe are read: those that no other governs, and those that a governor brings into use: by the word
 * that it has, or by not being neutral. */
#include <assert.h>
#include <string.h>

#include "core/recipe_store.h"
#include "iclab/text.h"

bool icl_recipe_lists(const icl_recipe_group *const *groups, const icl_recipe_key *key) {
    for (; groups && *groups; groups++)
        for (size_t i = 0; i < (*groups)->count; i++)
            if (strcmp((*groups)->rows[i].section, key->section) == 0 &&
                strcmp((*groups)->rows[i].name, key->name) == 0)
                return true;
    return false;
}

static bool governs(const icl_recipe_key *governor, const icl_recipe_key *key) {
    for (const icl_choice *choice = governor->choices; choice && choice->word; choice++)
        if (icl_recipe_lists(choice->keys, key))
            return true;
    return icl_recipe_lists(governor->keys, key);
}

/* Whether the governor's value brings the key into use. */
static bool brings(const icl_recipe *recipe, size_t governor, size_t index) {
    const icl_recipe_key *from = &recipe->keys[governor], *key = &recipe->keys[index];

    for (const icl_choice *choice = from->choices; choice && choice->word; choice++)
        if (strcmp(choice->word, recipe->values[governor].text) == 0 && icl_recipe_lists(choice->keys, key))
            return true;
    return icl_recipe_lists(from->keys, key) && !icl_recipe_means(recipe, governor, from->neutral);
}

static bool is_used(const icl_recipe *recipe, size_t index) {
    bool is_governed = false;

    for (size_t i = 0; i < recipe->key_count; i++) {
        if (!governs(&recipe->keys[i], &recipe->keys[index]))
            continue;
        if (brings(recipe, i, index) && is_used(recipe, i))
            return true;
        is_governed = true;
    }
    return !is_governed;
}

/* 0: nothing reads the key; 1: something does, whatever other keys are; 2: something does as a governor has it. */
static int rank(const icl_recipe *recipe, size_t index) {
    bool is_governed = false;

    for (size_t i = 0; i < recipe->key_count; i++)
        is_governed = is_governed || governs(&recipe->keys[i], &recipe->keys[index]);
    return is_used(recipe, index) ? 1 + is_governed : 0;
}

/* A governor of a key that is not used: one that is used itself, if there is any, and of those one that another brings
 * into use: it is the nearer. */
static size_t find_governor(const icl_recipe *recipe, size_t index) {
    size_t found = recipe->key_count;

    for (size_t i = 0; i < recipe->key_count; i++)
        if (governs(&recipe->keys[i], &recipe->keys[index]) &&
            (found == recipe->key_count || rank(recipe, i) > rank(recipe, found)))
            found = i;
    return found;
}

bool icl_recipe_is_used(const icl_recipe *recipe, const char *section, const char *key) {
    const size_t index = icl_recipe_find(recipe, section, key);
    assert(index < recipe->key_count && "a key that the table does not have");
    return is_used(recipe, index);
}

bool icl_recipe_is_idle(const icl_recipe *recipe, size_t index) {
    return recipe->values[index].is_default && !is_used(recipe, index);
}

/* The values of the governor with which a key is read: "train.schedule = step", "another task.subspace". */
static icl_status name_values(const icl_recipe_key *governor, const icl_recipe_key *key, icl_text *values,
                              icl_error *error) {
    if (icl_recipe_lists(governor->keys, key))
        return icl_text_print(values, error, "another %s.%s", governor->section, governor->name);
    ICL_CHECK(icl_text_print(values, error, "%s.%s = ", governor->section, governor->name));
    for (const icl_choice *choice = governor->choices, *first = NULL; choice->word; choice++)
        if (icl_recipe_lists(choice->keys, key)) {
            ICL_CHECK(icl_text_print(values, error, "%s%s", first ? " or " : "", choice->word));
            first = choice;
        }
    return ICL_OK;
}

/* "override: model.heads = 2: model.family = softmax does not read it: expected 1, its default, or model.family =
 * linear". */
static icl_status refuse(const icl_recipe *recipe, size_t index, icl_error *error) {
    const icl_recipe_key *key = &recipe->keys[index], *reader = key, *governor;
    size_t at = find_governor(recipe, index);
    icl_text values = {0};
    icl_status status = ICL_OK;

    for (; !is_used(recipe, at); at = find_governor(recipe, at))
        reader = &recipe->keys[at];
    governor = &recipe->keys[at];
    ICL_TRY(name_values(governor, reader, &values, error));
    status = icl_fail(
        error, ICL_ERROR_INPUT, "%s: %s.%s = %s: %s.%s = %s does not read it: expected %s, its default, or %s",
        recipe->values[index].origin, key->section, key->name, recipe->values[index].text, governor->section,
        governor->name, recipe->values[at].text, key->default_value[0] ? key->default_value : "nothing", values.bytes);
done:
    icl_text_release(&values);
    return status;
}

icl_status icl_recipe_check(const icl_recipe *recipe, const char *section, icl_error *error) {
    for (size_t i = 0; i < recipe->key_count; i++)
        if (strcmp(recipe->keys[i].section, section) == 0 && !recipe->values[i].is_default && !is_used(recipe, i))
            return refuse(recipe, i, error);
    return ICL_OK;
}

icl_status icl_recipe_check_own(const icl_recipe *recipe, const icl_recipe_own *own, icl_error *error) {
    for (size_t i = 0; i < recipe->key_count; i++) {
        const icl_recipe_key *key = &recipe->keys[i];
        if (strcmp(key->section, own->section) == 0 && !recipe->values[i].is_default &&
            !icl_recipe_lists(own->keys, key))
            return icl_fail(error, ICL_ERROR_INPUT,
                            "%s: %s.%s = %s: the program's own %s %s does not read it: expected %s, its default",
                            recipe->values[i].origin, key->section, key->name, recipe->values[i].text, own->section,
                            own->family, key->default_value[0] ? key->default_value : "nothing");
    }
    return ICL_OK;
}

icl_status icl_recipe_reset_unused(icl_recipe *recipe, icl_error *error) {
    for (size_t i = 0; i < recipe->key_count; i++)
        if (!is_used(recipe, i))
            ICL_CHECK(icl_recipe_set(recipe, recipe->keys[i].section, recipe->keys[i].name,
                                     recipe->keys[i].default_value, "default", error));
    return ICL_OK;
}
