/*
 * Allocations and ops of conformance fail, one for each path of calls that leads to one: in the smallest case of each
 * op and kind. Each time the outcome is an error of one line, or that of no fault, and nothing is held afterwards.
 */
#include "attempts.h"
#include "conformance/case.h"
#include "core/allocate.h"

static size_t size_of(const icl_case *c) {
    size_t size = 0;

    for (int i = 0; i < ICL_MAX_OPERANDS; i++) {
        size_t count = c->rank[i] < 0 ? 0 : 1;
        for (int axis = 0; axis < c->rank[i]; axis++)
            count *= c->shape[i][axis];
        size += count;
    }
    return size;
}

static icl_status tell(void *context, char **text, icl_error *error) {
    const icl_case *c = context;
    icl_case_result result = {0};
    icl_backend *backend = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &backend, error));
    ICL_TRY(icl_case_run(c, backend, &result, error));
    ICL_TRY(icl_allocate(2, 1, "an answer", text, error));
    **text = icl_case_passed(&result) ? 'y' : 'n';
done:
    icl_case_result_clear(&result);
    icl_backend_close(&backend);
    return status;
}

int main(void) {
    tap_run tap = {0};
    icl_error error = {0};
    icl_case *cases = NULL;
    size_t count = 0;

    if (!tap_status(&tap, icl_cases_create(0, &cases, &count, &error), &error, "build the cases"))
        return tap_done(&tap);
    for (size_t first = 0, next; first < count; first = next) {
        const icl_case *smallest = &cases[first];
        char title[64];
        for (next = first; next < count && icl_case_same_title(&cases[first], &cases[next]); next++)
            if (size_of(&cases[next]) > 0 && (size_of(smallest) == 0 || size_of(&cases[next]) < size_of(smallest)))
                smallest = &cases[next];
        snprintf(title, sizeof title, "%.*s", (int)icl_case_title_length(smallest), smallest->name);
        fault_check_branches(&tap, tell, (void *)smallest, FAULT_ALLOCATION, title);
        fault_check_branches(&tap, tell, (void *)smallest, FAULT_OP, title);
    }
    icl_free(&cases);
    return tap_done(&tap);
}
