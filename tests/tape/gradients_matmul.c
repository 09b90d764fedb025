/* Gradients of matrix products: shared and repeated operands, views. */
#include <string.h>

#include "gradients.h"

enum { PLAIN, TRANSPOSED, ROWS_OF_A, COLUMNS_OF_B, INNER_SWAP };

static icl_variable build_matmul(icl_tape *tape, const icl_variable *inputs, const gradient_case *c) {
    icl_variable a = inputs[0], b = inputs[c->input_count - 1];
    const int rank_a = c->inputs[0].rank, rank_b = c->inputs[c->input_count - 1].rank;

    if (c->option == TRANSPOSED) {
        a = icl_tape_swap_axes(tape, a, rank_a - 1, rank_a - 2);
        b = icl_tape_swap_axes(tape, b, rank_b - 1, rank_b - 2);
    } else if (c->option == ROWS_OF_A) {
        a = icl_tape_slice(tape, a, rank_a - 2, 1, c->inputs[0].extent[rank_a - 2] - 1);
    } else if (c->option == COLUMNS_OF_B) {
        b = icl_tape_slice(tape, b, rank_b - 1, 0, 2);
    } else if (c->option == INNER_SWAP) {
        a = icl_tape_swap_axes(tape, a, 0, 1);
    }
    return icl_tape_matmul(tape, -1.5, a, b);
}

void check_matmul(bench *b) {
    static const struct {
        int option, count;
        shape inputs[2];
    } products[] = {
        {PLAIN, 2, {{2, {3, 4}}, {2, {4, 2}}}},
        {PLAIN, 2, {{3, {5, 3, 4}}, {2, {4, 2}}}},          /* shared b */
        {PLAIN, 2, {{3, {5, 3, 4}}, {3, {1, 4, 2}}}},       /* shared b of rank 3 */
        {PLAIN, 2, {{2, {3, 4}}, {3, {5, 4, 2}}}},          /* shared a */
        {PLAIN, 2, {{3, {5, 3, 4}}, {3, {5, 4, 2}}}},       /* batched */
        {PLAIN, 2, {{4, {2, 1, 3, 4}}, {4, {2, 3, 4, 2}}}}, /* a repeats along one leading axis */
        {PLAIN, 2, {{4, {2, 3, 2, 4}}, {3, {1, 4, 2}}}},
        {PLAIN, 2, {{4, {2, 1, 2, 3}}, {4, {1, 3, 3, 2}}}}, /* both repeat */
        {PLAIN, 1, {{2, {3, 3}}}},                          /* a times itself */
        {PLAIN, 1, {{3, {2, 3, 3}}}},
        {TRANSPOSED, 2, {{2, {4, 3}}, {2, {2, 4}}}},
        {TRANSPOSED, 2, {{3, {5, 4, 3}}, {2, {2, 4}}}},
        {TRANSPOSED, 2, {{3, {5, 4, 3}}, {3, {5, 2, 4}}}},
        {TRANSPOSED, 1, {{3, {2, 3, 3}}}},
        {ROWS_OF_A, 2, {{3, {4, 3, 4}}, {2, {4, 2}}}}, /* rows that do not fold */
        {ROWS_OF_A, 2, {{3, {4, 2, 4}}, {2, {4, 2}}}}, /* one row each, which do */
        {COLUMNS_OF_B, 2, {{3, {4, 3, 4}}, {2, {4, 3}}}},
        {COLUMNS_OF_B, 2, {{3, {4, 3, 4}}, {3, {4, 4, 3}}}},
        {INNER_SWAP, 2, {{3, {2, 4, 3}}, {2, {3, 2}}}},
        {PLAIN, 2, {{2, {3, 0}}, {2, {0, 2}}}},
        {PLAIN, 2, {{3, {0, 3, 4}}, {2, {4, 2}}}},
        {PLAIN, 2, {{2, {0, 4}}, {2, {4, 2}}}},
        {PLAIN, 2, {{2, {1, 1}}, {2, {1, 1}}}},
    };
    char what[64];

    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        gradient_case c = {.build = build_matmul, .option = products[i].option, .input_count = products[i].count};
        memcpy(c.inputs, products[i].inputs, sizeof products[i].inputs);
        snprintf(what, sizeof what, "matmul (view %d)", products[i].option);
        gradient_describe(&c, what);
        gradient_check(b, &c);
    }
}
