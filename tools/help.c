#include "help.h"

#include <stdio.h>
#include <string.h>

#include "command.h"
#include "iclab/recipe.h"
#include "terminal.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* ---- The table of subcommands ---- */

static const subcommand *const subcommands[] = {
    &command_devices,  &command_train,     &command_eval,  &command_inspect, &command_predict,
    &command_generate, &command_reproduce, &command_sweep, &command_compare, &command_bench,
};

const subcommand *const *all_commands(size_t *count) {
    *count = COUNT_OF(subcommands);
    return subcommands;
}

const subcommand *find_command(const char *name) {
    for (size_t i = 0; i < COUNT_OF(subcommands); i++)
        if (strcmp(name, subcommands[i]->name) == 0)
            return subcommands[i];
    return NULL;
}

/* ---- Prose ---- */

bool next_word(const char **text, prose_word *word) {
    const char *at = *text + strspn(*text, " ");
    size_t newlines = 0, spaces = 0; /* at the start of the new line */

    for (; *at == '\n'; at++)
        newlines++;
    spaces = newlines > 0 ? strspn(at, " ") : 0;
    if (at[spaces] == '\0')
        return false;
    word->verbatim = newlines > 0 && spaces > 0;
    word->start = at;
    word->length = word->verbatim ? strcspn(at, "\n") : strcspn(at, " \n");
    word->before = newlines > 1 ? PROSE_PARAGRAPH : word->verbatim ? PROSE_LINE : PROSE_SPACE;
    *text = at + word->length;
    return true;
}

void print_prose(FILE *out, const char *text, size_t indent, size_t width) {
    size_t column = indent;
    prose_word word;
    bool after_verbatim = false;

    for (bool first = true; next_word(&text, &word); first = false) {
        const bool breaks = word.before != PROSE_SPACE || after_verbatim;
        if (!first && (breaks || column + 1 + word.length > width)) {
            fprintf(out, "%s\n%*s", word.before == PROSE_PARAGRAPH ? "\n" : "", (int)indent, "");
            column = indent;
        } else if (!first) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", (int)word.length, word.start);
        column += word.length;
        after_verbatim = word.verbatim;
    }
    fputc('\n', out);
}

/* The columns where explanations begin, and the limits of a page's width. */
enum { COLUMN = 32, KEY_COLUMN = 40, WIDEST = 100, NARROWEST = 60 };

const char general_summary[] =
    "In-context learning lab: trains small transformers that learn regression in context, on any OpenCL "
    "device or in plain C, and measures them against the best possible predictors.";

const char exit_codes[] =
    "0: done; 1: a check failed or training diverged; 2: bad usage or bad input; 3: a device, the memory or "
    "a file failed; 128 + the signal's number when interrupted (130: Ctrl-C). Results go to standard "
    "output, everything else to standard error.";

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

/* Prints "  --device SPEC       explanation", on two lines if the first part is long. */
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

static bool is_listed(const icl_recipe_group *const *groups, const icl_recipe_key *key) {
    for (; groups && *groups; groups++)
        if (key >= (*groups)->rows && key < (*groups)->rows + (*groups)->count)
            return true;
    return false;
}

recipe_keys list_recipe_keys(void) {
    recipe_keys keys = {.count = 0};

    while (keys.count < MOST_RECIPE_KEYS && (keys.of[keys.count] = icl_recipe_known_key(keys.count)))
        keys.count++;
    return keys;
}

const char *describe_readers(const recipe_keys *keys, const icl_recipe_key *key, char *text, size_t capacity) {
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < keys->count; i++) {
        const icl_recipe_key *reader = keys->of[i];
        const size_t before = used;
        bool all_list = reader->choices != NULL;
        for (const icl_choice *choice = reader->choices; choice && choice->word; choice++)
            if (!is_listed(choice->keys, key))
                all_list = false;
            else if (used < capacity)
                used += (size_t)snprintf(text + used, capacity - used, "%s%s%s%s", used > 0 ? " or " : "",
                                         used == before ? reader->name : "", used == before ? " " : "", choice->word);
        if (all_list)
            text[used = before] = '\0';
        if (is_listed(reader->keys, key) && used < capacity)
            used += (size_t)snprintf(text + used, capacity - used, "%s%s not %s", used > 0 ? " or " : "", reader->name,
                                     reader->neutral);
    }
    if (used > 0 && used < capacity)
        snprintf(text + used, capacity - used, ": ");
    return text;
}

static void print_recipe_keys(void) {
    const recipe_keys keys = list_recipe_keys();

    printf("\nRecipe keys, with their defaults:\n");
    for (size_t i = 0; i < keys.count; i++) {
        const icl_recipe_key *key = keys.of[i];
        char left[96], words[256], spread[256], help[1024];
        snprintf(left, sizeof left, "%s.%s = %s", key->section, key->name, key->default_value);
        snprintf(help, sizeof help, "%s%s", describe_readers(&keys, key, words, sizeof words), key->help);
        if (key->type == ICL_KEY_WORD) {
            spread_words(icl_recipe_words(key, words, sizeof words), spread, sizeof spread);
            snprintf(help + strlen(help), sizeof help - strlen(help), " (%s)", spread);
        }
        print_row(left, help, KEY_COLUMN);
    }
}

/* Prints the row of a key that families brought. */
static void print_brought_key(const icl_recipe_key *key) {
    char left[96], words[256], help[512];

    snprintf(left, sizeof left, "%s.%s = %s", key->section, key->name, key->default_value);
    snprintf(help, sizeof help, "%s%s%s", key->help, key->type == ICL_KEY_WORD ? ": " : "",
             icl_recipe_words(key, words, sizeof words));
    print_row(left, help, KEY_COLUMN);
}

/* Prints the names and the keys that the files of --with brought. */
static void print_families(const icl_families *families) {
    const recipe_keys known = list_recipe_keys();
    icl_recipe *recipe = NULL;
    size_t count;

    if (icl_recipe_create_with(families, &recipe, NULL) != ICL_OK)
        return;
    const icl_recipe_key *keys = icl_recipe_keys(recipe, &count);
    printf("\nFrom the files of --with:\n");
    for (size_t i = 0, at = 0; i < count; i++) {
        const bool is_known = at < known.count && strcmp(known.of[at]->name, keys[i].name) == 0 &&
                              strcmp(known.of[at]->section, keys[i].section) == 0;
        for (const icl_choice *choice = keys[i].choices; is_known && choice && choice->word; choice++)
            if (choice->value >= ICL_FIRST_BROUGHT)
                printf("  %s.%s = %s\n", keys[i].section, keys[i].name, choice->word);
        if (!is_known)
            print_brought_key(&keys[i]);
        at += is_known;
    }
    icl_recipe_destroy(&recipe);
}

void print_command_help(const subcommand *line, const icl_families *families) {
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
        snprintf(left, sizeof left, "%s%s%s", shown->name, shown->value ? " " : "", shown->value ? shown->value : "");
        print_row(left, shown->help, COLUMN);
    }
    print_row("--help", "this text", COLUMN);
    if (line->notes) {
        printf("\n");
        print_prose(stdout, line->notes, 0, page_width());
    }
    if (line->takes_recipe_keys)
        print_recipe_keys();
    if (families)
        print_families(families);
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
           "  iclab --with FILE COMMAND ...\n"
           "                         with the families in FILE, a shared object of your own, whose code it runs;\n"
           "                         may be given again\n"
           "  iclab --version        version, commit, and the libraries it is built with\n\n"
           "First steps: iclab train quickstart\n\n"
           "Exit codes: ");
    print_prose(stdout, exit_codes, strlen("Exit codes: "), page_width());
}
