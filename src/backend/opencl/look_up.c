/* Rows by number, and sums of rows of one number: cl/look_up.cl. */
#include "backend/opencl/opencl.h"

#define DIGIT_BITS 8 /* as in cl/look_up.cl */
#define FAN        32
#define FAN_BITS   5

/* symbols at the positions of out's rows: with an axis of one element more. */
static icl_view symbols_view(icl_tensor symbols) {
    symbols.shape[symbols.rank] = 1;
    symbols.stride[symbols.rank++] = 0;
    return icl_view_of(&symbols);
}

static cl_uint rows_of(const cl_uint4 *shape) {
    return shape->s[0] * shape->s[1] * shape->s[2];
}

icl_status icl_opencl_look_up(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const icl_view out = icl_view_of(&operands[0]), table = icl_view_of(&operands[1]);
    const icl_view symbols = symbols_view(operands[2]);
    const cl_uint4 shape = icl_shape_of(&operands[0]);
    const cl_uint rows = (cl_uint)operands[1].shape[0], segment = opencl->lanes == 1 ? 1 : 4096;
    const cl_uint segments = (shape.s[3] + segment - 1) / segment, units = rows_of(&shape) * segments;

    (void)params;
    return ICL_LAUNCH(opencl, ICL_KERNEL_look_up, units, error, ICL_VIEW(out), ICL_VIEW(table), ICL_VIEW(symbols),
                      ICL_ARGUMENT(shape), ICL_ARGUMENT(segment), ICL_ARGUMENT(segments), ICL_UNITS(units, segment),
                      ICL_ARGUMENT(rows));
}

/* ---- Backward ---- */

/* The symbols in two copies, which the passes of the sort write in turn, and what follows from their order. */
typedef struct sorted {
    cl_uint count, rows, width;
    icl_block *keys[2], *order[2];
    int current; /* copy */
    icl_block *counts, *starts, *sums;
} sorted;

/* Chunks of symbols that are sorted by one work-item each: on GPUs as many as keep it busy, but long enough that the
 * counts of their digits do not outweigh them. The order does not depend on it. */
static cl_uint chunk_length(const icl_opencl *opencl, cl_uint count) {
    const cl_uint most = opencl->lanes == 1 ? 1024 : (cl_uint)opencl->max_items;
    const cl_uint least = opencl->lanes == 1 ? 256 : 4096, even = (count + most - 1) / most;
    return even > least ? even : least;
}

static icl_status find_keys(icl_opencl *opencl, const sorted *s, const icl_tensor *operands, icl_error *error) {
    const icl_view symbols = symbols_view(operands[2]), d_out = icl_view_of(&operands[1]);
    cl_uint4 shape = icl_shape_of(&operands[1]);

    shape.s[3] = 1;
    return ICL_LAUNCH(opencl, ICL_KERNEL_look_up_keys, s->count, error, ICL_MEMORY_ARGUMENT(s->keys[0]->memory),
                      ICL_MEMORY_ARGUMENT(s->order[0]->memory), ICL_VIEW(symbols), ICL_ARGUMENT(d_out.stride),
                      ICL_ARGUMENT(shape), ICL_UNITS(s->count, 16), ICL_ARGUMENT(s->rows));
}

/* One pass: by the digit that begins at bit `shift`. */
static icl_status sort_digit(icl_opencl *opencl, sorted *s, cl_uint shift, icl_error *error) {
    const cl_uint chunk = chunk_length(opencl, s->count), chunks = (s->count + chunk - 1) / chunk;
    const cl_uint left = s->rows >> shift, most = 1u << DIGIT_BITS, digits = left < most ? left + 1 : most;
    const cl_uint counts = digits * chunks;
    const icl_block *keys = s->keys[s->current], *order = s->order[s->current];
    const icl_block *to_keys = s->keys[1 - s->current], *to_order = s->order[1 - s->current];

    ICL_CHECK(ICL_LAUNCH(opencl, ICL_KERNEL_sort_count, chunks, error, ICL_MEMORY_ARGUMENT(s->counts->memory),
                         ICL_MEMORY_ARGUMENT(keys->memory), ICL_ARGUMENT(s->count), ICL_ARGUMENT(chunk),
                         ICL_ARGUMENT(chunks), ICL_ARGUMENT(digits), ICL_ARGUMENT(shift),
                         ICL_UNITS(chunks, 2 * chunk + digits)));
    ICL_CHECK(ICL_LAUNCH_ITEMS(opencl, ICL_KERNEL_sort_scan, opencl->local_size, error,
                               ICL_MEMORY_ARGUMENT(s->counts->memory), ICL_ARGUMENT(counts)));
    ICL_CHECK(ICL_LAUNCH(opencl, ICL_KERNEL_sort_place, chunks, error, ICL_MEMORY_ARGUMENT(to_keys->memory),
                         ICL_MEMORY_ARGUMENT(to_order->memory), ICL_MEMORY_ARGUMENT(s->counts->memory),
                         ICL_MEMORY_ARGUMENT(keys->memory), ICL_MEMORY_ARGUMENT(order->memory), ICL_ARGUMENT(s->count),
                         ICL_ARGUMENT(chunk), ICL_ARGUMENT(chunks), ICL_ARGUMENT(shift), ICL_UNITS(chunks, 6 * chunk)));
    s->current = 1 - s->current;
    return ICL_OK;
}

static icl_status sort_symbols(icl_opencl *opencl, sorted *s, const icl_tensor *operands, icl_error *error) {
    const cl_uint chunk = chunk_length(opencl, s->count), chunks = (s->count + chunk - 1) / chunk;
    const cl_uint starts = s->rows + 1;

    for (int copy = 0; copy < 2; copy++) {
        ICL_CHECK(icl_pool_take(opencl, s->count * sizeof(cl_uint), &s->keys[copy], error));
        ICL_CHECK(icl_pool_take(opencl, s->count * sizeof(cl_int), &s->order[copy], error));
    }
    ICL_CHECK(icl_pool_take(opencl, (size_t)chunks * sizeof(cl_uint) << DIGIT_BITS, &s->counts, error));
    ICL_CHECK(icl_pool_take(opencl, starts * sizeof(cl_uint), &s->starts, error));
    ICL_CHECK(find_keys(opencl, s, operands, error));
    for (cl_uint shift = 0; shift == 0 || s->rows >> shift > 0; shift += DIGIT_BITS)
        ICL_CHECK(sort_digit(opencl, s, shift, error));
    return ICL_LAUNCH(opencl, ICL_KERNEL_row_starts, starts, error, ICL_MEMORY_ARGUMENT(s->starts->memory),
                      ICL_MEMORY_ARGUMENT(s->keys[s->current]->memory), ICL_ARGUMENT(s->count), ICL_UNITS(starts, 100));
}

/* Sums of 32 rows, of 32 of those and so on. */
static icl_status sum_levels(icl_opencl *opencl, sorted *s, const icl_view *d_out, icl_error *error) {
    const cl_uint blocks = (cl_uint)((s->width + opencl->lanes - 1) / opencl->lanes);
    const cl_int step = d_out->stride.s[3];
    cl_uint level = 1, base = 0, from_base = 0;
    size_t all = 0;

    for (cl_uint left = s->count >> FAN_BITS; left > 0; left >>= FAN_BITS)
        all += left;
    ICL_CHECK(icl_pool_take(opencl, (all > 0 ? all : 1) * s->width * sizeof(cl_float), &s->sums, error));
    for (cl_uint runs = s->count >> FAN_BITS; runs > 0; runs >>= FAN_BITS, level++) {
        const cl_uint units = runs * blocks;
        ICL_CHECK(ICL_LAUNCH(
            opencl, ICL_KERNEL_sum_runs, units, error, ICL_MEMORY_ARGUMENT(s->sums->memory), ICL_ARGUMENT(base),
            ICL_ARGUMENT(from_base), ICL_MEMORY_ARGUMENT(d_out->memory), ICL_ARGUMENT(d_out->offset),
            ICL_ARGUMENT(step), ICL_MEMORY_ARGUMENT(s->order[s->current]->memory),
            ICL_MEMORY_ARGUMENT(s->keys[s->current]->memory), ICL_ARGUMENT(s->rows), ICL_ARGUMENT(s->width),
            ICL_ARGUMENT(level), ICL_ARGUMENT(blocks), ICL_UNITS(units, FAN * opencl->lanes)));
        from_base = base;
        base += runs;
    }
    return ICL_OK;
}

static icl_status sum_symbols(icl_opencl *opencl, const sorted *s, const icl_tensor *operands, icl_error *error) {
    const icl_view d_table = icl_view_of(&operands[0]), d_out = icl_view_of(&operands[1]);
    const cl_uint blocks = (cl_uint)((s->width + opencl->lanes - 1) / opencl->lanes), units = s->rows * blocks;
    const cl_int step = d_out.stride.s[3];

    return ICL_LAUNCH(opencl, ICL_KERNEL_sum_symbols, units, error, ICL_VIEW(d_table),
                      ICL_MEMORY_ARGUMENT(s->sums->memory), ICL_MEMORY_ARGUMENT(d_out.memory),
                      ICL_ARGUMENT(d_out.offset), ICL_ARGUMENT(step), ICL_MEMORY_ARGUMENT(s->order[s->current]->memory),
                      ICL_MEMORY_ARGUMENT(s->starts->memory), ICL_ARGUMENT(s->count), ICL_ARGUMENT(s->width),
                      ICL_ARGUMENT(blocks), ICL_UNITS(units, 2 * FAN * opencl->lanes));
}

icl_status icl_opencl_look_up_backward(icl_backend *backend, const void *params, const icl_tensor *operands,
                                       icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const icl_view d_out = icl_view_of(&operands[1]);
    sorted s = {.count = (cl_uint)icl_tensor_count(&operands[2]),
                .rows = (cl_uint)operands[0].shape[0],
                .width = (cl_uint)operands[0].shape[1]};
    icl_status status = ICL_OK;

    (void)params;
    ICL_TRY(sort_symbols(opencl, &s, operands, error));
    ICL_TRY(sum_levels(opencl, &s, &d_out, error));
    ICL_TRY(sum_symbols(opencl, &s, operands, error));
done:
    for (int copy = 0; copy < 2; copy++) {
        icl_pool_give(opencl, s.keys[copy]);
        icl_pool_give(opencl, s.order[copy]);
    }
    icl_pool_give(opencl, s.counts);
    icl_pool_give(opencl, s.starts);
    icl_pool_give(opencl, s.sums);
    return status;
}
