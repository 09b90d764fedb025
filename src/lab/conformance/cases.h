/* The list of cases while it is built, for cases_*.c: a file a family of ops, as truth_*.c. */
#ifndef ICLAB_LAB_CONFORMANCE_CASES_H
#define ICLAB_LAB_CONFORMANCE_CASES_H

#include "lab/conformance/case.h"

/* Running out of memory is remembered and reported once, at the end. */
typedef struct icl_case_list {
    icl_case *cases;
    uint32_t seed;
    size_t count, capacity;
    icl_status status;
    icl_error *error;
} icl_case_list;

/* Gives an operand its extents, of which the first `rank` count; a rank of -1 leaves the operand out. */
void icl_case_set_shape(icl_case *c, int operand, int rank, size_t s0, size_t s1, size_t s2, size_t s3);

/* Adds the case in every layout, under the name `what` with its shapes, layout and values behind it. */
void icl_cases_add(icl_case_list *list, icl_case c, const char *what);

/* Every case of a family. */
void icl_cases_elementwise(icl_case_list *list);
void icl_cases_gram(icl_case_list *list);
void icl_cases_spherical(icl_case_list *list);
void icl_cases_reduce(icl_case_list *list);
void icl_cases_matmul(icl_case_list *list);
void icl_cases_attention(icl_case_list *list);
void icl_cases_linear_transformer(icl_case_list *list);
void icl_cases_optimizer(icl_case_list *list);

#endif
