/* Every op refuses operands that its row in the table of ops does not allow: conformance cases are called with one
 * operand at a time made wrong. Which axes are free, and which parameters allow what, is repeated here independently of
 * the table. */
#include "conformance/case.h"
#include "core/allocate.h"
#include "tap.h"

enum { CASES_OF_AN_OP = 12, MOST_ELEMENTS = 3000, OFFSET = 3 };

/* The operands of a call. Each has its own buffer of `capacity` elements, and gaps on every axis. */
typedef struct call {
    const icl_case *c;
    const icl_op_info *info;
    icl_backend *backend;
    int count;
    size_t capacity;
    icl_tensor whole[ICL_MAX_OPERANDS], t[ICL_MAX_OPERANDS];
} call;

static size_t last_element(const icl_tensor *view) {
    size_t last = 0;
    for (int axis = 0; axis < view->rank; axis++)
        last += (view->shape[axis] - 1) * view->stride[axis];
    return last;
}

static void place(const icl_case *c, int operand, icl_tensor *view) {
    size_t stride = 1;

    *view = (icl_tensor){.rank = c->rank[operand], .offset = OFFSET};
    for (int axis = view->rank - 1; axis >= 0; axis--) {
        view->shape[axis] = c->shape[operand][axis];
        view->stride[axis] = stride;
        stride *= view->shape[axis] + 1;
    }
}

static icl_status open_call(call *request, const icl_case *c, icl_backend *backend, icl_error *error) {
    *request = (call){.c = c, .info = &icl_op_infos[c->op], .backend = backend};
    request->count = request->info->outputs + request->info->inputs;
    for (int i = 0; i < request->count; i++)
        if (c->rank[i] >= 0) {
            size_t extent = 4 * OFFSET;
            place(c, i, &request->t[i]);
            for (int axis = 0; axis < request->t[i].rank; axis++)
                extent += 2 * (request->t[i].shape[axis] + 1) * request->t[i].stride[axis];
            request->capacity = extent > request->capacity ? extent : request->capacity;
        }
    for (int i = 0; i < request->count; i++)
        if (c->rank[i] >= 0) {
            ICL_CHECK(icl_tensor_create(backend, 1, &request->capacity, &request->whole[i], error));
            ICL_CHECK(icl_fill(backend, request->whole[i], 0.5, error));
            request->t[i].buffer = request->whole[i].buffer;
        }
    return ICL_OK;
}

static void close_call(call *request) {
    for (int i = 0; i < request->count; i++)
        icl_tensor_release(&request->whole[i]);
}

/* Makes the call with another view as one of its operands. */
static icl_status call_with(const call *request, int operand, icl_tensor view, icl_error *error) {
    icl_tensor t[ICL_MAX_OPERANDS];
    memcpy(t, request->t, sizeof t);
    t[operand] = view;
    return icl_describe(request->c->op)->call(request->c, request->backend, t, error);
}

/* Checks that the call is refused, in one line that holds the words. */
static void refused(tap_run *tap, const call *request, int operand, icl_tensor view, const char *words,
                    const char *what) {
    icl_error error = {0};
    const icl_status status = call_with(request, operand, view, &error);
    const bool good = status == ICL_ERROR_INPUT && strstr(error.message, words) && !strchr(error.message, '\n');
    if (!good)
        tap_ok(tap, false, "%s: %s of %s is not refused with \"%s\": %s", request->c->name, what,
               request->info->operands[operand].name, words, error.message);
}

static void taken(tap_run *tap, const call *request, int operand, icl_tensor view, const char *what) {
    icl_error error = {0};
    if (call_with(request, operand, view, &error) != ICL_OK)
        tap_ok(tap, false, "%s: %s of %s is refused: %s", request->c->name, what, request->info->operands[operand].name,
               error.message);
}

/* ---- Shapes ---- */

#define NOTHING (-1)

/* Axes whose extent no other operand of the call depends on, except `tied_to` if it is present. */
static const struct {
    icl_op op;
    int operand, axis, tied_to;
} free_axes[] = {
    {ICL_OP_look_up, 1, 0, NOTHING},
    {ICL_OP_look_up_backward, 0, 0, NOTHING},
    {ICL_OP_convolve, 2, 0, NOTHING},
    {ICL_OP_convolve_backward, 4, 0, 1},
    {ICL_OP_gram_sample, 5, 0, NOTHING},
    {ICL_OP_track_threshold, 2, 0, NOTHING},
    {ICL_OP_update_step, 6, 0, 7},
    {ICL_OP_cross_entropy, 1, 1, NOTHING},
    {ICL_OP_linear_transformer_predict, 2, 1, NOTHING},
    {ICL_OP_linear_transformer_gradient, 4, 1, NOTHING},
};

static bool is_free(const call *request, int operand, int axis) {
    const icl_parameterization form = request->c->params.linear_transformer.parameterization;

    for (size_t i = 0; i < sizeof free_axes / sizeof *free_axes; i++)
        if (free_axes[i].op == request->c->op && free_axes[i].operand == operand && free_axes[i].axis == axis)
            return free_axes[i].tied_to == NOTHING || !request->t[free_axes[i].tied_to].buffer;
    switch (request->c->op) {
    case ICL_OP_fill:
    case ICL_OP_random_fill:
    case ICL_OP_random_distinct: /* these cases leave a number over */
        return true;
    case ICL_OP_categorical:
        return operand == 2 && axis == request->t[operand].rank - 1;
    case ICL_OP_take:
        return operand == 1 && axis == request->t[operand].rank - 1;
    case ICL_OP_put:
        return axis == request->t[operand].rank - 1 &&
               (operand == 0 || (operand == 2 && request->c->rank[1] == 1 && request->c->shape[1][0] == 1));
    case ICL_OP_reduce:
        return operand == 1 && request->c->params.reduce.axes >> axis & 1;
    case ICL_OP_linear_transformer_predict: /* diagonals have one length for any tokens */
        return operand == 2 && axis == 2 && (form == ICL_LINEAR_DIAG || form == ICL_LINEAR_GDPP);
    case ICL_OP_linear_transformer_gradient:
        return operand == 4 && axis == 2 && (form == ICL_LINEAR_DIAG || form == ICL_LINEAR_GDPP);
    default:
        return false;
    }
}

/* Returns whether an input that may repeat along axes of other operands does so. */
static bool has_repeats(const call *request) {
    bool repeats = false;
    for (int i = 0; i < request->count; i++)
        if (request->info->operands[i].flags & ICL_REPEATS && request->t[i].buffer) {
            repeats = repeats || request->t[i].rank < request->t[0].rank;
            for (int axis = 0; axis < request->t[i].rank; axis++)
                repeats = repeats || request->t[i].shape[axis] == 1;
        }
    return repeats;
}

/* Returns whether this input may repeat along the axis, where its extent is then 1. */
static bool may_repeat(const call *request, int operand, int axis) {
    const int forward = 4, backward = 13, decay = 4, state = 7; /* where a recurrence's inputs begin; two of them */
    const int input = operand - (request->c->op == ICL_OP_recurrence_forward ? forward : backward);

    switch (request->c->op) {
    case ICL_OP_copy:
    case ICL_OP_unary:
    case ICL_OP_binary:
    case ICL_OP_scale_add:
    case ICL_OP_random_gamma:
        return operand > 0;
    case ICL_OP_categorical:
        return operand == 2 && axis < request->t[operand].rank - 1;
    case ICL_OP_take:
        return operand == 1 && axis < request->t[operand].rank - 1;
    case ICL_OP_put:
        return operand == 1;
    case ICL_OP_matmul:
    case ICL_OP_matmul_strict:
        return operand > 0 && axis < request->t[operand].rank - 2;
    case ICL_OP_attention_forward:
        return operand >= 2 && axis == 0;
    case ICL_OP_recurrence_forward:
    case ICL_OP_recurrence_backward: /* one decay for all channels is another shape of its gradient, too */
        return input >= 0 &&
               (axis < (input == state ? 2 : 3) || (input == decay && request->c->op == ICL_OP_recurrence_forward));
    default:
        return false;
    }
}

/* Makes an axis 1 element long. An output is skipped if inputs may repeat along its axes. */
static void test_single(tap_run *tap, const call *request, bool passes_outputs) {
    for (int i = 0; i < request->count; i++)
        for (int axis = 0; axis < request->t[i].rank; axis++) {
            icl_tensor single = request->t[i];
            single.shape[axis] = 1;
            if (request->t[i].shape[axis] == 1 || is_free(request, i, axis))
                continue;
            if (may_repeat(request, i, axis))
                taken(tap, request, i, single, "an axis that repeats");
            else if (i >= request->info->outputs || !passes_outputs)
                refused(tap, request, i, single, ": ", "an axis of one element");
        }
}

/* Makes an axis one element longer. An axis that may repeat is skipped if its extent says that it does. */
static void test_extents(tap_run *tap, const call *request) {
    const bool passes_outputs = has_repeats(request);

    for (int i = 0; i < request->count; i++)
        for (int axis = 0; axis < request->t[i].rank; axis++) {
            icl_tensor longer = request->t[i];
            longer.shape[axis]++;
            if (is_free(request, i, axis))
                taken(tap, request, i, longer, "a longer axis");
            else if (request->info->operands[i].flags & ICL_REPEATS ? request->t[i].shape[axis] > 1
                                                                    : i >= request->info->outputs || !passes_outputs)
                refused(tap, request, i, longer, ": ", "a longer axis");
        }
    test_single(tap, request, passes_outputs);
}

/* ---- Views ---- */

static void test_views(tap_run *tap, const call *request, icl_tensor foreign) {
    for (int i = 0; i < request->count; i++) {
        icl_tensor view = request->t[i];
        if (!view.buffer)
            continue;
        view.offset = request->capacity - last_element(&view);
        refused(tap, request, i, view, "reaches past its buffer", "a view that ends an element too late");
        view.offset--;
        taken(tap, request, i, view, "a view up to its buffer's end");
        view.rank = ICL_MAX_RANK + 1;
        refused(tap, request, i, view, ": ", "a tensor of five axes");
        view = request->t[i];
        view.buffer = foreign.buffer;
        refused(tap, request, i, view, "belongs to another backend", "a tensor of another backend");
        if (!(request->info->operands[i].flags & ICL_OPTIONAL))
            refused(tap, request, i, (icl_tensor){0}, ": ", "no tensor instead");
    }
}

/* Refuses outputs whose strides name an element twice. */
static void test_outputs(tap_run *tap, const call *request) {
    for (int i = 0; i < request->info->outputs; i++)
        for (int axis = 0; axis < request->t[i].rank; axis++) {
            icl_tensor view = request->t[i];
            view.stride[axis] = 0;
            if (view.shape[axis] > 1)
                refused(tap, request, i, view, "repeats elements along axis", "a stride of 0");
            if (axis + 1 < view.rank && view.shape[axis] > 1 && view.shape[axis + 1] > 1) {
                view.stride[axis] = view.stride[axis + 1];
                refused(tap, request, i, view, "overlaps itself", "a repeated stride");
            }
        }
}

/* ---- Overlap ---- */

static bool has_same_shape(const icl_tensor *a, const icl_tensor *b) {
    return a->rank == b->rank && memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape) == 0;
}

/* Returns whether the op's first output may be written onto this operand. */
static bool may_write_in_place(icl_op op, int operand) {
    return op == ICL_OP_copy || op == ICL_OP_unary || op == ICL_OP_binary || op == ICL_OP_scale_add ||
           ((op == ICL_OP_spherical || op == ICL_OP_random_gamma || op == ICL_OP_cumulative_sum ||
             op == ICL_OP_categorical || op == ICL_OP_normalize || op == ICL_OP_rotate) &&
            operand == 1);
}

static void test_overlaps(tap_run *tap, const call *request) {
    for (int out = 0; out < request->info->outputs; out++)
        for (int i = 0; i < request->count; i++) {
            icl_tensor view = request->t[out];
            if (i == out || !request->t[i].buffer || !view.buffer)
                continue;
            view.buffer = request->t[i].buffer;
            if (out == 0 && may_write_in_place(request->c->op, i) && has_same_shape(&view, &request->t[i]))
                taken(tap, request, out, view, "an operand's own view");
            else
                refused(tap, request, out, view, "an output overlaps another operand", "another operand's memory");
            view.offset += last_element(&request->t[i]) + 1;
            taken(tap, request, out, view, "memory behind another operand");
        }
}

/* ---- Cases ---- */

/* Chooses small cases in which every operand has elements. */
static bool is_chosen(const icl_case *c) {
    size_t elements = 0;

    for (int i = 0; i < icl_op_infos[c->op].outputs + icl_op_infos[c->op].inputs; i++) {
        if (c->rank[i] >= 0 && icl_case_count(c, i) == 0)
            return false;
        elements += icl_case_count(c, i);
    }
    return elements <= MOST_ELEMENTS && c->layout == ICL_LAYOUT_PLAIN && c->values == ICL_VALUES_RANDOM &&
           c->in_place == 0;
}

/* The operands that are absent in some case are exactly those that may be by their row; the gradients of q, k and v,
 * which all cases want, count as absent. */
static void test_absences(tap_run *tap, icl_op op, const icl_case *cases, size_t count) {
    const icl_op_info *info = &icl_op_infos[op];
    unsigned absent = op == ICL_OP_recurrence_backward ? 0x7 : 0, optional = 0;

    for (int operand = 0; operand < info->outputs + info->inputs; operand++) {
        if (info->operands[operand].flags & ICL_OPTIONAL)
            optional |= 1U << operand;
        for (size_t i = 0; i < count; i++)
            if (cases[i].op == op && cases[i].rank[operand] < 0)
                absent |= 1U << operand;
    }
    tap_ok(tap, absent == optional, "%s: operands that may be absent are those that cases lack, 0x%x", info->name,
           absent);
}

static void test_case(tap_run *tap, const icl_case *c, icl_backend *backend, icl_tensor foreign) {
    const int failures = tap->failed;
    icl_error error = {0};
    call request;

    if (open_call(&request, c, backend, &error) == ICL_OK) {
        taken(tap, &request, 0, request.t[0], "the right view");
        test_extents(tap, &request);
        test_views(tap, &request, foreign);
        test_outputs(tap, &request);
        test_overlaps(tap, &request);
    }
    tap_ok(tap, !error.message[0] && tap->failed == failures, "%s%s", c->name, error.message);
    close_call(&request);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "cpu"), *other = NULL;
    size_t count = 0, seen[ICL_OP_COUNT] = {0};
    icl_tensor foreign = {0};
    icl_case *cases = NULL;
    icl_error error = {0};

    if (backend &&
        tap_status(&tap, icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &other, &error), &error, "another") &&
        tap_status(&tap, icl_tensor_create(other, 1, (const size_t[]){1}, &foreign, &error), &error, "and a tensor") &&
        tap_status(&tap, icl_cases_create(0, &cases, &count, &error), &error, "cases"))
        for (size_t i = 0; i < count; i++)
            if (is_chosen(&cases[i]) && seen[cases[i].op]++ < CASES_OF_AN_OP)
                test_case(&tap, &cases[i], backend, foreign);
    for (int op = 0; backend && op < ICL_OP_COUNT; op++)
        if (tap_ok(&tap, seen[op] > 0, "%s has a small case", icl_op_infos[op].name))
            test_absences(&tap, (icl_op)op, cases, count);
    icl_free(&cases);
    icl_tensor_release(&foreign);
    icl_backend_close(&other);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
