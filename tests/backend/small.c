/* Small operations of CPUs in lists have the bits of launches one by one, in the order of the calls, whatever comes
 * between them; and the decision which operations are small is tested from both sides. argv: device. */
#include "backend/opencl/small.h"
#include "backend/opencl/pool.h"
#include "conformance/case.h"
#include "core/allocate.h"
#include "tap.h"

#define EVERY 2  /* one in EVERY cases of an op is run */
#define STEPS 40 /* more operations, words and tensors than a list holds */
#define WIDTH 70

static icl_tensor make(tap_run *tap, icl_backend *backend, size_t rows, size_t columns) {
    icl_tensor made = {0};
    icl_error error = {0};
    if (icl_tensor_create(backend, 2, (const size_t[]){rows, columns}, &made, &error) != ICL_OK)
        tap_ok(tap, false, "a tensor: %s", error.message);
    return made;
}

static icl_tensor make_filled(tap_run *tap, icl_backend *backend, size_t rows, size_t columns, float first) {
    static float values[WIDTH * WIDTH];
    icl_tensor made = make(tap, backend, rows, columns);
    icl_error error = {0};
    for (size_t i = 0; i < rows * columns; i++)
        values[i] = first + .01F * (float)(i * 7 % 31);
    if (icl_tensor_write(made, values, &error) != ICL_OK)
        tap_ok(tap, false, "a tensor's values: %s", error.message);
    return made;
}

/* ---- Cases ---- */

static bool same_bits(const icl_case *c, icl_backend *alone, icl_backend *listed) {
    icl_case_result one = {0}, other = {0};
    icl_error error = {0};
    const bool ran =
        icl_case_run(c, alone, &one, &error) == ICL_OK && icl_case_run(c, listed, &other, &error) == ICL_OK;
    const bool same =
        ran && one.elements == other.elements && other.guards_intact &&
        (one.elements == 0 || memcmp(one.outputs, other.outputs, one.elements * sizeof *one.outputs) == 0);
    if (!same)
        tap_note("%s: %s", c->name, ran ? "other bits in a list" : error.message);
    icl_case_result_clear(&one);
    icl_case_result_clear(&other);
    return same;
}

static void test_cases(tap_run *tap, icl_backend *alone, icl_backend *listed) {
    static const icl_op ops[] = {ICL_OP_copy,      ICL_OP_unary,  ICL_OP_binary,
                                 ICL_OP_scale_add, ICL_OP_matmul, ICL_OP_normalize};
    size_t count = 0, seen[ICL_OP_COUNT] = {0}, differ[ICL_OP_COUNT] = {0}, listed_cases[ICL_OP_COUNT] = {0};
    icl_case *cases = NULL;
    icl_error error = {0};

    if (!tap_status(tap, icl_cases_create(0, &cases, &count, &error), &error, "build the cases"))
        return;
    for (size_t i = 0; i < count; i++)
        for (size_t n = 0; n < sizeof ops / sizeof *ops; n++)
            if (cases[i].op == ops[n] && seen[ops[n]]++ % EVERY == 0) {
                bool *launched = &icl_opencl_of(listed)->launcher->launched[ICL_KERNEL_run_small];
                *launched = false;
                differ[ops[n]] += !same_bits(&cases[i], alone, listed);
                listed_cases[ops[n]] += *launched;
            }
    for (size_t n = 0; n < sizeof ops / sizeof *ops; n++)
        tap_ok(tap, differ[ops[n]] == 0 && listed_cases[ops[n]] > 0,
               "%s: %zu cases differ in a list, of %zu that took one", icl_op_infos[ops[n]].name, differ[ops[n]],
               listed_cases[ops[n]]);
    tap_ok(tap, !icl_opencl_of(alone)->launcher->launched[ICL_KERNEL_run_small], "the other device launches no list");
    icl_free(&cases);
}

/* ---- A chain ---- */

/* Takes one step: t = layer norm(tanh(x W) + x), with an occasional fill or sum between, which no list takes. */
static icl_status take_step(icl_backend *backend, size_t step, icl_tensor weights, icl_tensor x, icl_tensor next,
                            icl_tensor spare, icl_error *error) {
    const icl_normalize_params norm = {.kind = ICL_NORM_LAYER, .epsilon = 1e-5};
    icl_status status = ICL_OK;

    ICL_TRY(icl_matmul(backend, next, .1, x, weights, 0, error));
    ICL_TRY(icl_unary(backend, ICL_HYPERBOLIC_TANGENT, next, next, error));
    ICL_TRY(icl_binary(backend, ICL_ADD, spare, next, x, error));
    if (step % 7 == 3)
        ICL_TRY(icl_reduce(backend, ICL_SUM, 1U << 0, icl_tensor_slice(spare, 0, 0, 1), next, error));
    ICL_TRY(icl_normalize(backend, &norm, next, spare, (icl_tensor){0}, (icl_tensor){0}, error));
    if (step % 7 == 3)
        ICL_TRY(icl_fill(backend, icl_tensor_slice(next, 1, 0, 5), .5, error));
done:
    return status;
}

/* Reads the chain's last numbers. Returns the launches that it took. Each step has new tensors and gives its spare back
 * at once, while the list still names it. */
static size_t run_chain(tap_run *tap, icl_backend *backend, float out[2 * WIDTH]) {
    const size_t before = icl_backend_get_statistics(backend).launches;
    icl_tensor weights = make_filled(tap, backend, WIDTH, WIDTH, -.2F), x[STEPS + 1];
    icl_error error = {0};
    icl_status status = ICL_OK;

    x[0] = make_filled(tap, backend, 2, WIDTH, -.1F);
    for (size_t step = 0; step < STEPS; step++) {
        icl_tensor spare = make(tap, backend, 2, WIDTH);
        x[step + 1] = make(tap, backend, 2, WIDTH);
        if (status == ICL_OK)
            status = take_step(backend, step, weights, x[step], x[step + 1], spare, &error);
        icl_tensor_release(&spare);
    }
    tap_status(tap, status, &error, "a chain of small operations");
    tap_status(tap, icl_tensor_read(x[STEPS], out, &error), &error, "its end");
    for (size_t i = 0; i <= STEPS; i++)
        icl_tensor_release(&x[i]);
    icl_tensor_release(&weights);
    return icl_backend_get_statistics(backend).launches - before;
}

static void test_chain(tap_run *tap, icl_backend *alone, icl_backend *listed) {
    float one[2 * WIDTH], other[2 * WIDTH];
    const size_t launches = run_chain(tap, alone, one), lists = run_chain(tap, listed, other);

    tap_ok(tap, memcmp(one, other, sizeof one) == 0 && one[0] == one[0], "the chain has the same bits in lists");
    tap_ok(tap, 4 * lists < launches, "and takes %zu launches instead of %zu", lists, launches);
}

/* Names more memory than a list can, in so few words that they would fit: a row is copied from tensor to tensor. */
static void test_buffers(tap_run *tap, icl_backend *backend) {
    enum { COPIES = 2 * ICL_SMALL_BUFFERS };
    icl_tensor row[COPIES + 1];
    icl_error error = {0};
    icl_status status = ICL_OK;
    float out[WIDTH] = {0};

    row[0] = make_filled(tap, backend, 1, WIDTH, 3);
    for (size_t i = 0; i < COPIES; i++) {
        row[i + 1] = make(tap, backend, 1, WIDTH);
        if (status == ICL_OK)
            status = icl_copy(backend, row[i + 1], row[i], &error);
    }
    tap_status(tap, status, &error, "a row of copies");
    tap_status(tap, icl_tensor_read(row[COPIES], out, &error), &error, "the last one");
    tap_ok(tap, out[0] == 3.0F && out[1] == 3.0F + .01F * 7, "%d copies of a row: %g, %g", COPIES, (double)out[0],
           (double)out[1]);
    for (size_t i = 0; i <= COPIES; i++)
        icl_tensor_release(&row[i]);
}

/* Writes of the host come after waiting operations: a block that is given back and taken again for a write keeps its
 * old numbers until they have run. */
static void test_order(tap_run *tap, icl_backend *backend) {
    static const float twos[WIDTH] = {2, 2};
    icl_tensor sum = make(tap, backend, 1, WIDTH), a = make_filled(tap, backend, 1, WIDTH, 1);
    icl_error error = {0};
    float out[WIDTH];

    tap_status(tap, icl_binary(backend, ICL_ADD, sum, a, a, &error), &error, "a sum that waits");
    icl_tensor_release(&a);
    a = make(tap, backend, 1, WIDTH);
    tap_status(tap, icl_tensor_write(a, twos, &error), &error, "numbers into the memory that it reads");
    tap_status(tap, icl_tensor_read(sum, out, &error), &error, "the sum");
    tap_ok(tap, out[0] == 2.0F, "it is that of the old numbers: %g", (double)out[0]);
    icl_tensor_release(&a);
    icl_tensor_release(&sum);
}

/* If memory is short, the pool gives free blocks back to the driver, but not before waiting operations have used
 * them. */
static void test_trim(tap_run *tap, icl_backend *backend) {
    enum { LONG = 4000, SHORTER = 3000 }; /* of two size classes */
    icl_opencl *opencl = icl_opencl_of(backend);
    const size_t limit = opencl->pool->memory_limit;
    icl_tensor sum = make(tap, backend, 1, LONG), a = make_filled(tap, backend, 1, LONG, 1), other;
    icl_error error = {0};
    float out[LONG];

    tap_status(tap, icl_binary(backend, ICL_ADD, sum, a, a, &error), &error, "a sum that waits");
    icl_tensor_release(&a);
    opencl->pool->memory_limit = icl_backend_get_statistics(backend).bytes_reserved;
    other = make(tap, backend, 1, SHORTER);
    tap_ok(tap, icl_backend_get_statistics(backend).bytes_reserved < opencl->pool->memory_limit,
           "the pool was trimmed");
    opencl->pool->memory_limit = limit;
    tap_status(tap, icl_tensor_read(sum, out, &error), &error, "the sum");
    tap_ok(tap, out[0] == 2.0F && out[LONG - 1] >= 2.0F, "it is right: %g", (double)out[0]);
    icl_tensor_release(&other);
    icl_tensor_release(&sum);
}

/* ---- What is small ---- */

static void check_size(tap_run *tap, icl_opencl *opencl, bool expected, size_t m, size_t k, size_t n) {
    const cl_uint4 shape = {{1, 1, (cl_uint)m, (cl_uint)n}};
    tap_ok(tap, icl_small_takes_product(opencl, shape, (cl_uint)k) == expected, "[%zu, %zu] times [%zu, %zu] is %s", m,
           k, k, n, expected ? "small" : "not small");
}

static void test_sizes(tap_run *tap, icl_opencl *opencl) {
    icl_runs runs = {.shape = {{1, 1, 1, 4096}}};

    check_size(tap, opencl, true, 4, 256, 64);
    check_size(tap, opencl, false, 4, 256, 65);
    check_size(tap, opencl, false, 5, 10, 10);
    check_size(tap, opencl, true, 1, 256, 1);
    check_size(tap, opencl, false, 1, 257, 1);
    check_size(tap, opencl, true, 1, 0, 3);
    tap_ok(tap, icl_small_takes_runs(opencl, &runs), "a row of 4096 is small");
    runs.shape.s[3]++;
    tap_ok(tap, !icl_small_takes_runs(opencl, &runs), "one of 4097 is not");
    runs.shape = (cl_uint4){{1, 2, 2, 2}};
    tap_ok(tap, !icl_small_takes_runs(opencl, &runs), "three axes that cannot be merged are not");
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *alone = argc > 1 ? tap_open_device(&tap, argv[1]) : NULL;
    icl_backend *listed = alone ? tap_open_device(&tap, argv[1]) : NULL;

    if (alone && listed && tap_ok(&tap, icl_opencl_of(listed)->lanes > 1, "the kernels are those of CPUs")) {
        icl_opencl_of(alone)->small->is_off = true;
        test_sizes(&tap, icl_opencl_of(listed));
        test_order(&tap, listed);
        test_trim(&tap, listed);
        test_buffers(&tap, listed);
        test_chain(&tap, alone, listed);
        test_cases(&tap, alone, listed);
    }
    icl_backend_close(&listed);
    icl_backend_close(&alone);
    return tap_done(&tap);
}
