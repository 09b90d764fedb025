/* Ops on sequences: look-up in a table, short convolutions, rotary positions, normalized rows, cross-entropy. */
#include "iclab/ops_sequence.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "tape/record.h"

/* ---- Look-up in a table ---- */

/* The table's gradient sums the gradients of the rows of each symbol; symbols have no gradient. */
enum { TABLE, SYMBOLS };

static icl_status look_up_forward(icl_tape *tape, icl_node *node, icl_error *error) {
    const icl_tensor table = icl_node_input(tape, node, TABLE), symbols = icl_node_input(tape, node, SYMBOLS);
    size_t shape[ICL_MAX_RANK];

    if (table.rank != 2 || symbols.rank >= ICL_MAX_RANK)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "tape: look-up of symbols of rank %d in a table of rank %d, expected at most %d, and 2",
                        symbols.rank, table.rank, ICL_MAX_RANK - 1);
    memcpy(shape, symbols.shape, sizeof shape);
    shape[symbols.rank] = table.shape[1];
    ICL_CHECK(icl_tape_output(tape, node, symbols.rank + 1, shape, error));
    return icl_look_up(tape->backend, node->value, table, symbols, error);
}

static icl_status look_up_backward(icl_tape *tape, const icl_node *node, icl_tensor gradient, icl_error *error) {
    const icl_tensor table = icl_node_input(tape, node, TABLE);
    icl_contribution d = {0};
    icl_status status = ICL_OK;

    if (!icl_gradient_wanted(tape, node->inputs[TABLE]))
        return ICL_OK;
    ICL_TRY(icl_contribution_begin(tape, node->inputs[TABLE], 2, table.shape, &d, error));
    ICL_TRY(icl_look_up_backward(tape->backend, d.tensor, gradient, icl_node_input(tape, node, SYMBOLS), error));
    ICL_TRY(icl_contribution_end(tape, &d, error));
done:
    icl_contribution_drop(&d);
    return status;
}

static const icl_operation look_up_operation = {"look_up", look_up_forward, look_up_backward, NULL};

icl_variable icl_tape_look_up(icl_tape *tape, icl_variable table, icl_variable symbols) {
    return icl_tape_record(tape,
                           &(icl_node){.operation = &look_up_operation, .inputs = {table, symbols}, .input_count = 2});
}

/* ---- Short causal convolutions ---- */

enum { IN = 0, KERNEL };

static icl_status convolve_forward(icl_tape *tape, icl_node *node, icl_error *error) {
    const icl_tensor in = icl_node_input(tape, node, IN);

    if (in.rank != 3)
        return icl_fail(error, ICL_ERROR_INPUT, "tape: convolution of a tensor of rank %d, expected 3", in.rank);
    ICL_CHECK(icl_tape_output(tape, node, 3, in.shape, error));
    return icl_convolve(tape->backend, node->value, in, icl_node_input(tape, node, KERNEL), error);
}

static icl_status convolve_backward(icl_tape *tape, const icl_node *node, icl_tensor gradient, icl_error *error) {
    const icl_tensor in[2] = {icl_node_input(tape, node, IN), icl_node_input(tape, node, KERNEL)};
    icl_contribution d[2] = {{.temporary = false}, {.temporary = false}};
    icl_status status = ICL_OK;

    for (int i = 0; i < 2; i++)
        if (icl_gradient_wanted(tape, node->inputs[i]))
            ICL_TRY(icl_contribution_begin(tape, node->inputs[i], in[i].rank, in[i].shape, &d[i], error));
    ICL_TRY(icl_convolve_backward(tape->backend, d[IN].tensor, d[KERNEL].tensor, gradient, in[IN], in[KERNEL], error));
    for (int i = 0; i < 2; i++)
        if (d[i].tensor.buffer)
            ICL_TRY(icl_contribution_end(tape, &d[i], error));
done:
    for (int i = 0; i < 2; i++)
        icl_contribution_drop(&d[i]);
    return status;
}

static const icl_operation convolve_operation = {"convolve", convolve_forward, convolve_backward, NULL};

icl_variable icl_tape_convolve(icl_tape *tape, icl_variable in, icl_variable kernel) {
    return icl_tape_record(tape,
                           &(icl_node){.operation = &convolve_operation, .inputs = {in, kernel}, .input_count = 2});
}

/* ---- Rotary positions ---- */

/* Angles depend only on positions, so one table of cosines and sines serves every layer and step: the tape keeps the
 * tables that it made. The gradient is the rotation by the opposite angles. */

/* A table begins at a multiple of n and has 2 n positions. n is a power of two, at least this number and the count
 * asked for, so that any range of up to n positions that begins in the first half lies in the table. */
#define LEAST_POSITIONS 256

/* angles[t, i] = cosine and sine of (start + t) base^(-i / half), in double, rounded once. */
static icl_status write_angles(const icl_rotary_table *table, icl_error *error) {
    const size_t positions = table->angles.shape[0], half = table->angles.shape[1];
    double *values = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(positions * half * 2, sizeof *values, "rotary angles", &values, error));
    for (size_t t = 0; t < positions; t++)
        for (size_t i = 0; i < half; i++) {
            const double angle = (double)(table->start + t) * pow(table->base, -(double)i / (double)half);
            values[2 * (t * half + i)] = cos(angle);
            values[2 * (t * half + i) + 1] = sin(angle);
        }
    ICL_TRY(icl_tensor_write_double(table->angles, values, error));
done:
    icl_free(&values);
    return status;
}

static icl_status make_table(icl_tape *tape, double base, size_t half, size_t start, size_t positions,
                             icl_error *error) {
    icl_rotary_table *table = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(1, sizeof *table, "rotary angles", &table, error));
    *table = (icl_rotary_table){.base = base, .start = start, .next = tape->rotary};
    ICL_TRY(icl_tensor_create(tape->backend, 3, (const size_t[]){positions, half, 2}, &table->angles, error));
    ICL_TRY(write_angles(table, error));
    tape->rotary = table;
    table = NULL;
done:
    if (table)
        icl_tensor_release(&table->angles);
    icl_free(&table);
    return status;
}

static bool holds(const icl_rotary_table *table, double base, size_t half, size_t first, size_t count) {
    return table->base == base && table->angles.shape[1] == half && first >= table->start &&
           first - table->start <= table->angles.shape[0] && count <= table->angles.shape[0] - (first - table->start);
}

/* Returns the angles [count, half, 2] of the positions from `first` on: a view of one of the tape's tables. */
static icl_status find_angles(icl_tape *tape, double base, size_t first, size_t count, size_t half, icl_tensor *angles,
                              icl_error *error) {
    size_t positions = LEAST_POSITIONS;
    icl_rotary_table *table = tape->rotary;

    while (table && !holds(table, base, half, first, count))
        table = table->next;
    if (!table) {
        while (positions < count)
            positions *= 2;
        ICL_CHECK(make_table(tape, base, half, first / positions * positions, 2 * positions, error));
        table = tape->rotary;
    }
    *angles = icl_tensor_slice(table->angles, 0, first - table->start, count);
    return ICL_OK;
}

static icl_status rotate_forward(icl_tape *tape, icl_node *node, icl_error *error) {
    const icl_tensor in = icl_node_input(tape, node, 0);
    const double base = node->params.rotate.base;
    icl_tensor *angles = &node->params.rotate.angles;

    if (in.rank < 2 || in.shape[in.rank - 1] % 2 != 0)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "tape: rotation of rows of %zu in a tensor of rank %d, expected an even number, rank 2 or more",
                        in.rank > 0 ? in.shape[in.rank - 1] : 1, in.rank);
    if (!(base > 0 && isfinite(base)))
        return icl_fail(error, ICL_ERROR_INPUT, "tape: rotation with base %g, expected a number above 0", base);
    ICL_CHECK(icl_tape_output(tape, node, in.rank, in.shape, error));
    if (icl_tensor_count(&in) == 0)
        return ICL_OK;
    ICL_CHECK(find_angles(tape, base, node->params.rotate.first, in.shape[in.rank - 2], in.shape[in.rank - 1] / 2,
                          angles, error));
    return icl_rotate(tape->backend, false, node->value, in, *angles, error);
}

static icl_status rotate_backward(icl_tape *tape, const icl_node *node, icl_tensor gradient, icl_error *error) {
    icl_contribution d = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_contribution_begin(tape, node->inputs[0], gradient.rank, gradient.shape, &d, error));
    if (icl_tensor_count(&gradient) > 0)
        ICL_TRY(icl_rotate(tape->backend, true, d.tensor, gradient, node->params.rotate.angles, error));
    ICL_TRY(icl_contribution_end(tape, &d, error));
done:
    icl_contribution_drop(&d);
    return status;
}

static const icl_operation rotate_operation = {"rotate", rotate_forward, rotate_backward, NULL};

icl_variable icl_tape_rotate(icl_tape *tape, icl_variable in, double base, size_t first_position) {
    icl_node node = {.operation = &rotate_operation, .inputs = {in}, .input_count = 1};
    node.params.rotate.base = base;
    node.params.rotate.first = first_position;
    return icl_tape_record(tape, &node);
}

/* ---- Rows that are normalized ---- */

/* The inputs are the rows, then gain and shift if present. */
enum { MOST_INPUTS = 3 };

/* Return the index of gain or shift among the inputs; 0: absent. */
static int gain_of(const icl_node *node) {
    return node->params.normalize.has_gain ? 1 : 0;
}

static int shift_of(const icl_node *node) {
    return node->params.normalize.has_shift ? 1 + gain_of(node) : 0;
}

static icl_tensor optional_input(const icl_tape *tape, const icl_node *node, int input) {
    return input > 0 ? icl_node_input(tape, node, input) : (icl_tensor){0};
}

static icl_status normalize_forward(icl_tape *tape, icl_node *node, icl_error *error) {
    const icl_tensor in = icl_node_input(tape, node, IN);

    ICL_CHECK(icl_tape_output(tape, node, in.rank, in.shape, error));
    return icl_normalize(tape->backend, &node->params.normalize.how, node->value, in,
                         optional_input(tape, node, gain_of(node)), optional_input(tape, node, shift_of(node)), error);
}

static icl_status normalize_backward(icl_tape *tape, const icl_node *node, icl_tensor gradient, icl_error *error) {
    icl_contribution d[MOST_INPUTS] = {{{0}, {0}, false}};
    icl_status status = ICL_OK;

    for (int i = 0; i < node->input_count; i++) {
        const icl_tensor input = icl_node_input(tape, node, i);
        if (i == IN || icl_gradient_wanted(tape, node->inputs[i]))
            ICL_TRY(icl_contribution_begin(tape, node->inputs[i], input.rank, input.shape, &d[i], error));
    }
    ICL_TRY(icl_normalize_backward(tape->backend, &node->params.normalize.how, d[IN].tensor,
                                   gain_of(node) ? d[gain_of(node)].tensor : (icl_tensor){0},
                                   shift_of(node) ? d[shift_of(node)].tensor : (icl_tensor){0}, gradient,
                                   icl_node_input(tape, node, IN), optional_input(tape, node, gain_of(node)), error));
    for (int i = 0; i < node->input_count; i++)
        if (d[i].tensor.buffer)
            ICL_TRY(icl_contribution_end(tape, &d[i], error));
done:
    for (int i = 0; i < MOST_INPUTS; i++)
        icl_contribution_drop(&d[i]);
    return status;
}

static const icl_operation normalize_operation = {"normalize", normalize_forward, normalize_backward, NULL};

icl_variable icl_tape_normalize(icl_tape *tape, const icl_normalize_params *params, icl_variable in,
                                const icl_variable *gain, const icl_variable *shift) {
    icl_node node = {.operation = &normalize_operation,
                     .inputs = {in},
                     .input_count = 1,
                     .params.normalize = {*params, gain != NULL, shift != NULL}};
    if (gain)
        node.inputs[node.input_count++] = *gain;
    if (shift)
        node.inputs[node.input_count++] = *shift;
    return icl_tape_record(tape, &node);
}

/* ---- Cross-entropy ---- */

/* Classes are indices into the logits; they have no gradient. */
enum { LOGITS = 0, CLASSES };

static icl_status cross_entropy_forward(icl_tape *tape, icl_node *node, icl_error *error) {
    const icl_tensor logits = icl_node_input(tape, node, LOGITS), classes = icl_node_input(tape, node, CLASSES);

    ICL_CHECK(icl_tape_output(tape, node, classes.rank, classes.shape, error));
    return icl_cross_entropy(tape->backend, node->value, logits, classes, error);
}

static icl_status cross_entropy_backward(icl_tape *tape, const icl_node *node, icl_tensor gradient, icl_error *error) {
    const icl_tensor logits = icl_node_input(tape, node, LOGITS), classes = icl_node_input(tape, node, CLASSES);
    icl_contribution d = {0};
    icl_status status = ICL_OK;

    if (!icl_gradient_wanted(tape, node->inputs[LOGITS]))
        return ICL_OK;
    ICL_TRY(icl_contribution_begin(tape, node->inputs[LOGITS], logits.rank, logits.shape, &d, error));
    ICL_TRY(icl_cross_entropy_backward(tape->backend, d.tensor, gradient, logits, classes, error));
    ICL_TRY(icl_contribution_end(tape, &d, error));
done:
    icl_contribution_drop(&d);
    return status;
}

static const icl_operation cross_entropy_operation = {"cross_entropy", cross_entropy_forward, cross_entropy_backward,
                                                      NULL};

icl_variable icl_tape_cross_entropy(icl_tape *tape, icl_variable logits, icl_variable classes) {
    return icl_tape_record(
        tape, &(icl_node){.operation = &cross_entropy_operation, .inputs = {logits, classes}, .input_count = 2});
}
