/*
 * Conformance cases: one op on given shapes, layouts and values, with the exact result and how far a device may be from it.
 *
 * The truth is computed here by plain double loops that share no code with any backend, and beside each element stands
 * a forward error bound that any conforming device meets, derived in truth_*.c (standard model of floating-point
 * arithmetic: N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., chapters 2-4; elementary functions: the error
 * limits of the OpenCL 1.2 specification, section 7.4). An error above its bound is a bug, not a tolerance.
 */
#ifndef ICLAB_LAB_CONFORMANCE_CASE_H
#define ICLAB_LAB_CONFORMANCE_CASE_H

#include "backend/contract.h"

/* What the inputs hold. */
typedef enum icl_values {
    ICL_VALUES_RANDOM = 0, /* normal */
    ICL_VALUES_INTEGERS, /* small whole numbers: sums and products are exact, so index errors show exactly */
    ICL_VALUES_LARGE,    /* normal times 2^40 */
    ICL_VALUES_SMALL,    /* normal times 2^-40 */
    ICL_VALUES_CANCELLING, /* pairs x, -x (1 + 2^-12): sums far smaller than their terms */
    ICL_VALUES_SPECIAL,    /* random with NaN, infinities, zeros of both signs, and the largest number */
    ICL_VALUES_ABSORBED, /* 1, then terms that vanish when each is added to 1: what a sum in plain order loses */
    ICL_VALUES_COUNT
} icl_values;

/* How the operands lie in memory. Whatever the layout, every buffer has guard elements around and between. */
typedef enum icl_layout {
    ICL_LAYOUT_PLAIN = 0,  /* contiguous */
    ICL_LAYOUT_PADDED,     /* a slice of a larger tensor: gaps on every axis and an odd offset */
    ICL_LAYOUT_TRANSPOSED, /* padded, and the last two axes swapped in memory */
    ICL_LAYOUT_COUNT
} icl_layout;

typedef union icl_case_params {
    double value; /* fill, clip */
    icl_random_params random;
    icl_gram_params gram;
    icl_unary_kind unary;
    icl_binary_kind binary;
    icl_scale_add_params scale_add;
    icl_reduce_params reduce;
    icl_matmul_params matmul;
    icl_attention_params attention;
    icl_linear_transformer_params linear_transformer;
    icl_adam_params adam;
    icl_sgd_params sgd;
    icl_update_params update;
    struct {
        double fraction;
        bool is_first; /* there is no value yet */
    } threshold;
} icl_case_params;

typedef struct icl_case {
    char name[160]; /* unique: "matmul [7, 33] x [33, 5] padded random" */
    icl_op op;
    icl_case_params params;
    icl_values values;
    icl_layout layout;
    unsigned in_place; /* bit i: input i is the first output's own view, which is then read and overwritten */
    uint32_t seed;
    int rank[ICL_MAX_OPERANDS]; /* -1: absent operand */
    size_t shape[ICL_MAX_OPERANDS][ICL_MAX_RANK];
} icl_case;

/* Every case, in a fixed order; the seed chooses the values. *cases is freed with icl_free. */
icl_status icl_cases_create(uint32_t seed, icl_case **cases, size_t *count, icl_error *error);

/* The length of the part of the name that names the op and its kind, everything before the shapes; and whether two have it alike. */
size_t icl_case_title_length(const icl_case *c);
bool icl_case_same_title(const icl_case *a, const icl_case *b);

/* Number of elements of an operand; 0 when it is absent. */
size_t icl_case_count(const icl_case *c, int operand);

/* Writes the initial values of one operand, inputs and updated states alike, as floats in row-major order. Some depend on others (a
 * softmax backward pass needs the forward pass's results), so `operands` holds all operands written before, last to
 * first. */
void icl_case_inputs(const icl_case *c, int operand, float *const *operands);

/* The exact result and its bound for one device precision. */
typedef struct icl_truth {
    const icl_case *c;
    double unit; /* unit roundoff of the device: 2^-24, or 2^-53 */
    double *
        operand[ICL_MAX_OPERANDS]; /* in: all values as given; after: outputs replaced by the exact results */
    double *bound[ICL_MAX_OPERANDS]; /* outputs only; NULL for inputs */
} icl_truth;

/* Replaces outputs by the truth and fills their bounds. May need scratch memory. */
icl_status icl_truth_compute(icl_truth *truth, icl_error *error);

/* The truth of each op, in truth_*.c. */
icl_status icl_truth_elementwise(icl_truth *truth, icl_error *error);
icl_status icl_truth_random_fill(icl_truth *truth, icl_error *error);
icl_status icl_truth_gram_sample(icl_truth *truth, icl_error *error);
icl_status icl_truth_spherical(icl_truth *truth, icl_error *error);
icl_status icl_truth_reduce(icl_truth *truth, icl_error *error);
icl_status icl_truth_matmul(icl_truth *truth, icl_error *error);
icl_status icl_truth_attention(icl_truth *truth, icl_error *error);
icl_status icl_truth_linear_transformer(icl_truth *truth, icl_error *error);
icl_status icl_truth_optimizer(icl_truth *truth, icl_error *error);

/* gamma_k = k u / (1 - k u), Higham (3.1): the relative error of k roundings in a row. */
double icl_gamma(double k, double unit);

/* A parameter as the device sees it: rounded once to its precision. */
double icl_device_rounded(const icl_truth *truth, double value);

/* What running a case on a device showed. */
typedef struct icl_case_result {
    double
        error_over_bound; /* the largest over all output elements; infinity where a NaN, infinity or exact value is wrong */
    size_t
        worst; /* the element with that ratio, counted over all outputs in order; `worst_name` says which it is */
    char worst_name[48]; /* "out[3, 0, 7]" */
    double truth, bound; /* of the worst element */
    double max_error;    /* largest |got - truth| over finite elements */
    double rms_error;
    double max_ulp;      /* largest error in units of the truth's last place, over finite elements */
    bool specials_agree; /* NaN and infinity stand exactly where they should */
    bool guards_intact;  /* no element outside the outputs changed */
    bool repeatable;     /* a second run gave the same bits */
    bool flat;           /* the truth is constant over more than one element: the case cannot show much */
    size_t elements;     /* output elements judged */
    double *outputs;     /* [elements] what came out; freed by icl_case_result_clear */
} icl_case_result;

/* The case's op on these operands, absent ones without a buffer. */
icl_status icl_case_call(const icl_case *c, icl_backend *backend, const icl_tensor *operands,
                         icl_error *error);

/* Runs the case on a backend and judges it. The status says whether it could be run at all. Clear the result either way. */
icl_status icl_case_run(const icl_case *c, icl_backend *backend, icl_case_result *result, icl_error *error);
void icl_case_result_clear(icl_case_result *result);

bool icl_case_passed(const icl_case_result *result);

#endif
