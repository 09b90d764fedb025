/* Looks up rows of a table by number, and sums the rows of each number: cl/look_up.cl. */
#include "backend/opencl/launch.h"
#include "backend/opencl/ops.h"
#include "backend/opencl/pool.h"

#define DIGIT_BITS 8
#define FAN        32 /* this one and the others as in cl/look_up.cl */
#define FAN_BITS   5
#define VECTORS    4 /* on CPUs */

/* Returns the symbols at the positions of out's rows: with one more axis, of one element. */
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
    const bool is_gpu = opencl->lanes == 1;
    const cl_uint rows = (cl_uint)operands[1].shape[0], units = rows_of(&shape) * (is_gpu ? shape.s[3] : 1);

    (void)params;
    return ICL_LAUNCH(opencl, ICL_KERNEL_look_up, units, error, ICL_VIEW(out), ICL_VIEW(table), ICL_VIEW(symbols),
                      ICL_ARGUMENT(shape), ICL_UNITS(units, is_gpu ? 1 : shape.s[3]), ICL_ARGUMENT(rows));
}

/* ---- Backward ---- */

/* The symbols in two copies, which the passes of the sort write in turn, and what follows from their order. */
typedef struct sorted {
    cl_uint count, rows, width;
    cl_uint chunk, chunks; /* symbols that one work-item sorts; how many chunks there are */
    cl_uint digit_bits;
    icl_block *keys[2], *order[2];
    int current; /* copy */
    icl_block *counts, *ends, *sums;
    cl_uint ends_step; /* see sum_symbols; ends == counts if one pass sorts */
} sorted;

/* Returns the length of chunks of symbols: on GPUs there are enough to keep the device busy, but they are so long that
 * the counts of their digits do not outweigh them. The order does not depend on the length. */
static cl_uint chunk_length(const icl_opencl *opencl, cl_uint count) {
    const cl_uint most = opencl->lanes == 1 ? 1024 : (cl_uint)opencl->max_items;
    const cl_uint least = opencl->lanes == 1 ? 256 : 4096, even = (count + most - 1) / most;
    return even > least ? even : least;
}

/* Returns the bits of a digit: all of them on CPUs, for a single pass, unless the table is so large that its counts
 * outweigh the symbols. */
static cl_uint choose_digit(const icl_opencl *opencl, const sorted *s) {
    cl_uint bits = DIGIT_BITS;

    if (opencl->lanes == 1 || (uint64_t)(s->rows + 1) * s->chunks > 4 * (uint64_t)s->count)
        return bits;
    while (s->rows >> bits > 0)
        bits++;
    return bits;
}

static cl_uint digits_at(const sorted *s, cl_uint shift) {
    const cl_uint left = s->rows >> shift, most = 1U << s->digit_bits;
    return left < most ? left + 1 : most;
}

static icl_status find_keys(icl_opencl *opencl, const sorted *s, const icl_tensor *operands, icl_error *error) {
    const icl_view symbols = symbols_view(operands[2]), d_out = icl_view_of(&operands[1]);
    cl_uint4 shape = icl_shape_of(&operands[1]);

    shape.s[3] = 1;
    return ICL_LAUNCH(opencl, ICL_KERNEL_look_up_keys, s->count, error, ICL_MEMORY_ARGUMENT(s->keys[0]->memory),
                      ICL_MEMORY_ARGUMENT(s->order[0]->memory), ICL_VIEW(symbols), ICL_ARGUMENT(d_out.stride),
                      ICL_ARGUMENT(shape), ICL_UNITS(s->count, 16), ICL_ARGUMENT(s->rows));
}

/* Runs one pass of the sort, by the digit that begins at bit `shift`. */
static icl_status sort_digit(icl_opencl *opencl, sorted *s, cl_uint shift, icl_error *error) {
    const cl_uint digits = digits_at(s, shift), counts = digits * s->chunks, mask = (1U << s->digit_bits) - 1;
    const icl_block *keys = s->keys[s->current], *order = s->order[s->current];
    const icl_block *to_keys = s->keys[1 - s->current], *to_order = s->order[1 - s->current];

    ICL_CHECK(ICL_LAUNCH(opencl, ICL_KERNEL_sort_count, s->chunks, error, ICL_MEMORY_ARGUMENT(s->counts->memory),
                         ICL_MEMORY_ARGUMENT(keys->memory), ICL_ARGUMENT(s->count), ICL_ARGUMENT(s->chunk),
                         ICL_ARGUMENT(s->chunks), ICL_ARGUMENT(digits), ICL_ARGUMENT(shift), ICL_ARGUMENT(mask),
                         ICL_UNITS(s->chunks, 2 * s->chunk + digits)));
    ICL_CHECK(ICL_LAUNCH_ITEMS(opencl, ICL_KERNEL_sort_scan, opencl->local_size, error,
                               ICL_MEMORY_ARGUMENT(s->counts->memory), ICL_ARGUMENT(counts)));
    ICL_CHECK(ICL_LAUNCH(opencl, ICL_KERNEL_sort_place, s->chunks, error, ICL_MEMORY_ARGUMENT(to_keys->memory),
                         ICL_MEMORY_ARGUMENT(to_order->memory), ICL_MEMORY_ARGUMENT(s->counts->memory),
                         ICL_MEMORY_ARGUMENT(keys->memory), ICL_MEMORY_ARGUMENT(order->memory), ICL_ARGUMENT(s->count),
                         ICL_ARGUMENT(s->chunk), ICL_ARGUMENT(s->chunks), ICL_ARGUMENT(shift), ICL_ARGUMENT(mask),
                         ICL_UNITS(s->chunks, 6 * s->chunk)));
    s->current = 1 - s->current;
    return ICL_OK;
}

/* Finds where each row's symbols end: a single pass has left these places in its counts; otherwise they are searched
 * for. */
static icl_status find_ends(icl_opencl *opencl, sorted *s, icl_error *error) {
    if (s->rows >> s->digit_bits == 0) {
        s->ends_step = s->chunks;
        return ICL_OK;
    }
    s->ends_step = 1;
    ICL_CHECK(icl_pool_take(opencl, s->rows * sizeof(cl_uint), &s->ends, error));
    return ICL_LAUNCH(opencl, ICL_KERNEL_row_ends, s->rows, error, ICL_MEMORY_ARGUMENT(s->ends->memory),
                      ICL_MEMORY_ARGUMENT(s->keys[s->current]->memory), ICL_ARGUMENT(s->count),
                      ICL_UNITS(s->rows, 100));
}

static icl_status sort_symbols(icl_opencl *opencl, sorted *s, const icl_tensor *operands, icl_error *error) {
    for (int copy = 0; copy < 2; copy++) {
        ICL_CHECK(icl_pool_take(opencl, s->count * sizeof(cl_uint), &s->keys[copy], error));
        ICL_CHECK(icl_pool_take(opencl, s->count * sizeof(cl_int), &s->order[copy], error));
    }
    s->chunk = chunk_length(opencl, s->count);
    s->chunks = (s->count + s->chunk - 1) / s->chunk;
    s->digit_bits = choose_digit(opencl, s);
    ICL_CHECK(icl_pool_take(opencl, (size_t)digits_at(s, 0) * s->chunks * sizeof(cl_uint), &s->counts, error));
    ICL_CHECK(find_keys(opencl, s, operands, error));
    for (cl_uint shift = 0; shift == 0 || s->rows >> shift > 0; shift += s->digit_bits)
        ICL_CHECK(sort_digit(opencl, s, shift, error));
    return find_ends(opencl, s, error);
}

/* Returns the units of a launch for each row whose columns it sums. */
static cl_uint blocks_of(const icl_opencl *opencl, const sorted *s) {
    const cl_uint columns = (cl_uint)(opencl->lanes == 1 ? 1 : VECTORS * opencl->lanes);
    return (s->width + columns - 1) / columns;
}

/* Sums 32 rows at a time, then 32 of these sums, and so on. */
static icl_status sum_levels(icl_opencl *opencl, sorted *s, const icl_view *d_out, icl_error *error) {
    const cl_uint blocks = blocks_of(opencl, s);
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
            ICL_ARGUMENT(level), ICL_ARGUMENT(blocks), ICL_UNITS(units, FAN * VECTORS * opencl->lanes)));
        from_base = base;
        base += runs;
    }
    return ICL_OK;
}

static icl_status sum_symbols(icl_opencl *opencl, const sorted *s, const icl_tensor *operands, icl_error *error) {
    const icl_view d_table = icl_view_of(&operands[0]), d_out = icl_view_of(&operands[1]);
    const cl_uint blocks = blocks_of(opencl, s), units = s->rows * blocks;
    const cl_int step = d_out.stride.s[3];
    const icl_block *ends = s->ends ? s->ends : s->counts;

    return ICL_LAUNCH(opencl, ICL_KERNEL_sum_symbols, units, error, ICL_VIEW(d_table),
                      ICL_MEMORY_ARGUMENT(s->sums->memory), ICL_MEMORY_ARGUMENT(d_out.memory),
                      ICL_ARGUMENT(d_out.offset), ICL_ARGUMENT(step), ICL_MEMORY_ARGUMENT(s->order[s->current]->memory),
                      ICL_MEMORY_ARGUMENT(ends->memory), ICL_ARGUMENT(s->ends_step), ICL_ARGUMENT(s->count),
                      ICL_ARGUMENT(s->width), ICL_ARGUMENT(blocks),
                      ICL_UNITS(units, 2 * FAN * VECTORS * opencl->lanes));
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
    icl_pool_give(opencl, s.ends);
    icl_pool_give(opencl, s.sums);
    return status;
}
