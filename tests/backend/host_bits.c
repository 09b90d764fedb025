/* A host backend gives the same bits for any number of threads and any instruction set. The exceptions are products,
 * softmax attention, recurrences, cross-entropy and whole linear transformers, which fuse products with sums if the
 * instruction set can: they give the same bits for any number of threads, and differ between instruction sets by
 * rounding only. A sequence's gradients of softmax attention, with more queries than one, have the same bits whether it
 * is computed by itself or among many. Arguments: cpu or ref; bf16, a precision of products that rounds alike
 * everywhere but in tiles, whose sums have an order of their own;
 * or print, to print instead a line for each result of the instruction set base, with a hash of its bits,
 * which are those of a scalar build (tests/backend/scalar_bits.sh). */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/host_spec.h"
#include "core/hash.h"
#include "every_op.h"
#include "iclab/backend.h"
#include "iclab/status.h"
#include "tap.h"

/* Compares bits, except that any two NaNs count as the same. */
static bool same_values(const op_result *a, const op_result *b) {
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (memcmp(&a->values[i], &b->values[i], sizeof(double)) != 0 &&
            (a->values[i] == a->values[i] || b->values[i] == b->values[i]))
            return false;
    return true;
}

/* Allows a few hundred roundings, relative to the largest value: sums of up to 130 terms, whose weights have as many
 * roundings each. */
static bool close_values(const op_result *a, const op_result *b, double unit) {
    double size = 0, worst = 0;
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const double x = a->values[i], y = b->values[i];
        if (isfinite(x) && isfinite(y)) {
            size = fmax(size, fabs(x));
            worst = fmax(worst, fabs(x - y));
        } else if (x != y && !(isnan(x) && isnan(y))) {
            return false;
        }
    }
    return worst <= 400 * unit * size;
}

static icl_precision precision = ICL_PRECISION_FULL;

/* Returns whether an instruction set may give other bits: products of bfloat16 are exact, so that nothing is gained if
 * they are fused with sums; but tiles have sums in another order. */
static bool may_differ(const op_result *result, icl_isa isa) {
    return result->fuses &&
           !(precision == ICL_PRECISION_BF16 && isa < ICL_ISA_AMX && strncmp(result->name, "matmul", 6) == 0);
}

/* unit: 0 if both come from the same instruction set, else the unit roundoff of the numbers' type; then `seen` is of
 * `isa`. */
static void compare(tap_run *tap, const op_results *expected, const op_results *seen, double unit, icl_isa isa,
                    const char *how) {
    size_t different = 0;
    for (size_t i = 0; i < expected->count; i++) {
        const op_result *a = &expected->result[i], *b = &seen->result[i];
        if (i >= seen->count || !(unit > 0 && may_differ(a, isa) ? close_values(a, b, unit) : same_values(a, b))) {
            tap_note("%s differs", a->name);
            different++;
        }
    }
    tap_ok(tap, different == 0 && expected->count == seen->count && expected->count > 100,
           "%zu results have the same bits %s", expected->count, how);
}

/* Opens a backend. Returns NULL and reports a failed check if that fails. */
static icl_backend *open_spec(tap_run *tap, const char *spec) {
    icl_backend *backend = NULL;
    icl_error error = {0};
    tap_status(tap, icl_backend_open(&(icl_backend_params){.spec = spec, .precision = precision}, &backend, &error),
               &error, spec);
    return backend;
}

static void run_spec(tap_run *tap, const char *spec, op_results *results) {
    icl_backend *backend = open_spec(tap, spec);
    icl_error error = {0};
    if (!backend)
        return;
    tap_status(tap, run_every_op(backend, results, &error), &error, "every op runs");
    tap_ok(tap, icl_backend_get_statistics(backend).fallbacks == 0, "no op fell back");
    icl_backend_close(&backend);
}

/* ---- A sequence alone and among many ---- */

#define SEQUENCES 16
#define GRADIENTS 3
#define QUERIES   135
#define KEYS      150

/* q, k, v, d_out, out, log_sum_exp; then d_q, d_k, d_v of all sequences at once, and of one sequence after another. */
enum { INPUTS = 6, ATTENTION_TENSORS = INPUTS + 2 * GRADIENTS };

/* heads: the number of query heads, which share one head of keys; 0: no axis of heads. */
static icl_status run_both_ways(icl_backend *backend, const icl_attention_params *params, size_t heads, size_t d,
                                size_t e, icl_tensor t[ATTENTION_TENSORS], icl_error *error) {
    const size_t rows[] = {QUERIES, KEYS, KEYS, QUERIES, QUERIES, QUERIES};
    const size_t of_heads[] = {heads, 1, 1, heads, heads, heads};
    const size_t columns[] = {d, d, e, e, e, 1};
    const icl_tensor *at_once = t + INPUTS;
    icl_status status = ICL_OK;

    for (int i = 0; i < ATTENTION_TENSORS; i++) {
        const int like = i < INPUTS ? i : (i - INPUTS) % GRADIENTS;
        const icl_random_params normal = {.distribution = ICL_NORMAL, .key = {.seed = 5, .stream = (uint32_t)i}};
        const size_t shape[] = {SEQUENCES, rows[like], columns[like]};
        const size_t with_heads[] = {SEQUENCES, of_heads[like], rows[like], columns[like]};
        ICL_TRY(icl_tensor_create(backend, heads ? 4 : 3, heads ? with_heads : shape, &t[i], error));
        ICL_TRY(icl_random_fill(backend, &normal, t[i], error));
    }
    ICL_TRY(icl_attention_forward(backend, params, t[4], t[5], t[0], t[1], t[2], error));
    ICL_TRY(icl_attention_backward(backend, params, at_once[0], at_once[1], at_once[2], t[3], t[4], t[5], t[0], t[1],
                                   t[2], error));
    for (size_t s = 0; s < SEQUENCES; s++) {
        icl_tensor one[ATTENTION_TENSORS];
        const icl_tensor *alone = one + INPUTS + GRADIENTS;
        for (int i = 0; i < ATTENTION_TENSORS; i++)
            one[i] = icl_tensor_slice(t[i], 0, s, 1);
        ICL_TRY(icl_attention_backward(backend, params, alone[0], alone[1], alone[2], one[3], one[4], one[5], one[0],
                                       one[1], one[2], error));
    }
done:
    return status;
}

static bool same_bits(const icl_tensor *a, const icl_tensor *b) {
    static double x[2 * SEQUENCES * KEYS * 70], y[2 * SEQUENCES * KEYS * 70];
    const size_t count = icl_tensor_count(a);
    icl_error error;
    return count * sizeof *x <= sizeof x && icl_tensor_read_double(*a, x, &error) == ICL_OK &&
           icl_tensor_read_double(*b, y, &error) == ICL_OK && memcmp(x, y, count * sizeof *x) == 0;
}

/* In the backward pass of softmax attention each thread takes one of many sequences, but a block of queries or keys of
 * a single sequence. The kernels differ, but every number is the same sum in the same order. */
static void check_alone(tap_run *tap, const char *spec) {
    static const size_t sizes[][2] = {{70, 18}, {5, 66}};
    for (int k = 0; k < 2 * 2 * 4; k++) {
        const bool has_window = k / 4 == 3;
        const icl_attention_params params = {.kind = ICL_ATTENTION_SOFTMAX,
                                             .mask = has_window ? ICL_MASK_CAUSAL : (icl_attention_mask)(k / 4),
                                             .scale = 0.3,
                                             .window = has_window ? 20 : 0};
        const size_t heads = k / 2 % 2 * 2;
        const size_t d = sizes[k % 2][0], e = sizes[k % 2][1];
        icl_tensor t[ATTENTION_TENSORS] = {{0}};
        icl_backend *backend = open_spec(tap, spec);
        icl_error error = {0};
        if (backend && tap_status(tap, run_both_ways(backend, &params, heads, d, e, t, &error), &error, "attention"))
            for (int i = INPUTS; i < INPUTS + GRADIENTS; i++)
                tap_ok(tap, same_bits(&t[i], &t[i + GRADIENTS]),
                       "%s, mask %d, window %zu, heads %zu, d %zu, gradient %d: the same bits alone and among %d", spec,
                       (int)params.mask, params.window, heads, d, i - INPUTS, SEQUENCES);
        for (int i = 0; i < ATTENTION_TENSORS; i++)
            icl_tensor_release(&t[i]);
        icl_backend_close(&backend);
    }
}

/* Compares the kernels of one instruction set, on one thread and on several, with those of the widest one
 * without tiles. */
static void check_isa(tap_run *tap, const char *host, icl_isa isa, const op_results *expected) {
    const double unit = strcmp(host, "ref") == 0 ? DBL_EPSILON : (double)FLT_EPSILON;
    const size_t threads[] = {1, 3, 2};
    static op_results alone, shared;
    char spec[3][ICL_NAME_CAPACITY];

    for (size_t i = 0; i < 3; i++)
        icl_host_spec_write(&(icl_host_spec){.threads = threads[i], .has_isa = true, .isa = isa}, host, spec[i],
                            sizeof spec[i]);
    run_spec(tap, spec[0], &alone);
    compare(tap, expected, &alone, unit, isa, spec[0]);
    run_spec(tap, spec[1], &shared);
    compare(tap, &alone, &shared, 0, isa, spec[1]);
    check_alone(tap, spec[2]);
    free_results(&alone);
    free_results(&shared);
}

/* An instruction set that this machine lacks is refused, and the error names the widest one that it has. */
static void check_refusal(tap_run *tap, const char *host, icl_isa isa) {
    char spec[ICL_NAME_CAPACITY];
    icl_backend *backend = NULL;
    icl_error error = {0};

    icl_host_spec_write(&(icl_host_spec){.has_isa = true, .isa = isa}, host, spec, sizeof spec);
    tap_ok(tap,
           icl_backend_open(&(icl_backend_params){.spec = spec}, &backend, &error) == ICL_ERROR_DEVICE &&
               strstr(error.message, icl_isa_name(icl_machine_isa())),
           "%s is refused: %s", spec, error.message);
}

/* Prints to standard output. Returns 0, or 1 and prints the error if an op fails. */
static int print_bits(const char *host) {
    static op_results results;
    char spec[ICL_NAME_CAPACITY];
    icl_backend *backend = NULL;
    icl_error error = {0};
    icl_status status = ICL_OK;

    icl_host_spec_write(&(icl_host_spec){.threads = 2, .has_isa = true, .isa = ICL_ISA_BASE}, host, spec, sizeof spec);
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = spec}, &backend, &error));
    ICL_TRY(run_every_op(backend, &results, &error));
    for (size_t i = 0; i < results.count; i++) {
        const op_result *result = &results.result[i];
        printf("%s %s: %zu numbers, %016" PRIx64 "\n", host, result->name, result->count,
               icl_hash(result->values, result->count * sizeof *result->values));
    }
done:
    if (status != ICL_OK)
        fprintf(stderr, "%s\n", error.message);
    free_results(&results);
    icl_backend_close(&backend);
    return status != ICL_OK;
}

int main(int argc, char **argv) {
    const char *host = argc > 1 ? argv[1] : "cpu";
    static const size_t threads[] = {2, 3, 7};
    static op_results expected, seen;
    char spec[ICL_NAME_CAPACITY];
    tap_run tap = {0};

    if (argc > 2 && strcmp(argv[2], "print") == 0)
        return print_bits(host);
    precision = argc > 2 && strcmp(argv[2], "bf16") == 0 ? ICL_PRECISION_BF16 : ICL_PRECISION_FULL;
    icl_host_spec_write(&(icl_host_spec){.threads = 1}, host, spec, sizeof spec);
    run_spec(&tap, spec, &expected);
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        icl_host_spec_write(&(icl_host_spec){.threads = threads[i]}, host, spec, sizeof spec);
        run_spec(&tap, spec, &seen);
        compare(&tap, &expected, &seen, 0, icl_machine_isa(), spec);
        free_results(&seen);
    }
    if (icl_machine_isa() == ICL_ISA_AMX) {
        free_results(&expected);
        icl_host_spec_write(&(icl_host_spec){.threads = 1, .has_isa = true, .isa = ICL_ISA_AVX512}, host, spec,
                            sizeof spec);
        run_spec(&tap, spec, &expected);
    }
    for (int isa = ICL_ISA_BASE; isa <= ICL_ISA_AMX; isa++)
        if ((icl_isa)isa <= icl_machine_isa())
            check_isa(&tap, host, (icl_isa)isa, &expected);
        else
            check_refusal(&tap, host, (icl_isa)isa);
    free_results(&expected);
    return tap_done(&tap);
}
