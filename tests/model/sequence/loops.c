/*
 * Outputs after several loops of a sequence model, and their gradients.
 *
 * Outputs after loop l are those of a model with l loops. Gradients through a window of all loops are compared with
 * central differences. If the window begins later, they are compared with those of untied stacks: without injection b
 * loops of a block are b blocks with its parameters, and the block's gradient is the sum over the blocks in the window.
 */
#include <stdlib.h>

#include "fixture.h"

enum { BATCH = 2, MOST_LOOPS = 6 };

/* ---- Outputs ---- */

static void read_window(fixture *f, icl_loop_window window, double outputs[MOST_LOOPS][64]) {
    icl_variable made[MOST_LOOPS];

    icl_tape_reset(f->tape);
    icl_model_record_loops(f->model, f->tape, f->parameters, f->gradient, f->inputs, window, made);
    tap_need(icl_tape_status(f->tape, tap_error()));
    for (size_t i = 0; i < window.count; i++)
        tap_need(icl_tensor_read_double(icl_tape_value(f->tape, made[i]), outputs[i], tap_error()));
}

/* Finds the largest difference between outputs of the window and those of models with as many loops. */
static void compare_outputs(icl_backend *backend, const char *overrides, icl_loop_window window, double *worst,
                            double *moved) {
    double seen[MOST_LOOPS][64], expected[64];
    const setting is = setting_of(overrides, BATCH);
    char text[256];
    fixture f = {0};

    *worst = *moved = 0;
    fixture_open(&f, backend, &is);
    read_window(&f, window, seen);
    for (size_t i = 0; i < window.count; i++) {
        const size_t loops = window.loops - window.count + 1 + i;
        setting other = is;
        snprintf(text, sizeof text, "%s loops=%zu", overrides, loops);
        other.overrides = text;
        outputs_of(backend, &other, expected);
        *worst = fmax(*worst, distance(seen[i], expected, f.outputs));
        *moved = fmax(*moved, i > 0 ? distance(seen[i], seen[i - 1], f.outputs) : 0);
    }
    fixture_close(&f);
}

static void check_outputs(tap_run *tap, icl_backend *backend, const char *overrides, icl_loop_window window) {
    double worst = HUGE_VAL, moved = 0;

    compare_outputs(backend, overrides, window, &worst, &moved);

    tap_ok(tap, worst == 0 && (window.count == 1 || moved > 1e-3),
           "%s: the last %zu of %zu loops, %.2g from models with so many; a loop moves by up to %.2g", overrides,
           window.count, window.loops, worst, moved);
}

/* ---- Losses and their gradients ---- */

/* Records the mean loss over the window. */
static icl_variable record_window(fixture *f, icl_tensor targets, const void *how) {
    const icl_loop_window *window = how;
    icl_variable made[MOST_LOOPS], sum = {-1};

    icl_tape_reset(f->tape);
    icl_model_record_loops(f->model, f->tape, f->parameters, f->gradient, f->inputs, *window, made);
    for (size_t i = 0; i < window->count; i++) {
        const icl_variable loss = loss_of(f, made[i], targets);
        sum = i == 0 ? loss : icl_tape_binary(f->tape, ICL_ADD, sum, loss);
    }
    return icl_tape_scale(f->tape, 1 / (double)window->count, sum);
}

/* ---- Untied stacks ---- */

/* Returns the parameter of the looped model that corresponds to this one of a stack, and whether its block is in the
 * window. */
static const icl_parameter_info *looped_parameter(const icl_model *looped, const icl_parameter_info *info,
                                                  size_t outside, bool *is_inside) {
    const char *name = info->name;
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

/* Adds `share` times the gradient of the loss of a stack of `layers` blocks, without its first `outside` blocks. */
static void add_stack(const fixture *looped, const setting *config, const char *overrides, size_t layers,
                      size_t outside, double share, icl_tensor targets, double *gradient) {
    static double own[MOST_NUMBERS];
    setting stack = *config;
    char text[256];
    fixture f = {0};
    bool is_inside;

    snprintf(text, sizeof text, "%s layers=%zu", overrides, layers);
    stack.overrides = text;
    fixture_open(&f, looped->backend, &stack);
    for (size_t i = 0; i < icl_model_parameter_count(f.model); i++) {
        const icl_parameter_info *to = icl_model_parameter(f.model, i);
        const icl_parameter_info *from = looped_parameter(looped->model, to, outside, &is_inside);
        tap_need(icl_copy(f.backend, icl_tensor_slice(f.parameters, 0, to->offset, to->count),
                          icl_tensor_slice(looped->parameters, 0, from->offset, from->count), tap_error()));
    }
    tap_need(icl_tape_backward(f.tape, loss_of(&f, record(&f), targets), tap_error()));
    tap_need(icl_tensor_read_double(f.gradient, own, tap_error()));
    for (size_t i = 0; i < icl_model_parameter_count(f.model); i++) {
        const icl_parameter_info *to = icl_model_parameter(f.model, i);
        const icl_parameter_info *from = looped_parameter(looped->model, to, outside, &is_inside);
        for (size_t k = 0; is_inside && k < from->count; k++)
            gradient[from->offset + k] += share * own[to->offset + k];
    }
    fixture_close(&f);
}

/* Computes the gradient over a window from untied stacks. overrides: for one block without injection. */
static void stack_gradient(const fixture *looped, const setting *config, const char *overrides, icl_loop_window window,
                           icl_tensor targets, double *gradient) {
    const size_t outside = window.loops - window.count;

    for (size_t i = 0; i < icl_model_size(looped->model); i++)
        gradient[i] = 0;
    for (size_t layers = outside + 1; layers <= window.loops; layers++)
        add_stack(looped, config, overrides, layers, outside, 1 / (double)window.count, targets, gradient);
}

static void check_gradient(tap_run *tap, icl_backend *backend, const char *overrides, icl_loop_window window) {
    static double seen[MOST_NUMBERS], expected[MOST_NUMBERS];
    const bool is_whole = window.count == window.loops;
    char text[256];
    setting is = setting_of(overrides, BATCH);
    fixture f;

    snprintf(text, sizeof text, "%s%s", overrides, is_whole ? "" : " layers=1 injection=false");
    is.overrides = text;
    fixture_open(&f, backend, &is);
    icl_tensor targets = make_targets(&f, &is);
    tap_need(icl_tape_backward(f.tape, record_window(&f, targets, &window), tap_error()));
    tap_need(icl_tensor_read_double(f.gradient, seen, tap_error()));
    if (is_whole)
        differentiate(&f, record_window, targets, &window, expected);
    else
        stack_gradient(&f, &is, overrides, window, targets, expected);
    const size_t size = icl_model_size(f.model);
    const double largest = largest_of(expected, size), worst = distance(seen, expected, size);
    tap_ok(tap, largest > .1 && worst <= (is_whole ? 1e-6 : 1e-12) * largest,
           "%s: gradient of the last %zu of %zu loops, %.2g from %s of %.3g", overrides, window.count, window.loops,
           worst, is_whole ? "differences" : "untied stacks", largest);
    icl_tensor_release(&targets);
    fixture_close(&f);
}

static void check_window_refusal(tap_run *tap, icl_backend *backend, icl_loop_window window) {
    const setting is = setting_of("mixer=softmax", BATCH);
    icl_variable made[MOST_LOOPS];
    icl_error error = {0};
    fixture f;

    fixture_open(&f, backend, &is);
    icl_model_record_loops(f.model, f.tape, f.parameters, f.gradient, f.inputs, window, made);
    tap_ok(tap, icl_tape_status(f.tape, &error) == ICL_ERROR_INPUT && strstr(error.message, "from 1 to all of them"),
           "%s", error.message);
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
        check_window_refusal(&tap, ref, (icl_loop_window){2, 0});
        check_window_refusal(&tap, ref, (icl_loop_window){2, 3});
    }
    icl_backend_close(&ref);
    return tap_done(&tap);
}
