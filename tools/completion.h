/* Completion of command lines in bash and zsh, written from the tables that --help is printed from. */
#ifndef ICLAB_TOOLS_COMPLETION_H
#define ICLAB_TOOLS_COMPLETION_H

#include <stdio.h>

#include "iclab/recipe.h"
#include "options.h"

/* What can stand where a value is expected. */
typedef enum completion {
    COMPLETE_NOTHING = 0, /* a number, a text */
    COMPLETE_WORDS,       /* one of those in option.value */
    COMPLETE_FOLDERS,
    COMPLETE_FILES,
    COMPLETE_RECIPES,       /* by name or as a file */
    COMPLETE_REPRODUCTIONS, /* by name */
    COMPLETE_DEVICES,
    COMPLETE_SETTINGS, /* section.key=value */
} completion;

/* What completes the value of an option, or an argument without one: it follows from what stands for it in --help. */
completion completion_of_option(const option *shown);
completion completion_of_positional(const positional *shown);

/* Prints names with `before` in front of each: of every device spec, reproduction and recipe key. */
void put_devices(FILE *out, const char *before);
void put_reproductions(FILE *out, const char *before);
void put_recipe_keys(FILE *out, const char *before);

/* Prints the values of a key of words or of a flag, and nothing for other types, with `before` in front of each. */
void put_key_values(FILE *out, const icl_recipe_key *key, const char *before);

/* Prints the words of "a|b|c" with `before` in front of each. */
void put_words(FILE *out, const char *words, const char *before);

/* The whole scripts. */
void write_bash_completion(FILE *out);
void write_zsh_completion(FILE *out);

#endif
