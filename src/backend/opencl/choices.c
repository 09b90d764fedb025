/*
 * Choices that only times decide: the table, the variable and the contest that override it, and the ways of ops.
 *
 * What decides first is a way that a measurement forces, then a choice for the class of sizes, then one for all sizes,
 * then the table.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/device.h"
#include "iclab/backend.h"

/* ---- The table ---- */

static const struct {
    const char *text; /* part of the name of the device or platform; "": any */
    icl_opencl_choice choice;
    size_t least; /* the row applies from this size on */
    unsigned value;
} rows[] = {
    /* A straight-line program takes seconds to compile, which pays for training and not for a few launches. */
    {"", ICL_CHOICE_LINEAR, 8, ICL_LINEAR_STRAIGHT},
    {"", ICL_CHOICE_LINEAR, 0, ICL_LINEAR_STEPS},
    /* A single chunk saves no barrier, and its products are extra work. */
    {"", ICL_CHOICE_RECURRENCE, 17, ICL_WALK_BY_CHUNKS},
    {"", ICL_CHOICE_RECURRENCE, 0, ICL_WALK_BY_TOKENS},
    /* CLBlast's strength is large square products. */
    {"", ICL_CHOICE_GEMM, 128, ICL_GEMM_CLBLAST},
    {"", ICL_CHOICE_GEMM, 0, ICL_GEMM_NATIVE},
    {"", ICL_CHOICE_CLBLAST, 0, ICL_CLBLAST_DEFAULT},
    /* Wide tiles pay off once there are as many of them as a large GPU has units. */
    {"", ICL_CHOICE_TILES, 128, ICL_TILES_WIDE},
    {"", ICL_CHOICE_TILES, 0, ICL_TILES_NARROW},
    /* This many keep the queue of each unit full. */
    {"", ICL_CHOICE_TEAMS, 0, 32},
    /* The compiler of Mesa's llvmpipe crashes on a kernel that chooses among buffers. */
    {"llvmpipe", ICL_CHOICE_COLLECT, 0, ICL_COLLECT_OFF},
    {"", ICL_CHOICE_COLLECT, 0, ICL_COLLECT_ON},
    {"", ICL_CHOICE_ATTENTION, 0, ICL_ATTENTION_FUSED},
    {"", ICL_CHOICE_ATTENTION_GRADIENT, 0, ICL_ATTENTION_FUSED},
};

unsigned icl_choice_by_table(icl_opencl_choice choice, size_t size, const char *device, const char *platform) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].choice == choice && size >= rows[i].least &&
            (strstr(device, rows[i].text) || strstr(platform, rows[i].text)))
            return rows[i].value;
    return ICL_BY_TABLE; /* not reached: the last row of every choice fits all devices and sizes */
}

/* ---- Values ---- */

#define MOST_TEAMS 256

/* The names of a choice's values, from 1 on; without names the values are the numbers up to MOST_TEAMS. */
static const struct {
    const char *name, *values[2], *expected;
} words[ICL_CHOICE_COUNT] = {
    [ICL_CHOICE_LINEAR] = {"linear", {"steps", "straight"}, "steps or straight"},
    [ICL_CHOICE_RECURRENCE] = {"recurrence", {"tokens", "chunks"}, "tokens or chunks"},
    [ICL_CHOICE_GEMM] = {"gemm",
                         {[ICL_GEMM_CLBLAST - 1] = "clblast", [ICL_GEMM_NATIVE - 1] = "native"},
                         "native or clblast"},
    [ICL_CHOICE_CLBLAST] = {"clblast", {"default", "a100"}, "default or a100"},
    [ICL_CHOICE_TILES] = {"tiles", {"narrow", "wide"}, "narrow or wide"},
    [ICL_CHOICE_TEAMS] = {"teams", {NULL}, "a whole number from 1 to 256"},
    [ICL_CHOICE_COLLECT] = {"collect", {"on", "off"}, "on or off"},
    [ICL_CHOICE_ATTENTION] = {"attention", {"fused", "products"}, "fused or products"},
    [ICL_CHOICE_ATTENTION_GRADIENT] = {"attention_gradient", {"fused", "products"}, "fused or products"},
};

static bool is_text(const char *bytes, size_t length, const char *text) {
    return strlen(text) == length && memcmp(bytes, text, length) == 0;
}

/* Returns the value of that name, or 0 if there is none. */
static unsigned value_of(icl_opencl_choice choice, const char *bytes, size_t length) {
    unsigned number = 0;

    if (words[choice].values[0]) {
        for (unsigned i = 0; i < 2; i++)
            if (is_text(bytes, length, words[choice].values[i]))
                return i + 1;
        return 0;
    }
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] < '0' || bytes[i] > '9' || number > MOST_TEAMS)
            return 0;
        number = 10 * number + (unsigned)(bytes[i] - '0');
    }
    return number <= MOST_TEAMS ? number : 0;
}

/* ---- Classes of sizes ---- */

static const size_t extents[] = {16, 64, 256, 1024}, counts[] = {1, 16, 256};

enum { EXTENTS = sizeof extents / sizeof *extents, COUNTS = sizeof counts / sizeof *counts };

static size_t log_of(size_t size) {
    size_t power = 0;

    while (size >> power > 1)
        power++;
    return power;
}

static size_t at_most(size_t value, size_t most) {
    return value < most ? value : most;
}

size_t icl_size_class_of(const icl_sizes *sizes) {
    size_t number = at_most((log_of(sizes->of[3]) + 2) / 4, COUNTS - 1);

    for (int i = 2; i >= 0; i--) {
        const size_t power = log_of(sizes->of[i]);
        number = number * EXTENTS + at_most(power > 3 ? (power - 3) / 2 : 0, EXTENTS - 1);
    }
    return number;
}

icl_sizes icl_size_class(size_t number) {
    icl_sizes sizes;

    for (int i = 0; i < 3; i++) {
        sizes.of[i] = extents[number % EXTENTS];
        number /= EXTENTS;
    }
    sizes.of[3] = counts[number];
    return sizes;
}

static_assert(ICL_SHAPE_CLASSES == EXTENTS * EXTENTS * EXTENTS * COUNTS, "every class has a number");

/* Reads the extents of a class, "1024x64x256x16". Returns false if there is no such class. */
static bool read_class(const char *bytes, size_t length, size_t *number) {
    icl_sizes sizes = {{0}};
    int axis = 0;

    for (size_t i = 0; i < length; i++) {
        if (bytes[i] == 'x' && axis < 3)
            axis++;
        else if (bytes[i] >= '0' && bytes[i] <= '9' && sizes.of[axis] < 10000)
            sizes.of[axis] = 10 * sizes.of[axis] + (size_t)(bytes[i] - '0');
        else
            return false;
    }
    *number = icl_size_class_of(&sizes);
    const icl_sizes named = icl_size_class(*number);
    return memcmp(&named, &sizes, sizeof named) == 0;
}

static bool has_classes(icl_opencl_choice choice) {
    return choice == ICL_CHOICE_GEMM || choice == ICL_CHOICE_ATTENTION || choice == ICL_CHOICE_ATTENTION_GRADIENT;
}

/* ---- Reading and writing ---- */

/* A word CHOICE=VALUE or CHOICE:CLASS=VALUE. Lengths exclude the signs. */
typedef struct word {
    const char *name, *class, *value; /* class: NULL for all sizes */
    size_t length, name_length, class_length, value_length;
} word;

static word word_at(const char *text) {
    word w = {.name = text, .length = strcspn(text, ","), .name_length = strcspn(text, ":=,")};
    const size_t before_value = strcspn(text, "=,");

    if (text[w.name_length] == ':') {
        w.class = text + w.name_length + 1;
        w.class_length = before_value - w.name_length - 1;
    }
    w.value = text + (before_value < w.length ? before_value + 1 : w.length);
    w.value_length = (size_t)(text + w.length - w.value);
    return w;
}

static icl_status take_word(const word *w, icl_choices *choices, icl_error *error) {
    size_t choice = 0, number = 0;

    while (choice < ICL_CHOICE_COUNT && !is_text(w->name, w->name_length, words[choice].name))
        choice++;
    if (choice == ICL_CHOICE_COUNT)
        return icl_fail(error, ICL_ERROR_INPUT,
                        ICL_CHOICES_VARIABLE ": '%.*s': expected linear, recurrence, gemm, clblast, tiles, teams, "
                                             "collect, attention or attention_gradient, and = and a value",
                        (int)w->length, w->name);
    if (w->class && (!has_classes(choice) || !read_class(w->class, w->class_length, &number)))
        return icl_fail(error, ICL_ERROR_INPUT,
                        ICL_CHOICES_VARIABLE ": '%.*s': expected gemm, attention or attention_gradient before the "
                                             "colon, and three of 16, 64, 256 and 1024 and one of 1, 16 and 256 after "
                                             "it, as in gemm:1024x1024x64x1=native",
                        (int)w->length, w->name);
    const unsigned value = value_of(choice, w->value, w->value_length);
    if (value == 0)
        return icl_fail(error, ICL_ERROR_INPUT, ICL_CHOICES_VARIABLE ": '%.*s': expected %s= and %s", (int)w->length,
                        w->name, words[choice].name, words[choice].expected);
    if (w->class) {
        choices->of_class[choice][number] = (unsigned char)value;
    } else {
        choices->all[choice] = value;
        memset(choices->of_class[choice], 0, sizeof choices->of_class[choice]);
    }
    return ICL_OK;
}

icl_status icl_choices_read(const char *text, icl_choices *choices, icl_error *error) {
    for (;; text++) {
        const word w = word_at(text);
        ICL_CHECK(take_word(&w, choices, error));
        text += w.length;
        if (*text == '\0')
            return ICL_OK;
    }
}

static icl_status write_value(size_t choice, unsigned value, icl_text *text, icl_error *error) {
    return words[choice].values[0] ? icl_text_print(text, error, "=%s", words[choice].values[value - 1])
                                   : icl_text_print(text, error, "=%u", value);
}

icl_status icl_choices_write(const icl_choices *choices, icl_text *text, icl_error *error) {
    for (size_t choice = 0; choice < ICL_CHOICE_COUNT; choice++) {
        if (choices->all[choice] != ICL_BY_TABLE) {
            ICL_CHECK(icl_text_print(text, error, "%s%s", text->length > 0 ? "," : "", words[choice].name));
            ICL_CHECK(write_value(choice, choices->all[choice], text, error));
        }
        for (size_t i = 0; i < ICL_SHAPE_CLASSES; i++) {
            const icl_sizes sizes = icl_size_class(i);
            if (choices->of_class[choice][i] == ICL_BY_TABLE)
                continue;
            ICL_CHECK(icl_text_print(text, error, "%s%s:%zux%zux%zux%zu", text->length > 0 ? "," : "",
                                     words[choice].name, sizes.of[0], sizes.of[1], sizes.of[2], sizes.of[3]));
            ICL_CHECK(write_value(choice, choices->of_class[choice][i], text, error));
        }
    }
    return ICL_OK;
}

/* ---- What decides on a device ---- */

unsigned icl_opencl_asked(const icl_opencl *opencl, icl_opencl_choice choice, const icl_sizes *sizes) {
    const unsigned of_class = sizes ? opencl->chosen.of_class[choice][icl_size_class_of(sizes)] : ICL_BY_TABLE;
    const unsigned forced = opencl->forced[choice];

    return forced != ICL_BY_TABLE ? forced : of_class != ICL_BY_TABLE ? of_class : opencl->chosen.all[choice];
}

unsigned icl_opencl_choose(const icl_opencl *opencl, icl_opencl_choice choice, size_t size) {
    const icl_capabilities *device = &opencl->backend->capabilities;
    const unsigned asked = icl_opencl_asked(opencl, choice, NULL);
    return asked != ICL_BY_TABLE ? asked : icl_choice_by_table(choice, size, device->name, device->platform);
}
