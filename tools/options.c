#include "options.h"

#include <stdio.h>
#include <string.h>

#include "core/nearest.h"
#include "core/number.h"

#define MAX_OPTIONS 32

/* ---- Parsing ---- */

static icl_status unknown_option(const command_line *line, const char *given, icl_error *error) {
    const char *names[MAX_OPTIONS] = {"--help"};
    char name[64];
    size_t count = 1;

    for (size_t i = 0; i < line->option_count && count < MAX_OPTIONS; i++)
        names[count++] = line->options[i].name;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(given, "="), given);
    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s: unknown option %s; the nearest known one is %s (iclab %s --help lists them)",
                    line->command, name, icl_nearest(name, names, count), line->command);
}

/* The option that `argument` names, alone or before '='; NULL if there is none. */
static const option *find_option(const command_line *line, const char *argument) {
    const size_t length = strcspn(argument, "=");
    for (size_t i = 0; i < line->option_count; i++)
        if (strlen(line->options[i].name) == length && strncmp(line->options[i].name, argument, length) == 0)
            return &line->options[i];
    return NULL;
}

static icl_status store_word(const command_line *line, const option *chosen, const char *value,
                             icl_error *error) {
    const size_t length = strlen(value);
    size_t *target = chosen->target, index = 0;

    for (const char *word = chosen->value; *word != '\0'; index++) {
        const size_t word_length = strcspn(word, "|");
        if (word_length == length && strncmp(word, value, length) == 0) {
            *target = index;
            return ICL_OK;
        }
        word += word_length + (word[word_length] == '|');
    }
    return icl_fail(error, ICL_ERROR_INPUT, "%s: %s %s: expected one of %s", line->command, chosen->name,
                    value, chosen->value);
}

static icl_status store_value(const command_line *line, const option *chosen, const char *value,
                              icl_error *error) {
    option_count *number = chosen->target;
    option_list *list = chosen->target;
    const char **text = chosen->target;

    switch (chosen->type) {
    case OPTION_FLAG:
        break;
    case OPTION_TEXT:
        *text = value;
        break;
    case OPTION_COUNT:
        number->given = icl_parse_count(value, strlen(value), &number->value);
        if (!number->given)
            return icl_fail(error, ICL_ERROR_INPUT, "%s: %s %s: expected a whole number, 0 or more",
                            line->command, chosen->name, value);
        break;
    case OPTION_LIST:
        if (list->count == MAX_REPEATS)
            return icl_fail(error, ICL_ERROR_INPUT, "%s: %s: expected at most %d of them", line->command,
                            chosen->name, MAX_REPEATS);
        list->values[list->count++] = value;
        break;
    case OPTION_WORD:
        return store_word(line, chosen, value, error);
    }
    return ICL_OK;
}

/* Reads the option at arguments[*at] and leaves *at at its last argument. */
static icl_status read_option(const command_line *line, int count, char *const *arguments, int *at,
                              icl_error *error) {
    const char *argument = arguments[*at], *equals = strchr(argument, '=');
    const option *chosen = find_option(line, argument);

    if (!chosen)
        return unknown_option(line, argument, error);
    if (chosen->type == OPTION_FLAG) {
        bool *flag = chosen->target;
        if (equals)
            return icl_fail(error, ICL_ERROR_INPUT, "%s: %s takes no value", line->command, chosen->name);
        *flag = true;
        return ICL_OK;
    }
    if (!equals && *at + 1 == count)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %s: expected a value behind it: %s %s", line->command,
                        chosen->name, chosen->name, chosen->value);
    return store_value(line, chosen, equals ? equals + 1 : arguments[++*at], error);
}

icl_status read_command_line(const command_line *line, int count, char *const *arguments, bool *wants_help,
                             icl_error *error) {
    bool options_end = false;
    size_t position = 0;

    for (int i = 0; i < count; i++)
        if (strcmp(arguments[i], "--help") == 0 || strcmp(arguments[i], "-h") == 0) {
            *wants_help = true;
            return ICL_OK;
        }
    for (int i = 0; i < count; i++) {
        if (!options_end && strcmp(arguments[i], "--") == 0) {
            options_end = true;
        } else if (!options_end && arguments[i][0] == '-' && arguments[i][1] != '\0') {
            const icl_status status = read_option(line, count, arguments, &i, error);
            if (status != ICL_OK)
                return status;
        } else if (position < line->positional_count) {
            *line->positionals[position++].target = arguments[i];
        } else {
            return icl_fail(error, ICL_ERROR_INPUT, "%s: %s: expected no further argument (iclab %s --help)",
                            line->command, arguments[i], line->command);
        }
    }
    if (position < line->positional_count && line->positionals[position].required)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %s is missing (iclab %s --help)", line->command,
                        line->positionals[position].name, line->command);
    return ICL_OK;
}

/* ---- Help ---- */

/* A help text whose further lines are indented to the column of the first. */
static void print_help_text(const char *text, int column) {
    for (;;) {
        const size_t length = strcspn(text, "\n");
        printf("%.*s\n", (int)length, text);
        if (text[length] == '\0')
            return;
        printf("%*s", column, "");
        text += length + 1;
    }
}

void print_command_help(const command_line *line) {
    enum { COLUMN = 32 };

    printf("usage: iclab %s", line->command);
    for (size_t i = 0; i < line->positional_count; i++)
        printf(line->positionals[i].required ? " %s" : " [%s]", line->positionals[i].name);
    printf(" [options]\n\n%s\n\n", line->summary);
    for (size_t i = 0; i < line->positional_count; i++) {
        printf("  %-*s", COLUMN - 2, line->positionals[i].name);
        print_help_text(line->positionals[i].help, COLUMN);
    }
    for (size_t i = 0; i < line->option_count; i++) {
        const option *shown = &line->options[i];
        char left[64];
        snprintf(left, sizeof left, "%s%s%s", shown->name, shown->value ? " " : "",
                 shown->value ? shown->value : "");
        printf("  %-*s", COLUMN - 2, left);
        if (strlen(left) >= COLUMN - 2)
            printf("\n%*s", COLUMN, "");
        print_help_text(shown->help, COLUMN);
    }
    printf("  %-*sthis text\n", COLUMN - 2, "--help");
    if (line->notes)
        printf("\n%s", line->notes);
}
