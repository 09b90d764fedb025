/* Validation of a call by its op's row (op_table.h). */
#include "backend/call.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/ops.h"
#include "iclab/status.h"

/* ---- Single tensors ---- */

void icl_shape_text(const icl_tensor *tensor, char text[ICL_SHAPE_TEXT]) {
    size_t used = 1;
    strcpy(text, "[");
    for (int axis = 0; axis < tensor->rank; axis++)
        used += (size_t)snprintf(text + used, ICL_SHAPE_TEXT - used, "%s%zu", axis ? ", " : "", tensor->shape[axis]);
    snprintf(text + used, ICL_SHAPE_TEXT - used, "]");
}

static bool is_empty(const icl_tensor *tensor) {
    for (int axis = 0; axis < tensor->rank; axis++)
        if (tensor->shape[axis] == 0)
            return true;
    return false;
}

/* Sets *last to the index of the view's last element relative to its offset; returns false on overflow. The view is not
 * empty. */
static bool extent(const icl_tensor *tensor, size_t *last) {
    *last = 0;
    for (int axis = 0; axis < tensor->rank; axis++) {
        size_t span;
        if (!icl_multiply_sizes(tensor->shape[axis] - 1, tensor->stride[axis], &span) || *last > SIZE_MAX - span)
            return false;
        *last += span;
    }
    return true;
}

icl_status icl_check_input(icl_backend *backend, const char *op, const char *role, const icl_tensor *in,
                           icl_error *error) {
    char text[ICL_SHAPE_TEXT];
    size_t last;

    if (!in->buffer)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %s is no tensor", op, role);
    if (in->buffer->backend != backend && in->buffer->backend != backend->parent)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %s belongs to another backend than %s", op, role,
                        backend->capabilities.spec);
    if (in->rank < 0 || in->rank > ICL_MAX_RANK)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %s has rank %d, expected 0..%d", op, role, in->rank, ICL_MAX_RANK);
    if (is_empty(in))
        return ICL_OK;
    if (!extent(in, &last) || in->offset >= in->buffer->elements || last >= in->buffer->elements - in->offset) {
        icl_shape_text(in, text);
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %s %s reaches past its buffer of %zu elements", op, role, text,
                        in->buffer->elements);
    }
    return ICL_OK;
}

/* Returns whether no two indices of a non-empty view name one element, judged by its strides: along each axis the
 * stride must be larger than the reach of all axes with smaller strides. Some views without repeats fail this, too. */
static bool strides_nest(const icl_tensor *tensor) {
    bool is_taken[ICL_MAX_RANK] = {false};
    size_t reach = 0;
    int axis = tensor->rank - 1;

    for (; axis >= 0 && (tensor->shape[axis] == 1 || tensor->stride[axis] > reach); axis--)
        reach += (tensor->shape[axis] - 1) * tensor->stride[axis];
    if (axis < 0) /* they nest from the last axis to the first, as in most views */
        return true;
    reach = 0;
    for (int turn = 0; turn < tensor->rank; turn++) {
        int least = -1;
        for (axis = 0; axis < tensor->rank; axis++)
            if (!is_taken[axis] && (least < 0 || tensor->stride[axis] < tensor->stride[least]))
                least = axis;
        is_taken[least] = true;
        if (tensor->shape[least] > 1 && tensor->stride[least] <= reach)
            return false;
        reach += (tensor->shape[least] - 1) * tensor->stride[least];
    }
    return true;
}

icl_status icl_check_output(icl_backend *backend, const char *op, const char *role, const icl_tensor *out,
                            icl_error *error) {
    char text[ICL_SHAPE_TEXT];
    icl_status status = icl_check_input(backend, op, role, out, error);

    if (status == ICL_OK && is_empty(out)) /* nothing is written, so nothing is written twice */
        return ICL_OK;
    for (int axis = 0; status == ICL_OK && axis < out->rank; axis++)
        if (out->shape[axis] > 1 && out->stride[axis] == 0) {
            icl_shape_text(out, text);
            return icl_fail(error, ICL_ERROR_INPUT, "%s: %s %s repeats elements along axis %d", op, role, text, axis);
        }
    if (status == ICL_OK && !strides_nest(out)) {
        icl_shape_text(out, text);
        status = icl_fail(error, ICL_ERROR_INPUT,
                          "%s: %s %s overlaps itself: expected strides that are each larger than the reach of the "
                          "smaller ones",
                          op, role, text);
    }
    return status;
}

icl_status icl_check_shape(const char *op, const char *role, const icl_tensor *tensor, int rank, const size_t *shape,
                           icl_error *error) {
    icl_tensor wanted = {.rank = rank};
    char got_text[ICL_SHAPE_TEXT], wanted_text[ICL_SHAPE_TEXT];

    memcpy(wanted.shape, shape, (size_t)rank * sizeof *shape);
    if (tensor->rank == rank && memcmp(tensor->shape, shape, (size_t)rank * sizeof *shape) == 0)
        return ICL_OK;
    icl_shape_text(tensor, got_text);
    icl_shape_text(&wanted, wanted_text);
    return icl_fail(error, ICL_ERROR_INPUT, "%s: %s has shape %s, expected %s", op, role, got_text, wanted_text);
}

/* ---- Overlap ---- */

static bool same_view_of_buffer(const icl_tensor *a, const icl_tensor *b) {
    bool same = a->offset == b->offset && a->rank == b->rank;
    for (int axis = 0; same && axis < a->rank; axis++)
        same = a->shape[axis] == b->shape[axis] && (a->stride[axis] == b->stride[axis] || a->shape[axis] == 1);
    return same;
}

/* Writes the distinct strides of both views' axes of extent above 1, largest first. Returns how many there are. */
static int merge_strides(const icl_tensor *a, const icl_tensor *b, size_t strides[2 * ICL_MAX_RANK]) {
    const icl_tensor *views[2] = {a, b};
    int count = 0;
    for (int v = 0; v < 2; v++)
        for (int axis = 0; axis < views[v]->rank; axis++) {
            const size_t stride = views[v]->stride[axis];
            int at = 0;
            if (views[v]->shape[axis] <= 1 || stride == 0)
                continue;
            while (at < count && strides[at] > stride)
                at++;
            if (at < count && strides[at] == stride)
                continue;
            memmove(strides + at + 1, strides + at, (size_t)(count - at) * sizeof *strides);
            strides[at] = stride;
            count++;
        }
    return count;
}

/* Writes the view as a box on the grid of strides: element indices are sum_k c_k strides[k] + rest with start[k] <= c_k
 * <= stop[k]. Returns false if the view is no such box, because the c_k of smaller strides can carry into a larger one:
 * then the digits of an index are not unique. */
static bool box_on_grid(const icl_tensor *view, const size_t *strides, int count, size_t *start, size_t *stop,
                        size_t *rest) {
    size_t left = view->offset, below = 0;
    assert(count >= 0 && count <= 2 * ICL_MAX_RANK);
    for (int k = 0; k < count; k++) {
        start[k] = stop[k] = left / strides[k];
        left %= strides[k];
        for (int axis = 0; axis < view->rank; axis++)
            if (view->shape[axis] > 1 && view->stride[axis] == strides[k])
                stop[k] += view->shape[axis] - 1;
    }
    *rest = left;
    below = left;
    for (int k = count - 1; k >= 0; k--) {
        if (below >= strides[k])
            return false;
        below += stop[k] * strides[k];
    }
    return true;
}

/* Returns whether two non-empty views of one buffer can share an element. Exact for slices of a common parent; true if
 * it cannot tell. */
static bool may_overlap(const icl_tensor *a, const icl_tensor *b) {
    size_t strides[2 * ICL_MAX_RANK], a_start[2 * ICL_MAX_RANK], a_stop[2 * ICL_MAX_RANK];
    size_t b_start[2 * ICL_MAX_RANK], b_stop[2 * ICL_MAX_RANK], a_rest, b_rest, a_last, b_last;

    if (!extent(a, &a_last) || !extent(b, &b_last))
        return true;
    if (a->offset + a_last < b->offset || b->offset + b_last < a->offset)
        return false;
    const int count = merge_strides(a, b, strides);
    if (!box_on_grid(a, strides, count, a_start, a_stop, &a_rest) ||
        !box_on_grid(b, strides, count, b_start, b_stop, &b_rest))
        return true;
    bool overlap = a_rest == b_rest;
    for (int k = 0; k < count; k++)
        overlap = overlap && a_start[k] <= b_stop[k] && b_start[k] <= a_stop[k];
    return overlap;
}

icl_status icl_check_overlap(const char *op, const icl_tensor *out, const icl_tensor *in, bool same_view,
                             icl_error *error) {
    if (!in->buffer || in->buffer != out->buffer || is_empty(in) || is_empty(out))
        return ICL_OK;
    if ((same_view && same_view_of_buffer(out, in)) || !may_overlap(out, in))
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT, "%s: an output overlaps another operand in memory", op);
}

/* ---- Shapes by their characters ---- */

static bool is_several(char letter) {
    return letter == '*' || letter == '+';
}

void icl_call_set(icl_call *call, char letter, size_t extent) {
    icl_extents *extents = &call->extents;
    assert(extents->count < ICL_MOST_LETTERS);
    extents->letter[extents->count] = letter;
    extents->extent[extents->count++] = extent;
}

/* Finds the extent of a digit or a letter; returns false if the letter has none yet. */
static bool find_extent(const icl_call *call, char axis, size_t *extent) {
    const icl_extents *extents = &call->extents;

    *extent = (size_t)(axis - '0');
    if (axis <= '9')
        return true;
    for (int i = 0; i < extents->count; i++)
        if (extents->letter[i] == axis) {
            *extent = extents->extent[i];
            return true;
        }
    return false;
}

/* Returns the rank that the shape asks for. The first operand with "*" or "+" fixes its extents. */
static int find_rank(icl_call *call, const char *shape, const icl_tensor *tensor) {
    int length = 0;
    bool has_several = false;

    for (; shape[length] != '\0'; length++)
        has_several = has_several || is_several(shape[length]);
    if (!has_several)
        return length;

    const int own = tensor->rank - (length - 1);
    int rank = length;
    for (int i = 0; i < length; i++) {
        icl_several *several = &call->extents.several[shape[i] == '+'];
        if (!is_several(shape[i]))
            continue;
        if (!several->is_known) {
            several->is_known = true;
            several->rank = own > 0 ? own : 0;
            for (int k = 0; k < own; k++)
                several->shape[k] = tensor->shape[i + k];
        }
        rank += several->rank - 1;
    }
    return rank;
}

/* Writes the expected shape, such as "[4, 7, d]" where d is free. */
static icl_status refuse_shape(const icl_call *call, const icl_operand *operand, const icl_tensor *tensor,
                               icl_error *error) {
    char own[ICL_SHAPE_TEXT], expected[ICL_SHAPE_TEXT] = "[";
    const char *comma = "";
    size_t used = 1, extent;

    for (const char *axis = operand->shape; *axis; axis++) {
        const icl_several *several = &call->extents.several[*axis == '+'];
        for (int k = 0; is_several(*axis) && k < several->rank; k++, comma = ", ")
            used += (size_t)snprintf(expected + used, sizeof expected - used, "%s%zu", comma, several->shape[k]);
        if (is_several(*axis))
            continue;
        used += find_extent(call, *axis, &extent)
                    ? (size_t)snprintf(expected + used, sizeof expected - used, "%s%zu", comma, extent)
                    : (size_t)snprintf(expected + used, sizeof expected - used, "%s%c", comma, *axis);
        comma = ", ";
    }
    snprintf(expected + used, sizeof expected - used, "]");
    icl_shape_text(tensor, own);
    if (operand->flags & ICL_REPEATS)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %s %s does not broadcast to %s", call->name, operand->name, own,
                        expected);
    return icl_fail(error, ICL_ERROR_INPUT, "%s: %s has shape %s, expected %s", call->name, operand->name, own,
                    expected);
}

/* Sets an axis of the view, whose rank exceeds the tensor's by `more`. Returns false if the extents do not fit. */
static bool view_axis(icl_tensor *view, int axis, size_t extent, const icl_tensor *tensor, int more, bool may_repeat) {
    const size_t own = axis < more ? 1 : tensor->shape[axis - more];

    view->shape[axis] = extent;
    view->stride[axis] = own == 1 ? 0 : tensor->stride[axis - more];
    return (own == extent && axis >= more) || (own == 1 && may_repeat);
}

/* Compares a tensor with its shape in the row; letters without an extent take the tensor's. If its axes may repeat, the
 * tensor becomes a view of the full shape: axes align at the end, and missing axes and those of extent 1 repeat with
 * stride 0. */
static icl_status match_shape(icl_call *call, const icl_operand *operand, icl_tensor *tensor, icl_error *error) {
    const bool repeats = operand->flags & ICL_REPEATS;
    const int rank = find_rank(call, operand->shape, tensor), more = rank - tensor->rank;
    icl_tensor view = {.buffer = tensor->buffer, .offset = tensor->offset, .rank = rank};
    bool fits = rank <= ICL_MAX_RANK && (repeats ? more >= 0 : more == 0);
    int at = 0;

    for (const char *axis = operand->shape; fits && *axis; axis++) {
        const icl_several *several = &call->extents.several[*axis == '+'];
        size_t extent;
        for (int k = 0; is_several(*axis) && fits && k < several->rank; k++)
            fits = view_axis(&view, at++, several->shape[k], tensor, more, repeats);
        if (is_several(*axis))
            continue;
        if (!find_extent(call, *axis, &extent)) {
            extent = at < more ? 1 : tensor->shape[at - more];
            icl_call_set(call, *axis, extent);
        }
        fits = view_axis(&view, at++, extent, tensor, more, repeats && *axis < 'a');
    }
    if (!fits)
        return refuse_shape(call, operand, tensor, error);
    if (repeats)
        *tensor = view;
    return ICL_OK;
}

/* ---- Calls ---- */

static icl_status validate_operand(icl_call *call, int index, icl_error *error) {
    const icl_op_info *info = &icl_op_infos[call->op];
    const icl_operand *operand = &info->operands[index];
    icl_tensor *tensor = &call->operands[index];

    if (!tensor->buffer && operand->flags & ICL_OPTIONAL && !(call->required >> index & 1))
        return ICL_OK;
    ICL_CHECK(index < info->outputs ? icl_check_output(call->backend, call->name, operand->name, tensor, error)
                                    : icl_check_input(call->backend, call->name, operand->name, tensor, error));
    return operand->shape ? match_shape(call, operand, tensor, error) : ICL_OK;
}

/* Validates the inputs that may repeat, or with 0 those that may not. */
static icl_status validate_inputs(icl_call *call, unsigned repeats, icl_error *error) {
    const icl_op_info *info = &icl_op_infos[call->op];

    for (int i = info->outputs; i < info->outputs + info->inputs; i++)
        if ((info->operands[i].flags & ICL_REPEATS) == repeats)
            ICL_CHECK(validate_operand(call, i, error));
    return ICL_OK;
}

icl_status icl_call_validate(icl_call *call, icl_error *error) {
    const icl_op_info *info = &icl_op_infos[call->op];
    const int count = info->outputs + info->inputs;

    assert(!call->params == (info->params == 0));
    call->name = call->name ? call->name : info->name;
    /* Inputs that may repeat come last: the others and the outputs fix the extents along which they do. */
    ICL_CHECK(validate_inputs(call, 0, error));
    for (int i = 0; i < info->outputs; i++)
        ICL_CHECK(validate_operand(call, i, error));
    ICL_CHECK(validate_inputs(call, ICL_REPEATS, error));
    for (int i = 1; i < count; i++)
        for (int out = 0; out < i && out < info->outputs; out++)
            ICL_CHECK(icl_check_overlap(call->name, &call->operands[out], &call->operands[i],
                                        out == 0 && info->operands[i].flags & ICL_IN_PLACE, error));
    return ICL_OK;
}

/* Returns whether the op sums over an empty axis. */
static bool lacks_terms(const icl_call *call) {
    const char *terms = icl_op_infos[call->op].terms;
    const icl_extents *extents = &call->extents;

    for (int i = 0; i < extents->count; i++)
        if (extents->extent[i] == 0 && strchr(terms, extents->letter[i]))
            return true;
    for (int axis = 0; *terms == '*' && axis < extents->several[0].rank; axis++)
        if (extents->several[0].shape[axis] == 0)
            return true;
    return false;
}

icl_status icl_call_run(const icl_call *call, icl_error *error) {
    const int outputs = icl_op_infos[call->op].outputs;
    const double zero = 0;
    bool writes = false;

    for (int i = 0; i < outputs; i++)
        writes = writes || (call->operands[i].buffer && !is_empty(&call->operands[i]));
    if (!writes)
        return ICL_OK;
    if (!lacks_terms(call))
        return icl_dispatch(call->backend, call->op, call->params, call->operands, error);
    for (int i = 0; i < outputs; i++)
        if (call->operands[i].buffer && !is_empty(&call->operands[i]))
            ICL_CHECK(icl_dispatch(call->backend, ICL_OP_fill, &zero, &call->operands[i], error));
    return ICL_OK;
}

icl_status icl_call_op(icl_call *call, icl_error *error) {
    ICL_CHECK(icl_call_validate(call, error));
    return icl_call_run(call, error);
}
