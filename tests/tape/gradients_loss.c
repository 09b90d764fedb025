/* Losses: their gradients, and their values. */
#include <math.h>

#include "gradients.h"

/* Targets suit the loss: classes 0, 1, 2, 0, …; ones and zeros; any numbers. option: with weights. */
static icl_variable build_loss(icl_tape *tape, const icl_variable *inputs, const gradient_case *c) {
    const size_t *extent = c->inputs[0].extent;
    const icl_loss_kind kind = (icl_loss_kind)c->kind;
    const size_t width = icl_loss_target_size(kind, extent[2]), count = extent[0] * extent[1];
    const size_t of_targets[] = {extent[0], extent[1], width}, of_weights[] = {extent[0], extent[1], 1};
    const icl_variable targets = icl_tape_filled(tape, 3, of_targets, 0.0),
                       weights = icl_tape_filled(tape, 3, of_weights, 0.0);
    const icl_tensor y = icl_tape_value(tape, targets), w = icl_tape_value(tape, weights);
    float numbers[MAX_COUNT];

    for (size_t i = 0; i < count * width; i++)
        numbers[i] = kind == ICL_LOSS_CROSS_ENTROPY ? (float)(i % extent[2]) : (float)(i % 2);
    if (!y.buffer || !w.buffer || icl_tensor_write(y, numbers, NULL) != ICL_OK)
        return (icl_variable){-1};
    for (size_t i = 0; i < count; i++)
        numbers[i] = 0.5F * (float)(i % 3);
    if (icl_tensor_write(w, numbers, NULL) != ICL_OK)
        return (icl_variable){-1};
    return icl_tape_loss(tape, kind, inputs[0], y, c->option ? w : (icl_tensor){0});
}

static void check_loss_gradients(bench *b) {
    for (int kind = 0; kind < ICL_LOSS_COUNT; kind++)
        for (int option = 0; option < 2; option++)
            for (size_t positions = 1; positions < 4; positions += 2) {
                gradient_case c = {.build = build_loss, .kind = kind, .option = option, .input_count = 1};
                c.inputs[0] = (shape){3, {4, positions, 3}};
                gradient_describe(&c, icl_loss_name((icl_loss_kind)kind));
                gradient_check(b, &c);
            }
}

/* Compares the tape's losses with those of the host, and these with numbers worked out by hand. */
static void check_loss_values(bench *b) {
    enum { COUNT = 3 };
    static const double outputs[COUNT] = {1.5, -0.25, 40},
                        targets[ICL_LOSS_COUNT][COUNT] = {{1, 0.25, 39.5}, {1}, {1, 0, 1}};
    /* 0.25 + 0.25 + 0.25; 40 + 0.25 + log(1 + e^-38.5 + e^-40.25); log(1 + e^-1.5) + log(1 + e^-0.25)
     * + log(1 + e^-40) */
    static const double expected[ICL_LOSS_COUNT] = {0.75, 40.25, 0.777352697861596};
    static const double accuracy[ICL_LOSS_COUNT] = {0, 0, 1};
    const size_t of_outputs[] = {1, 1, COUNT};
    const bool is_double = icl_backend_capabilities(b->device)->element_size == sizeof(double);
    icl_tape *tape = NULL;
    icl_error error = {0};

    if (!tap_status(&b->tap, icl_tape_create(b->device, &tape, &error), &error, "create a tape"))
        return;
    for (int kind = 0; kind < ICL_LOSS_COUNT; kind++) {
        const icl_loss_kind loss = (icl_loss_kind)kind;
        const size_t of_target[] = {1, 1, icl_loss_target_size(loss, COUNT)};
        const icl_variable z = icl_tape_filled(tape, 3, of_outputs, 0), y = icl_tape_filled(tape, 3, of_target, 0);
        const double host = icl_loss_of(loss, COUNT, outputs, targets[kind]);
        double seen = (double)NAN;
        icl_status status = icl_tensor_write_double(icl_tape_value(tape, z), outputs, &error);

        if (status == ICL_OK)
            status = icl_tensor_write_double(icl_tape_value(tape, y), targets[kind], &error);
        const icl_variable each = icl_tape_loss(tape, loss, z, icl_tape_value(tape, y), (icl_tensor){0});
        if (status == ICL_OK)
            status = icl_tensor_read_double(icl_tape_value(tape, each), &seen, &error);
        tap_ok(&b->tap,
               status == ICL_OK && fabs(host - expected[kind]) < 1e-13 * expected[kind] &&
                   fabs(seen - host) < (is_double ? 1e-14 : 1e-6) * host,
               "%s is %.15g on the host, %.15g on the tape, expected %.15g", icl_loss_name(loss), host, seen,
               expected[kind]);
        if (icl_loss_has_accuracy(loss))
            tap_ok(&b->tap, icl_loss_accuracy(loss, COUNT, outputs, targets[kind]) == accuracy[kind],
                   "the accuracy of %s", icl_loss_name(loss));
        icl_tape_reset(tape);
    }
    tap_ok(&b->tap,
           isnan(icl_loss_of(ICL_LOSS_CROSS_ENTROPY, COUNT, outputs, (const double[]){3})) &&
               isnan(icl_loss_of(ICL_LOSS_CROSS_ENTROPY, COUNT, outputs, (const double[]){0.5})),
           "what is no class has no loss");
    tap_ok(&b->tap,
           icl_loss_accuracy(ICL_LOSS_CROSS_ENTROPY, 4, (const double[]){2, 1, 2, 2}, (const double[]){2}) == 1.0 / 3 &&
               icl_loss_accuracy(ICL_LOSS_CROSS_ENTROPY, 4, (const double[]){2, 1, 2, 2}, (const double[]){1}) == 0 &&
               icl_loss_accuracy(ICL_LOSS_CROSS_ENTROPY, 1, (const double[]){(double)NAN}, (const double[]){0}) == 0,
           "a class that shares the largest output is right by its share; NaN is never right");
    icl_tape_destroy(&tape);
}

void check_losses(bench *b) {
    check_loss_gradients(b);
    check_loss_values(b);
}
