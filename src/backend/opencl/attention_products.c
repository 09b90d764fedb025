/*
 * Softmax attention by products: scores = scale q k^T, weights by rows, out = weights v; and backward, with weights
 * from the given log_sum_exp,
 *     slopes = scale weights (d_out v^T - d_out . out),
 *     d_q = slopes k,    d_k = slopes^T q,    d_v = weights^T d_out.
 *
 * The products are those of the op, by whichever kernel serves their sizes. Scores of some rows are in memory at once:
 * of a part of the batch, and of a part of the queries if one sequence has too many. Queries that share heads of keys
 * go one after another.
 */
#include <math.h>

#include "backend/opencl/launch.h"
#include "backend/opencl/ops.h"
#include "backend/opencl/program.h"
#include "backend/opencl/view.h"

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

icl_status icl_opencl_attention_products(icl_opencl *opencl, const icl_attention_params *params,
                                         const icl_tensor *operands, bool is_gradient, icl_error *error) {
    ICL_CHECK(icl_opencl_test_program(opencl, ICL_TESTED_ATTENTION_PRODUCTS, error));
    return (is_gradient ? backward : forward)(opencl, params, operands, error);
}
