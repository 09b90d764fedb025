/* Command lines: one table of options per command is its parser, its --help, its man page and its
 * completion at once. */
#ifndef ICLAB_TOOLS_OPTIONS_H
#define ICLAB_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/families.h"
#include "iclab/status.h"
#include "iclab/text.h"

#define MAX_REPEATS 64

/* The text of a macro's value, so that a help text names the code's own default. */
#define TEXT_OF(macro)         TEXT_OF_TOKENS(macro)
#define TEXT_OF_TOKENS(tokens) #tokens

/* Values of an option that may be given several times, in order. */
typedef struct option_list {
    const char *values[MAX_REPEATS];
    size_t count;
} option_list;

/* A whole number that may be absent. */
typedef struct option_count {
    bool given;
    uint64_t value;
} option_count;

/* A decimal number, 0 or more, that may be absent. */
typedef struct option_number {
    bool given;
    double value;
} option_number;

typedef enum option_type {
    OPTION_FLAG = 0, /* target: bool */
    OPTION_TEXT,     /* const char * */
    OPTION_COUNT,    /* option_count */
    OPTION_NUMBER,   /* option_number */
    OPTION_LIST,     /* option_list */
    OPTION_WORD,     /* size_t: the position in `value` */
} option_type;

typedef struct option {
    const char *name; /* "--device" */
    option_type type;
    /* The value's name in --help; NULL for a flag. For OPTION_WORD the words, separated by '|'. For the others it also
     * decides how the value is completed: tools/command_complete.c has the list. */
    const char *value;
    const char *help; /* prose, filled into lines when it is printed */
    size_t target;    /* offset in the command's struct of options */
} option;

typedef struct positional {
    const char *name; /* its completion follows from this, as for an option's value */
    const char *help;
    bool required;
    size_t target; /* offset of a const char * in the command's struct of options */
} positional;

typedef struct subcommand {
    const char *name;    /* "train" */
    const char *about;   /* one line for a list of commands, without a full stop */
    const char *summary; /* a sentence or two */
    const positional *positionals;
    size_t positional_count;
    const option *options;
    size_t option_count;
    /* The end of --help, or NULL: prose, filled when it is printed. Empty lines separate paragraphs; a line that begins
     * with a space stays a line of its own. */
    const char *notes;
    bool takes_recipe_keys; /* --help ends with the table of recipe keys */
    bool takes_families;    /* it reads recipes, with the families of --with */
    /* Takes the families of --with (NULL: none) and the arguments after the command's name; returns the exit code. */
    int (*run)(const icl_families *families, int count, char *const *arguments);
} subcommand;

/* Finds the option that `argument` names, entirely or before '='; NULL if there is none. */
const option *find_option(const subcommand *line, const char *argument);

/* Reads the arguments after the command's name into `options`, the command's struct of options. Options may stand
 * anywhere; "--" ends them; both "--name value" and "--name=value" work. ICL_ERROR_INPUT names the nearest known option
 * or, for a word that is a recipe's key, the --set that sets it. */
icl_status read_command_line(const subcommand *line, int count, char *const *arguments, void *options,
                             icl_error *error);

/* ---- Folders that are named by options ---- */

/* Adds letters, digits, '.', '_' and '+' unchanged and every run of other characters as one '-'. */
icl_status add_plain_name(icl_text *name, const char *text, icl_error *error);

/* Sets *folder to RUN/WHAT, or to a folder in it for these --set: RUN/eval/noise-fixed-1_sequences-200. Freed with
 * icl_free. */
icl_status folder_of_overrides(const char *run, const char *what, const option_list *overrides, char **folder,
                               icl_error *error);

#endif
