#include "every_op_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

icl_status make(run *r, int rank, const size_t *shape, icl_tensor *tensor) {
    icl_status status = icl_tensor_create(r->backend, rank, shape, tensor, r->error);
    if (status == ICL_OK)
        r->made[r->made_count++] = *tensor;
    return status;
}

icl_status make_all(run *r, const wanted *all, size_t count) {
    icl_status status = ICL_OK;
    for (size_t i = 0; i < count && status == ICL_OK; i++)
        status = make(r, all[i].rank, all[i].shape, all[i].tensor);
    return status;
}

icl_status make_input(run *r, int rank, const size_t *shape, icl_tensor *tensor) {
    const icl_random_params params = {.key = {7, r->stream++, 1}, .first_index = 3, .distribution = ICL_NORMAL};
    icl_status status = ICL_OK;
    ICL_TRY(make(r, rank, shape, tensor));
    ICL_TRY(icl_random_fill(r->backend, &params, *tensor, r->error));
done:
    return status;
}

icl_status make_inputs(run *r, const wanted *all, size_t count) {
    icl_status status = ICL_OK;
    for (size_t i = 0; i < count && status == ICL_OK; i++)
        status = make_input(r, all[i].rank, all[i].shape, all[i].tensor);
    return status;
}

void release_all(run *r) {
    while (r->made_count > 0)
        icl_tensor_release(&r->made[--r->made_count]);
}

icl_status keep(run *r, icl_tensor tensor, const char *format, ...) {
    if (r->results->count == MAX_RESULTS)
        return icl_fail(r->error, ICL_ERROR_INPUT, "more than %d results", MAX_RESULTS);
    op_result *result = &r->results->result[r->results->count++];
    va_list arguments;
    va_start(arguments, format);
    /* clang-tidy 14 no longer sees va_start where a file is compiled a second time.
     * NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
    vsnprintf(result->name, sizeof result->name, format, arguments);
    va_end(arguments);
    result->count = icl_tensor_count(&tensor);
    result->values = malloc((result->count + 1) * sizeof *result->values);
    if (!result->values)
        return icl_fail(r->error, ICL_ERROR_MEMORY, "no memory for a result");
    return icl_tensor_read_double(tensor, result->values, r->error);
}

icl_status keep_all(run *r, const char *title, const named *all, size_t count) {
    icl_status status = ICL_OK;
    for (size_t i = 0; i < count && status == ICL_OK; i++)
        status = keep(r, all[i].tensor, "%s: %s", title, all[i].name);
    return status;
}

void free_results(op_results *results) {
    for (size_t i = 0; i < results->count; i++)
        free(results->result[i].values);
    results->count = 0;
}
