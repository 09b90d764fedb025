/* Declarations that the files of the ops share. Each of these files has the exact results of an op, or of a family of
 * ops, and then their cases. */
#ifndef ICLAB_CONFORMANCE_CASES_H
#define ICLAB_CONFORMANCE_CASES_H

#include "conformance/case.h"

/* The list of cases. Running out of memory is remembered and reported once, at the end. */
struct icl_case_list {
    icl_case *cases;
    uint32_t seed;
    size_t count, capacity;
    icl_status status;
    icl_error *error;
    icl_case *wanted; /* if not NULL, only this case is looked for: its op, and the beginning of its name */
    bool is_found;    /* and it is complete now */
};

/* Gives an operand its extents, of which the first `rank` count; a rank of -1 leaves the operand out. */
void icl_case_set_shape(icl_case *c, int operand, int rank, size_t s0, size_t s1, size_t s2, size_t s3);

/* Adds the case in every layout. Its name is `what`, followed by shapes, layout and values. */
void icl_cases_add(icl_case_list *list, icl_case c, const char *what);

/* Writes values of the case's kind, as icl_case_inputs does for an op without a domain; is_positive: their
 * magnitudes. */
void icl_case_values(const icl_case *c, int operand, bool is_positive, float *values);

/* Replaces the largest finite numbers by 1, of either sign. */
void icl_case_without_largest(size_t count, float *values);

/* Returns value number `index` of a kind, from its random word and the value before it. */
float icl_case_value(icl_values kind, uint32_t word, size_t index, float previous);

/* The truths of recurrence.c, which are in recurrence_truth.c. */
icl_status icl_truth_recurrence_forward(icl_truth *truth, icl_error *error);
icl_status icl_truth_recurrence_backward(icl_truth *truth, icl_error *error);

/* Computes what the forward pass would have given: final, reads or states of recurrence_backward. */
icl_status icl_truth_recurrence_results(const icl_case *c, int wanted, float *const *operands, icl_error *error);

/* Products and sums that round once, for truths that must match every bit. */
static inline float icl_strict_product(float a, float b) {
    const volatile float rounded = a * b;
    return rounded;
}

static inline float icl_strict_sum(float a, float b) {
    const volatile float rounded = a + b;
    return rounded;
}

/* ---- Rows of a description ---- */

/* Defines call_NAME for icl_described_op.call: an expression in c, on, t and error. */
#define ICL_CASE_CALL(name, expression)                                                                                \
    static icl_status call_##name(const icl_case *c, icl_backend *on, const icl_tensor *t, icl_error *error) {         \
        (void)c;                                                                                                       \
        return expression;                                                                                             \
    }

/* The members of an icl_described_op: its rows to time, and other members by name. */
#define ICL_DESCRIBED(rows, ...)                                                                                       \
    { .timed = (rows), .timed_count = sizeof(rows) / sizeof *(rows), __VA_ARGS__ }

/* clang-format off */
#define ICL_ABSENT         {-1, {0}}
#define ICL_AXIS(a)        {1, {a}}
#define ICL_AXES2(a, b)    {2, {a, b}}
#define ICL_AXES3(a, b, c) {3, {a, b, c}}
#define ICL_AXES4(a, b, c, d) {4, {a, b, c, d}}
/* clang-format on */

/* Elements that exceed the nearest caches, and the sequences of the literature's steps: 2048 of 20 pairs in 20
 * dimensions. */
#define ICL_MILLIONS  ((size_t)4 << 20)
#define ICL_BATCH     2048
#define ICL_SEQUENCES ICL_AXES3(ICL_BATCH, 21, 21)

/* Rounds numbers to bfloat16: to 8 digits, ties to even, and without subnormal numbers. */
void icl_round_to_bf16(double *values, size_t count);

#endif
