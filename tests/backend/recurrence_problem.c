#include "recurrence_problem.h"

#include <float.h>
#include <math.h>

#include "conformance/case.h"
#include "core/allocate.h"

double problem_normal(uint32_t seed, uint32_t stream, size_t index) {
    return (double)icl_normal_from_word(icl_random_word((icl_random_key){seed, stream, 0}, index));
}

double problem_uniform(uint32_t seed, uint32_t stream, size_t index) {
    return (double)(float)(((double)icl_random_word((icl_random_key){seed, stream, 1}, index) + 0.5) * 0x1p-32);
}

void problem_unit_rows(double *x, size_t rows, size_t width) {
    for (size_t row = 0; row < rows; row++, x += width) {
        double squares = 0;
        for (size_t i = 0; i < width; i++)
            squares += x[i] * x[i];
        for (size_t i = 0; i < width; i++)
            x[i] = (double)(float)(x[i] / sqrt(squares));
    }
}

bool is_double(icl_backend *backend) {
    return icl_backend_capabilities(backend)->element_size == sizeof(double);
}

static size_t width_of(const problem *p, int input) {
    const size_t m = p->m, n = p->n;
    return (const size_t[ICL_RECURRENCE_INPUTS]){m, m, n, 1, p->decay_width, m, m, n}[input];
}

size_t problem_count(const problem *p, int input) {
    return p->batch * p->heads * (input == ICL_RECURRENCE_STATE ? p->m : p->tokens) * width_of(p, input);
}

size_t problem_outs(const problem *p) {
    return p->batch * p->heads * p->tokens * p->n;
}

size_t problem_finals(const problem *p) {
    return p->batch * p->heads * p->m * p->n;
}

icl_status problem_add(problem *p, int input, icl_error *error) {
    ICL_CHECK(icl_allocate(problem_count(p, input), sizeof(double), "problem", &p->values[input], error));
    memset(p->values[input], 0, problem_count(p, input) * sizeof(double));
    return ICL_OK;
}

void problem_clear(problem *p) {
    for (int i = 0; i < ICL_RECURRENCE_INPUTS; i++)
        icl_free(&p->values[i]);
}

icl_status problem_fill(problem *p, unsigned with, double strength, uint32_t seed, icl_error *error) {
    const size_t rows = p->batch * p->heads * p->tokens;

    for (int input = 0; input < ICL_RECURRENCE_INPUTS; input++) {
        if (input > ICL_RECURRENCE_V && !(with >> input & 1))
            continue;
        ICL_CHECK(problem_add(p, input, error));
        double *x = p->values[input];
        for (size_t i = 0; i < problem_count(p, input); i++) {
            x[i] = problem_normal(seed, (uint32_t)input, i);
            if (input == ICL_RECURRENCE_BETA)
                x[i] = problem_uniform(seed, (uint32_t)input, i);
            else if (input == ICL_RECURRENCE_DECAY)
                x[i] = (double)(float)(-strength * log1p(exp(x[i] - 3)));
            else if (input == ICL_RECURRENCE_READ_KEY)
                x[i] = p->values[ICL_RECURRENCE_K][i] + 0.25 * x[i] / sqrt((double)p->m);
        }
        if (input == ICL_RECURRENCE_K || input == ICL_RECURRENCE_READ_KEY || input == ICL_RECURRENCE_WRITE_KEY)
            problem_unit_rows(x, rows, p->m);
    }
    return ICL_OK;
}

icl_status problem_part(const problem *p, size_t first, size_t count, const double *state, problem *part,
                        icl_error *error) {
    *part = (problem){p->params, p->batch, p->heads, count, p->m, p->n, p->decay_width, {NULL}};
    for (int input = 0; input < ICL_RECURRENCE_STATE; input++) {
        const size_t width = width_of(p, input);
        if (!p->values[input])
            continue;
        ICL_CHECK(problem_add(part, input, error));
        for (size_t head = 0; head < p->batch * p->heads; head++)
            memcpy(part->values[input] + head * count * width, p->values[input] + (head * p->tokens + first) * width,
                   count * width * sizeof(double));
    }
    if (!state)
        return ICL_OK;
    ICL_CHECK(problem_add(part, ICL_RECURRENCE_STATE, error));
    memcpy(part->values[ICL_RECURRENCE_STATE], state, problem_finals(p) * sizeof(double));
    return ICL_OK;
}

/* ---- Answers ---- */

void answer_clear(answer *a) {
    icl_free(&a->out);
    icl_free(&a->final);
    icl_free(&a->out_bound);
    icl_free(&a->final_bound);
}

static icl_status make_answer(const problem *p, bool with_bounds, answer *a, icl_error *error) {
    *a = (answer){0};
    ICL_CHECK(icl_allocate(problem_outs(p), sizeof(double), "answer", &a->out, error));
    ICL_CHECK(icl_allocate(problem_finals(p), sizeof(double), "answer", &a->final, error));
    if (!with_bounds)
        return ICL_OK;
    ICL_CHECK(icl_allocate(problem_outs(p), sizeof(double), "answer", &a->out_bound, error));
    return icl_allocate(problem_finals(p), sizeof(double), "answer", &a->final_bound, error);
}

icl_status problem_solve(icl_backend *backend, const problem *p, answer *got, icl_error *error) {
    icl_tensor t[ICL_RECURRENCE_INPUTS] = {{0}}, out = {0}, final = {0};
    icl_status status = ICL_OK;

    ICL_TRY(make_answer(p, false, got, error));
    ICL_TRY(icl_tensor_create(backend, 4, (const size_t[]){p->batch, p->heads, p->tokens, p->n}, &out, error));
    ICL_TRY(icl_tensor_create(backend, 4, (const size_t[]){p->batch, p->heads, p->m, p->n}, &final, error));
    for (int i = 0; i < ICL_RECURRENCE_INPUTS; i++) {
        const size_t rows = i == ICL_RECURRENCE_STATE ? p->m : p->tokens;
        if (!p->values[i])
            continue;
        ICL_TRY(
            icl_tensor_create(backend, 4, (const size_t[]){p->batch, p->heads, rows, width_of(p, i)}, &t[i], error));
        ICL_TRY(icl_tensor_write_double(t[i], p->values[i], error));
    }
    const icl_recurrence_inputs inputs = {t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7]};
    ICL_TRY(icl_recurrence_forward(backend, &p->params, out, final, NULL, &inputs, error));
    ICL_TRY(icl_tensor_read_double(out, got->out, error));
    ICL_TRY(icl_tensor_read_double(final, got->final, error));
done:
    for (int i = 0; i < ICL_RECURRENCE_INPUTS; i++)
        icl_tensor_release(&t[i]);
    icl_tensor_release(&out);
    icl_tensor_release(&final);
    return status;
}

icl_status problem_truth(icl_backend *backend, const problem *p, answer *exact, icl_error *error) {
    icl_case c = {.op = ICL_OP_recurrence_forward, .params = {.recurrence = {.params = p->params}}};
    icl_truth truth = {.c = &c, .unit = is_double(backend) ? DBL_EPSILON / 2 : (double)FLT_EPSILON / 2};
    const size_t segments = (p->tokens + ICL_RECURRENCE_SEGMENT - 1) / ICL_RECURRENCE_SEGMENT;
    const size_t rows[] = {p->tokens, p->m, p->tokens, segments * p->m};

    ICL_CHECK(make_answer(p, true, exact, error));
    for (int i = 0; i < ICL_RECURRENCE_FORWARD_INPUTS + ICL_RECURRENCE_INPUTS; i++) {
        const int input = i - ICL_RECURRENCE_FORWARD_INPUTS;
        const bool is_there = input < 0 ? i <= ICL_RECURRENCE_FINAL : p->values[input] != NULL;
        const size_t shape[] = {p->batch, p->heads,
                                input < 0                       ? rows[i]
                                : input == ICL_RECURRENCE_STATE ? p->m
                                                                : p->tokens,
                                input < 0 ? p->n : width_of(p, input)};
        c.rank[i] = is_there ? 4 : -1;
        memcpy(c.shape[i], shape, sizeof shape);
        truth.operand[i] = input < 0 ? NULL : p->values[input];
    }
    truth.operand[ICL_RECURRENCE_OUT] = exact->out;
    truth.operand[ICL_RECURRENCE_FINAL] = exact->final;
    truth.bound[ICL_RECURRENCE_OUT] = exact->out_bound;
    truth.bound[ICL_RECURRENCE_FINAL] = exact->final_bound;
    return icl_describe(c.op)->truth(&truth, error);
}

bool check_close(tap_run *tap, icl_backend *backend, const char *what, size_t count, const double *got,
                 const double *expected, const double *a, const double *b) {
    double largest = 0, worst = 0, worst_error = 0;

    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(expected[i]));
    for (size_t i = 0; i < count; i++) {
        const double error = fabs(got[i] - expected[i]), exact = 1e-12 * largest;
        const double allowed = is_double(backend) ? exact : exact + (a ? a[i] : 0) + (b ? b[i] : 0);
        const double ratio = error == 0 ? 0 : error / allowed;
        worst = ratio <= worst ? worst : ratio; /* NaN stays */
        worst_error = error <= worst_error ? worst_error : error;
    }
    return tap_ok(tap, worst <= 1, "%s: %.3g of what is allowed; off by %.3g, numbers up to %.3g", what, worst,
                  worst_error, largest);
}
