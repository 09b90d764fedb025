/* Cases of Gram matrices drawn without tokens. */
#include "lab/conformance/cases.h"

#include <stdio.h>

/* Contexts shorter and longer than d + 1, batches that do not fill the lanes, with roots and without. */
void icl_cases_gram(icl_case_list *list) {
    static const struct {
        size_t batch, d, n;
    } sizes[] = {{1, 1, 1}, {37, 2, 9},    {5, 3, 0},    {17, 5, 3},     {9, 4, 4},
                 {9, 4, 5}, {18, 4, 1000}, {33, 10, 10}, {130, 20, 1000}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int roots = 0; roots < 2; roots++) {
            const size_t batch = sizes[s].batch, d = sizes[s].d, n = sizes[s].n;
            const icl_random_params uniform = {.distribution = ICL_UNIFORM, .low = 0.25F, .high = 5};
            const icl_random_params choice = {
                .distribution = ICL_CHOICE, .choice_count = 3, .choices = {1, 3, 5}};
            icl_case c = {.op = ICL_OP_gram_sample,
                          .params = {.gram = {.key = {7, 3, UINT64_C(1) << 33},
                                              .context = n,
                                              .noise_level = s % 2 ? choice : uniform}}};
            char what[64];
            icl_case_set_shape(&c, 0, 3, batch, d + 1, d + 1, 0);
            icl_case_set_shape(&c, 1, 2, batch, d + 1, 0, 0);
            icl_case_set_shape(&c, 2, 1, batch, 0, 0, 0);
            icl_case_set_shape(&c, 3, 2, batch, d, 0, 0);
            icl_case_set_shape(&c, 4, 1, batch, 0, 0, 0);
            icl_case_set_shape(&c, 5, 3, n < d + 1 ? n : d + 1, ICL_CHI_PIECES, ICL_CHI_TERMS, 0);
            icl_case_set_shape(&c, 6, roots ? 3 : -1, 2, d, d, 0);
            snprintf(what, sizeof what, "gram_sample %s%s", n > d ? "long" : "short", roots ? " rooted" : "");
            icl_cases_add(list, c, what);
        }
}
