/* The table of choices that only times decide, and the variable that overrides it. */
#include "backend/opencl/choices.h"

#include <stdlib.h>
#include <string.h>

#include "iclab/backend.h"

static const struct {
    const char *text; /* in the name of the device or of the platform; "": of all */
    icl_opencl_choice choice;
    size_t least; /* size from which the row holds */
    unsigned value;
} rows[] = {
    /* A straight-line program takes seconds to compile: who trains gets it, and who launches a few times does not. */
    {"", ICL_CHOICE_LINEAR, 8, ICL_LINEAR_STRAIGHT},
    {"", ICL_CHOICE_LINEAR, 0, ICL_LINEAR_STEPS},
    /* A single chunk saves no barrier, and its products are extra work. */
    {"", ICL_CHOICE_RECURRENCE, 17, ICL_WALK_BY_CHUNKS},
    {"", ICL_CHOICE_RECURRENCE, 0, ICL_WALK_BY_TOKENS},
    /* CLBlast's strength is large square products. */
    {"", ICL_CHOICE_GEMM, 128, ICL_GEMM_CLBLAST},
    {"", ICL_CHOICE_GEMM, 0, ICL_GEMM_NATIVE},
    {"", ICL_CHOICE_CLBLAST, 0, ICL_CLBLAST_DEFAULT},
    /* Wide tiles pay once there are as many as a large GPU has units. */
    {"", ICL_CHOICE_TILES, 128, ICL_TILES_WIDE},
    {"", ICL_CHOICE_TILES, 0, ICL_TILES_NARROW},
    /* So many keep the queue of each unit full. */
    {"", ICL_CHOICE_TEAMS, 0, 32},
    /* Mesa's llvmpipe: its compiler crashes on a kernel that chooses among buffers. */
    {"llvmpipe", ICL_CHOICE_COLLECT, 0, ICL_COLLECT_OFF},
    {"", ICL_CHOICE_COLLECT, 0, ICL_COLLECT_ON},
};

unsigned icl_choice_by_table(icl_opencl_choice choice, size_t size, const char *device, const char *platform) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].choice == choice && size >= rows[i].least &&
            (strstr(device, rows[i].text) || strstr(platform, rows[i].text)))
            return rows[i].value;
    return ICL_BY_TABLE; /* not reached: the last row of every choice fits all devices and sizes */
}

/* ---- The variable ---- */

#define MOST_TEAMS 256

/* The names of a choice's values, from 1 on; none: numbers up to MOST_TEAMS. */
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
};

static bool is_text(const char *bytes, size_t length, const char *text) {
    return strlen(text) == length && memcmp(bytes, text, length) == 0;
}

/* The value of that name; 0: there is none. */
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

icl_status icl_choices_read(const char *text, unsigned *chosen, icl_error *error) {
    for (;;) {
        const size_t length = strcspn(text, ","), name = strcspn(text, "=,");
        const size_t before = name < length ? name + 1 : length; /* the value */
        size_t choice = 0;

        while (choice < ICL_CHOICE_COUNT && !is_text(text, name, words[choice].name))
            choice++;
        if (choice == ICL_CHOICE_COUNT)
            return icl_fail(error, ICL_ERROR_INPUT,
                            ICL_CHOICES_VARIABLE ": '%.*s': expected linear, recurrence, gemm, clblast, tiles, teams "
                                                 "or collect, and = and a value",
                            (int)length, text);
        chosen[choice] = value_of((icl_opencl_choice)choice, text + before, length - before);
        if (chosen[choice] == 0)
            return icl_fail(error, ICL_ERROR_INPUT, ICL_CHOICES_VARIABLE ": '%.*s': expected %s= and %s", (int)length,
                            text, words[choice].name, words[choice].expected);
        if (!text[length])
            return ICL_OK;
        text += length + 1;
    }
}
