/* Gram matrices drawn without tokens. */
#include "conformance/cases.h"

#include <stdio.h>

/* Contexts shorter and longer than d + 1, batches that do not fill the lanes, with roots and without. */
static void cases(icl_case_list *list) {
    static const struct {
        size_t batch, d, n;
    } sizes[] = {{1, 1, 1}, {37, 2, 9},    {5, 3, 0},    {17, 5, 3},     {9, 4, 4},
                 {9, 4, 5}, {18, 4, 1000}, {33, 10, 10}, {130, 20, 1000}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int roots = 0; roots < 2; roots++) {
            const size_t batch = sizes[s].batch, d = sizes[s].d, n = sizes[s].n;
            const icl_random_params uniform = {.distribution = ICL_UNIFORM, .low = 0.25F, .high = 5};
            const icl_random_params choice = {.distribution = ICL_CHOICE, .choice_count = 3, .choices = {1, 3, 5}};
            icl_case c = {
                .op = ICL_OP_gram_sample,
                .params = {
                    .gram = {.key = {7, 3, UINT64_C(1) << 33}, .context = n, .noise_level = s % 2 ? choice : uniform}}};
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

ICL_CASE_CALL(gram_sample, icl_gram_sample(on, &c->params.gram, t[0], t[1], t[2], t[3], t[4], t[5], t[6], error))

static icl_status fill(const icl_case *c, icl_backend *backend, const icl_tensor *operands, icl_error *error) {
    (void)c;
    return icl_fill(backend, operands[5], 0.5, error);
}

static const icl_timed_shape timed[] = {
    {"gram_sample d 20 n 20 (2048)",
     {.gram = {.key = {.seed = 1}, .context = 20, .noise_level = {.distribution = ICL_UNIFORM, .high = 1}}},
     {ICL_SEQUENCES, ICL_AXES2(ICL_BATCH, 21), ICL_AXIS(ICL_BATCH), ICL_AXES2(ICL_BATCH, 20), ICL_AXIS(ICL_BATCH),
      ICL_AXES3(20, ICL_CHI_PIECES, ICL_CHI_TERMS), ICL_ABSENT}},
};

const icl_described_op icl_described_gram_sample =
    ICL_DESCRIBED(timed, .call = call_gram_sample, .truth = icl_truth_gram_sample, .cases = cases, .fill = fill);
