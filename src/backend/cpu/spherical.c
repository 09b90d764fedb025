/* Rows on spheres: blocks of rows shared out among the threads, packed as floats, scaled, and
 * written where they belong. */
#include "backend/cpu/rows.h"
#include "iclab/status.h"

/* spherical's operands. */
enum { OUT = 0, IN, NORMALS, TABLE };

typedef struct spherical_run {
    const icl_strict_kernels *kernels;
    HOST(row_view) out, in, normals;
    size_t rows, length;
    const float *table; /* packed, or NULL */
    float *packed;      /* of the first thread: [length][ICL_SPHERICAL_ROWS] */
    size_t packed_length;
} spherical_run;

static void scale_blocks(void *context, size_t first, size_t last, size_t thread) {
    const spherical_run *run = context;
    float *packed = run->packed + thread * run->packed_length;

    for (size_t block = first; block < last; block++) {
        float normals[ICL_SPHERICAL_ROWS] = {0}, factors[ICL_SPHERICAL_ROWS];
        const size_t start = block * ICL_SPHERICAL_ROWS, left = run->rows - start;
        const size_t count = left < ICL_SPHERICAL_ROWS ? left : ICL_SPHERICAL_ROWS;

        for (size_t i = 0; i < ICL_SPHERICAL_ROWS; i++) { /* lanes without a row repeat the last one */
            const size_t row = start + (i < count ? i : count - 1);
            const real *from = host_row(&run->in, row);
            for (size_t k = 0; k < run->length; k++)
                packed[k * ICL_SPHERICAL_ROWS + i] = (float)from[k * run->in.step];
            if (run->table)
                normals[i] = (float)*host_row(&run->normals, row);
        }
        run->kernels->spherical(packed, run->length, run->table ? normals : NULL, run->table, factors);
        for (size_t i = 0; i < count; i++) {
            real *to = host_row(&run->out, start + i);
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
                         .out = host_rows(out),
                         .in = host_rows(&operands[IN]),
                         .length = out->shape[out->rank - 1]};
    float table[ICL_CHI_TERMS * ICL_CHI_ROW];

    (void)params;
    run.rows = icl_tensor_count(out) / run.length;
    run.packed_length = run.length * ICL_SPHERICAL_ROWS;
    if (operands[TABLE].buffer) {
        pack_table(&operands[TABLE], table);
        run.table = table;
        run.normals = host_rows(&operands[NORMALS]);
    }
    ICL_CHECK(HOST(scratch)(backend, state->threads * run.packed_length * sizeof(float), &run.packed, error));
    HOST(run)
    (state, (run.rows + ICL_SPHERICAL_ROWS - 1) / ICL_SPHERICAL_ROWS, run.rows * (run.length + 8), scale_blocks, &run);
    return ICL_OK;
}
