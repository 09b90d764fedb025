/*
 * Every allocation of an op on the host fails once, and then once with all that follow; on an OpenCL device every
 * argument, launch and transfer fails once. Each time the outcome is an error of one line, or results within their
 * bounds; and nothing is held afterwards. The ops run a few of conformance's cases of each op and kind.
 *
 * Then allocations and ops of conformance itself fail, one for each path of calls that leads to one, in the smallest
 * case of each op and kind, with such an outcome.
 */
#include "attempts.h"
#include "conformance/case.h"
#include "core/allocate.h"
#include "faults.h"

enum { MOST_ELEMENTS = 3000, ON_HOST = 3, ON_DEVICE = 2 /* cases of an op and kind */ };

typedef struct trial {
    const icl_case *c;
    const char *spec;
    icl_backend *backend; /* NULL: each attempt opens its own */
    icl_case_result result;
} trial;

static icl_status attempt(void *context, icl_error *error) {
    trial *t = context;
    icl_backend *backend = t->backend;
    icl_status status = ICL_OK;

    if (!backend)
        ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = t->spec}, &backend, error));
    ICL_TRY(icl_case_run(t->c, backend, &t->result, error));
done:
    if (!t->backend)
        icl_backend_close(&backend);
    return status;
}

static bool as_expected(const void *context) {
    return icl_case_passed(&((const trial *)context)->result);
}

static void clear(void *context) {
    icl_case_result_clear(&((trial *)context)->result);
}

static bool is_small(const icl_case *c) {
    size_t elements = 0;

    for (int i = 0; i < icl_op_infos[c->op].outputs + icl_op_infos[c->op].inputs; i++)
        elements += icl_case_count(c, i);
    return elements > 0 && elements <= MOST_ELEMENTS;
}

/* Returns the largest of the small cases in a layout: together, the layouts' cases take the most ways through an op. */
static const icl_case *choose(const icl_case *cases, size_t count, icl_layout layout) {
    const icl_case *chosen = NULL;
    size_t largest = 0;

    for (size_t i = 0; i < count && icl_case_same_title(&cases[0], &cases[i]); i++) {
        const icl_case *c = &cases[i];
        const size_t size = icl_case_count(c, icl_op_infos[c->op].outputs) + icl_case_count(c, 0);
        if (c->values == ICL_VALUES_RANDOM && c->layout == layout && is_small(c) && size > largest) {
            chosen = c;
            largest = size;
        }
    }
    return chosen;
}

/* On a device only single calls fail: whether the library makes further calls after a failure is its own affair, as
 * opencl.c shows. */
static void check_case(tap_run *tap, trial *t) {
    const fault_work work = {.attempt = attempt, .as_expected = as_expected, .clear = clear, .context = t};
    icl_error error = {0};

    /* The first run makes a device compile what it needs, and take the memory that it keeps. */
    const icl_status status = attempt(t, &error);
    const bool good = status == ICL_OK && as_expected(t);
    clear(t);
    tap_ok(tap, good, "%s%s%s", t->c->name, status == ICL_OK ? "" : ": ", error.message);
    if (good)
        fault_check(tap, &work, t->backend ? FAULT_OPENCL_WORK : FAULT_ALLOCATION, false);
    if (good && !t->backend)
        fault_check(tap, &work, FAULT_ALLOCATION, true);
}

void fault_ops(tap_run *tap, const char *spec, const char *none) {
    static const icl_layout layouts[ON_HOST] = {ICL_LAYOUT_TRANSPOSED, ICL_LAYOUT_PADDED, ICL_LAYOUT_PLAIN};
    icl_case *cases = NULL;
    icl_error error = {0};
    size_t count = 0;
    trial t = {.spec = spec};
    (void)none;
    const bool on_device = strncmp(t.spec, "opencl", strlen("opencl")) == 0;

    if (on_device && !(t.backend = tap_open_device(tap, t.spec)))
        return;
    tap_status(tap, icl_cases_create(0, &cases, &count, &error), &error, "cases");
    for (size_t first = 0; first < count;) {
        for (size_t i = 0; i < (on_device ? ON_DEVICE : ON_HOST); i++)
            if ((t.c = choose(&cases[first], count - first, layouts[i])))
                check_case(tap, &t);
        const icl_case *title = &cases[first];
        while (first < count && icl_case_same_title(title, &cases[first]))
            first++;
    }
    icl_free(&cases);
    icl_backend_close(&t.backend);
}

/* ---- Conformance itself ---- */

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

/* Returns the smallest of the cases that share the title of case `first`; *next: the index after the last of them. */
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

/* Returns a text with 'y' for each case that passed and 'n' for each other. */
static icl_status tell_cases(void *context, char **text, icl_error *error) {
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
    tap_status(tap, tell_cases(&all, &text, &error), &error, "the smallest cases");
    tap_ok(tap, text && strlen(text) > ICL_OP_COUNT && !strchr(text, 'n'), "all of them pass");
    icl_free(&text);
    fault_check_text(tap, tell_cases, &all, FAULT_ALLOCATION, FAULT_FORKED, "cases");
    fault_check_text(tap, tell_cases, &all, FAULT_OP, FAULT_FORKED, "cases");
    icl_free(&all.cases);
}
