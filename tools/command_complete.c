/*
 * iclab complete WORD...: prints candidates for the last word of a command line. The completions for bash and zsh
 * (tools/completion/) run it with every Tab and choose the candidates that begin with that word.
 *
 * A line is a word; a tab and an explanation may follow. A line that begins with ':' asks the shell for its own paths.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "iclab/host.h"
#include "iclab/recipe.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Prints the words of "a|b|c", each with the prefix `before`. */
static void put_words(const char *before, const char *words) {
    while (*words != '\0') {
        const size_t length = strcspn(words, "|");
        printf("%s%.*s\n", before, (int)length, words);
        words += length + (words[length] == '|');
    }
}

/* Prints every key before '=', and after it the values of a key of words or of a flag. */
static void put_settings(const char *before, const char *typed) {
    const char *equals = strchr(typed, '=');
    const icl_recipe_key *key;

    for (size_t i = 0; (key = icl_recipe_known_key(i)); i++) {
        char setting[96], words[256];
        const int length = snprintf(setting, sizeof setting, "%s.%s=", key->section, key->name);
        if (!equals) {
            printf("%s%s\n", before, setting);
        } else if (strncmp(typed, setting, (size_t)length) == 0) {
            char all[160];
            snprintf(all, sizeof all, "%s%s", before, setting);
            put_words(all, key->type == ICL_KEY_FLAG ? "true|false" : icl_recipe_words(key, words, sizeof words));
        }
    }
}

static void put_recipes_of(const char *before, const char *folder) {
    DIR *listing = opendir(folder);
    const struct dirent *entry;

    while (listing && (entry = readdir(listing)) != NULL) {
        const char *suffix = strrchr(entry->d_name, '.');
        if (suffix && strcmp(suffix, ".ini") == 0)
            printf("%s%.*s\n", before, (int)(suffix - entry->d_name), entry->d_name);
    }
    if (listing)
        closedir(listing);
}

/* Prints the recipes in $ICLAB_RECIPES, and those next to a recipe of every installation. */
static icl_status put_recipes(const char *before, icl_error *error) {
    const char *own = getenv("ICLAB_RECIPES");
    char *path = NULL;
    const icl_status status = icl_recipe_locate("quickstart", &path, error);

    if (own && own[0] != '\0')
        put_recipes_of(before, own);
    if (path) {
        *strrchr(path, '/') = '\0';
        if (!own || strcmp(own, path) != 0)
            put_recipes_of(before, path);
    }
    puts(":recipes");
    icl_free(&path);
    return status == ICL_ERROR_INPUT ? ICL_OK : status; /* no recipes are installed */
}

/* "FILE.csv" is a FILE. */
static bool stands_for(const char *shown, const char *name) {
    const size_t length = strlen(name);
    return strncmp(shown, name, length) == 0 && (shown[length] == '\0' || shown[length] == '.');
}

/* Prints completions of a value that --help calls `shown`. Other values, such as N or TEXT, are for the user to
 * invent. */
static icl_status put_values(const char *before, const char *shown, const char *typed, icl_error *error) {
    if (stands_for(shown, "DIR") || stands_for(shown, "RUN"))
        puts(":folders");
    else if (stands_for(shown, "FILE"))
        puts(":files");
    else if (stands_for(shown, "SPEC"))
        put_words(before, "auto|cpu|cpu:threads=|cpu:isa=|ref|opencl|opencl:");
    else if (stands_for(shown, "NAME"))
        return put_reproductions(before, error);
    else if (strncmp(shown, "SECTION.KEY=", strlen("SECTION.KEY=")) == 0)
        put_settings(before, typed);
    else if (stands_for(shown, "RECIPE"))
        return put_recipes(before, error);
    return ICL_OK;
}

/* `before` is the part of the word before the value: "--set=" or nothing. */
static icl_status put_option_values(const option *known, const char *before, const char *typed, icl_error *error) {
    if (known->type != OPTION_WORD)
        return put_values(before, known->value, typed, error);
    put_words(before, known->value);
    return ICL_OK;
}

static void put_described(const char *word, const char *about) {
    printf("%s\t%.*s\n", word, (int)strcspn(about, "\n"), about);
}

static void put_commands(void) {
    size_t count;
    const subcommand *const *commands = all_commands(&count);

    put_described("--help", "what iclab does");
    put_described("--version", "version, commit and libraries");
    put_described("--with", "a file with families of your own, whose code it runs");
    for (size_t i = 0; i < count; i++)
        put_described(commands[i]->name, commands[i]->about);
}

static void put_options(const subcommand *line) {
    put_described("--help", "everything about this command");
    for (size_t i = 0; i < line->option_count; i++)
        put_described(line->options[i].name, line->options[i].help);
}

/* `words` are those after the command's name; the last one is to be completed. */
static icl_status complete(const subcommand *line, int count, char *const *words, icl_error *error) {
    const char *last = words[count - 1], *equals = strchr(last, '=');
    const option *open = NULL; /* whose value comes next */
    size_t position = 0;

    for (int i = 0; i + 1 < count; i++) {
        const option *named = open ? NULL : find_option(line, words[i]);
        position += !open && words[i][0] != '-';
        open = named && named->type != OPTION_FLAG && !strchr(words[i], '=') ? named : NULL;
    }
    if (open)
        return put_option_values(open, "", last, error);
    open = equals ? find_option(line, last) : NULL;
    if (open && open->type != OPTION_FLAG) {
        char before[64];
        snprintf(before, sizeof before, "%s=", open->name);
        return put_option_values(open, before, equals + 1, error);
    }
    if (last[0] != '-' && position < line->positional_count)
        return put_values("", line->positionals[position].name, last, error);
    put_options(line);
    return ICL_OK;
}

/* Returns how many words at the beginning are --with and a file that is complete. */
static int count_with(int count, char *const *words) {
    int at = 0;

    while (at + 1 < count && strncmp(words[at], "--with", 6) == 0)
        at += words[at][6] == '=' ? 1 : 2;
    return at;
}

static int run(const icl_families *families, int count, char *const *words) {
    const int with = count_with(count, words);
    icl_error error = {0};
    icl_status status = ICL_OK;

    (void)families;
    count -= with;
    words += with;
    const subcommand *line = count > 1 ? find_command(words[0]) : NULL;
    if (count == 0)
        status = put_values("", "FILE", "", &error);
    else if (count == 1)
        put_commands();
    else if (line)
        status = complete(line, count - 1, words + 1, &error);
    return status == ICL_OK ? EXIT_DONE : report_failure(status, &error);
}

const subcommand command_complete = {.name = "complete", .run = run};
