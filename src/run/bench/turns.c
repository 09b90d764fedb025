/* The clock of `iclab bench`. */
#include "iclab/host.h"
#include "iclab/status.h"
#include "numeric/statistics.h"
#include "run/bench/bench.h"

enum { MIN_TURNS = 3, MAX_TURNS = 15, MAX_CALLS = 4096 };

static icl_status take_turn(const icl_bench_contender *contender, size_t calls, double *seconds, icl_error *error) {
    const double start = icl_clock_seconds();

    ICL_CHECK(contender->function(contender->context, calls, error));
    ICL_CHECK(icl_backend_sync(contender->backend, error));
    *seconds = (icl_clock_seconds() - start) / (double)calls;
    return ICL_OK;
}

/* The first call compiles; those after it tell how many make a turn. */
static icl_status warm_up(icl_bench_contender *contender, double turn, icl_error *error) {
    double seconds;
    size_t calls = 1;

    ICL_CHECK(take_turn(contender, 1, &contender->first, error));
    ICL_CHECK(take_turn(contender, 1, &seconds, error));
    while (turn > 0 && calls < MAX_CALLS && seconds * (double)calls < turn) {
        const double wanted = seconds > 0 ? turn / seconds : MAX_CALLS;
        const size_t most = calls * 8 < MAX_CALLS ? calls * 8 : MAX_CALLS;
        calls = wanted < (double)calls + 1 ? calls + 1 : wanted < (double)most ? (size_t)wanted : most;
        ICL_CHECK(take_turn(contender, calls, &seconds, error));
    }
    contender->times.calls_a_turn = calls;
    return ICL_OK;
}

static void summarize(icl_bench_times *times, double *seconds, size_t turns) {
    times->turns = turns;
    times->median = icl_median(seconds, turns); /* which sorts them */
    times->min = seconds[0];
    times->max = seconds[turns - 1];
}

icl_status icl_bench_take_turns(icl_bench_contender *contenders, size_t count, double seconds, icl_error *error) {
    enum { MOST = 2 };
    double times[MOST][MAX_TURNS];
    const double end = icl_clock_seconds() + seconds;
    size_t turns = 0;

    if (count > MOST)
        return icl_fail(error, ICL_ERROR_INPUT, "bench: %zu contenders, expected at most %d", count, MOST);
    for (size_t i = 0; i < count; i++)
        if (contenders[i].backend)
            ICL_CHECK(warm_up(&contenders[i], seconds / (double)(MAX_TURNS * count), error));
    while (turns < MIN_TURNS || (turns < MAX_TURNS && icl_clock_seconds() < end)) {
        for (size_t i = 0; i < count; i++)
            if (contenders[i].backend)
                ICL_CHECK(take_turn(&contenders[i], contenders[i].times.calls_a_turn, &times[i][turns], error));
        turns++;
    }
    for (size_t i = 0; i < count; i++)
        if (contenders[i].backend)
            summarize(&contenders[i].times, times[i], turns);
    return ICL_OK;
}
