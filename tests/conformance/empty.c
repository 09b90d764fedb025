/* An op whose outputs have no elements never reaches the backend: conformance cases, and the backend's count of ops. An
 * axis of one element may have any stride, even 0. */
#include "conformance/case.h"
#include "core/allocate.h"
#include "tap.h"

static size_t written(const icl_case *c) {
    size_t elements = 0;

    for (int i = 0; i < icl_op_infos[c->op].outputs; i++)
        elements += icl_case_count(c, i);
    return elements;
}

static void check_case(tap_run *tap, icl_backend *backend, const icl_case *c) {
    const uint64_t before = icl_backend_get_statistics(backend).ops;
    icl_case_result result = {0};
    icl_error error = {0};
    const icl_status status = icl_case_run(c, backend, &result, &error);
    const uint64_t issued = icl_backend_get_statistics(backend).ops - before;

    tap_ok(tap, status == ICL_OK && icl_case_passed(&result) && issued == 0, "%s: no op%s%s", c->name,
           status == ICL_OK ? "" : ": ", error.message);
    icl_case_result_clear(&result);
}

static void check_stride(tap_run *tap, icl_backend *backend) {
    icl_tensor one = {0};
    icl_error error = {0};
    float value = 0;

    if (tap_status(tap, icl_tensor_create(backend, 2, (const size_t[]){1, 1}, &one, &error), &error, "an element")) {
        one.stride[0] = one.stride[1] = 0;
        tap_status(tap, icl_fill(backend, one, 3, &error), &error, "is written whatever its strides");
        tap_status(tap, icl_tensor_read(one, &value, &error), &error, "and read");
        tap_ok(tap, value == 3, "and has its value");
    }
    icl_tensor_release(&one);
}

/* Ops without such a case in conformance: they always write something, or all their cases have sequences. */
static const icl_op without_case[] = {ICL_OP_update_step,
                                      ICL_OP_track_threshold,
                                      ICL_OP_spherical,
                                      ICL_OP_gram_sample,
                                      ICL_OP_linear_transformer_predict,
                                      ICL_OP_linear_transformer_gradient,
                                      ICL_OP_recurrence_forward,
                                      ICL_OP_recurrence_backward};

int main(void) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, "cpu");
    bool has_case[ICL_OP_COUNT] = {0};
    icl_case *cases = NULL;
    icl_error error = {0};
    size_t count = 0;

    tap_status(&tap, icl_cases_create(0, &cases, &count, &error), &error, "cases");
    for (size_t i = 0; backend && i < count; i++)
        if (written(&cases[i]) == 0) {
            has_case[cases[i].op] = true;
            check_case(&tap, backend, &cases[i]);
        }
    for (size_t i = 0; i < sizeof without_case / sizeof *without_case; i++)
        has_case[without_case[i]] = true;
    for (int op = 0; op < ICL_OP_COUNT; op++)
        tap_ok(&tap, has_case[op], "%s has such a case", icl_op_infos[op].name);
    if (backend)
        check_stride(&tap, backend);
    icl_free(&cases);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
