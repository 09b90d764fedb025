/* Elementwise ops: one driver that cuts views of any strides into rectangles for the tile kernels. */
#include <string.h>

#include "backend/cpu/host.h"

/* The approximate number of elements in a rectangle: small enough to share out, large enough to hide the call. */
#define TILE_ELEMENTS 16384

/* The operands' common index space, reordered and merged so that few long axes remain; axis 3 is the innermost. */
typedef struct loop_nest {
    size_t shape[ICL_MAX_RANK];
    size_t stride[ICL_MAX_TILE_OPERANDS][ICL_MAX_RANK];
    real *base[ICL_MAX_TILE_OPERANDS];
    int operands;
    icl_tile_kernel *kernel;
    const void *params;
    size_t tile_rows, tile_columns, row_tiles, column_tiles;
} loop_nest;

static void swap_axes(loop_nest *loop, int first, int second) {
    const size_t shape = loop->shape[first];
    loop->shape[first] = loop->shape[second];
    loop->shape[second] = shape;
    for (int i = 0; i < loop->operands; i++) {
        const size_t stride = loop->stride[i][first];
        loop->stride[i][first] = loop->stride[i][second];
        loop->stride[i][second] = stride;
    }
}

/* Orders the axes by the output's stride, extents of 1 outermost, so that the output is written in memory's order. */
static void sort_axes(loop_nest *loop) {
    for (int i = 1; i < ICL_MAX_RANK; i++)
        for (int axis = i; axis > 0; axis--) {
            const bool later_is_one = loop->shape[axis] == 1, earlier_is_one = loop->shape[axis - 1] == 1;
            const bool larger = loop->stride[0][axis] > loop->stride[0][axis - 1];
            if ((later_is_one && !earlier_is_one) || (later_is_one == earlier_is_one && larger))
                swap_axes(loop, axis, axis - 1);
        }
}

/* Returns whether, in every operand, a step along `axis` equals shape[axis + 1] steps along axis + 1. */
static bool can_merge(const loop_nest *loop, int axis) {
    for (int i = 0; i < loop->operands; i++)
        if (loop->stride[i][axis] != loop->stride[i][axis + 1] * loop->shape[axis + 1])
            return false;
    return true;
}

/* Merges axis into axis + 1 and moves the axes before it inwards. */
static void merge(loop_nest *loop, int axis) {
    loop->shape[axis + 1] *= loop->shape[axis];
    for (; axis > 0; axis--) {
        loop->shape[axis] = loop->shape[axis - 1];
        for (int i = 0; i < loop->operands; i++)
            loop->stride[i][axis] = loop->stride[i][axis - 1];
    }
    loop->shape[0] = 1;
    for (int i = 0; i < loop->operands; i++)
        loop->stride[i][0] = 0;
}

static void set_up(loop_nest *loop, const icl_tensor *operands) {
    const int rank = operands[0].rank;
    for (int axis = 0; axis < ICL_MAX_RANK; axis++) {
        const int from = axis - (ICL_MAX_RANK - rank);
        loop->shape[axis] = from < 0 ? 1 : operands[0].shape[from];
        for (int i = 0; i < loop->operands; i++)
            loop->stride[i][axis] = from < 0 || loop->shape[axis] == 1 ? 0 : operands[i].stride[from];
    }
    for (int i = 0; i < loop->operands; i++)
        loop->base[i] = host_elements(&operands[i]);
    sort_axes(loop);
    for (int axis = ICL_MAX_RANK - 2; axis >= 0; axis--)
        while (loop->shape[axis] > 1 && can_merge(loop, axis))
            merge(loop, axis);

    loop->tile_columns = loop->shape[3] < TILE_ELEMENTS ? loop->shape[3] : TILE_ELEMENTS;
    loop->tile_rows = TILE_ELEMENTS / loop->tile_columns;
    loop->column_tiles = (loop->shape[3] + loop->tile_columns - 1) / loop->tile_columns;
    loop->row_tiles = (loop->shape[2] + loop->tile_rows - 1) / loop->tile_rows;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* is_dense: the operand's rows are adjacent in memory, without a gap. repeats_row: all its rows are the same one. */
static bool is_dense(const icl_tile *tile, int operand) {
    return tile->column_stride[operand] == 1 && tile->row_stride[operand] == tile->columns;
}

static bool repeats_row(const icl_tile *tile, int operand) {
    return tile->row_stride[operand] == 0 && tile->column_stride[operand] <= 1;
}

/* Short rows leave lanes of a vector empty. If every operand is dense or repeats one row, REPEATS rows are processed as
 * one long row; a repeated row is first written out REPEATS times. */
#define SHORT_ROW 64
#define REPEATS   16

static void run_lengthened(const loop_nest *loop, const icl_tile *tile, void *const *elements) {
    real repeated[ICL_MAX_TILE_OPERANDS][REPEATS * SHORT_ROW];
    icl_tile head = *tile, rest = *tile;
    void *head_elements[ICL_MAX_TILE_OPERANDS], *rest_elements[ICL_MAX_TILE_OPERANDS];
    const size_t done = tile->rows / REPEATS * REPEATS;

    head.rows = tile->rows / REPEATS;
    head.columns = tile->columns * REPEATS;
    rest.rows = tile->rows - done;
    for (int i = 0; i < loop->operands; i++) {
        const real *row = elements[i];
        head.row_stride[i] = tile->row_stride[i] * REPEATS;
        head_elements[i] = elements[i];
        rest_elements[i] = (real *)elements[i] + done * tile->row_stride[i];
        if (tile->row_stride[i] == 0 && tile->column_stride[i] == 1) {
            for (size_t j = 0; j < head.columns; j++)
                repeated[i][j] = row[j % tile->columns];
            head_elements[i] = repeated[i];
        }
    }
    loop->kernel(&head, head_elements, loop->params);
    if (rest.rows > 0)
        loop->kernel(&rest, rest_elements, loop->params);
}

static void run_tile(const loop_nest *loop, const icl_tile *tile, void *const *elements) {
    bool lengthen = tile->columns > 1 && tile->columns <= SHORT_ROW && tile->rows >= 2 * REPEATS && is_dense(tile, 0);
    for (int i = 1; i < loop->operands; i++)
        lengthen = lengthen && (is_dense(tile, i) || repeats_row(tile, i));
    if (lengthen)
        run_lengthened(loop, tile, elements);
    else
        loop->kernel(tile, elements, loop->params);
}

static void run_tiles(void *context, size_t first, size_t last, size_t thread) {
    const loop_nest *loop = context;
    (void)thread;
    for (size_t item = first; item < last; item++) {
        const size_t column = item % loop->column_tiles * loop->tile_columns;
        const size_t row = item / loop->column_tiles % loop->row_tiles * loop->tile_rows;
        const size_t outer = item / loop->column_tiles / loop->row_tiles;
        icl_tile tile = {.rows = smaller(loop->tile_rows, loop->shape[2] - row),
                         .columns = smaller(loop->tile_columns, loop->shape[3] - column)};
        void *elements[ICL_MAX_TILE_OPERANDS];
        for (int i = 0; i < loop->operands; i++) {
            const size_t *stride = loop->stride[i];
            tile.row_stride[i] = stride[2];
            tile.column_stride[i] = stride[3];
            elements[i] = loop->base[i] + outer / loop->shape[1] * stride[0] + outer % loop->shape[1] * stride[1] +
                          row * stride[2] + column * stride[3];
        }
        run_tile(loop, &tile, elements);
    }
}

void HOST(elementwise)(icl_backend *backend, icl_tile_kernel *kernel, const void *params, const icl_tensor *operands,
                       int count) {
    loop_nest loop = {.operands = count, .kernel = kernel, .params = params};
    set_up(&loop, operands);
    const size_t outer = loop.shape[0] * loop.shape[1];
    HOST(run)
    (host_state(backend), outer * loop.row_tiles * loop.column_tiles, outer * loop.shape[2] * loop.shape[3], run_tiles,
     &loop);
}

/* ---- The ops ---- */

icl_status HOST(fill)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    const real value = (real) * (const double *)params;
    (void)error;
    HOST(elementwise)(backend, host_state(backend)->kernels->fill, &value, operands, 1);
    return ICL_OK;
}

icl_status HOST(copy)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    (void)params;
    (void)error;
    HOST(elementwise)(backend, host_state(backend)->kernels->copy, NULL, operands, 2);
    return ICL_OK;
}

icl_status HOST(unary)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    const icl_unary_kind kind = *(const icl_unary_kind *)params;
    (void)error;
    HOST(elementwise)(backend, host_state(backend)->kernels->unary[kind], NULL, operands, 2);
    return ICL_OK;
}

icl_status HOST(binary)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    const icl_binary_kind kind = *(const icl_binary_kind *)params;
    (void)error;
    HOST(elementwise)(backend, host_state(backend)->kernels->binary[kind], NULL, operands, 3);
    return ICL_OK;
}

icl_status HOST(scale_add)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    const icl_scale_add_params *given = params;
    const real factors[2] = {(real)given->alpha, (real)given->beta};
    const HOST(kernels) *kernels = host_state(backend)->kernels;
    (void)error;
    if (operands[2].buffer)
        HOST(elementwise)(backend, kernels->scale_add, factors, operands, 3);
    else
        HOST(elementwise)(backend, kernels->scale, factors, operands, 2);
    return ICL_OK;
}
