/* --help, of the command and of each subcommand. */
#ifndef ICLAB_TOOLS_HELP_H
#define ICLAB_TOOLS_HELP_H

#include "iclab/recipe.h"
#include "options.h"

/* Whether --help or -h is among the arguments. Then nothing else is looked at. */
bool wants_help(int count, char *const *arguments);

/* Prints a subcommand's --help to stdout. */
void print_command_help(const subcommand *line);

/* Prints the whole command's --help to stdout. */
void print_general_help(void);

/* "a|b|c" as "a | b | c", which may be broken into lines. */
void spread_words(const char *words, char *text, size_t capacity);

enum { MOST_RECIPE_KEYS = 512 };

/* Every key of a recipe, in the order of icl_recipe_known_key, which takes its time to find one. */
typedef struct recipe_keys {
    const icl_recipe_key *of[MOST_RECIPE_KEYS];
    size_t count;
} recipe_keys;

recipe_keys list_recipe_keys(void);

/* "optimizer adam: " for a key that only some words of another key read; else an empty text. Returns text. */
const char *describe_readers(const recipe_keys *all, const icl_recipe_key *key, char *text, size_t capacity);

/* What the commands' pages and --help say beside the tables. */
extern const char general_summary[], exit_codes[];

#endif
