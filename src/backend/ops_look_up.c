/* The public ops that look rows up in a table and add them up again: validation, then dispatch. */
#include <stdint.h>

#include "backend/dispatch.h"
#include "iclab/status.h"

/* That rows [..., w], table [V, w] and symbols [...] fit together. */
static icl_status check_shapes(const char *op, const char *rows_role, const icl_tensor *rows, const char *table_role,
                               const icl_tensor *table, const icl_tensor *symbols, icl_error *error) {
    if (rows->rank < 1)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %s has rank 0, expected rows along its last axis", op, rows_role);
    ICL_CHECK(icl_check_shape(op, "symbols", symbols, rows->rank - 1, rows->shape, error));
    if (table->rank != 2)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %s has rank %d, expected 2", op, table_role, table->rank);
    ICL_CHECK(icl_check_shape(op, table_role, table, 2, (const size_t[]){table->shape[0], rows->shape[rows->rank - 1]},
                              error));
    if (table->shape[0] > ICL_MOST_SYMBOLS)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %s has %zu rows, expected at most 2^24 = %zu", op, table_role,
                        table->shape[0], ICL_MOST_SYMBOLS);
    return ICL_OK;
}

icl_status icl_look_up(icl_backend *backend, icl_tensor out, icl_tensor table, icl_tensor symbols, icl_error *error) {
    static const char op[] = "look_up";
    const icl_tensor operands[] = {out, table, symbols};

    ICL_CHECK(icl_check_output(backend, op, "out", &out, error));
    ICL_CHECK(icl_check_input(backend, op, "table", &table, error));
    ICL_CHECK(icl_check_input(backend, op, "symbols", &symbols, error));
    ICL_CHECK(check_shapes(op, "out", &out, "table", &table, &symbols, error));
    ICL_CHECK(icl_check_overlap(op, &out, &table, false, error));
    ICL_CHECK(icl_check_overlap(op, &out, &symbols, false, error));
    return icl_tensor_count(&out) > 0 ? icl_dispatch(backend, ICL_OP_look_up, NULL, operands, error) : ICL_OK;
}

icl_status icl_look_up_backward(icl_backend *backend, icl_tensor d_table, icl_tensor d_out, icl_tensor symbols,
                                icl_error *error) {
    static const char op[] = "look_up_backward";
    const icl_tensor operands[] = {d_table, d_out, symbols};

    ICL_CHECK(icl_check_output(backend, op, "d_table", &d_table, error));
    ICL_CHECK(icl_check_input(backend, op, "d_out", &d_out, error));
    ICL_CHECK(icl_check_input(backend, op, "symbols", &symbols, error));
    ICL_CHECK(check_shapes(op, "d_out", &d_out, "d_table", &d_table, &symbols, error));
    ICL_CHECK(icl_check_overlap(op, &d_table, &d_out, false, error));
    ICL_CHECK(icl_check_overlap(op, &d_table, &symbols, false, error));
    if (icl_tensor_count(&symbols) > INT32_MAX)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %zu symbols, expected at most 2^31 - 1", op,
                        icl_tensor_count(&symbols));
    if (icl_tensor_count(&d_table) == 0)
        return ICL_OK;
    return icl_tensor_count(&symbols) > 0 ? icl_dispatch(backend, ICL_OP_look_up_backward, NULL, operands, error)
                                          : icl_fill(backend, d_table, 0, error);
}
