/*
 * What an op does, by the textbook: additions and multiplications, counted alike for every device whatever its kernel does.
 *
 *   matmul                 2 m n k a batch; strict likewise
 *   linear attention       2 d e (q + k) forward, 2 d e (2 q + 3 k) backward: S = K^T V and its gradient
 *   softmax attention      2 q k (d + e) forward, 2 q k (3 d + 2 e) backward, half of that when causal; exponentials are not counted
 *   linear transformers    icl_bench_linear_flops
 *   reductions, scale_add  1 and 3 an element;  adam 14, sgd 4, and 2 of each gradient and 3 of each prediction in update_step
 *   anything else          none: bytes are what counts
 *
 * Bytes: each operand once, an output that is read as well twice.
 */
#include <math.h>

#include "lab/bench.h"

static double count_of(const icl_case *c, int operand) {
    return (double)icl_case_count(c, operand);
}

static bool is_updated(const icl_case *c, int output) {
    switch (c->op) {
    case ICL_OP_clip:
    case ICL_OP_adam_step:
    case ICL_OP_sgd_step:
    case ICL_OP_track_threshold:
        return true;
    case ICL_OP_update_step:
        return output != 3; /* measures */
    case ICL_OP_matmul:
        return output == 0 && c->params.matmul.beta != 0;
    default:
        return false;
    }
}

static double bytes_of(const icl_case *c, size_t element_size) {
    const icl_op_info *info = &icl_op_infos[c->op];
    double elements = 0;
    for (int i = 0; i < info->outputs + info->inputs; i++)
        if (c->rank[i] >= 0)
            elements += count_of(c, i) * (i < info->outputs && is_updated(c, i) ? 2 : 1);
    return elements * (double)element_size;
}

/* q [batch, queries, d], k [batch, keys, d], v [batch, keys, e] stand at `first` and behind it. */
static double attention_flops(const icl_case *c, int first, bool backward) {
    const icl_attention_params *params = &c->params.attention;
    const double batch = (double)c->shape[first][0], queries = (double)c->shape[first][1];
    const double keys = (double)c->shape[first + 1][1];
    const double d = (double)c->shape[first][2], e = (double)c->shape[first + 2][2];

    if (params->kind == ICL_ATTENTION_LINEAR)
        return batch * 2 * d * e * (backward ? 2 * queries + 3 * keys : queries + keys);
    return batch * 2 * queries * keys * (backward ? 3 * d + 2 * e : d + e) *
           (params->mask == ICL_MASK_CAUSAL ? 0.5 : 1);
}

/*
 * Of one sequence, in Gram space or in token space, D = d + 1, H heads. Of the layers in use the last two take products of a matrix with a
 * vector alone, 20 H D^2 forward and 40 H D^2 backward (6 and 12 where there is one layer). Each of the others, with its Gram matrix G:
 *
 *   dense        (4 H + 3) D^3 forward: G Q, P (G Q), A G, and half of (A G) A^T; (8 H + 5) D^3 backward
 *   diagonal     3 D^3 forward: A G and half of (A G) A^T, the rest are scalings; 5 D^3 backward
 *   sparse       8 H D^2 forward: one row of A differs from the identity; 16 H D^2 backward
 *   token space  2 n D^2 (2 H + 1) + n D (D + 1) forward: Q Z, G (Q Z), P (G Q Z) and half of Z Z^T; twice that backward
 *
 * and G of the tokens is n D (D + 1).
 */
static double layer_flops(const icl_linear_transformer_params *params, double big_d, double n, bool tokens,
                          bool gradient) {
    const double heads = params->heads > 0 ? (double)params->heads : 1, square = big_d * big_d;
    if (params->form == ICL_LINEAR_SPARSE)
        return heads * square * (gradient ? 24 : 8);
    if (tokens)
        return (2 * n * square * (2 * heads + 1) + n * big_d * (big_d + 1)) * (gradient ? 3 : 1);
    if (params->form == ICL_LINEAR_DIAG || params->form == ICL_LINEAR_GDPP)
        return square * big_d * (gradient ? 8 : 3);
    return square * big_d * (4 * heads + 3 + (gradient ? 8 * heads + 5 : 0));
}

double icl_bench_linear_flops(const icl_linear_transformer_params *params, size_t d, size_t n, size_t batch,
                              bool gram_given, bool gradient) {
    const size_t depth = params->depth > 0 ? params->depth : params->layers;
    const double big_d = (double)d + 1, heads = params->heads > 0 ? (double)params->heads : 1;
    const bool tokens =
        !gram_given && (params->space == ICL_SPACE_TOKENS || (params->space == ICL_SPACE_AUTO && n < d));
    const double first_gram = gram_given ? 0 : (double)n * big_d * (big_d + 1);
    const double last = heads * big_d * big_d * (depth > 1 ? 20 : 6) * (gradient ? 3 : 1);
    const double full = depth > 2 ? (double)(depth - 2) : 0;
    return (double)batch *
           (first_gram + full * layer_flops(params, big_d, (double)n, tokens, gradient) + last);
}

static double linear_transformer_flops(const icl_case *c, bool gradient) {
    const int outputs = icl_op_infos[c->op].outputs, tokens = outputs + 1, gram = outputs + 2;
    const bool gram_given = c->rank[tokens] < 0;
    const size_t d = c->shape[gram_given ? gram : tokens][2] - 1, batch = c->shape[0][0];
    const size_t n = gram_given ? 0 : c->shape[tokens][1] - 1;
    return icl_bench_linear_flops(&c->params.linear_transformer, d, n, batch, gram_given, gradient);
}

static double flops_of(const icl_case *c) {
    switch (c->op) {
    case ICL_OP_scale_add:
        return 3 * count_of(c, 0);
    case ICL_OP_reduce:
        return count_of(c, 1);
    case ICL_OP_matmul:
    case ICL_OP_matmul_strict:
        return 2 * count_of(c, 0) * (double)c->shape[1][c->rank[1] - 1];
    case ICL_OP_attention_forward:
        return attention_flops(c, 2, false);
    case ICL_OP_attention_backward:
        return attention_flops(c, 6, true);
    case ICL_OP_linear_transformer_predict:
        return linear_transformer_flops(c, false);
    case ICL_OP_linear_transformer_gradient:
        return linear_transformer_flops(c, true);
    case ICL_OP_adam_step:
        return 14 * count_of(c, 0);
    case ICL_OP_sgd_step:
        return 4 * count_of(c, 0);
    case ICL_OP_update_step:
        return (c->params.update.kind == ICL_UPDATE_ADAM ? 16 : 6) * count_of(c, 0) + 3 * count_of(c, 6);
    default:
        return (double)NAN;
    }
}

icl_bench_work icl_bench_work_of(const icl_case *c, size_t element_size) {
    return (icl_bench_work){flops_of(c), bytes_of(c, element_size)};
}
