/* Rows on spheres. */
#include "conformance/cases.h"

/* One row and many, of one element and more than the lanes, with a radius and without; written over the input, too. */
static void cases(icl_case_list *list) {
    static const struct {
        int rank;
        size_t shape[3];
    } sizes[] = {{1, {7}}, {2, {37, 1}}, {2, {130, 5}}, {3, {3, 21, 20}}, {3, {17, 4, 33}}};
    static const icl_values values[] = {ICL_VALUES_RANDOM, ICL_VALUES_INTEGERS, ICL_VALUES_LARGE, ICL_VALUES_SMALL};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++)
            for (unsigned radius = 0; radius < 2; radius++) {
                const size_t *shape = sizes[s].shape;
                const int rank = sizes[s].rank;
                icl_case c = {.op = ICL_OP_spherical, .values = values[v], .in_place = v == 0 && s > 1 ? 2 : 0};
                icl_case_set_shape(&c, 0, rank, shape[0], shape[1], shape[2], 0);
                icl_case_set_shape(&c, 1, rank, shape[0], shape[1], shape[2], 0);
                icl_case_set_shape(&c, 2, radius ? rank : -1, rank > 1 ? shape[0] : 1, rank > 2 ? shape[1] : 1, 1, 0);
                icl_case_set_shape(&c, 3, radius ? 2 : -1, ICL_CHI_PIECES, ICL_CHI_TERMS, 0, 0);
                icl_cases_add(list, c, radius ? "spherical radius" : "spherical");
            }
}

ICL_CASE_CALL(spherical, icl_spherical(on, t[0], t[1], t[2], t[3], error))

static const icl_timed_shape timed[] = {
    {"spherical radius d 20 n 20 (2048)",
     {0},
     {ICL_AXES3(ICL_BATCH, 21, 20), ICL_AXES3(ICL_BATCH, 21, 20), ICL_AXES3(ICL_BATCH, 21, 1),
      ICL_AXES2(ICL_CHI_PIECES, ICL_CHI_TERMS)}},
};

const icl_described_op icl_described_spherical =
    ICL_DESCRIBED(timed, .call = call_spherical, .truth = icl_truth_spherical, .cases = cases);
