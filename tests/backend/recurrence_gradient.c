/* Gradients of the recurrence in double. The cases of conformance pass states that were rounded to floats; here the
 * backward pass of "ref" gets what its own forward pass saved, and must be exact to 1e-12 of the largest number of each
 * gradient, in every one of those cases. argv: device. */
#include <math.h>

#include "conformance/case.h"
#include "core/allocate.h"
#include "tap.h"

enum { OPERANDS = ICL_RECURRENCE_BACKWARD_INPUTS + ICL_RECURRENCE_INPUTS };

typedef struct gradients {
    float *values[ICL_MAX_OPERANDS];
    icl_tensor t[ICL_MAX_OPERANDS], out;
    icl_truth truth;
} gradients;

static icl_status create(icl_backend *backend, const icl_case *c, gradients *g, icl_error *error) {
    *g = (gradients){.truth = {.c = c, .unit = 0x1p-53}};
    for (int i = OPERANDS; i-- > 0;) {
        const size_t count = icl_case_count(c, i);
        if (c->rank[i] < 0)
            continue;
        ICL_CHECK(icl_allocate(count, sizeof(float), "gradients", &g->values[i], error));
        ICL_CHECK(icl_allocate(count, sizeof(double), "gradients", &g->truth.operand[i], error));
        ICL_CHECK(icl_allocate(count, sizeof(double), "gradients", &g->truth.bound[i], error));
        ICL_CHECK(icl_tensor_create(backend, 4, c->shape[i], &g->t[i], error));
        if (i < ICL_RECURRENCE_INPUTS)
            continue;
        ICL_CHECK(icl_case_inputs(c, i, g->values, error));
        ICL_CHECK(icl_tensor_write(g->t[i], g->values[i], error));
        for (size_t e = 0; e < count; e++)
            g->truth.operand[i][e] = (double)g->values[i][e];
    }
    return icl_tensor_create(backend, 4, c->shape[ICL_RECURRENCE_BACKWARD_D_OUT], &g->out, error);
}

static void destroy(gradients *g) {
    for (int i = 0; i < OPERANDS; i++) {
        icl_free(&g->values[i]);
        icl_free(&g->truth.operand[i]);
        icl_free(&g->truth.bound[i]);
        icl_tensor_release(&g->t[i]);
    }
    icl_tensor_release(&g->out);
}

/* Runs the forward pass, which writes what the backward pass reads, then the backward pass, and finds the truth. */
static icl_status run(icl_backend *backend, const icl_case *c, gradients *g, icl_error *error) {
    const icl_tensor *tensor = g->t + ICL_RECURRENCE_BACKWARD_INPUTS;
    const icl_recurrence_inputs inputs = {tensor[0], tensor[1], tensor[2], tensor[3],
                                          tensor[4], tensor[5], tensor[6], tensor[7]};
    const icl_recurrence_saved saved = {g->t[ICL_RECURRENCE_BACKWARD_READS], g->t[ICL_RECURRENCE_BACKWARD_STATES]};

    ICL_CHECK(icl_recurrence_forward(backend, &c->params.recurrence.params, g->out, g->t[ICL_RECURRENCE_BACKWARD_FINAL],
                                     &saved, &inputs, error));
    ICL_CHECK(icl_describe(c->op)->call(c, backend, g->t, error));
    return icl_describe(c->op)->truth(&g->truth, error);
}

/* Finds the largest error of all gradients, each relative to its largest number. */
static icl_status find_worst(const icl_case *c, const gradients *g, double *worst, icl_error *error) {
    double *got = NULL;
    icl_status status = ICL_OK;

    *worst = 0;
    for (int i = 0; i < ICL_RECURRENCE_INPUTS; i++) {
        const size_t count = icl_case_count(c, i);
        double largest = 0, error_here = 0;
        if (count == 0)
            continue;
        icl_free(&got);
        ICL_TRY(icl_allocate(count, sizeof *got, "gradients", &got, error));
        ICL_TRY(icl_tensor_read_double(g->t[i], got, error));
        for (size_t e = 0; e < count; e++) {
            const double off = fabs(got[e] - g->truth.operand[i][e]);
            largest = fmax(largest, fabs(g->truth.operand[i][e]));
            error_here = off <= error_here ? error_here : off; /* NaN stays */
        }
        const double share = error_here == 0 ? 0 : error_here / largest;
        *worst = share <= *worst ? *worst : share;
    }
done:
    icl_free(&got);
    return status;
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_error error = {0};
    icl_case *cases = NULL;
    size_t count = 0;
    icl_backend *backend = argc > 1 ? tap_open_device(&tap, argv[1]) : NULL;

    if (!backend || !tap_status(&tap, icl_cases_create(0, &cases, &count, &error), &error, "build the cases"))
        return tap_done(&tap);
    for (size_t i = 0; i < count; i++) {
        gradients g;
        double worst = 0;
        if (cases[i].op != ICL_OP_recurrence_backward || cases[i].layout != ICL_LAYOUT_PLAIN)
            continue;
        icl_status status = create(backend, &cases[i], &g, &error);
        if (status == ICL_OK)
            status = run(backend, &cases[i], &g, &error);
        if (status == ICL_OK)
            status = find_worst(&cases[i], &g, &worst, &error);
        tap_ok(&tap, status == ICL_OK && worst <= 1e-12, "%.*s, %zu tokens: off by %.3g%s%s",
               (int)cases[i].title_length, cases[i].name, cases[i].shape[ICL_RECURRENCE_BACKWARD_D_OUT][2], worst,
               status == ICL_OK ? "" : ": ", status == ICL_OK ? "" : error.message);
        destroy(&g);
    }
    icl_free(&cases);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
