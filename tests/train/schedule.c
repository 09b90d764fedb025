/* Learning rates and stages of growth: pure functions of the step. */
#include <math.h>

#include "tap.h"
#include "train/settings.h"

static bool near(double a, double b) {
    return fabs(a - b) <= 1e-15 * (1.0 + fabs(b));
}

static void test_schedules(tap_run *tap) {
    icl_schedule s = {.kind = ICL_SCHEDULE_CONSTANT, .learning_rate = 0.5, .warmup = 4, .total = 12};
    double last;

    tap_ok(tap,
           near(icl_schedule_rate(&s, 0), 0.125) && near(icl_schedule_rate(&s, 2), 0.375) &&
               near(icl_schedule_rate(&s, 3), 0.5) && near(icl_schedule_rate(&s, 4), 0.5) &&
               near(icl_schedule_rate(&s, 99), 0.5),
           "constant: rises in a straight line, then stays");
    s.kind = ICL_SCHEDULE_COSINE;
    tap_ok(tap,
           near(icl_schedule_rate(&s, 3), 0.5) && near(icl_schedule_rate(&s, 4), 0.5) &&
               near(icl_schedule_rate(&s, 8), 0.25) && near(icl_schedule_rate(&s, 12), 0.0),
           "cosine: half in the middle, 0 at the end");
    last = 1.0;
    for (uint64_t step = 4; step <= 12; step++) {
        if (icl_schedule_rate(&s, step) > last)
            tap_ok(tap, false, "cosine: rises at step %d", (int)step);
        last = icl_schedule_rate(&s, step);
    }
    s.warmup = 20;
    tap_ok(tap, near(icl_schedule_rate(&s, 11), 0.5 * 12 / 20), "a warm-up longer than the run just rises");
    s = (icl_schedule){.kind = ICL_SCHEDULE_STEP, .learning_rate = 1.0, .total = 100, .every = 10, .factor = 0.5};
    tap_ok(tap,
           near(icl_schedule_rate(&s, 9), 1.0) && near(icl_schedule_rate(&s, 10), 0.5) &&
               near(icl_schedule_rate(&s, 35), 0.125),
           "step: halved after every ten steps");
    s.every = 0;
    tap_ok(tap, near(icl_schedule_rate(&s, 99), 1.0), "step: 0 means never");
    s = (icl_schedule){.kind = ICL_SCHEDULE_STABLE, .learning_rate = 0.5, .warmup = 4, .total = 20, .decay_share = 0.4};
    tap_ok(tap,
           near(icl_schedule_rate(&s, 0), 0.125) && near(icl_schedule_rate(&s, 4), 0.5) &&
               near(icl_schedule_rate(&s, 12), 0.5) && near(icl_schedule_rate(&s, 14), 0.25) &&
               near(icl_schedule_rate(&s, 20), 0.0) && near(icl_schedule_rate(&s, 99), 0.0),
           "warmup-stable-decay: stays, and falls by the root: to a half after a quarter of the fall");
    s.total = 0;
    tap_ok(tap, near(icl_schedule_rate(&s, 99), 0.5), "no steps: nothing to fall over");
    s = (icl_schedule){.kind = ICL_SCHEDULE_LINEAR, .learning_rate = 1.0, .total = 10, .factor = 0.1};
    tap_ok(tap,
           near(icl_schedule_rate(&s, 0), 1.0) && near(icl_schedule_rate(&s, 5), 0.55) &&
               near(icl_schedule_rate(&s, 10), 0.1),
           "linear: to a tenth");
}

static void test_growth(tap_run *tap) {
    const icl_growth none = {.layers = 4};
    const icl_growth two = {.steps_per_layer = 10, .layers = 2};
    const icl_growth five = {.steps_per_layer = 10, .layers = 5};
    const icl_schedule recipe = {.kind = ICL_SCHEDULE_COSINE, .learning_rate = 1.0, .warmup = 8, .total = 100};
    icl_growth_stage stage = icl_growth_stage_at(&none, &recipe, 7);

    tap_ok(tap, stage.depth == 4 && stage.first_step == 0 && stage.schedule.total == 100, "no growth: one stage");
    stage = icl_growth_stage_at(&two, &recipe, 7);
    tap_ok(tap, stage.depth == 2 && stage.schedule.total == 100 && stage.first_step == 0, "two layers do not grow");
    tap_ok(tap, icl_growth_stage_at(&five, &recipe, 99).first_step == 30, "five layers need three stages more");
    stage = icl_growth_stage_at(&five, &recipe, 9);
    tap_ok(tap, stage.depth == 2 && stage.first_step == 0 && stage.schedule.total == 10, "starts with two layers");
    tap_ok(tap,
           stage.schedule.kind == ICL_SCHEDULE_LINEAR && stage.schedule.warmup == 5 &&
               near(icl_schedule_rate(&stage.schedule, 10), 0.1),
           "a stage warms up for half of it and falls to a tenth");
    for (uint64_t warmup = 4; warmup <= 6; warmup++) {
        const icl_schedule other = {.warmup = warmup, .total = 100};
        const uint64_t expected = warmup < 5 ? warmup : 5;
        stage = icl_growth_stage_at(&five, &other, 9);
        tap_ok(tap, stage.schedule.warmup == expected, "%d steps of warmup: %d", (int)warmup,
               (int)stage.schedule.warmup);
    }
    stage = icl_growth_stage_at(&five, &recipe, 10);
    tap_ok(tap, stage.depth == 3 && stage.first_step == 10, "a third layer after ten steps");
    stage = icl_growth_stage_at(&five, &recipe, 30);
    tap_ok(tap, stage.depth == 5 && stage.first_step == 30 && stage.schedule.total == 70,
           "the last stage has the rest");
    tap_ok(tap,
           stage.schedule.kind == ICL_SCHEDULE_COSINE && stage.schedule.warmup == 8 &&
               near(icl_schedule_rate(&stage.schedule, 70), 0.0),
           "the last stage follows the recipe to its end");
}

int main(void) {
    tap_run tap = {0};
    test_schedules(&tap);
    test_growth(&tap);
    return tap_done(&tap);
}
