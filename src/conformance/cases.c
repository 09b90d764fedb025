/* The table of cases: every op on ragged and round shapes, every layout, and the values that fit it. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conformance/case.h"
#include "conformance/cases.h"
#include "core/allocate.h"
#include "iclab/status.h"

static const char *const value_names[ICL_VALUES_COUNT] = {"random",     "integers", "large",    "small",
                                                          "cancelling", "special",  "absorbed", "wide"};
static const char *const layout_names[ICL_LAYOUT_COUNT] = {"plain", "padded", "transposed", "heads"};

#define DECLARE(name, ...) extern const icl_described_op icl_described_##name;
ICL_EVERY_OP(DECLARE)
#undef DECLARE

const icl_described_op *icl_describe(icl_op op) {
    static const icl_described_op *const described[ICL_OP_COUNT] = {
#define ROW(name, ...) &icl_described_##name,
        ICL_EVERY_OP(ROW)
#undef ROW
    };
    return described[op];
}

size_t icl_case_count(const icl_case *c, int operand) {
    size_t count = c->rank[operand] >= 0;
    for (int axis = 0; axis < c->rank[operand]; axis++)
        count *= c->shape[operand][axis];
    return count;
}

/* Hashes by FNV-1a. A case's values follow from its name, so they stay the same when other cases come and go. */
static uint32_t hash_of(const char *name) {
    uint32_t hash = 2166136261U;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619U;
    return hash;
}

/* Completes the name and the seed, which follow from everything else. */
static void complete(const icl_case_list *list, icl_case *c, const char *what) {
    size_t used = (size_t)snprintf(c->name, sizeof c->name, "%s ", what);

    for (int i = 0; i < icl_op_infos[c->op].outputs + icl_op_infos[c->op].inputs; i++) {
        if (c->rank[i] < 0 || used >= sizeof c->name)
            continue;
        used += (size_t)snprintf(c->name + used, sizeof c->name - used, "(");
        for (int axis = 0; axis < c->rank[i] && used < sizeof c->name; axis++)
            used +=
                (size_t)snprintf(c->name + used, sizeof c->name - used, "%s%zu", axis ? "x" : "", c->shape[i][axis]);
        if (used < sizeof c->name)
            used += (size_t)snprintf(c->name + used, sizeof c->name - used, ")");
    }
    if (used < sizeof c->name)
        snprintf(c->name + used, sizeof c->name - used, " %s %s", layout_names[c->layout], value_names[c->values]);
    c->title_length = strcspn(c->name, "(") - 1;
    c->seed = list->seed * 1000003U + hash_of(c->name);
}

void icl_case_set_shape(icl_case *c, int operand, int rank, size_t s0, size_t s1, size_t s2, size_t s3) {
    const size_t shape[ICL_MAX_RANK] = {s0, s1, s2, s3};
    c->rank[operand] = rank;
    memcpy(c->shape[operand], shape, sizeof shape);
}

static bool has_heads(const icl_case *c) {
    for (int i = 0; i < ICL_MAX_OPERANDS; i++)
        if (c->rank[i] == 4 && icl_case_count(c, i) > 0)
            return true;
    return false;
}

/* Notes the case if it is the wanted one. */
static void compare_names(icl_case_list *list, icl_case *c, const char *what) {
    if (list->is_found || c->op != list->wanted->op || strncmp(list->wanted->name, what, strlen(what)) != 0)
        return;
    complete(list, c, what);
    list->is_found = strncmp(c->name, list->wanted->name, strlen(list->wanted->name)) == 0;
    if (list->is_found)
        *list->wanted = *c;
}

void icl_cases_add(icl_case_list *list, icl_case c, const char *what) {
    if (list->wanted) {
        compare_names(list, &c, what);
        return;
    }
    for (int layout = 0; layout < ICL_LAYOUT_COUNT; layout++) {
        c.layout = (icl_layout)layout;
        if (layout == ICL_LAYOUT_HEADS && !has_heads(&c))
            continue;
        if (list->status == ICL_OK)
            list->status =
                icl_grow(&list->cases, list->count, &list->capacity, sizeof c, "conformance cases", list->error);
        if (list->status != ICL_OK)
            return;
        complete(list, &c, what);
        list->cases[list->count++] = c;
    }
}

bool icl_case_same_title(const icl_case *a, const icl_case *b) {
    return a->title_length == b->title_length && strncmp(a->name, b->name, a->title_length) == 0;
}

icl_status icl_cases_create(uint32_t seed, icl_case **cases, size_t *count, icl_error *error) {
    icl_case_list list = {.seed = seed, .error = error};

    *cases = NULL;
    *count = 0;
    for (int op = 0; op < ICL_OP_COUNT; op++)
        if (icl_describe((icl_op)op)->cases)
            icl_describe((icl_op)op)->cases(&list);
    if (list.status != ICL_OK) {
        icl_free(&list.cases);
        return list.status;
    }
    *cases = list.cases;
    *count = list.count;
    return ICL_OK;
}

icl_status icl_case_find(icl_op wanted, const char *name, icl_case *found, icl_error *error) {
    icl_case_list list = {.wanted = found};

    *found = (icl_case){.op = wanted};
    snprintf(found->name, sizeof found->name, "%s", name);
    if (icl_describe(wanted)->cases)
        icl_describe(wanted)->cases(&list);
    for (int op = 0; op < ICL_OP_COUNT && !list.is_found; op++) /* the first op of a family adds all of its cases */
        if (icl_describe((icl_op)op)->cases)
            icl_describe((icl_op)op)->cases(&list);
    return list.is_found ? ICL_OK
                         : icl_fail(error, ICL_ERROR_INPUT, "conformance: no case of %s begins with \"%s\"",
                                    icl_op_infos[wanted].name, name);
}

/* ---- For the truths ---- */

double icl_gamma(double k, double unit) {
    return k * unit / (1 - k * unit);
}

double icl_device_rounded(const icl_truth *truth, double value) {
    return truth->unit > DBL_EPSILON ? (double)(float)value : value;
}

void icl_round_to_bf16(double *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        int exponent;
        const double fraction = frexp(values[i], &exponent);
        if (!isfinite(values[i]))
            continue;
        values[i] = fabs(values[i]) < (double)FLT_MIN ? 0 : ldexp(nearbyint(ldexp(fraction, 8)), exponent - 8);
        if (fabs(values[i]) > (double)FLT_MAX)
            values[i] = copysign((double)INFINITY, values[i]);
    }
}
