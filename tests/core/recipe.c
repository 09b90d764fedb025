/* Recipes: reading, refusing, overriding, writing. */
#include "iclab/recipe.h"

#include <math.h>

#include "core/allocate.h"
#include "core/recipe_store.h"
#include "iclab/nearest.h"
#include "scratch.h"
#include "tap.h"

/* diag has a key of its own, which full does not read, and shares a group with gd++. */
static const icl_recipe_key diag_keys[] = {{"model", "rank", ICL_KEY_COUNT, "2", .help = "of diag"}};
static const icl_recipe_key shared_keys[] = {
    {"model", "curve", ICL_KEY_NUMBER, "0.5"},
    {"train", "note", ICL_KEY_TEXT, ""},
};
static const icl_recipe_group diag_group = {diag_keys, 1}, shared_group = {shared_keys, 2};
static const icl_recipe_group *const diag_groups[] = {&diag_group, &shared_group, NULL};
static const icl_recipe_group *const shared_groups[] = {&shared_group, NULL};

/* The key angle is read if turn or arc is set, and the key turn if bend is. */
static const icl_recipe_key angle_keys[] = {{"model", "angle", ICL_KEY_COUNT, "3"}};
static const icl_recipe_group angle_group = {angle_keys, 1};
static const icl_recipe_group *const angle_groups[] = {&angle_group, NULL};
#define TURN_KEY                                                                                                       \
    { "model", "turn", ICL_KEY_FLAG, "false", .keys = angle_groups, .neutral = "false" }
static const icl_recipe_key turn_keys[] = {TURN_KEY};
static const icl_recipe_group turn_group = {turn_keys, 1};
static const icl_recipe_group *const bend_groups[] = {&turn_group, NULL};

/* The values differ from the places in the list. */
static const icl_choice kinds[] = {{"full", 7}, {"diag", -1, diag_groups}, {"gd++", 40, shared_groups}, {0}};

static const icl_recipe_key keys[] = {
    {"task", "d", ICL_KEY_COUNT, "10", 1, 100, .help = "dimension"},
    {"task", "noise", ICL_KEY_TEXT, "fixed:1", .help = "a text"},
    {"model", "kind", ICL_KEY_WORD, "full", .choices = kinds},
    {"model", "rank", ICL_KEY_COUNT, "2", .help = "of diag"},
    {"model", "curve", ICL_KEY_NUMBER, "0.5"},
    {"model", "bend", ICL_KEY_NUMBER, "0", .keys = bend_groups, .neutral = "0"},
    TURN_KEY,
    {"model", "angle", ICL_KEY_COUNT, "3"},
    {"model", "arc", ICL_KEY_TEXT, "none", .keys = angle_groups, .neutral = "none"},
    {"train", "rate", ICL_KEY_NUMBER, "0.01", 1e-9, 10},
    {"train", "any", ICL_KEY_NUMBER, "-3"},
    {"train", "layers_of_cake", ICL_KEY_COUNT, "2"},
    {"train", "rotate", ICL_KEY_FLAG, "false"},
    {"train", "note", ICL_KEY_TEXT, ""},
};

static icl_recipe *make(void) {
    icl_recipe *recipe = NULL;
    if (icl_recipe_create(keys, sizeof keys / sizeof *keys, &recipe, NULL) != ICL_OK)
        exit(1);
    return recipe;
}

static void check_defaults(tap_run *tap) {
    icl_recipe *recipe = make();

    tap_ok(tap,
           icl_recipe_count(recipe, "task", "d") == 10 &&
               strcmp(icl_recipe_text(recipe, "task", "noise"), "fixed:1") == 0 &&
               icl_recipe_choice(recipe, "model", "kind") == 7 && icl_recipe_number(recipe, "train", "rate") == 0.01 &&
               icl_recipe_number(recipe, "train", "any") == -3 && !icl_recipe_flag(recipe, "train", "rotate"),
           "defaults");
    icl_recipe_destroy(&recipe);
    tap_ok(tap, recipe == NULL, "destroy clears the handle");
    icl_recipe_destroy(&recipe);
}

static void check_reading(tap_run *tap) {
    icl_recipe *recipe = make();
    icl_error error = {0};
    static const char text[] =
        "\xEF\xBB\xBF; a comment\r\n"
        "# another, longer than any line that inih takes: ........................................."
        "..........................................................................................."
        "...........................................................................\n"
        "[task]\n  d = 42 ; inline comment\nnoise=choice:1,\n    2,\n    3\n\n"
        "[model]\nkind : gd++\n[train]\nrate= 2e-3\nrotate =true";

    tap_status(tap, icl_recipe_parse(recipe, text, "r.ini", &error), &error, "a recipe");
    tap_ok(tap, icl_recipe_count(recipe, "task", "d") == 42, "a count, with an inline comment");
    tap_ok(tap, strcmp(icl_recipe_text(recipe, "task", "noise"), "choice:1,2,3") == 0, "a value over three lines: %s",
           icl_recipe_text(recipe, "task", "noise"));
    tap_ok(tap, icl_recipe_choice(recipe, "model", "kind") == 40, "a word");
    tap_ok(tap, icl_recipe_number(recipe, "train", "rate") == 2e-3, "a number");
    tap_ok(tap, icl_recipe_flag(recipe, "train", "rotate"), "a flag, on a last line without a newline");
    tap_status(tap, icl_recipe_parse(recipe, "", "empty.ini", &error), &error, "an empty text changes nothing");
    tap_ok(tap, icl_recipe_count(recipe, "task", "d") == 42, "d is still 42");
    icl_recipe_destroy(&recipe);
}

/* Lines may end with CR. The last is a value with a colon and words that name no key. */
static void check_line_ends(tap_run *tap) {
    icl_recipe *recipe = make();
    icl_error error = {0};

    tap_status(tap, icl_recipe_parse(recipe, "[task] ; sizes\rd = 3\r\rnoise = fixed:2\r", "r.ini", &error), &error,
               "lines that end with CR alone");
    tap_ok(tap,
           icl_recipe_count(recipe, "task", "d") == 3 &&
               strcmp(icl_recipe_text(recipe, "task", "noise"), "fixed:2") == 0,
           "  and their values");
    tap_status(tap, icl_recipe_parse(recipe, "[task]#\r\nd = 4\r\n[train]\nnote = a,\n  any:1,rate\n", "r.ini", &error),
               &error, "with CR and LF, and a continuation that looks like a key of no name");
    tap_ok(tap, icl_recipe_count(recipe, "task", "d") == 4, "  and the value");
    icl_recipe_destroy(&recipe);
}

/* Checks that the text is refused with this message and changes nothing. */
static void check_refusal(tap_run *tap, const char *text, const char *message) {
    icl_recipe *recipe = make();
    icl_error error = {0};
    const icl_status status = icl_recipe_parse(recipe, text, "r.ini", &error);

    tap_ok(tap, status == ICL_ERROR_INPUT && strstr(error.message, message) && !strchr(error.message, '\n'), "%s",
           error.message);
    if (!strstr(error.message, message))
        tap_note("expected: %s", message);
    tap_ok(tap, icl_recipe_count(recipe, "task", "d") == 10, "  and the recipe is as it was");
    icl_recipe_destroy(&recipe);
}

static void check_refusals(tap_run *tap) {
    char long_line[400] = "[task]\nd = 5\nnoise = ";

    memset(long_line + strlen(long_line), 'x', 300);
    check_refusal(tap, "[task]\nd = 7\n[train]\nrat = 1\n",
                  "r.ini:4: unknown key train.rat; the nearest known one is train.rate");
    check_refusal(tap, "[trian]\nrate = 1\n", "nearest known one is train.rate");
    check_refusal(tap, "[model]\nlayers_of_cake = 1\n", "nearest known one is train.layers_of_cake");
    check_refusal(tap, "d = 7\n", "unknown key .d; the nearest known one is task.d");
    check_refusal(tap, "[task]\nd = 0\n", "r.ini:2: task.d = 0: expected a whole number from 1 to 100");
    check_refusal(tap, "[task]\nd = 101\n", "from 1 to 100");
    check_refusal(tap, "[task]\nd = -3\n", "task.d = -3: expected a whole number");
    check_refusal(tap, "[task]\nd = 1e1\n", "expected a whole number");
    check_refusal(tap, "[task]\nd = 3.0\n", "expected a whole number");
    check_refusal(tap, "[task]\nd = 99999999999999999999\n", "expected a whole number");
    check_refusal(tap, "[task]\nd =\n", "expected a whole number");
    check_refusal(tap, "[train]\nrate = 0\n", "train.rate = 0: expected a number from 1e-09 to 10");
    check_refusal(tap, "[train]\nrate = nan\n", "expected a number");
    check_refusal(tap, "[train]\nany = inf\n", "train.any = inf: expected a number");
    check_refusal(tap, "[train]\nany = 0x10\n", "expected a number");
    check_refusal(tap, "[train]\nrotate = yes\n", "expected true or false");
    check_refusal(tap, "[model]\nkind = ful\n", "expected one of full|diag|gd++");
    check_refusal(tap, "[task]\nd = 7\nd = 8\n", "r.ini:3: task.d again: expected it once; line 2 has set it");
    check_refusal(tap, "[task]\nd = 7\n[train]\nrate = 1\n[task]\nd = 8\n", "r.ini:6: task.d again");
    check_refusal(tap, "[task]\nd = 7\nnonsense\n", "r.ini:3: not a line of a recipe");
    check_refusal(tap, "[task\nd = 7\n", "r.ini:1: not a line of a recipe");
    check_refusal(tap, "[task]\nnoise = fixed:1 # no comment\n", "without ';' and '#'");
    check_refusal(tap, long_line, "r.ini:3: line too long");
    check_refusal(tap, "[task] d = 3\nnoise = fixed:2\n",
                  "r.ini:1: a section's line goes on behind its ']': expected nothing but a comment there");
    check_refusal(tap, "[model]\n[task] ]\nd = 7\n", "r.ini:2: a section's line goes on");
    check_refusal(tap, "[task]\n d = 3\n noise = fixed:2\n",
                  "r.ini:3: a key on an indented line, which continues the value above: expected every key at the "
                  "beginning of its line");
    check_refusal(tap, "[task]\r\rd = 0\r", "r.ini:3: task.d = 0");
}

static void check_overrides(tap_run *tap) {
    static const char *const bad[] = {"task.d",          "d=7",           "=", "task.d=0", "task.e=1",
                                      "task.noise=a\nb", "task.noise=a;b"};
    icl_recipe *recipe = make();
    icl_error error = {0};

    tap_status(tap, icl_recipe_override(recipe, " task.d = 7 ", &error), &error, "an override");
    tap_ok(tap, icl_recipe_count(recipe, "task", "d") == 7, "d is 7");
    tap_status(tap, icl_recipe_override(recipe, "task.noise=a=b", &error), &error, "a value with an equals sign");
    tap_ok(tap, strcmp(icl_recipe_text(recipe, "task", "noise"), "a=b") == 0, "is kept whole");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        tap_ok(tap, icl_recipe_override(recipe, bad[i], &error) == ICL_ERROR_INPUT, "refused override %zu", i);
    tap_ok(tap, icl_recipe_count(recipe, "task", "d") == 7, "d is still 7");
    icl_recipe_destroy(&recipe);
}

static bool rejects_with(const icl_recipe *recipe, const char *section, const char *key, const char *expected) {
    icl_error error = {0};
    const bool same = icl_recipe_reject(recipe, section, key, &error, "at most %d", 5) == ICL_ERROR_INPUT &&
                      strcmp(error.message, expected) == 0;
    if (!same)
        tap_note("%s", error.message);
    return same;
}

static void check_origins(tap_run *tap) {
    icl_recipe *recipe = make();

    icl_recipe_parse(recipe, "[task]\n\nd = 7\n", "dir/r.ini", NULL);
    icl_recipe_override(recipe, "train.rate=3", NULL);
    tap_ok(tap, rejects_with(recipe, "task", "d", "dir/r.ini:3: task.d = 7: expected at most 5"),
           "origin: file and line");
    tap_ok(tap, rejects_with(recipe, "train", "rate", "override: train.rate = 3: expected at most 5"),
           "origin: override");
    tap_ok(tap, rejects_with(recipe, "train", "any", "default: train.any = -3: expected at most 5"), "origin: default");
    icl_recipe_destroy(&recipe);
}

/* Returns whether every value of two recipes over one table has the same text. */
static bool same_values(const icl_recipe *a, const icl_recipe *b) {
    char *first = NULL, *second = NULL;
    const bool same = icl_recipe_write(a, &first, NULL) == ICL_OK && icl_recipe_write(b, &second, NULL) == ICL_OK &&
                      strcmp(first, second) == 0;
    icl_free(&first);
    icl_free(&second);
    return same;
}

static bool same_origins(const icl_recipe *a, const icl_recipe *b) {
    bool same = true;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        same = same && strcmp(icl_recipe_origin(a, keys[i].section, keys[i].name),
                              icl_recipe_origin(b, keys[i].section, keys[i].name)) == 0;
    return same;
}

static void check_writing(tap_run *tap) {
    icl_recipe *recipe = make(), *back = make(), *copy = NULL;
    icl_error error = {0};
    char *text = NULL, assignment[2000] = "task.noise=spectrum:";
    size_t longest = 0;

    for (int i = 0; i < 200; i++)
        snprintf(assignment + strlen(assignment), sizeof assignment - strlen(assignment), "%s0.%04d", i ? "," : "",
                 i * 37);
    icl_recipe_override(recipe, assignment, NULL);
    icl_recipe_override(recipe, "train.rate=0.3", NULL);
    tap_status(tap, icl_recipe_write(recipe, &text, &error), &error, "write a recipe with a long value");
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        longest = strcspn(line, "\n") > longest ? strcspn(line, "\n") : longest;
    tap_ok(tap, longest < 150, "no line is longer than inih reads (%zu)", longest);
    tap_status(tap, icl_recipe_parse(back, text, "written", &error), &error, "read it back");
    tap_ok(tap, same_values(recipe, back), "to the same values");
    tap_ok(tap, strcmp(icl_recipe_text(back, "task", "noise"), strchr(assignment, '=') + 1) == 0, "the long one too");
    icl_free(&text);

    memset(assignment + strlen("task.noise="), 'y', 700);
    assignment[strlen("task.noise=") + 150] = ' ';
    assignment[strlen("task.noise=") + 700] = '\0';
    icl_recipe_override(recipe, assignment, NULL);
    icl_recipe_write(recipe, &text, NULL);
    tap_status(tap, icl_recipe_parse(back, text, "written", &error), &error, "a long value without commas");
    tap_ok(tap, same_values(recipe, back), "reads back too");
    icl_free(&text);

    /* A comma stands where the line would be broken, except for the blank after it. */
    memset(assignment + strlen("task.noise="), 'z', 300);
    memcpy(assignment + strlen("task.noise=") + 90, ", ", 2);
    assignment[strlen("task.noise=") + 300] = '\0';
    icl_recipe_override(recipe, assignment, NULL);
    icl_recipe_write(recipe, &text, NULL);
    tap_status(tap, icl_recipe_parse(back, text, "written", &error), &error, "a long value of words");
    tap_ok(tap, same_values(recipe, back), "keeps the blank behind its comma");
    icl_free(&text);

    /* Words of one and of nine letters, shifted, put blanks on every column near a break. */
    size_t lost = 0;
    for (size_t shift = 0; shift < 12; shift++) {
        for (size_t i = 0; i < 300; i++)
            assignment[strlen("task.noise=") + i] = (i + shift) % 12 == 9 || (i + shift) % 12 == 11 ? ' ' : 'w';
        assignment[strlen("task.noise=")] = assignment[strlen("task.noise=") + 299] = 'w';
        icl_recipe_override(recipe, assignment, NULL);
        icl_recipe_write(recipe, &text, NULL);
        lost += icl_recipe_parse(back, text, "written", &error) != ICL_OK || !same_values(recipe, back);
        icl_free(&text);
    }
    tap_ok(tap, lost == 0, "blanks stay, wherever they stand");

    tap_status(tap, icl_recipe_clone(recipe, &copy, &error), &error, "clone");
    tap_ok(tap, same_values(recipe, copy), "the clone is the same");
    tap_ok(tap,
           same_origins(recipe, copy) && strcmp(icl_recipe_origin(copy, "train", "rate"), "override") == 0 &&
               strcmp(icl_recipe_origin(copy, "task", "d"), "default") == 0,
           "and knows where each value came from");
    icl_recipe_override(copy, "task.d=99", NULL);
    tap_ok(tap, icl_recipe_count(recipe, "task", "d") == 10, "and independent");
    icl_recipe_destroy(&copy);
    icl_recipe_destroy(&back);
    icl_recipe_destroy(&recipe);
}

static void check_files(tap_run *tap) {
    icl_recipe *recipe = make();
    icl_error error = {0};
    scratch_folder scratch;

    scratch_open(&scratch);
    scratch_write(&scratch, "r.ini", "[task]\nd = 3\n", 13);
    tap_status(tap, icl_recipe_load(recipe, scratch_path(&scratch, "r.ini"), &error), &error, "load a file");
    tap_ok(tap, icl_recipe_count(recipe, "task", "d") == 3, "d is 3");
    scratch_write(&scratch, "nul.ini", "[task]\nd = 4\n\0\n", 15);
    tap_ok(tap, icl_recipe_load(recipe, scratch_path(&scratch, "nul.ini"), &error) == ICL_ERROR_INPUT, "%s",
           error.message);
    tap_ok(tap, icl_recipe_load(recipe, scratch_path(&scratch, "none.ini"), &error) == ICL_ERROR_IO, "%s",
           error.message);
    tap_ok(tap, icl_recipe_count(recipe, "task", "d") == 3, "d is still 3");
    scratch_close(&scratch);
    icl_recipe_destroy(&recipe);
}

static void check_nearest(tap_run *tap) {
    static const char *const names[] = {"devices", "train", "eval"};

    tap_ok(tap, icl_edit_distance("", "") == 0 && icl_edit_distance("abc", "") == 3, "distance to nothing");
    tap_ok(tap, icl_edit_distance("kitten", "sitting") == 3, "kitten to sitting: 3");
    tap_ok(tap, icl_edit_distance("trian", "train") == 1, "swapped neighbours: 1");
    tap_ok(tap, icl_edit_distance("TRAIN", "train") == 0, "case does not count");
    tap_ok(tap, icl_edit_distance("ab", &"ba"[1]) == 1, "what stands before a name does not count");
    tap_ok(tap,
           strcmp(icl_nearest("trian", names, 3), "train") == 0 && strcmp(icl_nearest("val", names, 3), "eval") == 0,
           "nearest");
    tap_ok(tap, icl_nearest("x", names, 0) == NULL, "of none: none");
}

/* ---- Keys that a word, or a value that is not neutral, brings into use ---- */

static void check_use_of(tap_run *tap, const char *text, const char *refused) {
    icl_recipe *recipe = make(), *back = make();
    icl_error error = {0};
    char *written = NULL;
    const bool read = icl_recipe_parse(recipe, text, "r.ini", &error) == ICL_OK;
    icl_status status = icl_recipe_check(recipe, "model", &error);

    if (status == ICL_OK)
        status = icl_recipe_check(recipe, "train", &error);
    tap_ok(tap, read && (refused ? status == ICL_ERROR_INPUT && strcmp(error.message, refused) == 0 : status == ICL_OK),
           "%s", status == ICL_OK ? "all that is set is read" : error.message);
    tap_ok(tap,
           icl_recipe_write(recipe, &written, NULL) == ICL_OK &&
               icl_recipe_parse(back, written, "written", NULL) == ICL_OK && same_values(recipe, back),
           "  and what is written reads back to the same values");
    icl_text_free(&written);
    tap_ok(tap,
           icl_recipe_reset_unused(recipe, NULL) == ICL_OK && icl_recipe_check(recipe, "model", NULL) == ICL_OK &&
               icl_recipe_check(recipe, "train", NULL) == ICL_OK && (refused != NULL) != same_values(recipe, back),
           "  and resetting takes back %s", refused ? "what is not read" : "nothing");
    icl_recipe_destroy(&recipe);
    icl_recipe_destroy(&back);
}

static void check_use(tap_run *tap) {
    icl_recipe *recipe = make();
    char *text = NULL;

    check_use_of(tap, "[model]\nkind = diag\nrank = 3\ncurve = 1\n[train]\nnote = x\n", NULL);
    check_use_of(tap, "[model]\nkind = gd++\ncurve = 1\n", NULL);
    check_use_of(tap, "[model]\nrank = 2\ncurve = 0.50\n[train]\nnote =\n", NULL);
    check_use_of(tap, "[model]\nrank = 3\n",
                 "r.ini:2: model.rank = 3: model.kind = full does not read it: expected 2, its default, or "
                 "model.kind = diag");
    check_use_of(tap, "[model]\nkind = gd++\nrank = 3\n",
                 "r.ini:3: model.rank = 3: model.kind = gd++ does not read it: expected 2, its default, or "
                 "model.kind = diag");
    check_use_of(tap, "[train]\nnote = x\n",
                 "r.ini:2: train.note = x: model.kind = full does not read it: expected nothing, its default, "
                 "or model.kind = diag or gd++");
    check_use_of(tap, "[model]\nbend = -1\nturn = true\nangle = 4\n", NULL);
    check_use_of(tap, "[model]\narc = long\nangle = 4\n", NULL);
    check_use_of(tap, "[model]\nbend = 0.0\nturn = false\nangle = 3\narc = none\n", NULL);
    check_use_of(tap, "[model]\nbend = 0.0\nturn = true\n",
                 "r.ini:3: model.turn = true: model.bend = 0.0 does not read it: expected false, its default, or "
                 "another model.bend");
    check_use_of(tap, "[model]\nangle = 4\n",
                 "r.ini:2: model.angle = 4: model.arc = none does not read it: expected 3, its default, or "
                 "another model.arc");
    check_use_of(tap, "[model]\nbend = 1\nangle = 4\n",
                 "r.ini:3: model.angle = 4: model.turn = false does not read it: expected 3, its default, or "
                 "another model.turn");
    tap_ok(tap,
           icl_recipe_write(recipe, &text, NULL) == ICL_OK && !strstr(text, "rank") && !strstr(text, "note") &&
               strstr(text, "rotate"),
           "defaults that nothing reads are not written");
    tap_ok(tap, !icl_recipe_is_used(recipe, "model", "rank") && icl_recipe_is_used(recipe, "task", "d"),
           "and are known not to be read");
    tap_ok(tap,
           icl_recipe_override(recipe, "model.turn=true", NULL) == ICL_OK &&
               !icl_recipe_is_used(recipe, "model", "angle"),
           "what nothing reads brings nothing into use");
    icl_text_free(&text);
    icl_recipe_destroy(&recipe);
}

/* The program's own table has complete rows, in sections, with defaults that pass their own checks. */
static void check_table(tap_run *tap) {
    size_t count = 0, sections = 0, undocumented = 0;
    const icl_recipe_key *key;
    const char *section = "";
    icl_recipe *recipe = NULL;
    icl_error error = {0};
    char *text = NULL;

    tap_status(tap, icl_recipe_create_complete(&recipe, &error), &error, "every default passes");
    for (; (key = icl_recipe_known_key(count)); count++) {
        const bool is_documented = key->help && strlen(key->help) <= 110 && !strchr(key->help, '\n');
        if (!is_documented)
            tap_note("%s.%s: %s", key->section, key->name, key->help ? key->help : "no help");
        undocumented += !is_documented;
        sections += strcmp(key->section, section) != 0;
        section = key->section;
        tap_ok(tap, icl_recipe_value(recipe, key->section, key->name) != NULL, "%s.%s is in a whole recipe",
               key->section, key->name);
    }
    tap_ok(tap, icl_recipe_value(recipe, "model", "no_such_key") == NULL, "a key that is not there has no value");
    tap_ok(tap, count > 40 && undocumented == 0, "every one of %zu keys has one line of help", count);
    tap_ok(tap, sections == 4, "four sections, each in one piece");
    tap_ok(tap,
           icl_recipe_write(recipe, &text, NULL) == ICL_OK &&
               icl_recipe_parse(recipe, text, "defaults", &error) == ICL_OK,
           "the written defaults read back");
    icl_text_free(&text);
    icl_recipe_destroy(&recipe);
}

/* ---- Defaults that come with a word ---- */

/* The word small sets other defaults for rate and for kind (diag); large sets another rate. */
static const icl_recipe_default small_defaults[] = {{"train", "rate", "0.5"}, {"model", "kind", "diag"}, {0}};
static const icl_recipe_default large_defaults[] = {{"train", "rate", "0.25"}, {0}};
static const icl_recipe_group small_group = {NULL, 0, small_defaults}, large_group = {NULL, 0, large_defaults};
static const icl_recipe_group *const small_groups[] = {&small_group, NULL}, *const large_groups[] = {&large_group,
                                                                                                     NULL};
static const icl_choice sizes[] = {{"plain", 0}, {"small", 1, small_groups}, {"large", 2, large_groups}, {0}};
static const icl_recipe_key sized_keys[] = {
    {"train", "size", ICL_KEY_WORD, "plain", .choices = sizes},
    {"model", "kind", ICL_KEY_WORD, "full", .choices = kinds},
    {"model", "rank", ICL_KEY_COUNT, "2"},
    {"model", "curve", ICL_KEY_NUMBER, "0.5"},
    {"train", "note", ICL_KEY_TEXT, ""},
    {"train", "rate", ICL_KEY_NUMBER, "0.01", 1e-9, 10},
};

static bool begins_with(const icl_recipe *recipe, double rate, const char *kind) {
    return icl_recipe_number(recipe, "train", "rate") == rate &&
           strcmp(icl_recipe_value(recipe, "model", "kind"), kind) == 0;
}

/* Returns whether the recipe's text reads back over a recipe that has another word's defaults. */
static bool reads_back(const icl_recipe *recipe, icl_recipe *other) {
    char *text = NULL;
    const bool same = icl_recipe_override(other, "train.size=large", NULL) == ICL_OK &&
                      icl_recipe_write(recipe, &text, NULL) == ICL_OK &&
                      icl_recipe_parse(other, text, "written", NULL) == ICL_OK && same_values(recipe, other);
    icl_text_free(&text);
    return same;
}

static void check_defaults_of_words(tap_run *tap) {
    icl_recipe *recipe = NULL, *copy = NULL, *other = NULL;
    const size_t count = sizeof sized_keys / sizeof *sized_keys;

    if (icl_recipe_create(sized_keys, count, &recipe, NULL) != ICL_OK ||
        icl_recipe_create(sized_keys, count, &other, NULL) != ICL_OK)
        exit(1);
    tap_ok(tap, begins_with(recipe, 0.01, "full"), "without the word the defaults of the table");
    icl_recipe_override(recipe, "train.size=small", NULL);
    tap_ok(tap, begins_with(recipe, 0.5, "diag"), "a word brings defaults of its own");
    tap_ok(tap, icl_recipe_clone(recipe, &copy, NULL) == ICL_OK && begins_with(copy, 0.5, "diag"), "a copy has them");
    tap_ok(tap, reads_back(recipe, other), "and the text that is written");
    icl_recipe_override(recipe, "train.size=large", NULL);
    tap_ok(tap, begins_with(recipe, 0.25, "full"), "another word takes them back, and brings its own");
    icl_recipe_override(recipe, "train.size=plain", NULL);
    tap_ok(tap, begins_with(recipe, 0.01, "full"), "and one without takes all of them back");
    icl_recipe_override(recipe, "train.rate=0.01", NULL);
    icl_recipe_override(recipe, "train.size=small", NULL);
    tap_ok(tap, begins_with(recipe, 0.01, "diag"), "a value that was given stays, also where it is the default");
    icl_recipe_destroy(&recipe);
    icl_recipe_destroy(&copy);
    icl_recipe_destroy(&other);
}

/* ---- Settings structs and values from code ---- */

typedef enum cake { CAKE_NONE = 7, CAKE_PLUM = -1, CAKE_LEMON = 40 } cake;
static const icl_choice cakes[] = {{"none", CAKE_NONE}, {"plum", CAKE_PLUM}, {"lemon", CAKE_LEMON}, {0}};

/* Fields of keys, with others between them, which reading leaves alone. */
typedef struct baking {
    bool covered, iced;
    cake cake;
    const char *note, *kept;
    size_t layers, crumbs;
    uint64_t grains;
    double heat, rest, rise;
} baking;

#define KEY(field)  ICL_KEY("train", baking, field)
#define NAME(field) ICL_KEY_NAME("train", baking, field)

static const icl_recipe_key baking_keys[] = {
    {KEY(iced), "true"},
    {KEY(cake), "lemon", .choices = cakes},
    {KEY(note), "sweet"},
    {KEY(layers), "3", 1, 9},
    {KEY(grains), "18446744073709551615"},
    {KEY(heat), "180.5", 0, 250},
    {KEY(rise), "-1", .help = "any number"},
    {"train", "unbound", ICL_KEY_COUNT, "4"},
};
static const icl_recipe_group baking_group = {baking_keys, sizeof baking_keys / sizeof *baking_keys, NULL};

static icl_recipe *make_baking(void) {
    icl_recipe *recipe = NULL;
    if (icl_recipe_create(baking_keys, baking_group.count, &recipe, NULL) != ICL_OK)
        exit(1);
    return recipe;
}

static void check_settings(tap_run *tap) {
    icl_recipe *recipe = make_baking();
    baking settings = {.covered = true, .kept = "kept", .crumbs = 11, .rest = 0.25};
    const icl_key_type types[] = {ICL_KEY_FLAG,  ICL_KEY_WORD,   ICL_KEY_TEXT,   ICL_KEY_COUNT,
                                  ICL_KEY_COUNT, ICL_KEY_NUMBER, ICL_KEY_NUMBER, ICL_KEY_COUNT};
    bool typed = true;

    for (size_t i = 0; i < baking_group.count; i++)
        typed = typed && baking_keys[i].type == types[i] && strcmp(baking_keys[i].section, "train") == 0;
    tap_ok(tap, typed && strcmp(baking_keys[4].name, "grains") == 0, "a key has the name and the type of its field");

    icl_recipe_read(recipe, &baking_group, &settings);
    tap_ok(tap,
           settings.iced && settings.cake == CAKE_LEMON && strcmp(settings.note, "sweet") == 0 &&
               settings.layers == 3 && settings.grains == UINT64_MAX && settings.heat == 180.5 && settings.rise == -1,
           "reading fills the fields of all keys");
    tap_ok(tap,
           settings.covered && strcmp(settings.kept, "kept") == 0 && settings.crumbs == 11 && settings.rest == 0.25,
           "and no other field");
    icl_recipe_destroy(&recipe);
}

static void check_set(tap_run *tap, icl_status status, const icl_error *error, const char *message) {
    if (!tap_ok(tap, status == ICL_ERROR_INPUT && strcmp(error->message, message) == 0, "%s", message))
        tap_note("got: %s", error->message);
}

static void check_values_from_code(tap_run *tap) {
    icl_recipe *recipe = make_baking();
    icl_error error = {0};
    baking settings = {0};

    tap_ok(tap,
           icl_recipe_set_count(recipe, NAME(layers), 5, NULL) == ICL_OK &&
               icl_recipe_set_number(recipe, NAME(heat), 0.1, NULL) == ICL_OK &&
               icl_recipe_set_text(recipe, NAME(cake), "plum", NULL) == ICL_OK &&
               icl_recipe_set_text(recipe, NAME(iced), "false", NULL) == ICL_OK,
           "values are set");
    icl_recipe_read(recipe, &baking_group, &settings);
    tap_ok(tap, settings.layers == 5 && settings.heat == 0.1 && settings.cake == CAKE_PLUM && !settings.iced,
           "and read");
    tap_ok(tap,
           strcmp(icl_recipe_value(recipe, NAME(layers)), "5") == 0 &&
               strcmp(icl_recipe_value(recipe, NAME(heat)), "0.1") == 0 &&
               strcmp(icl_recipe_origin(recipe, NAME(heat)), "override") == 0,
           "they are written as overrides are");

    check_set(tap, icl_recipe_set_count(recipe, NAME(layers), 10, &error), &error,
              "override: train.layers = 10: expected a whole number from 1 to 9");
    check_set(tap, icl_recipe_set_number(recipe, NAME(heat), (double)INFINITY, &error), &error,
              "override: train.heat = inf: expected a number from 0 to 250");
    check_set(tap, icl_recipe_set_number(recipe, NAME(rise), (double)INFINITY, &error), &error,
              "override: train.rise = inf: expected a number");
    check_set(tap, icl_recipe_set_number(recipe, NAME(layers), 2, &error), &error,
              "override: train.layers = 2: expected a whole number from 1 to 9");
    check_set(tap, icl_recipe_set_text(recipe, NAME(cake), "stone", &error), &error,
              "override: train.cake = stone: expected one of none|plum|lemon");
    check_set(tap, icl_recipe_set_count(recipe, "train", "layer", 2, &error), &error,
              "override: unknown key train.layer; the nearest known one is train.layers");
    tap_ok(tap, icl_recipe_count(recipe, NAME(layers)) == 5 && icl_recipe_number(recipe, NAME(heat)) == 0.1,
           "what is refused changes nothing");
    icl_recipe_destroy(&recipe);
}

int main(void) {
    tap_run tap = {0};
    check_defaults(&tap);
    check_reading(&tap);
    check_line_ends(&tap);
    check_refusals(&tap);
    check_overrides(&tap);
    check_origins(&tap);
    check_writing(&tap);
    check_files(&tap);
    check_nearest(&tap);
    check_use(&tap);
    check_settings(&tap);
    check_values_from_code(&tap);
    check_defaults_of_words(&tap);
    check_table(&tap);
    return tap_done(&tap);
}
