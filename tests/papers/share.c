/* Work that is done once: who does it, who is given what it gave, and who leaves it; and results that are kept. */
#include "papers/share.h"

#include <string.h>

#include "papers/kept.h"
#include "tap.h"

#include "../core/scratch.h"

static const icl_reproduction reproduction = {.name = "example"};

/* ---- Work ---- */

/* What a piece of work sees. */
typedef struct piece {
    bool finished;
    size_t done;
    icl_status fails;
} piece;

static icl_status find(void *context, bool *finished, icl_error *error) {
    const piece *of = context;

    (void)error;
    *finished = of->finished;
    return ICL_OK;
}

static icl_status work(void *context, icl_error *error) {
    piece *of = context;

    of->done++;
    return of->fails == ICL_OK ? ICL_OK : icl_fail(error, of->fails, "no result");
}

typedef enum worker { ALONE = 0, WORKING, COUNTING } worker;

static const struct {
    const char *what;
    worker who;
    bool finished, is_needed;
    icl_status fails;
    size_t done, unfinished; /* expected */
    icl_status status;       /* likewise; ICL_ERROR_INTERRUPTED: left */
} cases[] = {
    {"who is alone does it", ALONE, false, false, ICL_OK, 1, 0, ICL_OK},
    {"and takes what is finished", ALONE, true, false, ICL_OK, 1, 0, ICL_OK},
    {"and is told of its failure", ALONE, false, true, ICL_ERROR_DIVERGED, 1, 0, ICL_ERROR_DIVERGED},
    {"a worker does it, and leaves it", WORKING, false, false, ICL_OK, 1, 0, ICL_ERROR_INTERRUPTED},
    {"and leaves what is finished", WORKING, true, false, ICL_OK, 0, 0, ICL_ERROR_INTERRUPTED},
    {"and goes on behind what is needed", WORKING, false, true, ICL_OK, 1, 0, ICL_OK},
    {"and takes what is needed", WORKING, true, true, ICL_OK, 1, 0, ICL_OK},
    {"and leaves what diverged", WORKING, false, true, ICL_ERROR_DIVERGED, 1, 0, ICL_ERROR_INTERRUPTED},
    {"but fails with another failure", WORKING, false, true, ICL_ERROR_IO, 1, 0, ICL_ERROR_IO},
    {"who counts does nothing", COUNTING, false, false, ICL_OK, 0, 1, ICL_ERROR_INTERRUPTED},
    {"and goes on behind what is needed", COUNTING, false, true, ICL_OK, 0, 1, ICL_OK},
    {"and counts nothing finished", COUNTING, true, true, ICL_OK, 0, 0, ICL_OK},
};

static void test_work(tap_run *tap, const icl_reproduce_params *params) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        icl_training_share share = {.counts = cases[i].who == COUNTING};
        icl_reproducing run = {
            .params = params, .reproduction = &reproduction, .share = cases[i].who == ALONE ? NULL : &share};
        piece of = {.finished = cases[i].finished, .fails = cases[i].fails};
        icl_error error = {0};
        const icl_status status =
            icl_reproduce_share(&run, &(icl_shared_work){"piece", cases[i].is_needed, &of, find, work}, &error);

        tap_ok(tap,
               status == cases[i].status && of.done == cases[i].done && share.unfinished == cases[i].unfinished &&
                   share.left == (cases[i].who != ALONE && status == ICL_ERROR_INTERRUPTED),
               "%s: done %zu times, %zu unfinished", cases[i].what, of.done, share.unfinished);
    }
}

/* ---- What is kept ---- */

typedef struct result {
    float values[3];
    double numbers[2];
    size_t computed;
} result;

static icl_status compute(icl_reproducing *run, void *context, icl_error *error) {
    result *to = context;

    (void)run;
    (void)error;
    to->values[0] += .1f; /* of what it was before */
    to->values[2] = -0x1p-149f;
    to->numbers[0] = 1 / 3.0;
    to->numbers[1] = -1e300;
    to->computed++;
    return ICL_OK;
}

static icl_status fail_to_compute(icl_reproducing *run, void *context, icl_error *error) {
    (void)run;
    (void)context;
    return icl_fail(error, ICL_ERROR_INTERRUPTED, "stopped");
}

static icl_kept kept_of(result *to, const char *made_of) {
    return (icl_kept){.name = "maps",
                      .made_of = made_of,
                      .values = to->values,
                      .count = 3,
                      .numbers = to->numbers,
                      .number_count = 2,
                      .compute = compute,
                      .context = to};
}

static void test_kept(tap_run *tap, const icl_reproduce_params *params) {
    icl_training_share counts = {.counts = true}, works = {.counts = false};
    icl_reproducing run = {.params = params, .reproduction = &reproduction}, other = run, counting = run;
    result first = {.values = {1, 2, 3}}, second = {.values = {7, 8, 9}}, third = {{0}};
    icl_kept kept = kept_of(&first, "20 steps");
    icl_error error = {0};

    other.share = &works;
    counting.share = &counts;
    kept.compute = fail_to_compute;
    tap_ok(tap, icl_reproduce_keep(&run, &kept, &error) == ICL_ERROR_INTERRUPTED, "one that is stopped keeps nothing");
    kept = kept_of(&third, "20 steps");
    tap_ok(tap, icl_reproduce_keep(&counting, &kept, &error) == ICL_OK && third.computed == 0 && counts.unfinished == 1,
           "a count computes nothing");
    kept = kept_of(&first, "20 steps");
    tap_ok(tap, icl_reproduce_keep(&other, &kept, &error) == ICL_OK && first.computed == 1 && first.values[0] == 1.1f,
           "a worker computes it, of what the values were");
    kept = kept_of(&second, "20 steps");
    tap_ok(tap,
           icl_reproduce_keep(&run, &kept, &error) == ICL_OK && second.computed == 0 &&
               memcmp(second.values, first.values, sizeof first.values) == 0 &&
               memcmp(second.numbers, first.numbers, sizeof first.numbers) == 0,
           "whoever comes later has the same bits");
    kept = kept_of(&third, "30 steps");
    tap_ok(tap,
           icl_reproduce_keep(&run, &kept, &error) == ICL_ERROR_INPUT && strstr(error.message, "made of 20 steps") &&
               third.computed == 0,
           "what was made of something else is refused: %s", error.message);
    kept = kept_of(&third, "20 steps");
    kept.count = 2;
    tap_ok(tap, icl_reproduce_keep(&run, &kept, &error) == ICL_ERROR_INPUT, "and so are other sizes");
}

int main(void) {
    static const char *const left[] = {"claims/piece", "claims/maps", "claims", "kept/maps.safetensors", "kept"};
    tap_run tap = {0};
    scratch_folder scratch;
    char folder[300];

    scratch_open(&scratch);
    snprintf(folder, sizeof folder, "%s", scratch.folder);
    const icl_reproduce_params params = {.folder = folder, .seed = 1};
    test_work(&tap, &params);
    test_kept(&tap, &params);
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        (void)remove(scratch_path(&scratch, left[i]));
    scratch_close(&scratch);
    return tap_done(&tap);
}
