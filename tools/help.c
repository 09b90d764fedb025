#include "help.h"

#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "iclab/lab.h"
#include "prose.h"
#include "terminal.h"

/* Where the explanations begin, and how wide they may be on a terminal that has the room. */
enum { COLUMN = 32, KEY_COLUMN = 40, WIDEST = 100, NARROWEST = 60 };

const char general_summary[] =
    "In-context learning lab: trains small transformers that learn regression in context, on any OpenCL "
    "device or in plain C, and measures them against the best possible predictors.";

const char exit_codes[] =
    "0: done; 1: a check failed or training diverged; 2: bad usage or bad input; 3: a device, the memory or "
    "a "
    "file failed; 128 + the signal's number when interrupted (130: Ctrl-C). Results go to standard output, "
    "everything else to standard error.";

bool wants_help(int count, char *const *arguments) {
    for (int i = 0; i < count; i++)
        if (strcmp(arguments[i], "--help") == 0 || strcmp(arguments[i], "-h") == 0)
            return true;
    return false;
}

static size_t page_width(void) {
    const size_t columns = is_smart_terminal(stdout) ? terminal_columns(stdout) : WIDEST;
    return columns > WIDEST ? WIDEST : columns < NARROWEST ? NARROWEST : columns;
}

/* "  --device SPEC       what it is", on two lines where the first part is long. */
static void print_row(const char *left, const char *help, size_t column) {
    printf("  %-*s", (int)column - 2, left);
    if (strlen(left) + 2 >= column)
        printf("\n%*s", (int)column, "");
    print_prose(stdout, help, column, page_width());
}

void spread_words(const char *words, char *text, size_t capacity) {
    size_t used = 0;

    for (; *words != '\0' && used + 4 < capacity; words++)
        used += (size_t)snprintf(text + used, capacity - used, *words == '|' ? " %c " : "%c", *words);
}

static void print_recipe_keys(void) {
    size_t count;
    const icl_recipe_key *keys = icl_lab_recipe_keys(&count);

    printf("\nRecipe keys, with their defaults:\n");
    for (size_t i = 0; i < count; i++) {
        const icl_recipe_key *key = &keys[i];
        char left[96], words[256], help[512];
        snprintf(left, sizeof left, "%s.%s = %s", key->section, key->name, key->default_value);
        snprintf(help, sizeof help, "%s", key->help);
        if (key->type == ICL_KEY_WORD) {
            spread_words(key->words, words, sizeof words);
            snprintf(help, sizeof help, "%s (%s)", key->help, words);
        }
        print_row(left, help, KEY_COLUMN);
    }
}

void print_command_help(const subcommand *line) {
    printf("usage: iclab %s", line->name);
    for (size_t i = 0; i < line->positional_count; i++)
        printf(line->positionals[i].required ? " %s" : " [%s]", line->positionals[i].name);
    printf(" [options]\n\n");
    print_prose(stdout, line->summary, 0, page_width());
    printf("\n");
    for (size_t i = 0; i < line->positional_count; i++)
        print_row(line->positionals[i].name, line->positionals[i].help, COLUMN);
    for (size_t i = 0; i < line->option_count; i++) {
        const option *shown = &line->options[i];
        char left[96];
        snprintf(left, sizeof left, "%s%s%s", shown->name, shown->value ? " " : "",
                 shown->value ? shown->value : "");
        print_row(left, shown->help, COLUMN);
    }
    print_row("--help", "this text", COLUMN);
    if (line->notes) {
        printf("\n");
        print_prose(stdout, line->notes, 0, page_width());
    }
    if (line->takes_recipe_keys)
        print_recipe_keys();
}

void print_general_help(void) {
    size_t count;
    const subcommand *const *commands = all_commands(&count);

    printf("usage: iclab COMMAND [arguments]\n\n");
    print_prose(stdout, general_summary, 0, page_width());
    printf("\n");
    for (size_t i = 0; i < count; i++) {
        char left[64];
        snprintf(left, sizeof left, "%-9s %s", commands[i]->name,
                 commands[i]->positional_count > 0 ? commands[i]->positionals[0].name : "");
        print_row(left, commands[i]->about, 22);
    }
    printf("\n  iclab COMMAND --help   everything about one command\n"
           "  iclab --version        version, commit, and the libraries it is built with\n\n"
           "First steps: iclab train quickstart\n\n"
           "Exit codes: ");
    print_prose(stdout, exit_codes, strlen("Exit codes: "), page_width());
}
