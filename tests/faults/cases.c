/*
 * Allocations and ops of conformance fail, one for each path of calls that leads to one: in the smallest case of each
 * op and kind. Each time the outcome is an error of one line, or that of no fault, and nothing is held afterwards.
 */
#include "attempts.h"
#include "conformance/case.h"
#include "core/allocate.h"
#include "faults.h"

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

typedef struct all_cases {
    icl_case *cases;
    size_t count;
} all_cases;

/* The smallest case of those with the title of the first; *next: behind the last of them. */
static const icl_case *smallest_of(const all_cases *all, size_t first, size_t *next) {
    const icl_case *smallest = &all->cases[first];

    for (*next = first; *next < all->count; ++*next) {
        const icl_case *c = &all->cases[*next];
        if (!icl_case_same_title(&all->cases[first], c))
            break;
        if (size_of(c) > 0 && (size_of(smallest) == 0 || size_of(c) < size_of(smallest)))
            smallest = c;
    }
    return smallest;
}

/* 'y' for each case that passed, 'n' for each other. */
static icl_status tell(void *context, char **text, icl_error *error) {
    const all_cases *all = context;
    icl_case_result result = {0};
    icl_backend *backend = NULL;
    size_t done = 0;
    icl_status status = ICL_OK;

    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &backend, error));
    ICL_TRY(icl_allocate(all->count + 1, 1, "an answer", text, error));
    for (size_t first = 0; first < all->count; done++) {
        ICL_TRY(icl_case_run(smallest_of(all, first, &first), backend, &result, error));
        (*text)[done] = icl_case_passed(&result) ? 'y' : 'n';
        icl_case_result_clear(&result);
    }
done:
    icl_case_result_clear(&result);
    icl_backend_close(&backend);
    return status;
}

void fault_cases(tap_run *tap) {
    icl_error error = {0};
    all_cases all = {0};
    char *text = NULL;

    if (!tap_status(tap, icl_cases_create(0, &all.cases, &all.count, &error), &error, "build the cases"))
        return;
    tap_status(tap, tell(&all, &text, &error), &error, "the smallest cases");
    tap_ok(tap, text && strlen(text) > ICL_OP_COUNT && !strchr(text, 'n'), "all of them pass");
    icl_free(&text);
    fault_check_text(tap, tell, &all, FAULT_ALLOCATION, FAULT_FORKED, "cases");
    fault_check_text(tap, tell, &all, FAULT_OP, FAULT_FORKED, "cases");
    icl_free(&all.cases);
}
