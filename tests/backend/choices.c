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
    {"NVIDIA H200", "NVIDIA CUDA OpenCL 3.0 CUDA 13.0.98", ICL_CHOICE_RECURRENCE, 17, ICL_WALK_BY_TOKENS},
    {"Tesla T4", "NVIDIA CUDA", ICL_CHOICE_RECURRENCE, SIZE_MAX, ICL_WALK_BY_TOKENS},
    {"gfx942", "AMD Accelerated Parallel Processing", ICL_CHOICE_RECURRENCE, 17, ICL_WALK_BY_CHUNKS},
    {"NVIDIA H200", "NVIDIA CUDA", ICL_CHOICE_LINEAR, 8, ICL_LINEAR_STRAIGHT},
    {"", "", ICL_CHOICE_GEMM, 0, ICL_GEMM_NATIVE},
    {"", "", ICL_CHOICE_GEMM, 127, ICL_GEMM_NATIVE},
    {"", "", ICL_CHOICE_GEMM, 128, ICL_GEMM_CLBLAST},
    {"NVIDIA H200", "NVIDIA CUDA OpenCL 3.0 CUDA 13.0.98", ICL_CHOICE_GEMM, 1024, ICL_GEMM_NATIVE},
    {"", "", ICL_CHOICE_CLBLAST, 0, ICL_CLBLAST_DEFAULT},
    {"", "", ICL_CHOICE_TILES, 0, ICL_TILES_NARROW},
    {"", "", ICL_CHOICE_TILES, 127, ICL_TILES_NARROW},
    {"", "", ICL_CHOICE_TILES, 128, ICL_TILES_WIDE},
    {"", "", ICL_CHOICE_TEAMS, 0, 32},
    {"", "", ICL_CHOICE_COLLECT, 0, ICL_COLLECT_ON},
    {"", "", ICL_CHOICE_ATTENTION, 0, ICL_ATTENTION_FUSED},
    {"", "", ICL_CHOICE_ATTENTION_GRADIENT, SIZE_MAX, ICL_ATTENTION_FUSED},
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

/* linear, recurrence, gemm, clblast, tiles, teams, collect, attention, attention_gradient; 0: by the table. */
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
    {"attention=fused", {[ICL_CHOICE_ATTENTION] = ICL_ATTENTION_FUSED}},
    {"attention_gradient=products", {[ICL_CHOICE_ATTENTION_GRADIENT] = ICL_ATTENTION_PRODUCTS}},
    {"linear=steps,recurrence=chunks,teams=16", {ICL_LINEAR_STEPS, ICL_WALK_BY_CHUNKS, 0, 0, 0, 16}},
    {"teams=16,linear=steps,teams=8", {ICL_LINEAR_STEPS, 0, 0, 0, 0, 8}},
};

/* A wrong text, and the words that the error must hold. */
static const char *const wrong[][2] = {
    {"speed=fast", "'speed=fast': expected linear, recurrence, gemm, clblast, tiles, teams, collect, attention or "
                   "attention_gradient, and ="},
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
    {"gemm:16x16x16x1", "'gemm:16x16x16x1': expected gemm= and native or clblast"},
    {"gemm:16x16x16x1=fast", "'gemm:16x16x16x1=fast': expected gemm= and native or clblast"},
    {"gemm:16x16x16x2=native", "'gemm:16x16x16x2=native': expected gemm, attention or attention_gradient before the"},
    {"gemm:16x16x16=native", "as in gemm:1024x1024x64x1=native"},
    {"gemm:16x16x16x1x1=native", "as in gemm:1024x1024x64x1=native"},
    {"gemm:99999999999999999999x16x16x1=native", "as in gemm:1024x1024x64x1=native"},
    {"gemm:=native", "as in gemm:1024x1024x64x1=native"},
    {"tiles:16x16x16x1=wide", "'tiles:16x16x16x1=wide': expected gemm, attention or attention_gradient before the"},
    {"teams=8x", "'teams=8x': expected teams= and a whole number from 1 to 256"},
};

static void test_reading(tap_run *tap) {
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        icl_choices choices = {{0}};
        icl_error error = {0};
        tap_ok(tap,
               icl_choices_read(requests[i].text, &choices, &error) == ICL_OK &&
                   memcmp(choices.all, requests[i].chosen, sizeof choices.all) == 0,
               "%s is read%s", requests[i].text, error.message);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        icl_choices choices = {{0}};
        icl_error error = {0};
        tap_ok(tap,
               icl_choices_read(wrong[i][0], &choices, &error) == ICL_ERROR_INPUT &&
                   strstr(error.message, ICL_CHOICES_VARIABLE ": ") == error.message &&
                   strstr(error.message, wrong[i][1]) && !strchr(error.message, '\n'),
               "%s is refused: %s", wrong[i][0], error.message);
    }
}

/* ---- Classes of sizes ---- */

/* Each bound of a class from both sides. */
static const struct {
    icl_sizes sizes, class;
} classes[] = {
    {{{1, 1, 1, 1}}, {{16, 16, 16, 1}}},
    {{{31, 32, 127, 3}}, {{16, 64, 64, 1}}},
    {{{128, 511, 512, 4}}, {{256, 256, 1024, 16}}},
    {{{5000, 16, 64, 63}}, {{1024, 16, 64, 16}}},
    {{{0, 0, 0, 64}}, {{16, 16, 16, 256}}},
    {{{SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX}}, {{1024, 1024, 1024, 256}}},
};

static void test_classes(tap_run *tap) {
    size_t wrong_numbers = 0;

    for (size_t i = 0; i < ICL_SHAPE_CLASSES; i++) {
        const icl_sizes sizes = icl_size_class(i);
        wrong_numbers += icl_size_class_of(&sizes) != i;
    }
    tap_ok(tap, wrong_numbers == 0, "the sizes of each of %d classes belong to it", ICL_SHAPE_CLASSES);
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        const size_t *of = classes[i].sizes.of;
        const icl_sizes class = icl_size_class(icl_size_class_of(&classes[i].sizes));
        tap_ok(tap, memcmp(&class, &classes[i].class, sizeof class) == 0,
               "%zu x %zu x %zu x %zu belongs to %zux%zux%zux%zu", of[0], of[1], of[2], of[3], class.of[0], class.of[1],
               class.of[2], class.of[3]);
    }
}

/* A text, and what is written of the choices that it means. */
static const char *const written[][2] = {
    {"linear=steps,teams=16", "linear=steps,teams=16"},
    {"gemm:1024x64x16x1=clblast,gemm=native", "gemm=native"},
    {"gemm=native,gemm:1024x64x16x1=clblast", "gemm=native,gemm:1024x64x16x1=clblast"},
    {"attention_gradient:16x16x16x256=fused,attention:16x64x256x16=products,clblast=a100",
     "clblast=a100,attention:16x64x256x16=products,attention_gradient:16x16x16x256=fused"},
};

static void test_writing(tap_run *tap) {
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        icl_choices choices = {{0}}, again = {{0}};
        icl_text text = {0};
        icl_error error = {0};
        const bool is_written = icl_choices_read(written[i][0], &choices, &error) == ICL_OK &&
                                icl_choices_write(&choices, &text, &error) == ICL_OK;
        tap_ok(
            tap,
            is_written && strcmp(text.bytes, written[i][1]) == 0 &&
                icl_choices_read(text.bytes, &again, &error) == ICL_OK && memcmp(&again, &choices, sizeof again) == 0,
            "%s is written as %s and read again%s", written[i][0], is_written ? text.bytes : "nothing", error.message);
        icl_text_release(&text);
    }
}

int main(void) {
    tap_run tap = {0};

    test_table(&tap);
    test_reading(&tap);
    test_classes(&tap);
    test_writing(&tap);
    return tap_done(&tap);
}
