/*
 * Recipes: what to train, as an INI file of sections and keys.
 *
 * A recipe always holds every known key: the file's value, an override's, or the default. Unknown keys, values of
 * the wrong type and values out of range are refused with one line that names the file and line or the override, and for an
 * unknown key the nearest known one.
 */
#ifndef ICLAB_RECIPE_H
#define ICLAB_RECIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/export.h"
#include "iclab/status.h"

/* A value for every key of a table. */
typedef struct icl_recipe icl_recipe;

/* What the values of a key are. */
typedef enum icl_key_type {
    ICL_KEY_TEXT = 0,
    ICL_KEY_COUNT,  /* whole number, minimum..maximum */
    ICL_KEY_NUMBER, /* finite real, minimum..maximum */
    ICL_KEY_FLAG,   /* true or false */
    ICL_KEY_WORD,   /* one of `words`, separated by '|' */
} icl_key_type;

/* One known key. The table of all keys (src/lab/recipe_keys.c) is parser, default, range and documentation at once. */
typedef struct icl_recipe_key {
    const char *section;       /* "task" */
    const char *name;          /* "noise" */
    icl_key_type type;         /* of its values */
    const char *default_value; /* as text */
    double minimum;            /* inclusive; both 0 means any */
    double maximum;            /* the same */
    const char *words;         /* ICL_KEY_WORD: "fixed|uniform"; NULL for other types */
    const char *help;          /* one line, for --help and the written recipe */
} icl_recipe_key;

/* A recipe of defaults over the given table, which must outlive it. */
ICL_API icl_status icl_recipe_create(const icl_recipe_key *keys, size_t key_count, icl_recipe **recipe,
                                     icl_error *error);
ICL_API void icl_recipe_destroy(icl_recipe **recipe);
ICL_API icl_status icl_recipe_clone(const icl_recipe *recipe, icl_recipe **copy, icl_error *error);

/* Reads an INI file over what the recipe holds. ICL_ERROR_IO if it cannot be read, ICL_ERROR_INPUT for its contents. A failed load
 * leaves the recipe as it was. */
ICL_API icl_status icl_recipe_load(icl_recipe *recipe, const char *path, icl_error *error);

/* The same from memory; `name` stands for the file in messages. */
ICL_API icl_status icl_recipe_parse(icl_recipe *recipe, const char *text, const char *name, icl_error *error);

/* One "section.key=value" override. */
ICL_API icl_status icl_recipe_override(icl_recipe *recipe, const char *assignment, icl_error *error);

/* The table of keys that the recipe was made over, *count rows. */
ICL_API const icl_recipe_key *icl_recipe_keys(const icl_recipe *recipe, size_t *count);

/* Typed look-up. Section and key must be in the table and of that type (asserted). Text lives as long as the value. */
ICL_API const char *icl_recipe_text(const icl_recipe *recipe, const char *section, const char *key);
ICL_API uint64_t icl_recipe_count(const icl_recipe *recipe, const char *section, const char *key);
ICL_API double icl_recipe_number(const icl_recipe *recipe, const char *section, const char *key);
ICL_API bool icl_recipe_flag(const icl_recipe *recipe, const char *section, const char *key);

/* The value of a key of any type as it is written; NULL where the table has no such key. Lives as long as the value. */
ICL_API const char *icl_recipe_value(const icl_recipe *recipe, const char *section, const char *key);

/* The position of the value in the key's list of words. */
ICL_API size_t icl_recipe_word(const icl_recipe *recipe, const char *section, const char *key);

/* An ICL_ERROR_INPUT that points at one key: "recipe.ini:7: task.noise = loud: expected " and then the text given (where the value
 * came from an override or is the default, "--set" or "default" stands in front). For the checks that only the key's owner can make. */
ICL_API icl_status icl_recipe_reject(const icl_recipe *recipe, const char *section, const char *key,
                                     icl_error *error, const char *expected, ...) ICL_PRINTF(5, 6);

/* The whole recipe as an INI text that icl_recipe_parse reads back to the same values; the caller frees it. */
ICL_API icl_status icl_recipe_write(const icl_recipe *recipe, char **text, icl_error *error);

#endif
