/* Linear transformers on GPUs as straight-line programs give the same bits as the interpreter of steps, in every form,
 * space and depth, with norms and clipping. argv: a device; the test runs the kernels of GPUs on it. */
#include <stdlib.h>

#include "backend/opencl/linear_transformer/linear_transformer.h"
#include "fused.h"

/* The results of one of the two kernels. */
typedef struct outcome {
    double predictions[MAX_BATCH], losses[MAX_BATCH], gradient[3][MAX_PARAMETERS], norms[MAX_BATCH];
} outcome;

/* Computes the gradient, the one with clipped sequences, and the one without norms. */
static void run_gradients(fused *f, outcome *out) {
    run_gradient(f, (icl_tensor){0});
    tap_need(icl_tensor_read_double(f->losses, out->losses, tap_error()));
    tap_need(icl_tensor_read_double(f->model.gradient, out->gradient[0], tap_error()));
    tap_need(icl_tensor_read_double(f->norms, out->norms, tap_error()));
    tap_need(icl_fill(f->model.backend, f->threshold, out->norms[0], tap_error()));
    run_gradient(f, f->threshold);
    tap_need(icl_tensor_read_double(f->model.gradient, out->gradient[1], tap_error()));
    icl_tensor_release(&f->norms);
    run_gradient(f, (icl_tensor){0});
    tap_need(icl_tensor_read_double(f->model.gradient, out->gradient[2], tap_error()));
}

/* Computes predictions, then gradients. Returns how many launches of the gradients were straight-line programs. */
static size_t run_all(tap_run *tap, const char *spec, const char *kernels, const setting *config, size_t depth,
                      given how, outcome *out) {
    icl_backend *backend = NULL;
    size_t compared = 0;
    fused f;

    memset(out, 0, sizeof *out);
    setenv("ICLAB_OPENCL_CHOICES", kernels, 1);
    tap_need(icl_backend_open(&(icl_backend_params){.spec = spec}, &backend, tap_error()));
    fused_open(&f, backend, config, depth, how);
    run_predict(&f, out->predictions);
    const size_t before = icl_opencl_of(backend)->linear->straight_launches; /* includes self-test and prediction */
    run_gradients(&f, out);
    const size_t straight = icl_opencl_of(backend)->linear->straight_launches - before;
    for (const icl_linear_program *p = icl_opencl_of(backend)->linear->programs; p; p = p->next)
        compared += p->is_compared;
    tap_ok(tap, compared == 0, "%s: a program that is asked for is not compared", kernels);
    fused_close(&f);
    icl_backend_close(&backend);
    return straight;
}

static void check(tap_run *tap, const char *spec, const setting *config, size_t depth, given how) {
    static outcome steps, lines;
    const size_t by_steps = run_all(tap, spec, "linear=steps", config, depth, how, &steps);
    const size_t by_lines = run_all(tap, spec, "linear=straight", config, depth, how, &lines);

    tap_ok(tap,
           steps.gradient[0][0] != 0.0 && by_steps == 0 && by_lines == 3 && memcmp(&steps, &lines, sizeof steps) == 0,
           "%s, d %zu, n %zu, depth %zu of %zu, heads %zu, from %s: the same bits",
           parameterizations[config->parameterization], config->dimension, config->context, depth, config->layers,
           config->heads, given_names[how]);
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
