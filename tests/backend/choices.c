/* The table of choices that only timings can decide, with each row tested from both sides, and the variable that
 * overrides it. */
#include "backend/opencl/device.h"

#include "tap.h"

static const struct {
    const char *device, *platform;
    icl_opencl_choice choice;
    size_t size;
    unsigned value;
} entries[] = {
    {"", "", ICL_CHOICE_LINEAR, 0, ICL_LINEAR_STEPS},
    {"", "", ICL_CHOICE_LINEAR, 7, ICL_LINEAR_STEPS},
    {"", "", ICL_CHOICE_LINEAR, 8, ICL_LINEAR_STRAIGHT},
    {"", "", ICL_CHOICE_LINEAR, SIZE_MAX, ICL_LINEAR_STRAIGHT},
    {"", "", ICL_CHOICE_RECURRENCE, 0, ICL_WALK_BY_TOKENS},
    {"", "", ICL_CHOICE_RECURRENCE, 16, ICL_WALK_BY_TOKENS},
    {"", "", ICL_CHOICE_RECURRENCE, 17, ICL_WALK_BY_CHUNKS},
    {"", "", ICL_CHOICE_GEMM, 0, ICL_GEMM_NATIVE},
    {"", "", ICL_CHOICE_GEMM, 127, ICL_GEMM_NATIVE},
    {"", "", ICL_CHOICE_GEMM, 128, ICL_GEMM_CLBLAST},
    {"", "", ICL_CHOICE_CLBLAST, 0, ICL_CLBLAST_DEFAULT},
    {"", "", ICL_CHOICE_TILES, 0, ICL_TILES_NARROW},
    {"", "", ICL_CHOICE_TILES, 127, ICL_TILES_NARROW},
    {"", "", ICL_CHOICE_TILES, 128, ICL_TILES_WIDE},
    {"", "", ICL_CHOICE_TEAMS, 0, 32},
    {"", "", ICL_CHOICE_COLLECT, 0, ICL_COLLECT_ON},
    {"llvmpip", "rusticl", ICL_CHOICE_COLLECT, 0, ICL_COLLECT_ON},
    {"llvmpipe (LLVM 15.0.6, 256 bits)", "rusticl", ICL_CHOICE_COLLECT, 0, ICL_COLLECT_OFF},
    {"", "Mesa llvmpipe", ICL_CHOICE_COLLECT, 0, ICL_COLLECT_OFF},
    {"llvmpipe", "rusticl", ICL_CHOICE_TEAMS, 0, 32},
};

static void test_table(tap_run *tap) {
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        const unsigned value =
            icl_choice_by_table(entries[i].choice, entries[i].size, entries[i].device, entries[i].platform);
        tap_ok(tap, value == entries[i].value, "device \"%s\" of \"%s\", choice %d, size %zu: %u, expected %u",
               entries[i].device, entries[i].platform, (int)entries[i].choice, entries[i].size, value,
               entries[i].value);
    }
}

/* linear, recurrence, gemm, clblast, tiles, teams, collect; 0: by the table. */
static const struct {
    const char *text;
    unsigned chosen[ICL_CHOICE_COUNT];
} requests[] = {
    {"linear=steps", {ICL_LINEAR_STEPS}},
    {"linear=straight", {ICL_LINEAR_STRAIGHT}},
    {"recurrence=tokens", {0, ICL_WALK_BY_TOKENS}},
    {"recurrence=chunks", {0, ICL_WALK_BY_CHUNKS}},
    {"gemm=native", {0, 0, ICL_GEMM_NATIVE}},
    {"gemm=clblast", {0, 0, ICL_GEMM_CLBLAST}},
    {"clblast=default", {0, 0, 0, ICL_CLBLAST_DEFAULT}},
    {"clblast=a100", {0, 0, 0, ICL_CLBLAST_A100}},
    {"tiles=narrow", {0, 0, 0, 0, ICL_TILES_NARROW}},
    {"tiles=wide", {0, 0, 0, 0, ICL_TILES_WIDE}},
    {"teams=1", {0, 0, 0, 0, 0, 1}},
    {"teams=256", {0, 0, 0, 0, 0, 256}},
    {"collect=on", {0, 0, 0, 0, 0, 0, ICL_COLLECT_ON}},
    {"collect=off", {0, 0, 0, 0, 0, 0, ICL_COLLECT_OFF}},
    {"linear=steps,recurrence=chunks,teams=16", {ICL_LINEAR_STEPS, ICL_WALK_BY_CHUNKS, 0, 0, 0, 16}},
    {"teams=16,linear=steps,teams=8", {ICL_LINEAR_STEPS, 0, 0, 0, 0, 8}},
};

/* A wrong text, and the words that the error must hold. */
static const char *const wrong[][2] = {
    {"speed=fast", "'speed=fast': expected linear, recurrence, gemm, clblast, tiles, teams or collect, and ="},
    {"linear=steps,", "'': expected linear"},
    {",linear=steps", "'': expected linear"},
    {" linear=steps", "' linear=steps': expected linear,"},
    {"lin=steps", "'lin=steps': expected linear,"},
    {"linear", "'linear': expected linear= and steps or straight"},
    {"linear=", "'linear=': expected linear= and steps or straight"},
    {"linear=step", "'linear=step': expected linear= and steps or straight"},
    {"linear=stepss", "'linear=stepss': expected linear= and steps or straight"},
    {"linear=1", "'linear=1': expected linear= and steps or straight"},
    {"recurrence=steps", "'recurrence=steps': expected recurrence= and tokens or chunks"},
    {"gemm=auto", "'gemm=auto': expected gemm= and native or clblast"},
    {"clblast=h100", "'clblast=h100': expected clblast= and default or a100"},
    {"teams=8,tiles=64", "'tiles=64': expected tiles= and narrow or wide"},
    {"collect=0,teams=8", "'collect=0': expected collect= and on or off"},
    {"teams=0", "'teams=0': expected teams= and a whole number from 1 to 256"},
    {"teams=257", "'teams=257': expected teams= and a whole number from 1 to 256"},
    {"teams=4294967297", "'teams=4294967297': expected teams= and a whole number from 1 to 256"},
    {"teams=", "'teams=': expected teams= and a whole number from 1 to 256"},
    {"teams=-1", "'teams=-1': expected teams= and a whole number from 1 to 256"},
    {"teams=8x", "'teams=8x': expected teams= and a whole number from 1 to 256"},
};

static void test_reading(tap_run *tap) {
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        unsigned chosen[ICL_CHOICE_COUNT] = {0};
        icl_error error = {0};
        tap_ok(tap,
               icl_choices_read(requests[i].text, chosen, &error) == ICL_OK &&
                   memcmp(chosen, requests[i].chosen, sizeof chosen) == 0,
               "%s is read%s", requests[i].text, error.message);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        unsigned chosen[ICL_CHOICE_COUNT] = {0};
        icl_error error = {0};
        tap_ok(tap,
               icl_choices_read(wrong[i][0], chosen, &error) == ICL_ERROR_INPUT &&
                   strstr(error.message, ICL_CHOICES_VARIABLE ": ") == error.message &&
                   strstr(error.message, wrong[i][1]) && !strchr(error.message, '\n'),
               "%s is refused: %s", wrong[i][0], error.message);
    }
}

int main(void) {
    tap_run tap = {0};

    test_table(&tap);
    test_reading(&tap);
    return tap_done(&tap);
}
