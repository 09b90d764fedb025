/* What a recipe is made of; shared by recipe.c (values), recipe_file.c (INI text), and readers of other INI files with
 * other tables of keys. */
#ifndef ICLAB_CORE_RECIPE_STORE_H
#define ICLAB_CORE_RECIPE_STORE_H

#include "iclab/recipe.h"
#include "iclab/status.h"
#include "iclab/text.h"

/* One key's value: the text as written, and what it means for the key's type. */
typedef struct recipe_value {
    char *text;
    char *origin; /* "versatile.ini:7", "override" or "default": the start of every message about it */
    double number;
    uint64_t count;
    int choice;
    bool flag;
    bool is_default; /* means what the key's default means */
} recipe_value;

struct icl_recipe {
    icl_recipe_key *keys;
    size_t key_count;
    recipe_value *values; /* one per key */
};

/* The index of a key, or key_count. */
size_t icl_recipe_find(const icl_recipe *recipe, const char *section, const char *name);

/* Whether nothing reads a key that is at its default: it need not be written. */
bool icl_recipe_is_idle(const icl_recipe *recipe, size_t index);

/* Whether one of the groups, a list that ends with NULL or is NULL, has the key. */
bool icl_recipe_lists(const icl_recipe_group *const *groups, const icl_recipe_key *key);

/* A program's own family of a section: its name, and the keys of the section that it reads. */
typedef struct icl_recipe_own {
    const char *section, *family;
    const icl_recipe_group *const *keys;
} icl_recipe_own;

/* ICL_ERROR_INPUT where a key of the section is not at its default and not among those that the program reads. */
icl_status icl_recipe_check_own(const icl_recipe *recipe, const icl_recipe_own *own, icl_error *error);

/* The text of icl_recipe_write, but for `count` sections with a program's own family: they hold its name, the keys that
 * it reads, and those that are not at their defaults. */
icl_status icl_recipe_write_own(const icl_recipe *recipe, const icl_recipe_own *own, size_t count, char **text,
                                icl_error *error);

/* Checks the text against the key's type and range and stores it. ICL_ERROR_INPUT, prefixed with the origin, names an
 * unknown key's nearest known one. */
icl_status icl_recipe_set(icl_recipe *recipe, const char *section, const char *name, const char *text,
                          const char *origin, icl_error *error);

/* Where a key's value comes from: "versatile.ini:7", "override" or "default". Section and key must be in the table. */
const char *icl_recipe_origin(const icl_recipe *recipe, const char *section, const char *name);

/* Appends the values that come from overrides, "section.key=value" each, in the order of the table and parted by
 * blanks. */
icl_status icl_recipe_print_overrides(const icl_recipe *recipe, icl_text *text, icl_error *error);

/* Exchanges the values of two recipes over the same table. */
void icl_recipe_swap(icl_recipe *a, icl_recipe *b);

#endif
