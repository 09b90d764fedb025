/* The attention ops: linear and softmax attention. */
#include "backend/opencl/ops.h"

#include <math.h>

#include "backend/opencl/launch.h"
#include "backend/opencl/pool.h"
#include "backend/opencl/program.h"

/* ---- Softmax attention by products ---- */

/*
 * Softmax attention by products computes scores = scale q k^T, weights by rows, out = weights v; and backward, with
 * weights from the given log_sum_exp,
 *     slopes = scale weights (d_out v^T - d_out . out),
 *     d_q = slopes k,    d_k = slopes^T q,    d_v = weights^T d_out.
 *
 * The products are those of the op, by whichever kernel serves their sizes. Scores of some rows are in memory at once:
 * of a part of the batch, and of a part of the queries if one sequence has too many. Queries that share heads of keys
 * go one after another.
 */

/* A causal mask hides what lies above the diagonal from each quarter of the queries, unless these are few. */
enum { QUARTERS = 4, FEW_QUERIES = 64 };

/* The division of the scores into parts. */
typedef struct plan {
    icl_opencl *opencl;
    size_t batch, groups, shared; /* shared: heads of queries that read one head of keys */
    size_t queries, sources;      /* sources: the keys that some query attends to */
    long long shift;              /* query i attends to keys j <= i + shift */
    float scale;
    size_t sequences, rows; /* of a part */
} plan;

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static plan plan_of(icl_opencl *opencl, const icl_attention_params *params, const icl_tensor *q, const icl_tensor *k) {
    const size_t heads = q->rank == 4 ? q->shape[1] : 1, groups = k->rank == 4 ? k->shape[1] : 1;
    const size_t queries = q->shape[q->rank - 2], keys = k->shape[k->rank - 2];
    const bool causal = params->mask == ICL_MASK_CAUSAL;
    plan p = {.opencl = opencl,
              .batch = q->shape[0],
              .groups = groups,
              .shared = heads / groups,
              .queries = queries,
              .sources = params->mask == ICL_MASK_QUERY_EXCLUDED && keys > 0 ? keys - 1 : keys,
              .shift = causal ? (long long)keys - (long long)queries : (long long)keys,
              .scale = (float)params->scale,
              .rows = queries};
    const size_t most = opencl->most_scores;

    if (causal && queries > FEW_QUERIES)
        p.rows = (queries + QUARTERS - 1) / QUARTERS;
    const size_t row = groups * (p.sources > 0 ? p.sources : 1);
    p.rows = smaller(p.rows, most / row > 0 ? most / row : 1);
    p.sequences = smaller(p.batch, most / row / (p.rows > 0 ? p.rows : 1));
    p.sequences = p.sequences > 0 ? p.sequences : 1;
    return p;
}

/* A part: of the batch, of the heads, and of the queries, which attend to the first `columns` keys. */
typedef struct part {
    size_t sequence, sequences, head, first, rows, columns;
} part;

static part part_of(const plan *p, size_t sequence, size_t first, size_t head) {
    const size_t rows = smaller(p->rows, p->queries - first);
    const long long last = (long long)(first + rows) + p->shift;

    return (part){.sequence = sequence,
                  .sequences = smaller(p->sequences, p->batch - sequence),
                  .head = head,
                  .first = first,
                  .rows = rows,
                  .columns = last <= 0 ? 0 : smaller((size_t)last, p->sources)};
}

/* Views the part of an operand as [sequences, groups, rows, width]. A rank of 3 means one head. */
static icl_tensor view_rows(const icl_tensor *t, const part *at, size_t head, size_t shared, size_t first,
                            size_t rows) {
    const int row = t->rank - 2;
    const size_t head_stride = t->rank == 4 ? t->stride[1] : 0, heads = t->rank == 4 ? t->shape[1] : 1;

    return (icl_tensor){.buffer = t->buffer,
                        .offset = t->offset + at->sequence * t->stride[0] + head * head_stride + first * t->stride[row],
                        .rank = 4,
                        .shape = {at->sequences, heads / shared, rows, t->shape[row + 1]},
                        .stride = {t->stride[0], shared * head_stride, t->stride[row], t->stride[row + 1]}};
}

static icl_tensor queries_of(const plan *p, const icl_tensor *t, const part *at) {
    return view_rows(t, at, at->head, p->shared, at->first, at->rows);
}

static icl_tensor keys_of(const icl_tensor *t, const part *at) {
    return view_rows(t, at, 0, 1, 0, at->columns);
}

/* Views memory for scores of a part without gaps. */
static icl_tensor scores_of(const plan *p, const icl_tensor *memory, const part *at) {
    const size_t shape[] = {at->sequences, p->groups, at->rows, at->columns};
    icl_tensor t = {.buffer = memory->buffer, .offset = memory->offset, .rank = 4};
    size_t stride = 1;

    for (int axis = 3; axis >= 0; axis--) {
        t.shape[axis] = shape[axis];
        t.stride[axis] = stride;
        stride *= shape[axis];
    }
    return t;
}

static icl_status create_scores(const plan *p, icl_tensor *memory, icl_error *error) {
    const size_t count = p->sequences * p->groups * p->rows * p->sources;
    return icl_tensor_create(p->opencl->backend, 1, &(size_t){count > 0 ? count : 1}, memory, error);
}

/* out = alpha a b + beta out, unless out is empty. */
static icl_status multiply(const plan *p, icl_tensor out, double alpha, icl_tensor a, icl_tensor b, double beta,
                           icl_error *error) {
    const icl_matmul_params params = {.alpha = alpha, .beta = beta};
    const icl_tensor operands[] = {out, a, b};
    return icl_tensor_count(&out) == 0 ? ICL_OK : icl_opencl_matmul(p->opencl->backend, &params, operands, error);
}

static icl_tensor transposed(icl_tensor t) {
    return icl_tensor_swap_axes(t, 2, 3);
}

/* Calls `serve` with each part of the op in turn. */
typedef icl_status part_function(const plan *p, const icl_tensor *operands, const icl_tensor memory[2], const part *at,
                                 icl_error *error);

static icl_status for_each_part(const plan *p, const icl_tensor *operands, const icl_tensor memory[2],
                                part_function *serve, icl_error *error) {
    for (size_t sequence = 0; sequence < p->batch; sequence += p->sequences)
        for (size_t first = 0; first < p->queries; first += p->rows)
            for (size_t head = 0; head < p->shared; head++) {
                const part at = part_of(p, sequence, first, head);
                ICL_CHECK(serve(p, operands, memory, &at, error));
            }
    return ICL_OK;
}

/* ---- Forward ---- */

enum { OUT = 0, LOG_SUM_EXP, Q, K, V };

/* Makes weights of scores, of which there are some, and writes log_sum_exp. */
static icl_status make_weights(const plan *p, const icl_tensor *scores, const icl_tensor *lse, const part *at,
                               icl_error *error) {
    icl_opencl *opencl = p->opencl;
    const icl_view of_scores = icl_view_of(scores), of_lse = icl_view_of(lse);
    const icl_teams teams = icl_teams_of(scores);
    const cl_int shift = (cl_int)((long long)at->first + p->shift);
    const double work = 16.0 * (double)at->columns;

    if (opencl->lanes > 1)
        return ICL_LAUNCH(opencl, ICL_KERNEL_softmax_rows_lanes, teams.rows, error,
                          ICL_MEMORY_ARGUMENT(of_scores.memory), ICL_VIEW(of_lse), ICL_ARGUMENT(teams.shape),
                          ICL_UNITS(teams.rows, work), ICL_ARGUMENT(shift));
    return ICL_LAUNCH_ITEMS(opencl, ICL_KERNEL_softmax_rows_teams, icl_team_items(opencl, &teams), error,
                            ICL_MEMORY_ARGUMENT(of_scores.memory), ICL_VIEW(of_lse), ICL_TEAMS(teams, work),
                            ICL_ARGUMENT(shift));
}

static icl_status forward_part(const plan *p, const icl_tensor *operands, const icl_tensor memory[2], const part *at,
                               icl_error *error) {
    const icl_tensor scores = scores_of(p, &memory[0], at), lse = queries_of(p, &operands[LOG_SUM_EXP], at);
    const double none = -(double)INFINITY;

    ICL_CHECK(multiply(p, scores, (double)p->scale, queries_of(p, &operands[Q], at),
                       transposed(keys_of(&operands[K], at)), 0, error));
    ICL_CHECK(at->columns > 0 ? make_weights(p, &scores, &lse, at, error)
                              : icl_opencl_fill(p->opencl->backend, &none, &lse, error));
    return multiply(p, queries_of(p, &operands[OUT], at), 1, scores, keys_of(&operands[V], at), 0, error);
}

static icl_status forward(icl_opencl *opencl, const icl_attention_params *params, const icl_tensor *operands,
                          icl_error *error) {
    const plan p = plan_of(opencl, params, &operands[Q], &operands[K]);
    icl_tensor memory[2] = {{0}};
    icl_status status = ICL_OK;

    ICL_TRY(create_scores(&p, &memory[0], error));
    ICL_TRY(for_each_part(&p, operands, memory, forward_part, error));
done:
    icl_tensor_release(&memory[0]);
    return status;
}

/* ---- Backward ---- */

enum { D_Q = 0, D_K, D_V, D_OUT, OF_OUT, OF_LOG_SUM_EXP, OF_Q, OF_K, OF_V };

/* Makes weights of scores, and slopes of d_out v^T. */
static icl_status make_slopes(const plan *p, const icl_tensor *operands, const icl_tensor *scores,
                              const icl_tensor *slopes, const part *at, icl_error *error) {
    icl_opencl *opencl = p->opencl;
    const icl_tensor d_out = queries_of(p, &operands[D_OUT], at), out = queries_of(p, &operands[OF_OUT], at);
    const icl_tensor lse = queries_of(p, &operands[OF_LOG_SUM_EXP], at);
    const icl_view of_scores = icl_view_of(scores), of_slopes = icl_view_of(slopes), of_lse = icl_view_of(&lse);
    const icl_view of_d_out = icl_view_of(&d_out), of_out = icl_view_of(&out);
    const icl_teams teams = icl_teams_of(scores);
    const cl_int shift = (cl_int)((long long)at->first + p->shift);
    const cl_uint width = (cl_uint)out.shape[3];
    const double work = 16.0 * (double)at->columns + 2.0 * width;

    if (opencl->lanes > 1)
        return ICL_LAUNCH(opencl, ICL_KERNEL_softmax_slopes_lanes, teams.rows, error,
                          ICL_MEMORY_ARGUMENT(of_scores.memory), ICL_MEMORY_ARGUMENT(of_slopes.memory),
                          ICL_VIEW(of_d_out), ICL_VIEW(of_out), ICL_VIEW(of_lse), ICL_ARGUMENT(teams.shape),
                          ICL_UNITS(teams.rows, work), ICL_ARGUMENT(shift), ICL_ARGUMENT(width),
                          ICL_ARGUMENT(p->scale));
    return ICL_LAUNCH_ITEMS(opencl, ICL_KERNEL_softmax_slopes_teams, icl_team_items(opencl, &teams), error,
                            ICL_MEMORY_ARGUMENT(of_scores.memory), ICL_MEMORY_ARGUMENT(of_slopes.memory),
                            ICL_VIEW(of_d_out), ICL_VIEW(of_out), ICL_VIEW(of_lse), ICL_TEAMS(teams, work),
                            ICL_ARGUMENT(shift), ICL_ARGUMENT(width), ICL_ARGUMENT(p->scale));
}

/* Adds the part's terms to d_k and d_v. */
static icl_status backward_part(const plan *p, const icl_tensor *operands, const icl_tensor memory[2], const part *at,
                                icl_error *error) {
    const icl_tensor scores = scores_of(p, &memory[0], at), slopes = scores_of(p, &memory[1], at);
    const icl_tensor q = queries_of(p, &operands[OF_Q], at), d_out = queries_of(p, &operands[D_OUT], at);
    const icl_tensor k = keys_of(&operands[OF_K], at);

    ICL_CHECK(multiply(p, scores, (double)p->scale, q, transposed(k), 0, error));
    ICL_CHECK(multiply(p, slopes, 1, d_out, transposed(keys_of(&operands[OF_V], at)), 0, error));
    if (at->columns > 0)
        ICL_CHECK(make_slopes(p, operands, &scores, &slopes, at, error));
    ICL_CHECK(multiply(p, queries_of(p, &operands[D_Q], at), 1, slopes, k, 0, error));
    ICL_CHECK(multiply(p, keys_of(&operands[D_K], at), 1, transposed(slopes), q, 1, error));
    return multiply(p, keys_of(&operands[D_V], at), 1, transposed(scores), d_out, 1, error);
}

static icl_status backward(icl_opencl *opencl, const icl_attention_params *params, const icl_tensor *operands,
                           icl_error *error) {
    const plan p = plan_of(opencl, params, &operands[OF_Q], &operands[OF_K]);
    const double zero = 0;
    icl_tensor memory[2] = {{0}};
    icl_status status = ICL_OK;

    for (int i = D_K; i <= D_V; i++)
        if (icl_tensor_count(&operands[i]) > 0)
            ICL_TRY(icl_opencl_fill(opencl->backend, &zero, &operands[i], error));
    for (int i = 0; i < 2; i++)
        ICL_TRY(create_scores(&p, &memory[i], error));
    ICL_TRY(for_each_part(&p, operands, memory, backward_part, error));
done:
    for (int i = 0; i < 2; i++)
        icl_tensor_release(&memory[i]);
    return status;
}

static icl_status attend_by_products(icl_opencl *opencl, const icl_attention_params *params, const icl_tensor *operands,
                                     bool is_gradient, icl_error *error) {
    ICL_CHECK(icl_opencl_test_program(opencl, ICL_TESTED_ATTENTION_PRODUCTS, error));
    return (is_gradient ? backward : forward)(opencl, params, operands, error);
}

/* A view as the kernels take it: strides of batch, row, column and head. */
static icl_view sequence_view(const icl_tensor *t) {
    icl_view view = {.memory = icl_memory_of(t), .offset = (cl_uint)t->offset};
    static const int axes[ICL_MAX_RANK] = {0, 2, 3, 1};
    for (int i = 0; i < ICL_MAX_RANK; i++)
        view.stride.s[i] = (cl_int)t->stride[axes[i]];
    return view;
}

/* ---- Linear attention ---- */

/*
 * With out = attend(q, k, v), that is out_i = scale * sum over attended j of (q_i . k_j) v_j, the gradients are
 *     d_q_i = scale * sum_j (d_out_i . v_j) k_j  = attend(d_out, v, k)    over the same pairs (i, j)
 *     d_k_j = scale * sum_i (v_j . d_out_i) q_i  = attend(v, d_out, q)    over the pairs transposed
 *     d_v_j = scale * sum_i (k_j . q_i) d_out_i  = attend(k, q, d_out)    over the pairs transposed
 * so one kernel computes all four. A transposed causal mask is a causal mask in reverse order: both sequences are then
 * walked from their ends, with negative strides.
 */
#define PACK 64 /* as in cl/attention/attention_linear.cl */

/* Returns the view of a sequence; if it is reversed, it begins at the end. */
static icl_view walked_view(const icl_tensor *t, bool reversed) {
    icl_view view = sequence_view(t);

    if (reversed && t->shape[2] > 0) {
        view.offset += (cl_uint)((t->shape[2] - 1) * t->stride[2]);
        view.stride.s[1] = -view.stride.s[1];
    }
    return view;
}

/* Which sources each row attends to: see cl/attention/attention_linear.cl. */
typedef struct pairs {
    cl_uint sources, active;
    cl_int shift;
    bool reversed;
} pairs;

static icl_status attend(icl_opencl *opencl, const icl_tensor *out, const icl_tensor *q, const icl_tensor *k,
                         const icl_tensor *v, pairs mask, cl_float scale, icl_error *error) {
    const icl_view out_view = walked_view(out, mask.reversed), q_view = walked_view(q, mask.reversed);
    const icl_view k_view = walked_view(k, mask.reversed), v_view = walked_view(v, mask.reversed);
    const cl_uint rows = (cl_uint)out->shape[2], d = (cl_uint)q->shape[3], e = (cl_uint)out->shape[3];
    const cl_uint v_dense_end = icl_tensor_is_contiguous(v) ? (cl_uint)(v->offset + icl_tensor_count(v)) : 0;
    const cl_uint4 sizes = {{rows, mask.sources, d, e}};
    const cl_uint of_rows = (cl_uint)out->shape[1], of_sources = (cl_uint)k->shape[1];
    const cl_uint shared = of_rows > of_sources ? of_rows / of_sources : 1;
    const cl_uint summed = of_sources > of_rows ? of_sources / of_rows : 1;
    const cl_uint4 heads = {{of_rows, shared, summed, 0}};
    const cl_uint blocks = (cl_uint)((e + opencl->lanes - 1) / opencl->lanes);
    const cl_uint units = (cl_uint)out->shape[0] * of_rows * blocks;
    const double work = 2.0 * (double)opencl->lanes * ((double)rows + (double)summed * mask.sources) * d;
    const cl_uint scratch_rows = d + (opencl->lanes > 1 ? PACK : 0);
    icl_status status = ICL_OK;
    icl_block *scratch = NULL;

    if (icl_tensor_count(out) == 0)
        return ICL_OK;
    const size_t scratch_bytes = (scratch_rows + 1) * opencl->lanes * sizeof(cl_float);
    const size_t items = icl_opencl_items_with_scratch(opencl, units, scratch_bytes);
    ICL_TRY(icl_opencl_take_scratch(opencl, items, scratch_bytes * opencl->local_size, &scratch, error));
    ICL_TRY(ICL_LAUNCH_ITEMS(opencl, ICL_KERNEL_attention_linear, items, error, ICL_VIEW(out_view), ICL_VIEW(q_view),
                             ICL_VIEW(k_view), ICL_VIEW(v_view), ICL_ARGUMENT(v_dense_end), ICL_ARGUMENT(sizes),
                             ICL_ARGUMENT(heads), ICL_ARGUMENT(mask.shift), ICL_ARGUMENT(mask.active),
                             ICL_ARGUMENT(blocks), ICL_UNITS(units, work), ICL_ARGUMENT(scale),
                             ICL_MEMORY_ARGUMENT(scratch->memory), ICL_ARGUMENT(scratch_rows)));
done:
    icl_pool_give(opencl, scratch);
    return status;
}

/* Returns the pairs of a forward pass: queries are rows, keys are sources. */
static pairs forward_pairs(icl_attention_mask mask, size_t queries, size_t keys) {
    pairs p = {.sources = (cl_uint)keys, .active = (cl_uint)queries, .shift = (cl_int)keys};
    if (mask == ICL_MASK_QUERY_EXCLUDED && keys > 0)
        p.sources--;
    if (mask == ICL_MASK_CAUSAL)
        p.shift = (cl_int)keys - (cl_int)queries;
    return p;
}

/* Returns the same pairs with keys as rows and queries as sources. Causal: key j is seen by queries i >= j - (keys -
 * queries); counted from the ends this reads i' <= j'. */
static pairs transposed_pairs(icl_attention_mask mask, size_t queries, size_t keys) {
    pairs p = {.sources = (cl_uint)queries, .active = (cl_uint)keys, .shift = (cl_int)queries};
    if (mask == ICL_MASK_QUERY_EXCLUDED && keys > 0)
        p.active--;
    if (mask == ICL_MASK_CAUSAL) {
        p.shift = 0;
        p.reversed = true;
    }
    return p;
}

static icl_status linear_forward(icl_opencl *opencl, const icl_attention_params *params, const icl_tensor *operands,
                                 icl_error *error) {
    const icl_tensor *out = &operands[0], *q = &operands[2], *k = &operands[3], *v = &operands[4];
    return attend(opencl, out, q, k, v, forward_pairs(params->mask, q->shape[2], k->shape[2]), (cl_float)params->scale,
                  error);
}

static icl_status linear_backward(icl_opencl *opencl, const icl_attention_params *params, const icl_tensor *operands,
                                  icl_error *error) {
    const icl_tensor *d_q = &operands[0], *d_k = &operands[1], *d_v = &operands[2], *d_out = &operands[3];
    const icl_tensor *q = &operands[6], *k = &operands[7], *v = &operands[8];
    const pairs straight = forward_pairs(params->mask, q->shape[2], k->shape[2]);
    const pairs transposed = transposed_pairs(params->mask, q->shape[2], k->shape[2]);
    const cl_float scale = (cl_float)params->scale;

    ICL_CHECK(attend(opencl, d_q, d_out, v, k, straight, scale, error));
    ICL_CHECK(attend(opencl, d_k, v, d_out, q, transposed, scale, error));
    return attend(opencl, d_v, k, q, d_out, transposed, scale, error);
}

/* ---- Softmax attention ---- */

/*
 * Softmax attention uses attention_softmax.cl of cl/attention/ on CPUs and attention_softmax_tiles.cl on GPUs. Besides
 * the operands it needs a number for each query in the backward pass and, on CPUs, scratch memory for each work-item
 * that does not grow with the sequences.
 */
/* As in cl/attention/attention_softmax.cl. */
#define VECTORS   2
#define LANE_TILE 32
#define MOST_KEPT ((size_t)4 << 20) /* bytes of d_q that a work-item adds up */
/* As in cl/attention/attention_softmax_tiles.cl. */
#define TILE    32
#define COLUMNS 64

/* A query i attends to the keys j < sources with j <= i + shift, and of these to the last `window` alone. */
typedef struct attended {
    cl_uint4 sizes; /* queries, keys, d, e */
    cl_uint2 heads; /* heads of queries; heads of queries that share one of keys */
    cl_uint sources;
    cl_int shift;
    cl_uint window; /* queries + keys: there is none */
    cl_float scale;
} attended;

static attended attended_by(const icl_attention_params *params, const icl_tensor *q, const icl_tensor *k,
                            const icl_tensor *v) {
    const size_t queries = q->shape[2], keys = k->shape[2];
    attended a = {
        .sizes = {{(cl_uint)queries, (cl_uint)keys, (cl_uint)q->shape[3], (cl_uint)v->shape[3]}},
        .heads = {{(cl_uint)q->shape[1], (cl_uint)(q->shape[1] / k->shape[1])}},
        .sources = (cl_uint)keys,
        .shift = (cl_int)keys,
        .window = (cl_uint)(queries + keys),
        .scale = (cl_float)params->scale,
    };
    if (params->mask == ICL_MASK_QUERY_EXCLUDED && keys > 0)
        a.sources--;
    if (params->mask == ICL_MASK_CAUSAL)
        a.shift = (cl_int)keys - (cl_int)queries;
    if (params->window > 0 && params->window < a.window)
        a.window = (cl_uint)params->window;
    return a;
}

/* Returns how many of `others` keys, or queries, a block of rows meets at most. */
static size_t met_by_block(const icl_opencl *opencl, const attended *a, size_t others) {
    const size_t most = a->window + (opencl->lanes > 1 ? VECTORS * opencl->lanes : TILE);
    return others < most ? others : most;
}

/* How one pass is cut: the kernel, its units (blocks of rows, on GPUs times blocks of columns)
 * and its scratch memory. */
typedef struct pass {
    icl_kernel kernel;
    cl_uint blocks, column_blocks, units;
    cl_uint scratch_rows; /* for each work-item; a row holds a block of lanes */
    double work;          /* operations of a unit, if it meets all others */
    size_t items;
    icl_block *scratch;
} pass;

static cl_uint blocks_of(size_t count, size_t block) {
    return (cl_uint)((count + block - 1) / block);
}

/* Returns the rows of sums in cl/attention/attention_softmax.cl: padded to a multiple of GROUP, which is at most 8. */
static cl_uint padded(cl_uint width) {
    return blocks_of(width, 8) * 8;
}

/* Cuts a pass and takes its scratch memory. `scratch` is given back with icl_pool_give. width: the widest matrix that
 * the pass writes; terms: those of its sums for each of the `others` that a row may meet. */
static icl_status set_up_pass(icl_opencl *opencl, size_t sequences, size_t rows, size_t others, cl_uint terms,
                              cl_uint width, cl_uint scratch_rows, icl_kernel lanes_kernel, icl_kernel tiles_kernel,
                              pass *made, icl_error *error) {
    const bool lanes = opencl->lanes > 1;
    const size_t block = lanes ? VECTORS * opencl->lanes : TILE;
    const size_t row_bytes = block * sizeof(cl_float);
    pass p = {.kernel = lanes ? lanes_kernel : tiles_kernel,
              .blocks = blocks_of(rows, block),
              .column_blocks = lanes || width <= COLUMNS ? 1 : blocks_of(width, COLUMNS),
              .scratch_rows = lanes ? scratch_rows : 0,
              .work = 2.0 * (double)block * (double)others * (double)terms};

    p.units = (cl_uint)sequences * p.blocks * p.column_blocks;
    p.items = lanes ? icl_opencl_items_with_scratch(opencl, p.units, p.scratch_rows * row_bytes)
                    : icl_opencl_items(opencl, p.units * opencl->local_size);
    if (lanes)
        ICL_CHECK(icl_opencl_take_scratch(opencl, p.items, p.scratch_rows * row_bytes, &p.scratch, error));
    *made = p;
    return ICL_OK;
}

/* The arguments of a pass that the kernels of both families take. Kernels of lanes also take scratch memory, and those
 * of tiles the blocks of columns. */
#define PASS_ARGUMENTS(a, p)                                                                                           \
    ICL_ARGUMENT((a).sizes), ICL_ARGUMENT((a).heads), ICL_ARGUMENT((a).sources), ICL_ARGUMENT((a).shift),              \
        ICL_ARGUMENT((a).window), ICL_ARGUMENT((p).blocks), ICL_GROUP_UNITS((p).units, (p).work),                      \
        ICL_ARGUMENT((a).scale)
#define LAUNCH_PASS(opencl, a, p, error, ...)                                                                          \
    ((p).scratch ? ICL_LAUNCH_ITEMS(opencl, (p).kernel, (p).items, error, __VA_ARGS__, PASS_ARGUMENTS(a, p),           \
                                    ICL_MEMORY_ARGUMENT((p).scratch->memory), ICL_ARGUMENT((p).scratch_rows))          \
                 : ICL_LAUNCH_ITEMS(opencl, (p).kernel, (p).items, error, __VA_ARGS__, PASS_ARGUMENTS(a, p),           \
                                    ICL_ARGUMENT((p).column_blocks)))

static icl_status softmax_forward(icl_opencl *opencl, const icl_attention_params *params, const icl_tensor *operands,
                                  icl_error *error) {
    const icl_view out = sequence_view(&operands[0]), lse = sequence_view(&operands[1]);
    const icl_view q = sequence_view(&operands[2]), k = sequence_view(&operands[3]), v = sequence_view(&operands[4]);
    const attended a = attended_by(params, &operands[2], &operands[3], &operands[4]);
    const cl_uint d = a.sizes.s[2], e = a.sizes.s[3];
    icl_status status = ICL_OK;
    pass p = {0};

    ICL_TRY(set_up_pass(opencl, operands[0].shape[0] * a.heads.s[0], a.sizes.s[0],
                        met_by_block(opencl, &a, a.sizes.s[1]), d + e, e, d + padded(e) + LANE_TILE,
                        ICL_KERNEL_softmax_forward_lanes, ICL_KERNEL_softmax_forward_tiles, &p, error));
    ICL_TRY(LAUNCH_PASS(opencl, a, p, error, ICL_VIEW(out), ICL_VIEW(lse), ICL_VIEW(q), ICL_VIEW(k), ICL_VIEW(v)));
done:
    icl_pool_give(opencl, p.scratch);
    return status;
}

static icl_status queries_pass(icl_opencl *opencl, const attended *a, const icl_tensor *operands,
                               const icl_block *row_terms, icl_error *error) {
    const icl_view d_q = sequence_view(&operands[0]), d_out = sequence_view(&operands[3]);
    const icl_view out = sequence_view(&operands[4]), lse = sequence_view(&operands[5]);
    const icl_view q = sequence_view(&operands[6]), k = sequence_view(&operands[7]), v = sequence_view(&operands[8]);
    const cl_uint d = a->sizes.s[2], e = a->sizes.s[3];
    icl_status status = ICL_OK;
    pass p = {0};

    ICL_TRY(set_up_pass(opencl, operands[6].shape[0] * a->heads.s[0], a->sizes.s[0],
                        met_by_block(opencl, a, a->sizes.s[1]), 2 * d + e, d, d + e + padded(d) + 2 * LANE_TILE,
                        ICL_KERNEL_softmax_backward_queries_lanes, ICL_KERNEL_softmax_backward_queries_tiles, &p,
                        error));
    ICL_TRY(LAUNCH_PASS(opencl, *a, p, error, ICL_VIEW(d_q), ICL_MEMORY_ARGUMENT(row_terms->memory), ICL_VIEW(d_out),
                        ICL_VIEW(out), ICL_VIEW(lse), ICL_VIEW(q), ICL_VIEW(k), ICL_VIEW(v)));
done:
    icl_pool_give(opencl, p.scratch);
    return status;
}

static icl_status keys_pass(icl_opencl *opencl, const attended *a, const icl_tensor *operands,
                            const icl_block *row_terms, icl_error *error) {
    const icl_view d_k = sequence_view(&operands[1]), d_v = sequence_view(&operands[2]);
    const icl_view d_out = sequence_view(&operands[3]), lse = sequence_view(&operands[5]);
    const icl_view q = sequence_view(&operands[6]), k = sequence_view(&operands[7]), v = sequence_view(&operands[8]);
    const cl_uint d = a->sizes.s[2], e = a->sizes.s[3];
    icl_status status = ICL_OK;
    pass p = {0};

    ICL_TRY(set_up_pass(opencl, operands[7].shape[0] * operands[7].shape[1], a->sizes.s[1],
                        a->heads.s[1] * met_by_block(opencl, a, a->sizes.s[0]), 2 * (d + e), d > e ? d : e,
                        d + e + padded(d) + padded(e) + 2 * LANE_TILE, ICL_KERNEL_softmax_backward_keys_lanes,
                        ICL_KERNEL_softmax_backward_keys_tiles, &p, error));
    ICL_TRY(LAUNCH_PASS(opencl, *a, p, error, ICL_VIEW(d_k), ICL_VIEW(d_v), ICL_MEMORY_ARGUMENT(row_terms->memory),
                        ICL_VIEW(d_out), ICL_VIEW(lse), ICL_VIEW(q), ICL_VIEW(k), ICL_VIEW(v)));
done:
    icl_pool_give(opencl, p.scratch);
    return status;
}

/* Returns the rows of scratch of a pass over whole sequences, or 0 if there are too few of these to keep every
 * processor busy, or they are too long. */
static cl_uint rows_of_sequences(const icl_opencl *opencl, const attended *a, const icl_tensor *k) {
    const size_t block = VECTORS * opencl->lanes, bands = blocks_of(a->sizes.s[2], block);
    const size_t rows = bands * (block + a->heads.s[1] * ((size_t)a->sizes.s[0] + 8));
    const bool fits = rows * block * sizeof(cl_float) <= MOST_KEPT;
    const cl_uint d = a->sizes.s[2], e = a->sizes.s[3];

    return opencl->lanes > 1 && fits && k->shape[0] * k->shape[1] >= opencl->backend->capabilities.compute_units
               ? d + e + padded(d) + padded(e) + 2 * LANE_TILE + (cl_uint)rows
               : 0;
}

static icl_status sequences_pass(icl_opencl *opencl, const attended *a, const icl_tensor *operands,
                                 const icl_block *row_terms, cl_uint scratch_rows, icl_error *error) {
    const icl_view d_q = sequence_view(&operands[0]), d_k = sequence_view(&operands[1]);
    const icl_view d_v = sequence_view(&operands[2]), d_out = sequence_view(&operands[3]);
    const icl_view out = sequence_view(&operands[4]), lse = sequence_view(&operands[5]);
    const icl_view q = sequence_view(&operands[6]), k = sequence_view(&operands[7]), v = sequence_view(&operands[8]);
    const cl_uint d = a->sizes.s[2], e = a->sizes.s[3];
    icl_status status = ICL_OK;
    pass p = {0};

    ICL_TRY(set_up_pass(opencl, operands[7].shape[0] * operands[7].shape[1], 1,
                        a->heads.s[1] * met_by_block(opencl, a, a->sizes.s[0]), 3 * d + 2 * e, d > e ? d : e,
                        scratch_rows, ICL_KERNEL_softmax_backward_sequences_lanes,
                        ICL_KERNEL_softmax_backward_keys_tiles, &p, error));
    ICL_TRY(LAUNCH_PASS(opencl, *a, p, error, ICL_VIEW(d_q), ICL_VIEW(d_k), ICL_VIEW(d_v),
                        ICL_MEMORY_ARGUMENT(row_terms->memory), ICL_VIEW(d_out), ICL_VIEW(out), ICL_VIEW(lse),
                        ICL_VIEW(q), ICL_VIEW(k), ICL_VIEW(v)));
done:
    icl_pool_give(opencl, p.scratch);
    return status;
}

static icl_status softmax_backward(icl_opencl *opencl, const icl_attention_params *params, const icl_tensor *operands,
                                   icl_error *error) {
    const icl_tensor *q = &operands[6], *k = &operands[7], *v = &operands[8];
    const attended a = attended_by(params, q, k, v);
    const size_t rows = q->shape[0] * q->shape[1] * q->shape[2];
    icl_status status = ICL_OK;
    icl_block *row_terms = NULL;

    /* Even without queries the keys' gradients have to be written: they are 0. */
    ICL_TRY(icl_pool_take(opencl, (rows > 0 ? rows : 1) * sizeof(cl_float), &row_terms, error));
    const cl_uint sequence_rows = rows > 0 ? rows_of_sequences(opencl, &a, k) : 0;
    if (sequence_rows > 0) {
        ICL_TRY(sequences_pass(opencl, &a, operands, row_terms, sequence_rows, error));
        goto done;
    }
    if (rows > 0)
        ICL_TRY(queries_pass(opencl, &a, operands, row_terms, error));
    if (k->shape[0] * k->shape[1] * k->shape[2] > 0)
        ICL_TRY(keys_pass(opencl, &a, operands, row_terms, error));
done:
    icl_pool_give(opencl, row_terms);
    return status;
}

/* ---- The ops ---- */

/* Returns whether softmax attention goes by products. The last three operands are q, k and v. Products would compute
 * what a window hides, so they do not serve one. */
static bool takes_products(const icl_opencl *opencl, icl_opencl_choice choice, const icl_attention_params *params,
                           const icl_tensor *q) {
    const icl_tensor *k = q + 1, *v = q + 2;
    const int row = q->rank - 2;
    const size_t d = q->shape[row + 1], e = v->shape[row + 1];
    const icl_sizes sizes = {
        {q->shape[row], k->shape[row], d > e ? d : e, q->shape[0] * (q->rank == 4 ? q->shape[1] : 1)}};
    const unsigned asked = icl_opencl_asked(opencl, choice, &sizes);

    if (params->window > 0 && params->window < k->shape[row])
        return false;
    return (asked != ICL_BY_TABLE ? asked : icl_opencl_choose(opencl, choice, sizes.of[1])) == ICL_ATTENTION_PRODUCTS;
}

icl_status icl_opencl_attention_forward(icl_backend *backend, const void *params, const icl_tensor *operands,
                                        icl_error *error) {
    const icl_attention_params *p = params;
    icl_opencl *opencl = icl_opencl_of(backend);

    if (p->kind == ICL_ATTENTION_LINEAR)
        return linear_forward(opencl, p, operands, error);
    return takes_products(opencl, ICL_CHOICE_ATTENTION, p, &operands[2])
               ? attend_by_products(opencl, p, operands, false, error)
               : softmax_forward(opencl, p, operands, error);
}

icl_status icl_opencl_attention_backward(icl_backend *backend, const void *params, const icl_tensor *operands,
                                         icl_error *error) {
    const icl_attention_params *p = params;
    icl_opencl *opencl = icl_opencl_of(backend);

    if (p->kind == ICL_ATTENTION_LINEAR)
        return linear_backward(opencl, p, operands, error);
    return takes_products(opencl, ICL_CHOICE_ATTENTION_GRADIENT, p, &operands[6])
               ? attend_by_products(opencl, p, operands, true, error)
               : softmax_backward(opencl, p, operands, error);
}
