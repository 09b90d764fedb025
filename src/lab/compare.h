/* `iclab compare`: every conformance case on two devices, beside the truth. */
#ifndef ICLAB_LAB_COMPARE_H
#define ICLAB_LAB_COMPARE_H

#include "lab/conformance/case.h"

typedef enum icl_verdict {
    ICL_VERDICT_PASS = 0,
    ICL_VERDICT_FAIL,       /* outside its bound, wrote outside its outputs, or not repeatable */
    ICL_VERDICT_MISTRUSTED, /* within bounds, but the truth is constant, so that the case could not show an error */
    ICL_VERDICT_SKIPPED, /* a device could not run the case; `reason` says why */
    ICL_VERDICT_COUNT
} icl_verdict;

/* "PASS", "FAIL", "MISTRUSTED", "SKIP". */
const char *icl_verdict_name(icl_verdict verdict);

/* One case. Everything is valid during the callback only. */
typedef struct icl_comparison {
    const icl_case *c;
    icl_case_result device, against; /* each judged against the truth at its own precision */
    double bit_equal; /* share of elements that the two devices agree on in every bit (as float) */
    icl_verdict verdict;
    char reason[256]; /* why it failed or was skipped; empty when it passed */
} icl_comparison;

typedef struct icl_compare_summary {
    size_t cases;
    size_t verdicts[ICL_VERDICT_COUNT];
    double worst; /* the largest error/bound of either device, and its case */
    char worst_name[sizeof((icl_case *)0)->name];
} icl_compare_summary;

typedef icl_status icl_comparison_callback(void *user, const icl_comparison *comparison, icl_error *error);

typedef struct icl_compare_params {
    icl_backend *device, *against;
    const char *pattern; /* a case's full name, or a part of it; NULL for every case */
    uint32_t seed;       /* of the values; 0 is the default set */
    icl_comparison_callback *callback;
    void *user;
} icl_compare_params;

/* Runs the cases that match, one callback each. A case that fails is a result, not an error; ICL_ERROR_INPUT when nothing matches. */
icl_status icl_compare(const icl_compare_params *params, icl_compare_summary *summary, icl_error *error);

#endif
