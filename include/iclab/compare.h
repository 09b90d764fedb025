/* `iclab compare`: runs every conformance case on two devices and judges each against the exact result (the truth). */
#ifndef ICLAB_COMPARE_H
#define ICLAB_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/backend.h"

ICL_C_BEGIN

/* What a case showed. */
typedef enum icl_verdict {
    ICL_VERDICT_PASS = 0,
    ICL_VERDICT_FAIL,       /* outside its bound, wrote outside its outputs, or not repeatable */
    ICL_VERDICT_MISTRUSTED, /* within bounds, but the truth is constant, so that the case could not show an error */
    ICL_VERDICT_SKIPPED,    /* a device could not run the case; `reason` says why */
    ICL_VERDICT_COUNT
} icl_verdict;

/* "PASS", "FAIL", "MISTRUSTED", "SKIP". */
ICL_API const char *icl_verdict_name(icl_verdict verdict);

/* Bytes of a case's name, the NUL at its end included. */
#define ICL_CASE_NAME_CAPACITY 384

/* The outcome of one case on one device. */
typedef struct icl_case_result {
    /* The largest error/bound over all output elements; infinity if a NaN, infinity or exact value is wrong. */
    double error_over_bound;
    /* The element with that ratio, counted over all outputs in order; `worst_name` says which it is. */
    size_t worst;
    char worst_name[48]; /* "out[3, 0, 7]" */
    double truth, bound; /* of the worst element */
    double max_error;    /* largest |got - truth| over finite elements */
    double rms_error;    /* root of the mean square of |got - truth| */
    double max_ulp;      /* largest error in units of the truth's last place, over finite elements */
    bool specials_agree; /* NaN and infinity stand exactly where they should */
    bool guards_intact;  /* no element outside the outputs changed */
    bool repeatable;     /* a second run gave the same bits */
    bool flat;           /* the truth is constant over more than one element: the case cannot show much */
    size_t elements;     /* output elements judged */
    double *outputs;     /* [elements] the outputs; freed by icl_case_result_clear */
} icl_case_result;

/* One case. Everything is valid during the callback only. */
typedef struct icl_comparison {
    const char *name;                /* unique name of the case: "matmul [7, 33] x [33, 5] padded random" */
    const char *op;                  /* name of its op */
    size_t title_length;             /* length of the name's part before the shapes: the op and its kind */
    icl_case_result device, against; /* each device's result, judged against the truth at its own precision */
    double bit_equal;                /* share of elements that the two devices agree on in every bit (as float) */
    icl_verdict verdict;             /* verdict on both devices together */
    char reason[256];                /* why it failed or was skipped; empty when it passed */
} icl_comparison;

/* All cases. */
typedef struct icl_compare_summary {
    size_t cases;                            /* cases that were run */
    size_t left_out;                         /* matching cases that were left out because the time was over */
    size_t verdicts[ICL_VERDICT_COUNT];      /* how many of each */
    double worst;                            /* the largest error/bound of either device */
    char worst_name[ICL_CASE_NAME_CAPACITY]; /* case of that error */
} icl_compare_summary;

/* Receives a case. A failure ends the comparison. */
typedef icl_status icl_comparison_callback(void *user, const icl_comparison *comparison, icl_error *error);

/* What to compare. */
typedef struct icl_compare_params {
    icl_backend *device, *against; /* the two devices, both judged against the truth */
    const char *pattern;           /* a case's full name, or a part of it; NULL for every case */
    uint32_t seed;                 /* seed of the values; 0 is the default set */
    /* Seconds after which no new case begins, except the first; cases are then ordered so that all ops get a turn. 0:
     * runs all cases, op by op. */
    double seconds;
    icl_comparison_callback *callback; /* gets each case; may be NULL */
    void *user;                        /* handed to the calls above */
} icl_compare_params;

/* Runs the cases that match, one callback each. A case that fails is a result, not an error; ICL_ERROR_INPUT when
 * nothing matches; ICL_ERROR_INTERRUPTED when a device was asked to stop (icl_backend_stop_on). */
ICL_API icl_status icl_compare(const icl_compare_params *params, icl_compare_summary *summary, icl_error *error);

ICL_C_END

#endif
