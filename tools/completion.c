#include "completion.h"

#include <string.h>

#include "iclab/recipe.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* What stands for a value in --help, and what that is. Anything else, such as N or TEXT, is for the user to invent. */
static const struct {
    const char *placeholder;
    completion kind;
} placeholders[] = {
    {"DIR", COMPLETE_FOLDERS},
    {"RUN", COMPLETE_FOLDERS},
    {"FILE", COMPLETE_FILES},
    {"RECIPE", COMPLETE_RECIPES},
    {"NAME", COMPLETE_REPRODUCTIONS},
    {"SPEC", COMPLETE_DEVICES},
    {"SECTION.KEY=VALUE", COMPLETE_SETTINGS},
    {"SECTION.KEY=VALUES", COMPLETE_SETTINGS},
};

/* "FILE.csv" is a FILE. */
static completion completion_of(const char *shown) {
    for (size_t i = 0; i < COUNT_OF(placeholders); i++) {
        const size_t length = strlen(placeholders[i].placeholder);
        if (strncmp(shown, placeholders[i].placeholder, length) == 0 && (shown[length] == '\0' || shown[length] == '.'))
            return placeholders[i].kind;
    }
    return COMPLETE_NOTHING;
}

completion completion_of_option(const option *shown) {
    return shown->type == OPTION_WORD ? COMPLETE_WORDS : shown->value ? completion_of(shown->value) : COMPLETE_NOTHING;
}

completion completion_of_positional(const positional *shown) {
    return completion_of(shown->name);
}

void put_devices(FILE *out, const char *before) {
    put_words(out, "auto|cpu|cpu:threads=|cpu:isa=|ref|opencl|opencl:", before);
}

void put_recipe_keys(FILE *out, const char *before) {
    const icl_recipe_key *key;

    for (size_t i = 0; (key = icl_recipe_known_key(i)); i++)
        fprintf(out, "%s%s.%s", before, key->section, key->name);
}

void put_key_values(FILE *out, const icl_recipe_key *key, const char *before) {
    char words[256];
    put_words(out, key->type == ICL_KEY_FLAG ? "true|false" : icl_recipe_words(key, words, sizeof words), before);
}

void put_words(FILE *out, const char *words, const char *before) {
    while (*words != '\0') {
        const size_t length = strcspn(words, "|");
        fprintf(out, "%s%.*s", before, (int)length, words);
        words += length + (words[length] == '|');
    }
}
