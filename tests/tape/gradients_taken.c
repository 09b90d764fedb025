/* A case of gradients on a device: its inputs, its loss, and the gradients that the tape computes. */
#include <math.h>
#include <stdint.h>

#include "gradients.h"

size_t gradient_count(const shape *s) {
    size_t count = 1;
    for (int i = 0; i < s->rank; i++)
        count *= s->extent[i];
    return count;
}

/* Returns a number of order 1, at least 0.1 away from 0, where some ops have a kink. */
static float number(uint32_t word, bool positive) {
    const float u = (float)(word >> 8) * 0x1p-24f;
    if (positive)
        return 0.3f + 1.7f * u;
    return u < 0.5f ? -2.0f + 3.8f * u : 0.1f + 3.8f * (u - 0.5f);
}

void gradient_fill(const gradient_case *c, gradient_values *v) {
    for (int i = 0; i < c->input_count; i++)
        for (size_t j = 0; j < gradient_count(&c->inputs[i]); j++)
            v->inputs[i][j] = number(
                icl_random_word((icl_random_key){.seed = 7, .stream = (uint32_t)i, .step = (uint64_t)c->kind}, j),
                c->positive);
}

/* Returns a scalar that depends on every element of `out` with another weight. */
static icl_variable weigh(icl_tape *tape, icl_variable out, icl_tensor weights) {
    const icl_tensor value = icl_tape_value(tape, out);
    if (!value.buffer)
        return out;
    const icl_tensor part =
        icl_tensor_reshape(icl_tensor_slice(weights, 0, 0, icl_tensor_count(&value)), value.rank, value.shape);
    const icl_variable weighted = icl_tape_binary(tape, ICL_MULTIPLY, out, icl_tape_constant(tape, part));
    return icl_tape_reduce(tape, ICL_SUM, (1u << value.rank) - 1, weighted);
}

icl_status gradient_machine_open(gradient_machine *m, const gradient_case *c, icl_error *error) {
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

void gradient_machine_close(gradient_machine *m) {
    icl_tape_destroy(&m->tape);
    for (int i = 0; i < MAX_INPUTS; i++) {
        icl_tensor_release(&m->inputs[i]);
        icl_tensor_release(&m->gradients[i]);
    }
    icl_tensor_release(&m->weights);
}

icl_status gradient_evaluate(gradient_machine *m, const gradient_case *c, bool backward, double *loss,
                             icl_error *error) {
    icl_variable inputs[MAX_INPUTS];
    icl_variable out;
    icl_status status;

    icl_tape_reset(m->tape);
    for (int i = 0; i < c->input_count; i++)
        inputs[i] = backward ? icl_tape_parameter(m->tape, m->inputs[i], m->gradients[i])
                             : icl_tape_constant(m->tape, m->inputs[i]);
    out = weigh(m->tape, c->build(m->tape, inputs, c), m->weights);
    status = icl_tape_status(m->tape, error);
    if (status == ICL_OK && out.index < 0)
        status = icl_fail(error, ICL_ERROR_DEVICE, "%s: its own numbers were not written", c->name);
    if (status == ICL_OK && backward)
        status = icl_tape_backward(m->tape, out, error);
    return status == ICL_OK ? icl_tensor_read_double(icl_tape_value(m->tape, out), loss, error) : status;
}

icl_status gradient_take(icl_backend *backend, const gradient_case *c, gradient_values *v, icl_error *error) {
    gradient_machine m = {.backend = backend};
    double loss;
    icl_status status = gradient_machine_open(&m, c, error);

    for (int i = 0; status == ICL_OK && i < c->input_count; i++) {
        status = icl_tensor_write(m.inputs[i], v->inputs[i], error);
        if (status == ICL_OK)
            status = icl_fill(backend, m.gradients[i], (double)NAN, error);
    }
    if (status == ICL_OK)
        status = gradient_evaluate(&m, c, true, &loss, error);
    for (int i = 0; status == ICL_OK && i < c->input_count; i++)
        status = icl_tensor_read_double(m.gradients[i], v->gradients[i], error);
    gradient_machine_close(&m);
    return status;
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

void check_every(bench *b) {
    check_elementwise(b);
    check_reductions(b);
    check_matmul(b);
    check_attention(b);
    check_losses(b);
    check_tokens(b);
    check_views(b);
    check_recurrence(b);
    check_normalize(b);
    check_cross_entropy(b);
}
