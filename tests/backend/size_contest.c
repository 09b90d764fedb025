/*
 * The contest of an op's ways by classes of sizes: who wins given planted times, which words come of it, and that the
 * device has them afterwards. The clock is the test's own: an op moves it by the time of the way that is chosen.
 */
#include "device/device.h"

#include <math.h>

#include "iclab/host.h"
#include "iclab/status.h"
#include "tap.h"

double __wrap_icl_clock_seconds(void);

/* A class, and the planted seconds of each way and of the second with the variant. */
typedef struct planted {
    icl_sizes sizes;
    double seconds[3];
} planted;

/* The fourth to the sixth have too much work to be timed. The seventh takes long, so that the eighth, of more work, is
 * not timed, while the last one is. What is not timed goes with a class before of the same extents, if there is one. */
static const planted classes[] = {
    {{{16, 16, 16, 1}}, {.010, .0089, .005}},  {{{1024, 16, 1024, 1}}, {.010, .0091, .0091}},
    {{{16, 16, 16, 256}}, {.010, .001, .001}}, {{{2048, 2048, 2048, 1}}, {0}},
    {{{1024, 16, 1024, 4096}}, {0}},           {{{16, 16, 16, 1 << 20}}, {0}},
    {{{64, 64, 64, 16}}, {.3, .21, .1}},       {{{64, 64, 64, 64}}, {0}},
    {{{16, 16, 16, 16}}, {.010, .020, .020}},
};
enum { CLASSES = sizeof classes / sizeof *classes };

static struct {
    double now, scale_of_variant;
    bool is_second, has_variant;
    char words[512];  /* last taken */
    int rows, silent; /* rows that were told, and calls without a row */
    icl_contest_row told[CLASSES];
} state;

double __wrap_icl_clock_seconds(void) {
    return state.now;
}

static icl_sizes class_of(size_t number) {
    return classes[number].sizes;
}

static size_t contests_with(const icl_contested **list, const char *variant) {
    static icl_contested one;
    one = (icl_contested){ICL_OP_matmul, "gemm", {"own", "other"}, true, variant, CLASSES, class_of};
    *list = &one;
    return 1;
}

static size_t plain_contest(const icl_backend *backend, const icl_contested **list) {
    (void)backend;
    return contests_with(list, NULL);
}

static size_t contest_with_variant(const icl_backend *backend, const icl_contested **list) {
    (void)backend;
    return contests_with(list, "with=variant");
}

static icl_status take(icl_backend *backend, const char *words, icl_error *error) {
    (void)backend;
    (void)error;
    snprintf(state.words, sizeof state.words, "%s", words);
    state.is_second = strstr(words, "gemm=other") != NULL;
    state.has_variant = strstr(words, "with=variant") != NULL;
    return ICL_OK;
}

static icl_status multiply(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    const icl_tensor *out = &operands[0], *a = &operands[1];
    const size_t count = out->rank == 3 ? out->shape[0] : 1;

    (void)backend;
    (void)params;
    for (size_t i = 0; i < CLASSES; i++) {
        const size_t *of = classes[i].sizes.of;
        if (of[0] != out->shape[out->rank - 2] || of[1] != out->shape[out->rank - 1] ||
            of[2] != a->shape[a->rank - 1] || of[3] != count)
            continue;
        const double seconds = classes[i].seconds[!state.is_second ? 0 : state.has_variant ? 2 : 1];
        state.now += state.has_variant ? seconds * state.scale_of_variant : seconds;
        return ICL_OK;
    }
    return icl_fail(error, ICL_ERROR_INPUT, "not a product of the contest");
}

static void hear(void *user, const icl_contest_row *row) {
    (void)user;
    if (row && state.rows < CLASSES)
        state.told[state.rows++] = *row;
    else
        state.silent++;
}

/* Runs the contest and compares the words that come of it. */
static void check(tap_run *tap, bool has_variant, double scale, const char *expected) {
    icl_backend *backend = NULL;
    icl_text words = {0};
    icl_error error = {0};

    if (!tap_status(tap, icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &backend, &error), &error,
                    "cpu"))
        return;
    icl_backend_functions functions = *backend->functions;
    const icl_backend_functions *own = backend->functions;

    memset(&state, 0, sizeof state);
    state.scale_of_variant = scale;
    const icl_choice_functions choices = {.contests = has_variant ? contest_with_variant : plain_contest, .take = take};
    functions.choices = &choices;
    functions.ops[ICL_OP_matmul] = multiply;
    backend->functions = &functions;
    tap_status(tap, icl_contest_run_sizes(backend, hear, NULL, &words, &error), &error, "a contest");
    tap_ok(tap, words.bytes && strcmp(words.bytes, expected) == 0 && strcmp(state.words, expected) == 0,
           "chosen and taken: %s, expected %s", words.bytes ? words.bytes : "nothing", expected);
    backend->functions = own;
    icl_text_release(&words);
    icl_backend_close(&backend);
}

int main(void) {
    tap_run tap = {0};

#define WORDS                                                                                                          \
    "gemm=own,gemm:16x16x16x1=other,gemm:16x16x16x256=other,gemm:16x16x16x1048576=other,gemm:64x64x64x16=other,"       \
    "gemm:64x64x64x64=other"
    /* .89 of the time wins, .91 does not. */
    check(&tap, false, 1, WORDS);
    tap_ok(&tap, state.rows == 5 && state.silent == 5, "%d rows of classes that were timed, %d calls meanwhile",
           state.rows, state.silent);
    const icl_contest_row *first = &state.told[0], *second = &state.told[1];
    tap_ok(&tap,
           strcmp(first->choice, "gemm") == 0 && strcmp(first->ways[0], "own") == 0 &&
               strcmp(first->ways[1], "other") == 0 && fabs(first->seconds[0] - .010) < 1e-9 &&
               fabs(first->seconds[1] - .0089) < 1e-9 && first->is_second && first->variant_name[0] == '\0',
           "the first row: %s takes %g, %s %g", first->ways[0], first->seconds[0], first->ways[1], first->seconds[1]);
    tap_ok(&tap, second->sizes.of[0] == 1024 && !second->is_second, "the second row keeps %s", second->ways[0]);
    /* The faster ways take .239 s together; with the variant .125 s, or .221 s where it takes 1.9 times as long. */
    check(&tap, true, 1, "with=variant," WORDS);
    tap_ok(&tap,
           state.silent == 10 && fabs(state.told[0].variant - .005) < 1e-9 &&
               strcmp(state.told[0].variant_name, "with=variant") == 0,
           "the row has the variant's %g", state.told[0].variant);
    check(&tap, true, 1.9, WORDS);
    return tap_done(&tap);
}
