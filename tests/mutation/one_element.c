/* Tests that the conformance cases notice errors. Every op in turn is replaced by one that does the right work and then
 * changes one element of one output, by a thousandth or, for an index, by one. The cases of that op must report it: one
 * TAP check for each op, kind and output. */
#include <math.h>
#include <string.h>

#include "conformance/case.h"
#include "core/allocate.h"
#include "tap.h"

/* A backend's table with one wrong slot. The backend's `functions` points at the first member, and so at the whole
 * struct. */
typedef struct mutant {
    icl_backend_functions functions;
    const icl_backend_functions *right;
    int operand; /* the output that is changed */
} mutant;

static double changed(icl_op op, const void *params, double value) {
    const icl_reduce_params *reduce = params;
    if (op == ICL_OP_reduce && reduce->kind == ICL_ARGMAX)
        return value + 1;
    if (!isfinite(value))
        return 0;
    return value == 0 ? 0x1p-10 : value * (1 + 0x1p-10);
}

/* Changes the middle element of a view. */
static icl_status change_element(icl_backend *backend, const mutant *m, icl_op op, const void *params,
                                 const icl_tensor *out, icl_error *error) {
    size_t index = icl_tensor_count(out) / 2, position = out->offset;
    icl_status status = ICL_OK;
    double wide;
    float narrow;
    const bool is_double = backend->capabilities.element_size == sizeof wide;
    void *element = is_double ? (void *)&wide : (void *)&narrow;

    for (int axis = out->rank - 1; axis >= 0; axis--) {
        position += index % out->shape[axis] * out->stride[axis];
        index /= out->shape[axis];
    }
    ICL_TRY(m->right->buffer_read(backend, out->buffer, position, 1, element, error));
    if (is_double)
        wide = changed(op, params, wide);
    else
        narrow = (float)changed(op, params, (double)narrow);
    ICL_TRY(m->right->buffer_write(backend, out->buffer, position, 1, element, error));
done:
    return status;
}

static icl_status run_wrong(icl_op op, icl_backend *backend, const void *params, const icl_tensor *operands,
                            icl_error *error) {
    const mutant *m = (const mutant *)(const void *)backend->functions;
    const icl_tensor *out = &operands[m->operand];
    const icl_status status = m->right->ops[op](backend, params, operands, error);

    if (status != ICL_OK || !out->buffer || icl_tensor_count(out) == 0)
        return status;
    return change_element(backend, m, op, params, out, error);
}

#define WRONG_OP(name, ...)                                                                                            \
    static icl_status wrong_##name(icl_backend *backend, const void *params, const icl_tensor *operands,               \
                                   icl_error *error) {                                                                 \
        return run_wrong(ICL_OP_##name, backend, params, operands, error);                                             \
    }
ICL_EVERY_OP(WRONG_OP)
#undef WRONG_OP

static icl_op_function *const wrong_ops[ICL_OP_COUNT] = {
#define WRONG_ROW(name, ...) wrong_##name,
    ICL_EVERY_OP(WRONG_ROW)
#undef WRONG_ROW
};

/* Returns the op of the backend that writes an output of a case: its own, but from the other side the gradient of q is
 * the output of a forward pass, which has the same number. */
static icl_op writer_of(const icl_case *c, int operand) {
    const bool from_rows = c->op == ICL_OP_recurrence_backward && c->params.recurrence.params.from_rows;
    return from_rows && operand == 0 ? ICL_OP_recurrence_forward : c->op;
}

/* Runs cases first .. end - 1 on the mutant until one reports it. Returns how many it took; 0 if none did. */
static size_t cases_until_noticed(icl_backend *backend, const icl_case *cases, size_t first, size_t end, int operand) {
    const icl_backend_functions *right = backend->functions;
    const icl_op op = writer_of(&cases[first], operand);
    mutant m = {*right, right, operand};
    size_t tried = 0;
    bool noticed = false;

    m.functions.ops[op] = wrong_ops[op];
    backend->functions = &m.functions;
    for (size_t i = first; i < end && !noticed; i++) {
        icl_case_result result;
        icl_error error = {0};
        const icl_status status = icl_case_run(&cases[i], backend, &result, &error);
        if (status != ICL_OK)
            tap_note("%s: %s", cases[i].name, error.message);
        noticed = status == ICL_OK && !icl_case_passed(&result);
        tried++;
        icl_case_result_clear(&result);
    }
    backend->functions = right;
    return noticed ? tried : 0;
}

/* Says whether any of the cases has elements in that output. */
static bool has_output(const icl_case *cases, size_t first, size_t end, int operand) {
    for (size_t i = first; i < end; i++)
        if (icl_case_count(&cases[i], operand) > 0)
            return true;
    return false;
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_error error = {0};
    icl_case *cases = NULL;
    size_t count = 0, end;
    bool seen[ICL_OP_COUNT] = {false};
    icl_backend *backend = argc > 1 ? tap_open_device(&tap, argv[1]) : NULL;

    if (!backend)
        return tap_done(&tap);
    if (!tap_status(&tap, icl_cases_create(0, &cases, &count, &error), &error, "build the cases"))
        return tap_done(&tap);
    /* A device tests an op at its first use; these tests are done here, so that they do not meet the wrong op. */
    if (strncmp(icl_backend_capabilities(backend)->spec, "opencl", 6) == 0)
        tap_status(&tap, icl_opencl_test(backend, &error), &error, "the self-test of all ops");
    for (size_t first = 0; first < count; first = end) {
        const int length = (int)cases[first].title_length;
        end = first + 1;
        while (end < count && icl_case_same_title(&cases[end], &cases[first]))
            end++;
        for (int operand = 0; operand < icl_op_infos[cases[first].op].outputs; operand++) {
            if (!has_output(cases, first, end, operand))
                continue;
            const size_t tried = cases_until_noticed(backend, cases, first, end, operand);
            tap_ok(&tap, tried > 0, "%.*s, output %d: one wrong element is noticed, by case %zu of %zu", length,
                   cases[first].name, operand, tried, end - first);
            seen[cases[first].op] = true;
        }
    }
    for (int op = 0; op < ICL_OP_COUNT; op++)
        if (!seen[op])
            tap_ok(&tap, false, "%s has conformance cases", icl_op_infos[op].name);
    icl_backend_close(&backend);
    icl_free(&cases);
    return tap_done(&tap);
}
