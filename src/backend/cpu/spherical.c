/* Rows on spheres: blocks of rows shared out among the threads, packed as floats, scaled, and written where they belong. */
#include "backend/cpu/host.h"
#include "core/status.h"

/* spherical's operands. */
enum { OUT = 0, IN, NORMALS, TABLE };

typedef struct spherical_run {
    const icl_strict_kernels *kernels;
    const icl_tensor *operands;
    size_t rows, length;
    const float *table; /* packed, or NULL */
    float *packed;      /* of the first thread: [length][ICL_SPHERICAL_ROWS] */
    size_t packed_length;
} spherical_run;

/* The first element of row number `row`, rows counted in row-major order. */
static real *row_start(const icl_tensor *tensor, size_t row) {
    real *start = host_elements(tensor);
    for (int axis = tensor->rank - 2; axis >= 0; axis--) {
        start += row % tensor->shape[axis] * tensor->stride[axis];
        row /= tensor->shape[axis];
    }
    return start;
}

static void scale_blocks(void *context, size_t first, size_t last, size_t thread) {
    const spherical_run *run = context;
    const icl_tensor *out = &run->operands[OUT], *in = &run->operands[IN];
    const size_t to_stride = out->stride[out->rank - 1], from_stride = in->stride[in->rank - 1];
    float *packed = run->packed + thread * run->packed_length;

    for (size_t block = first; block < last; block++) {
        float normals[ICL_SPHERICAL_ROWS] = {0}, factors[ICL_SPHERICAL_ROWS];
        const size_t start = block * ICL_SPHERICAL_ROWS, left = run->rows - start;
        const size_t count = left < ICL_SPHERICAL_ROWS ? left : ICL_SPHERICAL_ROWS;

        for (size_t i = 0; i < ICL_SPHERICAL_ROWS; i++) { /* lanes without a row repeat the last one */
            const size_t row = start + (i < count ? i : count - 1);
            const real *from = row_start(in, row);
            for (size_t k = 0; k < run->length; k++)
                packed[k * ICL_SPHERICAL_ROWS + i] = (float)from[k * from_stride];
            if (run->table)
                normals[i] = (float)*row_start(&run->operands[NORMALS], row);
        }
        run->kernels->spherical(packed, run->length, run->table ? normals : NULL, run->table, factors);
        for (size_t i = 0; i < count; i++) {
            real *to = row_start(out, start + i);
            for (size_t k = 0; k < run->length; k++)
                to[k * to_stride] = (real)(packed[k * ICL_SPHERICAL_ROWS + i] * factors[i]);
        }
    }
}

static void pack_table(const icl_tensor *table, float *packed) {
    for (size_t term = 0; term < ICL_CHI_TERMS; term++)
        for (size_t piece = 0; piece < ICL_CHI_ROW; piece++)
            packed[term * ICL_CHI_ROW + piece] =
                piece < ICL_CHI_PIECES
                    ? (float)host_elements(table)[piece * table->stride[0] + term * table->stride[1]]
                    : 0;
}

icl_status HOST(spherical)(icl_backend *backend, const void *params, const icl_tensor *operands,
                           icl_error *error) {
    const HOST(state) *state = host_state(backend);
    const icl_tensor *out = &operands[OUT];
    spherical_run run = {.kernels = state->strict, .operands = operands, .length = out->shape[out->rank - 1]};
    float table[ICL_CHI_TERMS * ICL_CHI_ROW];
    icl_status status;

    (void)params;
    run.rows = icl_tensor_count(out) / run.length;
    run.packed_length = run.length * ICL_SPHERICAL_ROWS;
    if (operands[TABLE].buffer) {
        pack_table(&operands[TABLE], table);
        run.table = table;
    }
    ICL_TRY(HOST(scratch)(backend, state->threads * run.packed_length * sizeof(float), &run.packed, error));
    HOST(run)
    (state, (run.rows + ICL_SPHERICAL_ROWS - 1) / ICL_SPHERICAL_ROWS, run.rows * (run.length + 8),
     scale_blocks, &run);
done:
    return status;
}
