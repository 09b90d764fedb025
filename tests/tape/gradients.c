/*
 * The gradient of every op that a tape records, every element of every parameter.
 *
 * On "ref" against central differences in double. With h = 1e-5 and inputs of order 1, truncation is h^2
 * |f'''| / 6, about 2e-11 |f'''|, and rounding eps F / h, about 2e-11 F, where F sums the absolute values in
 * the loss. With |f'''|, F below 1000 both are below 2e-8, so a bound of 1e-7 (1 + |gradient|) has room, and
 * a wrong formula, sign or factor misses it by orders of magnitude.
 *
 * On any other device against "ref": the same formulas in float. A gradient element here is a sum of at most
 * some hundred products, each with a few roundings of 6e-8, so 2e-5 of the largest element of the gradient
 * (or 1) bounds it.
 */
#include <float.h>
#include <math.h>
#include <stdint.h>

#include "gradients.h"

typedef struct values {
    float inputs[MAX_INPUTS][MAX_COUNT];
    double gradients[MAX_INPUTS][MAX_COUNT];
} values;

size_t gradient_count(const shape *s) {
    size_t count = 1;
    for (int i = 0; i < s->rank; i++)
        count *= s->extent[i];
    return count;
}

/* Numbers of order 1 that stay 0.1 away from 0, where some ops have a kink. */
static float number(uint32_t word, bool positive) {
    const float u = (float)(word >> 8) * 0x1p-24f;
    if (positive)
        return 0.3f + 1.7f * u;
    return u < 0.5f ? -2.0f + 3.8f * u : 0.1f + 3.8f * (u - 0.5f);
}

static void fill_inputs(const gradient_case *c, values *v) {
    for (int i = 0; i < c->input_count; i++)
        for (size_t j = 0; j < gradient_count(&c->inputs[i]); j++)
            v->inputs[i][j] = number(
                icl_random_word((icl_random_key){.seed = 7, .stream = (uint32_t)i, .step = (uint64_t)c->kind}, j),
                c->positive);
}

/* A scalar that depends on every element of `out` with another weight. */
static icl_variable weigh(icl_tape *tape, icl_variable out, icl_tensor weights) {
    const icl_tensor value = icl_tape_value(tape, out);
    if (!value.buffer)
        return out;
    const icl_tensor part =
        icl_tensor_reshape(icl_tensor_slice(weights, 0, 0, icl_tensor_count(&value)), value.rank, value.shape);
    const icl_variable weighted = icl_tape_binary(tape, ICL_MULTIPLY, out, icl_tape_constant(tape, part));
    return icl_tape_reduce(tape, ICL_SUM, (1u << value.rank) - 1, weighted);
}

typedef struct machine {
    icl_backend *backend;
    icl_tape *tape;
    icl_tensor inputs[MAX_INPUTS], gradients[MAX_INPUTS], weights;
} machine;

static icl_status machine_open(machine *m, const gradient_case *c, icl_error *error) {
    const size_t weights = 4 * MAX_COUNT;
    float host[4 * MAX_COUNT];
    icl_status status = icl_tape_create(m->backend, &m->tape, error);

    for (size_t i = 0; i < weights; i++)
        host[i] = number(icl_random_word((icl_random_key){.seed = 99}, i), false);
    for (int i = 0; status == ICL_OK && i < c->input_count; i++) {
        status = icl_tensor_create(m->backend, c->inputs[i].rank, c->inputs[i].extent, &m->inputs[i], error);
        if (status == ICL_OK)
            status = icl_tensor_create(m->backend, c->inputs[i].rank, c->inputs[i].extent, &m->gradients[i], error);
    }
    if (status == ICL_OK)
        status = icl_tensor_create(m->backend, 1, &weights, &m->weights, error);
    return status == ICL_OK ? icl_tensor_write(m->weights, host, error) : status;
}

static void machine_close(machine *m) {
    icl_tape_destroy(&m->tape);
    for (int i = 0; i < MAX_INPUTS; i++) {
        icl_tensor_release(&m->inputs[i]);
        icl_tensor_release(&m->gradients[i]);
    }
    icl_tensor_release(&m->weights);
}

static icl_status evaluate(machine *m, const gradient_case *c, bool backward, double *loss, icl_error *error) {
    icl_variable inputs[MAX_INPUTS];
    icl_variable out;
    icl_status status;

    icl_tape_reset(m->tape);
    for (int i = 0; i < c->input_count; i++)
        inputs[i] = backward ? icl_tape_parameter(m->tape, m->inputs[i], m->gradients[i])
                             : icl_tape_constant(m->tape, m->inputs[i]);
    out = weigh(m->tape, c->build(m->tape, inputs, c), m->weights);
    status = icl_tape_status(m->tape, error);
    if (status == ICL_OK && backward)
        status = icl_tape_backward(m->tape, out, error);
    return status == ICL_OK ? icl_tensor_read_double(icl_tape_value(m->tape, out), loss, error) : status;
}

/* The tape's gradients; the tensors start as NaN, so that an element that is not written shows. */
static icl_status gradients_on(icl_backend *backend, const gradient_case *c, values *v, icl_error *error) {
    machine m = {.backend = backend};
    double loss;
    icl_status status = machine_open(&m, c, error);

    for (int i = 0; status == ICL_OK && i < c->input_count; i++) {
        status = icl_tensor_write(m.inputs[i], v->inputs[i], error);
        if (status == ICL_OK)
            status = icl_fill(backend, m.gradients[i], (double)NAN, error);
    }
    if (status == ICL_OK)
        status = evaluate(&m, c, true, &loss, error);
    for (int i = 0; status == ICL_OK && i < c->input_count; i++)
        status = icl_tensor_read_double(m.gradients[i], v->gradients[i], error);
    machine_close(&m);
    return status;
}

static icl_status differences_on(icl_backend *backend, const gradient_case *c, values *v, icl_error *error) {
    const double h = 1e-5;
    machine m = {.backend = backend};
    double point[MAX_COUNT];
    icl_status status = machine_open(&m, c, error);

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
                    status = evaluate(&m, c, false, &loss[side], error);
            }
            point[j] = (double)v->inputs[i][j];
            v->gradients[i][j] = (loss[1] - loss[0]) / (2.0 * h);
        }
        if (status == ICL_OK)
            status = icl_tensor_write(m.inputs[i], v->inputs[i], error);
    }
    machine_close(&m);
    return status;
}

/* Largest deviation in units of what is allowed. */
static double deviation(const gradient_case *c, const values *seen, const values *expected, bool is_ref) {
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
    static values seen, expected;
    const size_t live = icl_backend_get_statistics(b->device).bytes_live;
    const bool is_ref = b->device == b->ref;
    icl_error error = {0};
    icl_status status;
    double worst;

    fill_inputs(c, &seen);
    fill_inputs(c, &expected);
    status = gradients_on(b->device, c, &seen, &error);
    if (status == ICL_OK)
        status = is_ref ? differences_on(b->ref, c, &expected, &error) : gradients_on(b->ref, c, &expected, &error);
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

void gradient_describe(gradient_case *c, const char *what) {
    size_t used = (size_t)snprintf(c->name, sizeof c->name, "%s", what);
    for (int i = 0; i < c->input_count && used < sizeof c->name; i++) {
        used += (size_t)snprintf(c->name + used, sizeof c->name - used, " [");
        for (int j = 0; j < c->inputs[i].rank && used < sizeof c->name; j++)
            used +=
                (size_t)snprintf(c->name + used, sizeof c->name - used, j ? ", %zu" : "%zu", c->inputs[i].extent[j]);
        if (used < sizeof c->name)
            used += (size_t)snprintf(c->name + used, sizeof c->name - used, "]");
    }
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
    check_elementwise(&b);
    check_reductions(&b);
    check_matmul(&b);
    check_attention(&b);
    check_losses(&b);
    check_tokens(&b);
    check_views(&b);
    check_recurrence(&b);
    check_normalize(&b);
    check_cross_entropy(&b);
    if (b.ref != b.device)
        icl_backend_close(&b.ref);
    icl_backend_close(&b.device);
    return tap_done(&b.tap);
}
