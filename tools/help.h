/* Help of the command and of each subcommand, and prose in lines. */
#ifndef ICLAB_TOOLS_HELP_H
#define ICLAB_TOOLS_HELP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "iclab/recipe.h"
#include "options.h"

/* ---- Prose ---- */

/* Prose of the command's tables is read word by word, to lay it out in lines. */

/* The break between a word and the previous one. */
typedef enum prose_break { PROSE_SPACE = 0, PROSE_LINE, PROSE_PARAGRAPH } prose_break;

typedef struct prose_word {
    const char *start;
    size_t length;
    prose_break before;
    bool verbatim; /* a whole line that begins with a space, spaces included; it is not filled */
} prose_word;

/* Takes the next word from *text; false at its end. A newline is a space; an empty line ends a paragraph. */
bool next_word(const char **text, prose_word *word);

/* Prints prose in lines of at most `width` columns. The first line begins at the cursor, in column `indent`, to which
 * the others are indented. Ends with a newline. */
void print_prose(FILE *out, const char *text, size_t indent, size_t width);

/* The command and each subcommand have --help. */

/* Returns whether --help or -h is among the arguments; all others are then ignored. */
bool wants_help(int count, char *const *arguments);

/* Prints a subcommand's --help to stdout. */
void print_command_help(const subcommand *line, const icl_families *families);

/* Prints the whole command's --help to stdout. */
void print_general_help(void);

/* Writes "a|b|c" as "a | b | c", which may be broken into lines. */
void spread_words(const char *words, char *text, size_t capacity);

enum { MOST_RECIPE_KEYS = 512 };

/* All keys of recipes, in the order of icl_recipe_known_key, which takes long to find one. */
typedef struct recipe_keys {
    const icl_recipe_key *of[MOST_RECIPE_KEYS];
    size_t count;
} recipe_keys;

recipe_keys list_recipe_keys(void);

/* Writes "optimizer adam: " for a key that only some words of another key read; otherwise an empty text. Returns
 * text. */
const char *describe_readers(const recipe_keys *all, const icl_recipe_key *key, char *text, size_t capacity);

/* Texts that the man pages and --help have beside the tables. */
extern const char general_summary[], exit_codes[];

#endif
