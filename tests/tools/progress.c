/* Tests the line of progress: the time left in words, on both sides of each change of units; and when the line is
 * written. */
#include "terminal.h"

#include <math.h>

#include "captured.h"
#include "iclab/host.h"
#include "tap.h"

static const icl_session_progress halfway = {
    .step = 50, .total_steps = 100, .loss = 0.5, .steps_per_second = 8, .evaluation = (double)NAN, .adjusted = true};

/* Returns what one report writes on a terminal whose last line is `ago` seconds old; negative: it has none. */
static const char *report(const icl_session_progress *progress, double ago) {
    static char text[1024];
    progress_printer printer = {.shown = true, .last_printed = ago < 0 ? 0 : icl_clock_seconds() - ago};
    captured to = capture_begin(stderr);

    progress_report(&printer, progress);
    capture_end(&to, text, sizeof text);
    return text;
}

static void test_time_left(tap_run *tap) {
    static const struct {
        double seconds;
        const char *words;
    } cases[] = {{0, "  0 s left"},
                 {59.9, "  59 s left"},
                 {60, "  1 min 0 s left"},
                 {125, "  2 min 5 s left"},
                 {3599, "  59 min 59 s left"},
                 {3600, "  1 h 0 min left"},
                 {3659, "  1 h 0 min left"},
                 {3660, "  1 h 1 min left"},
                 {7500, "  2 h 5 min left"},
                 {86399, "  23 h 59 min left"}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        icl_session_progress progress = halfway;
        progress.seconds_left = cases[i].seconds;
        const char *text = report(&progress, -1);
        tap_ok(tap, strstr(text, cases[i].words) != NULL, "%g seconds: %s", cases[i].seconds, cases[i].words);
    }
}

/* If half of the work took two hours and five minutes, the line says that as much is left. */
static void test_share(tap_run *tap) {
    progress_printer printer = {.shown = true, .started = icl_clock_seconds() - 7500.5};
    char text[1024];
    captured to = capture_begin(stderr);

    progress_share(&printer, "predicting", 0.5);
    capture_end(&to, text, sizeof text);
    tap_ok(tap, strstr(text, "50 %  predicting  2 h 5 min left") != NULL,
           "half of it took 2 h 5 min, and so does the "
           "rest");
    to = capture_begin(stderr);
    printer.last_printed = 0;
    progress_share(&printer, "predicting", 0);
    capture_end(&to, text, sizeof text);
    tap_ok(tap, text[0] == '\0', "of nothing done nothing is said");
}

/* A start of train.starts says which of them it is; the training itself does not. */
static void test_starts(tap_run *tap) {
    icl_session_progress progress = halfway;

    progress.start = 2;
    progress.starts = 4;
    tap_ok(tap, strstr(report(&progress, -1), " 50 %  start 2 of 4  step 50/100  8 steps/s") != NULL,
           "a start is named");
    tap_ok(tap, !strstr(report(&halfway, -1), "start"), "a training has none");
}

/* The line is written at most ten times a second, but an evaluation and the last step are shown at once. */
static void test_when(tap_run *tap) {
    icl_session_progress last = halfway, evaluated = halfway;

    last.step = last.total_steps;
    evaluated.evaluated = true;
    evaluated.evaluation = 0.25;
    tap_ok(tap, strstr(report(&halfway, -1), "step 50/100  8 steps/s") != NULL, "the first line is written");
    tap_ok(tap, report(&halfway, 0)[0] == '\0', "another at once is not");
    tap_ok(tap, report(&halfway, 0.2)[0] != '\0', "one a fifth of a second later is");
    tap_ok(tap, strstr(report(&evaluated, 0), "half_adjusted 0.25") != NULL, "one with an evaluation is");
    tap_ok(tap, strstr(report(&last, 0), "100 %  step 100/100") != NULL, "the last is, without any evaluation");
    tap_ok(tap, !strstr(report(&halfway, -1), "half adj."), "without an evaluation there is no number of one");
}

int main(void) {
    tap_run tap = {0};

    test_time_left(&tap);
    test_share(&tap);
    test_starts(&tap);
    test_when(&tap);
    return tap_done(&tap);
}
