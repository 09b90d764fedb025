/* Rows on spheres: blocks of rows shared out among the threads, packed as floats, scaled, and
 * written where they belong. */
#include "backend/cpu/host.h"
#include "iclab/status.h"

/* spherical's operands. */
enum { OUT = 0, IN, NORMALS, TABLE };

/* The rows of a tensor, counted in row-major order. */
typedef struct row_view {
    const icl_tensor *tensor;
    real *first;
    size_t stride; /* from row to row, where they lie evenly */
    bool is_even;
    size_t step; /* from element to element */
} row_view;

typedef struct spherical_run {
    const icl_strict_kernels *kernels;
    row_view out, in, normals;
    size_t rows, length;
    const float *table; /* packed, or NULL */
    float *packed;      /* of the first thread: [length][ICL_SPHERICAL_ROWS] */
    size_t packed_length;
} spherical_run;

static row_view rows_of(const icl_tensor *tensor) {
    const int last = tensor->rank - 1;
    row_view view = {tensor, host_elements(tensor), 0, true, tensor->stride[last]};

    if (last > 0)
        view.stride = tensor->stride[last - 1];
    for (int axis = last - 2; axis >= 0; axis--)
        view.is_even = view.is_even && tensor->stride[axis] == tensor->stride[axis + 1] * tensor->shape[axis + 1];
    return view;
}

static real *row_start(const row_view *view, size_t row) {
    real *start = view->first;

    if (view->is_even)
        return start + row * view->stride;
    for (int axis = view->tensor->rank - 2; axis >= 0; axis--) {
        start += row % view->tensor->shape[axis] * view->tensor->stride[axis];
        row /= view->tensor->shape[axis];
    }
    return start;
}

static void scale_blocks(void *context, size_t first, size_t last, size_t thread) {
    const spherical_run *run = context;
    float *packed = run->packed + thread * run->packed_length;

    for (size_t block = first; block < last; block++) {
        float normals[ICL_SPHERICAL_ROWS] = {0}, factors[ICL_SPHERICAL_ROWS];
        const size_t start = block * ICL_SPHERICAL_ROWS, left = run->rows - start;
        const size_t count = left < ICL_SPHERICAL_ROWS ? left : ICL_SPHERICAL_ROWS;

        for (size_t i = 0; i < ICL_SPHERICAL_ROWS; i++) { /* lanes without a row repeat the last one */
            const size_t row = start + (i < count ? i : count - 1);
            const real *from = row_start(&run->in, row);
            for (size_t k = 0; k < run->length; k++)
                packed[k * ICL_SPHERICAL_ROWS + i] = (float)from[k * run->in.step];
            if (run->table)
                normals[i] = (float)*row_start(&run->normals, row);
        }
        run->kernels->spherical(packed, run->length, run->table ? normals : NULL, run->table, factors);
        for (size_t i = 0; i < count; i++) {
            real *to = row_start(&run->out, start + i);
            for (size_t k = 0; k < run->length; k++)
                to[k * run->out.step] = (real)(packed[k * ICL_SPHERICAL_ROWS + i] * factors[i]);
        }
    }
}

static void pack_table(const icl_tensor *table, float *packed) {
    for (size_t term = 0; term < ICL_CHI_TERMS; term++)
        for (size_t piece = 0; piece < ICL_CHI_ROW; piece++)
            packed[term * ICL_CHI_ROW + piece] =
                piece < ICL_CHI_PIECES ? (float)host_elements(table)[piece * table->stride[0] + term * table->stride[1]]
                                       : 0;
}

icl_status HOST(spherical)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    const HOST(state) *state = host_state(backend);
    const icl_tensor *out = &operands[OUT];
    spherical_run run = {.kernels = state->strict,
                         .out = rows_of(out),
                         .in = rows_of(&operands[IN]),
                         .length = out->shape[out->rank - 1]};
    float table[ICL_CHI_TERMS * ICL_CHI_ROW];

    (void)params;
    run.rows = icl_tensor_count(out) / run.length;
    run.packed_length = run.length * ICL_SPHERICAL_ROWS;
    if (operands[TABLE].buffer) {
        pack_table(&operands[TABLE], table);
        run.table = table;
        run.normals = rows_of(&operands[NORMALS]);
    }
    ICL_CHECK(HOST(scratch)(backend, state->threads * run.packed_length * sizeof(float), &run.packed, error));
    HOST(run)
    (state, (run.rows + ICL_SPHERICAL_ROWS - 1) / ICL_SPHERICAL_ROWS, run.rows * (run.length + 8), scale_blocks, &run);
    return ICL_OK;
}
