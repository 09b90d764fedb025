#include "train/schedule.h"

#include <math.h>

/* How far the steps after the warm-up have come, 0 to 1. */
static double progress(const icl_schedule *schedule, uint64_t step) {
    if (step < schedule->warmup || schedule->total <= schedule->warmup)
        return 0.0;
    if (step >= schedule->total)
        return 1.0;
    return (double)(step - schedule->warmup) / (double)(schedule->total - schedule->warmup);
}

double icl_schedule_rate(const icl_schedule *schedule, uint64_t step) {
    static const double pi = 3.14159265358979323846;
    const double t = progress(schedule, step);
    double rate = schedule->learning_rate;

    switch (schedule->kind) {
    case ICL_SCHEDULE_CONSTANT:
        break;
    case ICL_SCHEDULE_STEP:
        if (schedule->every > 0) {
            const uint64_t changes = step / schedule->every;
            rate *= pow(schedule->factor, (double)changes);
        }
        break;
    case ICL_SCHEDULE_COSINE:
        rate *= 0.5 * (1.0 + cos(pi * t));
        break;
    case ICL_SCHEDULE_LINEAR:
        rate *= 1.0 + (schedule->factor - 1.0) * t;
        break;
    }
    return step < schedule->warmup ? rate * (double)(step + 1) / (double)schedule->warmup : rate;
}
