/* Tests the papers on induction heads: measures of a loss with a plateau and a drop, on curves that are drawn by hand;
 * and fits of outer products against the entries of the outer products themselves. */
#include <math.h>

#include "papers/induction/induction.h"
#include "tap.h"

/* ---- Moments ---- */

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
    /* Layer 1 falls to .2 first, so .31 is its first value that is a tenth higher; layer 2 begins at 0, so .11 is. */
    tap_ok(tap, icl_moments_onset(&learned, false) == 200 && icl_moments_onset(&learned, true) == 300,
           "patterns set in at %g and %g", icl_moments_onset(&learned, false), icl_moments_onset(&learned, true));
}

/* Neither the start, however long, nor the level after the drop is a plateau. */
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

/* ---- Outer products ---- */

enum { A, B, C, D };

static const size_t factors[] = {B, A, D};

static icl_products make(uint32_t seed) {
    icl_products products = {4, {2, 3, 4, 5}, {{0}}, {{0}}};
    icl_products_draw(&products, seed);
    return products;
}

/* Returns half of the mean squared difference over all entries, by three loops; the fitted entries are multiplied by
 * `scale`. */
static double entry_by_entry(const icl_products *products, const size_t f[3], double scale) {
    const double entries = (double)(products->length[f[0]] * products->length[f[1]] * products->length[f[2]]);
    double sum = 0;

    for (size_t i = 0; i < products->length[f[0]]; i++)
        for (size_t j = 0; j < products->length[f[1]]; j++)
            for (size_t k = 0; k < products->length[f[2]]; k++) {
                const double fitted = products->fitted[f[0]][i] * products->fitted[f[1]][j] * products->fitted[f[2]][k];
                const double truth = products->truth[f[0]][i] * products->truth[f[1]][j] * products->truth[f[2]][k];
                sum += (scale * fitted - truth) * (scale * fitted - truth);
            }
    return sum / entries / 2;
}

static void test_losses(tap_run *tap) {
    const icl_products one = make(1), two = make(2);

    for (size_t i = 0; i < 2; i++) {
        const icl_products *products = i == 0 ? &one : &two;
        const double expected = entry_by_entry(products, factors, 1), start = entry_by_entry(products, factors, 0);
        tap_ok(tap, fabs(icl_product_loss(products, factors) / expected - 1) < 1e-12, "loss %g as entry by entry",
               expected);
        tap_ok(tap, fabs(icl_product_start(products, factors) / start - 1) < 1e-12, "loss of the prediction 0, %g",
               start);
    }
    tap_ok(tap, fabs(icl_product_loss(&one, factors) - icl_product_loss(&two, factors)) > 1e-3,
           "another seed, another loss");
}

static void test_gradient(tap_run *tap) {
    const double weight = .7, little = 1e-5;
    icl_products at = make(3);
    icl_product_vectors gradient = {{0}};
    double farthest = 0, largest = 0;

    icl_product_add_gradient(&at, factors, weight, gradient);
    for (size_t v = 0; v < at.count; v++)
        for (size_t i = 0; i < at.length[v]; i++) {
            const double here = at.fitted[v][i];
            at.fitted[v][i] = here + little;
            const double above = entry_by_entry(&at, factors, 1);
            at.fitted[v][i] = here - little;
            const double below = entry_by_entry(&at, factors, 1);
            at.fitted[v][i] = here;
            farthest = fmax(farthest, fabs(gradient[v][i] - weight * (above - below) / (2 * little)));
            largest = fmax(largest, fabs(gradient[v][i]));
        }
    tap_ok(tap, largest > .01 && farthest < 1e-8, "gradient as by differences: %.2g of %.2g", farthest, largest);
    tap_ok(tap, gradient[C][0] == 0, "a vector that is no factor does not move");
}

int main(void) {
    tap_run tap = {0};

    test_learned(&tap);
    test_nothing(&tap);
    test_losses(&tap);
    test_gradient(&tap);
    return tap_done(&tap);
}
