/*
 * Outputs behind several loops of a sequence model, and their gradients.
 *
 * Outputs behind loop l are those of a model with l loops. Gradients through a window of all loops are central
 * differences. Where the window begins later, they are those of untied stacks: without injection b loops of a block are
 * b blocks with its parameters, and the block's gradient is the sum over those blocks that stand in the window.
 */
#include <stdlib.h>

#include "fixture.h"

enum { BATCH = 2, MOST_LOOPS = 6 };

static setting setting_of(const char *overrides) {
    setting is = {overrides, small_shape, BATCH};
    if (strstr(overrides, "pooled"))
        is.shape.scored = 1;
    return is;
}

/* ---- Outputs ---- */

static icl_status read_window(fixture *f, icl_loop_window window, double outputs[MOST_LOOPS][64], icl_error *error) {
    icl_variable made[MOST_LOOPS];

    icl_tape_reset(f->tape);
    icl_model_record_loops(f->model, f->tape, f->parameters, f->gradient, f->inputs, window, made);
    ICL_CHECK(icl_tape_status(f->tape, error));
    for (size_t i = 0; i < window.count; i++)
        ICL_CHECK(icl_tensor_read_double(icl_tape_value(f->tape, made[i]), outputs[i], error));
    return ICL_OK;
}

/* The largest difference between outputs of the window and those of models with as many loops. */
static icl_status compare_outputs(icl_backend *backend, const char *overrides, icl_loop_window window, double *worst,
                                  double *moved, icl_error *error) {
    double seen[MOST_LOOPS][64], expected[64];
    const setting is = setting_of(overrides);
    char text[256];
    fixture f = {0};
    icl_status status = ICL_OK;

    *worst = *moved = 0;
    ICL_TRY(fixture_open(&f, backend, &is, error));
    ICL_TRY(read_window(&f, window, seen, error));
    for (size_t i = 0; i < window.count; i++) {
        const size_t loops = window.loops - window.count + 1 + i;
        setting other = is;
        snprintf(text, sizeof text, "%s loops=%zu", overrides, loops);
        other.overrides = text;
        ICL_TRY(outputs_of(backend, &other, expected, error));
        *worst = fmax(*worst, distance(seen[i], expected, f.outputs));
        *moved = fmax(*moved, i > 0 ? distance(seen[i], seen[i - 1], f.outputs) : 0);
    }
done:
    fixture_close(&f);
    return status;
}

static void check_outputs(tap_run *tap, icl_backend *backend, const char *overrides, icl_loop_window window) {
    double worst = HUGE_VAL, moved = 0;
    icl_error error = {0};
    const icl_status status = compare_outputs(backend, overrides, window, &worst, &moved, &error);

    if (status != ICL_OK)
        tap_note("%s", error.message);
    tap_ok(tap, status == ICL_OK && worst == 0 && (window.count == 1 || moved > 1e-3),
           "%s: the last %zu of %zu loops, %.2g from models with so many; a loop moves by up to %.2g", overrides,
           window.count, window.loops, worst, moved);
}

/* ---- Losses and their gradients ---- */

/* The mean of (output - target)^2, with targets that are noise. */
static icl_variable loss_of(const fixture *f, icl_variable outputs, icl_tensor targets) {
    const icl_variable miss = icl_tape_binary(f->tape, ICL_SUBTRACT, outputs, icl_tape_constant(f->tape, targets));
    return icl_tape_reduce(f->tape, ICL_MEAN, 7, icl_tape_unary(f->tape, ICL_SQUARE, miss));
}

static icl_status make_targets(const fixture *f, const setting *is, icl_tensor *targets, icl_error *error) {
    double values[64];

    ICL_CHECK(
        icl_tensor_create(f->backend, 3, (size_t[]){is->batch, is->shape.scored, is->shape.outputs}, targets, error));
    for (size_t i = 0; i < f->outputs; i++)
        values[i] = (double)noise(5, i);
    return icl_tensor_write_double(*targets, values, error);
}

/* The mean over the window. */
static icl_variable record_window(const fixture *f, icl_loop_window window, icl_tensor targets) {
    icl_variable made[MOST_LOOPS], sum = {-1};

    icl_tape_reset(f->tape);
    icl_model_record_loops(f->model, f->tape, f->parameters, f->gradient, f->inputs, window, made);
    for (size_t i = 0; i < window.count; i++) {
        const icl_variable loss = loss_of(f, made[i], targets);
        sum = i == 0 ? loss : icl_tape_binary(f->tape, ICL_ADD, sum, loss);
    }
    return icl_tape_scale(f->tape, 1 / (double)window.count, sum);
}

static icl_status window_gradient(fixture *f, icl_loop_window window, icl_tensor targets, double *gradient,
                                  icl_error *error) {
    ICL_CHECK(icl_tape_backward(f->tape, record_window(f, window, targets), error));
    return icl_tensor_read_double(f->gradient, gradient, error);
}

static icl_status differences(fixture *f, icl_loop_window window, icl_tensor targets, double *gradient,
                              icl_error *error) {
    const double h = 1e-5;
    static double point[MOST_NUMBERS];
    double loss[2];

    ICL_CHECK(icl_tensor_read_double(f->parameters, point, error));
    for (size_t i = 0; i < icl_model_size(f->model); i++) {
        const double value = point[i];
        for (int side = 0; side < 2; side++) {
            point[i] = value + (side ? h : -h);
            ICL_CHECK(icl_tensor_write_double(f->parameters, point, error));
            const icl_variable seen = record_window(f, window, targets);
            ICL_CHECK(icl_tape_status(f->tape, error));
            ICL_CHECK(icl_tensor_read_double(icl_tape_value(f->tape, seen), &loss[side], error));
        }
        point[i] = value;
        gradient[i] = (loss[1] - loss[0]) / (2 * h);
    }
    return ICL_OK;
}

/* ---- Untied stacks ---- */

/* The parameter of the looped model that stands for this one of a stack, and whether its block is in the window. */
static const icl_parameter_info *looped_parameter(const icl_model *looped, const icl_parameter_info *of, size_t outside,
                                                  bool *is_inside) {
    const char *name = of->name;
    char text[64], *rest;

    *is_inside = strncmp(name, "embedding", 9) != 0 && strncmp(name, "positions", 9) != 0;
    if (strncmp(name, "block.", 6) == 0) {
        *is_inside = strtoul(name + 6, &rest, 10) >= outside;
        snprintf(text, sizeof text, "block.0%s", rest);
        name = text;
    }
    for (size_t i = 0; i < icl_model_parameter_count(looped); i++)
        if (strcmp(icl_model_parameter(looped, i)->name, name) == 0)
            return icl_model_parameter(looped, i);
    return NULL;
}

/* Adds a share of the gradient of the loss of a stack of `layers` blocks, all but its first `outside`. */
static icl_status add_stack(const fixture *looped, const setting *is, const char *overrides, size_t layers,
                            size_t outside, double share, icl_tensor targets, double *gradient, icl_error *error) {
    static double own[MOST_NUMBERS];
    setting stack = *is;
    char text[256];
    fixture f = {0};
    bool is_inside;
    icl_status status = ICL_OK;

    snprintf(text, sizeof text, "%s layers=%zu", overrides, layers);
    stack.overrides = text;
    ICL_TRY(fixture_open(&f, looped->backend, &stack, error));
    for (size_t i = 0; i < icl_model_parameter_count(f.model); i++) {
        const icl_parameter_info *to = icl_model_parameter(f.model, i);
        const icl_parameter_info *from = looped_parameter(looped->model, to, outside, &is_inside);
        ICL_TRY(icl_copy(f.backend, icl_tensor_slice(f.parameters, 0, to->offset, to->count),
                         icl_tensor_slice(looped->parameters, 0, from->offset, from->count), error));
    }
    ICL_TRY(icl_tape_backward(f.tape, loss_of(&f, record(&f), targets), error));
    ICL_TRY(icl_tensor_read_double(f.gradient, own, error));
    for (size_t i = 0; i < icl_model_parameter_count(f.model); i++) {
        const icl_parameter_info *to = icl_model_parameter(f.model, i);
        const icl_parameter_info *from = looped_parameter(looped->model, to, outside, &is_inside);
        for (size_t k = 0; is_inside && k < from->count; k++)
            gradient[from->offset + k] += share * own[to->offset + k];
    }
done:
    fixture_close(&f);
    return status;
}

/* overrides: of one block without injection. */
static icl_status stack_gradient(const fixture *looped, const setting *is, const char *overrides,
                                 icl_loop_window window, icl_tensor targets, double *gradient, icl_error *error) {
    const size_t outside = window.loops - window.count;

    for (size_t i = 0; i < icl_model_size(looped->model); i++)
        gradient[i] = 0;
    for (size_t layers = outside + 1; layers <= window.loops; layers++)
        ICL_CHECK(
            add_stack(looped, is, overrides, layers, outside, 1 / (double)window.count, targets, gradient, error));
    return ICL_OK;
}

static void check_gradient(tap_run *tap, icl_backend *backend, const char *overrides, icl_loop_window window) {
    static double seen[MOST_NUMBERS], expected[MOST_NUMBERS];
    const bool is_whole = window.count == window.loops;
    char text[256];
    setting is = setting_of(overrides);
    icl_tensor targets = {0};
    fixture f = {0};
    icl_error error = {0};
    icl_status status = ICL_OK;

    snprintf(text, sizeof text, "%s%s", overrides, is_whole ? "" : " layers=1 injection=false");
    is.overrides = text;
    ICL_TRY(fixture_open(&f, backend, &is, &error));
    ICL_TRY(make_targets(&f, &is, &targets, &error));
    ICL_TRY(window_gradient(&f, window, targets, seen, &error));
    ICL_TRY(is_whole ? differences(&f, window, targets, expected, &error)
                     : stack_gradient(&f, &is, overrides, window, targets, expected, &error));
done:
    if (status != ICL_OK)
        tap_note("%s", error.message);
    const size_t size = f.model ? icl_model_size(f.model) : 0;
    const double largest = largest_of(expected, size), worst = distance(seen, expected, size);
    tap_ok(tap, status == ICL_OK && largest > .1 && worst <= (is_whole ? 1e-6 : 1e-12) * largest,
           "%s: gradient of the last %zu of %zu loops, %.2g from %s of %.3g", overrides, window.count, window.loops,
           worst, is_whole ? "differences" : "untied stacks", largest);
    icl_tensor_release(&targets);
    fixture_close(&f);
}

static void check_refusal(tap_run *tap, icl_backend *backend, icl_loop_window window) {
    const setting is = setting_of("mixer=softmax");
    icl_variable made[MOST_LOOPS];
    icl_error error = {0};
    fixture f = {0};
    icl_status status = fixture_open(&f, backend, &is, &error);

    if (status == ICL_OK) {
        icl_model_record_loops(f.model, f.tape, f.parameters, f.gradient, f.inputs, window, made);
        status = icl_tape_status(f.tape, &error);
    }
    tap_ok(tap, status == ICL_ERROR_INPUT && strstr(error.message, "from 1 to all of them"), "%s", error.message);
    fixture_close(&f);
}

int main(void) {
    static const char *const settings[] = {"mixer=softmax", "mixer=softmax norm=layer loop_norm=true injection=false",
                                           "mixer=delta readout=pooled loop_norm=true", "mixer=softmax readout=last"};
    tap_run tap = {0};
    icl_backend *ref = tap_open_device(&tap, "ref");

    for (size_t i = 0; ref && i < sizeof settings / sizeof *settings; i++) {
        check_outputs(&tap, ref, settings[i], (icl_loop_window){3, 3});
        check_outputs(&tap, ref, settings[i], (icl_loop_window){5, 2});
    }
    if (ref) {
        check_outputs(&tap, ref, settings[0], (icl_loop_window){4, 1});
        check_gradient(&tap, ref, "mixer=softmax layers=1", (icl_loop_window){3, 3});
        check_gradient(&tap, ref, "mixer=softmax layers=1 norm=layer loop_norm=true", (icl_loop_window){3, 3});
        check_gradient(&tap, ref, "mixer=softmax positions=learned", (icl_loop_window){4, 2});
        check_gradient(&tap, ref, "mixer=delta norm_place=after", (icl_loop_window){3, 1});
        check_refusal(&tap, ref, (icl_loop_window){2, 0});
        check_refusal(&tap, ref, (icl_loop_window){2, 3});
    }
    icl_backend_close(&ref);
    return tap_done(&tap);
}
