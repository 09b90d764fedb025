#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conformance/case.h"
#include "core/allocate.h"
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

/* The sentence for one device's failure. */
static void explain(const icl_backend *backend, const icl_case_result *r, char *reason, size_t capacity) {
    const char *spec = backend->capabilities.spec;
    if (!r->guards_intact)
        snprintf(reason, capacity, "%s wrote outside its outputs", spec);
    else if (!r->repeatable)
        snprintf(reason, capacity, "%s gave other bits on a second run", spec);
    else
        snprintf(reason, capacity, "%s: %s is %.9g, truth %.9g, bound %.3g", spec, r->worst_name, r->outputs[r->worst],
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

static void run_case(const icl_compare_params *params, const icl_case *c, icl_comparison *row) {
    icl_error error = {0};
    icl_status status = icl_case_run(c, params->device, &row->device, &error);
    if (status == ICL_OK)
        status = icl_case_run(c, params->against, &row->against, &error);
    if (status == ICL_OK) {
        judge(params, c, row);
        return;
    }
    /* Too little memory is the machine's limit; anything else is a case that the op should have run. */
    row->verdict = status == ICL_ERROR_MEMORY ? ICL_VERDICT_SKIPPED : ICL_VERDICT_FAIL;
    snprintf(row->reason, sizeof row->reason, "%.*s", (int)sizeof row->reason - 1, error.message);
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

icl_status icl_compare(const icl_compare_params *params, icl_compare_summary *summary, icl_error *error) {
    icl_case *cases = NULL;
    size_t case_count = 0, exact = 0;
    icl_status status = ICL_OK;

    *summary = (icl_compare_summary){0};
    ICL_TRY(icl_cases_create(params->seed, &cases, &case_count, error));
    for (size_t i = 0; params->pattern && i < case_count; i++)
        exact += strcmp(cases[i].name, params->pattern) == 0;
    for (size_t i = 0; i < case_count; i++) {
        icl_comparison row = {.name = cases[i].name,
                              .op = icl_op_infos[cases[i].op].name,
                              .title_length = icl_case_title_length(&cases[i])};
        if (params->pattern &&
            (exact ? strcmp(cases[i].name, params->pattern) != 0 : !strstr(cases[i].name, params->pattern)))
            continue;
        run_case(params, &cases[i], &row);
        count(summary, &row);
        status = params->callback ? params->callback(params->user, &row, error) : ICL_OK;
        icl_case_result_clear(&row.device);
        icl_case_result_clear(&row.against);
        ICL_TRY(status);
    }
    if (summary->cases == 0)
        status = icl_fail(error, ICL_ERROR_INPUT, "compare: no case's name holds \"%s\"; try \"matmul\" or \"softmax\"",
                          params->pattern ? params->pattern : "");
done:
    icl_free(&cases);
    return status;
}
