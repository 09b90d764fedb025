/*
 * Rotary positions. Their angles follow from positions alone, so that a table of cosines and sines serves every layer
 * and step: the tape keeps those that it made. The gradient is the rotation by the opposite angles.
 */
#include <math.h>

#include "core/allocate.h"
#include "iclab/ops_sequence.h"
#include "tape/record.h"

/* Positions of a table begin at a multiple of this or of a larger power of two, and are twice as many: whatever begins
 * in the first half and is no longer than it lies in the table. */
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

/* The angles [count, half, 2] of the positions from `first` on: a view of a table of the tape. */
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

static icl_status forward(icl_tape *tape, icl_node *node, icl_error *error) {
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

static icl_status backward(icl_tape *tape, const icl_node *node, icl_tensor gradient, icl_error *error) {
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

static const icl_operation rotate_operation = {"rotate", forward, backward, NULL};

icl_variable icl_tape_rotate(icl_tape *tape, icl_variable in, double base, size_t first_position) {
    icl_node node = {.operation = &rotate_operation, .inputs = {in}, .input_count = 1};
    node.params.rotate.base = base;
    node.params.rotate.first = first_position;
    return icl_tape_record(tape, &node);
}
