/* Runs one case on one device, with guard elements around every operand and NaN in every element to be written. */
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conformance/case.h"
#include "conformance/cases.h"
#include "core/allocate.h"

/* ---- The values that operands start from ---- */

static float special(uint32_t word, float normal) {
    switch (word % 16) {
    case 0:
        return NAN;
    case 1:
        return INFINITY;
    case 2:
        return -INFINITY;
    case 3:
        return 0.0F;
    case 4:
        return -0.0F;
    case 5:
        return FLT_MAX;
    default:
        return normal;
    }
}

float icl_case_value(icl_values values, uint32_t word, size_t index, float previous) {
    const float normal = icl_normal_from_word(word);
    switch (values) {
    case ICL_VALUES_INTEGERS:
        return (float)(int)(word % 9) - 4.0F;
    case ICL_VALUES_LARGE:
        return normal * 0x1p40F;
    case ICL_VALUES_SMALL:
        return normal * 0x1p-40F;
    case ICL_VALUES_WIDE:
        return normal * 0x1p5F;
    case ICL_VALUES_CANCELLING:
        return index % 2 ? -previous * (1.0F + 0x1p-12F) : normal;
    case ICL_VALUES_SPECIAL:
        return special(word >> 8, normal);
    case ICL_VALUES_ABSORBED: /* half a unit in the last place of 1 is 2^-24 */
        return index == 0 ? 1.0F : 0x1p-24F * (0.75F + 0x1p-26F * (float)(word >> 8));
    default:
        return normal;
    }
}

void icl_case_values(const icl_case *c, int operand, bool is_positive, float *values) {
    const icl_random_key key = {.seed = c->seed, .stream = (uint32_t)operand};
    float previous = 0;

    for (size_t i = 0; i < icl_case_count(c, operand); i++) {
        previous = icl_case_value(c->values, icl_random_word(key, i), i, previous);
        values[i] = is_positive ? fabsf(previous) : previous;
    }
}

void icl_case_without_largest(size_t count, float *values) {
    for (size_t i = 0; i < count; i++)
        if (fabsf(values[i]) == FLT_MAX)
            values[i] = copysignf(1, values[i]);
}

icl_status icl_case_inputs(const icl_case *c, int operand, float *const *operands, icl_error *error) {
    const icl_described_op *op = icl_describe(c->op);

    if (op->inputs)
        op->inputs(c, operand, operands);
    else
        icl_case_values(c, operand, false, operands[operand]);
    return op->results ? op->results(c, operand, operands, error) : ICL_OK;
}

/* ---- Operands in memory ---- */

/* Guard elements before and after an operand; padded layouts have some within it, too. Plain operands begin at a
 * multiple of 16 bytes, from where kernels move 16 at once, and padded ones do not. */
#define GUARD 8

/* One operand as it lies in memory. */
typedef struct placed {
    icl_tensor whole;      /* the buffer with its guards, as one axis */
    icl_tensor view;       /* the operand */
    size_t count;          /* of the view */
    size_t whole_count;    /* of the buffer */
    float *initial;        /* [count] */
    double *before;        /* [whole_count] what was uploaded */
    double *after, *again; /* [whole_count] what two runs left there */
} placed;

typedef struct run {
    const icl_case *c;
    icl_backend *backend;
    int operands, outputs;
    placed at[ICL_MAX_OPERANDS];
    icl_truth truth;
} run;

bool icl_case_is_read(const icl_case *c, int operand) {
    const icl_described_op *op = icl_describe(c->op);
    return operand >= icl_op_infos[c->op].outputs || (c->in_place != 0 && operand == 0) ||
           (op->is_updated && op->is_updated(c, operand));
}

/* Chooses strides: padded axes hold one element more than needed; the last two axes, or the middle two of four, may be
 * swapped in memory. */
static void place_view(placed *p, const icl_case *c, int operand) {
    const int rank = c->rank[operand];
    const bool padded = c->layout != ICL_LAYOUT_PLAIN;
    int order[ICL_MAX_RANK]; /* axes from outermost to innermost in memory */
    size_t stride = 1;

    assert(rank >= 0 && rank <= ICL_MAX_RANK);
    p->view = (icl_tensor){.rank = rank};
    for (int axis = 0; axis < rank; axis++) {
        p->view.shape[axis] = c->shape[operand][axis];
        order[axis] = axis;
    }
    if (c->layout == ICL_LAYOUT_TRANSPOSED && rank >= 2) {
        order[rank - 1] = rank - 2;
        order[rank - 2] = rank - 1;
    }
    if (c->layout == ICL_LAYOUT_HEADS && rank == 4) {
        order[1] = 2;
        order[2] = 1;
    }
    for (int i = rank - 1; i >= 0; i--) {
        p->view.stride[order[i]] = stride;
        stride *= p->view.shape[order[i]] + (padded && p->view.shape[order[i]] > 0);
    }
    p->view.offset = padded ? GUARD + 1 : GUARD;
    p->count = icl_tensor_count(&p->view);
    p->whole_count = stride + 2 * GUARD + 2;
}

/* Returns the position in the buffer of element `index` of the view. */
static size_t position_of(const icl_tensor *view, size_t index) {
    size_t position = view->offset;
    for (int axis = view->rank - 1; axis >= 0; axis--) {
        position += index % view->shape[axis] * view->stride[axis];
        index /= view->shape[axis];
    }
    return position;
}

bool icl_case_is_shared(const icl_case *c, int operand) {
    return c->in_place >> operand & 1;
}

/* Gives operands that are the first output's own view that view and its values. */
static icl_status share_first_output(run *r, icl_error *error) {
    for (int i = r->outputs; i < r->operands; i++) {
        if (!icl_case_is_shared(r->c, i))
            continue;
        r->at[i].view = r->at[0].view;
        ICL_CHECK(icl_allocate(r->at[0].count, sizeof(double), "conformance truth", &r->truth.operand[i], error));
        memcpy(r->truth.operand[i], r->truth.operand[0], r->at[0].count * sizeof(double));
    }
    return ICL_OK;
}

static icl_status prepare(run *r, icl_error *error) {
    float *initial[ICL_MAX_OPERANDS] = {0};

    for (int i = r->operands - 1; i >= 0; i--) {
        placed *p = &r->at[i];
        if (r->c->rank[i] < 0 || icl_case_is_shared(r->c, i))
            continue;
        place_view(p, r->c, i);
        ICL_CHECK(icl_allocate(p->count, sizeof *p->initial, "conformance values", &p->initial, error));
        ICL_CHECK(icl_allocate(p->whole_count, sizeof *p->before, "conformance values", &p->before, error));
        ICL_CHECK(icl_allocate(p->whole_count, sizeof *p->after, "conformance values", &p->after, error));
        ICL_CHECK(icl_allocate(p->whole_count, sizeof *p->again, "conformance values", &p->again, error));
        ICL_CHECK(icl_allocate(p->count, sizeof(double), "conformance truth", &r->truth.operand[i], error));
        if (i < r->outputs)
            ICL_CHECK(icl_allocate(p->count, sizeof(double), "conformance bounds", &r->truth.bound[i], error));
        initial[i] = p->initial;
        const bool is_read = icl_case_is_read(r->c, i);
        if (is_read)
            ICL_CHECK(icl_case_inputs(r->c, i, initial, error));
        for (size_t k = 0; k < p->whole_count; k++)
            p->before[k] = (double)NAN;
        for (size_t k = 0; k < p->count; k++) {
            r->truth.operand[i][k] = (double)p->initial[k];
            p->before[position_of(&p->view, k)] = is_read ? (double)p->initial[k] : (double)NAN;
        }
        ICL_CHECK(icl_tensor_create(r->backend, 1, &p->whole_count, &p->whole, error));
        p->view.buffer = p->whole.buffer;
    }
    return share_first_output(r, error);
}

static icl_status call(run *r, icl_error *error) {
    icl_tensor operands[ICL_MAX_OPERANDS] = {{0}};
    for (int i = 0; i < r->operands; i++)
        if (r->c->rank[i] >= 0)
            operands[i] = r->at[i].view;
    return icl_describe(r->c->op)->call(r->c, r->backend, operands, error);
}

/* Uploads every operand afresh, runs the op, and downloads every buffer, guards and inputs included. */
static icl_status run_once(run *r, bool again, icl_error *error) {
    for (int i = 0; i < r->operands; i++)
        if (r->at[i].before)
            ICL_CHECK(icl_tensor_write_double(r->at[i].whole, r->at[i].before, error));
    ICL_CHECK(call(r, error));
    for (int i = 0; i < r->operands; i++)
        if (r->at[i].before)
            ICL_CHECK(icl_tensor_read_double(r->at[i].whole, again ? r->at[i].again : r->at[i].after, error));
    return ICL_OK;
}

/* ---- Judging ---- */

static bool same_bits(double a, double b) {
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

/*
 * Returns error over bound of one element. Results below the smallest normal number may be flushed to zero (OpenCL 1.2,
 * section 7.2), and a true value past the largest number may become infinite; "ref" is judged against a truth of its
 * own precision, which is allowed the same error again.
 */
static double ratio(const run *r, double got, double truth, double bound) {
    const bool is_double = r->truth.unit < (double)FLT_EPSILON * (double)FLT_EPSILON;
    const double smallest = is_double ? DBL_MIN : (double)FLT_MIN, largest = is_double ? DBL_MAX : (double)FLT_MAX;

    if (isnan(truth) || isnan(got))
        return isnan(truth) && isnan(got) ? 0 : (double)INFINITY;
    if (got == truth)
        return 0;
    if (isinf(got))
        return fabs(truth) + bound >= largest && (got > 0) == (truth > 0) ? 0 : (double)INFINITY;
    if (isinf(truth))
        return (double)INFINITY;
    const double allowed = (is_double ? 2 : 1) * bound;
    const double error = fabs(got - truth);
    if (bound > 0 && error <= 4 * smallest)
        return 0;
    return allowed > 0 ? error / allowed : (double)INFINITY;
}

/* Returns the error in units of the last place of the truth, at the device's precision. */
static double in_ulp(const run *r, double got, double truth) {
    const int digits = r->truth.unit < (double)FLT_EPSILON * (double)FLT_EPSILON ? DBL_MANT_DIG : FLT_MANT_DIG;
    int exponent;
    frexp(truth, &exponent);
    if (digits == FLT_MANT_DIG && exponent < FLT_MIN_EXP)
        exponent = FLT_MIN_EXP;
    return fabs(got - truth) / ldexp(1, exponent - digits);
}

static void name_element(const icl_case *c, int operand, size_t index, char *text, size_t capacity) {
    size_t coordinates[ICL_MAX_RANK] = {0}, used;
    for (int axis = c->rank[operand] - 1; axis >= 0; axis--) {
        coordinates[axis] = index % c->shape[operand][axis];
        index /= c->shape[operand][axis];
    }
    used = (size_t)snprintf(text, capacity, "output %d [", operand);
    for (int axis = 0; axis < c->rank[operand] && used < capacity; axis++)
        used += (size_t)snprintf(text + used, capacity - used, "%s%zu", axis ? ", " : "", coordinates[axis]);
    if (used < capacity)
        snprintf(text + used, capacity - used, "]");
}

/* Returns the first output that is present and has elements; it is called only if there is one. */
static int first_output(const run *r) {
    int first = 0;
    while (first + 1 < r->outputs && icl_case_count(r->c, first) == 0)
        first++;
    return first;
}

/* Judges one output; `squares` gathers the squared errors for the root mean square. */
static void judge_output(const run *r, int operand, icl_case_result *result, double *squares) {
    const placed *p = &r->at[operand];
    const double *first = r->truth.operand[first_output(r)];
    for (size_t k = 0; k < p->count; k++) {
        const double got = p->after[position_of(&p->view, k)];
        const double truth = r->truth.operand[operand][k], bound = r->truth.bound[operand][k];
        const double over = ratio(r, got, truth, bound);
        if (result->elements == 0 || over > result->error_over_bound) {
            result->error_over_bound = over;
            result->worst = result->elements;
            name_element(r->c, operand, k, result->worst_name, sizeof result->worst_name);
            result->truth = truth;
            result->bound = bound;
        }
        if (isfinite(got) && isfinite(truth)) {
            result->max_error = fmax(result->max_error, fabs(got - truth));
            result->max_ulp = fmax(result->max_ulp, in_ulp(r, got, truth));
            *squares += (got - truth) * (got - truth);
        } else if (isinf(over)) {
            result->specials_agree = false;
        }
        result->flat = result->flat && same_bits(truth, first[0]);
        result->outputs[result->elements++] = got;
    }
}

/* Replaces the bounds by the tolerance of the case. */
static void apply_tolerance(run *r) {
    for (int i = 0; i < r->outputs && r->c->tolerance > 0; i++)
        for (size_t k = 0; r->truth.bound[i] && k < r->at[i].count; k++)
            if (r->truth.bound[i][k] > 0)
                r->truth.bound[i][k] = r->c->tolerance * (1 + fabs(r->truth.operand[i][k]));
}

static icl_status judge(run *r, icl_case_result *result, icl_error *error) {
    size_t elements = 0;
    double squares = 0;

    for (int i = 0; i < r->outputs; i++)
        elements += icl_case_count(r->c, i);
    ICL_CHECK(icl_allocate(elements, sizeof *result->outputs, "conformance outputs", &result->outputs, error));
    result->specials_agree = true;
    result->flat = elements > 1;
    for (int i = 0; i < r->outputs; i++)
        if (r->c->rank[i] >= 0)
            judge_output(r, i, result, &squares);
    result->rms_error = elements > 0 ? sqrt(squares / (double)elements) : 0;
    return ICL_OK;
}

/* Returns whether everything but the outputs' elements is as uploaded. Uses `before` as a mask: the outputs' own
 * elements there are overwritten with the results. */
static bool guards_intact(run *r) {
    for (int i = 0; i < r->operands; i++) {
        placed *p = &r->at[i];
        if (!p->before)
            continue;
        for (size_t k = 0; i < r->outputs && k < p->count; k++) {
            const size_t position = position_of(&p->view, k);
            p->before[position] = p->after[position];
        }
        for (size_t k = 0; k < p->whole_count; k++)
            if (!same_bits(p->before[k], p->after[k]))
                return false;
    }
    return true;
}

static bool is_repeatable(const run *r) {
    for (int i = 0; i < r->outputs; i++)
        for (size_t k = 0; r->c->rank[i] >= 0 && k < r->at[i].whole_count; k++)
            if (!same_bits(r->at[i].after[k], r->at[i].again[k]))
                return false;
    return true;
}

icl_status icl_case_run(const icl_case *c, icl_backend *backend, icl_case_result *result, icl_error *error) {
    const icl_op_info *info = &icl_op_infos[c->op];
    const bool is_double = backend->capabilities.element_size == sizeof(double);
    icl_status status = ICL_OK;
    run r = {.c = c,
             .backend = backend,
             .operands = info->outputs + info->inputs,
             .outputs = info->outputs,
             .truth = {.c = c,
                       .unit = is_double ? DBL_EPSILON / 2 : (double)FLT_EPSILON / 2,
                       .precision = backend->capabilities.precision}};

    *result = (icl_case_result){0};
    ICL_TRY(prepare(&r, error));
    ICL_TRY(run_once(&r, false, error));
    if (!c->runs_once)
        ICL_TRY(run_once(&r, true, error));
    ICL_TRY(icl_describe(c->op)->truth(&r.truth, error));
    apply_tolerance(&r);
    ICL_TRY(judge(&r, result, error));
    result->repeatable = c->runs_once || is_repeatable(&r);
    result->guards_intact = guards_intact(&r);
done:
    for (int i = 0; i < r.operands; i++) {
        icl_tensor_release(&r.at[i].whole);
        icl_free(&r.at[i].initial);
        icl_free(&r.at[i].before);
        icl_free(&r.at[i].after);
        icl_free(&r.at[i].again);
        icl_free(&r.truth.operand[i]);
        icl_free(&r.truth.bound[i]);
    }
    return status;
}

void icl_case_result_clear(icl_case_result *result) {
    icl_free(&result->outputs);
}

bool icl_case_passed(const icl_case_result *result) {
    return result->error_over_bound <= 1 && result->guards_intact && result->repeatable;
}
