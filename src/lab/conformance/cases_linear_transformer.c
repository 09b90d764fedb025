/* Cases of whole linear transformers: every form, from tokens in both spaces and from Gram matrices. */
#include "lab/conformance/cases.h"

#include <stdio.h>

typedef struct transformer_shape {
    size_t batch, context, size; /* size: D */
    icl_linear_transformer_params params;
    bool is_gram, has_threshold;
    icl_values values;
    bool no_norms;
} transformer_shape;

static void add_transformer(icl_case_list *list, const transformer_shape *is, icl_linear_form form,
                            bool has_gradient) {
    static const char *const forms[] = {"full", "diag", "gd++", "sparse", "sparse-b"};
    static const char *const spaces[] = {"tokens", "tokens in gram space", "tokens in token space"};
    const int first = has_gradient ? 3 : 1;
    char what[96];
    icl_case c = {.op = has_gradient ? ICL_OP_linear_transformer_gradient : ICL_OP_linear_transformer_predict,
                  .values = is->values};

    c.params.linear_transformer = is->params;
    c.params.linear_transformer.form = form;
    for (int i = 0; i < ICL_MAX_OPERANDS; i++)
        c.rank[i] = -1;
    const size_t size = icl_linear_transformer_size(&c.params.linear_transformer, is->size - 1);
    icl_case_set_shape(&c, 0, 1, is->batch, 0, 0, 0);
    icl_case_set_shape(&c, first, 1, size, 0, 0, 0);
    if (is->is_gram) {
        icl_case_set_shape(&c, first + 2, 3, is->batch, is->size, is->size, 0);
        icl_case_set_shape(&c, first + 3, 2, is->batch, is->size, 0, 0);
    } else {
        icl_case_set_shape(&c, first + 1, 3, is->batch, is->context + 1, is->size, 0);
    }
    if (has_gradient) {
        icl_case_set_shape(&c, 1, 1, size, 0, 0, 0);
        if (!is->no_norms)
            icl_case_set_shape(&c, 2, 1, is->batch, 0, 0, 0);
        icl_case_set_shape(&c, first + 4, 1, is->batch, 0, 0, 0);
        if (is->has_threshold)
            icl_case_set_shape(&c, first + 5, 1, 1, 0, 0, 0);
    }
    snprintf(what, sizeof what, "linear_transformer_%s %s (depth %zu of %zu, heads %zu, %s%s)",
             has_gradient ? "gradient" : "predict", forms[form], is->params.depth, is->params.layers,
             is->params.heads, is->is_gram ? "gram" : spaces[is->params.space],
             has_gradient && is->no_norms ? ", no norms" : "");
    icl_cases_add(list, c, what);
}

void icl_cases_linear_transformer(icl_case_list *list) {
    static const transformer_shape shapes[] = {
        /* batch, n, D, {layers, depth, heads, factor, space}, gram?, threshold?, values, no norms? */
        {3, 2, 2, {.layers = 1, .depth = 1, .heads = 1, .factor = 1}, false, false, ICL_VALUES_RANDOM},
        {5, 4, 3, {.layers = 2, .depth = 2, .heads = 1, .factor = 0.25}, true, false, ICL_VALUES_INTEGERS},
        {19, 3, 4, {.layers = 3, .depth = 3, .heads = 2, .factor = 1.0 / 3}, false, true, ICL_VALUES_RANDOM},
        {33, 20, 11, {.layers = 3, .depth = 3, .heads = 1, .factor = 0.05}, false, false, ICL_VALUES_RANDOM},
        {7,
         5,
         8,
         {.layers = 4, .depth = 4, .heads = 3, .factor = 0.2, .space = ICL_SPACE_TOKENS},
         false,
         true,
         ICL_VALUES_RANDOM},
        {7,
         5,
         8,
         {.layers = 4, .depth = 4, .heads = 3, .factor = 0.2, .space = ICL_SPACE_GRAM},
         false,
         true,
         ICL_VALUES_RANDOM},
        {17, 0, 21, {.layers = 5, .depth = 4, .heads = 1, .factor = 0.05}, true, true, ICL_VALUES_RANDOM},
        {9,
         7,
         21,
         {.layers = 4, .depth = 3, .heads = 1, .factor = 0.14, .space = ICL_SPACE_TOKENS},
         false,
         false,
         ICL_VALUES_RANDOM},
        /* two layers and more that carry tokens: fewer than coordinates, and more */
        {18,
         3,
         6,
         {.layers = 6, .depth = 5, .heads = 2, .factor = 0.33, .space = ICL_SPACE_TOKENS},
         false,
         true,
         ICL_VALUES_RANDOM},
        {5,
         9,
         5,
         {.layers = 5, .depth = 5, .heads = 1, .factor = 0.1, .space = ICL_SPACE_TOKENS},
         false,
         false,
         ICL_VALUES_RANDOM},
        {3, 3, 5, {.layers = 5, .depth = 5, .heads = 2, .factor = 0.5}, true, false, ICL_VALUES_RANDOM},
        {301, 2, 3, {.layers = 3, .depth = 3, .heads = 1, .factor = 0.5}, false, true, ICL_VALUES_RANDOM},
        {21, 6, 5, {.layers = 3, .depth = 3, .heads = 1, .factor = 0.16}, false, true, ICL_VALUES_SPECIAL},
        {21, 6, 5, {.layers = 4, .depth = 4, .heads = 2, .factor = 0.16}, true, true, ICL_VALUES_SPECIAL},
        {2, 50, 34, {.layers = 3, .depth = 3, .heads = 1, .factor = 0.02}, false, false, ICL_VALUES_RANDOM},
        {4, 0, 3, {.layers = 3, .depth = 3, .heads = 1, .factor = 1}, false, false, ICL_VALUES_RANDOM},
        /* more tokens than a kernel holds at a time */
        {3, 13, 3, {.layers = 2, .depth = 2, .heads = 1, .factor = 0.08}, false, true, ICL_VALUES_RANDOM},
        {0, 3, 3, {.layers = 2, .depth = 2, .heads = 1, .factor = 1}, false, true, ICL_VALUES_RANDOM},
        {35,
         9,
         11,
         {.layers = 4, .depth = 4, .heads = 1, .factor = 0.1},
         true,
         false,
         ICL_VALUES_RANDOM,
         true},
        /* so many sequences that a host adds up several groups of lanes */
        {290,
         6,
         5,
         {.layers = 5, .depth = 5, .heads = 2, .factor = 0.16},
         true,
         false,
         ICL_VALUES_RANDOM,
         true},
        {301, 2, 3, {.layers = 4, .depth = 4, .heads = 1, .factor = 0.5}, false, false, ICL_VALUES_RANDOM},
        {9,
         4,
         6,
         {.layers = 4, .depth = 4, .heads = 2, .factor = 0.25, .space = ICL_SPACE_TOKENS},
         false,
         false,
         ICL_VALUES_RANDOM,
         true},
    };
    for (int has_gradient = 0; has_gradient < 2; has_gradient++)
        for (int form = 0; form < ICL_LINEAR_FORM_COUNT; form++)
            for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
                if (has_gradient || !shapes[s].has_threshold || shapes[s].values == ICL_VALUES_SPECIAL ||
                    shapes[s].is_gram)
                    add_transformer(list, &shapes[s], (icl_linear_form)form, has_gradient);
}
