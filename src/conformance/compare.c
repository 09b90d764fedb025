#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/case.h"
#include "core/allocate.h"
#include "core/print.h"
#include "iclab/host.h"
#include "iclab/status.h"

const char *icl_verdict_name(icl_verdict verdict) {
    static const char *const names[ICL_VERDICT_COUNT] = {"PASS", "FAIL", "MISTRUSTED", "SKIP"};
    return names[verdict];
}

static double share_of_equal_bits(const icl_case_result *a, const icl_case_result *b) {
    size_t equal = 0;
    for (size_t i = 0; i < a->elements; i++) {
        const float x = (float)a->outputs[i], y = (float)b->outputs[i];
        equal += memcmp(&x, &y, sizeof x) == 0 || (isnan(x) && isnan(y));
    }
    return a->elements > 0 ? (double)equal / (double)a->elements : 1;
}

/* Writes the sentence for one device's failure. */
static void explain(const icl_backend *backend, const icl_case_result *r, char *reason, size_t capacity) {
    const char *spec = backend->capabilities.spec;
    if (!r->guards_intact)
        snprintf(reason, capacity, "%s wrote outside its outputs", spec);
    else if (!r->repeatable)
        snprintf(reason, capacity, "%s gave other bits on a second run", spec);
    else
        icl_print(reason, capacity, "%s: %s is %.9g, truth %.9g, bound %.3g", spec, r->worst_name, r->outputs[r->worst],
                  r->truth, r->bound);
}

static void judge(const icl_compare_params *params, const icl_case *c, icl_comparison *row) {
    const bool first = icl_case_passed(&row->device), second = icl_case_passed(&row->against);
    row->bit_equal = share_of_equal_bits(&row->device, &row->against);
    if (!first)
        explain(params->device, &row->device, row->reason, sizeof row->reason);
    else if (!second)
        explain(params->against, &row->against, row->reason, sizeof row->reason);
    if (!first || !second)
        row->verdict = ICL_VERDICT_FAIL;
    else if (row->device.flat && c->op != ICL_OP_fill)
        row->verdict = ICL_VERDICT_MISTRUSTED;
}

/* Returns ICL_ERROR_INTERRUPTED if a device was asked to stop, which is no verdict. */
static icl_status run_case(const icl_compare_params *params, const icl_case *c, icl_comparison *row, icl_error *error) {
    icl_error why = {0};
    icl_status status = icl_case_run(c, params->device, &row->device, &why);
    if (status == ICL_OK)
        status = icl_case_run(c, params->against, &row->against, &why);
    if (status == ICL_ERROR_INTERRUPTED)
        return icl_fail(error, status, "%s", why.message);
    if (status == ICL_OK) {
        judge(params, c, row);
        return ICL_OK;
    }
    /* Too little memory is the machine's limit; any other error is a failure of the op. */
    row->verdict = status == ICL_ERROR_MEMORY ? ICL_VERDICT_SKIPPED : ICL_VERDICT_FAIL;
    snprintf(row->reason, sizeof row->reason, "%.*s", (int)sizeof row->reason - 1, why.message);
    return ICL_OK;
}

static void count(icl_compare_summary *summary, const icl_comparison *row) {
    const double worst = fmax(row->device.error_over_bound, row->against.error_over_bound);
    summary->cases++;
    summary->verdicts[row->verdict]++;
    if (worst > summary->worst || summary->cases == 1) {
        summary->worst = worst;
        snprintf(summary->worst_name, sizeof summary->worst_name, "%s", row->name);
    }
}

/* ---- Which cases, in which order ---- */

/* A case that matches, and its place in the order. */
typedef struct turn {
    double when;
    const icl_case *c;
} turn;

/* Fills `turns` with the cases that match: those whose name is the pattern or, if there are none, those whose name
 * contains it. */
static size_t matching(const icl_case *cases, size_t count, const char *pattern, turn *turns) {
    size_t exact = 0, found = 0;

    for (size_t i = 0; pattern && i < count; i++)
        exact += strcmp(cases[i].name, pattern) == 0;
    for (size_t i = 0; i < count; i++)
        if (!pattern || (exact ? strcmp(cases[i].name, pattern) == 0 : strstr(cases[i].name, pattern) != NULL))
            turns[found++] = (turn){(double)i, &cases[i]};
    return found;
}

static int by_turn(const void *one, const void *other) {
    const turn *a = one, *b = other;
    return a->when != b->when ? (a->when > b->when) - (a->when < b->when) : (a->c > b->c) - (a->c < b->c);
}

/*
 * Orders the cases so that any first part of them is spread over all ops, and over shapes, layouts and values of each:
 * case k of the n cases of an op is placed at n frac(k phi), with phi = (sqrt(5) - 1) / 2, whose multiples fill [0, 1)
 * evenly. The first case of every op comes first.
 */
static void spread(turn *turns, size_t count) {
    const double phi = 0.6180339887498949;
    size_t cases[ICL_OP_COUNT] = {0}, seen[ICL_OP_COUNT] = {0};

    for (size_t i = 0; i < count; i++)
        cases[turns[i].c->op]++;
    for (size_t i = 0; i < count; i++) {
        const icl_op op = turns[i].c->op;
        const double place = phi * (double)seen[op]++;
        turns[i].when = (double)cases[op] * (place - floor(place));
    }
    qsort(turns, count, sizeof *turns, by_turn);
}

/* Runs one case and hands it to the callback. */
static icl_status compare_case(const icl_compare_params *params, const icl_case *c, icl_compare_summary *summary,
                               icl_error *error) {
    icl_comparison row = {.name = c->name, .op = icl_op_infos[c->op].name, .title_length = c->title_length};

    icl_status status = run_case(params, c, &row, error);
    if (status == ICL_OK) {
        count(summary, &row);
        status = params->callback ? params->callback(params->user, &row, error) : ICL_OK;
    }
    icl_case_result_clear(&row.device);
    icl_case_result_clear(&row.against);
    return status;
}

icl_status icl_compare(const icl_compare_params *params, icl_compare_summary *summary, icl_error *error) {
    const double end = icl_clock_seconds() + params->seconds;
    icl_case *cases = NULL;
    turn *turns = NULL;
    size_t case_count = 0, turn_count;
    icl_status status = ICL_OK;

    *summary = (icl_compare_summary){0};
    ICL_TRY(icl_cases_create(params->seed, &cases, &case_count, error));
    ICL_TRY(icl_allocate(case_count, sizeof *turns, "turns of conformance cases", &turns, error));
    turn_count = matching(cases, case_count, params->pattern, turns);
    if (params->seconds > 0)
        spread(turns, turn_count);
    for (size_t i = 0; i < turn_count && (i == 0 || params->seconds <= 0 || icl_clock_seconds() < end); i++)
        ICL_TRY(compare_case(params, turns[i].c, summary, error));
    summary->left_out = turn_count - summary->cases;
    if (turn_count == 0)
        status = icl_fail(error, ICL_ERROR_INPUT, "compare: no case's name holds \"%s\"; try \"matmul\" or \"softmax\"",
                          params->pattern ? params->pattern : "");
done:
    icl_free(&turns);
    icl_free(&cases);
    return status;
}
