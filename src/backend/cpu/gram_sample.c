/*
 * Gram matrices of in-context regression problems, groups of sequences shared out among the threads. The tables are
 * packed as floats once for each call; each thread has its own lanes, from which results go to views of any strides.
 */
#include "backend/cpu/host.h"
#include "iclab/ops_gram.h"
#include "iclab/status.h"

/* gram_sample's operands. */
enum { GRAM = 0, QUERY, TARGETS, WEIGHTS, NOISE, OUTPUTS, CHI = OUTPUTS, ROOTS };

typedef struct gram_run {
    const icl_strict_kernels *kernels;
    const icl_tensor *operands;
    icl_gram_job job;
    const uint32_t *rows; /* where the outputs' elements lie in the lanes, one output after the other */
    float *lanes;         /* of the first thread */
    size_t lanes_length;
} gram_run;

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* The given rows of the lanes to elements [sequence, …] of a view whose axes after the batch have the given extents. */
static void store(const gram_run *run, const float *lanes, const uint32_t *from, const icl_tensor *out, size_t sequence,
                  size_t rows, size_t columns) {
    const size_t width = run->kernels->gram_lanes, count = smaller(width, out->shape[0] - sequence);
    const size_t column_stride = columns > 1 || out->rank > 2 ? out->stride[out->rank - 1] : 1;
    const size_t row_stride = out->rank > 2 ? out->stride[1] : 0;
    real *base = host_elements(out) + sequence * out->stride[0];

#if !ICL_CPU_DOUBLE
    if (column_stride == 1 && (rows == 1 || row_stride == columns)) {
        run->kernels->unpack_lanes(lanes, from, rows * columns, count, base, out->stride[0]);
        return;
    }
#endif
    for (size_t s = 0; s < count; s++)
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < columns; j++)
                base[s * out->stride[0] + i * row_stride + j * column_stride] =
                    (real)lanes[from[i * columns + j] * width + s];
}

static void run_groups(void *context, size_t first, size_t last, size_t thread) {
    const gram_run *run = context;
    const size_t width = run->kernels->gram_lanes, d = run->job.d;
    const icl_tensor *query = &run->operands[QUERY];
    const size_t extents[OUTPUTS][2] = {{d + 1, d + 1}, {1, d}, {1, 1}, {1, d}, {1, 1}};
    float *lanes = run->lanes + thread * run->lanes_length;

    for (size_t group = first; group < last; group++) {
        const size_t sequence = group * width;
        const uint32_t *rows = run->rows;
        run->kernels->gram(&run->job, sequence, lanes);
        for (int i = GRAM; i < OUTPUTS; rows += extents[i][0] * extents[i][1], i++)
            store(run, lanes, rows, &run->operands[i], sequence, extents[i][0], extents[i][1]);
        for (size_t s = 0; s < smaller(width, query->shape[0] - sequence); s++)
            host_elements(query)[(sequence + s) * query->stride[0] + d * query->stride[1]] = 0;
    }
}

static size_t element_count(size_t d) {
    return (d + 1) * (d + 1) + d + 1 + d + 1;
}

static void list_rows(const icl_gram_rows *rows, size_t d, uint32_t *list) {
    for (size_t i = 0; i <= d; i++)
        for (size_t j = 0; j <= d; j++) {
            const size_t below = i > j ? i : j, left = i > j ? j : i;
            *list++ = (uint32_t)(rows->gram + below * (below + 1) / 2 + left);
        }
    for (size_t i = 0; i < d; i++)
        *list++ = (uint32_t)(rows->query + i);
    *list++ = (uint32_t)rows->targets;
    for (size_t i = 0; i < d; i++)
        *list++ = (uint32_t)(rows->weights + i);
    *list = (uint32_t)rows->noise;
}

static void pack_chi(const icl_tensor *chi, size_t rows, float *packed) {
    for (size_t i = 0; i < rows; i++)
        for (size_t term = 0; term < ICL_CHI_TERMS; term++)
            for (size_t piece = 0; piece < ICL_CHI_ROW; piece++)
                packed[(i * ICL_CHI_TERMS + term) * ICL_CHI_ROW + piece] =
                    piece < ICL_CHI_PIECES
                        ? (float)host_elements(chi)[i * chi->stride[0] + piece * chi->stride[1] + term * chi->stride[2]]
                        : 0;
}

static void pack_roots(const icl_tensor *roots, size_t d, float *packed) {
    for (size_t i = 0; i < 2 * d * d; i++)
        packed[i] = (float)host_elements(
            roots)[i / (d * d) * roots->stride[0] + i / d % d * roots->stride[1] + i % d * roots->stride[2]];
}

static icl_gram_job job_of(const icl_gram_params *params, const icl_tensor *gram) {
    const size_t extent = gram->shape[2];
    icl_gram_job job = {.params = params, .d = extent - 1};
    job.columns = params->context < extent ? (size_t)params->context : extent;
    job.entries = job.columns * (job.columns + 1) / 2 + (extent - job.columns) * job.columns;
    job.blocks = (job.entries + 2 * job.d + 1 + 3) / 4;
    return job;
}

icl_status HOST(gram_sample)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    const HOST(state) *state = host_state(backend);
    const bool has_roots = operands[ROOTS].buffer != NULL;
    gram_run run = {.kernels = state->strict, .operands = operands};
    const size_t batch = operands[GRAM].shape[0], width = run.kernels->gram_lanes;
    float *memory = NULL;
    uint32_t *list;

    run.job = job_of(params, &operands[GRAM]);
    const size_t d = run.job.d, chi_length = run.job.columns * ICL_CHI_TERMS * ICL_CHI_ROW;
    const size_t roots_length = has_roots ? host_round_up(2 * d * d, LANES) : 0;
    if (has_roots) /* its presence decides where rows lie */
        run.job.roots = (const float *)host_elements(&operands[ROOTS]);
    const icl_gram_rows rows = run.kernels->gram_rows(&run.job);
    const size_t list_length = host_round_up(element_count(d), LANES);
    run.lanes_length = host_round_up(rows.count * width, LANES);
    ICL_CHECK(HOST(scratch)(backend,
                            (chi_length + roots_length + state->threads * run.lanes_length) * sizeof(float) +
                                list_length * sizeof(uint32_t),
                            &memory, error));
    pack_chi(&operands[CHI], run.job.columns, memory);
    run.job.chi = memory;
    run.lanes = memory + chi_length + roots_length;
    if (has_roots) {
        pack_roots(&operands[ROOTS], d, memory + chi_length);
        run.job.roots = memory + chi_length;
    }
    list = (uint32_t *)(void *)(run.lanes + state->threads * run.lanes_length);
    list_rows(&rows, d, list);
    run.rows = list;
    HOST(run)(state, (batch + width - 1) / width, batch * rows.count, run_groups, &run);
    return ICL_OK;
}
