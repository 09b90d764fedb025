/* Runs every op on one device, and compares with the truth and its error bound. There is one TAP check per op and kind:
 * it names the case that is closest to its bound, or every case that fails. A case passes if each output element is
 * within its bound, nothing outside the outputs changed, and a second run gave the same bits. argv: device, or
 * bf16:DEVICE for products of bfloat16; then, to run only some cases, the beginnings of their names, or "but" and the
 * beginnings of the names that are left out. */
#include <math.h>
#include <string.h>

#include "conformance/case.h"
#include "core/allocate.h"
#include "tap.h"

#define BF16 "bf16:"

static void explain(const icl_case *c, const icl_case_result *r) {
    tap_note("%s: error/bound %.3g at %s: got %.9g, true %.9g, bound %.3g%s%s", c->name, r->error_over_bound,
             r->elements ? r->worst_name : "no element", r->elements ? r->outputs[r->worst] : 0, r->truth, r->bound,
             r->guards_intact ? "" : "; wrote outside its outputs", r->repeatable ? "" : "; a second run differs");
}

/* Runs the cases that have the first one's title. Returns how many. */
static size_t check_title(tap_run *tap, icl_backend *backend, const icl_case *cases, size_t count) {
    size_t done = 0, failed = 0;
    double worst = 0;

    for (; done < count && icl_case_same_title(&cases[0], &cases[done]); done++) {
        const icl_case *c = &cases[done];
        icl_case_result result;
        icl_error error = {0};
        const icl_status status = icl_case_run(c, backend, &result, &error);
        if (status != ICL_OK)
            tap_note("%s: %s", c->name, error.message);
        else if (!icl_case_passed(&result))
            explain(c, &result);
        failed += status != ICL_OK || !icl_case_passed(&result);
        worst = fmax(worst, status == ICL_OK ? result.error_over_bound : 0);
        icl_case_result_clear(&result);
    }
    tap_ok(tap, failed == 0, "%.*s: %zu cases, largest error/bound %.3g", (int)cases[0].title_length, cases[0].name,
           done, worst);
    return done;
}

/* Returns whether the case is among those that the words after the device ask for. */
static bool is_wanted(const char *name, int count, char **words) {
    const bool reverse = count > 0 && strcmp(words[0], "but") == 0;

    for (int i = reverse; i < count; i++)
        if (strncmp(name, words[i], strlen(words[i])) == 0)
            return !reverse;
    return reverse || count == 0;
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_error error = {0};
    icl_case *cases = NULL;
    size_t count = 0, checked = 0;
    const bool is_bf16 = argc > 1 && strncmp(argv[1], BF16, strlen(BF16)) == 0;
    icl_backend *backend = argc < 2  ? NULL
                           : is_bf16 ? tap_open_device_at(&tap, argv[1] + strlen(BF16), ICL_PRECISION_BF16)
                                     : tap_open_device(&tap, argv[1]);

    if (!backend)
        return tap_done(&tap);
    if (!tap_status(&tap, icl_cases_create(0, &cases, &count, &error), &error, "build the cases"))
        return tap_done(&tap);
    for (size_t first = 0; first < count;) {
        const bool runs = is_wanted(cases[first].name, argc - 2, argv + 2);
        const size_t done = runs ? check_title(&tap, backend, &cases[first], count - first) : 0;
        first += runs ? done : 1;
        checked += done;
    }
    tap_ok(&tap, checked > 0, "%zu cases on %s", checked, icl_backend_capabilities(backend)->spec);
    const icl_backend_statistics statistics = icl_backend_get_statistics(backend);
    tap_ok(&tap, statistics.fallbacks == 0, "no op fell back to the host");
    icl_backend_close(&backend);
    icl_free(&cases);
    return tap_done(&tap);
}
