/* Names of folders made of what was set: which characters stay, what stands for the others, and where they are cut. */
#include "options.h"

#include <string.h>

#include "iclab/host.h"
#include "tap.h"

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

/* The folder of one override of so many letters. */
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

    test_characters(&tap);
    test_names(&tap);
    test_folders(&tap);
    return tap_done(&tap);
}
