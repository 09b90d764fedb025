/* The inside of a recipe; shared by recipe.c (values), recipe_file.c (INI text), and readers of other INI files with
 * other tables of keys. */
#ifndef ICLAB_CORE_RECIPE_STORE_H
#define ICLAB_CORE_RECIPE_STORE_H

#include "iclab/recipe.h"
#include "iclab/status.h"
#include "iclab/text.h"

/* One key's value: the text as written, and its meaning for the key's type. */
typedef struct recipe_value {
    char *text;
    char *origin; /* "versatile.ini:7", "override" or "default": the start of every message about it */
    double number;
    uint64_t count;
    int choice;
    bool flag;
    bool is_default; /* has the same meaning as the key's default */
} recipe_value;

struct icl_recipe {
    icl_recipe_key *keys;
    size_t key_count;
    recipe_value *values; /* one per key */
};

/* Returns the index of a key, or key_count if there is no such key. */
size_t icl_recipe_find(const icl_recipe *recipe, const char *section, const char *name);

/* Returns whether a key is unused and at its default, so that it need not be written. */
bool icl_recipe_is_idle(const icl_recipe *recipe, size_t index);

/* Returns whether one of the groups has the key; `groups` is NULL or ends with NULL. */
bool icl_recipe_lists(const icl_recipe_group *const *groups, const icl_recipe_key *key);

/* A family of the program's own for one section: its name, and the keys of the section that it reads. */
typedef struct icl_recipe_own {
    const char *section, *family;
    const icl_recipe_group *const *keys;
} icl_recipe_own;

/* As icl_recipe_write, but `count` sections have a family of the program's own: the text has its name, the keys that it
 * reads, and those that are not at their defaults. */
icl_status icl_recipe_write_own(const icl_recipe *recipe, const icl_recipe_own *own, size_t count, char **text,
                                icl_error *error);

/* Checks the text against the key's type and range, and stores it. Errors are ICL_ERROR_INPUT and begin with the
 * origin; for an unknown key they name the nearest known one. */
icl_status icl_recipe_set(icl_recipe *recipe, const char *section, const char *name, const char *text,
                          const char *origin, icl_error *error);

/* The origin of a value that an override has set. */
#define ICL_RECIPE_OVERRIDE "override"

/* Returns the origin of a key's value: "versatile.ini:7", "override" or "default". The key must be in the table. */
const char *icl_recipe_origin(const icl_recipe *recipe, const char *section, const char *name);

#endif
