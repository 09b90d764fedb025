/* Conformance's verdicts on a device that computes wrongly: one element is off (the first, one in the middle or the
 * last), the neighbour of an output is written, or a second run gives other bits. Also, cases in place are indeed in
 * place. The device is the host with one op replaced. */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <string.h>

#include "backend/contract.h"
#include "conformance/case.h"
#include "core/allocate.h"
#include "iclab/compare.h"
#include "iclab/status.h"
#include "tap.h"

#define CASE "copy (257)(257) plain random"

enum {
    COUNT = 257,
    NOTHING = -1,
    UNSTEADY = -2,
    NO_NUMBER_AT_FIRST = -3,
    NO_NUMBER_LATER = -4,
    NO_MEMORY = -5,
    NO_DEVICE = -6
};

/* The true table of the device, and the planted error: an element's number, or one of the above. */
static const icl_backend_functions *right;
static long wrong;
static unsigned calls;

static icl_status disturb(icl_tensor output, long element, bool is_number, icl_error *error) {
    const icl_tensor one = {
        .buffer = output.buffer, .offset = output.offset + (size_t)element, .rank = 1, .shape = {1}, .stride = {1}};
    double value = 0;

    ICL_CHECK(icl_tensor_read_double(one, &value, error));
    value = !is_number ? (double)NAN : isfinite(value) ? 1.001 * value + 1e-6 : 1;
    return icl_tensor_write_double(one, &value, error);
}

static icl_status copy(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    ICL_CHECK(right->ops[ICL_OP_copy](backend, params, operands, error));
    calls++;
    if (wrong == NO_MEMORY || wrong == NO_DEVICE)
        return icl_fail(error, wrong == NO_MEMORY ? ICL_ERROR_MEMORY : ICL_ERROR_DEVICE, "planted");
    if (wrong >= 0)
        return disturb(operands[0], wrong, true, error);
    if (wrong == NOTHING || (calls % 2 == 0) == (wrong == NO_NUMBER_AT_FIRST))
        return ICL_OK;
    return disturb(operands[0], 0, wrong == UNSTEADY, error);
}

static const struct {
    const char *what;
    long wrong;
    bool is_close, guards_intact, repeatable;
    const char *worst;
} cases[] = {
    {"nothing is wrong", NOTHING, true, true, true, "output 0 [0]"},
    {"the first element", 0, false, true, true, "output 0 [0]"},
    {"the second", 1, false, true, true, "output 0 [1]"},
    {"one in the middle", 100, false, true, true, "output 0 [100]"},
    {"the last", COUNT - 1, false, true, true, "output 0 [256]"},
    {"one behind the last", COUNT, true, false, true, "output 0 [0]"},
    {"another in every second run", UNSTEADY, true, true, false, "output 0 [0]"},
    {"no number in every second run", NO_NUMBER_LATER, true, true, false, "output 0 [0]"},
    {"no number but in every second run", NO_NUMBER_AT_FIRST, false, true, false, "output 0 [0]"},
};

static void check(tap_run *tap, const icl_case *c, icl_backend *backend, size_t i) {
    icl_case_result result = {0};
    icl_error error = {0};

    wrong = cases[i].wrong;
    calls = 0;
    if (tap_status(tap, icl_case_run(c, backend, &result, &error), &error, cases[i].what)) {
        tap_ok(tap, (result.error_over_bound <= 1) == cases[i].is_close && result.elements == COUNT,
               "error over bound %g of %zu elements", result.error_over_bound, result.elements);
        tap_ok(tap, strcmp(result.worst_name, cases[i].worst) == 0, "the worst is %s", result.worst_name);
        tap_ok(tap, result.guards_intact == cases[i].guards_intact && result.repeatable == cases[i].repeatable,
               "what is around it is %sintact, a second run gives %s", result.guards_intact ? "" : "not ",
               result.repeatable ? "the same" : "something else");
        tap_ok(tap, icl_case_passed(&result) == (cases[i].wrong == NOTHING), "it %s",
               icl_case_passed(&result) ? "passes" : "fails");
    }
    icl_case_result_clear(&result);
}

/* ---- Tolerances, as the self-test uses them ---- */

/* Is off by a thousandth in one element. */
static icl_status unary(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    ICL_CHECK(right->ops[ICL_OP_unary](backend, params, operands, error));
    calls++;
    return disturb(operands[0], 100, true, error);
}

/* A tolerance takes the place of the bounds, except that exact results stay exact; a case that runs once gives a
 * verdict of one run. */
static void check_tolerances(tap_run *tap, icl_backend *backend) {
    static const struct {
        icl_op op;
        const char *name;
        double tolerance;
        bool passes;
    } rows[] = {{ICL_OP_unary, "exponential (257)(257)", 0, false},
                {ICL_OP_unary, "exponential (257)(257)", 1e-5, false},
                {ICL_OP_unary, "exponential (257)(257)", 1e-2, true},
                {ICL_OP_copy, "copy (257)(257)", 1e-2, false}};

    wrong = 100;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        icl_case_result result = {0};
        icl_error error = {0};
        icl_case c;
        calls = 0;
        if (tap_status(tap, icl_case_find(rows[i].op, rows[i].name, &c, &error), &error, rows[i].name)) {
            c.tolerance = rows[i].tolerance;
            c.runs_once = true;
            tap_status(tap, icl_case_run(&c, backend, &result, &error), &error, c.name);
            tap_ok(tap,
                   icl_case_passed(&result) == rows[i].passes && calls == 1 &&
                       (rows[i].passes || strcmp(result.worst_name, "output 0 [100]") == 0),
                   "tolerance %g: error over it %g in %s, %u call", c.tolerance, result.error_over_bound,
                   result.worst_name, calls);
        }
        icl_case_result_clear(&result);
    }
}

/* A case that is found by its op and the beginning of its name is the first of those in the list of all, with the same
 * values. */
static void check_found(tap_run *tap, const icl_case *all, const icl_case *listed) {
    icl_case found;
    icl_error error = {0};

    while (all->op != ICL_OP_copy)
        all++;
    tap_ok(tap, icl_case_find(ICL_OP_copy, "copy ", &found, &error) == ICL_OK && strcmp(found.name, all->name) == 0,
           "the first copy is %s: %s", all->name, found.name);

    tap_ok(tap,
           icl_case_find(listed->op, listed->name, &found, &error) == ICL_OK && found.seed == listed->seed &&
               strcmp(found.name, listed->name) == 0 && found.title_length == listed->title_length,
           "%s is found: %s", listed->name, found.name);
    tap_ok(tap,
           icl_case_find(ICL_OP_unary, listed->name, &found, &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "no case of unary begins with"),
           "it is no case of another op: %s", error.message);
}

/* ---- Operands that are the output ---- */

static unsigned shared; /* bits of the inputs that were the first output's view in the last call */

static icl_status look(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    shared = 0;
    for (int i = 1; i < 3; i++)
        if (operands[i].buffer == operands[0].buffer && operands[i].offset == operands[0].offset)
            shared |= 1U << i;
    return right->ops[ICL_OP_binary](backend, params, operands, error);
}

/* A sum onto its first term, onto its second, onto both: each case is run in place as its name says. */
static void check_shared(tap_run *tap, const icl_case *all, size_t count, icl_backend *backend) {
    unsigned seen = 0;
    size_t others = 0;

    for (size_t i = 0; i < count; i++) {
        icl_case_result result = {0};
        icl_error error = {0};
        if (all[i].op != ICL_OP_binary || all[i].in_place == 0 || icl_case_count(&all[i], 0) == 0)
            continue;
        others += icl_case_run(&all[i], backend, &result, &error) != ICL_OK || shared != (unsigned)all[i].in_place;
        seen |= 1U << all[i].in_place;
        icl_case_result_clear(&result);
    }
    tap_ok(tap, others == 0 && seen != 0, "inputs that are the output, in ways %#x: %zu otherwise", seen, others);
}

static icl_status count_row(void *user, const icl_comparison *row, icl_error *error) {
    (void)row;
    (void)error;
    ++*(size_t *)user;
    return ICL_OK;
}

/* Results that are all equal prove little, and are mistrusted unless the op should give them. */
static void check_flat(tap_run *tap, icl_backend *backend) {
    static const struct {
        const char *pattern;
        bool is_flat;
    } flat[] = {{"copy (6x13x11)() plain random", true}, {CASE, false}, {"fill ", false}};

    for (size_t i = 0; i < sizeof flat / sizeof *flat; i++) {
        size_t rows = 0;
        const icl_compare_params params = {
            .device = backend, .against = backend, .pattern = flat[i].pattern, .callback = count_row, .user = &rows};
        icl_compare_summary summary;
        icl_error error = {0};
        tap_status(tap, icl_compare(&params, &summary, &error), &error, flat[i].pattern);
        tap_ok(tap,
               rows > 0 && rows == summary.cases &&
                   summary.verdicts[flat[i].is_flat ? ICL_VERDICT_MISTRUSTED : ICL_VERDICT_PASS] == rows,
               "%zu cases, %zu mistrusted", rows, summary.verdicts[ICL_VERDICT_MISTRUSTED]);
    }
}

/* ---- The reason of a failure ---- */

/* The last case, and its expected verdict. */
typedef struct told {
    const char *what; /* the reason; NULL: the numbers of the wrong device's worst element */
    bool is_first;    /* the compared device is wrong, not the one it is compared with */
    icl_verdict verdict;
    double bit_equal;
    char reason[256], expected[256];
} told;

static icl_status note_reason(void *user, const icl_comparison *row, icl_error *error) {
    told *t = user;
    const icl_case_result *r = t->is_first ? &row->device : &row->against;

    (void)error;
    t->verdict = row->verdict;
    t->bit_equal = row->bit_equal;
    snprintf(t->reason, sizeof t->reason, "%s", row->reason);
    if (t->what)
        snprintf(t->expected, sizeof t->expected, "%s", t->what);
    else if (r->truth != r->bound)
        snprintf(t->expected, sizeof t->expected, "ref: output 0 [100] is %.9g, truth %.9g, bound %.3g",
                 r->outputs[100], r->truth, r->bound);
    return ICL_OK;
}

/* The reason names the wrong device, whether it is the first or the second. */
static void check_reasons(tap_run *tap, icl_backend *sound) {
    static const struct {
        long wrong;
        const char *what;
        icl_verdict verdict;
        double bit_equal;
    } reasons[] = {{100, NULL, ICL_VERDICT_FAIL, (COUNT - 1.0) / COUNT},
                   {COUNT, "ref wrote outside its outputs", ICL_VERDICT_FAIL, 1},
                   {UNSTEADY, "ref gave other bits on a second run", ICL_VERDICT_FAIL, 1},
                   {NO_MEMORY, "planted", ICL_VERDICT_SKIPPED, 0},
                   {NO_DEVICE, "planted", ICL_VERDICT_FAIL, 0}};
    icl_backend *broken = tap_open_device(tap, "ref");

    if (!broken)
        return;
    icl_backend_functions planted = *broken->functions;
    planted.ops[ICL_OP_copy] = copy;
    right = broken->functions;
    broken->functions = &planted;
    for (size_t i = 0; i < 2 * (sizeof reasons / sizeof *reasons); i++) {
        told t = {.what = reasons[i / 2].what, .is_first = i % 2 == 0};
        const icl_compare_params params = {.device = t.is_first ? broken : sound,
                                           .against = t.is_first ? sound : broken,
                                           .pattern = CASE,
                                           .callback = note_reason,
                                           .user = &t};
        icl_compare_summary summary;
        icl_error error = {0};
        wrong = reasons[i / 2].wrong;
        calls = 0;
        tap_status(tap, icl_compare(&params, &summary, &error), &error, CASE);
        tap_ok(tap, t.reason[0] && strcmp(t.reason, t.expected) == 0, "the reason is \"%s\"", t.reason);
        tap_ok(tap, t.verdict == reasons[i / 2].verdict && summary.verdicts[t.verdict] == 1, "the verdict is %s",
               icl_verdict_name(t.verdict));
        tap_ok(tap, t.bit_equal == reasons[i / 2].bit_equal && (summary.worst > 1) == !t.what,
               "a share of %g is equal, the worst error over bound is %g", t.bit_equal, summary.worst);
    }
    broken->functions = right;
    icl_backend_close(&broken);
}

/* Notes the op, one bit each; a repeated op ends the comparison. */
static icl_status note_op(void *user, const icl_comparison *row, icl_error *error) {
    uint64_t *seen = user, bit = 0;

    for (int op = 0; op < ICL_OP_COUNT; op++)
        if (strcmp(icl_op_infos[op].name, row->op) == 0)
            bit = (uint64_t)1 << op;
    if (*seen & bit)
        return icl_fail(error, ICL_ERROR_INPUT, "the op %s again", row->op);
    *seen |= bit;
    return ICL_OK;
}

/* A limited comparison begins with a case of every op, misses none, and says how many cases it left out. */
static void check_limit(tap_run *tap, icl_backend *backend, const icl_case *all, size_t count) {
    icl_compare_params params = {.device = backend, .against = backend, .seconds = 1e9, .callback = note_op};
    uint64_t seen = 0, expected = 0;
    icl_compare_summary summary;
    icl_error error = {0};
    size_t rows = 0, matching = 0;

    params.user = &seen;
    for (size_t i = 0; i < count; i++) {
        expected |= (uint64_t)1 << all[i].op;
        matching += strstr(all[i].name, "copy (") != NULL;
    }
    tap_ok(tap, icl_compare(&params, &summary, &error) == ICL_ERROR_INPUT && seen == expected,
           "ops before one comes again: %#" PRIx64 " of %#" PRIx64, seen, expected);
    params = (icl_compare_params){.device = backend, .against = backend, .pattern = "copy (", .seconds = 1e9};
    params.callback = count_row;
    params.user = &rows;
    tap_ok(tap,
           icl_compare(&params, &summary, &error) == ICL_OK && rows == matching && summary.cases == rows &&
               summary.left_out == 0,
           "with time for all: %zu of %zu cases", rows, matching);
    rows = 0;
    params.seconds = 1e-9;
    tap_ok(tap,
           icl_compare(&params, &summary, &error) == ICL_OK && rows == 1 && summary.cases == 1 &&
               summary.left_out == matching - 1,
           "with time for none: %zu case, %zu left out", rows, summary.left_out);
}

typedef struct stopped_rows {
    volatile sig_atomic_t stop;
    size_t count;
} stopped_rows;

/* Asks the device to stop after the second case. */
static icl_status stop_at_second(void *user, const icl_comparison *row, icl_error *error) {
    stopped_rows *rows = user;

    (void)row, (void)error;
    rows->stop = ++rows->count == 2;
    return ICL_OK;
}

/* A device that is asked to stop ends the comparison: the case being run gets no verdict. */
static void check_stop(tap_run *tap, icl_backend *backend) {
    stopped_rows rows = {0};
    const icl_compare_params params = {
        .device = backend, .against = backend, .pattern = "copy (", .callback = stop_at_second, .user = &rows};
    icl_compare_summary summary;
    icl_error error = {0};

    icl_backend_stop_on(backend, &rows.stop);
    const icl_status status = icl_compare(&params, &summary, &error);
    tap_ok(tap, status == ICL_ERROR_INTERRUPTED && rows.count == 2 && summary.cases == 2,
           "stopped behind case 2: %zu cases, %s", rows.count, error.message);
    icl_backend_stop_on(backend, NULL);
}

int main(void) {
    tap_run tap = {0};
    icl_error error = {0};
    icl_case *all = NULL;
    size_t count = 0, at = 0;
    icl_backend *backend = tap_open_device(&tap, "cpu:threads=1");

    if (!backend || !tap_status(&tap, icl_cases_create(0, &all, &count, &error), &error, "build the cases"))
        return tap_done(&tap);
    while (at < count && strcmp(all[at].name, CASE) != 0)
        at++;
    if (tap_ok(&tap, at < count, "%s is a case", CASE)) {
        icl_backend_functions planted = *backend->functions;
        planted.ops[ICL_OP_copy] = copy;
        right = backend->functions;
        backend->functions = &planted;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            check(&tap, &all[at], backend, i);
        planted.ops[ICL_OP_unary] = unary;
        check_tolerances(&tap, backend);
        check_found(&tap, all, &all[at]);
        planted.ops[ICL_OP_binary] = look;
        check_shared(&tap, all, count, backend);
        backend->functions = right;
        check_reasons(&tap, backend);
        check_flat(&tap, backend);
        check_limit(&tap, backend, all, count);
        check_stop(&tap, backend);
    }
    icl_backend_close(&backend);
    icl_free(&all);
    return tap_done(&tap);
}
