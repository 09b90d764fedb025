/* Tests how many calls `iclab bench` makes in a turn, and how many turns there are. The clock goes on only by the time
 * that calls are said to take. */
#include "iclab/host.h"
#include "run/bench.h"
#include "tap.h"

static double now;

double __wrap_icl_clock_seconds(void);

double __wrap_icl_clock_seconds(void) {
    return now;
}

typedef struct work {
    double first, each; /* seconds of the first call, and of each later one */
    size_t calls;
} work;

static icl_status take(void *context, size_t calls, icl_error *error) {
    work *w = context;

    (void)error;
    for (size_t i = 0; i < calls; i++)
        now += w->calls++ == 0 ? w->first : w->each;
    return ICL_OK;
}

/* One contender has fifteen seconds, so that a turn has one second. */
static const struct {
    const char *what;
    double each;
    size_t calls_a_turn, turns;
} cases[] = {
    {"a call of two turns", 2, 1, 6},
    {"of a whole one", 1, 1, 13},
    {"of three eighths, three times", .375, 3, 11},
    {"of a part in 1024", 1. / 1024, 1024, 14},
    {"of too little, 4096 times", 1. / 65536, 4096, 15},
    {"of no time at all", 0, 4096, 15},
    {"of far more than there is, thrice", 100, 1, 3},
};

int main(void) {
    tap_run tap = {0};
    icl_error error = {0};
    icl_backend *backend = tap_open_device(&tap, "cpu:threads=1");

    for (size_t i = 0; backend && i < sizeof cases / sizeof *cases; i++) {
        work w = {.first = cases[i].each, .each = cases[i].each};
        icl_bench_contender contender = {.backend = backend, .function = take, .context = &w};
        const icl_bench_times *times = &contender.times;
        now = 1000;
        tap_status(&tap, icl_bench_take_turns(&contender, 1, 15, &error), &error, cases[i].what);
        tap_ok(&tap, times->calls_a_turn == cases[i].calls_a_turn && times->turns == cases[i].turns,
               "%zu turns of %zu calls, expected %zu of %zu", times->turns, times->calls_a_turn, cases[i].turns,
               cases[i].calls_a_turn);
        tap_ok(&tap,
               contender.first == w.first && times->min == w.each && times->median == w.each && times->max == w.each,
               "%g s for the first call, %g to %g for the others", contender.first, times->min, times->max);
    }
    icl_backend_close(&backend);
    return tap_done(&tap);
}
