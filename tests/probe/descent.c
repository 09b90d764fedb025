/* Tests gradient descent against its definition, and the sensitivity of models that are gradient descent. */
#include "probe/descent.h"

#include <math.h>

#include "core/allocate.h"
#include "iclab/iclab.h"
#include "iclab/recipe.h"
#include "tap.h"

enum { D = 4, N = 7, BATCH = 5, TOKENS = BATCH * (N + 1) * (D + 1) };

static void fill_tokens(float *tokens) {
    for (size_t i = 0; i < TOKENS; i++)
        tokens[i] = 0.5F * icl_normal_from_word(icl_random_word((icl_random_key){.seed = 3, .stream = 77}, i));
    for (size_t b = 0; b < BATCH; b++)
        tokens[(b * (N + 1) + N) * (D + 1) + D] = 0;
}

static void weights_of(const icl_descent *descent, const float *tokens, double *weights) {
    static double scratch[1024];
    if (icl_descent_scratch(D, N) > 1024)
        abort();
    icl_descent_weights(descent, D, N, BATCH, tokens, scratch, weights);
}

static double largest_difference(const double *a, const double *b, size_t count) {
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = isnan(a[i]) ? HUGE_VAL : fmax(largest, fabs(a[i] - b[i]));
    return largest;
}

/* Iterates w <- w + rate sum_j (y_j - <w, x_j>) x_j from w = 0. */
static void test_plain(tap_run *tap, const float *tokens) {
    static const double rates[] = {.1, .07, .2};
    double seen[BATCH * D] = {0}, expected[BATCH * D] = {0};

    for (size_t b = 0; b < BATCH; b++)
        for (size_t l = 0; l < 3; l++) {
            double *w = expected + b * D, change[D] = {0};
            for (size_t j = 0; j < N; j++) {
                const float *token = tokens + (b * (N + 1) + j) * (D + 1);
                double miss = (double)token[D];
                for (size_t a = 0; a < D; a++)
                    miss -= w[a] * (double)token[a];
                for (size_t a = 0; a < D; a++)
                    change[a] += miss * (double)token[a];
            }
            for (size_t a = 0; a < D; a++)
                w[a] += rates[l] * change[a];
        }
    weights_of(&(icl_descent){3, rates, NULL}, tokens, seen);
    tap_ok(tap, largest_difference(seen, expected, BATCH * D) < 1e-13, "three steps of gradient descent");
}

/* With noise-free labels y = <w, x> of one direction, and inputs that are multiples of one unit vector with sum of
 * squares s, GD++ leaves the part (1 - rate s) (1 - rate' s (1 - input s)^2) of w. */
static void test_plus(tap_run *tap) {
    static const double rates[] = {.2, .5}, inputs[] = {.15, 0};
    static const double at[] = {1, -.5, 2, .3, 0, -1, .7}; /* s = 6.83 */
    double weights[BATCH * D], s = 0;
    float tokens[TOKENS] = {0};

    for (size_t j = 0; j < N; j++) {
        tokens[j * (D + 1) + 1] = (float)at[j];
        tokens[j * (D + 1) + D] = 3 * (float)at[j];
        s += (double)(float)at[j] * (double)(float)at[j];
    }
    weights_of(&(icl_descent){2, rates, inputs}, tokens, weights);
    const double m = 1 - inputs[0] * s, left = (1 - rates[0] * s) * (1 - rates[1] * s * m * m);
    tap_ok(tap, fabs(weights[1] - 3 * (1 - left)) < 1e-5 && weights[0] == 0 && weights[2] == 0,
           "two steps of GD++: %.6f, by hand %.6f", weights[1], 3 * (1 - left));
}

/* A model in trained form with the weights of GD++ has the sensitivities of GD++; plain descent has others. */
static void test_sensitivity(tap_run *tap, const float *tokens) {
    static const double rates[] = {.1, .2}, inputs[] = {.05, .03};
    /* p_x q_x = -input n, p_y q_x = -rate n, layer by layer; q_x = n. */
    static const float values[] = {-.05F, -.1F, 7, -.03F, -.2F, 7};
    double model_sensitivity[BATCH * D] = {0}, exact[BATCH * D] = {0}, plain[BATCH * D] = {0};
    icl_recipe *recipe = NULL;
    icl_backend *backend = NULL;
    icl_model *model = NULL;
    icl_error error = {0};
    icl_status status = icl_backend_open(&(icl_backend_params){.spec = "ref"}, &backend, &error);

    if (status == ICL_OK)
        status = icl_recipe_create_complete(&recipe, &error);
    if (status == ICL_OK)
        status = icl_recipe_override(recipe, "model.layers=2", &error);
    if (status == ICL_OK)
        status = icl_recipe_override(recipe, "model.parameterization=gd++", &error);
    if (status == ICL_OK)
        status = icl_model_create(recipe, icl_regression_shape(D, N), &model, &error);
    if (status == ICL_OK)
        status = icl_sensitivity(backend, model, D, N, values, BATCH, tokens, model_sensitivity, &error);
    if (tap_status(tap, status, &error, "sensitivity of GD++ as a model")) {
        weights_of(&(icl_descent){2, rates, inputs}, tokens, exact);
        weights_of(&(icl_descent){2, rates, NULL}, tokens, plain);
        /* The weights are floats. */
        tap_ok(tap, largest_difference(model_sensitivity, exact, BATCH * D) < 1e-6, "it is GD++'s, within %.2g",
               largest_difference(model_sensitivity, exact, BATCH * D));
        const icl_alignment same = icl_align(D, N, BATCH, tokens, model_sensitivity, exact);
        const icl_alignment other = icl_align(D, N, BATCH, tokens, model_sensitivity, plain);
        tap_ok(tap, same.cosine > 1 - 1e-9 && same.predictions < 1e-6 && same.mean_prediction > .01,
               "and aligned with it");
        tap_ok(tap, other.cosine < 1 - 1e-6 && other.predictions > 1e-4 && other.sensitivities > 1e-4,
               "but not with plain descent: cosine %.5f", other.cosine);
    }
    icl_model_destroy(&model);
    icl_recipe_destroy(&recipe);
    icl_backend_close(&backend);
}

static void test_alignment(tap_run *tap) {
    static const double first[] = {3, 4, 0, 0}, second[] = {4, -3, 0, 1}; /* d = 2, two sequences, n = 0 */
    static const float tokens[] = {1, 2, 0, -1, 1, 0};
    const icl_alignment is = icl_align(2, 0, 2, tokens, first, second);

    tap_ok(tap, is.cosine == 0 && fabs(is.sensitivities - .5 * (sqrt(50) + 1)) < 1e-12, "orthogonal vectors, and none");
    /* predictions 11 and 4 - 6 = -2; 0 and 1 */
    tap_ok(tap,
           fabs(is.predictions - sqrt(.5 * (169 + 1))) < 1e-12 && fabs(is.mean_prediction - sqrt(.5 * 121)) < 1e-12,
           "differences of predictions");
    const icl_alignment with_none = icl_align(2, 0, 1, tokens, first, second + 2);
    const icl_alignment to_none = icl_align(2, 0, 1, tokens, first, first + 2);
    tap_ok(tap, fabs(with_none.cosine - .8) < 1e-12 && to_none.cosine == 0, "cosines %g, and %g with none",
           with_none.cosine, to_none.cosine);
}

int main(void) {
    tap_run tap = {0};
    float tokens[TOKENS];

    fill_tokens(tokens);
    test_plain(&tap, tokens);
    test_plus(&tap);
    test_sensitivity(&tap, tokens);
    test_alignment(&tap);
    return tap_done(&tap);
}
