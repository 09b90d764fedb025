/* Ops of sequence models: short convolutions, rotary positions and cross-entropy, by cl/convolve.cl, cl/rotate.cl and
 * cl/cross_entropy.cl. */
#include "backend/opencl/launch.h"
#include "backend/opencl/ops.h"
#include "backend/opencl/pool.h"

/* ---- Convolutions ---- */

/* The gradient of the input is a convolution of d_out with the same kernel, both walked backwards in time. */

#define FAN 32 /* as in cl/convolve.cl */
#define RUN 32 /* tokens of a unit on CPUs */

/* Returns how many taps a unit of the backward pass takes: TOGETHER of cl/convolve.cl. */
static cl_uint taps_together(const icl_opencl *opencl) {
    return opencl->lanes == 1 ? 1 : 4;
}

/* Returns tokens, channels, width and the tokens of a block. */
static cl_uint4 sizes_of(const icl_tensor *in, const icl_tensor *kernel) {
    const cl_uint width = (cl_uint)kernel->shape[0], length = 2 * width > 32 ? 2 * width : 32;
    return (cl_uint4){{(cl_uint)in->shape[1], (cl_uint)in->shape[2], width, length}};
}

static cl_uint blocks_of(const icl_opencl *opencl, size_t channels) {
    return (cl_uint)((channels + opencl->lanes - 1) / opencl->lanes);
}

static icl_view backwards(icl_view view, size_t tokens) {
    view.offset += (cl_uint)(tokens - 1) * (cl_uint)view.stride.s[2];
    view.stride.s[2] = -view.stride.s[2];
    return view;
}

static icl_status filter(icl_opencl *opencl, const icl_tensor *out, const icl_tensor *in, const icl_tensor *kernel,
                         bool reversed, icl_error *error) {
    const cl_uint4 sizes = sizes_of(in, kernel);
    const cl_uint run = opencl->lanes == 1 ? 1 : RUN, runs = (sizes.s[0] + run - 1) / run;
    const cl_uint blocks = blocks_of(opencl, sizes.s[1]), units = (cl_uint)in->shape[0] * runs * blocks;
    const icl_view taps = icl_view_of(kernel);
    icl_view to = icl_view_of(out), from = icl_view_of(in);

    if (reversed) {
        to = backwards(to, sizes.s[0]);
        from = backwards(from, sizes.s[0]);
    }
    return ICL_LAUNCH(opencl, ICL_KERNEL_convolve, units, error, ICL_VIEW(to), ICL_VIEW(from), ICL_VIEW(taps),
                      ICL_ARGUMENT(sizes), ICL_ARGUMENT(run), ICL_ARGUMENT(runs), ICL_ARGUMENT(blocks),
                      ICL_UNITS(units, 2.0 * run * sizes.s[2] * (double)opencl->lanes));
}

icl_status icl_opencl_convolve(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    (void)params;
    return filter(icl_opencl_of(backend), &operands[0], &operands[1], &operands[2], false, error);
}

/* ---- Backward ---- */

/* Sets to [ceil(count / FAN)] to sums of FAN rows of from [count], where a row is [width][c]. */
static icl_status sum_level(icl_opencl *opencl, const icl_view *to, cl_int group_stride, const icl_block *from,
                            cl_uint count, cl_uint4 sizes, icl_error *error) {
    const cl_uint blocks = blocks_of(opencl, sizes.s[1]), units = (count + FAN - 1) / FAN * sizes.s[2] * blocks;

    return ICL_LAUNCH(opencl, ICL_KERNEL_convolve_sum, units, error, ICL_MEMORY_ARGUMENT(to->memory),
                      ICL_ARGUMENT(to->offset), ICL_ARGUMENT(group_stride), ICL_ARGUMENT(to->stride),
                      ICL_MEMORY_ARGUMENT(from->memory), ICL_ARGUMENT(count), ICL_ARGUMENT(sizes), ICL_ARGUMENT(blocks),
                      ICL_UNITS(units, FAN * opencl->lanes));
}

static icl_status sum_taps(icl_opencl *opencl, const icl_tensor *operands, icl_error *error) {
    const icl_view d_kernel = icl_view_of(&operands[1]), d_out = icl_view_of(&operands[2]);
    const icl_view in = icl_view_of(&operands[3]);
    const cl_uint4 sizes = sizes_of(&operands[3], &operands[1]);
    const cl_uint runs = (sizes.s[0] + sizes.s[3] - 1) / sizes.s[3], blocks = blocks_of(opencl, sizes.s[1]);
    const size_t length = (size_t)sizes.s[2] * sizes.s[1];
    cl_uint count = (cl_uint)operands[3].shape[0] * runs;
    const cl_uint together = taps_together(opencl), units = count * ((sizes.s[2] + together - 1) / together) * blocks;
    icl_block *from = NULL, *to = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_pool_take(opencl, count * length * sizeof(cl_float), &from, error));
    ICL_TRY(ICL_LAUNCH(opencl, ICL_KERNEL_convolve_taps, units, error, ICL_MEMORY_ARGUMENT(from->memory),
                       ICL_VIEW(d_out), ICL_VIEW(in), ICL_ARGUMENT(sizes), ICL_ARGUMENT(runs), ICL_ARGUMENT(blocks),
                       ICL_UNITS(units, 2.0 * together * sizes.s[3] * (double)opencl->lanes)));
    for (; count > FAN; count = (count + FAN - 1) / FAN) {
        ICL_TRY(icl_pool_take(opencl, (count + FAN - 1) / FAN * length * sizeof(cl_float), &to, error));
        const icl_view sums = {.memory = to->memory, .stride = {{0, 0, (cl_int)sizes.s[1], 1}}};
        ICL_TRY(sum_level(opencl, &sums, (cl_int)length, from, count, sizes, error));
        icl_pool_give(opencl, from);
        from = to;
        to = NULL;
    }
    ICL_TRY(sum_level(opencl, &d_kernel, 0, from, count, sizes, error));
done:
    icl_pool_give(opencl, from);
    icl_pool_give(opencl, to);
    return status;
}

icl_status icl_opencl_convolve_backward(icl_backend *backend, const void *params, const icl_tensor *operands,
                                        icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);

    (void)params;
    if (operands[0].buffer)
        ICL_CHECK(filter(opencl, &operands[0], &operands[2], &operands[4], true, error));
    return operands[1].buffer ? sum_taps(opencl, operands, error) : ICL_OK;
}

/* ---- Rotary positions ---- */

icl_status icl_opencl_rotate(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const icl_view out = icl_view_of(&operands[0]), in = icl_view_of(&operands[1]), angles = icl_view_of(&operands[2]);
    const cl_float sign = *(const bool *)params ? -1 : 1;
    cl_uint4 shape = icl_shape_of(&operands[0]);

    shape.s[3] /= 2;
    const bool is_gpu = opencl->lanes == 1;
    const cl_uint rows = shape.s[0] * shape.s[1] * shape.s[2], units = is_gpu ? rows * shape.s[3] : rows;
    return ICL_LAUNCH(opencl, ICL_KERNEL_rotate_pairs, units, error, ICL_VIEW(out), ICL_VIEW(in), ICL_VIEW(angles),
                      ICL_ARGUMENT(shape), ICL_UNITS(units, is_gpu ? 6.0 : 6.0 * shape.s[3]), ICL_ARGUMENT(sign));
}

/* ---- Cross-entropy and its gradient ---- */

#define WORK 30.0 /* approximate operations for a logit */

/* Operands of cross_entropy, and of cross_entropy_backward. */
enum { LOSSES = 0, LOGITS, CLASSES };
enum { D_LOGITS = 0, D_LOSSES, OF_LOGITS, OF_CLASSES };

/* Long rows of GPUs: several groups share one. It has at most MOST_CHUNKS, so that each group can join their sums. */
#define CHUNK       2048u /* elements; rows of no more have a team each */
#define MOST_CHUNKS 256u

typedef struct long_rows {
    icl_view logits, classes;
    icl_teams teams;
    cl_uint2 chunks; /* elements of one, and their number in a row */
    cl_uint units;   /* chunks of all rows */
    icl_block *parts;
} long_rows;

static bool is_long(const icl_teams *teams) {
    return teams->shape.s[3] > CHUNK;
}

#define LONG_ROWS(of_rows)                                                                                             \
    ICL_VIEW((of_rows).logits), ICL_VIEW((of_rows).classes), ICL_ARGUMENT((of_rows).teams.shape),                      \
        ICL_ARGUMENT((of_rows).chunks), ICL_MEMORY_ARGUMENT((of_rows).parts->memory),                                  \
        ICL_ARGUMENT((of_rows).teams.rows)

/* Finds maximum and sum of weights of each chunk. */
static icl_status find_parts(icl_opencl *opencl, const icl_tensor *logits, const icl_tensor *classes, long_rows *rows,
                             icl_error *error) {
    const cl_uint n = rows->teams.shape.s[3];
    cl_uint length = CHUNK;

    while ((n + length - 1) / length > MOST_CHUNKS)
        length *= 2;
    rows->logits = icl_view_of(logits);
    rows->classes = icl_view_of(classes);
    rows->chunks = (cl_uint2){{length, (n + length - 1) / length}};
    rows->units = rows->teams.rows * rows->chunks.s[1];
    ICL_CHECK(icl_pool_take(opencl, 2 * rows->units * sizeof(cl_float), &rows->parts, error));
    ICL_CHECK(ICL_LAUNCH_ITEMS(opencl, ICL_KERNEL_cross_entropy_maxima, icl_opencl_group_items(opencl, rows->units),
                               error, ICL_MEMORY_ARGUMENT(rows->parts->memory), ICL_VIEW(rows->logits),
                               ICL_ARGUMENT(rows->teams.shape), ICL_ARGUMENT(rows->chunks),
                               ICL_GROUP_UNITS(rows->units, 4.0 * length)));
    return ICL_LAUNCH_ITEMS(opencl, ICL_KERNEL_cross_entropy_sums, icl_opencl_group_items(opencl, rows->units), error,
                            ICL_MEMORY_ARGUMENT(rows->parts->memory), ICL_VIEW(rows->logits),
                            ICL_ARGUMENT(rows->teams.shape), ICL_ARGUMENT(rows->chunks),
                            ICL_GROUP_UNITS(rows->units, WORK * length), ICL_ARGUMENT(rows->teams.rows));
}

static icl_status long_losses(icl_opencl *opencl, const icl_tensor *operands, const icl_teams *teams,
                              icl_error *error) {
    const icl_view losses = icl_view_of(&operands[LOSSES]);
    long_rows rows = {.teams = *teams};
    icl_status status = ICL_OK;

    ICL_TRY(find_parts(opencl, &operands[LOGITS], &operands[CLASSES], &rows, error));
    ICL_TRY(ICL_LAUNCH_ITEMS(opencl, ICL_KERNEL_cross_entropy_join, icl_opencl_group_items(opencl, teams->rows), error,
                             ICL_VIEW(losses), LONG_ROWS(rows),
                             ICL_GROUP_UNITS(rows.teams.rows, 4.0 * rows.chunks.s[1])));
done:
    icl_pool_give(opencl, rows.parts);
    return status;
}

static icl_status long_slopes(icl_opencl *opencl, const icl_tensor *operands, const icl_teams *teams,
                              icl_error *error) {
    const icl_view d_logits = icl_view_of(&operands[D_LOGITS]), d_losses = icl_view_of(&operands[D_LOSSES]);
    long_rows rows = {.teams = *teams};
    icl_status status = ICL_OK;

    ICL_TRY(find_parts(opencl, &operands[OF_LOGITS], &operands[OF_CLASSES], &rows, error));
    ICL_TRY(ICL_LAUNCH_ITEMS(opencl, ICL_KERNEL_cross_entropy_slopes, icl_opencl_group_items(opencl, rows.units), error,
                             ICL_VIEW(d_logits), ICL_VIEW(d_losses), LONG_ROWS(rows),
                             ICL_GROUP_UNITS(rows.units, WORK * rows.chunks.s[0])));
done:
    icl_pool_give(opencl, rows.parts);
    return status;
}

icl_status icl_opencl_cross_entropy(icl_backend *backend, const void *params, const icl_tensor *operands,
                                    icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const icl_teams teams = icl_teams_of(&operands[LOGITS]);
    const icl_view losses = icl_view_of(&operands[LOSSES]), logits = icl_view_of(&operands[LOGITS]);
    const icl_view classes = icl_view_of(&operands[CLASSES]);
    const double work = WORK * teams.shape.s[3];

    (void)params;
    if (opencl->lanes > 1)
        return ICL_LAUNCH(opencl, ICL_KERNEL_cross_entropy_lanes, teams.rows, error, ICL_VIEW(losses), ICL_VIEW(logits),
                          ICL_VIEW(classes), ICL_ARGUMENT(teams.shape), ICL_UNITS(teams.rows, work));
    if (is_long(&teams))
        return long_losses(opencl, operands, &teams, error);
    return ICL_LAUNCH_ITEMS(opencl, ICL_KERNEL_cross_entropy_teams, icl_team_items(opencl, &teams), error,
                            ICL_VIEW(losses), ICL_VIEW(logits), ICL_VIEW(classes), ICL_TEAMS(teams, work));
}

icl_status icl_opencl_cross_entropy_backward(icl_backend *backend, const void *params, const icl_tensor *operands,
                                             icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const icl_teams teams = icl_teams_of(&operands[OF_LOGITS]);
    const icl_view d_logits = icl_view_of(&operands[D_LOGITS]), d_losses = icl_view_of(&operands[D_LOSSES]);
    const icl_view logits = icl_view_of(&operands[OF_LOGITS]), classes = icl_view_of(&operands[OF_CLASSES]);
    const double work = WORK * teams.shape.s[3];

    (void)params;
    if (opencl->lanes > 1)
        return ICL_LAUNCH(opencl, ICL_KERNEL_cross_entropy_backward_lanes, teams.rows, error, ICL_VIEW(d_logits),
                          ICL_VIEW(d_losses), ICL_VIEW(logits), ICL_VIEW(classes), ICL_ARGUMENT(teams.shape),
                          ICL_UNITS(teams.rows, work));
    if (is_long(&teams))
        return long_slopes(opencl, operands, &teams, error);
    return ICL_LAUNCH_ITEMS(opencl, ICL_KERNEL_cross_entropy_backward_teams, icl_team_items(opencl, &teams), error,
                            ICL_VIEW(d_logits), ICL_VIEW(d_losses), ICL_VIEW(logits), ICL_VIEW(classes),
                            ICL_TEAMS(teams, work));
}
