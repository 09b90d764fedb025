/* The ops of whole linear transformers. On "ref": predictions, losses and gradients against the same model composed of
 * elementary ops on the tape, and gradients against central differences. On every device: clipping by sequence against
 * a plain loop over batches of one, norms of huge and tiny gradients, and bits that do not depend on the number of
 * threads. The conformance cases check how far a device is from the truth. */
#include "fused.h"
#include "backend/op_families.h"

/* ---- Against the tape ---- */

static double distance_on(icl_backend *ref, const setting *config, size_t depth, given how) {
    fused f;

    fused_open(&f, ref, config, depth, how);
    const double seen = composed_distance(&f, &f);
    fused_close(&f);
    return seen;
}

/* Both sides are double and differ by rounding only, 2^-53, which steep deep models magnify: with planted rounding 2^18
 * times was seen, and 2^20 is allowed. A wrong formula differs by the size of the numbers. */
#define MOST_ROUNDING 0x1p-33

static void check_composed(tap_run *tap, icl_backend *ref, int parameterization, size_t depth, given how) {
    static const size_t shapes[][3] = {{2, 5, 3}, {5, 3, 19}, {4, 4, 2}, {1, 4, 2}}; /* d, n, batch */
    double worst = 0.0;

    for (size_t heads = 1; heads <= 3; heads++)
        for (int mean = 0; mean < 2; mean++)
            for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
                const size_t layers = depth + (heads == 2);
                const setting is = {parameterization, mean, heads, layers, shapes[s][0], shapes[s][1], shapes[s][2]};
                const double seen = distance_on(ref, &is, depth, how);
                if (seen > MOST_ROUNDING)
                    tap_note("heads %zu, %s, d %zu, n %zu: %.3g ", heads, mean ? "mean" : "raw", shapes[s][0],
                             shapes[s][1], seen);
                worst = fmax(worst, seen);
            }
    tap_ok(tap, worst <= MOST_ROUNDING, "%s, depth %zu, from %s: as composed (%.2g)",
           parameterizations[parameterization], depth, given_names[how], worst);
}

/* Tests shapes for which dense layers are passed on to vectors: wide ones, wider with more heads, and many tokens. */
static void check_passed(tap_run *tap, icl_backend *ref, int parameterization, given how) {
    static const size_t shapes[][4] = {{1, 10, 12, 5}, {2, 33, 30, 1}}; /* heads, d, n, batch */

    for (size_t s = 0; s < 2; s++) {
        const setting is = {parameterization, true, shapes[s][0], 4, shapes[s][1], shapes[s][2], shapes[s][3]};
        icl_linear_transformer_params params = {.parameterization = (icl_parameterization)parameterization,
                                                .heads = is.heads,
                                                .space = how == GIVEN_TOKENS ? ICL_SPACE_TOKENS : ICL_SPACE_GRAM};
        for (params.depth = 3; params.depth <= 4; params.depth++) {
            const double seen = distance_on(ref, &is, params.depth, how);
            tap_ok(tap, seen <= MOST_ROUNDING && icl_linear_passes(&params, is.dimension, is.context),
                   "%s, d %zu, heads %zu, depth %zu, from %s: as composed (%.2g)", parameterizations[parameterization],
                   is.dimension, is.heads, params.depth, given_names[how], seen);
        }
    }
}

/* ---- Against central differences ---- */

static void loss_at(fused *f, const double *point, double *loss) {
    double predictions[MAX_BATCH], losses[MAX_BATCH];

    *loss = 0.0;
    tap_need(icl_tensor_write_double(f->model.parameters, point, tap_error()));
    run_predict(f, predictions);
    square_misses(predictions, f->model.is.batch, losses);
    for (size_t b = 0; b < f->model.is.batch; b++)
        *loss += losses[b] / (double)f->model.is.batch;
}

static void check_differences(tap_run *tap, icl_backend *ref, int parameterization, size_t depth, given how) {
    const setting is = {parameterization, true, 2, depth + 1, 3, 4, 3};
    const double h = 1e-5;
    double point[MAX_PARAMETERS], seen[MAX_PARAMETERS], expected[MAX_PARAMETERS], worst = HUGE_VAL, loss[2];
    fused f;

    fused_open(&f, ref, &is, depth, how);
    run_gradient(&f, (icl_tensor){0});
    tap_need(icl_tensor_read_double(f.model.gradient, seen, tap_error()));
    tap_need(icl_tensor_read_double(f.model.parameters, point, tap_error()));
    for (size_t i = 0; i < icl_model_size(f.model.model); i++) {
        const double at = point[i];
        for (int side = 0; side < 2; side++) {
            point[i] = at + (side ? h : -h);
            loss_at(&f, point, &loss[side]);
        }
        point[i] = at;
        expected[i] = (loss[1] - loss[0]) / (2.0 * h);
    }
    worst = distance(seen, expected, icl_model_size(f.model.model), 1e-6);
    tap_ok(tap, worst <= 1e-7, "%s, depth %zu, from %s: central differences (%.2g)",
           parameterizations[parameterization], depth, given_names[how], worst);
    fused_close(&f);
}

/* ---- Clipping by sequence ---- */

/* Computes the gradient of sequence b and its norm, from a batch of one. */
static void alone(const fused *all, size_t b, double *gradient, double *norm) {
    fused one = *all;
    one.model.tokens = icl_tensor_slice(all->model.tokens, 0, b, 1);
    one.gram = icl_tensor_slice(all->gram, 0, b, 1);
    one.query = icl_tensor_slice(all->query, 0, b, 1);
    one.targets = icl_tensor_slice(all->targets, 0, b, 1);
    one.losses = icl_tensor_slice(all->losses, 0, b, 1);
    one.norms = icl_tensor_slice(all->norms, 0, b, 1);

    run_gradient(&one, (icl_tensor){0});
    tap_need(icl_tensor_read_double(one.model.gradient, gradient, tap_error()));
    tap_need(icl_tensor_read_double(one.norms, norm, tap_error()));
}

/* Fills sequence 3 with NaN, so that it has no gradient. */
static void spoil(fused *f) {
    tap_need(icl_fill(f->model.backend, icl_tensor_slice(f->model.tokens, 0, 3, 1), (double)NAN, tap_error()));
    tap_need(icl_fill(f->model.backend, icl_tensor_slice(f->gram, 0, 3, 1), (double)NAN, tap_error()));
}

/* The expected results of clipping, from gradients of one sequence each. */
typedef struct clipping {
    double threshold, norms[MAX_BATCH], gradient[MAX_PARAMETERS];
    size_t clipped;
} clipping;

static void clip_one_by_one(const fused *f, clipping *expected) {
    static double own[MAX_BATCH][MAX_PARAMETERS];
    const size_t size = icl_model_size(f->model.model), batch = f->model.is.batch;

    *expected = (clipping){0};
    for (size_t b = 0; b < batch; b++)
        alone(f, b, own[b], &expected->norms[b]);
    /* The norm of sequence 7 is neither the largest nor the smallest. */
    expected->threshold = (double)(float)expected->norms[7];
    for (size_t b = 0; b < batch; b++) {
        double squares = 0.0;
        for (size_t i = 0; i < size; i++)
            squares += own[b][i] * own[b][i];
        expected->clipped += expected->norms[b] > expected->threshold;
        for (size_t i = 0; i < size && b != 3; i++)
            expected->gradient[i] += fmin(1.0, expected->threshold / sqrt(squares)) * own[b][i] / (double)batch;
    }
}

static void check_clipping(tap_run *tap, icl_backend *device, int parameterization, given how) {
    const setting is = {parameterization, true, 1, 4, 4, how == GIVEN_TOKENS ? 3 : 9, 37};
    const bool is_double = icl_backend_capabilities(device)->element_size == sizeof(double);
    const double allowed = is_double ? 1e-12 : 2e-5;
    double seen[MAX_PARAMETERS], norms[MAX_BATCH], worst = HUGE_VAL, norms_off = HUGE_VAL;
    clipping expected = {0};
    fused f;

    fused_open(&f, device, &is, 4, how);
    spoil(&f);
    clip_one_by_one(&f, &expected);
    tap_need(icl_fill(device, f.threshold, expected.threshold, tap_error()));
    run_gradient(&f, f.threshold);
    tap_need(icl_tensor_read_double(f.model.gradient, seen, tap_error()));
    tap_need(icl_tensor_read_double(f.norms, norms, tap_error()));
    tap_ok(tap, isnan(expected.norms[3]) && isnan(norms[3]), "%s, from %s: no norm where there is a NaN",
           parameterizations[parameterization], given_names[how]);
    expected.norms[3] = norms[3] = 0.0;
    worst = distance(seen, expected.gradient, icl_model_size(f.model.model), 1e-6);
    norms_off = distance(norms, expected.norms, is.batch, 1e-6);
    tap_ok(tap, worst <= allowed && norms_off <= allowed && expected.clipped > 2 && expected.clipped < is.batch - 2,
           "%s, from %s: clipped as one by one (%.2g, norms %.2g; %zu of %zu clipped)",
           parameterizations[parameterization], given_names[how], worst, norms_off, expected.clipped, is.batch);
    fused_close(&f);
}

/* ---- Norms of huge and tiny gradients ---- */

/* Multiplies query and target by `scale`, and so the gradient by scale^2. There are enough sequences that a host adds
 * up gradients of several groups of lanes. */
static void check_norm(tap_run *tap, icl_backend *device, int parameterization, double scale) {
    const setting is = {parameterization, true, 1, 3, 4, 6, MAX_BATCH};
    double plain[MAX_BATCH], scaled[MAX_BATCH], worst = HUGE_VAL;
    fused f;

    fused_open(&f, device, &is, 3, GIVEN_GRAM);
    run_gradient(&f, (icl_tensor){0});
    tap_need(icl_tensor_read_double(f.norms, plain, tap_error()));
    tap_need(icl_fill(device, f.targets, TARGET * scale, tap_error()));
    tap_need(icl_scale_add(device, f.query, scale, f.query, 0.0, (icl_tensor){0}, tap_error()));
    run_gradient(&f, (icl_tensor){0});
    tap_need(icl_tensor_read_double(f.norms, scaled, tap_error()));
    for (size_t b = 0; b < is.batch; b++)
        scaled[b] /= scale * scale;
    worst = distance(scaled, plain, is.batch, 1e-6);
    tap_ok(tap, worst <= 1e-5, "%s: norms of gradients times %.2g (%.2g)", parameterizations[parameterization],
           scale * scale, worst);
    fused_close(&f);
}

/* Without norms the gradient is the same; with a threshold they are required. */
static void check_no_norms(tap_run *tap, icl_backend *device, int parameterization, given how) {
    const setting is = {parameterization, true, 1, 4, 4, 6, MAX_BATCH};
    static double gradient[2][MAX_PARAMETERS];
    icl_error error = {0};
    fused f;

    memset(gradient, 0, sizeof gradient);
    fused_open(&f, device, &is, 4, how);
    tap_need(icl_fill(device, f.threshold, 0.5, tap_error()));
    for (int without = 0; without < 2; without++) {
        if (without)
            icl_tensor_release(&f.norms);
        tap_need(icl_fill(device, f.model.gradient, (double)NAN, tap_error()));
        run_gradient(&f, (icl_tensor){0});
        tap_need(icl_tensor_read_double(f.model.gradient, gradient[without], tap_error()));
    }
    tap_ok(tap, gradient[0][0] != 0.0 && memcmp(gradient[0], gradient[1], sizeof gradient[0]) == 0,
           "%s, from %s: the same bits where nobody asks for norms", parameterizations[parameterization],
           given_names[how]);
    tap_ok(tap, try_gradient(&f, f.threshold, &error) == ICL_ERROR_INPUT && strstr(error.message, "norms"),
           "%s, from %s: a threshold without norms is refused (%s)", parameterizations[parameterization],
           given_names[how], error.message);
    fused_close(&f);
}

/* ---- Bits ---- */

static void check_bits(tap_run *tap, const char *host, int parameterization, given how) {
    const setting is = {parameterization, true, 1, 4, 5, 4, MAX_BATCH};
    static double gradient[3][MAX_PARAMETERS];
    bool same = true;

    memset(gradient, 0, sizeof gradient);
    for (int i = 0; i < 3; i++) {
        icl_backend *backend = NULL;
        char spec[32];
        fused f;
        snprintf(spec, sizeof spec, "%s:threads=%d", host, i + 1);
        tap_need(icl_backend_open(&(icl_backend_params){.spec = spec}, &backend, tap_error()));
        fused_open(&f, backend, &is, is.layers, how);
        tap_need(icl_fill(backend, f.threshold, 0.5, tap_error()));
        run_gradient(&f, f.threshold);
        tap_need(icl_tensor_read_double(f.model.gradient, gradient[i], tap_error()));
        fused_close(&f);
        icl_backend_close(&backend);
        same = same && memcmp(gradient[0], gradient[i], sizeof gradient[0]) == 0;
    }
    tap_ok(tap, same && gradient[0][0] != 0.0, "%s, from %s: the same bits on 1, 2 and 3 threads",
           parameterizations[parameterization], given_names[how]);
}

/* ---- Cost ---- */

/* Checks the formulas of src/backend/cpu/kernels: two layers cost products of matrices and vectors, each further layer
 * costs D^3. */
static void check_cost(tap_run *tap) {
    icl_linear_transformer_params params = {.parameterization = ICL_LINEAR_FULL, .layers = 2, .factor = 1.0};
    double small = icl_linear_transformer_flops(&params, 99, 0, 10, true);
    double large = icl_linear_transformer_flops(&params, 199, 0, 10, true);
    tap_ok(tap, fabs(large / small - 4.0) < 1e-9, "two layers cost D^2");
    params.layers = 5;
    small = icl_linear_transformer_flops(&params, 99, 0, 1, true);
    params.layers = 4;
    small -= icl_linear_transformer_flops(&params, 99, 0, 1, true);
    tap_ok(tap, fabs(small - 2.0 * 10.0 * 1e6) < 1.0, "one more layer costs ten D^3 with its gradient");
    for (size_t n = 1; n < 60; n++) {
        params.space = ICL_SPACE_GRAM;
        const double gram = icl_linear_transformer_flops(&params, 20, n, 1, true);
        params.space = ICL_SPACE_TOKENS;
        const double tokens = icl_linear_transformer_flops(&params, 20, n, 1, true);
        params.space = ICL_SPACE_AUTO;
        if (icl_linear_transformer_flops(&params, 20, n, 1, true) > fmin(gram, tokens) || (n < 15 && tokens > gram) ||
            (n > 30 && tokens < gram))
            tap_ok(tap, false, "n = %zu: tokens for short contexts, Gram matrices for long ones", n);
    }
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *device = tap_open_device(&tap, argc > 1 ? argv[1] : "ref");

    if (!device)
        return tap_done(&tap);
    const icl_capabilities *capabilities = icl_backend_capabilities(device);
    const bool is_ref = capabilities->element_size == sizeof(double);
    for (int parameterization = 0; parameterization < PARAMETERIZATIONS; parameterization++)
        for (int how = 0; how < GIVEN_COUNT; how++) {
            for (size_t depth = 1; depth <= 5 && is_ref; depth++)
                check_composed(&tap, device, parameterization, depth, (given)how);
            for (size_t depth = 1; depth <= 4 && is_ref; depth++)
                check_differences(&tap, device, parameterization, depth, (given)how);
            if (is_ref && (parameterization == ICL_LINEAR_FULL || parameterization == ICL_LINEAR_SPARSE_B))
                check_passed(&tap, device, parameterization, (given)how);
            check_clipping(&tap, device, parameterization, (given)how);
            check_no_norms(&tap, device, parameterization, (given)how);
            if (capabilities->kind == ICL_DEVICE_HOST)
                check_bits(&tap, is_ref ? "ref" : "cpu", parameterization, (given)how);
        }
    for (int parameterization = 0; parameterization < PARAMETERIZATIONS; parameterization++) {
        check_norm(&tap, device, parameterization, 0x1p40);
        check_norm(&tap, device, parameterization, 0x1p-40);
    }
    check_cost(&tap);
    icl_backend_close(&device);
    return tap_done(&tap);
}
