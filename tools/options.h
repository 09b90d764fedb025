/* Command lines: one table of options per command is its parser and its --help at once. */
#ifndef ICLAB_TOOLS_OPTIONS_H
#define ICLAB_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

#define MAX_REPEATS 64

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

typedef enum option_type {
    OPTION_FLAG = 0, /* target: bool */
    OPTION_TEXT,     /* const char * */
    OPTION_COUNT,    /* option_count */
    OPTION_LIST,     /* option_list */
    OPTION_WORD,     /* size_t: the position in `words` */
} option_type;

typedef struct option {
    const char *name; /* "--device" */
    option_type type;
    const char *value; /* what stands for the value in --help; for OPTION_WORD the words, separated by '|' */
    const char *help;  /* may hold newlines */
    void *target;
} option;

typedef struct positional {
    const char *name;
    const char *help;
    bool required;
    const char **target;
} positional;

typedef struct command_line {
    const char *command; /* "train" */
    const char *summary;
    const positional *positionals;
    size_t positional_count;
    const option *options;
    size_t option_count;
    const char *notes; /* printed at the end of --help; may be NULL */
} command_line;

/* Reads the arguments behind the command's name into the targets. Options may stand anywhere; "--" ends them; both "--name value" and
 * "--name=value" do. *wants_help is set by --help or -h, and nothing else is checked then. ICL_ERROR_INPUT names the nearest known option. */
icl_status read_command_line(const command_line *line, int count, char *const *arguments, bool *wants_help,
                             icl_error *error);

/* Prints --help to stdout. */
void print_command_help(const command_line *line);

#endif
