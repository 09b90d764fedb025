/*
 * The ops of whole linear transformers on a device of single precision, in token space and in the cheaper one, against
 * the same model composed of elementary ops on the tape of "ref": every form, depths, one head and two, contexts
 * shorter and longer than the tokens are wide. How far a device may be from the truth is
 * the conformance cases' business.
 */
#include "fused.h"

#define ALLOWED 2e-5

/* Tokens a quarter as large: layers are close to the identity, and deep models as well conditioned as others. */
static icl_status open_tame(fused *f, icl_backend *backend, const setting *is, size_t depth, icl_error *error) {
    const icl_tensor none = {0};
    icl_status status = ICL_OK;

    ICL_TRY(fused_open(f, backend, is, depth, GIVEN_TOKENS, error));
    ICL_TRY(icl_scale_add(backend, f->model.tokens, 0.25, f->model.tokens, 0.0, none, error));
done:
    return status;
}

static double spaces_distance(icl_backend *device, icl_backend *ref, const setting *is, size_t depth,
                              icl_linear_space space, icl_error *error) {
    double predicted[2][MAX_BATCH], losses[2][MAX_BATCH], gradient[2][MAX_PARAMETERS], worst = HUGE_VAL;
    icl_status status = ICL_OK;
    fused f = {0}, truth = {0};

    ICL_TRY(open_tame(&truth, ref, is, depth, error));
    ICL_TRY(composed(&truth, depth, predicted[1], gradient[1], error));
    square_misses(predicted[1], is->batch, losses[1]);
    ICL_TRY(open_tame(&f, device, is, depth, error));
    f.params.space = space;
    ICL_TRY(run_predict(&f, predicted[0], error));
    ICL_TRY(icl_fill(device, f.model.gradient, (double)NAN, error));
    ICL_TRY(run_gradient(&f, (icl_tensor){0}, error));
    ICL_TRY(icl_tensor_read_double(f.losses, losses[0], error));
    ICL_TRY(icl_tensor_read_double(f.model.gradient, gradient[0], error));
    worst = distance(predicted[0], predicted[1], is->batch);
    worst = fmax(worst, distance(losses[0], losses[1], is->batch));
    worst = fmax(worst, distance(gradient[0], gradient[1], icl_model_size(truth.model.model)));
done:
    fused_close(&f);
    fused_close(&truth);
    return worst;
}

static void check_spaces(tap_run *tap, icl_backend *device, icl_backend *ref, int parameterization, size_t depth,
                         icl_linear_space space) {
    static const size_t shapes[][3] = {{6, 2, 19}, {5, 9, 4}, {9, 4, 32}, {12, 14, 3}, {4, 1, 3}}; /* d, n, batch */
    double worst = 0.0;
    icl_error error = {0};

    for (size_t heads = 1; heads <= 2; heads++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            const setting is = {parameterization, true,         heads,       depth + (heads == 2),
                                shapes[s][0],     shapes[s][1], shapes[s][2]};
            const double seen = spaces_distance(device, ref, &is, depth, space, &error);
            if (seen > ALLOWED)
                tap_note("heads %zu, d %zu, n %zu: %.3g %s", heads, is.dimension, is.context, seen, error.message);
            worst = fmax(worst, seen);
        }
    tap_ok(tap, worst <= ALLOWED, "%s, depth %zu, %s: as composed in double (%.2g)",
           parameterizations[parameterization], depth,
           space == ICL_SPACE_TOKENS ? "in token space" : "in the cheaper space", worst);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *device = tap_open_device(&tap, argc > 1 ? argv[1] : "cpu"), *ref = NULL;
    icl_error error = {0};

    if (!device)
        return tap_done(&tap);
    if (icl_backend_open(&(icl_backend_params){.spec = "ref"}, &ref, &error) != ICL_OK)
        tap_ok(&tap, false, "%s", error.message);
    for (int parameterization = 0; parameterization < PARAMETERIZATIONS && ref; parameterization++)
        for (size_t depth = 1; depth <= 5; depth++) {
            check_spaces(&tap, device, ref, parameterization, depth, ICL_SPACE_TOKENS);
            check_spaces(&tap, device, ref, parameterization, depth, ICL_SPACE_AUTO);
        }
    icl_backend_close(&ref);
    icl_backend_close(&device);
    return tap_done(&tap);
}
