/*
 * Cuts the work of a linear transformer. Everything follows from sizes, the device's kind and its limits, so the same
 * device gives the same bits.
 */
#include "backend/opencl/linear_transformer/cut.h"

#include "backend/linear_transformer.h"

#define LOCAL_BYTES   ((size_t)32 << 10) /* the most local memory that a work-group uses */
#define SPARE_BYTES   ((size_t)1 << 10)  /* the part of it that the kernel itself uses */
#define KEPT_BYTES    ((size_t)8 << 20)  /* the most that a work-item of a CPU keeps of maps for the backward pass */
#define TOKEN_BYTES   (64.0 * (1 << 20)) /* the most that a team keeps of the tokens of all layers */
#define PARTIAL_BYTES ((size_t)64 << 20) /* the most of the units' sums, unless there are few units */
#define PADDING       ((size_t)ICL_LINEAR_PADDING)

static size_t round_up(size_t value, size_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

static size_t blocks_of(size_t extent, size_t block) {
    return (extent + block - 1) / block;
}

/* Returns the most floats of one buffer: what the device allows, and 32 bits can count. */
static size_t most_floats(const icl_linear_job *job) {
    const size_t fit = job->max_allocation / sizeof(cl_float);
    const size_t left = fit > PADDING ? fit - PADDING : 0;
    return left < UINT32_MAX ? left : UINT32_MAX;
}

/*
 * Chooses the block of a CPU that computes the fewest sums beyond the matrix and loads least: a step of the inner loop
 * loads rows + columns vectors for rows * columns products. There are few shapes, because each is a program to compile.
 */
static void choose_block_of_lanes(size_t lanes, icl_linear_cut *c) {
    static const size_t wide[][2] = {{3, 7}, {4, 6}, {4, 4}}, narrow[][2] = {{3, 4}, {4, 2}};
    const size_t(*shapes)[2] = lanes == 16 ? wide : narrow, count = lanes == 16 ? 3 : 2;
    size_t least = SIZE_MAX;

    c->rows = c->columns = 1;
    for (size_t i = 0; i < count; i++) {
        const size_t rows = shapes[i][0], columns = shapes[i][1];
        const size_t cost =
            blocks_of(c->key.size, rows) * blocks_of(c->key.size, columns) * (2 * rows * columns + rows + columns);
        if (cost < least) {
            least = cost;
            c->rows = rows;
            c->columns = columns;
        }
    }
}

/* Chooses the block of a GPU, whose members take blocks in rounds: a term of a block costs rows * columns
 * multiply-adds, a load for each row and, as columns are neighbours, a load for each pair of columns. Of equal costs
 * the larger block is taken, for fewer rounds. There are at most 18 sums, so that the registers suffice for half of the
 * waves that a GPU holds. */
static void choose_block_of_team(icl_linear_cut *c) {
    enum { MOST_ROWS = 4, MOST_COLUMNS = 6, MOST_SUMS = 18 };
    const size_t kept = c->key.kept; /* the smallest side of a product */
    size_t least = SIZE_MAX;

    c->rows = c->columns = 1;
    for (size_t rows = 1; rows <= MOST_ROWS && rows <= kept; rows++)
        for (size_t columns = rows; columns <= MOST_COLUMNS && columns <= kept && rows * columns <= MOST_SUMS;
             columns++) {
            const size_t blocks = blocks_of(c->key.size, rows) * blocks_of(c->key.size, columns);
            const size_t cost = blocks_of(blocks, c->team) * (rows * columns + rows + (columns + 1) / 2 + 1);
            if (cost <= least) {
                least = cost;
                c->rows = rows;
                c->columns = columns;
            }
        }
}

/* Keeps the maps of the full layers for the backward pass if there is room for them; otherwise they are computed
 * twice. */
static void choose_memory(const icl_linear_job *job, icl_linear_cut *c) {
    const size_t lanes = job->lanes, device = job->local_memory;
    const size_t limit = (device < LOCAL_BYTES ? device : LOCAL_BYTES) - SPARE_BYTES;

    c->key.keep = 0;
    const size_t least = icl_linear_state_length(&c->key) * lanes * sizeof(cl_float);
    c->key.keep = c->key.train;
    const size_t most = icl_linear_state_length(&c->key) * lanes * sizeof(cl_float);
    c->is_local = lanes == 1 && !job->is_straight && device > SPARE_BYTES && least <= limit;
    if (c->is_local)
        c->key.keep = c->key.train && most <= limit;
    else if (lanes > 1)
        c->key.keep = c->key.train && most - least <= KEPT_BYTES;
    c->state_length = round_up(c->key.keep ? most / sizeof(cl_float) : least / sizeof(cl_float), 16);
    c->scratch_length = c->expanded_length + (c->is_local ? 0 : c->state_length);
    if (job->train) /* one group's gradient; on CPUs also the unit's sums */
        c->scratch_length += c->length * lanes * (lanes > 1 ? 2 : 1);
    c->scratch_length = round_up(c->scratch_length, 16);
}

/*
 * Chooses the units: groups of `lanes` sequences whose gradients a team adds up before it writes them. There are enough
 * of them for every core of a CPU, and for half of the waves of a large GPU, but so few that writing them costs little,
 * and that one buffer holds their sums.
 */
static void choose_units(const icl_linear_job *job, icl_linear_cut *c) {
    const size_t groups = blocks_of(job->batch, job->lanes), length = c->length > 0 ? c->length : 1;
    const size_t wanted = job->lanes == 1 ? 4096 : 32, most_per_unit = job->lanes == 1 ? 64 : 8;
    const size_t least = job->lanes == 1 ? 64 : wanted; /* whatever their sums take */
    const size_t fit = PARTIAL_BYTES / (length * sizeof(cl_float)), room = most_floats(job) / length;
    size_t most = fit > least ? fit : least;

    if (most > room)
        most = room;
    c->per_unit = blocks_of(groups, wanted);
    if (c->per_unit > most_per_unit)
        c->per_unit = most_per_unit;
    if (blocks_of(groups, c->per_unit) > most)
        c->per_unit = blocks_of(groups, most);
    c->units = blocks_of(groups, c->per_unit);
}

/* Returns what the steps depend on, in Gram space. A team of work-items on a GPU has too little to do in products with
 * few vectors, and no room for one matrix more. */
static icl_linear_key key_of(const icl_linear_transformer_params *params, size_t size, size_t lanes, bool is_gram,
                             bool train) {
    icl_linear_transformer_params in_gram = *params;
    static const icl_linear_copy copies[] = {[ICL_LINEAR_FULL] = ICL_COPY_DENSE,
                                             [ICL_LINEAR_DIAG] = ICL_COPY_DIAGONAL,
                                             [ICL_LINEAR_GDPP] = ICL_COPY_DIAGONAL,
                                             [ICL_LINEAR_SPARSE] = ICL_COPY_SPARSE,
                                             [ICL_LINEAR_SPARSE_B] = ICL_COPY_CORNER};
    const bool is_block =
        params->parameterization == ICL_LINEAR_SPARSE || params->parameterization == ICL_LINEAR_SPARSE_B;
    in_gram.space = ICL_SPACE_GRAM;
    return (icl_linear_key){
        .copy = copies[params->parameterization],
        .size = (cl_uint)size,
        .depth = (cl_uint)params->depth,
        .layers = (cl_uint)params->layers,
        .heads = (cl_uint)params->heads,
        .kept = (cl_uint)(is_block ? size - 1 : size),
        .is_short = params->parameterization == ICL_LINEAR_GDPP,
        .train = train,
        .tokens = !is_gram,
        .scaled = params->factor != 1.0,
        .passes = lanes > 1 && icl_linear_passes(&in_gram, size - 1, 0),
        .keeps_first = lanes > 1 && train,
        .most_rows = lanes > 1 ? 0 : (cl_uint)size,
    };
}

/*
 * Chooses whether layers carry tokens on or Gram matrices. They carry tokens on if the caller asks for it, and if any
 * layers are carried on at all, unless the tokens need too much memory or are too many for a GPU: for each term, a sum
 * of a thin product takes two loads and a multiplication, and one of a block of r x c sums only 1 / r + 1 / c loads. So
 * rows D sums at a cost of 3 are compared with D^2 sums at 1 + 1 / r + 1 / c.
 */
static void choose_tokens(const icl_linear_transformer_params *params, size_t rows, size_t lanes, icl_linear_cut *c) {
    const size_t sums = c->rows * c->columns;
    const bool is_dense = c->key.copy == ICL_COPY_DENSE || c->key.copy == ICL_COPY_CORNER;
    const bool passes = lanes > 1 && icl_linear_passes(params, c->key.size - 1, rows - 1);
    const size_t last = 2 + passes, kept = is_dense ? 1 + 2 * params->heads : 1; /* Z, and U, V */

    if (params->space != ICL_SPACE_TOKENS || c->key.copy == ICL_COPY_SPARSE || params->depth <= last)
        return;
    if (lanes == 1 && 3 * rows * sums >= c->key.size * (sums + c->rows + c->columns))
        return;
    if ((double)rows * (double)(c->key.pitch * lanes * sizeof(cl_float)) * (double)kept *
            (double)(params->depth - last) >
        TOKEN_BYTES)
        return;
    c->key.rows = (cl_uint)rows;
    c->key.passes = passes;
    c->key.keeps_first = 0;
}

/* Chooses a team of one wave of 32 for a sequence if it covers the matrix at once with blocks that leave it enough
 * registers; otherwise a team of 64 work-items. */
static void choose_team(size_t wave, icl_linear_cut *c) {
    enum { FEW_SUMS = 9 };

    c->team = wave;
    choose_block_of_team(c);
    if (wave < 64 && (c->rows * c->columns > FEW_SUMS ||
                      blocks_of(c->key.size, c->rows) * blocks_of(c->key.size, c->columns) > wave)) {
        c->team = 64;
        choose_block_of_team(c);
    }
}

/* Chooses which parameters a team copies for itself. */
static void choose_parameters(const icl_linear_job *job, icl_linear_cut *c) {
    const size_t high = round_up(job->size, c->rows), wide = round_up(job->size, c->columns);
    const size_t padded = job->lanes == 1 ? job->size : high > wide ? high : wide;
    const bool is_diagonal = c->key.copy == ICL_COPY_DIAGONAL, is_sparse = c->key.copy == ICL_COPY_SPARSE;
    const size_t parts = is_sparse ? job->params->depth : job->params->depth * job->params->heads * 2;

    c->part_length = is_diagonal ? 2 : (size_t)c->key.kept * c->key.kept;
    c->length = parts * c->part_length;
    c->key.sides = c->key.shared_pitch = (cl_uint)padded;
    c->key.pitch = (cl_uint)padded | 1; /* odd: columns spread over the banks of local memory and the sets of caches */
    if (job->lanes > 1 || job->params->parameterization != ICL_LINEAR_FULL || !job->is_contiguous) {
        c->flags |= ICL_LINEAR_EXPAND;
        c->expanded_length = round_up(parts * (is_diagonal ? 2 : padded * padded), 16);
    } else {
        c->key.is_direct = 1;
    }
    if (job->lanes > 1 && (padded != job->size || is_sparse))
        c->flags |= ICL_LINEAR_CLEAR;
}

icl_status icl_linear_cut_of(const icl_linear_job *job, icl_linear_cut *cut, icl_error *error) {
    const icl_linear_transformer_params *params = job->params;
    const size_t most = most_floats(job);
    icl_linear_cut c = {.key = key_of(params, job->size, job->lanes, job->rows == 0, job->train), .team = 1};

    c.p_size = icl_linear_p_size(params->parameterization, job->size - 1);
    c.q_size = icl_linear_q_size(params->parameterization, job->size - 1);
    c.flags = (job->train ? ICL_LINEAR_TRAIN : 0) | (job->clips ? ICL_LINEAR_CLIP : 0) |
              (job->has_norms ? ICL_LINEAR_NORMS : 0);
    if (job->lanes > 1)
        choose_block_of_lanes(job->lanes, &c);
    else
        choose_team(job->wave, &c);
    choose_parameters(job, &c);
    if (job->rows > 0)
        choose_tokens(params, job->rows, job->lanes, &c);
    choose_memory(job, &c);
    if (c.scratch_length > most || c.length > most)
        return icl_fail(error, ICL_ERROR_MEMORY,
                        "linear transformer: %zu layers of %zu heads for tokens of %zu coordinates need %zu bytes for "
                        "each work-group, at most %zu fit into one buffer",
                        params->depth, params->heads, job->size, c.scratch_length * sizeof(cl_float),
                        most * sizeof(cl_float));
    choose_units(job, &c);
    c.most_teams = c.scratch_length > 0 ? most / c.scratch_length : most;
    *cut = c;
    return ICL_OK;
}
