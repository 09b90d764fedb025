/* Guarantees of the tape itself: sticky errors, kinks, unreached parameters, no allocation in a steady state. */
#include <math.h>

#include "iclab/iclab.h"
#include "tap.h"

typedef struct fixture {
    tap_run tap;
    icl_backend *backend;
    icl_tape *tape;
    icl_tensor x, dx; /* [4] */
} fixture;

static icl_tensor make(fixture *f, int rank, const size_t *shape, const float *values) {
    icl_tensor tensor = {0};
    icl_error error = {0};
    icl_status status = icl_tensor_create(f->backend, rank, shape, &tensor, &error);
    if (status == ICL_OK && values)
        status = icl_tensor_write(tensor, values, &error);
    if (status != ICL_OK)
        tap_status(&f->tap, status, &error, "make a tensor");
    return tensor;
}

/* Runs backward from the sum of `out` and compares d x with the expected numbers, exactly. */
static void expect(fixture *f, icl_variable out, const float expected[4], const char *what) {
    icl_error error = {0};
    float seen[4] = {NAN, NAN, NAN, NAN};
    bool same = true;
    const int rank = icl_tape_value(f->tape, out).rank;
    const icl_variable loss = icl_tape_reduce(f->tape, ICL_SUM, (1u << rank) - 1, out);
    icl_status status = icl_tape_backward(f->tape, loss, &error);

    if (status == ICL_OK)
        status = icl_tensor_read(f->dx, seen, &error);
    if (status != ICL_OK)
        tap_note("%s", error.message);
    for (int i = 0; i < 4; i++)
        same = same && seen[i] == expected[i];
    if (!same)
        tap_note("%g %g %g %g", (double)seen[0], (double)seen[1], (double)seen[2], (double)seen[3]);
    tap_ok(&f->tap, status == ICL_OK && same, "%s", what);
    icl_tape_reset(f->tape);
}

static icl_variable parameter(fixture *f, const float values[4]) {
    icl_error error = {0};
    if (icl_tensor_write(f->x, values, &error) != ICL_OK || icl_fill(f->backend, f->dx, (double)NAN, &error) != ICL_OK)
        tap_ok(&f->tap, false, "%s", error.message);
    return icl_tape_parameter(f->tape, f->x, f->dx);
}

static void test_kinks(fixture *f) {
    icl_variable x;

    x = parameter(f, (const float[]){3, 1, 3, 3});
    expect(f, icl_tape_scale(f->tape, 3.0, icl_tape_reduce(f->tape, ICL_MAX, 1, x)), (const float[]){1, 0, 1, 1},
           "ties of max share equally");
    x = parameter(f, (const float[]){1, 2, 2, 5});
    expect(f, icl_tape_binary(f->tape, ICL_MAXIMUM, x, icl_tape_filled(f->tape, 1, (const size_t[]){4}, 2.0)),
           (const float[]){0, 0.5F, 0.5F, 1}, "a tie of maximum gives half");
    x = parameter(f, (const float[]){1, 2, 2, 5});
    expect(f, icl_tape_binary(f->tape, ICL_MINIMUM, x, x), (const float[]){1, 1, 1, 1},
           "minimum of a variable and itself is the variable");
    x = parameter(f, (const float[]){0, -0.0F, -1, 2});
    expect(f, icl_tape_unary(f->tape, ICL_ABSOLUTE, x), (const float[]){0, 0, -1, 1}, "absolute has 0 at 0");
    x = parameter(f, (const float[]){0, -0.5F, -1, 2});
    expect(f, icl_tape_unary(f->tape, ICL_RELU, x), (const float[]){0, 0, 0, 1}, "ReLU has 0 at 0");
    x = parameter(f, (const float[]){0, 0, 0, 0});
    expect(f, icl_tape_reduce(f->tape, ICL_NORM, 1, x), (const float[]){0, 0, 0, 0}, "norm has 0 at 0");
}

/* A parameter that is the loss itself has the gradient 1; the next one, which nothing reads, 0. */
static void test_root(fixture *f) {
    icl_tensor values[2], gradients[2];
    icl_variable parameters[2];
    icl_error error = {0};
    float seen[2] = {NAN, NAN};
    const float start = 3, none = NAN;
    icl_status status = ICL_OK;

    for (int i = 0; i < 2; i++) {
        values[i] = make(f, 0, NULL, &start);
        gradients[i] = make(f, 0, NULL, &none);
        parameters[i] = icl_tape_parameter(f->tape, values[i], gradients[i]);
    }
    ICL_TRY(icl_tape_backward(f->tape, parameters[0], &error));
    for (int i = 0; i < 2; i++)
        ICL_TRY(icl_tensor_read(gradients[i], &seen[i], &error));
done:
    tap_status(&f->tap, status, &error, "a loss that is a parameter");
    tap_ok(&f->tap, seen[0] == 1 && seen[1] == 0, "has the gradient %g, another one %g", (double)seen[0],
           (double)seen[1]);
    icl_tape_reset(f->tape);
    for (int i = 0; i < 2; i++) {
        icl_tensor_release(&values[i]);
        icl_tensor_release(&gradients[i]);
    }
}

static void test_flow(fixture *f) {
    const size_t one = 1;
    icl_error error = {0};
    icl_variable x, loss;
    float seen[4];

    x = parameter(f, (const float[]){1, 2, 3, 4});
    expect(f, icl_tape_unary(f->tape, ICL_SIGN, x), (const float[]){0, 0, 0, 0}, "sign passes nothing on");
    parameter(f, (const float[]){1, 2, 3, 4});
    expect(f, icl_tape_filled(f->tape, 1, &one, 2.0), (const float[]){0, 0, 0, 0},
           "a loss of constants alone gives zero");
    x = parameter(f, (const float[]){1, 2, 3, 4});
    expect(f, icl_tape_slice(f->tape, x, 0, 1, 2), (const float[]){0, 1, 1, 0}, "a slice leaves the rest zero");

    x = parameter(f, (const float[]){1, 2, 3, 4});
    loss = icl_tape_reduce(f->tape, ICL_SUM_OF_SQUARES, 1, x);
    tap_ok(&f->tap, icl_tape_backward(f->tape, loss, &error) == ICL_OK, "backward");
    loss = icl_tape_scale(f->tape, 0.5, loss);
    tap_ok(&f->tap,
           icl_tape_backward(f->tape, loss, &error) == ICL_OK && icl_tensor_read(f->dx, seen, &error) == ICL_OK &&
               seen[0] == 1 && seen[3] == 4,
           "backward of a second loss overwrites the gradient");
    icl_tape_reset(f->tape);
}

/* Both axes must exist. */
static void test_axes(fixture *f) {
    static const int axes[][2] = {{0, 1}, {1, 0}, {2, 0}, {0, 2}, {-1, 1}, {1, -1}};
    static const size_t square[] = {2, 2};

    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        const icl_variable x = icl_tape_reshape(f->tape, parameter(f, (const float[]){0, 0, 0, 0}), 2, square);
        (void)icl_tape_swap_axes(f->tape, x, axes[i][0], axes[i][1]);
        tap_ok(&f->tap, icl_tape_status(f->tape, NULL) == (i < 2 ? ICL_OK : ICL_ERROR_INPUT),
               "axes %d and %d of two are %s", axes[i][0], axes[i][1], i < 2 ? "swapped" : "refused");
        icl_tape_reset(f->tape);
    }
}

static void test_errors(fixture *f) {
    const size_t three = 3, five = 5;
    icl_error error = {0}, later = {0};
    icl_variable x = parameter(f, (const float[]){1, 2, 3, 4}), bad, sum;

    bad = icl_tape_binary(f->tape, ICL_ADD, x, icl_tape_filled(f->tape, 1, &three, 1.0));
    sum = icl_tape_reduce(f->tape, ICL_SUM, 1, icl_tape_unary(f->tape, ICL_SQUARE, bad));
    tap_ok(&f->tap, icl_tape_status(f->tape, &error) == ICL_ERROR_INPUT, "shapes that do not fit are refused");
    tap_note("%s", error.message);
    tap_ok(&f->tap, !icl_tape_value(f->tape, sum).buffer, "variables after a failure have no value");
    icl_tape_slice(f->tape, sum, 0, 9, 9);
    tap_ok(&f->tap,
           icl_tape_backward(f->tape, sum, &later) == ICL_ERROR_INPUT && strcmp(error.message, later.message) == 0,
           "backward returns the first failure");
    icl_tape_reset(f->tape);
    tap_ok(&f->tap, icl_tape_status(f->tape, NULL) == ICL_OK, "reset forgets the failure");

    x = parameter(f, (const float[]){1, 2, 3, 4});
    tap_ok(&f->tap, icl_tape_backward(f->tape, icl_tape_slice(f->tape, x, 0, 0, 0), &error) == ICL_ERROR_INPUT,
           "a loss of no elements is refused");
    tap_ok(&f->tap, icl_tape_backward(f->tape, (icl_variable){77}, &error) == ICL_ERROR_INPUT,
           "a loss that is not on the tape is refused");
    for (int kind = ICL_SILU_SLOPE; kind <= ICL_GELU_SLOPE; kind++) {
        sum = icl_tape_reduce(f->tape, ICL_SUM, 1, icl_tape_binary(f->tape, (icl_binary_kind)kind, x, x));
        tap_ok(&f->tap,
               icl_tape_backward(f->tape, sum, &error) == ICL_ERROR_INPUT && strstr(error.message, "derivative"),
               "a derivative of %s is refused: %s", icl_binary_name((icl_binary_kind)kind), error.message);
    }
    icl_tape_slice(f->tape, x, 0, 3, 2);
    tap_ok(&f->tap, icl_tape_status(f->tape, NULL) == ICL_ERROR_INPUT, "a slice past the end is refused");
    icl_tape_reset(f->tape);
    icl_tape_reshape(f->tape, parameter(f, (const float[]){0, 0, 0, 0}), 1, &five);
    tap_ok(&f->tap, icl_tape_status(f->tape, NULL) == ICL_ERROR_INPUT, "a reshape to another count is refused");
    icl_tape_reset(f->tape);
    icl_tape_matmul(f->tape, 1.0, parameter(f, (const float[]){0, 0, 0, 0}), parameter(f, (const float[]){0, 0, 0, 0}));
    tap_ok(&f->tap, icl_tape_status(f->tape, NULL) == ICL_ERROR_INPUT, "a product of vectors is refused");
    icl_tape_reset(f->tape);
    icl_tape_unary(f->tape, ICL_SQUARE, (icl_variable){0});
    tap_ok(&f->tap, icl_tape_status(f->tape, NULL) == ICL_ERROR_INPUT, "a variable from before a reset is refused");
    icl_tape_reset(f->tape);
    icl_tape_parameter(f->tape, f->x, icl_tensor_slice(f->dx, 0, 0, 2));
    tap_ok(&f->tap, icl_tape_status(f->tape, NULL) == ICL_ERROR_INPUT, "a gradient of another shape is refused");
    icl_tape_reset(f->tape);
}

/* Checks gradients exactly: of the mean of squares, and of the losses of two sequences, each with a weight. */
static void test_losses(fixture *f) {
    const size_t shape[] = {2, 1, 2}, three[] = {2, 1, 3};
    const icl_tensor zeros = make(f, 3, shape, (const float[]){0, 0, 0, 0});
    const icl_tensor ones = make(f, 3, shape, (const float[]){1, 1, 0, 1});
    const icl_tensor none = make(f, 3, (const size_t[]){2, 1, 1}, (const float[]){0, 2});
    icl_tensor made[] = {zeros, ones, none};
    icl_error error = {0};
    icl_variable outputs;
    float seen[4] = {0}, losses[2] = {0};

    icl_tape_backward(f->tape, icl_tape_unary(f->tape, ICL_SQUARE, parameter(f, (const float[]){1, 2, 3, 4})), &error);
    tap_ok(&f->tap, icl_tensor_read(f->dx, seen, &error) == ICL_OK && seen[0] == 0.5F && seen[3] == 2,
           "backward of four elements is that of their mean");
    icl_tape_reset(f->tape);

    for (int kind = 0; kind < 2; kind++) {
        const icl_loss_kind loss = kind ? ICL_LOSS_LOGISTIC : ICL_LOSS_SQUARED_ERROR;
        outputs = icl_tape_reshape(f->tape, parameter(f, (const float[]){0, 0, 0, 0}), 3, shape);
        const icl_variable each = icl_tape_loss(f->tape, loss, outputs, ones, none);
        const bool is_read = icl_tape_backward(f->tape, each, &error) == ICL_OK &&
                             icl_tensor_read(icl_tape_value(f->tape, each), losses, &error) == ICL_OK &&
                             icl_tensor_read(f->dx, seen, &error) == ICL_OK;
        const float expected[2][2] = {{0, -2}, {0.5F, -0.5F}};
        tap_ok(&f->tap,
               is_read && losses[0] == 0 && seen[0] == 0 && seen[1] == 0 && seen[2] == expected[kind][0] &&
                   seen[3] == expected[kind][1],
               "%s at 0: weights 0 and 2 of two sequences", icl_loss_name(loss));
        tap_note("%g %g, gradient %g %g %g %g", (double)losses[0], (double)losses[1], (double)seen[0], (double)seen[1],
                 (double)seen[2], (double)seen[3]);
        icl_tape_reset(f->tape);
    }

    outputs = icl_tape_constant(f->tape, zeros);
    icl_tape_loss(f->tape, ICL_LOSS_CROSS_ENTROPY, outputs, ones, none);
    tap_ok(&f->tap, icl_tape_status(f->tape, &error) == ICL_ERROR_INPUT, "two numbers are refused as a class: %s",
           error.message);
    icl_tape_reset(f->tape);
    outputs = icl_tape_filled(f->tape, 3, three, 0.5);
    icl_tape_loss(f->tape, ICL_LOSS_SQUARED_ERROR, outputs, ones, (icl_tensor){0});
    tap_ok(&f->tap, icl_tape_status(f->tape, &error) == ICL_ERROR_INPUT,
           "three outputs and two targets are refused: %s", error.message);
    icl_tape_reset(f->tape);
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        icl_tensor_release(&made[i]);
}

static icl_status one_step(fixture *f, icl_tensor w, icl_tensor dw, icl_tensor z, icl_error *error) {
    const icl_attention_params attention = {.kind = ICL_ATTENTION_SOFTMAX, .mask = ICL_MASK_CAUSAL, .scale = 0.5};
    icl_variable a, b;

    icl_tape_reset(f->tape);
    a = icl_tape_constant(f->tape, z);
    b = icl_tape_parameter(f->tape, w, dw);
    for (int layer = 0; layer < 3; layer++) {
        const icl_variable q = icl_tape_matmul(f->tape, 1.0, a, b);
        a = icl_tape_binary(f->tape, ICL_ADD, a, icl_tape_attention(f->tape, &attention, q, a, a));
    }
    return icl_tape_backward(f->tape, icl_tape_reduce(f->tape, ICL_SUM_OF_SQUARES, 7, a), error);
}

static void test_steady_state(fixture *f) {
    const size_t w_shape[] = {3, 3}, z_shape[] = {4, 5, 3};
    icl_tensor w = make(f, 2, w_shape, NULL), dw = make(f, 2, w_shape, NULL), z = make(f, 3, z_shape, NULL);
    icl_backend_statistics before, after;
    icl_error error = {0};
    icl_status status = icl_fill(f->backend, w, 0.2, &error);

    if (status == ICL_OK)
        status = icl_fill(f->backend, z, 0.3, &error);
    for (int i = 0; i < 2 && status == ICL_OK; i++)
        status = one_step(f, w, dw, z, &error);
    before = icl_backend_get_statistics(f->backend);
    for (int i = 0; i < 5 && status == ICL_OK; i++)
        status = one_step(f, w, dw, z, &error);
    after = icl_backend_get_statistics(f->backend);
    tap_status(&f->tap, status, &error, "seven steps");
    tap_ok(&f->tap, after.allocations == before.allocations, "a repeated step allocates nothing on the device");
    tap_ok(&f->tap, after.bytes_live == before.bytes_live, "a repeated step holds no more memory");
    icl_tape_reset(f->tape);
    icl_tensor_release(&w);
    icl_tensor_release(&dw);
    icl_tensor_release(&z);
}

/* Pairs (1, 0) become the cosine and the sine of (first + t) base^(-2 i / d), rounded once. The rows test positions
 * that lie in several tables, a table that is found again, and another base at positions that a table holds. */
static void test_angles(fixture *f) {
    enum { TOKENS = 3, HALF = 5 };
    static const struct {
        double base;
        size_t first;
    } rows[] = {{50, 0}, {50, 255}, {50, 511}, {50, 1000000}, {50, 253}, {50, 1}, {7, 1}};
    static const size_t shape[2] = {TOKENS, 2 * HALF};
    float in[TOKENS * 2 * HALF] = {0}, seen[TOKENS * 2 * HALF];
    icl_error error = {0};

    for (size_t t = 0; t < TOKENS; t++)
        for (size_t i = 0; i < HALF; i++)
            in[t * 2 * HALF + i] = 1;
    const icl_tensor x = make(f, 2, shape, in);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        double worst = 0;
        icl_tape_reset(f->tape);
        const icl_variable out = icl_tape_rotate(f->tape, icl_tape_constant(f->tape, x), rows[k].base, rows[k].first);
        if (!tap_status(&f->tap, icl_tape_status(f->tape, &error), &error, "rotate") ||
            !tap_status(&f->tap, icl_tensor_read(icl_tape_value(f->tape, out), seen, &error), &error, "read"))
            break;
        for (size_t t = 0; t < TOKENS; t++)
            for (size_t i = 0; i < HALF; i++) {
                const double angle = (double)(rows[k].first + t) * pow(rows[k].base, -2.0 * (double)i / (2 * HALF));
                worst = fmax(worst, fabs((double)seen[t * 2 * HALF + i] - cos(angle)));
                worst = fmax(worst, fabs((double)seen[t * 2 * HALF + HALF + i] - sin(angle)));
            }
        /* Half a unit in the last place of 1, and the effect of two orders of rounding on an angle of a million. */
        tap_ok(&f->tap, worst < 0x1p-25 + 1e-9, "base %g: positions from %zu on are turned by their angles (%.2g)",
               rows[k].base, rows[k].first, worst);
    }
    icl_tape_reset(f->tape);
    icl_tensor owned = x;
    icl_tensor_release(&owned);
}

/* Writes what two calls of dropout leave of ones, as sequence 3 and the next of a batch, [2][n] each. */
static icl_status drop_ones(fixture *f, size_t n, double share, float *seen, icl_error *error) {
    static const icl_dropout_numbers numbers = {{.seed = 8, .stream = 2, .step = 6}, 3};
    const icl_variable ones = icl_tape_filled(f->tape, 2, (const size_t[]){2, n}, 1);

    icl_tape_set_dropout(f->tape, numbers);
    for (size_t call = 0; call < 2; call++) {
        const icl_variable out = icl_tape_drop_out(f->tape, share, ones);
        ICL_CHECK(icl_tape_status(f->tape, error));
        ICL_CHECK(icl_tensor_read(icl_tape_value(f->tape, out), seen + call * 2 * n, error));
    }
    return ICL_OK;
}

/* Dropout keeps the elements whose numbers say so, divided by 1 - share. */
static void test_dropout(fixture *f) {
    enum { N = 300 };
    static const double shares[] = {0.25, 0.5, 0.9};
    float seen[2 * 2 * N];
    icl_error error = {0};

    for (size_t k = 0; k < sizeof shares / sizeof *shares; k++) {
        size_t wrong = 0, zeros = 0;
        if (!tap_status(&f->tap, drop_ones(f, N, shares[k], seen, &error), &error, "dropout"))
            return;
        for (size_t i = 0; i < 2 * 2 * N; i++) {
            const uint64_t call = i / (2 * N), index = call * (UINT64_C(1) << 40) + 3 * N + i % (2 * N);
            const uint32_t word = icl_random_word((icl_random_key){.seed = 8, .stream = 2, .step = 6}, index);
            const bool is_kept = (double)(word >> 8) * 0x1p-24 > shares[k];
            wrong += !(fabs((double)seen[i] - (is_kept ? 1 / (1 - shares[k]) : 0)) <= 0x1p-22 / (1 - shares[k]));
            zeros += seen[i] == 0;
        }
        /* Five standard errors of a share of 1,200 draws. */
        const double share = (double)zeros / (2 * 2 * N), error_of = sqrt(shares[k] * (1 - shares[k]) / (2 * 2 * N));
        tap_ok(&f->tap, wrong == 0 && fabs(share - shares[k]) < 5 * error_of,
               "a share of %g: %zu elements are wrong, and %g are zero", shares[k], wrong, share);
        icl_tape_reset(f->tape);
    }
    const icl_variable x = parameter(f, (const float[]){1, 2, 3, 4});
    tap_ok(&f->tap, icl_tape_drop_out(f->tape, 0.5, x).index == x.index, "after a reset nothing is dropped");
    icl_tape_reset(f->tape);
}

/* A rewind keeps values and gradients up to `last`, and forgets what comes after it, and its error. */
static void test_rewind(fixture *f) {
    const size_t two = 2, four = 4;
    const icl_variable x = parameter(f, (const float[]){1, -2, 3, -4});
    const icl_variable kept = icl_tape_unary(f->tape, ICL_ABSOLUTE, x);
    const icl_variable gone = icl_tape_scale(f->tape, 5.0, kept);
    const uint64_t live = icl_backend_get_statistics(f->backend).bytes_live;
    float seen[4] = {NAN, NAN, NAN, NAN};
    icl_error error = {0};

    icl_tape_binary(f->tape, ICL_ADD, icl_tape_filled(f->tape, 1, &two, 1.0), icl_tape_filled(f->tape, 1, &four, 1.0));
    tap_ok(&f->tap, icl_tape_status(f->tape, NULL) != ICL_OK, "a tape that failed");
    icl_tape_rewind(f->tape, kept);
    tap_ok(&f->tap, icl_tape_status(f->tape, NULL) == ICL_OK && !icl_tape_value(f->tape, gone).buffer,
           "is rewound: no error, and no variable after the last one kept");
    tap_ok(&f->tap, icl_backend_get_statistics(f->backend).bytes_live < live,
           "what is forgotten gives back its memory");
    tap_status(&f->tap, icl_tensor_read(icl_tape_value(f->tape, kept), seen, &error), &error, "read what is kept");
    tap_ok(&f->tap, seen[0] == 1 && seen[1] == 2 && seen[2] == 3 && seen[3] == 4, "has its value");
    icl_tape_rewind(f->tape, (icl_variable){kept.index + 3});
    expect(f, icl_tape_scale(f->tape, 2.0, kept), (const float[]){2, -2, 2, -2}, "has its gradient");
}

int main(int argc, char **argv) {
    const size_t four = 4;
    fixture f = {0};
    icl_error error = {0};

    f.backend = tap_open_device(&f.tap, argc > 1 ? argv[1] : "cpu");
    if (!f.backend)
        return tap_done(&f.tap);
    if (tap_status(&f.tap, icl_tape_create(f.backend, &f.tape, &error), &error, "create a tape")) {
        f.x = make(&f, 1, &four, NULL);
        f.dx = make(&f, 1, &four, NULL);
        test_kinks(&f);
        test_root(&f);
        test_flow(&f);
        test_errors(&f);
        test_rewind(&f);
        test_axes(&f);
        test_losses(&f);
        test_steady_state(&f);
        test_angles(&f);
        test_dropout(&f);
        icl_tensor_release(&f.x);
        icl_tensor_release(&f.dx);
        icl_tape_destroy(&f.tape);
        tap_ok(&f.tap, icl_backend_get_statistics(f.backend).bytes_live == 0, "everything was given back");
    }
    icl_backend_close(&f.backend);
    return tap_done(&f.tap);
}
