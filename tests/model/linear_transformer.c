/* Linear transformers against their formula in plain loops, and the symmetries that the formula implies. */
#include "fixture.h"

#define MAX_WIDTH  8
#define MAX_LENGTH 9
#define MAX_BATCH  4
#define MAX_SIZE   2048

static const size_t batch = 3, context = 5, dimension = 3;

/* Finds one parameter by name. */
static const float *find(const icl_model *model, const float *values, size_t layer, size_t head, const char *part) {
    char name[64];
    snprintf(name, sizeof name, "layer.%zu.head.%zu.%s", layer, head, part);
    for (size_t i = 0; i < icl_model_parameter_count(model); i++)
        if (strcmp(icl_model_parameter(model, i)->name, name) == 0)
            return values + icl_model_parameter(model, i)->offset;
    return NULL;
}

static bool read_matrices(const icl_model *model, const setting *config, const float *values, size_t layer, size_t head,
                          double p[MAX_WIDTH][MAX_WIDTH], double q[MAX_WIDTH][MAX_WIDTH]) {
    const size_t d = config->dimension;
    const bool sparse = config->parameterization >= SPARSE;
    const float *first = find(model, values, layer, head, sparse ? "B" : "P");
    const float *second = find(model, values, layer, head, sparse ? "A" : "Q");

    if (!second || (!first && config->parameterization != SPARSE))
        return false;
    for (size_t i = 0; i <= d; i++)
        for (size_t j = 0; j <= d; j++) {
            p[i][j] = q[i][j] = 0.0;
            if (config->parameterization == FULL) {
                p[i][j] = (double)first[i * (d + 1) + j];
                q[i][j] = (double)second[i * (d + 1) + j];
            } else if (sparse) {
                p[i][j] = i == d && j == d ? 1.0 : 0.0;
                if (i < d && j < d) {
                    p[i][j] = config->parameterization == SPARSE_B ? (double)first[i * d + j] : 0.0;
                    q[i][j] = (double)second[i * d + j];
                }
            } else if (i == j) {
                p[i][j] = (double)first[i < d ? 0 : 1];
                q[i][j] = i < d ? (double)second[0] : config->parameterization == DIAG ? (double)second[1] : 0.0;
            }
        }
    return true;
}

/* Applies e_i += factor * sum over heads of P (sum_{j <= n} e_j e_j^T) Q e_i to every token of one sequence. */
static bool layer_in_loops(const icl_model *model, const setting *config, const float *values, size_t layer,
                           double e[MAX_LENGTH][MAX_WIDTH]) {
    const size_t width = config->dimension + 1, n = config->context;
    const double factor = config->mean ? 1.0 / (double)n : 1.0;
    double update[MAX_LENGTH][MAX_WIDTH] = {{0}}, p[MAX_WIDTH][MAX_WIDTH], q[MAX_WIDTH][MAX_WIDTH];

    for (size_t head = 0; head < config->heads; head++) {
        if (!read_matrices(model, config, values, layer, head, p, q))
            return false;
        for (size_t i = 0; i <= n; i++)
            for (size_t j = 0; j < n; j++) {
                double score = 0.0; /* e_j^T Q e_i */
                for (size_t a = 0; a < width; a++)
                    for (size_t b = 0; b < width; b++)
                        score += e[j][a] * q[a][b] * e[i][b];
                for (size_t a = 0; a < width; a++)
                    for (size_t b = 0; b < width; b++)
                        update[i][a] += factor * p[a][b] * e[j][b] * score;
            }
    }
    for (size_t i = 0; i <= n; i++)
        for (size_t a = 0; a < width; a++)
            e[i][a] += update[i][a];
    return true;
}

static bool predict_in_loops(const icl_model *model, const setting *config, const float *values, const float *tokens,
                             double *predictions) {
    const size_t width = config->dimension + 1, length = config->context + 1;
    double e[MAX_LENGTH][MAX_WIDTH];

    for (size_t b = 0; b < config->batch; b++) {
        for (size_t i = 0; i < length; i++)
            for (size_t a = 0; a < width; a++)
                e[i][a] = (double)tokens[(b * length + i) * width + a];
        for (size_t layer = 0; layer < config->layers; layer++)
            if (!layer_in_loops(model, config, values, layer, e))
                return false;
        predictions[b] = -e[config->context][config->dimension];
    }
    return true;
}

static void predictions_on(icl_backend *backend, const setting *config, size_t depth, const float *parameters,
                           const float *tokens, double *predictions) {
    model_fixture f;

    fixture_open(&f, backend, config);
    fixture_write(&f, parameters, tokens);
    fixture_read(&f, depth, predictions);
    fixture_close(&f);
}

static void test_formula(tap_run *tap, icl_backend *backend, const setting *config) {
    const bool is_ref = icl_backend_capabilities(backend)->element_size == sizeof(double);
    static float values[MAX_SIZE], tokens[MAX_BATCH * MAX_LENGTH * MAX_WIDTH];
    double seen[MAX_BATCH], expected[MAX_BATCH], worst = HUGE_VAL;
    icl_model *model = make_linear(config, "normal", "0.3");

    fill_parameters(model, config, values);
    fill_tokens(tokens, config);
    predictions_on(backend, config, config->layers, values, tokens, seen);
    if (predict_in_loops(model, config, values, tokens, expected))
        worst = distance(seen, expected, config->batch, 1e-6);
    /* Allows for the rounding of about a hundred sums, through at most three layers. */
    tap_ok(tap, worst <= (is_ref ? 1e-12 : 1e-5), "%s, %s, %zu heads, %zu layers: within %.2g of the formula",
           parameterizations[config->parameterization], config->mean ? "mean" : "raw", config->heads, config->layers,
           worst);
    icl_model_destroy(&model);
}

/* ---- Symmetries, on one device in its own arithmetic ---- */

static float *token(float *tokens, const setting *config, size_t b, size_t i) {
    return tokens + (b * (config->context + 1) + i) * (config->dimension + 1);
}

static void reverse_context(float *tokens, const setting *config) {
    for (size_t b = 0; b < config->batch; b++)
        for (size_t i = 0; i < config->context / 2; i++)
            for (size_t a = 0; a <= config->dimension; a++) {
                float *one = token(tokens, config, b, i) + a,
                      *other = token(tokens, config, b, config->context - 1 - i) + a;
                const float kept = *one;
                *one = *other;
                *other = kept;
            }
}

static void negate_labels(float *tokens, const setting *config) {
    for (size_t b = 0; b < config->batch; b++)
        for (size_t i = 0; i <= config->context; i++)
            token(tokens, config, b, i)[config->dimension] *= -1.0F;
}

/* Rotates the inputs in the plane of the first two coordinates, by the angle with cosine 0.6 and sine 0.8. */
static void rotate_inputs(float *tokens, const setting *config) {
    for (size_t b = 0; b < config->batch; b++)
        for (size_t i = 0; i <= config->context; i++) {
            float *x = token(tokens, config, b, i);
            const float first = x[0], second = x[1];
            x[0] = 0.6F * first - 0.8F * second;
            x[1] = 0.8F * first + 0.6F * second;
        }
}

/* Doubles the query's inputs, exactly, so that a prediction that is linear in the query doubles up to rounding of the
 * sums. */
static void double_query(float *tokens, const setting *config) {
    for (size_t b = 0; b < config->batch; b++)
        for (size_t a = 0; a < config->dimension; a++)
            token(tokens, config, b, config->context)[a] *= 2.0F;
}

/* Makes query 0 of sequence 0 the sum of the queries of sequences 1 and 2, all over one context. */
static void test_additive(tap_run *tap, icl_backend *backend, const setting *config, const float *values,
                          double bound) {
    static float tokens[MAX_BATCH * MAX_LENGTH * MAX_WIDTH];
    double seen[MAX_BATCH] = {0};

    fill_tokens(tokens, config);
    for (size_t i = 0; i < config->context; i++)
        for (size_t a = 0; a <= config->dimension; a++)
            token(tokens, config, 1, i)[a] = token(tokens, config, 2, i)[a] = token(tokens, config, 0, i)[a];
    for (size_t a = 0; a < config->dimension; a++) {
        float *sum = token(tokens, config, 0, config->context) + a,
              *one = token(tokens, config, 1, config->context) + a;
        float *two = token(tokens, config, 2, config->context) + a;
        *one = floorf(*one * 1024.0F) / 1024.0F; /* so that the sum is exact */
        *two = floorf(*two * 1024.0F) / 1024.0F;
        *sum = *one + *two;
    }
    predictions_on(backend, config, config->layers, values, tokens, seen);
    tap_ok(tap, fabs(seen[0] - seen[1] - seen[2]) <= bound * (1.0 + fabs(seen[1]) + fabs(seen[2])),
           "%s: additive in the query", parameterizations[config->parameterization]);
}

static void test_symmetry(tap_run *tap, icl_backend *backend, const setting *config, const float *values,
                          void (*change)(float *, const setting *), double factor, double bound, const char *what) {
    static float tokens[MAX_BATCH * MAX_LENGTH * MAX_WIDTH];
    double before[MAX_BATCH] = {0}, after[MAX_BATCH] = {0}, worst = HUGE_VAL;

    fill_tokens(tokens, config);
    predictions_on(backend, config, config->layers, values, tokens, before);
    change(tokens, config);
    predictions_on(backend, config, config->layers, values, tokens, after);
    for (size_t b = 0; b < config->batch; b++)
        before[b] *= factor;
    worst = distance(after, before, config->batch, 1e-6);
    tap_ok(tap, worst <= bound, "%s: %s (%.2g)", parameterizations[config->parameterization], what, worst);
}

static void test_symmetries(tap_run *tap, icl_backend *backend) {
    const bool is_ref = icl_backend_capabilities(backend)->element_size == sizeof(double);
    const double exact = is_ref ? 1e-12 : 1e-5;
    const double rotated = 1e-4; /* the rotated inputs are rounded to float */

    for (int parameterization = 0; parameterization < PARAMETERIZATIONS; parameterization++) {
        const setting is = {parameterization, true, 1, 3, dimension, context, batch};
        const bool isotropic = parameterization == DIAG || parameterization == GDPP;
        float values[MAX_SIZE];
        icl_model *model = make_linear(&is, "normal", "0.3");

        fill_parameters(model, &is, values);
        test_symmetry(tap, backend, &is, values, reverse_context, 1.0, exact, "order of the context is of no matter");
        test_symmetry(tap, backend, &is, values, double_query, 2.0, exact, "homogeneous in the query");
        test_additive(tap, backend, &is, values, exact);
        if (parameterization != FULL)
            test_symmetry(tap, backend, &is, values, negate_labels, -1.0, exact, "odd in the labels");
        if (isotropic)
            test_symmetry(tap, backend, &is, values, rotate_inputs, 1.0, rotated, "rotations are of no matter");
        icl_model_destroy(&model);
    }
}

/* ---- Depth and initial values ---- */

static void test_depth(tap_run *tap, icl_backend *backend) {
    const setting deep = {DIAG, true, 1, 4, dimension, context, batch},
                  shallow = {DIAG, true, 1, 2, dimension, context, batch};
    static float tokens[MAX_BATCH * MAX_LENGTH * MAX_WIDTH];
    float values[MAX_SIZE], ends[MAX_SIZE];
    double cut[MAX_BATCH] = {0}, two[MAX_BATCH] = {0}, whole[MAX_BATCH] = {0};
    icl_model *model = make_linear(&deep, "normal", "0");
    const size_t per_layer = icl_model_size(model) / 4;

    fill_tokens(tokens, &deep);
    fill_parameters(model, &deep, values);
    memcpy(ends, values, per_layer * sizeof *ends);
    memcpy(ends + per_layer, values + 3 * per_layer, per_layer * sizeof *ends);
    predictions_on(backend, &deep, 2, values, tokens, cut);
    predictions_on(backend, &shallow, 2, ends, tokens, two);
    icl_model_initialize_inserted(model, 1, 1, values);
    icl_model_initialize_inserted(model, 2, 1, values);
    predictions_on(backend, &deep, 4, values, tokens, whole);
    tap_ok(tap, distance(cut, two, batch, 1e-6) == 0.0, "depth 2 of 4 is the first layer and the last");
    tap_ok(tap, distance(whole, two, batch, 1e-6) == 0.0, "inserted layers change nothing");
    icl_model_destroy(&model);
}

/* Checks that a model of two layers refuses this depth, on the tape and in its fused ops. */
static void test_depth_refused(tap_run *tap, icl_backend *backend, size_t depth) {
    static const char expected[] = "expected 1 to 2";
    icl_error on_tape = {0}, predicting = {0}, training = {0};
    model_fixture f;

    fixture_open(&f, backend, &(setting){DIAG, true, 1, 2, dimension, context, batch});
    fixture_predict(&f, depth);
    tap_ok(tap,
           icl_tape_status(f.tape, &on_tape) == ICL_ERROR_INPUT && strstr(on_tape.message, expected) &&
               icl_model_predict_fused(f.model, backend, depth, NULL, &predicting) == ICL_ERROR_INPUT &&
               strstr(predicting.message, expected) &&
               icl_model_gradient_fused(f.model, backend, depth, NULL, &training) == ICL_ERROR_INPUT &&
               strstr(training.message, expected),
           "depth %zu: %s", depth, on_tape.message);
    fixture_close(&f);
}

static void test_initial_values(tap_run *tap) {
    const setting is = {FULL, true, 2, 4, 10, 20, 1};
    const setting raw = {DIAG, false, 1, 1, 10, 25, 1};
    float first[MAX_SIZE], second[MAX_SIZE];
    double mean = 0.0, square = 0.0;
    icl_model *model = make_linear(&is, "normal", "0.5");
    const size_t size = icl_model_size(model);
    tap_ok(tap, size == 4 * 2 * 2 * 121, "full, 2 heads, 4 layers, d = 10: %zu parameters", size);
    icl_model_initialize(model, 1, first);
    icl_model_initialize(model, 1, second);
    tap_ok(tap, memcmp(first, second, size * sizeof *first) == 0, "one seed, one start");
    icl_model_initialize(model, 2, second);
    tap_ok(tap, memcmp(first, second, size * sizeof *first) != 0, "another seed, another start");
    for (size_t i = 0; i < size; i++) {
        mean += (double)first[i] / (double)size;
        square += (double)first[i] * (double)first[i] / (double)size;
    }
    /* four standard errors of a mean, and of a variance */
    tap_ok(tap,
           fabs(mean) < 4.0 * 0.5 / sqrt((double)size) && fabs(square - 0.25) < 4.0 * 0.25 * sqrt(2.0 / (double)size),
           "mean %.3g and variance %.3g of a normal start", mean, square);
    icl_model_destroy(&model);

    model = make_linear(&raw, "descent", "0");
    icl_model_initialize(model, 1, first);
    tap_ok(tap,
           fabs((double)first[0] * (double)first[2] + 0.18 / 25) < 1e-7 && first[3] == 0.0F &&
               fabs((double)first[1] * (double)first[2] + 0.36 / 25) < 1e-7,
           "the descent start of raw sums has products n times smaller");
    icl_model_destroy(&model);
}

/* Gets a start's values without noise: those of every part, in order. */
static void start_at(const setting *config, float *values) {
    icl_model *model = make_linear(config, "descent", "0");

    icl_model_initialize(model, 1, values);
    icl_model_destroy(&model);
}

/* Heads add up, so that each of several begins with an equal share of the product of a single one. A single layer of
 * gd++ begins as the first of several does, not as the last, which differs. */
static void test_descent_start(tap_run *tap) {
    enum { HEADS = 3, GDPP_PARTS = 3 /* p_x, p_y, q */ };
    float one[MAX_SIZE], heads[MAX_SIZE], layers[MAX_SIZE];
    bool is_shared = true;

    start_at(&(setting){DIAG, true, 1, 1, 10, 20, 1}, one);
    start_at(&(setting){DIAG, true, HEADS, 1, 10, 20, 1}, heads);
    for (size_t row = 0; row < 2; row++) {
        double sum = 0;
        for (size_t head = 0; head < HEADS; head++)
            sum += (double)heads[4 * head + row] * (double)heads[4 * head + 2];
        is_shared = is_shared && fabs(sum - (double)one[row] * (double)one[2]) < 1e-7 &&
                    fabs((double)heads[row] * (double)heads[2] - sum / HEADS) < 1e-7;
    }
    tap_ok(tap, is_shared && fabs((double)one[0] * (double)one[2] + 0.18) < 1e-7, "%d heads share the product of one",
           HEADS);
    start_at(&(setting){GDPP, true, 1, 1, 10, 20, 1}, one);
    start_at(&(setting){GDPP, true, 1, 3, 10, 20, 1}, layers);
    tap_note("gd++: %g %g %g; of three: %g %g %g, %g %g %g, %g %g %g", (double)one[0], (double)one[1], (double)one[2],
             (double)layers[0], (double)layers[1], (double)layers[2], (double)layers[3], (double)layers[4],
             (double)layers[5], (double)layers[6], (double)layers[7], (double)layers[8]);
    tap_ok(tap, memcmp(one, layers, GDPP_PARTS * sizeof *one) == 0 && fabs((double)(one[0] * one[2]) + 0.18) < 1e-7,
           "one layer of gd++ begins as the first of three");
    tap_ok(tap,
           memcmp(one, layers + GDPP_PARTS, GDPP_PARTS * sizeof *one) == 0 &&
               memcmp(one, layers + 2 * GDPP_PARTS, GDPP_PARTS * sizeof *one) != 0,
           "so does the second, and the third, the last, does not");
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "ref");

    if (!backend)
        return tap_done(&tap);
    for (int parameterization = 0; parameterization < PARAMETERIZATIONS; parameterization++)
        for (int mean = 0; mean < 2; mean++)
            for (size_t heads = 1; heads <= 2; heads++)
                for (size_t layers = 1; layers <= 3; layers++) {
                    const setting is = {parameterization, mean, heads, layers, dimension, context, batch};
                    test_formula(&tap, backend, &is);
                }
    test_formula(&tap, backend, &(setting){FULL, true, 1, 2, 1, 1, 1});
    test_formula(&tap, backend, &(setting){SPARSE_B, false, 1, 2, 1, 1, 1});
    test_symmetries(&tap, backend);
    test_depth(&tap, backend);
    test_depth_refused(&tap, backend, 0);
    test_depth_refused(&tap, backend, 3);
    test_initial_values(&tap);
    test_descent_start(&tap);
    tap_ok(&tap, icl_backend_get_statistics(backend).bytes_live == 0, "everything was given back");
    icl_backend_close(&backend);
    return tap_done(&tap);
}
