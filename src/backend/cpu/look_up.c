/* Table look-up: rows by number, and its gradient, the sums of rows that share a number. Numbers are sorted by
 * counting, and rows added in the tree that ops_sequence.h states. */
#include <stdint.h>
#include <string.h>

#include "backend/cpu/rows.h"
#include "iclab/status.h"

/* Returns a symbol's row in a table of `rows`, or `rows` if it is not the number of a row. */
static size_t row_of_symbol(real symbol, size_t rows) {
    if (!(symbol >= 0 && symbol < (real)rows))
        return rows;
    return (real)(size_t)symbol == symbol ? (size_t)symbol : rows;
}

/* Views symbols as rows of one element, so that row i of both operands belongs to one symbol. */
static icl_tensor as_rows(icl_tensor symbols) {
    symbols.shape[symbols.rank] = 1;
    symbols.stride[symbols.rank++] = 0;
    return symbols;
}

/* ---- Looking up ---- */

typedef struct look_up_run {
    HOST(row_view) out, symbols;
    const icl_tensor *table;
    size_t width;
} look_up_run;

static void copy_row(real *to, size_t to_step, const real *from, size_t from_step, size_t width) {
    if (to_step == 1 && from_step == 1)
        memcpy(to, from, width * sizeof *to);
    else
        for (size_t k = 0; k < width; k++)
            to[k * to_step] = from[k * from_step];
}

static void look_rows_up(void *context, size_t first, size_t last, size_t thread) {
    const look_up_run *run = context;
    const icl_tensor *table = run->table;
    (void)thread;

    for (size_t i = first; i < last; i++) {
        const size_t row = row_of_symbol(*host_row(&run->symbols, i), table->shape[0]);
        real *out = host_row(&run->out, i);
        if (row < table->shape[0])
            copy_row(out, run->out.step, host_elements(table) + row * table->stride[0], table->stride[1], run->width);
        else
            for (size_t k = 0; k < run->width; k++)
                out[k * run->out.step] = (real)NAN;
    }
}

icl_status HOST(look_up)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    const icl_tensor symbols = as_rows(operands[2]);
    look_up_run run = {.out = host_rows(&operands[0]),
                       .symbols = host_rows(&symbols),
                       .table = &operands[1],
                       .width = operands[1].shape[1]};
    const size_t count = icl_tensor_count(&symbols);

    (void)params;
    (void)error;
    HOST(run)(host_state(backend), count, count * (run.width + 4), look_rows_up, &run);
    return ICL_OK;
}

/* ---- Adding up ---- */

/* Sums of 32 rows, of 32 such sums, and so on: level l has a sum of 32^l rows at each multiple of 32^l. */
#define FAN         32
#define FAN_BITS    5
#define MOST_LEVELS 7 /* 2^31 rows */

typedef struct add_up_run {
    const HOST(kernels) * kernels;
    const icl_tensor *d_table;
    HOST(row_view) d_out, symbols;
    size_t count, table_rows, width; /* rows of d_out; rows of d_table; elements of a row */
    int levels;                      /* number of levels; level 0 is the rows themselves */
    uint32_t *row_of;                /* [count] each symbol's row; table_rows if it has none */
    uint32_t *sorted;                /* [count] the rows, sorted */
    uint32_t *starts;                /* [table_rows + 2] where the symbols of each row start */
    size_t *offsets;                 /* [count] offsets in d_out, in the sorted order */
    real *sums[MOST_LEVELS];         /* [count >> 5 l][width], from level 1 on; a sum across rows is not written */
    real *total, *level_sum;         /* [width], the first thread's */
    size_t thread_length;            /* elements from one thread's memory to the next one's */
    int level;                       /* being summed */
} add_up_run;

static size_t sums_of_level(const add_up_run *run, int level) {
    return run->count >> (FAN_BITS * level);
}

/* Returns `count` rows of a level, from `first` on. */
static HOST(row_list) rows_of_level(const add_up_run *run, int level, size_t first, size_t count) {
    if (level == 0)
        return (HOST(row_list)){
            .from = run->d_out.first, .offsets = run->offsets + first, .step = run->d_out.step, .count = count};
    return (HOST(row_list)){
        .from = run->sums[level] + first * run->width, .row_stride = run->width, .step = 1, .count = count};
}

static void sum_level(void *context, size_t first, size_t last, size_t thread) {
    const add_up_run *run = context;
    const int shift = FAN_BITS * run->level;
    (void)thread;

    for (size_t i = first; i < last; i++) {
        const uint32_t row = run->sorted[i << shift];
        const HOST(row_list) rows = rows_of_level(run, run->level - 1, i * FAN, FAN);
        if (row < run->table_rows && row == run->sorted[((i + 1) << shift) - 1])
            run->kernels->sum_rows(&rows, run->width, false, run->sums[run->level] + i * run->width);
    }
}

/* total = the sum of the rows low .. high - 1. */
static void sum_range(const add_up_run *run, size_t low, size_t high, real *total, real *level_sum) {
    memset(total, 0, run->width * sizeof *total);
    for (int level = 0; low < high; level++, low /= FAN, high /= FAN) {
        const size_t up = host_round_up(low, FAN), middle = up < high ? up : high;
        const size_t down = high / FAN * FAN, end = down > middle ? down : middle;
        const HOST(row_list) head = rows_of_level(run, level, low, middle - low);
        const HOST(row_list) tail = rows_of_level(run, level, end, high - end);
        if (head.count + tail.count > 0) {
            run->kernels->sum_rows(&head, run->width, false, level_sum);
            run->kernels->sum_rows(&tail, run->width, true, level_sum);
            for (size_t k = 0; k < run->width; k++)
                total[k] += level_sum[k];
        }
        low = middle;
        high = end;
    }
}

static void sum_symbols(void *context, size_t first, size_t last, size_t thread) {
    const add_up_run *run = context;
    const icl_tensor *d_table = run->d_table;
    real *total = run->total + thread * run->thread_length, *level_sum = run->level_sum + thread * run->thread_length;

    for (size_t row = first; row < last; row++) {
        sum_range(run, run->starts[row], run->starts[row + 1], total, level_sum);
        copy_row(host_elements(d_table) + row * d_table->stride[0], d_table->stride[1], total, 1, run->width);
    }
}

/* Sorts the symbols by row: counts them, then places them. Symbols of one row keep their order. */
static void sort_symbols(add_up_run *run) {
    uint32_t *ends = run->starts + 1; /* while placing: where the next symbol of each row goes */

    memset(run->starts, 0, (run->table_rows + 2) * sizeof *run->starts);
    for (size_t i = 0; i < run->count; i++) {
        run->row_of[i] = (uint32_t)row_of_symbol(*host_row(&run->symbols, i), run->table_rows);
        if (run->row_of[i] < run->table_rows)
            run->starts[run->row_of[i] + 2]++;
    }
    for (size_t row = 2; row <= run->table_rows + 1; row++)
        run->starts[row] += run->starts[row - 1];
    for (size_t i = 0; i < run->count; i++) {
        if (run->row_of[i] == run->table_rows)
            continue;
        const uint32_t place = ends[run->row_of[i]]++;
        run->sorted[place] = run->row_of[i];
        run->offsets[place] = host_row_offset(&run->d_out, i);
    }
    for (size_t place = run->starts[run->table_rows]; place < run->count; place++)
        run->sorted[place] = (uint32_t)run->table_rows;
}

/* Takes `bytes` of the scratch memory. If it is NULL, only the size is counted. */
static void *take(char *scratch, size_t *used, size_t bytes) {
    void *taken = scratch ? scratch + *used : NULL;
    *used += host_round_up(bytes, 64);
    return taken;
}

static size_t place_scratch(add_up_run *run, size_t threads, char *scratch) {
    size_t used = 0;

    run->row_of = take(scratch, &used, run->count * sizeof *run->row_of);
    run->sorted = take(scratch, &used, run->count * sizeof *run->sorted);
    run->starts = take(scratch, &used, (run->table_rows + 2) * sizeof *run->starts);
    run->offsets = take(scratch, &used, run->count * sizeof *run->offsets);
    for (int level = 1; level < run->levels; level++)
        run->sums[level] = take(scratch, &used, sums_of_level(run, level) * run->width * sizeof(real));
    run->thread_length = 2 * host_round_up(run->width, 64 / sizeof(real));
    run->total = take(scratch, &used, threads * run->thread_length * sizeof(real));
    run->level_sum = run->total ? run->total + run->thread_length / 2 : NULL;
    return used;
}

icl_status HOST(look_up_backward)(icl_backend *backend, const void *params, const icl_tensor *operands,
                                  icl_error *error) {
    const HOST(state) *state = host_state(backend);
    const icl_tensor symbols = as_rows(operands[2]);
    add_up_run run = {.kernels = state->kernels,
                      .d_table = &operands[0],
                      .d_out = host_rows(&operands[1]),
                      .symbols = host_rows(&symbols),
                      .count = icl_tensor_count(&symbols),
                      .table_rows = operands[0].shape[0],
                      .width = operands[0].shape[1],
                      .levels = 1};
    char *scratch = NULL;

    (void)params;
    while (sums_of_level(&run, run.levels) > 0)
        run.levels++;
    ICL_CHECK(HOST(scratch)(backend, place_scratch(&run, state->threads, NULL), &scratch, error));
    place_scratch(&run, state->threads, scratch);
    sort_symbols(&run);
    for (run.level = 1; run.level < run.levels; run.level++)
        HOST(run)
    (state, sums_of_level(&run, run.level), sums_of_level(&run, run.level) * FAN * run.width, sum_level, &run);
    HOST(run)(state, run.table_rows, (run.table_rows + run.count) * run.width, sum_symbols, &run);
    return ICL_OK;
}
