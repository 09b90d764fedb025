/* Tests one layer of linear attention: its gradient flow against differences of the loss, and losses against numbers by
 * hand. */
#include <math.h>

#include "iclab/random.h"
#include "papers/onestep/layer.h"
#include "recipes.h"

enum { D = ICL_LAYER_D };

static const double identity[D] = {1, 1, 1, 1, 1}, spectrum[D] = {2, 1.5, 1, .8, .7};

static bool is_near(double a, double b, double relative) {
    return fabs(a - b) <= relative * fabs(b);
}

/* ---- Losses ---- */

static void test_losses(tap_run *tap) {
    double shifted, other;

    /* With Lambda = I, G = 1 + 6 / n, and the loss is 5 (G_m / G_n^2 - 2 / G_n + 1). */
    tap_ok(tap, is_near(icl_prompt_length_loss(identity, 2, 2), 3.75, 1e-12), "identity, n = m = 2: 5 (1 - 1/4)");
    tap_ok(tap, is_near(icl_prompt_length_loss(identity, 2, 1), 4.6875, 1e-12), "n = 2, m = 1: 5 (7/16 - 1/2 + 1)");
    tap_ok(tap, is_near(icl_prompt_length_loss(identity, 2, (double)INFINITY), 2.8125, 1e-12),
           "m infinite: 5 (1 - 1/4)^2");
    shifted = icl_covariate_shift_loss(spectrum, 20, 7, 1, 1);
    other = icl_prompt_length_loss(spectrum, 20, 7);
    tap_ok(tap, is_near(shifted, other, 1e-12), "without a shift the two forms agree: %g, %g", shifted, other);
    /* With n infinite, predictions are c^2 times the targets, whose mean square is 5 c^2 q^2. */
    tap_ok(tap, is_near(icl_covariate_shift_loss(identity, (double)INFINITY, (double)INFINITY, 2, 1), 180, 1e-12),
           "c = 2: 20 (4 - 1)^2");
    tap_ok(tap, is_near(icl_covariate_shift_loss(identity, (double)INFINITY, (double)INFINITY, .5, 3), 6.328125, 1e-12),
           "c = 1/2, the query thrice: 11.25 (3/4)^2");
    tap_ok(tap, is_near(icl_exponential_loss((double)INFINITY), 5. / 3, 1e-12), "random covariances leave a third");
    tap_ok(tap, is_near(icl_exponential_loss(20), 15. / 7, 1e-12), "with n = 20: 5 (1 - 4/7)");
}

/* ---- Moments of random covariances, by sampling them ---- */

static void sample_spectrum(uint64_t draw, double *l) {
    for (size_t i = 0; i < D; i++)
        l[i] = -log(((double)icl_random_word((icl_random_key){7, 1, draw}, i) + .5) * 0x1p-32);
}

static void test_exponential(tap_run *tap) {
    enum { DRAWS = 100000 };
    icl_flow_moments exact, one;
    double sums[3] = {0}, squares[3] = {0};

    icl_flow_exponential(4, &exact);
    const double expected[3] = {exact.p[1], exact.m[1][1], exact.m[1][2]};
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        double l[D];
        sample_spectrum(draw, l);
        icl_flow_fixed(l, 4, &one);
        const double drawn[3] = {one.p[1], one.m[1][1], one.m[1][2]};
        for (int i = 0; i < 3; i++) {
            sums[i] += drawn[i];
            squares[i] += drawn[i] * drawn[i];
        }
    }
    for (int i = 0; i < 3; i++) {
        const double mean = sums[i] / DRAWS, error = sqrt((squares[i] / DRAWS - mean * mean) / DRAWS);
        tap_ok(tap, fabs(mean - expected[i]) < 4 * error && error < .05 * mean, "moment %d: %g, sampled %g +- %g", i,
               expected[i], mean, error);
    }
}

/* ---- The flow ---- */

static double loss_at(const icl_flow_moments *moments, const icl_flow *at) {
    double loss = 0;
    for (size_t i = 0; i < D; i++)
        for (size_t j = 0; j < D; j++) {
            const double w = at->w[i * D + j];
            loss += moments->m[i][j] * at->u * at->u * w * w / 2 - (i == j ? at->u * moments->p[i] * w : 0);
        }
    return loss;
}

static icl_flow start_anywhere(void) {
    icl_flow at = {.u = .4};
    for (size_t i = 0; i < (size_t)D * D; i++)
        at.w[i] = .1 * sin(3. * (double)i + 1) + (i % (D + 1) == 0 ? .2 : 0);
    return at;
}

static double *coordinate(icl_flow *at, size_t i) {
    return i == 0 ? &at->u : &at->w[i - 1];
}

static void test_velocity(tap_run *tap) {
    const double dt = 1e-6, little = 1e-5;
    icl_flow_moments moments;
    icl_flow here = start_anywhere(), moved = here;
    double worst = 0;

    icl_flow_fixed(spectrum, 10, &moments);
    icl_flow_advance(&moments, dt, &moved);
    for (size_t i = 0; i <= (size_t)D * D; i++) {
        icl_flow above = here, below = here;
        *coordinate(&above, i) += little;
        *coordinate(&below, i) -= little;
        const double slope = (loss_at(&moments, &above) - loss_at(&moments, &below)) / (2 * little);
        worst = fmax(worst, fabs((*coordinate(&moved, i) - *coordinate(&here, i)) / dt + slope));
    }
    tap_ok(tap, worst < 1e-4, "velocity is minus the loss's gradient, to %.1e", worst);
}

static void test_limit(tap_run *tap) {
    icl_flow_moments moments;
    icl_flow at = start_anywhere(), half, limit;
    double worst = 0, square = 0;

    icl_flow_fixed(spectrum, 10, &moments);
    const double balance = icl_flow_balance(&at);
    half = at;
    icl_flow_advance(&moments, .02, &at);
    icl_flow_advance(&moments, .01, &half);
    icl_flow_advance(&moments, .01, &half);
    tap_ok(tap, fabs(at.u - half.u) < 2e-8, "a step and two of half its length differ by %.1e", fabs(at.u - half.u));
    for (int i = 0; i < 10000; i++)
        icl_flow_advance(&moments, .01, &at);
    tap_ok(tap, fabs(icl_flow_balance(&at) - balance) < 1e-7, "the balance %g stays", balance);
    icl_flow_limit(&moments, &limit);
    for (size_t i = 0; i < (size_t)D * D; i++) {
        const double g = 1.1 * spectrum[i / D] + .6; /* tr = 6, n = 10 */
        const double exact = i % (D + 1) == 0 ? 1 / g : 0;
        worst = fmax(worst, fmax(fabs(at.u * at.w[i] - exact), fabs(limit.u * limit.w[i] - exact)));
        square += exact * exact;
    }
    tap_ok(tap, worst < 1e-8, "u W ends at the inverse of G, to %.1e", worst);
    tap_ok(tap, is_near(limit.u, sqrt(sqrt(square)), 1e-12), "u = tr(G^-2)^(1/4)");
    tap_ok(tap, fabs(icl_flow_balance(&limit)) < 1e-12, "the limit is balanced");
}

/* ---- Matrices ---- */

static void test_layer(tap_run *tap) {
    double root[D * D] = {0}, inner[D * D], back[D * D], worst = 0;
    icl_one_layer layer, other;

    for (size_t i = 0; i < D; i++) /* axes in another order, one of them reversed */
        root[i * D + (i + 2) % D] = (i == 1 ? -1 : 1) * sqrt(spectrum[(i + 2) % D]);
    for (size_t i = 0; i < (size_t)D * D; i++)
        inner[i] = cos((double)i);
    icl_one_layer_of_basis(1.5, inner, root, &layer);
    icl_one_layer_in_basis(&layer, root, back);
    for (size_t i = 0; i < (size_t)D * D; i++)
        worst = fmax(worst, fabs(back[i] - inner[i]));
    tap_ok(tap, worst < 1e-12, "into a basis and back");
    tap_ok(tap, is_near(layer.q[0][1], -inner[2 * D + 3], 1e-12), "an entry by hand");
    other = layer;
    other.q[D][0] = .25;
    tap_ok(tap, is_near(icl_layer_distance(other.q, layer.q), .25, .01), "a block that should be 0 counts");
    tap_ok(tap,
           is_near(icl_one_layer_unscale(&layer), 1.5, 1e-12) && is_near(layer.q[0][1], -1.5 * inner[2 * D + 3], 1e-12),
           "the scale goes from P to Q");
}

/* ---- Measured losses ---- */

/* The layer predicts 0 on the first sequence, and on the first two, with losses a and b: the mean of a and b has the
 * standard error |a - b| / 2. */
static void test_measured(tap_run *tap) {
    icl_changed_loss losses[2] = {{0}};
    icl_backend *backend = tap_open_device(tap, "cpu:threads=1");
    const icl_reproduce_params params = {.backend = backend, .seed = 3};
    icl_reproducing run = {.params = &params};
    const icl_one_layer layer = {.p = {{0}}};
    icl_recipe *recipe = NULL;

    tap_need(make_recipe("", "task.d=5 task.n=6 task.noise=fixed:0 model.layers=1 model.parameterization=full", &recipe,
                         tap_error()));
    for (size_t i = 0; i < 2; i++)
        tap_need(icl_one_layer_measure(&run, recipe, &layer, &(icl_prompt_change){0}, i + 1, &losses[i], tap_error()));
    const double a = losses[0].mse, b = 2 * losses[1].mse - a;
    tap_ok(tap, losses[0].se == 0 && a != b && is_near(losses[1].se, fabs(a - b) / 2, 1e-9),
           "losses %g and %g: their mean's standard error is %g", a, b, losses[1].se);
    icl_recipe_destroy(&recipe);
    icl_backend_close(&backend);
}

int main(void) {
    tap_run tap = {0};

    test_losses(&tap);
    test_exponential(&tap);
    test_velocity(&tap);
    test_limit(&tap);
    test_layer(&tap);
    test_measured(&tap);
    return tap_done(&tap);
}
