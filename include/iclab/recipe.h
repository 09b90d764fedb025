/*
 * Recipes: what to train, as an INI file of sections and keys.
 *
 * A recipe always holds every known key: the file's value, an override's, or the default. Unknown keys, values of the
 * wrong type and values out of range are refused with one line that names the file and line, or the override, and for
 * an unknown key the nearest known one.
 */
#ifndef ICLAB_RECIPE_H
#define ICLAB_RECIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/export.h"
#include "iclab/status.h"

ICL_C_BEGIN

/* A value for every key of a table. */
typedef struct icl_recipe icl_recipe;

/* The type of a key's values. */
typedef enum icl_key_type {
    ICL_KEY_TEXT = 0,
    ICL_KEY_COUNT,  /* whole number, minimum..maximum */
    ICL_KEY_NUMBER, /* finite real, minimum..maximum */
    ICL_KEY_FLAG,   /* true or false */
    ICL_KEY_WORD,   /* the word of one of `choices` */
    ICL_KEY_PROSE,  /* text, in which a line that continues it begins a new word */
} icl_key_type;

typedef struct icl_recipe_group icl_recipe_group;

/* One value of a key of words: the word in the recipe, its meaning, and the keys that apply only with it. */
typedef struct icl_choice {
    const char *word; /* "adam" */
    int value;        /* what icl_recipe_choice returns for it: usually an enumerator */

    /* Keys that apply only when this word is chosen (several words may list a key). Ends with NULL; NULL if there are
     * none. */
    const icl_recipe_group *const *keys;

    const void *object; /* what the word stands for: a family of tasks or of models; NULL: no more than its value */
} icl_choice;

/* One known key: its parser, default, range and documentation at once. It is declared in the file that reads it. */
typedef struct icl_recipe_key {
    const char *section;       /* "task" */
    const char *name;          /* "noise" */
    icl_key_type type;         /* type of its values */
    const char *default_value; /* as text */
    double minimum;            /* inclusive; both 0 means any */
    double maximum;            /* the same */
    /* ICL_KEY_WORD: at least one choice, and then a NULL word. ICL_KEY_TEXT: words that a program brought, beside those
     * that the reader of the key knows. NULL for other types. */
    const icl_choice *choices;
    const char *help; /* one line, for listings and the written recipe */

    /* Keys that do not apply while this key means `neutral`, unless another applicable key lists them, too. Ends with
     * NULL; NULL if there are none. */
    const icl_recipe_group *const *keys;
    const char *neutral; /* as text: "0" */

    size_t offset; /* of the field of a settings struct that icl_recipe_read fills; ICL_KEY sets it */
    size_t size;   /* bytes of that field; 0: there is none */
} icl_recipe_key;

/* Begins the row of a key named after a field of a settings struct; default, minimum and maximum follow it. The field's
 * type gives the type of the values: const char *, size_t or uint64_t, double, bool, or an enum. */
#define ICL_KEY(section_name, settings, field)                                                                         \
    .offset = offsetof(settings, field), .size = sizeof(((settings *)0)->field), .section = (section_name),            \
    .name = #field, .type = ICL_KEY_TYPE(((settings *)0)->field)

/* The type of the values of a key by that of its field. */
#define ICL_KEY_TYPE(field)                                                                                            \
    _Generic((field), const char *                                                                                     \
             : ICL_KEY_TEXT, unsigned long                                                                             \
             : ICL_KEY_COUNT, unsigned long long                                                                       \
             : ICL_KEY_COUNT, double                                                                                   \
             : ICL_KEY_NUMBER, bool                                                                                    \
             : ICL_KEY_FLAG, int                                                                                       \
             : ICL_KEY_WORD, unsigned                                                                                  \
             : ICL_KEY_WORD)

/* The section and the name of a key of ICL_KEY, as two arguments of a call. A field that the struct lacks does not
 * compile. */
#define ICL_KEY_NAME(section_name, settings, field) section_name, &#field[0 * sizeof(((settings *)0)->field)]

/* Another default of a key. */
typedef struct icl_recipe_default {
    const char *section; /* section of the key */
    const char *key;     /* its name */
    const char *value;   /* the default, as text */
} icl_recipe_default;

/* The keys that one reader declares. */
struct icl_recipe_group {
    const icl_recipe_key *rows; /* [count] */
    size_t count;               /* keys */

    /* Other defaults of keys (of this group or of others) while a word brings the group into use; values that were
     * given do not change. Ends with a NULL section; NULL if there are none. */
    const icl_recipe_default *defaults;
};

/* Creates a recipe of defaults over the given table, which must hold the keys that its rows bring into use, too. The
 * rows are copied; what they point to must outlive the recipe. */
ICL_API icl_status icl_recipe_create(const icl_recipe_key *keys, size_t key_count, icl_recipe **recipe,
                                     icl_error *error);
ICL_API void icl_recipe_destroy(icl_recipe **recipe);
ICL_API icl_status icl_recipe_clone(const icl_recipe *recipe, icl_recipe **copy, icl_error *error);

/* Reads an INI file over the recipe's values. ICL_ERROR_IO if it cannot be read, ICL_ERROR_INPUT for its contents. A
 * failed load leaves the recipe unchanged. */
ICL_API icl_status icl_recipe_load(icl_recipe *recipe, const char *path, icl_error *error);

/* As above, from memory; `name` stands for the file in messages. */
ICL_API icl_status icl_recipe_parse(icl_recipe *recipe, const char *text, const char *name, icl_error *error);

/* Applies one "section.key=value" override. */
ICL_API icl_status icl_recipe_override(icl_recipe *recipe, const char *assignment, icl_error *error);

/* Sets values from code, which count as overrides. ICL_ERROR_INPUT for an unknown key, one of another type and a value
 * out of range. A text may be the word of a key of words. */
ICL_API icl_status icl_recipe_set_count(icl_recipe *recipe, const char *section, const char *key, uint64_t value,
                                        icl_error *error);
ICL_API icl_status icl_recipe_set_number(icl_recipe *recipe, const char *section, const char *key, double value,
                                         icl_error *error);
ICL_API icl_status icl_recipe_set_text(icl_recipe *recipe, const char *section, const char *key, const char *value,
                                       icl_error *error);

/* Returns the table of keys that the recipe was made over, *count rows; lives as long as the recipe. */
ICL_API const icl_recipe_key *icl_recipe_keys(const icl_recipe *recipe, size_t *count);

/* Fills the fields of a settings struct that the rows of the group name; their keys must be in the recipe's table
 * (asserted). Texts live as long as the values. */
ICL_API void icl_recipe_read(const icl_recipe *recipe, const icl_recipe_group *group, void *settings);

/* Looks up a value by name and type. The key must be in the table and of that type (asserted). Text lives as long as
 * the value. */
ICL_API const char *icl_recipe_text(const icl_recipe *recipe, const char *section, const char *key);
ICL_API uint64_t icl_recipe_count(const icl_recipe *recipe, const char *section, const char *key);
ICL_API double icl_recipe_number(const icl_recipe *recipe, const char *section, const char *key);
ICL_API bool icl_recipe_flag(const icl_recipe *recipe, const char *section, const char *key);

/* Returns the value of a key of any type as it is written; NULL if the table has no such key. Lives as long as the
 * value. */
ICL_API const char *icl_recipe_value(const icl_recipe *recipe, const char *section, const char *key);

/* Returns the meaning of a key's word: the value of its choice. */
ICL_API int icl_recipe_choice(const icl_recipe *recipe, const char *section, const char *key);

/* Returns whether anything reads the key with the recipe's present values: train.momentum is read only while
 * train.optimizer = sgd, which lists it, and task.nuisance only while task.subspace is not 0. Section and key must be
 * in the table. */
ICL_API bool icl_recipe_is_used(const icl_recipe *recipe, const char *section, const char *key);

/* Checks a section: ICL_ERROR_INPUT for a key that nothing reads but that was given another value than its default;
 * the message says with which value of which key it is read. Creating a task, a model or a trainer checks its own
 * section. */
ICL_API icl_status icl_recipe_check(const icl_recipe *recipe, const char *section, icl_error *error);

/* Sets every key that nothing reads back to its default: for the recipes of finished runs, whose results do not depend
 * on such keys. */
ICL_API icl_status icl_recipe_reset_unused(icl_recipe *recipe, icl_error *error);

/* Fails with an ICL_ERROR_INPUT that points at one key: "recipe.ini:7: task.noise = loud: expected " and then the text
 * given (if the value came from an override or is the default, "override" or "default" stands in front). For checks
 * that only the key's owner can make. */
ICL_API icl_status icl_recipe_reject(const icl_recipe *recipe, const char *section, const char *key, icl_error *error,
                                     const char *expected, ...) ICL_PRINTF(5, 6);

/* Returns the whole recipe as an INI text that icl_recipe_parse reads back to the same values. It leaves out keys that
 * nothing reads and that are at their defaults. Freed with icl_text_free. */
ICL_API icl_status icl_recipe_write(const icl_recipe *recipe, char **text, icl_error *error);

/* Creates a recipe that holds the default of every key of [task], [model], [train] and [eval]. */
ICL_API icl_status icl_recipe_create_complete(icl_recipe **recipe, icl_error *error);

/* Returns those keys one by one, for listings: static storage; NULL after the last. */
ICL_API const icl_recipe_key *icl_recipe_known_key(size_t index);

/* Writes the words of a key of words as "full|diag|gd++", cut off at the capacity; an empty text for other types.
 * Returns text. */
ICL_API const char *icl_recipe_words(const icl_recipe_key *key, char *text, size_t capacity);

/* Finds a recipe in this order, whatever the current folder: a path as it stands; else NAME.ini in the folder that
 * the environment variable ICLAB_RECIPES names; else a recipe of the library: of its build, or installed with it,
 * even if the installation was moved as a whole. *path is freed with icl_text_free. ICL_ERROR_INPUT names the
 * nearest existing recipe. */
ICL_API icl_status icl_recipe_locate(const char *name, char **path, icl_error *error);

ICL_C_END

#endif
