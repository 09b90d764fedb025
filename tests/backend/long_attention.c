/* Softmax attention over long sequences, and of few queries: its memory grows with the length and not with its square;
 * its results agree with double precision although thousands of keys pass through the running sums; and a query has
 * the same bits in whatever company. argv: device. $ICLAB_TEST_LENGTH: the number of tokens, fewer than LONGEST, for
 * simulators. */
#include <math.h>
#include <stdlib.h>

#include "backend/cpu/host.h"
#include "core/allocate.h"
#include "tap.h"

#define WIDTH    8
#define LONGEST  4096
#define TENSORS  9 /* d_q, d_k, d_v, d_out, out, log_sum_exp, q, k, v */
#define MASKS    4 /* the last one is causal with a window */
#define WINDOW   300
#define MANY     16 /* sequences */
#define OPERANDS (TENSORS * LONGEST * WIDTH)

/* Makes the operands, fills the inputs and runs both passes. The caller releases the tensors that exist, also after a
 * failure. */
static icl_status attend(icl_backend *backend, int mask, size_t batch, size_t n, icl_tensor t[TENSORS],
                         icl_error *error) {
    const bool has_window = mask > ICL_MASK_CAUSAL;
    const icl_attention_params params = {.kind = ICL_ATTENTION_SOFTMAX,
                                         .mask = has_window ? ICL_MASK_CAUSAL : (icl_attention_mask)mask,
                                         .scale = 1 / sqrt(WIDTH),
                                         .window = has_window ? WINDOW : 0};
    const size_t matrix[] = {batch, n, WIDTH}, column[] = {batch, n, 1};
    icl_status status = ICL_OK;

    for (int i = 0; i < TENSORS; i++) {
        const icl_random_params normal = {.distribution = ICL_NORMAL, .key = {.seed = 7, .stream = (uint32_t)i}};
        ICL_TRY(icl_tensor_create(backend, 3, i == 5 ? column : matrix, &t[i], error));
        if (i == 3 || i > 5)
            ICL_TRY(icl_random_fill(backend, &normal, t[i], error));
    }
    ICL_TRY(icl_attention_forward(backend, &params, t[4], t[5], t[6], t[7], t[8], error));
    ICL_TRY(icl_attention_backward(backend, &params, t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], error));
    ICL_TRY(icl_backend_sync(backend, error));
done:
    return status;
}

/* ---- Memory ---- */

/* Returns the bytes that both passes took beside their operands, in a fresh backend; 0 for a failure. */
static size_t extra_bytes(tap_run *tap, const char *spec, int mask, size_t batch, size_t n) {
    icl_tensor t[TENSORS] = {{0}};
    icl_backend *backend = NULL;
    icl_error error = {0};
    size_t bytes = 0;

    if (!tap_status(tap, icl_backend_open(&(icl_backend_params){.spec = spec}, &backend, &error), &error, spec))
        return 0;
    const size_t before = icl_backend_get_statistics(backend).bytes_reserved;
    if (tap_status(tap, attend(backend, mask, batch, n, t, &error), &error, "both passes")) {
        const icl_backend_statistics s = icl_backend_get_statistics(backend);
        bytes = s.bytes_reserved - s.bytes_live;
        if (icl_backend_capabilities(backend)->kind == ICL_DEVICE_HOST)
            bytes += host_state(backend)->scratch_bytes;
        tap_note("%zu sequences, %zu queries and keys: %zu bytes beside operands of %zu, %zu before", batch, n, bytes,
                 s.bytes_live, before);
    }
    for (int i = 0; i < TENSORS; i++)
        icl_tensor_release(&t[i]);
    icl_backend_close(&backend);
    return bytes;
}

/* Twice the length may take twice the memory, and a quarter more because the pool rounds up; never four times, as a
 * matrix of queries x keys would. On the host, whose workspaces have one size, a single sequence adds at most two
 * numbers for each query: no rows of scores, no packed keys. Of many sequences, each thread takes one through the
 * backward pass, with sums for d_q. */
static void check_memory(tap_run *tap, const char *spec, int mask, size_t batch, size_t longest) {
    const size_t lengths[] = {longest / 4, longest / 2, longest};
    size_t bytes[3];
    for (int i = 0; i < 3; i++)
        bytes[i] = extra_bytes(tap, spec, mask, batch, lengths[i]);
    for (int i = 1; i < 3; i++)
        tap_ok(tap, bytes[i - 1] > 0 && bytes[i] <= bytes[i - 1] * 5 / 2,
               "from %zu to %zu tokens, memory grows at most in proportion", lengths[i - 1], lengths[i]);
    tap_ok(tap, bytes[2] < batch * longest * longest, "%zu bytes are less than a byte for each pair", bytes[2]);
    if (strncmp(spec, "cpu", 3) == 0 && batch == 1)
        tap_ok(tap, bytes[2] <= bytes[0] + 2 * sizeof(float) * (longest - longest / 4),
               "at most two numbers come with each token");
}

/* ---- Agreement ---- */

static icl_status results(const char *spec, int mask, size_t longest, double *values, icl_error *error) {
    icl_tensor t[TENSORS] = {{0}};
    icl_backend *backend = NULL;
    float *read = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = spec}, &backend, error));
    ICL_TRY(icl_allocate((size_t)LONGEST * WIDTH, sizeof *read, "results", &read, error));
    ICL_TRY(attend(backend, mask, 1, longest, t, error));
    for (int i = 0; i < TENSORS; i++) {
        const size_t count = icl_tensor_count(&t[i]);
        ICL_TRY(icl_tensor_read(t[i], read, error));
        for (size_t k = 0; k < count; k++)
            values[(size_t)i * LONGEST * WIDTH + k] = (double)read[k];
    }
done:
    for (int i = 0; i < TENSORS; i++)
        icl_tensor_release(&t[i]);
    icl_free(&read);
    icl_backend_close(&backend);
    return status;
}

/* The relative error of a sum of n terms in order, relative to the sum of their magnitudes, exceeds lambda sqrt(n) u
 * with a probability below 2 exp(-lambda^2 / 2) (Higham and Mary, "A new approach to probabilistic rounding error
 * analysis", 2019). The magnitudes here are below 8 (weights sum to 1 over keys and stay near 1 over queries, |inputs|
 * < 5, |log_sum_exp| < 10), u = 2^-24, and lambda = 6 for 160 000 sums. If one tile of 32 keys were left out, an out
 * would change by about sqrt(32) / 4096 = 1.4e-3. */
static void check_agreement(tap_run *tap, const char *spec, size_t longest) {
    static const char *const names[] = {"d_q", "d_k", "d_v", "", "out", "log_sum_exp"};
    static const char *const masks[] = {"none", "query excluded", "causal", "window"};
    const double bound = 8 * 6 * sqrt((double)longest) * 0x1p-24;
    double *expected = NULL, *seen = NULL;
    icl_error error = {0};

    if (tap_status(tap, icl_allocate(OPERANDS, sizeof *expected, "results", &expected, &error), &error, "memory") &&
        tap_status(tap, icl_allocate(OPERANDS, sizeof *seen, "results", &seen, &error), &error, "memory"))
        for (int mask = 0; mask < MASKS; mask++) {
            if (!tap_status(tap, results("ref", mask, longest, expected, &error), &error, "in double precision") ||
                !tap_status(tap, results(spec, mask, longest, seen, &error), &error, spec))
                break;
            for (int i = 0; i < 6; i++) {
                double worst = 0;
                if (i == 3)
                    continue;
                for (size_t k = 0; k < longest * (i == 5 ? 1 : WIDTH); k++) {
                    const size_t at = (size_t)i * LONGEST * WIDTH + k;
                    const double error_here = fabs(seen[at] - expected[at]);
                    /* Gradients of early queries under a causal mask are large: their errors are taken relative to
                     * them. */
                    const double size = fmax(1, fabs(expected[at]));
                    worst = isfinite(error_here) ? fmax(worst, error_here / size) : HUGE_VAL;
                }
                tap_ok(tap, worst <= bound, "mask %s, %s: %.2g off, at most %.2g", masks[mask], names[i], worst, bound);
            }
        }
    icl_free(&expected);
    icl_free(&seen);
}

/* ---- Few queries ---- */

enum { TOKENS = 150, HEADS = 2, KEY = 21, VALUE = 37, MOST_FEW = 6, OUTS = HEADS * TOKENS * VALUE };

/* Computes the last `asked` queries of the first `keys` tokens, in which they are the last ones. */
static icl_status ask(icl_backend *backend, size_t window, size_t asked, size_t keys, float *out, float *lse,
                      icl_error *error) {
    const icl_attention_params params = {
        .kind = ICL_ATTENTION_SOFTMAX, .mask = ICL_MASK_CAUSAL, .scale = 0.3, .window = window};
    static const size_t widths[] = {KEY, KEY, VALUE};
    icl_tensor t[5] = {{0}};
    icl_status status = ICL_OK;

    for (uint32_t i = 0; i < 3; i++) {
        const icl_random_params normal = {.distribution = ICL_NORMAL, .key = {.seed = 7, .stream = i}};
        ICL_TRY(icl_tensor_create(backend, 4, (const size_t[]){1, HEADS, TOKENS, widths[i]}, &t[i], error));
        ICL_TRY(icl_random_fill(backend, &normal, t[i], error));
    }
    ICL_TRY(icl_tensor_create(backend, 4, (const size_t[]){1, HEADS, asked, VALUE}, &t[3], error));
    ICL_TRY(icl_tensor_create(backend, 4, (const size_t[]){1, HEADS, asked, 1}, &t[4], error));
    ICL_TRY(icl_attention_forward(backend, &params, t[3], t[4], icl_tensor_slice(t[0], 2, keys - asked, asked),
                                  icl_tensor_slice(t[1], 2, 0, keys), icl_tensor_slice(t[2], 2, 0, keys), error));
    ICL_TRY(icl_tensor_read(t[3], out, error));
    ICL_TRY(icl_tensor_read(t[4], lse, error));
done:
    for (int i = 0; i < 5; i++)
        icl_tensor_release(&t[i]);
    return status;
}

/* On hosts a query has the same bits beside many others, which share the lanes of a block, as beside few or none, where
 * the lanes are keys. */
static void check_few(tap_run *tap, icl_backend *backend, size_t window) {
    static float all[OUTS], few[OUTS], all_lse[HEADS * TOKENS], few_lse[HEADS * TOKENS];
    icl_error error = {0};

    if (!tap_status(tap, ask(backend, window, TOKENS, TOKENS, all, all_lse, &error), &error, "all queries"))
        return;
    for (size_t asked = 1; asked <= MOST_FEW; asked++)
        for (size_t keys = TOKENS - 21; keys <= TOKENS; keys += 7) {
            bool are_same = tap_status(tap, ask(backend, window, asked, keys, few, few_lse, &error), &error, "few");
            for (size_t h = 0; h < HEADS && are_same; h++) {
                const size_t row = h * TOKENS + keys - asked;
                are_same = memcmp(few + h * asked * VALUE, all + row * VALUE, asked * VALUE * sizeof *few) == 0 &&
                           memcmp(few_lse + h * asked, all_lse + row, asked * sizeof *few) == 0;
            }
            tap_ok(tap, are_same, "window %zu: %zu queries of %zu keys, as among all", window, asked, keys);
        }
}

static size_t length(void) {
    const char *text = getenv("ICLAB_TEST_LENGTH");
    const long asked = text ? strtol(text, NULL, 10) : LONGEST;
    return asked >= 64 && asked < LONGEST ? (size_t)asked : LONGEST;
}

int main(int argc, char **argv) {
    const size_t longest = length();
    tap_run tap = {0};
    icl_backend *backend = argc > 1 ? tap_open_device(&tap, argv[1]) : NULL;

    if (backend) {
        const char *spec = tap_device_spec(argv[1]);
        if (icl_backend_capabilities(backend)->kind == ICL_DEVICE_HOST) {
            check_few(&tap, backend, 0);
            check_few(&tap, backend, 70);
        }
        icl_backend_close(&backend);
        check_memory(&tap, spec, ICL_MASK_NONE, 1, longest);
        check_memory(&tap, spec, ICL_MASK_NONE, MANY, longest / 4);
        check_memory(&tap, spec, MASKS - 1, 1, longest);
        check_agreement(&tap, spec, longest);
    }
    return tap_done(&tap);
}
