#include "options.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "iclab/file.h"
#include "iclab/host.h"
#include "iclab/nearest.h"
#include "iclab/number.h"
#include "iclab/recipe.h"
#include "iclab/text.h"

#define MAX_OPTIONS 32

/* ---- Options that do not exist ---- */

/* Returns whether "layers" or "learning-rate" names the key. */
static bool names_key(const char *word, const icl_recipe_key *key) {
    size_t i = 0;

    for (; word[i] != '\0' && key->name[i] != '\0'; i++)
        if (word[i] != key->name[i] && !(word[i] == '-' && key->name[i] == '_'))
            return false;
    return word[i] == '\0' && key->name[i] == '\0';
}

/* Suggests what was meant by an option --KEY: --set SECTION.KEY with the given value. Empty if it is no key. */
static icl_status suggest_keys(const char *word, const char *value, icl_text *hint, icl_error *error) {
    const icl_recipe_key *key;

    for (size_t i = 0; (key = icl_recipe_known_key(i)) != NULL; i++)
        if (names_key(word, key))
            ICL_CHECK(icl_text_print(hint, error, "%s--set %s.%s=%s", hint->length > 0 ? " or " : "", key->section,
                                     key->name, value));
    return ICL_OK;
}

/* Refuses "--layers" with ICL_ERROR_INPUT and the --set that was meant; ICL_OK if no key has that name. */
static icl_status refuse_key(const subcommand *line, const char *name, const char *value, icl_error *error) {
    icl_text hint = {0};
    bool sets = false;
    icl_status status = ICL_OK;

    for (size_t i = 0; i < line->option_count; i++)
        sets = sets || strcmp(line->options[i].name, "--set") == 0;
    ICL_TRY(suggest_keys(name + strspn(name, "-"), value, &hint, error));
    if (hint.length > 0)
        status = icl_fail(error, ICL_ERROR_INPUT,
                          sets ? "%s: unknown option %s: a recipe's key; expected %s"
                               : "%s: unknown option %s: a recipe's key, which iclab train RECIPE %s sets",
                          line->name, name, hint.bytes);
done:
    icl_text_release(&hint);
    return status;
}

/* `next` is the next argument, or NULL. */
static icl_status unknown_option(const subcommand *line, const char *given, const char *next, icl_error *error) {
    const char *names[MAX_OPTIONS] = {"--help"}, *equals = strchr(given, '=');
    char name[64];
    size_t count = 1;

    snprintf(name, sizeof name, "%.*s", (int)strcspn(given, "="), given);
    ICL_CHECK(refuse_key(line, name, equals ? equals + 1 : next && next[0] != '-' ? next : "VALUE", error));
    for (size_t i = 0; i < line->option_count && count < MAX_OPTIONS; i++)
        names[count++] = line->options[i].name;
    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s: unknown option %s; the nearest known one is %s (iclab %s --help lists them)", line->name, name,
                    icl_nearest(name, names, count), line->name);
}

/* ---- Reading ---- */

const option *find_option(const subcommand *line, const char *argument) {
    const size_t length = strcspn(argument, "=");
    for (size_t i = 0; i < line->option_count; i++)
        if (strlen(line->options[i].name) == length && strncmp(line->options[i].name, argument, length) == 0)
            return &line->options[i];
    return NULL;
}

static icl_status store_word(const subcommand *line, const option *chosen, const char *value, size_t *target,
                             icl_error *error) {
    const size_t length = strlen(value);
    size_t index = 0;

    for (const char *word = chosen->value; *word != '\0'; index++) {
        const size_t word_length = strcspn(word, "|");
        if (word_length == length && strncmp(word, value, length) == 0) {
            *target = index;
            return ICL_OK;
        }
        word += word_length + (word[word_length] == '|');
    }
    return icl_fail(error, ICL_ERROR_INPUT, "%s: %s %s: expected one of %s", line->name, chosen->name, value,
                    chosen->value);
}

static icl_status store_value(const subcommand *line, const option *chosen, const char *value, void *target,
                              icl_error *error) {
    option_count *number = target;
    option_number *decimal = target;
    option_list *list = target;
    const char **text = target;

    switch (chosen->type) {
    case OPTION_FLAG:
        break;
    case OPTION_TEXT:
        *text = value;
        break;
    case OPTION_COUNT:
        number->given = icl_parse_count(value, strlen(value), &number->value);
        if (!number->given)
            return icl_fail(error, ICL_ERROR_INPUT, "%s: %s %s: expected a whole number, 0 or more", line->name,
                            chosen->name, value);
        break;
    case OPTION_NUMBER:
        decimal->given = icl_parse_number(value, strlen(value), &decimal->value) && decimal->value >= 0;
        if (!decimal->given)
            return icl_fail(error, ICL_ERROR_INPUT, "%s: %s %s: expected a number, 0 or more", line->name, chosen->name,
                            value);
        break;
    case OPTION_LIST:
        if (list->count == MAX_REPEATS)
            return icl_fail(error, ICL_ERROR_INPUT, "%s: %s: expected at most %d of them", line->name, chosen->name,
                            MAX_REPEATS);
        list->values[list->count++] = value;
        break;
    case OPTION_WORD:
        return store_word(line, chosen, value, target, error);
    }
    return ICL_OK;
}

/* Reads the option at arguments[*at] and sets *at to its last argument. */
static icl_status read_option(const subcommand *line, int count, char *const *arguments, int *at, void *options,
                              icl_error *error) {
    const char *argument = arguments[*at], *equals = strchr(argument, '=');
    const option *chosen = find_option(line, argument);
    void *target;

    if (!chosen)
        return unknown_option(line, argument, *at + 1 < count ? arguments[*at + 1] : NULL, error);
    target = (char *)options + chosen->target;
    if (chosen->type == OPTION_FLAG) {
        bool *flag = target;
        if (equals)
            return icl_fail(error, ICL_ERROR_INPUT, "%s: %s takes no value", line->name, chosen->name);
        *flag = true;
        return ICL_OK;
    }
    if (!equals && *at + 1 == count)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %s: expected a value behind it: %s %s", line->name, chosen->name,
                        chosen->name, chosen->value);
    return store_value(line, chosen, equals ? equals + 1 : arguments[++*at], target, error);
}

icl_status read_command_line(const subcommand *line, int count, char *const *arguments, void *options,
                             icl_error *error) {
    bool options_end = false;
    size_t position = 0;

    for (int i = 0; i < count; i++) {
        if (!options_end && strcmp(arguments[i], "--") == 0) {
            options_end = true;
        } else if (!options_end && arguments[i][0] == '-' && arguments[i][1] != '\0') {
            ICL_CHECK(read_option(line, count, arguments, &i, options, error));
        } else if (position < line->positional_count) {
            const char **target = (void *)((char *)options + line->positionals[position++].target);
            *target = arguments[i];
        } else {
            return icl_fail(error, ICL_ERROR_INPUT, "%s: %s: expected no further argument (iclab %s --help)",
                            line->name, arguments[i], line->name);
        }
    }
    if (position < line->positional_count && line->positionals[position].required)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %s is missing (iclab %s --help)", line->name,
                        line->positionals[position].name, line->name);
    return ICL_OK;
}

/* ---- Folders that are named by options ---- */

/* A longer name is cut after this many bytes, and a number that distinguishes it from others follows. */
#define MOST_BYTES 100

/* c must not be 0, which strchr would find. */
static bool is_plain(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("._+", c);
}

icl_status add_plain_name(icl_text *name, const char *text, icl_error *error) {
    const size_t start = name->length;
    bool is_open = false; /* after other characters, which become one '-' before the next plain one */

    for (const char *c = text; *c != '\0'; c++) {
        if (is_plain(*c)) {
            ICL_CHECK(icl_text_append(name, is_open ? "-" : "", is_open, error));
            ICL_CHECK(icl_text_append(name, c, 1, error));
        }
        is_open = !is_plain(*c) && name->length > start;
    }
    return ICL_OK;
}

/* FNV-1a. */
static unsigned long hash_of(const char *text) {
    unsigned long hash = 2166136261UL;

    for (; *text != '\0'; text++)
        hash = ((hash ^ (unsigned char)*text) * 16777619UL) & 0xffffffffUL;
    return hash;
}

static icl_status shorten(icl_text *name, icl_error *error) {
    const unsigned long hash = name->length > MOST_BYTES ? hash_of(name->bytes) : 0;

    if (name->length <= MOST_BYTES)
        return ICL_OK;
    name->length = MOST_BYTES;
    return icl_text_print(name, error, "_%08lx", hash);
}

icl_status folder_of_overrides(const char *run, const char *what, const option_list *overrides, char **folder,
                               icl_error *error) {
    icl_status status = ICL_OK;
    icl_text name = {0};
    char *above = NULL;

    for (size_t i = 0; i < overrides->count; i++) {
        const char *key = strchr(overrides->values[i], '.');
        ICL_TRY(icl_text_print(&name, error, "%s", i > 0 ? "_" : ""));
        ICL_TRY(add_plain_name(&name, key ? key + 1 : overrides->values[i], error));
    }
    ICL_TRY(icl_path_join(run, what, &above, error));
    if (name.length == 0)
        ICL_TRY(icl_duplicate(above, folder, error));
    else {
        ICL_TRY(shorten(&name, error));
        ICL_TRY(icl_path_join(above, name.bytes, folder, error));
    }
done:
    icl_text_release(&name);
    icl_free(&above);
    return status;
}
