/*
 * The gradient of every op that a tape records, for every element of every parameter.
 *
 * On "ref" it is compared with central differences in double. With h = 1e-5 and inputs of order 1, truncation is h^2
 * |f'''| / 6, about 2e-11 |f'''|, and rounding eps F / h, about 2e-11 F, where F sums the absolute values in the loss.
 * With |f'''|, F below 1000 both are below 2e-8, so that a bound of 1e-7 (1 + |gradient|) has room, and a wrong
 * formula, sign or factor exceeds it by orders of magnitude.
 *
 * On any other device it is compared with "ref": the same formulas in float. A gradient element here is a sum of at
 * most some hundred products, each with a few roundings of 6e-8, so that 2e-5 of the largest element of the gradient
 * (or 1) bounds it.
 */
#include <float.h>
#include <math.h>

#include "gradients.h"

static icl_status differences_on(icl_backend *backend, const gradient_case *c, gradient_values *v, icl_error *error) {
    const double h = 1e-5;
    gradient_machine m = {.backend = backend};
    double point[MAX_COUNT];
    icl_status status = gradient_machine_open(&m, c, error);

    for (int i = 0; status == ICL_OK && i < c->input_count; i++)
        status = icl_tensor_write(m.inputs[i], v->inputs[i], error);
    for (int i = 0; status == ICL_OK && i < c->input_count; i++) {
        const size_t count = gradient_count(&c->inputs[i]);
        for (size_t j = 0; j < count; j++)
            point[j] = (double)v->inputs[i][j];
        for (size_t j = 0; status == ICL_OK && j < count; j++) {
            double loss[2] = {0};
            for (int side = 0; status == ICL_OK && side < 2; side++) {
                point[j] = (double)v->inputs[i][j] + (side ? h : -h);
                status = icl_tensor_write_double(m.inputs[i], point, error);
                if (status == ICL_OK)
                    status = gradient_evaluate(&m, c, false, &loss[side], error);
            }
            point[j] = (double)v->inputs[i][j];
            v->gradients[i][j] = (loss[1] - loss[0]) / (2.0 * h);
        }
        if (status == ICL_OK)
            status = icl_tensor_write(m.inputs[i], v->inputs[i], error);
    }
    gradient_machine_close(&m);
    return status;
}

/* Returns the largest deviation, in units of the allowed one. */
static double deviation(const gradient_case *c, const gradient_values *seen, const gradient_values *expected,
                        bool is_ref) {
    double worst = 0.0;
    for (int i = 0; i < c->input_count; i++) {
        double largest = 1.0;
        for (size_t j = 0; j < gradient_count(&c->inputs[i]); j++)
            largest = fmax(largest, fabs(expected->gradients[i][j]));
        for (size_t j = 0; j < gradient_count(&c->inputs[i]); j++) {
            const double allowed = is_ref ? 1e-7 * (1.0 + fabs(expected->gradients[i][j])) : 2e-5 * largest;
            const double ratio = fabs(seen->gradients[i][j] - expected->gradients[i][j]) / allowed;
            worst = isnan(ratio) ? HUGE_VAL : fmax(worst, ratio);
        }
    }
    return worst;
}

void gradient_check(bench *b, const gradient_case *c) {
    static gradient_values seen, expected;
    const size_t live = icl_backend_get_statistics(b->device).bytes_live;
    const bool is_ref = b->device == b->ref;
    icl_error error = {0};
    icl_status status;
    double worst;

    gradient_fill(c, &seen);
    gradient_fill(c, &expected);
    status = gradient_take(b->device, c, &seen, &error);
    if (status == ICL_OK)
        status = is_ref ? differences_on(b->ref, c, &expected, &error) : gradient_take(b->ref, c, &expected, &error);
    if (status != ICL_OK) {
        tap_note("%s", error.message);
        tap_ok(&b->tap, false, "%s", c->name);
        return;
    }
    worst = deviation(c, &seen, &expected, is_ref);
    if (worst > 1.0)
        for (int i = 0; i < c->input_count; i++)
            for (size_t j = 0; j < gradient_count(&c->inputs[i]) && j < 8; j++)
                tap_note("input %d[%zu]: %.9g, expected %.9g", i, j, seen.gradients[i][j], expected.gradients[i][j]);
    tap_ok(&b->tap, worst <= 1.0 && icl_backend_get_statistics(b->device).bytes_live == live,
           "%s: deviation over bound %.2g", c->name, worst);
}

int main(int argc, char **argv) {
    bench b = {0};
    icl_error error = {0};
    const char *spec = argc > 1 ? argv[1] : "ref";

    b.device = tap_open_device(&b.tap, spec);
    if (!b.device)
        return tap_done(&b.tap);
    b.ref = b.device;
    if (icl_backend_capabilities(b.device)->element_size != sizeof(double) &&
        !tap_status(&b.tap, icl_backend_open(&(icl_backend_params){.spec = "ref"}, &b.ref, &error), &error,
                    "open ref")) {
        icl_backend_close(&b.device);
        return tap_done(&b.tap);
    }
    check_every(&b);
    if (b.ref != b.device)
        icl_backend_close(&b.ref);
    icl_backend_close(&b.device);
    return tap_done(&b.tap);
}
