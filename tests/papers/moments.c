/* What a loss with a plateau and a drop shows, on curves that are drawn by hand. */
#include "papers/induction/induction.h"

#include <math.h>

#include "tap.h"

/* Losses 1.6, 1.2, then .75 .70 .72 .65 (within .1), .5, .3, .05 at steps 0, 50, …; half of log 2 is .347. */
static const icl_moments learned = {{{0, 1.6, .3, 0},
                                     {50, 1.2, .25, .01},
                                     {100, .75, .2, .02},
                                     {150, .70, .29, .03},
                                     {200, .72, .31, .04},
                                     {250, .65, .5, .05},
                                     {300, .5, .6, .11},
                                     {350, .3, .7, .6},
                                     {400, .05, .8, .9}},
                                    9};

static void test_learned(tap_run *tap) {
    double length = 0;
    const double level = icl_moments_plateau(&learned, &length);

    tap_ok(tap, fabs(level - .7) < 1e-12 && length == 150, "the plateau is at %g for %g steps", level, length);
    tap_ok(tap, icl_moments_below(&learned, .5) == 350 && icl_moments_below(&learned, .050001) == 400,
           "the first step below: %g", icl_moments_below(&learned, .5));
    tap_ok(tap, isnan(icl_moments_below(&learned, .05)), "and none");
    /* Layer 1 falls to .2 first: .31 is the first above .3. Layer 2 begins at 0: .11 is. */
    tap_ok(tap, icl_moments_onset(&learned, false) == 200 && icl_moments_onset(&learned, true) == 300,
           "patterns set in at %g and %g", icl_moments_onset(&learned, false), icl_moments_onset(&learned, true));
}

/* The start is no plateau, however long, and neither is what the drop leaves. */
static void test_nothing(tap_run *tap) {
    const icl_moments still = {{{0, 1.6, 0, 0}, {50, 1.59, .05, .1}, {100, 1.58, .1, .1}}, 3};
    const icl_moments dropped = {{{0, 1.6, 0, 0}, {50, .2, .05, .1}, {100, .2, .1, .1}}, 3};
    double length = 1;

    tap_ok(tap, isnan(icl_moments_plateau(&still, &length)) && length == 0, "a loss that stays has no plateau");
    length = 1;
    tap_ok(tap, isnan(icl_moments_plateau(&dropped, &length)) && length == 0, "one that only drops has none");
    tap_ok(tap, isnan(icl_moments_onset(&still, false)) && isnan(icl_moments_onset(&still, true)),
           "a rise of a tenth is no onset yet");
}

int main(void) {
    tap_run tap = {0};

    test_learned(&tap);
    test_nothing(&tap);
    return tap_done(&tap);
}
