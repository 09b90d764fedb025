/* Normalizes rows: cl/normalize.cl. */
#include "backend/opencl/ops.h"
#include "backend/opencl/pool.h"
#include "backend/opencl/small.h"
#include "iclab/ops_sequence.h"

#define ROWS_OF_SUM   64   /* as ops_sequence.h promises */
#define FORWARD_WORK  10.0 /* approximate operations for an element */
#define BACKWARD_WORK 30.0

/* Operands of normalize, and of normalize_backward. */
enum { OUT = 0, IN, GAIN, SHIFT };
enum { D_IN = 0, D_GAIN, D_SHIFT, D_OUT, OF_IN, OF_GAIN };
enum { HAS_GAIN = 1, HAS_SHIFT = 2 }; /* as in cl/normalize.cl */

/* What the kernels need to know about the rows. */
typedef struct normalization {
    icl_teams teams;
    cl_uint kind;
    cl_float share, epsilon;
} normalization;

static normalization describe(const icl_normalize_params *params, const icl_tensor *rows) {
    const size_t n = rows->shape[rows->rank - 1];
    return (normalization){.teams = icl_teams_of(rows),
                           .kind = (cl_uint)params->kind,
                           .share = params->kind == ICL_NORM_UNIT ? 1.0F : (cl_float)n,
                           .epsilon = (cl_float)params->epsilon};
}

/* A vector as kernels take it; if it is absent, any other memory is passed. */
typedef struct vector {
    cl_mem memory;
    cl_uint offset;
    cl_int stride;
} vector;

static vector vector_of(const icl_tensor *tensor, const icl_tensor *any) {
    if (!tensor->buffer)
        return (vector){icl_memory_of(any), 0, 0};
    return (vector){icl_memory_of(tensor), (cl_uint)tensor->offset, (cl_int)tensor->stride[0]};
}

#define VECTOR(of) ICL_MEMORY_ARGUMENT((of).memory), ICL_ARGUMENT((of).offset), ICL_ARGUMENT((of).stride)

static icl_view view_of_vector(const vector *part) {
    return (icl_view){.memory = part->memory, .offset = part->offset, .stride = {{0, 0, 0, part->stride}}};
}

/* Completes the description of rows for a list of small operations; returns whether they are small enough for it. */
static bool is_small(const icl_opencl *opencl, const normalization *norm, icl_small_norm *small) {
    small->count = norm->teams.shape.s[3];
    small->kind = norm->kind;
    small->share = norm->share;
    small->epsilon = norm->epsilon;
    return icl_small_takes_rows(opencl, small->views, norm->teams.shape, &small->rows);
}

icl_status icl_opencl_normalize(icl_backend *backend, const void *params, const icl_tensor *operands,
                                icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const normalization norm = describe(params, &operands[OUT]);
    const icl_view out = icl_view_of(&operands[OUT]), in = icl_view_of(&operands[IN]);
    const vector gain = vector_of(&operands[GAIN], &operands[IN]), shift = vector_of(&operands[SHIFT], &operands[IN]);
    const cl_uint flags = (operands[GAIN].buffer ? HAS_GAIN : 0) | (operands[SHIFT].buffer ? HAS_SHIFT : 0);
    const double work = FORWARD_WORK * norm.teams.shape.s[3];
    icl_small_norm small = {.views = {out, in, view_of_vector(&gain), view_of_vector(&shift)}, .flags = flags};

    if (is_small(opencl, &norm, &small))
        return icl_small_add_rows(opencl, &small, error);
    if (opencl->lanes > 1)
        return ICL_LAUNCH(opencl, ICL_KERNEL_normalize_lanes, norm.teams.rows, error, ICL_VIEW(out), ICL_VIEW(in),
                          VECTOR(gain), VECTOR(shift), ICL_ARGUMENT(norm.teams.shape), ICL_UNITS(norm.teams.rows, work),
                          ICL_ARGUMENT(norm.kind), ICL_ARGUMENT(flags), ICL_ARGUMENT(norm.share),
                          ICL_ARGUMENT(norm.epsilon));
    return ICL_LAUNCH_ITEMS(opencl, ICL_KERNEL_normalize_teams, icl_team_items(opencl, &norm.teams), error,
                            ICL_VIEW(out), ICL_VIEW(in), VECTOR(gain), VECTOR(shift), ICL_TEAMS(norm.teams, work),
                            ICL_ARGUMENT(norm.kind), ICL_ARGUMENT(flags), ICL_ARGUMENT(norm.share),
                            ICL_ARGUMENT(norm.epsilon));
}

/* ---- Backward ---- */

/* The arguments that both families of kernels take. */
typedef struct backward {
    normalization x;
    icl_view d_in, d_out, in;
    vector gain;
    cl_uint flags, blocks, is_summed;
} backward;

static icl_status launch_lanes(icl_opencl *opencl, const backward *b, const icl_block *sums, icl_error *error) {
    const normalization *norm = &b->x;
    const double work = BACKWARD_WORK * norm->teams.shape.s[3] * ROWS_OF_SUM;
    cl_mem memory = sums ? sums->memory : b->in.memory;

    return ICL_LAUNCH(opencl, ICL_KERNEL_normalize_backward_lanes, b->blocks, error, ICL_VIEW(b->d_in),
                      ICL_VIEW(b->d_out), ICL_VIEW(b->in), VECTOR(b->gain), ICL_ARGUMENT(norm->teams.shape),
                      ICL_ARGUMENT(norm->teams.rows), ICL_UNITS(b->blocks, work), ICL_ARGUMENT(norm->kind),
                      ICL_ARGUMENT(b->flags), ICL_ARGUMENT(norm->share), ICL_ARGUMENT(norm->epsilon),
                      ICL_MEMORY_ARGUMENT(memory), ICL_ARGUMENT(b->is_summed));
}

static icl_status launch_teams(icl_opencl *opencl, const backward *b, const icl_block *sums, icl_error *error) {
    const normalization *norm = &b->x;
    const double work = BACKWARD_WORK * norm->teams.shape.s[3];
    const cl_uint columns = b->blocks * norm->teams.shape.s[3];
    icl_block *found = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_pool_take(opencl, norm->teams.rows * sizeof(cl_float2), &found, error));
    ICL_TRY(ICL_LAUNCH_ITEMS(opencl, ICL_KERNEL_normalize_backward_teams, icl_team_items(opencl, &norm->teams), error,
                             ICL_VIEW(b->d_in), ICL_VIEW(b->d_out), ICL_VIEW(b->in), VECTOR(b->gain),
                             ICL_TEAMS(norm->teams, work), ICL_ARGUMENT(norm->kind), ICL_ARGUMENT(b->flags),
                             ICL_ARGUMENT(norm->share), ICL_ARGUMENT(norm->epsilon),
                             ICL_MEMORY_ARGUMENT(found->memory)));
    if (sums)
        ICL_TRY(ICL_LAUNCH(opencl, ICL_KERNEL_normalize_sums, columns, error, ICL_VIEW(b->d_out), ICL_VIEW(b->in),
                           ICL_ARGUMENT(norm->teams.shape), ICL_ARGUMENT(norm->teams.rows),
                           ICL_UNITS(columns, 10.0 * ROWS_OF_SUM), ICL_ARGUMENT(norm->kind),
                           ICL_MEMORY_ARGUMENT(found->memory), ICL_MEMORY_ARGUMENT(sums->memory)));
done:
    icl_pool_give(opencl, found);
    return status;
}

/* Adds the sums [blocks][2][n] on GPUs. */
static icl_status add_blocks(icl_opencl *opencl, const vector *d_gain, const vector *d_shift, cl_uint wanted,
                             const icl_block *sums, cl_uint blocks, cl_uint n, icl_error *error) {
    const icl_view to_gain = view_of_vector(d_gain), to_shift = view_of_vector(d_shift);

    if (wanted & HAS_GAIN)
        ICL_CHECK(icl_opencl_add_in_pairs(opencl, &to_gain, sums->memory, 0, blocks, 2 * n, n, error));
    if (wanted & HAS_SHIFT)
        ICL_CHECK(icl_opencl_add_in_pairs(opencl, &to_shift, sums->memory, n, blocks, 2 * n, n, error));
    return ICL_OK;
}

icl_status icl_opencl_normalize_backward(icl_backend *backend, const void *params, const icl_tensor *operands,
                                         icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const cl_uint wanted = (operands[D_GAIN].buffer ? HAS_GAIN : 0) | (operands[D_SHIFT].buffer ? HAS_SHIFT : 0);
    backward b = {.x = describe(params, &operands[D_IN]),
                  .d_in = icl_view_of(&operands[D_IN]),
                  .d_out = icl_view_of(&operands[D_OUT]),
                  .in = icl_view_of(&operands[OF_IN]),
                  .gain = vector_of(&operands[OF_GAIN], &operands[OF_IN]),
                  .flags = operands[OF_GAIN].buffer ? HAS_GAIN : 0,
                  .is_summed = wanted != 0};
    const cl_uint n = b.x.teams.shape.s[3], columns = (cl_uint)((n + opencl->lanes - 1) / opencl->lanes);
    const cl_uint units = 2 * columns;
    const vector d_gain = vector_of(&operands[D_GAIN], &operands[D_IN]);
    const vector d_shift = vector_of(&operands[D_SHIFT], &operands[D_IN]);
    icl_block *sums = NULL;
    icl_status status = ICL_OK;

    b.blocks = (b.x.teams.rows + ROWS_OF_SUM - 1) / ROWS_OF_SUM;
    if (wanted)
        ICL_TRY(icl_pool_take(opencl, (size_t)b.blocks * 2 * n * sizeof(cl_float), &sums, error));
    ICL_TRY(opencl->lanes > 1 ? launch_lanes(opencl, &b, sums, error) : launch_teams(opencl, &b, sums, error));
    if (wanted && opencl->lanes > 1)
        ICL_TRY(ICL_LAUNCH(opencl, ICL_KERNEL_normalize_add, units, error, VECTOR(d_gain), VECTOR(d_shift),
                           ICL_ARGUMENT(wanted), ICL_MEMORY_ARGUMENT(sums->memory), ICL_ARGUMENT(b.blocks),
                           ICL_ARGUMENT(n), ICL_ARGUMENT(columns), ICL_UNITS(units, 2.0 * b.blocks)));
    else if (wanted)
        ICL_TRY(add_blocks(opencl, &d_gain, &d_shift, wanted, sums, b.blocks, n, error));
done:
    icl_pool_give(opencl, sums);
    return status;
}
