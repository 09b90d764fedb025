/* What `iclab bench` times: the shapes that the ops' descriptions name, and what a call does by the textbook. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/status.h"
#include "run/bench/bench.h"

static icl_bench_case case_of(icl_op op, const icl_timed_shape *row) {
    icl_bench_case made = {.c = {.op = op, .params = row->params}, .is_long = row->is_long};

    snprintf(made.c.name, sizeof made.c.name, "%s", row->name);
    for (int k = 0; k < ICL_MAX_OPERANDS; k++) {
        made.c.rank[k] = row->shapes[k].rank;
        memcpy(made.c.shape[k], row->shapes[k].of, sizeof made.c.shape[k]);
    }
    return made;
}

icl_status icl_bench_cases_create(icl_bench_case **cases, size_t *count, icl_error *error) {
    size_t rows = 0;

    *count = 0;
    for (int op = 0; op < ICL_OP_COUNT; op++)
        rows += icl_describe((icl_op)op)->timed_count;
    ICL_CHECK(icl_allocate(rows, sizeof **cases, "bench cases", cases, error));
    for (int op = 0; op < ICL_OP_COUNT; op++)
        for (size_t i = 0; i < icl_describe((icl_op)op)->timed_count; i++)
            (*cases)[(*count)++] = case_of((icl_op)op, &icl_describe((icl_op)op)->timed[i]);
    return ICL_OK;
}

/* Normal numbers, different for each operand; then what the op asks for. */
icl_status icl_bench_operands(const icl_case *c, icl_backend *backend, icl_tensor operands[ICL_MAX_OPERANDS],
                              icl_error *error) {
    const icl_op_info *info = &icl_op_infos[c->op];
    const icl_described_op *op = icl_describe(c->op);

    for (int i = 0; i < info->outputs + info->inputs; i++) {
        const icl_random_params normal = {.key = {.seed = 1, .stream = (uint32_t)i}, .distribution = ICL_NORMAL};
        if (c->rank[i] < 0)
            continue;
        ICL_CHECK(icl_tensor_create(backend, c->rank[i], c->shape[i], &operands[i], error));
        ICL_CHECK(icl_random_fill(backend, &normal, operands[i], error));
    }
    if (op->fill)
        ICL_CHECK(op->fill(c, backend, operands, error));
    return ICL_OK;
}

/* Bytes: each operand once, an output that is read as well twice. */
icl_bench_work icl_bench_work_of(const icl_case *c, size_t element_size) {
    const icl_op_info *info = &icl_op_infos[c->op];
    const icl_described_op *op = icl_describe(c->op);
    double elements = 0;

    for (int i = 0; i < info->outputs + info->inputs; i++) {
        const bool is_updated = i < info->outputs && op->is_updated && op->is_updated(c, i);
        if (c->rank[i] >= 0)
            elements += (double)icl_case_count(c, i) * (is_updated ? 2 : 1);
    }
    return (icl_bench_work){op->flops ? op->flops(c) : (double)NAN, elements * (double)element_size};
}
