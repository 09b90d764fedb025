/* Gamma draws, cumulative sums, symbols by their weights, different numbers and elements by number: float on every
 * backend. */
#include <math.h>

#include "backend/cpu/host.h"
#include "backend/cpu/rows.h"
#include "iclab/ops.h"
#include "iclab/status.h"

/* ---- Gamma draws ---- */

#define GAMMA_WORK 64 /* a draw, in elements touched */

typedef struct gamma_run {
    const icl_draw_params *params;
    const icl_tensor *out, *shapes;
} gamma_run;

/* Returns the offset of element k, in row-major order. */
static size_t element_offset(const icl_tensor *view, size_t k) {
    size_t offset = 0;

    for (int axis = view->rank - 1; axis >= 0; axis--) {
        offset += k % view->shape[axis] * view->stride[axis];
        k /= view->shape[axis];
    }
    return offset;
}

static void draw_gamma(void *context, size_t first, size_t last, size_t thread) {
    const gamma_run *run = context;
    (void)thread;

    for (size_t k = first; k < last; k++) {
        const float shape = (float)host_elements(run->shapes)[element_offset(run->shapes, k)];
        host_elements(run->out)[element_offset(run->out, k)] =
            (real)icl_random_gamma_value(run->params->key, run->params->first_index + k, shape);
    }
}

icl_status HOST(random_gamma)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    gamma_run run = {.params = params, .out = &operands[0], .shapes = &operands[1]};
    const size_t count = icl_tensor_count(run.out);

    (void)error;
    HOST(run)(host_state(backend), count, GAMMA_WORK * count, draw_gamma, &run);
    return ICL_OK;
}

/* ---- Cumulative sums ---- */

typedef struct sum_run {
    HOST(row_view) out, in;
    size_t length;
} sum_run;

static void sum_rows_up(void *context, size_t first, size_t last, size_t thread) {
    const sum_run *run = context;
    (void)thread;

    for (size_t row = first; row < last; row++) {
        const real *from = host_row(&run->in, row);
        real *to = host_row(&run->out, row);
        float sum = (float)from[0];
        to[0] = (real)sum;
        for (size_t i = 1; i < run->length; i++) {
            sum += (float)from[i * run->in.step];
            to[i * run->out.step] = (real)sum;
        }
    }
}

icl_status HOST(cumulative_sum)(icl_backend *backend, const void *params, const icl_tensor *operands,
                                icl_error *error) {
    const icl_tensor *out = &operands[0];
    sum_run run = {.out = host_rows(out), .in = host_rows(&operands[1]), .length = out->shape[out->rank - 1]};
    const size_t count = icl_tensor_count(out);

    (void)params;
    (void)error;
    HOST(run)(host_state(backend), count / run.length, count, sum_rows_up, &run);
    return ICL_OK;
}

/* ---- Symbols by their weights ---- */

typedef struct category_run {
    HOST(row_view) out, in, sums;
    size_t length, symbols;
} category_run;

/* Returns the first symbol whose sum is above u times the last one; ops.h. */
static real symbol_of(float u, const real *sums, size_t step, size_t symbols) {
    const float total = (float)sums[(symbols - 1) * step], share = u * total;
    size_t low = 0, high = symbols - 1;

    if (!(u >= 0.0F && u < 1.0F && total >= (float)ICL_LEAST_WEIGHT && total < INFINITY))
        return (real)NAN;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if ((float)sums[middle * step] > share)
            high = middle;
        else
            low = middle + 1;
    }
    return (real)low;
}

static void draw_symbols(void *context, size_t first, size_t last, size_t thread) {
    const category_run *run = context;
    (void)thread;

    for (size_t row = first; row < last; row++) {
        const real *from = host_row(&run->in, row), *sums = host_row(&run->sums, row);
        real *to = host_row(&run->out, row);
        for (size_t i = 0; i < run->length; i++)
            to[i * run->out.step] = symbol_of((float)from[i * run->in.step], sums, run->sums.step, run->symbols);
    }
}

icl_status HOST(categorical)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    const icl_tensor *out = &operands[0], *sums = &operands[2];
    category_run run = {.out = host_rows(out),
                        .in = host_rows(&operands[1]),
                        .sums = host_rows(sums),
                        .length = out->shape[out->rank - 1],
                        .symbols = sums->shape[sums->rank - 1]};
    const size_t count = icl_tensor_count(out);

    (void)params;
    (void)error;
    HOST(run)(host_state(backend), count / run.length, 8 * count, draw_symbols, &run);
    return ICL_OK;
}

/* ---- Different numbers ---- */

/* A list is as long as all numbers; rows that are far shorter compare their draws in pairs instead. */
#define MOST_NUMBERS_OF_A_DRAW 256

typedef struct distinct_run {
    const icl_distinct_params *params;
    HOST(row_view) out;
    size_t length;
    uint32_t *places, *list; /* [length] and, or NULL, [count], in order except during a row; the first thread's */
    size_t thread_length;
} distinct_run;

/* Writes the place of each draw in the list: j + floor(w (count - j) / 2^32). */
static void draw_places(const icl_distinct_params *params, uint64_t first, size_t length, uint32_t *places) {
    const icl_random_key key = params->key;
    uint32_t block[4] = {0};

    for (size_t j = 0; j < length; j++) {
        const uint64_t index = first + j;
        if (j == 0 || index % 4 == 0) {
            const uint32_t counter[] = {(uint32_t)(index / 4), (uint32_t)(index / 4 >> 32), (uint32_t)key.step,
                                        (uint32_t)(key.step >> 32)};
            icl_philox(counter, (const uint32_t[]){key.seed, key.stream}, block);
        }
        places[j] = (uint32_t)(j + ((uint64_t)block[index % 4] * (params->count - j) >> 32));
    }
}

/* Replaces places by the numbers that the list held there, and restores the list. */
static void draw_from_list(const uint32_t *places, size_t length, uint32_t *list, uint32_t least, real *to,
                           size_t step) {
    for (size_t j = 0; j < length; j++) {
        const uint32_t drawn = list[places[j]];
        to[j * step] = (real)(least + drawn);
        list[places[j]] = list[j];
        list[j] = drawn;
    }
    for (size_t j = length; j-- > 0;) {
        const uint32_t own = list[j];
        list[j] = list[places[j]];
        list[places[j]] = own;
    }
}

/* The same without a list: draw i < j moved the entry of place i to its own place, so that the last of them with place
 * x sends x to place i of the list before draw i. */
static void draw_by_pairs(const uint32_t *places, size_t length, uint32_t least, real *to, size_t step) {
    for (size_t j = 0; j < length; j++) {
        uint32_t x = places[j];
        for (size_t i = j; i-- > 0;)
            x = places[i] == x ? (uint32_t)i : x;
        to[j * step] = (real)(least + x);
    }
}

static void draw_distinct(void *context, size_t first, size_t last, size_t thread) {
    const distinct_run *run = context;
    const uint32_t least = run->params->least;
    uint32_t *places = run->places + thread * run->thread_length;

    for (size_t row = first; row < last; row++) {
        real *to = host_row(&run->out, row);
        draw_places(run->params, run->params->first_index + row * run->params->row_words, run->length, places);
        if (run->list)
            draw_from_list(places, run->length, run->list + thread * run->thread_length, least, to, run->out.step);
        else
            draw_by_pairs(places, run->length, least, to, run->out.step);
    }
}

icl_status HOST(random_distinct)(icl_backend *backend, const void *params, const icl_tensor *operands,
                                 icl_error *error) {
    const HOST(state) *state = host_state(backend);
    const icl_tensor *out = &operands[0];
    distinct_run run = {.params = params, .out = host_rows(out), .length = out->shape[out->rank - 1]};
    const size_t rows = icl_tensor_count(out) / run.length, count = run.params->count;
    const bool has_list = run.length > 1 && count / run.length <= MOST_NUMBERS_OF_A_DRAW;

    run.thread_length = host_round_up(run.length + (has_list ? count : 0), 16);
    ICL_CHECK(HOST(scratch)(backend, state->threads * run.thread_length * sizeof *run.places, &run.places, error));
    if (has_list)
        run.list = run.places + run.length;
    for (size_t thread = 0; has_list && thread < state->threads; thread++)
        for (size_t i = 0; i < count; i++)
            run.list[thread * run.thread_length + i] = (uint32_t)i;
    HOST(run)(state, rows, rows * run.length * 4, draw_distinct, &run);
    return ICL_OK;
}

/* ---- Elements by number ---- */

typedef struct number_run {
    HOST(row_view) out, from, places;
    size_t length, count; /* places of a row; elements that they number */
} number_run;

/* Returns the number that a place is, or `count` if it is none below that. */
static size_t element_number(real place, size_t count) {
    if (!(place >= 0 && place < (real)count))
        return count;
    return (real)(size_t)place == place ? (size_t)place : count;
}

static void take_rows(void *context, size_t first, size_t last, size_t thread) {
    const number_run *run = context;
    (void)thread;

    for (size_t row = first; row < last; row++) {
        const real *from = host_row(&run->from, row), *places = host_row(&run->places, row);
        real *to = host_row(&run->out, row);
        for (size_t j = 0; j < run->length; j++) {
            const size_t number = element_number(places[j * run->places.step], run->count);
            to[j * run->out.step] = number < run->count ? from[number * run->from.step] : (real)NAN;
        }
    }
}

static void put_rows(void *context, size_t first, size_t last, size_t thread) {
    const number_run *run = context;
    (void)thread;

    for (size_t row = first; row < last; row++) {
        const real *from = host_row(&run->from, row), *places = host_row(&run->places, row);
        real *to = host_row(&run->out, row);
        for (size_t j = 0; j < run->length; j++) {
            const size_t number = element_number(places[j * run->places.step], run->count);
            if (number < run->count)
                to[number * run->out.step] = from[j * run->from.step];
        }
    }
}

static void run_by_number(icl_backend *backend, const icl_tensor *operands, const icl_tensor *numbered,
                          icl_thread_items *task) {
    const icl_tensor *places = &operands[2];
    number_run run = {.out = host_rows(&operands[0]),
                      .from = host_rows(&operands[1]),
                      .places = host_rows(places),
                      .length = places->shape[places->rank - 1],
                      .count = numbered->shape[numbered->rank - 1]};
    const size_t count = icl_tensor_count(places);

    if (count > 0)
        HOST(run)(host_state(backend), count / run.length, 2 * count, task, &run);
}

icl_status HOST(take)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    (void)params;
    (void)error;
    run_by_number(backend, operands, &operands[1], take_rows);
    return ICL_OK;
}

icl_status HOST(put)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    (void)params;
    (void)error;
    run_by_number(backend, operands, &operands[0], put_rows);
    return ICL_OK;
}
