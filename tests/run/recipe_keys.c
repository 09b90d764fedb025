/* Compares every recipe key with tests/run/recipe_keys.tsv: type, default, least and most value, words, and the keys
 * that a value brings into use. Users' recipes rely on these, and no other test notices a changed limit or default.
 * argv: the file; --write prints it. */
#include <stdlib.h>

#include "iclab/file.h"
#include "iclab/recipe.h"
#include "tap.h"

#define LIMIT ((size_t)1 << 20)

enum { LINE = 2048 };

static void append(char line[LINE], const char *format, ...) ICL_PRINTF(2, 3);

static void append(char line[LINE], const char *format, ...) {
    const size_t used = strlen(line);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line + used, LINE - used, format, arguments);
    va_end(arguments);
}

static void append_groups(char line[LINE], const icl_recipe_group *const *groups) {
    const char *before = "";

    append(line, "(");
    for (; groups && *groups; groups++)
        for (size_t i = 0; i < (*groups)->count; i++, before = " ")
            append(line, "%s%s.%s", before, (*groups)->rows[i].section, (*groups)->rows[i].name);
    append(line, ")");
}

/* The first line of the file. Its last column is a neutral value, and the keys that are unused with it. */
#define COLUMNS "key\ttype\tdefault\tleast\tmost\twords, and the keys that each brings into use\tneutral"

static void describe(const icl_recipe_key *key, char line[LINE]) {
    static const char *const types[] = {"text", "count", "number", "flag", "word"};

    *line = '\0';
    append(line, "%s.%s\t%s\t%s\t", key->section, key->name, types[key->type], key->default_value);
    if (key->minimum != 0 || key->maximum != 0)
        append(line, "%.15g\t%.15g\t", key->minimum, key->maximum);
    else
        append(line, "\t\t");
    for (const icl_choice *choice = key->choices; choice && choice->word; choice++) {
        append(line, "%s%s", choice == key->choices ? "" : " | ", choice->word);
        if (choice->keys)
            append_groups(line, choice->keys);
    }
    if (key->keys) {
        append(line, "\t%s ", key->neutral);
        append_groups(line, key->keys);
    } else {
        append(line, "\t");
    }
}

/* Replaces the end of each line by a zero, and returns the number of lines. */
static size_t part_lines(char *text) {
    size_t count = 0;

    for (char *at = text; (at = strchr(at, '\n')) != NULL; at++) {
        *at = '\0';
        count++;
    }
    return count;
}

/* Returns the line that begins with the key's name, or an empty one. */
static const char *find_line(const char *lines, size_t count, const char *wanted) {
    const size_t name = strcspn(wanted, "\t") + 1;

    for (size_t i = 0; i < count; i++, lines += strlen(lines) + 1)
        if (strncmp(lines, wanted, name) == 0)
            return lines;
    return "";
}

static void check_keys(tap_run *tap, const char *lines, size_t count) {
    const icl_recipe_key *key;
    char line[LINE];
    size_t known = 0;

    for (; (key = icl_recipe_known_key(known)) != NULL; known++) {
        describe(key, line);
        const char *expected = find_line(lines, count, line);
        if (strcmp(expected, line) != 0)
            tap_ok(tap, false, "%s, expected %s", line, *expected ? expected : "no such key");
    }
    tap_ok(tap, known + 1 == count && strcmp(lines, COLUMNS) == 0,
           "%zu lines in tests/run/recipe_keys.tsv, their names and %zu known keys", count, known);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_error error = {0};
    char *text = NULL, line[LINE];
    size_t size = 0;
    const icl_recipe_key *key;

    if (argc > 1 && strcmp(argv[1], "--write") == 0) {
        puts(COLUMNS);
        for (size_t i = 0; (key = icl_recipe_known_key(i)) != NULL; i++) {
            describe(key, line);
            puts(line);
        }
        return 0;
    }
    const icl_status status = icl_file_read(argc > 1 ? argv[1] : "", LIMIT, &text, &size, &error);
    tap_status(&tap, status, &error, "the file of keys");
    if (status == ICL_OK)
        check_keys(&tap, text, part_lines(text));
    free(text);
    return tap_done(&tap);
}
