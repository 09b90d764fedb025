/*
 * What an op does, by the textbook: additions and multiplications, counted alike for every device whatever its kernel does.
 *
 *   matmul                 2 m n k a batch; strict likewise
 *   linear attention       2 d e (q + k) forward, 2 d e (2 q + 3 k) backward: S = K^T V and its gradient
 *   softmax attention      2 q k (d + e) forward, 2 q k (3 d + 2 e) backward, half of that when causal; exponentials are not counted
 *   linear transformers    icl_linear_transformer_flops: of the cheapest formulation, not of what the device runs
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

static double linear_transformer_flops(const icl_case *c, bool gradient) {
    const int outputs = icl_op_infos[c->op].outputs, tokens = outputs + 1, gram = outputs + 2;
    const bool gram_given = c->rank[tokens] < 0;
    const size_t d = c->shape[gram_given ? gram : tokens][2] - 1, batch = c->shape[0][0];
    const size_t n = gram_given ? 0 : c->shape[tokens][1] - 1;
    return icl_linear_transformer_flops(&c->params.linear_transformer, d, n, batch, gradient);
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
