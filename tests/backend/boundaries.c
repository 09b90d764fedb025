/* Refusals at their boundaries: views that just fit their buffer and views that reach one element past it, views that
 * share exactly one element and views that share none, and sizes whose product wraps. Also a fallback to the host that
 * fails or is used often, products with one term more than a block, and maxima over whole blocks and more. */
#include <stdint.h>

#include "backend/contract.h"
#include "iclab/ops.h"
#include "iclab/status.h"
#include "tap.h"

enum { ELEMENTS = 24 };

/* ---- The end of a buffer ---- */

typedef struct view_case {
    size_t offset;
    int rank;
    size_t shape[3], stride[3];
    size_t last; /* the index of its last element, by hand */
} view_case;

static const view_case views[] = {
    {0, 1, {24}, {1}, 23},
    {23, 1, {1}, {1}, 23},
    {0, 1, {12}, {2}, 22},
    {1, 1, {12}, {2}, 23},
    {3, 1, {4}, {7}, 24},
    {2, 1, {4}, {7}, 23},
    {0, 2, {4, 6}, {6, 1}, 23},
    {0, 2, {6, 4}, {1, 6}, 23},
    {1, 2, {4, 6}, {6, 1}, 24},
    {5, 2, {3, 3}, {8, 1}, 23},
    {6, 2, {3, 3}, {8, 1}, 24},
    {0, 3, {2, 3, 4}, {12, 4, 1}, 23},
    {0, 3, {2, 3, 4}, {13, 4, 1}, 24},
    {23, 2, {1, 1}, {99, 99}, 23},
    {24, 1, {1}, {1}, 24},
    {0, 1, {25}, {1}, 24},
    {0, 2, {2, 2}, {SIZE_MAX, 1}, SIZE_MAX},
    {SIZE_MAX, 1, {2}, {1}, SIZE_MAX},
};

static void test_ends(tap_run *tap, icl_backend *backend, icl_tensor whole) {
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        const view_case *is = &views[i];
        icl_tensor view = {.buffer = whole.buffer, .offset = is->offset, .rank = is->rank};
        icl_error error = {0};
        memcpy(view.shape, is->shape, sizeof is->shape);
        memcpy(view.stride, is->stride, sizeof is->stride);
        const icl_status status = icl_fill(backend, view, 1, &error);
        tap_ok(tap,
               is->last < ELEMENTS ? status == ICL_OK : status == ICL_ERROR_INPUT && strstr(error.message, "past its"),
               "a view whose last element is number %zu of %d: %s", is->last, ELEMENTS,
               status == ICL_OK ? "taken" : error.message);
    }
    const icl_tensor nothing = {.buffer = whole.buffer, .offset = ELEMENTS, .rank = 1, .stride = {1}};
    tap_ok(tap, icl_fill(backend, nothing, 1, NULL) == ICL_OK, "none at the end is taken");
}

/* ---- Overlap ---- */

/* Returns the elements of a view as bits. */
static uint32_t elements_of(const icl_tensor *view) {
    uint32_t bits = 0;

    for (size_t i = 0; i < view->shape[0]; i++)
        for (size_t j = 0; j < (view->rank > 1 ? view->shape[1] : 1); j++)
            bits |= UINT32_C(1) << (view->offset + i * view->stride[0] + (view->rank > 1 ? j * view->stride[1] : 0));
    return bits;
}

static int count_bits(uint32_t bits) {
    int count = 0;
    for (; bits; bits &= bits - 1)
        count++;
    return count;
}

/* Tries every pair of strides of a [2, 3] output: it is refused if two indices share an element. Strides that nest are
 * taken; other strides without repeats, such as [2, 3] with strides [3, 2], may be taken or refused. */
static void test_output_strides(tap_run *tap, icl_backend *backend, icl_tensor whole) {
    enum { ROWS = 2, COLUMNS = 3, LARGEST = 7 };
    size_t wrong = 0, refused = 0;

    for (size_t down = 1; down <= LARGEST; down++)
        for (size_t across = 1; across <= LARGEST; across++) {
            const icl_tensor view = {
                .buffer = whole.buffer, .rank = 2, .shape = {ROWS, COLUMNS}, .stride = {down, across}};
            const bool repeats = count_bits(elements_of(&view)) < ROWS * COLUMNS;
            const bool nests = down > (COLUMNS - 1) * across || across > (ROWS - 1) * down;
            icl_error error = {0};
            const bool is_refused = icl_fill(backend, view, 1, &error) != ICL_OK;
            refused += is_refused;
            wrong += (repeats && !is_refused) || (nests && is_refused) ||
                     (is_refused && !strstr(error.message, "overlaps itself"));
        }
    tap_ok(tap, wrong == 0 && refused > 0, "outputs whose strides overlap are refused: %zu of %d", refused,
           LARGEST * LARGEST);
}

/* Tries all pairs of slices of [4, 6] with equal shapes: an op that writes one and reads the other is refused if
 * they share an element, even a single one, and runs if they share none. The same view twice is in place, which is
 * allowed. */
static void test_pairs(tap_run *tap, icl_backend *backend, icl_tensor grid) {
    size_t wrong = 0, shared_one = 0, shared_none = 0;

    for (size_t rows = 1; rows <= 3; rows++)
        for (size_t columns = 1; columns <= 4; columns++)
            for (size_t at = 0; at < (size_t)ELEMENTS * ELEMENTS; at++) {
                const size_t top[2] = {at / ELEMENTS / 6, at % ELEMENTS / 6}, left[2] = {at / ELEMENTS % 6, at % 6};
                icl_tensor pair[2];
                if (top[0] + rows > 4 || top[1] + rows > 4 || left[0] + columns > 6 || left[1] + columns > 6)
                    continue;
                for (int i = 0; i < 2; i++)
                    pair[i] = icl_tensor_slice(icl_tensor_slice(grid, 0, top[i], rows), 1, left[i], columns);
                const int shared = count_bits(elements_of(&pair[0]) & elements_of(&pair[1]));
                const bool is_same = top[0] == top[1] && left[0] == left[1];
                const icl_status status = icl_copy(backend, pair[0], pair[1], NULL);
                wrong += (status == ICL_OK) != (shared == 0 || is_same);
                shared_one += shared == 1 && !is_same;
                shared_none += shared == 0;
            }
    tap_ok(tap, wrong == 0 && shared_one > 100 && shared_none > 100,
           "pairs of slices, %zu that share one element and %zu that share none: %zu judged wrongly", shared_one,
           shared_none, wrong);
}

/* Views that are not slices of one grid: runs, and every second element. */
static void test_runs(tap_run *tap, icl_backend *backend, icl_tensor whole) {
    static const struct {
        size_t offset[2], stride[2], count;
        bool shares;
    } cases[] = {
        {{0, 12}, {1, 1}, 12, false}, {{0, 11}, {1, 1}, 12, true},  {{12, 0}, {1, 1}, 12, false},
        {{11, 0}, {1, 1}, 12, true},  {{0, 1}, {2, 2}, 12, false},  {{0, 22}, {2, 2}, 1, false},
        {{0, 22}, {2, 1}, 2, false},  {{20, 22}, {2, 1}, 2, true},  {{0, 8}, {4, 1}, 3, true},
        {{0, 9}, {4, 1}, 3, false},   {{0, 23}, {23, 1}, 1, false}, {{0, 22}, {23, 1}, 2, true},
        {{0, 21}, {23, 1}, 2, false},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        icl_tensor pair[2];
        icl_error error = {0};
        for (int k = 0; k < 2; k++)
            pair[k] = (icl_tensor){.buffer = whole.buffer,
                                   .offset = cases[i].offset[k],
                                   .rank = 1,
                                   .shape = {cases[i].count},
                                   .stride = {cases[i].stride[k]}};
        const bool shares = (elements_of(&pair[0]) & elements_of(&pair[1])) != 0;
        const icl_status status = icl_copy(backend, pair[0], pair[1], &error);
        /* If the strides differ, the check may only err towards a refusal. */
        const bool is_right =
            cases[i].shares || cases[i].stride[0] == cases[i].stride[1] ? (status == ICL_OK) == !cases[i].shares : true;
        tap_ok(tap, shares == cases[i].shares && is_right, "%zu every %zu from %zu, and every %zu from %zu: %s",
               cases[i].count, cases[i].stride[0], cases[i].offset[0], cases[i].stride[1], cases[i].offset[1],
               status == ICL_OK ? "apart" : error.message);
    }
}

/* ---- Sizes ---- */

static void test_sizes(tap_run *tap, icl_backend *backend) {
    static const size_t shapes[][3] = {
        {(size_t)1 << 32, (size_t)1 << 32, 1}, /* 2^64: wraps to 0 */
        {(size_t)1 << 32, (size_t)1 << 32, 3}, /* likewise, times 3 */
        {(size_t)1 << 22, (size_t)1 << 21, (size_t)1 << 21},
        {(size_t)1 << 62, 1, 1}, /* the size in bytes wraps to 0: of floats, */
        {(size_t)1 << 61, 1, 1}, /* of doubles */
        {SIZE_MAX, 1, 1},
        {SIZE_MAX, SIZE_MAX, 1}, /* to 1 */
    };

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        icl_tensor tensor = {0};
        icl_error error = {0};
        const icl_status status = icl_tensor_create(backend, 3, shapes[i], &tensor, &error);
        tap_ok(tap, status == ICL_ERROR_MEMORY && !tensor.buffer, "%s",
               status == ICL_OK ? "a tensor beyond any memory is made" : error.message);
        icl_tensor_release(&tensor);
    }
}

/* ---- Fallbacks ---- */

static void count_message(void *user, icl_log_level level, const char *message) {
    (void)level;
    *(size_t *)user += strstr(message, "runs on the host") != NULL;
}

/* The first call logs the fallback, later ones do not, whether they succeed or fail. */
static void test_announcement(tap_run *tap, icl_backend *backend, icl_tensor whole) {
    const icl_backend_functions *complete = backend->functions;
    const icl_log log = backend->log;
    icl_backend_functions lacking = *complete;
    const icl_backend_statistics before = icl_backend_get_statistics(backend);
    size_t messages = 0, negations = 0;
    icl_error error = {0};

    lacking.ops[ICL_OP_unary] = NULL;
    lacking.ops[ICL_OP_binary] = NULL;
    backend->functions = &lacking;
    backend->log = (icl_log){count_message, &messages, ICL_LOG_DEBUG};
    for (int i = 0; i < 3; i++)
        negations += icl_unary(backend, ICL_NEGATE, whole, whole, &error) == ICL_OK;
    tap_ok(tap, negations == 3 && messages == 1, "an op that is lacking is told of once in three calls (%zu)",
           messages);
    tap_ok(tap, icl_binary(backend, ICL_ADD, whole, whole, whole, &error) == ICL_OK && messages == 2,
           "and another one once, too (%zu)", messages);
    tap_ok(tap, icl_backend_get_statistics(backend).fallbacks - before.fallbacks == 4, "all four are counted");
    backend->functions = complete;
    backend->log = log;
}

static icl_status fail_on_host(icl_backend *host, const void *params, const icl_tensor *operands, icl_error *error) {
    (void)host;
    (void)params;
    (void)operands;
    return icl_fail(error, ICL_ERROR_MEMORY, "planted on the host");
}

/* Operands are given back to the device even if the host's op fails. */
static void test_failure(tap_run *tap, icl_backend *backend, icl_tensor whole, icl_tensor other) {
    const icl_backend_functions *complete = backend->functions;
    icl_backend_functions lacking = *complete, failing;
    float values[ELEMENTS];
    icl_error error = {0};

    lacking.ops[ICL_OP_unary] = NULL;
    backend->functions = &lacking;
    if (tap_status(tap, icl_unary(backend, ICL_NEGATE, whole, other, &error), &error, "a fallback") && backend->host) {
        const icl_backend_functions *of_host = backend->host->functions;
        failing = *of_host;
        failing.ops[ICL_OP_unary] = fail_on_host;
        backend->host->functions = &failing;
        tap_ok(tap,
               icl_unary(backend, ICL_NEGATE, whole, other, &error) == ICL_ERROR_MEMORY &&
                   strstr(error.message, "planted on the host"),
               "one that fails says why: %s", error.message);
        tap_ok(tap, !whole.buffer->mapped && !other.buffer->mapped, "and leaves no operand mapped");
        backend->host->functions = of_host;
        tap_ok(tap,
               icl_unary(backend, ICL_NEGATE, whole, other, &error) == ICL_OK &&
                   icl_tensor_read(whole, values, &error) == ICL_OK && values[0] == -2 && values[ELEMENTS - 1] == -2,
               "the next one works %s", error.message);
    }
    backend->functions = complete;
}

/* ---- The end of a block ---- */

enum { M = 3, N = 2, BLOCK = 256 };

/* Computes out [M, N] = a [M, terms] b [terms, N]. */
static icl_status multiply(icl_backend *backend, size_t terms, const float *a, const float *b, float *out,
                           icl_error *error) {
    icl_tensor t[3] = {{0}};
    icl_status status = ICL_OK;

    ICL_TRY(icl_tensor_create(backend, 2, (const size_t[]){M, N}, &t[0], error));
    ICL_TRY(icl_tensor_create(backend, 2, (const size_t[]){M, terms}, &t[1], error));
    ICL_TRY(icl_tensor_create(backend, 2, (const size_t[]){terms, N}, &t[2], error));
    ICL_TRY(icl_tensor_write(t[1], a, error));
    ICL_TRY(icl_tensor_write(t[2], b, error));
    ICL_TRY(icl_matmul(backend, t[0], 1, t[1], t[2], 0, error));
    ICL_TRY(icl_tensor_read(t[0], out, error));
done:
    for (int i = 0; i < 3; i++)
        icl_tensor_release(&t[i]);
    return status;
}

/* Products with as many terms as a block of the host has, and with one more. The numbers are small and whole, so that
 * the results are exact. */
static void test_products(tap_run *tap, icl_backend *backend) {
    for (size_t terms = BLOCK; terms <= BLOCK + 1; terms++) {
        float a[M * (BLOCK + 1)], b[(BLOCK + 1) * N], got[M * N] = {0};
        icl_error error = {0};
        size_t wrong = 0;

        for (size_t i = 0; i < M * terms; i++)
            a[i] = (float)(i % 5);
        for (size_t i = 0; i < terms * N; i++)
            b[i] = (float)(i % 7);
        tap_status(tap, multiply(backend, terms, a, b, got, &error), &error, "a product");
        for (size_t i = 0; i < (size_t)M * N; i++) {
            float sum = 0;
            for (size_t k = 0; k < terms; k++)
                sum += a[i / N * terms + k] * b[k * N + i % N];
            wrong += got[i] != sum;
        }
        tap_ok(tap, wrong == 0, "of %zu terms: %zu wrong", terms, wrong);
    }
}

/* ---- The ends of pieces ---- */

/* Negates vectors in place, with lengths around every size that a thread's piece may have: an element that two pieces
 * take, or none, keeps its sign. */
static void test_pieces(tap_run *tap, icl_backend *backend) {
    enum { LEAST = 64, MOST = 65536 };
    static float numbers[MOST + 1];
    icl_tensor whole = {0};
    icl_error error = {0};

    for (size_t i = 0; i <= MOST; i++)
        numbers[i] = (float)(i % 97) + 1;
    if (!tap_status(tap, icl_tensor_create(backend, 1, (const size_t[]){MOST + 1}, &whole, &error), &error, "a vector"))
        return;
    for (size_t count = LEAST; count <= MOST; count *= 2)
        for (size_t length = count - 1; length <= count + 1; length++) {
            const icl_tensor part = icl_tensor_slice(whole, 0, 0, length);
            static float got[MOST + 1];
            size_t wrong = 0;
            icl_status status = icl_tensor_write(whole, numbers, &error);
            if (status == ICL_OK)
                status = icl_unary(backend, ICL_NEGATE, part, part, &error);
            if (status == ICL_OK)
                status = icl_tensor_read(whole, got, &error);
            for (size_t i = 0; status == ICL_OK && i <= MOST; i++)
                wrong += got[i] != (i < length ? -numbers[i] : numbers[i]);
            tap_ok(tap, status == ICL_OK && wrong == 0, "%zu numbers are negated once: %zu are not", length, wrong);
        }
    icl_tensor_release(&whole);
}

/* ---- Blocks of reductions ---- */

/* The maximum of negative numbers is none that stands for a number beyond them, whether the last of several blocks is
 * full or not. */
static void test_maxima(tap_run *tap, icl_backend *backend) {
    enum { MOST = 4 * 32 + 1 };
    const size_t most = MOST, one = 1;
    float numbers[MOST], largest = 0;
    icl_tensor whole = {0}, out = {0};
    icl_error error = {0};
    size_t wrong = 0;
    icl_status status = ICL_OK;

    for (size_t i = 0; i < MOST; i++)
        numbers[i] = -1 - (float)((i * 37) % MOST);
    ICL_TRY(icl_tensor_create(backend, 1, &most, &whole, &error));
    ICL_TRY(icl_tensor_create(backend, 1, &one, &out, &error));
    ICL_TRY(icl_tensor_write(whole, numbers, &error));
    for (size_t count = 1; count <= MOST; count++) { /* numbers[0], -1, is the largest */
        ICL_TRY(icl_reduce(backend, ICL_MAX, 1, out, icl_tensor_slice(whole, 0, 0, count), &error));
        ICL_TRY(icl_tensor_read(out, &largest, &error));
        wrong += largest != -1;
    }
done:
    tap_ok(tap, status == ICL_OK && wrong == 0, "the largest of up to %d negative numbers: %zu are wrong", MOST, wrong);
    icl_tensor_release(&out);
    icl_tensor_release(&whole);
}

int main(int argc, char **argv) {
    static const size_t grid[] = {4, 6};
    tap_run tap = {0};
    icl_tensor whole = {0}, other = {0};
    icl_error error = {0};
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "cpu");

    if (!backend)
        return tap_done(&tap);
    if (tap_status(&tap, icl_tensor_create(backend, 2, grid, &whole, &error), &error, "24 elements") &&
        tap_status(&tap, icl_tensor_create(backend, 2, grid, &other, &error), &error, "24 others") &&
        tap_status(&tap, icl_fill(backend, other, 2, &error), &error, "of 2")) {
        tap_status(&tap, icl_fill(backend, whole, 1, &error), &error, "of 1");
        test_ends(&tap, backend, whole);
        test_output_strides(&tap, backend, whole);
        test_pairs(&tap, backend, whole);
        test_runs(&tap, backend, whole);
        test_sizes(&tap, backend);
        test_announcement(&tap, backend, whole);
        test_failure(&tap, backend, whole, other);
        test_products(&tap, backend);
        test_pieces(&tap, backend);
        test_maxima(&tap, backend);
    }
    icl_tensor_release(&whole);
    icl_tensor_release(&other);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
