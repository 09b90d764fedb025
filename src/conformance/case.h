/*
 * Conformance cases: one op on given shapes, layouts and values, the exact result, and how far a device may be from it.
 *
 * The truth is computed here by plain double loops that share no code with any backend. Each element has a forward
 * error bound that any conforming device meets, derived in the op's file (standard model of floating-point arithmetic:
 * N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., chapters 2-4; elementary functions: the
 * error limits of the OpenCL 1.2 specification, section 7.4). An error above its bound is a bug; there is no tolerance.
 */
#ifndef ICLAB_CONFORMANCE_CASE_H
#define ICLAB_CONFORMANCE_CASE_H

#include "backend/contract.h"
#include "backend/op_families.h"
#include "iclab/compare.h"
#include "iclab/ops_gram.h"
#include "iclab/ops_linear_transformer.h"
#include "iclab/ops_sequence.h"

/* What the inputs hold. */
typedef enum icl_values {
    ICL_VALUES_RANDOM = 0, /* normal */
    ICL_VALUES_INTEGERS,   /* small whole numbers: sums and products are exact, so index errors show exactly */
    ICL_VALUES_LARGE,      /* normal times 2^40 */
    ICL_VALUES_SMALL,      /* normal times 2^-40 */
    ICL_VALUES_CANCELLING, /* pairs x, -x (1 + 2^-12): sums are far smaller than their terms */
    ICL_VALUES_SPECIAL,    /* random with NaN, infinities, zeros of both signs, and the largest number */
    ICL_VALUES_ABSORBED,   /* 1, then terms that vanish when each is added to 1: a sum in plain order loses them */
    ICL_VALUES_WIDE,       /* normal times 2^5: so large that some exponentials become infinite or 0 */
    ICL_VALUES_COUNT
} icl_values;

/* How the operands lie in memory. In every layout each buffer has guard elements around the operand and in its gaps. */
typedef enum icl_layout {
    ICL_LAYOUT_PLAIN = 0,  /* contiguous */
    ICL_LAYOUT_PADDED,     /* a slice of a larger tensor: gaps on every axis and an odd offset */
    ICL_LAYOUT_TRANSPOSED, /* padded, and the last two axes swapped in memory */
    ICL_LAYOUT_HEADS,      /* padded, the middle two of four axes swapped in memory; only if an operand has four */
    ICL_LAYOUT_COUNT
} icl_layout;

/* The keys of a recurrence, and the strengths that go with them. */
typedef enum icl_recurrence_keys {
    ICL_KEYS_NORMAL = 0, /* as all values */
    ICL_KEYS_UNIT,       /* keys of length 1, strengths from 0 to 1 */
    ICL_KEYS_WIDE,       /* keys of length 1, strengths from 0 to 2 */
    ICL_KEYS_REPEATED,   /* one key of length 1, strength 1.9 */
    ICL_KEYS_LONG,       /* one key of length 1, strength 2.25: the state grows by 1.25 a token */
    ICL_KEYS_COUNT
} icl_recurrence_keys;

/* The logarithms of a recurrence's gates. */
typedef enum icl_recurrence_decays {
    ICL_DECAYS_ORDINARY = 0, /* -softplus(normal - 3) */
    ICL_DECAYS_STRONG,       /* from -2 to 0 */
    ICL_DECAYS_RARE,         /* ordinary, but some are -40 */
    ICL_DECAYS_FORGET,       /* ordinary, but some are -infinity */
    ICL_DECAYS_GROW          /* up and down again within a segment */
} icl_recurrence_decays;

typedef struct icl_recurrence_case {
    icl_recurrence_params params;
    icl_recurrence_keys keys;
    icl_recurrence_decays decays;
} icl_recurrence_case;

typedef union icl_case_params {
    double value; /* fill */
    icl_random_params random;
    icl_draw_params draw;
    icl_distinct_params distinct;
    icl_gram_params gram;
    icl_unary_kind unary;
    icl_binary_kind binary;
    icl_scale_add_params scale_add;
    icl_reduce_params reduce;
    icl_matmul_params matmul;
    icl_attention_params attention;
    icl_linear_transformer_params linear_transformer;
    icl_update_params update;
    icl_recurrence_case recurrence;
    icl_normalize_params normalize;
    struct {
        double fraction;
        bool is_first; /* there is no value yet */
    } threshold;
    bool inverse; /* rotate */
} icl_case_params;

typedef struct icl_case {
    char name[ICL_CASE_NAME_CAPACITY]; /* unique: "matmul (7x5)(7x33)(33x5) padded random" */
    size_t title_length;               /* length of the part of the name before the shapes: the op and its kind */
    icl_op op;
    icl_case_params params;
    icl_values values;
    icl_layout layout;
    unsigned in_place; /* bit i: input i is the first output's own view, which is then read and overwritten */
    /* If > 0, errors may be tolerance * (1 + |exact|), except where the bound is 0: there it stays 0. */
    double tolerance;
    bool runs_once; /* otherwise it runs twice, to see whether the second run gives the same bits */
    uint32_t seed;
    int rank[ICL_MAX_OPERANDS]; /* -1: absent operand */
    size_t shape[ICL_MAX_OPERANDS][ICL_MAX_RANK];
} icl_case;

/* Creates every case, in a fixed order; the seed chooses the values. *cases is freed with icl_free. */
icl_status icl_cases_create(uint32_t seed, icl_case **cases, size_t *count, icl_error *error);

/* Finds the first case of the op whose name begins with `name`, in the plain layout and with the seed of 0.
 * ICL_ERROR_INPUT if there is none. */
icl_status icl_case_find(icl_op op, const char *name, icl_case *found, icl_error *error);

/* Returns whether the names of two cases have the same part before the shapes: the op and its kind. */
bool icl_case_same_title(const icl_case *a, const icl_case *b);

/* Returns the number of elements of an operand; 0 if it is absent. */
size_t icl_case_count(const icl_case *c, int operand);

/* Return whether the op reads the operand's old values (it is an input, or an output that is updated), and whether an
 * input is the first output's own view. */
bool icl_case_is_read(const icl_case *c, int operand);
bool icl_case_is_shared(const icl_case *c, int operand);

/* Writes the initial values of one operand, inputs and updated states alike, as floats in row-major order. Some depend
 * on others (a softmax backward pass needs the forward pass's results), so `operands` holds all operands written
 * before, last to first. */
icl_status icl_case_inputs(const icl_case *c, int operand, float *const *operands, icl_error *error);

/* The exact result and its bound for one device precision. */
typedef struct icl_truth {
    const icl_case *c;
    double unit; /* unit roundoff of the device: 2^-24, or 2^-53 */
    icl_precision precision;
    /* In: all values as given; out: the outputs are replaced by the exact results. */
    double *operand[ICL_MAX_OPERANDS];
    double *bound[ICL_MAX_OPERANDS]; /* outputs only; NULL for inputs */
} icl_truth;

/* gamma_k = k u / (1 - k u), Higham (3.1): the relative error of k roundings in a row. */
double icl_gamma(double k, double unit);

/* Returns a parameter as the device sees it: rounded once to its precision. */
double icl_device_rounded(const icl_truth *truth, double value);

/* ---- What is known of an op beside its slot in a backend ---- */

/* The list of cases while it is built (cases.h). */
typedef struct icl_case_list icl_case_list;

/* Operands with which the benchmark times an op. */
typedef struct icl_timed_shape {
    const char *name;
    icl_case_params params;
    struct {
        int rank; /* -1: absent */
        size_t of[ICL_MAX_RANK];
    } shapes[ICL_MAX_OPERANDS];
    bool is_long; /* timed only if its name is asked for */
} icl_timed_shape;

/* Each op has one constant, icl_described_NAME, in the file of its family. */
typedef struct icl_described_op {
    /* Calls the op on these operands; those that are absent have no buffer. */
    icl_status (*call)(const icl_case *c, icl_backend *backend, const icl_tensor *operands, icl_error *error);

    /* Replaces the outputs by the exact results and fills in their bounds. */
    icl_status (*truth)(icl_truth *truth, icl_error *error);

    /* Adds the cases. If a family adds them all at once, its first op has this function and the others have NULL. */
    void (*cases)(icl_case_list *list);

    /* Writes inputs within the op's domain, as icl_case_inputs does. NULL: the domain is all numbers. */
    void (*inputs)(const icl_case *c, int operand, float *const *operands);

    /* Overwrites an operand of a backward pass that the forward pass computes, and leaves any other. NULL: there is
     * none. */
    icl_status (*results)(const icl_case *c, int operand, float *const *operands, icl_error *error);

    /* Returns whether the op reads the old values of an output. NULL: it reads none. */
    bool (*is_updated)(const icl_case *c, int output);

    /* Returns the additions and multiplications of one call by the textbook, the same for every device, whatever its
     * kernel does. NULL: they are not counted, because bytes are what matters. */
    double (*flops)(const icl_case *c);

    /* Overwrites operands of the benchmark, which all hold normal numbers before, if the op needs other values. */
    icl_status (*fill)(const icl_case *c, icl_backend *backend, const icl_tensor *operands, icl_error *error);
    const icl_timed_shape *timed;
    size_t timed_count;
} icl_described_op;

const icl_described_op *icl_describe(icl_op op);

/* Runs the case on a backend and judges it. The status says whether it could be run at all. In either case the result
 * must be cleared. */
icl_status icl_case_run(const icl_case *c, icl_backend *backend, icl_case_result *result, icl_error *error);
void icl_case_result_clear(icl_case_result *result);

bool icl_case_passed(const icl_case_result *result);

#endif
