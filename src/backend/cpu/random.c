/* Random numbers, rows on spheres, and Gram matrices of in-context regression problems: float on every backend. */
#include "backend/cpu/host.h"
#include "backend/cpu/rows.h"
#include "iclab/ops_gram.h"
#include "iclab/status.h"

/* ---- Random numbers: a view of any strides, in chunks that end where the index is a multiple of the chunk ---- */

typedef struct fill_job {
    const icl_strict_kernels *strict;
    const icl_random_params *params;
    const icl_tensor *out;
    uint64_t count, first_chunk;
} fill_job;

/* Writes `count` values from element `k` of the view, in row-major order. */
static void scatter(const icl_tensor *out, uint64_t k, const float *values, size_t count) {
    size_t index[ICL_MAX_RANK] = {0};
    real *base = host_elements(out);
    const int last = out->rank - 1;

    for (int axis = last; axis >= 0; axis--) {
        index[axis] = (size_t)(k % out->shape[axis]);
        k /= out->shape[axis];
    }
    for (size_t i = 0; i < count;) {
        size_t offset = 0, run = last < 0 ? 1 : out->shape[last] - index[last];
        const size_t stride = last < 0 ? 1 : out->stride[last];
        for (int axis = 0; axis <= last; axis++)
            offset += index[axis] * out->stride[axis];
        if (run > count - i)
            run = count - i;
        for (size_t j = 0; j < run; j++)
            base[offset + j * stride] = (real)values[i + j];
        i += run;
        if (last >= 0)
            index[last] = out->shape[last];
        for (int axis = last; axis > 0 && index[axis] == out->shape[axis]; axis--) {
            index[axis] = 0;
            index[axis - 1]++;
        }
    }
}

static void fill_chunks(void *context, size_t first, size_t last, size_t thread) {
    const fill_job *fill = context;
    const uint64_t first_index = fill->params->first_index;
    const bool contiguous = icl_tensor_is_contiguous(fill->out);
    (void)thread;
    for (size_t chunk = first; chunk < last; chunk++) {
        float values[ICL_RANDOM_CHUNK];
        /* Counted from first_index, so that indices may wrap around. */
        const uint64_t into_chunk = first_index % ICL_RANDOM_CHUNK;
        const uint64_t start = chunk == 0 ? 0 : chunk * ICL_RANDOM_CHUNK - into_chunk;
        uint64_t end = (chunk + 1) * ICL_RANDOM_CHUNK - into_chunk;
        if (end > fill->count)
            end = fill->count;
        const size_t count = (size_t)(end - start);
        fill->strict->random(fill->params, first_index + start, count, values);
        if (contiguous) {
            real *out = host_elements(fill->out) + start;
            for (size_t i = 0; i < count; i++)
                out[i] = (real)values[i];
        } else {
            scatter(fill->out, start, values, count);
        }
    }
}

icl_status HOST(random_fill)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    fill_job fill = {.strict = host_state(backend)->strict, .params = params, .out = &operands[0]};
    (void)error;
    fill.count = icl_tensor_count(&operands[0]);
    const uint64_t into_chunk = fill.params->first_index % ICL_RANDOM_CHUNK;
    const size_t chunks = (size_t)((into_chunk + fill.count + ICL_RANDOM_CHUNK - 1) / ICL_RANDOM_CHUNK);
    HOST(run)(host_state(backend), chunks, (size_t)fill.count * 4, fill_chunks, &fill);
    return ICL_OK;
}

/* ---- Rows on spheres ---- */

/* The threads share blocks of rows, which are packed as floats, scaled, and written to their places. */

/* spherical's operands. */
enum { OUT = 0, IN, NORMALS, TABLE };

typedef struct spherical_run {
    const icl_strict_kernels *kernels;
    HOST(row_view) out, in, normals;
    size_t rows, length;
    const float *table; /* packed, or NULL */
    float *packed;      /* the first thread's: [length][ICL_SPHERICAL_ROWS] */
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

/* ---- Gram matrices ---- */

/* The threads share groups of sequences. The tables are packed as floats once for each call. Each thread has lanes of
 * its own, from which results are written to views of any strides. */

/* gram_sample's operands. */
enum { GRAM = 0, QUERY, TARGETS, WEIGHTS, NOISE, OUTPUTS, CHI = OUTPUTS, ROOTS };

typedef struct gram_run {
    const icl_strict_kernels *kernels;
    const icl_tensor *operands;
    icl_gram_job job;
    const uint32_t *rows; /* the rows of the lanes that hold the outputs' elements, one output after another */
    float *lanes;         /* the first thread's */
    size_t lanes_length;
} gram_run;

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Writes the given rows of the lanes to elements [sequence, …] of a view, whose axes after the batch have the given
 * extents. */
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
    if (has_roots) /* gram_rows looks at whether roots is NULL */
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
