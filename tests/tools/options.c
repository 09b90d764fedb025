/* Tests command lines: the values that each type of option accepts, the largest number, words after "--", and the
 * bounds of --workers. Tests names of folders made of settings: which characters stay, what replaces the others, and
 * where names are cut. */
#include "options.h"

#include <inttypes.h>
#include <string.h>

#include "iclab/host.h"
#include "tap.h"
#include "workers.h"

typedef struct values {
    const char *first, *second;
    bool flag;
    const char *text;
    option_count count;
    size_t word;
    option_list list;
    size_t guard; /* after the list's own memory */
} values;

static const option options[] = {
    {"--flag", OPTION_FLAG, NULL, "", offsetof(values, flag)},
    {"--text", OPTION_TEXT, "TEXT", "", offsetof(values, text)},
    {"--count", OPTION_COUNT, "N", "", offsetof(values, count)},
    {"--word", OPTION_WORD, "one|two|three", "", offsetof(values, word)},
    {"--list", OPTION_LIST, "VALUE", "", offsetof(values, list)},
};
static const positional positionals[] = {{"FIRST", "", true, offsetof(values, first)},
                                         {"SECOND", "", false, offsetof(values, second)}};
static const subcommand line = {.name = "test",
                                .positionals = positionals,
                                .positional_count = 2,
                                .options = options,
                                .option_count = sizeof options / sizeof *options};

enum { MOST = 2 * MAX_REPEATS + 8, GUARD = 12345 };

/* Reads arguments that are separated by blanks. The values are zero before. */
static icl_status read_line(const char *text, values *to, icl_error *error) {
    static char copy[4096];
    char *arguments[MOST], *rest = NULL;
    int count = 0;

    snprintf(copy, sizeof copy, "%s", text);
    for (char *word = strtok_r(copy, " ", &rest); word && count < MOST; word = strtok_r(NULL, " ", &rest))
        arguments[count++] = word;
    *to = (values){.guard = GUARD};
    *error = (icl_error){0};
    return read_command_line(&line, count, arguments, to, error);
}

static bool is_text(const char *text, const char *expected) {
    return expected ? text && strcmp(text, expected) == 0 : !text;
}

static void test_types(tap_run *tap) {
    values seen;
    icl_error error;

    tap_ok(tap,
           read_line("a --flag --text=t --count 7 --word two --list=x --list y b", &seen, &error) == ICL_OK &&
               is_text(seen.first, "a") && is_text(seen.second, "b") && seen.flag && is_text(seen.text, "t") &&
               seen.count.given && seen.count.value == 7 && seen.word == 1 && seen.list.count == 2 &&
               is_text(seen.list.values[0], "x") && is_text(seen.list.values[1], "y"),
           "every type, in both forms, among arguments %s", error.message);
    tap_ok(tap,
           read_line("a", &seen, &error) == ICL_OK && !seen.flag && !seen.text && !seen.count.given && seen.word == 0 &&
               seen.list.count == 0 && !seen.second,
           "none of them %s", error.message);
    tap_ok(tap,
           read_line("a --count=0 --text=", &seen, &error) == ICL_OK && seen.count.given && seen.count.value == 0 &&
               is_text(seen.text, ""),
           "a count of 0 is one, and an empty text %s", error.message);
}

static void test_end(tap_run *tap) {
    static const struct {
        const char *text, *first, *second;
        bool flag;
    } cases[] = {{"-- --flag", "--flag", NULL, false},
                 {"--flag -- --flag b", "--flag", "b", true},
                 {"a -- --", "a", "--", false},
                 {"- --flag", "-", NULL, true},
                 {"a -- -x", "a", "-x", false}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        values seen;
        icl_error error;
        const icl_status status = read_line(cases[i].text, &seen, &error);
        tap_ok(tap,
               status == ICL_OK && is_text(seen.first, cases[i].first) && is_text(seen.second, cases[i].second) &&
                   seen.flag == cases[i].flag,
               "%s: %s, %s %s", cases[i].text, seen.first ? seen.first : "none", seen.second ? seen.second : "none",
               error.message);
    }
}

static void test_refusals(tap_run *tap) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "FIRST is missing"},
        {"a b c", "c: expected no further argument"},
        {"a -- b --flag", "--flag: expected no further argument"},
        {"a --flg", "nearest known one is --flag"},
        {"a --flag=1", "--flag takes no value"},
        {"a --text", "--text: expected a value behind it"},
        {"a --count -1", "--count -1: expected a whole number"},
        {"a --count=", "--count : expected a whole number"},
        {"a --count 18446744073709551616", "--count 18446744073709551616: expected a whole number"},
        {"a --word four", "--word four: expected one of one|two|three"},
        {"a --word tw", "expected one of"},
        {"a --word twos", "expected one of"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        values seen;
        icl_error error;
        tap_ok(tap,
               read_line(cases[i].text, &seen, &error) == ICL_ERROR_INPUT && strstr(error.message, cases[i].message),
               "'%s': %s", cases[i].text, error.message);
    }
}

/* Tests one option given as often as there is room for, and once more. */
static void test_repeats(tap_run *tap) {
    for (size_t count = MAX_REPEATS - 1; count <= MAX_REPEATS + 1; count++) {
        char text[16 * (MAX_REPEATS + 2)] = "a", last[16];
        values seen;
        icl_error error;
        for (size_t i = 0; i < count; i++)
            snprintf(text + strlen(text), sizeof text - strlen(text), " --list v%zu", i);
        snprintf(last, sizeof last, "v%zu", count - 1);
        const icl_status status = read_line(text, &seen, &error);
        tap_ok(tap,
               (count <= MAX_REPEATS
                    ? status == ICL_OK && seen.list.count == count && is_text(seen.list.values[count - 1], last)
                    : status == ICL_ERROR_INPUT && strstr(error.message, "expected at most 64")) &&
                   seen.guard == GUARD,
               "%zu of one option: %s", count, status == ICL_OK ? "taken" : error.message);
    }
}

static void test_workers(tap_run *tap) {
    static const uint64_t counts[] = {0, 1, MOST_WORKERS, MOST_WORKERS + 1};

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        icl_error error = {0};
        const icl_status status = check_workers("sweep", &(option_count){true, counts[i]}, &error);
        tap_ok(tap,
               i == 1 || i == 2 ? status == ICL_OK
                                : status == ICL_ERROR_INPUT && strstr(error.message, "expected 1 to 1024"),
               "--workers %" PRIu64 ": %s", counts[i], status == ICL_OK ? "taken" : error.message);
    }
}

/* ---- Names of folders ---- */

static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+";

static void test_characters(tap_run *tap) {
    size_t wrong = 0;
    icl_error error = {0};

    for (int c = 1; c < 256; c++) {
        const bool stays = strchr(plain, c) != NULL;
        const char text[] = {'x', (char)c, 'y', '\0'}, cut[] = {'x', '-', 'y', '\0'};
        icl_text name = {0};
        const bool same = add_plain_name(&name, text, &error) == ICL_OK && strcmp(name.bytes, stays ? text : cut) == 0;
        if (!same)
            tap_note("character %d: %s", c, name.bytes ? name.bytes : error.message);
        wrong += !same;
        icl_text_release(&name);
    }
    tap_ok(tap, wrong == 0, "letters, digits and three signs stay, one hyphen stands for another");
}

static const struct {
    const char *text, *name;
} names[] = {
    {"power:1.5", "power-1.5"}, {"a, (b)", "a-b"}, {"==a==", "a"}, {"a--", "a"}, {"x y", "x-y"},
};

static void test_names(tap_run *tap) {
    icl_error error = {0};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        icl_text name = {0};
        const bool same =
            add_plain_name(&name, names[i].text, &error) == ICL_OK && strcmp(name.bytes, names[i].name) == 0;
        tap_ok(tap, same, "%s: %s", names[i].text, name.bytes ? name.bytes : error.message);
        icl_text_release(&name);
    }
}

/* Returns the length of the folder's name for one override of `letters` letters; `last` receives its last 9
 * characters. */
static size_t length_of(size_t letters, char last[16]) {
    char value[200] = "task.";
    option_list overrides = {.values = {value}, .count = 1};
    char *folder = NULL;
    icl_error error = {0};

    memset(value + strlen(value), 'n', letters);
    if (folder_of_overrides("run", "eval", &overrides, &folder, &error) != ICL_OK)
        return 0;
    const size_t length = strlen(folder);
    snprintf(last, 16, "%s", folder + length - 9);
    icl_free(&folder);
    return length - strlen("run/eval/");
}

static void test_folders(tap_run *tap) {
    option_list overrides = {.values = {"task.noise=fixed:1", "model.loops=2"}, .count = 2}, none = {.count = 0};
    char *folder = NULL, longest[16], cut[16], another[16];
    icl_error error = {0};

    tap_status(tap, folder_of_overrides("run", "eval", &overrides, &folder, &error), &error, "two overrides");
    tap_ok(tap, folder && strcmp(folder, "run/eval/noise-fixed-1_loops-2") == 0, "behind each other");
    icl_free(&folder);
    tap_status(tap, folder_of_overrides("run", "eval", &none, &folder, &error), &error, "none");
    tap_ok(tap, folder && strcmp(folder, "run/eval") == 0, "no folder below");
    icl_free(&folder);
    tap_ok(tap, length_of(100, longest) == 100 && strcmp(longest, "nnnnnnnnn") == 0, "a hundred bytes stay");
    tap_ok(tap, length_of(101, cut) == 109 && cut[0] == '_', "of more a number stands behind the first hundred: %s",
           cut);
    tap_ok(tap, length_of(102, another) == 109 && strcmp(cut, another) != 0, "another for another name: %s", another);
}

int main(void) {
    tap_run tap = {0};

    test_types(&tap);
    test_end(&tap);
    test_refusals(&tap);
    test_repeats(&tap);
    test_workers(&tap);
    test_characters(&tap);
    test_names(&tap);
    test_folders(&tap);
    return tap_done(&tap);
}
