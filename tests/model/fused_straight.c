/*
 * Linear transformers on GPUs as straight-line programs: the same bits as the interpreter of steps gives, in every
 * form, space and depth, with norms and clipping. argv: a device; the test runs the kernels of GPUs on it.
 */
#include <stdlib.h>

#include "backend/opencl/linear_transformer/linear_transformer.h"
#include "fused.h"

/* What one of the two kernels gives. */
typedef struct outcome {
    double predictions[MAX_BATCH], losses[MAX_BATCH], gradient[3][MAX_PARAMETERS], norms[MAX_BATCH];
} outcome;

/* The gradient, the one of clipped sequences, and the one without norms. */
static icl_status run_gradients(fused *f, outcome *out, icl_error *error) {
    const icl_tensor norms = f->norms;
    icl_status status = ICL_OK;

    ICL_TRY(run_gradient(f, (icl_tensor){0}, error));
    ICL_TRY(icl_tensor_read_double(f->losses, out->losses, error));
    ICL_TRY(icl_tensor_read_double(f->model.gradient, out->gradient[0], error));
    ICL_TRY(icl_tensor_read_double(f->norms, out->norms, error));
    ICL_TRY(icl_fill(f->model.backend, f->threshold, out->norms[0], error));
    ICL_TRY(run_gradient(f, f->threshold, error));
    ICL_TRY(icl_tensor_read_double(f->model.gradient, out->gradient[1], error));
    f->norms = (icl_tensor){0};
    status = run_gradient(f, (icl_tensor){0}, error);
    f->norms = norms;
    ICL_TRY(status);
    ICL_TRY(icl_tensor_read_double(f->model.gradient, out->gradient[2], error));
done:
    return status;
}

/* Predictions alone, and gradients; and how many of these launches were of straight-line programs. */
static icl_status run_all(const char *spec, const char *kernels, const setting *is, size_t depth, given how,
                          outcome *out, size_t *straight, icl_error *error) {
    icl_status status = ICL_OK;
    icl_backend *backend = NULL;
    fused f = {0};

    memset(out, 0, sizeof *out);
    setenv("ICLAB_OPENCL_CHOICES", kernels, 1);
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = spec}, &backend, error));
    ICL_TRY(fused_open(&f, backend, is, depth, how, error));
    ICL_TRY(run_predict(&f, out->predictions, error));
    const size_t before = icl_opencl_of(backend)->linear->straight_launches; /* self-test and prediction among them */
    ICL_TRY(run_gradients(&f, out, error));
    *straight = icl_opencl_of(backend)->linear->straight_launches - before;
    for (const icl_linear_program *p = icl_opencl_of(backend)->linear->programs; p; p = p->next)
        if (p->is_compared)
            status = icl_fail(error, ICL_ERROR_DEVICE, "%s: a program that was asked for was compared", kernels);
done:
    if (backend)
        fused_close(&f);
    icl_backend_close(&backend);
    return status;
}

static void check(tap_run *tap, const char *spec, const setting *is, size_t depth, given how) {
    static outcome steps, lines;
    size_t launches[2] = {0};
    icl_error error = {0};
    const bool ran = run_all(spec, "linear=steps", is, depth, how, &steps, &launches[0], &error) == ICL_OK &&
                     run_all(spec, "linear=straight", is, depth, how, &lines, &launches[1], &error) == ICL_OK;

    if (!ran)
        tap_note("%s", error.message);
    tap_ok(tap,
           ran && steps.gradient[0][0] != 0.0 && launches[0] == 0 && launches[1] == 3 &&
               memcmp(&steps, &lines, sizeof steps) == 0,
           "%s, d %zu, n %zu, depth %zu of %zu, heads %zu, from %s: the same bits",
           parameterizations[is->parameterization], is->dimension, is->context, depth, is->layers, is->heads,
           given_names[how]);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    const char *spec = argc > 1 ? argv[1] : "opencl:pocl";

    setenv("ICLAB_OPENCL_KERNELS", "gpu", 1);
    icl_backend *device = tap_open_device(&tap, spec);
    if (!device)
        return tap_done(&tap);
    icl_backend_close(&device);
    static const struct {
        setting is;
        size_t depth;
        given how;
    } cases[] = {
        {{ICL_LINEAR_FULL, true, 1, 4, 4, 9, 5}, 4, GIVEN_GRAM},
        {{ICL_LINEAR_FULL, true, 2, 4, 3, 7, 3}, 3, GIVEN_TOKENS_FOR_GRAM},
        {{ICL_LINEAR_FULL, true, 1, 3, 7, 2, 3}, 3, GIVEN_TOKENS},
        {{ICL_LINEAR_DIAG, true, 1, 4, 4, 9, 5}, 4, GIVEN_TOKENS_FOR_GRAM},
        {{ICL_LINEAR_GDPP, true, 2, 4, 4, 9, 5}, 4, GIVEN_GRAM},
        {{ICL_LINEAR_SPARSE, true, 1, 2, 20, 24, 2}, 2, GIVEN_GRAM},
        {{ICL_LINEAR_SPARSE_B, true, 1, 3, 4, 9, 5}, 3, GIVEN_GRAM},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(&tap, spec, &cases[i].is, cases[i].depth, cases[i].how);
    return tap_done(&tap);
}
