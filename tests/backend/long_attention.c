/* Softmax attention over long sequences: its memory grows with the length and not with its square, and its results
 * agree with double precision although thousands of keys pass through the running sums. argv: device.
 * $ICLAB_TEST_LENGTH: the number of tokens, fewer than LONGEST, for simulators. */
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
        icl_backend_close(&backend);
        check_memory(&tap, spec, ICL_MASK_NONE, 1, longest);
        check_memory(&tap, spec, ICL_MASK_NONE, MANY, longest / 4);
        check_memory(&tap, spec, MASKS - 1, 1, longest);
        check_agreement(&tap, spec, longest);
    }
    return tap_done(&tap);
}
