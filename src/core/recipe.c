/* Recipes: values for a table of keys. A key is used if no other key governs it, or if the value of a governor brings
 * it into use: by its word, or by not being neutral. */
#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "core/recipe_keys.h"
#include "core/recipe_store.h"
#include "iclab/nearest.h"
#include "iclab/number.h"

/* Room for the longest "expected …" text. */
#define EXPECTATION_CAPACITY 512

/* ICL_KEY knows a size_t and an enum by their types, of which the latter may be unsigned int. */
_Static_assert(SIZE_MAX > UINT_MAX, "ICL_KEY would take a size_t for an enum");

/* The origin of values that overrides or code set. */

static void release_value(recipe_value *value) {
    icl_free(&value->text);
    icl_free(&value->origin);
}

size_t icl_recipe_find(const icl_recipe *recipe, const char *section, const char *name) {
    size_t i = 0;
    while (i < recipe->key_count &&
           (strcmp(recipe->keys[i].section, section) != 0 || strcmp(recipe->keys[i].name, name) != 0))
        i++;
    return i;
}

/* ---- Checking one value ---- */

const char *icl_recipe_words(const icl_recipe_key *key, char *text, size_t capacity) {
    size_t used = 0;

    text[0] = '\0';
    for (const icl_choice *choice = key->type == ICL_KEY_WORD ? key->choices : NULL;
         choice && choice->word && used < capacity; choice++)
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", used > 0 ? "|" : "", choice->word);
    return text;
}

/* Describes the values that this key accepts, for messages: "a whole number from 1 to 64". */
static void describe_expectation(const icl_recipe_key *key, char text[EXPECTATION_CAPACITY]) {
    const bool any = key->minimum == 0 && key->maximum == 0;
    char low[ICL_NUMBER_CAPACITY], high[ICL_NUMBER_CAPACITY];
    const char *kind = key->type == ICL_KEY_COUNT ? "a whole number" : "a number";
    char words[EXPECTATION_CAPACITY / 2];

    switch (key->type) {
    case ICL_KEY_TEXT:
    case ICL_KEY_PROSE:
        snprintf(text, EXPECTATION_CAPACITY, "printable text without ';' and '#'");
        break;
    case ICL_KEY_FLAG:
        snprintf(text, EXPECTATION_CAPACITY, "true or false");
        break;
    case ICL_KEY_WORD:
        snprintf(text, EXPECTATION_CAPACITY, "%s%s", key->choices[1].word ? "one of " : "",
                 icl_recipe_words(key, words, sizeof words));
        break;
    case ICL_KEY_COUNT:
    case ICL_KEY_NUMBER:
        if (any)
            snprintf(text, EXPECTATION_CAPACITY, "%s", kind);
        else if (key->type == ICL_KEY_COUNT)
            icl_print(text, EXPECTATION_CAPACITY, "%s from %.0f to %.0f", kind, key->minimum, key->maximum);
        else
            snprintf(text, EXPECTATION_CAPACITY, "%s from %s to %s", kind, icl_format_number(key->minimum, low),
                     icl_format_number(key->maximum, high));
        break;
    }
}

static bool in_range(const icl_recipe_key *key, double value) {
    return isfinite(value) &&
           ((key->minimum == 0 && key->maximum == 0) || (value >= key->minimum && value <= key->maximum));
}

/* Returns whether the text survives being written to an INI file and read back: a comment sign or a control character
 * would not. */
static bool is_writable_text(const char *text) {
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 127 || *text == ';' || *text == '#')
            return false;
    return true;
}

static bool find_choice(const icl_choice *choice, const char *text, int *value) {
    while (choice->word && strcmp(choice->word, text) != 0)
        choice++;
    *value = choice->value;
    return choice->word != NULL;
}

/* Converts the text to the key's type; false if it is not a value of this key. */
static bool interpret(const icl_recipe_key *key, const char *text, recipe_value *value) {
    switch (key->type) {
    case ICL_KEY_TEXT:
    case ICL_KEY_PROSE:
        return is_writable_text(text);
    case ICL_KEY_FLAG:
        value->flag = strcmp(text, "true") == 0;
        return value->flag || strcmp(text, "false") == 0;
    case ICL_KEY_WORD:
        return find_choice(key->choices, text, &value->choice);
    case ICL_KEY_COUNT:
        return icl_parse_count(text, strlen(text), &value->count) && in_range(key, (double)value->count);
    case ICL_KEY_NUMBER:
        return icl_parse_number(text, strlen(text), &value->number) && in_range(key, value->number);
    }
    return false;
}

static bool is_text(icl_key_type type) {
    return type == ICL_KEY_TEXT || type == ICL_KEY_PROSE;
}

static bool means_the_same(const icl_recipe_key *key, const recipe_value *value, const char *text) {
    recipe_value other = {0};

    interpret(key, text, &other);
    return is_text(key->type) ? strcmp(value->text, text) == 0
                              : value->flag == other.flag && value->choice == other.choice &&
                                    value->count == other.count && value->number == other.number;
}

/* ---- Unknown keys ---- */

/* Returns the known key nearest to an unknown one. A right name in the wrong section is nearer than any misspelt
 * name. */
static const icl_recipe_key *nearest_key(const icl_recipe *recipe, const char *section, const char *name) {
    const icl_recipe_key *best = &recipe->keys[0];
    size_t best_distance = SIZE_MAX;

    for (size_t i = 0; i < recipe->key_count; i++) {
        const icl_recipe_key *key = &recipe->keys[i];
        const size_t section_distance = icl_edit_distance(section, key->section);
        const size_t distance =
            64 * icl_edit_distance(name, key->name) + (section_distance < 63 ? section_distance : 63);
        if (distance < best_distance) {
            best = key;
            best_distance = distance;
        }
    }
    return best;
}

/* ---- Defaults that come with a word ---- */

static bool is_given(const recipe_value *value) {
    return !value->origin || strcmp(value->origin, "default") != 0;
}

/* Sets the keys that were not given to the defaults of a choice's groups, or `back` to the table's. */
static icl_status set_defaults(icl_recipe *recipe, const icl_choice *choice, bool back, icl_error *error) {
    for (const icl_recipe_group *const *group = choice->keys; group && *group; group++)
        for (const icl_recipe_default *preset = (*group)->defaults; preset && preset->section; preset++) {
            const size_t index = icl_recipe_find(recipe, preset->section, preset->key);
            if (index < recipe->key_count && !is_given(&recipe->values[index]))
                ICL_CHECK(icl_recipe_set(recipe, preset->section, preset->key,
                                         back ? recipe->keys[index].default_value : preset->value, "default", error));
        }
    return ICL_OK;
}

/* Returns the choice that a key's value names; NULL if the key's values are no words, or it has no value yet. */
static const icl_choice *choice_of(const icl_recipe *recipe, size_t index) {
    const icl_recipe_key *key = &recipe->keys[index];
    const icl_choice *choice = key->type == ICL_KEY_WORD ? key->choices : NULL;

    while (choice && choice->word && recipe->values[index].text &&
           strcmp(choice->word, recipe->values[index].text) != 0)
        choice++;
    return choice && choice->word && recipe->values[index].text ? choice : NULL;
}

/* Stores the value and its text, which are copied. */
static icl_status store(icl_recipe *recipe, size_t index, recipe_value value, const char *text, const char *origin,
                        icl_error *error) {
    icl_status status = ICL_OK;
    const icl_choice *before, *after;

    value.text = value.origin = NULL;
    ICL_TRY(icl_duplicate(text, &value.text, error));
    ICL_TRY(icl_duplicate(origin, &value.origin, error));
    value.is_default = means_the_same(&recipe->keys[index], &value, recipe->keys[index].default_value);
    before = choice_of(recipe, index);
    release_value(&recipe->values[index]);
    recipe->values[index] = value;
    after = choice_of(recipe, index);
    if (before)
        ICL_CHECK(set_defaults(recipe, before, true, error));
    return after ? set_defaults(recipe, after, false, error) : ICL_OK;
done:
    release_value(&value);
    return status;
}

static icl_status refuse_value(const icl_recipe_key *key, const char *text, const char *origin, icl_error *error) {
    char expected[EXPECTATION_CAPACITY];

    describe_expectation(key, expected);
    return icl_fail(error, ICL_ERROR_INPUT, "%s: %s.%s = %s: expected %s", origin, key->section, key->name, text,
                    expected);
}

static icl_status set_at(icl_recipe *recipe, size_t index, const char *text, const char *origin, icl_error *error) {
    recipe_value value = {0};

    return interpret(&recipe->keys[index], text, &value) ? store(recipe, index, value, text, origin, error)
                                                         : refuse_value(&recipe->keys[index], text, origin, error);
}

static icl_status find_known(const icl_recipe *recipe, const char *section, const char *name, const char *origin,
                             size_t *index, icl_error *error) {
    const icl_recipe_key *nearest;

    *index = icl_recipe_find(recipe, section, name);
    if (*index < recipe->key_count)
        return ICL_OK;
    nearest = nearest_key(recipe, section, name);
    return icl_fail(error, ICL_ERROR_INPUT, "%s: unknown key %s.%s; the nearest known one is %s.%s", origin, section,
                    name, nearest->section, nearest->name);
}

icl_status icl_recipe_set(icl_recipe *recipe, const char *section, const char *name, const char *text,
                          const char *origin, icl_error *error) {
    size_t index;

    ICL_CHECK(find_known(recipe, section, name, origin, &index, error));
    return set_at(recipe, index, text, origin, error);
}

/* ---- Values from code ---- */

/* Sets a value from code; `text` is how it is written. */
static icl_status set_meaning(icl_recipe *recipe, const char *section, const char *name, icl_key_type type,
                              recipe_value value, const char *text, icl_error *error) {
    size_t index;

    ICL_CHECK(find_known(recipe, section, name, ICL_RECIPE_OVERRIDE, &index, error));
    const icl_recipe_key *key = &recipe->keys[index];
    return key->type == type && in_range(key, type == ICL_KEY_COUNT ? (double)value.count : value.number)
               ? store(recipe, index, value, text, ICL_RECIPE_OVERRIDE, error)
               : refuse_value(key, text, ICL_RECIPE_OVERRIDE, error);
}

icl_status icl_recipe_set_count(icl_recipe *recipe, const char *section, const char *key, uint64_t value,
                                icl_error *error) {
    char text[ICL_NUMBER_CAPACITY];

    snprintf(text, sizeof text, "%" PRIu64, value);
    return set_meaning(recipe, section, key, ICL_KEY_COUNT, (recipe_value){.count = value}, text, error);
}

icl_status icl_recipe_set_number(icl_recipe *recipe, const char *section, const char *key, double value,
                                 icl_error *error) {
    char text[ICL_NUMBER_CAPACITY];

    icl_format_number(value, text);
    return set_meaning(recipe, section, key, ICL_KEY_NUMBER, (recipe_value){.number = value}, text, error);
}

icl_status icl_recipe_set_text(icl_recipe *recipe, const char *section, const char *key, const char *value,
                               icl_error *error) {
    return icl_recipe_set(recipe, section, key, value, ICL_RECIPE_OVERRIDE, error);
}

/* ---- Creation and destruction ---- */

icl_status icl_recipe_create(const icl_recipe_key *keys, size_t key_count, icl_recipe **recipe, icl_error *error) {
    icl_status status = ICL_OK;
    icl_recipe *created = NULL;

    ICL_TRY(icl_allocate(1, sizeof *created, "recipe", &created, error));
    ICL_TRY(icl_allocate(key_count, sizeof *created->keys, "recipe keys", &created->keys, error));
    memcpy(created->keys, keys, key_count * sizeof *keys);
    created->key_count = key_count;
    ICL_TRY(icl_allocate(key_count, sizeof *created->values, "recipe values", &created->values, error));
    for (size_t i = 0; i < key_count; i++)
        ICL_TRY(set_at(created, i, keys[i].default_value, "default", error));
    *recipe = created;
    created = NULL;
done:
    icl_recipe_destroy(&created);
    return status;
}

void icl_recipe_destroy(icl_recipe **recipe) {
    if (*recipe && (*recipe)->values)
        for (size_t i = 0; i < (*recipe)->key_count; i++)
            release_value(&(*recipe)->values[i]);
    if (*recipe) {
        icl_free(&(*recipe)->values);
        icl_free(&(*recipe)->keys);
    }
    icl_free(recipe);
}

icl_status icl_recipe_clone(const icl_recipe *recipe, icl_recipe **copy, icl_error *error) {
    icl_status status = ICL_OK;
    icl_recipe *created = NULL;

    ICL_TRY(icl_recipe_create(recipe->keys, recipe->key_count, &created, error));
    for (size_t i = 0; i < recipe->key_count; i++)
        ICL_TRY(set_at(created, i, recipe->values[i].text, recipe->values[i].origin, error));
    *copy = created;
    created = NULL;
done:
    icl_recipe_destroy(&created);
    return status;
}

/* ---- Overrides ---- */

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

/* Cuts blanks off both ends, in place; returns the new start. */
static char *trim(char *text) {
    size_t length;
    while (is_blank(*text))
        text++;
    length = strlen(text);
    while (length > 0 && is_blank(text[length - 1]))
        text[--length] = '\0';
    return text;
}

/* Refuses an assignment without a section, such as "layers=4", and suggests the key's full name. */
static icl_status refuse_assignment(const icl_recipe *recipe, const char *assignment, icl_error *error) {
    const size_t length = strcspn(assignment, "=");

    for (size_t i = 0; i < recipe->key_count; i++) {
        const icl_recipe_key *key = &recipe->keys[i];
        if (strlen(key->name) == length && strncmp(key->name, assignment, length) == 0)
            return icl_fail(error, ICL_ERROR_INPUT, "%s: expected section.key=value, here %s.%s%s", assignment,
                            key->section, key->name, assignment[length] == '=' ? assignment + length : "=value");
    }
    return icl_fail(error, ICL_ERROR_INPUT, "%s: expected section.key=value", assignment);
}

icl_status icl_recipe_override(icl_recipe *recipe, const char *assignment, icl_error *error) {
    icl_status status = ICL_OK;
    char *copy = NULL, *equals, *dot;

    ICL_TRY(icl_duplicate(assignment, &copy, error));
    equals = strchr(copy, '=');
    if (equals)
        *equals = '\0';
    dot = strchr(copy, '.');
    if (!equals || !dot) {
        status = refuse_assignment(recipe, assignment, error);
        goto done;
    }
    *dot = '\0';
    ICL_TRY(icl_recipe_set(recipe, trim(copy), trim(dot + 1), trim(equals + 1), ICL_RECIPE_OVERRIDE, error));
done:
    icl_free(&copy);
    return status;
}

/* ---- Look-up ---- */

static const recipe_value *look_up(const icl_recipe *recipe, const char *section, const char *name, icl_key_type type) {
    const size_t index = icl_recipe_find(recipe, section, name);
    assert(index < recipe->key_count && "a key that the table does not have");
    assert((recipe->keys[index].type == type || (is_text(type) && is_text(recipe->keys[index].type))) &&
           "a key of another type");
    (void)type;
    return &recipe->values[index];
}

const char *icl_recipe_origin(const icl_recipe *recipe, const char *section, const char *name) {
    const size_t index = icl_recipe_find(recipe, section, name);
    assert(index < recipe->key_count && "a key that the table does not have");
    return recipe->values[index].origin;
}

const char *icl_recipe_left_default(const icl_recipe *recipe, const char *section, const char *name) {
    const size_t index = icl_recipe_find(recipe, section, name);
    assert(index < recipe->key_count && "a key that the table does not have");
    return recipe->values[index].is_default ? NULL : recipe->keys[index].default_value;
}

const char *icl_recipe_text(const icl_recipe *recipe, const char *section, const char *key) {
    return look_up(recipe, section, key, ICL_KEY_TEXT)->text;
}

uint64_t icl_recipe_count(const icl_recipe *recipe, const char *section, const char *key) {
    return look_up(recipe, section, key, ICL_KEY_COUNT)->count;
}

double icl_recipe_number(const icl_recipe *recipe, const char *section, const char *key) {
    return look_up(recipe, section, key, ICL_KEY_NUMBER)->number;
}

bool icl_recipe_flag(const icl_recipe *recipe, const char *section, const char *key) {
    return look_up(recipe, section, key, ICL_KEY_FLAG)->flag;
}

int icl_recipe_choice(const icl_recipe *recipe, const char *section, const char *key) {
    return look_up(recipe, section, key, ICL_KEY_WORD)->choice;
}

const icl_choice *icl_recipe_choices(const icl_recipe *recipe, const char *section, const char *name) {
    static const icl_choice none = {0};
    const size_t index = icl_recipe_find(recipe, section, name);
    assert(index < recipe->key_count && "a key that the table does not have");
    return recipe->keys[index].choices ? recipe->keys[index].choices : &none;
}

const void *icl_recipe_object(const icl_recipe *recipe, const char *section, const char *name, const char *word) {
    const char *sought = word ? word : icl_recipe_value(recipe, section, name);
    for (const icl_choice *choice = icl_recipe_choices(recipe, section, name); choice->word; choice++)
        if (strcmp(choice->word, sought) == 0)
            return choice->object;
    return NULL;
}

/* Copies the value to a field of the key's type; `size` tells a size_t from a uint64_t. */
static void copy_value(const recipe_value *value, icl_key_type type, void *field, size_t size) {
    const size_t extent = (size_t)value->count;
    const void *from = &value->number;

    if (is_text(type))
        from = &value->text;
    else if (type == ICL_KEY_COUNT)
        from = size == sizeof extent ? (const void *)&extent : (const void *)&value->count;
    else if (type == ICL_KEY_FLAG)
        from = &value->flag;
    else if (type == ICL_KEY_WORD)
        from = &value->choice;
    memcpy(field, from, size);
}

void icl_recipe_read(const icl_recipe *recipe, const icl_recipe_group *group, void *settings) {
    for (size_t i = 0; i < group->count; i++) {
        const icl_recipe_key *key = &group->rows[i];
        if (key->size > 0)
            copy_value(look_up(recipe, key->section, key->name, key->type), key->type, (char *)settings + key->offset,
                       key->size);
    }
}

const icl_recipe_key *icl_recipe_keys(const icl_recipe *recipe, size_t *count) {
    *count = recipe->key_count;
    return recipe->keys;
}

const char *icl_recipe_value(const icl_recipe *recipe, const char *section, const char *key) {
    const size_t index = icl_recipe_find(recipe, section, key);
    return index < recipe->key_count ? recipe->values[index].text : NULL;
}

icl_status icl_recipe_reject(const icl_recipe *recipe, const char *section, const char *key, icl_error *error,
                             const char *expected, ...) {
    const size_t index = icl_recipe_find(recipe, section, key);
    char text[EXPECTATION_CAPACITY];
    va_list arguments;

    assert(index < recipe->key_count && "a key that the table does not have");
    va_start(arguments, expected);
    icl_print_list(text, sizeof text, expected, arguments);
    va_end(arguments);
    return icl_fail(error, ICL_ERROR_INPUT, "%s: %s.%s = %s: expected %s", recipe->values[index].origin, section, key,
                    recipe->values[index].text, text);
}

/* ---- Keys in use ---- */

/* Most names differ in their first letter; this is asked of each pair of keys. */
static bool has_names_of(const icl_recipe_key *row, const icl_recipe_key *key) {
    return row->name[0] == key->name[0] && strcmp(row->name, key->name) == 0 && strcmp(row->section, key->section) == 0;
}

bool icl_recipe_lists(const icl_recipe_group *const *groups, const icl_recipe_key *key) {
    for (; groups && *groups; groups++)
        for (size_t i = 0; i < (*groups)->count; i++)
            if (has_names_of(&(*groups)->rows[i], key))
                return true;
    return false;
}

static bool governs(const icl_recipe_key *governor, const icl_recipe_key *key) {
    for (const icl_choice *choice = governor->choices; choice && choice->word; choice++)
        if (icl_recipe_lists(choice->keys, key))
            return true;
    return icl_recipe_lists(governor->keys, key);
}

/* Returns whether the value of the key is the word or, if it is a text, a list that has it. */
static bool names_word(const icl_recipe *recipe, size_t index, const char *word) {
    const size_t length = strlen(word);
    const char *at = recipe->values[index].text;

    if (recipe->keys[index].type == ICL_KEY_WORD)
        return strcmp(word, at) == 0;
    for (; at; at = strchr(at, ',')) {
        at += strspn(at, ", \t");
        if (strncmp(at, word, length) == 0 && strchr(",", at[length + strspn(at + length, " \t")]))
            return true;
    }
    return false;
}

/* Returns whether the governor's value brings the key into use. */
static bool brings(const icl_recipe *recipe, size_t governor, size_t index) {
    const icl_recipe_key *from = &recipe->keys[governor], *key = &recipe->keys[index];

    for (const icl_choice *choice = from->choices; choice && choice->word; choice++)
        if (names_word(recipe, governor, choice->word) && icl_recipe_lists(choice->keys, key))
            return true;
    return icl_recipe_lists(from->keys, key) && !means_the_same(from, &recipe->values[governor], from->neutral);
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

/* Returns 0 if the key is not used, 1 if it is used and has no governor, 2 if a governor brings it into use. */
static int rank(const icl_recipe *recipe, size_t index) {
    bool is_governed = false;

    for (size_t i = 0; i < recipe->key_count; i++)
        is_governed = is_governed || governs(&recipe->keys[i], &recipe->keys[index]);
    return is_used(recipe, index) ? 1 + is_governed : 0;
}

/* Returns a governor of an unused key: preferably one that is used itself, and among those one that another key brings
 * into use, because it is the nearest. */
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

/* Lists the values of the governor that bring the key into use: "train.schedule = step", "another task.subspace". */
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

/* Refuses an unused key: "override: model.heads = 2: model.family = softmax does not read it: expected 1, its default,
 * or model.family = linear". */
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

icl_status icl_recipe_reset_unused(icl_recipe *recipe, icl_error *error) {
    for (size_t i = 0; i < recipe->key_count; i++)
        if (!is_used(recipe, i))
            ICL_CHECK(icl_recipe_set(recipe, recipe->keys[i].section, recipe->keys[i].name,
                                     recipe->keys[i].default_value, "default", error));
    return ICL_OK;
}
