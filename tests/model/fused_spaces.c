/* The ops of whole linear transformers on a device of single precision, in token space and in the cheaper one, against
 * the same model composed of elementary ops on the tape of "ref": every form, depths, one head and two, contexts
 * shorter and longer than the tokens are wide. The conformance cases check how far a device may be from the truth. */
#include "fused.h"

#define ALLOWED 2e-5

/* Scales the tokens to a quarter: layers are then close to the identity, and deep models as well conditioned as
 * others. */
static void open_tame(fused *f, icl_backend *backend, const setting *config, size_t depth) {
    const icl_tensor none = {0};

    fused_open(f, backend, config, depth, GIVEN_TOKENS);
    tap_need(icl_scale_add(backend, f->model.tokens, 0.25, f->model.tokens, 0.0, none, tap_error()));
}

static double spaces_distance(icl_backend *device, icl_backend *ref, const setting *config, size_t depth,
                              icl_linear_space space) {
    fused f, truth;

    open_tame(&truth, ref, config, depth);
    open_tame(&f, device, config, depth);
    f.params.space = space;
    const double worst = composed_distance(&f, &truth);
    fused_close(&f);
    fused_close(&truth);
    return worst;
}

static void check_spaces(tap_run *tap, icl_backend *device, icl_backend *ref, int parameterization, size_t depth,
                         icl_linear_space space) {
    static const size_t shapes[][3] = {{6, 2, 19}, {5, 9, 4}, {9, 4, 32}, {12, 14, 3}, {4, 1, 3}}; /* d, n, batch */
    double worst = 0.0;

    for (size_t heads = 1; heads <= 2; heads++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            const setting is = {parameterization, true,         heads,       depth + (heads == 2),
                                shapes[s][0],     shapes[s][1], shapes[s][2]};
            const double seen = spaces_distance(device, ref, &is, depth, space);
            if (seen > ALLOWED)
                tap_note("heads %zu, d %zu, n %zu: %.3g", heads, is.dimension, is.context, seen);
            worst = fmax(worst, seen);
        }
    tap_ok(tap, worst <= ALLOWED, "%s, depth %zu, %s: as composed in double (%.2g)",
           parameterizations[parameterization], depth,
           space == ICL_SPACE_TOKENS ? "in token space" : "in the cheaper space", worst);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *device = tap_open_device(&tap, argc > 1 ? argv[1] : "cpu"), *ref = NULL;

    if (!device)
        return tap_done(&tap);
    tap_need(icl_backend_open(&(icl_backend_params){.spec = "ref"}, &ref, tap_error()));
    for (int parameterization = 0; parameterization < PARAMETERIZATIONS; parameterization++)
        for (size_t depth = 1; depth <= 5; depth++) {
            check_spaces(&tap, device, ref, parameterization, depth, ICL_SPACE_TOKENS);
            check_spaces(&tap, device, ref, parameterization, depth, ICL_SPACE_AUTO);
        }
    icl_backend_close(&ref);
    icl_backend_close(&device);
    return tap_done(&tap);
}
