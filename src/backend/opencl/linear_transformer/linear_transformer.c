/*
 * Whole linear transformers: linear_transformer.cl of cl/linear_transformer/ computes predictions and the gradients'
 * sums of each unit of sequences, and linear_transformer_sum.cl adds these up. That takes two launches, or one if only
 * predictions are wanted.
 *
 * In token space, layers carry the tokens on. The sparse form turns them into Gram matrices first, whatever space the
 * caller asks for, and so do the other forms if the cut says so: the polynomial is the same one.
 */
#include <stdio.h>
#include <string.h>

#include "backend/op_families.h"
#include "backend/opencl/launch.h"
#include "backend/opencl/linear_transformer/linear_transformer.h"
#include "backend/opencl/linear_transformer/program.h"
#include "backend/opencl/ops.h"
#include "backend/opencl/queue.h"

/* ---- The cut ---- */

/* Everything follows from sizes, the device's kind and its limits, so the same device gives the same bits. */

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
    c->key.pitch = (cl_uint)padded | 1; /* odd, so that columns spread over banks and sets of caches */
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
    const icl_linear_sizes sizes = icl_linear_sizes_of(params->parameterization, job->size - 1);
    const size_t most = most_floats(job);
    icl_linear_cut c = {.key = key_of(params, job->size, job->lanes, job->rows == 0, job->train), .team = 1};

    c.p_size = sizes.p;
    c.q_size = sizes.q;
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

/* ---- Programs of steps ---- */

/*
 * Programs of steps: those that the interpreter reads, which are written to the device once, and those that are
 * compiled as straight lines.
 *
 * A straight-line program takes seconds to compile, and the interpreter gives the same bits. So the first launches of a
 * key are interpreted, and from then on a training run gets the straight-line program.
 */

#define MOST_PROGRAMS 32

static void release(icl_opencl *opencl, icl_linear_program *program) {
    icl_pool_give(opencl, program->block);
    icl_text_release(&program->text);
    icl_free(&program);
}

void icl_linear_programs_forget(icl_opencl *opencl) {
    while (opencl->linear->programs) {
        icl_linear_program *program = opencl->linear->programs;
        opencl->linear->programs = program->next;
        release(opencl, program);
    }
}

/* Forgets the oldest program if there are many. */
static void make_room(icl_opencl *opencl) {
    size_t count = 0;
    for (icl_linear_program **p = &opencl->linear->programs; *p; p = &(*p)->next)
        if (++count == MOST_PROGRAMS) {
            release(opencl, *p);
            *p = NULL;
            return;
        }
}

/* Notes that a block holds no tensor: it does not count as live until it is given back. */
static void keep(icl_opencl *opencl, icl_block *block) {
    block->is_kept = true;
    opencl->backend->statistics.bytes_live -= block->bytes;
}

/* Composes the steps and writes them to the device. */
static icl_status write_steps(icl_opencl *opencl, icl_linear_program *program, icl_error *error) {
    icl_status status = ICL_OK;
    icl_linear_steps composed = {0};

    ICL_TRY(icl_linear_compose(&program->key, &composed, error));
    const size_t bytes = composed.count * STEP_WORDS * sizeof(cl_uint) + sizeof program->given;
    ICL_TRY(icl_pool_take(opencl, bytes, &program->block, error));
    keep(opencl, program->block);
    program->steps = composed.count;
    ICL_TRY(icl_queue_write(opencl, program->block->memory, 0, bytes, composed.steps, error));
done:
    if (status != ICL_OK) {
        icl_pool_give(opencl, program->block);
        program->block = NULL;
    }
    icl_linear_steps_clear(&composed);
    return status;
}

static icl_status count_anew(icl_opencl *opencl, icl_linear_program *program, icl_error *error) {
    program->given = 0;
    return icl_queue_write(opencl, program->block->memory, program->steps * STEP_WORDS * sizeof(cl_uint),
                           sizeof program->given, &program->given, error);
}

/* Finds the program of a key, which belongs to the backend. */
static icl_status linear_find_program(icl_opencl *opencl, const icl_linear_key *key, icl_linear_program **found,
                                      icl_error *error) {
    icl_linear_program *created = NULL;

    for (icl_linear_program *p = opencl->linear->programs; p; p = p->next)
        if (memcmp(&p->key, key, sizeof *key) == 0) {
            *found = p;
            return ICL_OK;
        }
    ICL_CHECK(icl_allocate(1, sizeof *created, "linear transformer's steps", &created, error));
    created->key = *key;
    make_room(opencl);
    created->next = opencl->linear->programs;
    opencl->linear->programs = *found = created;
    return ICL_OK;
}

/* Puts the steps on the device, and resets the number after them if it is lost. */
static icl_status linear_prepare_steps(icl_opencl *opencl, icl_linear_program *program, icl_error *error) {
    if (!program->block)
        ICL_CHECK(write_steps(opencl, program, error));
    if (program->is_lost)
        ICL_CHECK(count_anew(opencl, program, error));
    return ICL_OK;
}

/* ---- Straight lines ---- */

static bool is_due(const icl_opencl *opencl, icl_linear_program *program) {
    if (program->is_refused)
        return false;
    /* Relaxed arithmetic may give other bits, so a run keeps to one of the two. */
    const size_t before = opencl->fast_math ? SIZE_MAX : program->launches++;
    return icl_opencl_choose(opencl, ICL_CHOICE_LINEAR, before) == ICL_LINEAR_STRAIGHT;
}

/* Returns the options and definitions with which the straight-line program is compiled. */
static icl_specialization linear_straight_special(const icl_opencl *opencl, const icl_linear_program *program) {
    return (icl_specialization){.options = icl_linear_register_option(&program->key, opencl->programs->register_option),
                                .definitions = program->text.bytes};
}

/* Counts a launch, and sets *is_ready if the straight-line program takes it, which is then compiled. If a driver cannot
 * compile it, the interpreter takes over, and the first one of the backend is a warning: all others will be like it. */
static icl_status linear_prepare_straight(icl_opencl *opencl, icl_linear_program *program, const icl_linear_cut *cut,
                                          bool *is_ready, icl_error *error) {
    icl_error why = {0};
    icl_compiled compiled;

    *is_ready = false;
    if (!is_due(opencl, program))
        return ICL_OK;
    if (!program->text.bytes)
        ICL_CHECK(icl_linear_source(cut, opencl->backend->capabilities.local_memory, &program->text, error));
    program->is_refused = !program->text.bytes;
    if (program->is_refused)
        return ICL_OK;
    const icl_specialization special = linear_straight_special(opencl, program);
    if (icl_opencl_variant(opencl, ICL_KERNEL_linear_transformer, &special, &compiled, &why) != ICL_OK) {
        icl_log_write(&opencl->backend->log, opencl->linear->has_complained ? ICL_LOG_DEBUG : ICL_LOG_WARNING,
                      "linear transformer: the interpreter serves instead of a straight-line program: %s", why.message);
        opencl->linear->has_complained = true;
        program->is_refused = true;
        return ICL_OK;
    }
    *is_ready = true;
    return ICL_OK;
}

/* ---- Launches ---- */

/* The operands of either op; absent ones are NULL. */
typedef struct operands {
    const icl_tensor *answers, *gradient, *norms, *parameters, *data, *query, *targets, *threshold;
    icl_tensor last_token; /* the query, if tokens are given */
} operands;

#define SUM_ELEMENTS 8 /* elements of a block in cl/linear_transformer/linear_transformer_sum.cl, on GPUs */

/* A vector as the kernels take it: memory, offset, stride. If it is absent, the answers are passed in its place. */
typedef struct vector {
    cl_mem memory;
    cl_uint offset;
    cl_int stride;
} vector;

static vector vector_of(const operands *given, const icl_tensor *tensor) {
    const icl_tensor *from = tensor ? tensor : given->answers;
    return (vector){icl_memory_of(from), (cl_uint)from->offset, (cl_int)from->stride[0]};
}

#define VECTOR_ARGUMENTS(v) ICL_MEMORY_ARGUMENT((v).memory), ICL_ARGUMENT((v).offset), ICL_ARGUMENT((v).stride)

/* Returns a view with the strides of sequence, row and column. */
static icl_view sequence_view(const icl_tensor *t) {
    icl_view view = {.memory = icl_memory_of(t), .offset = (cl_uint)t->offset};
    view.stride.s[0] = (cl_int)t->stride[0];
    view.stride.s[1] = t->rank == 3 ? (cl_int)t->stride[1] : 0;
    view.stride.s[2] = (cl_int)t->stride[t->rank - 1];
    return view;
}

/* Estimates the operations of a unit on a GPU: the products of matrices, of which the backward pass has two for each of
 * the forward pass. */
static double work_of_unit(const icl_linear_cut *c, cl_uint rows) {
    const double size = c->key.size, layers = (double)c->key.depth * c->key.heads * (c->key.train ? 9 : 3);
    return 2 * size * size * (size * layers + rows) * (double)c->per_unit;
}

/* What a launch needs to know. */
typedef struct plan {
    icl_linear_cut cut;
    icl_linear_program *program;
    bool is_straight;
    size_t teams;
} plan;

static icl_status launch_teams(icl_opencl *opencl, const icl_linear_transformer_params *params, const operands *of,
                               const plan *p, cl_mem partial, cl_mem scratch, icl_error *error) {
    const icl_linear_cut *c = &p->cut;
    icl_linear_program *program = p->program;
    const vector answers = vector_of(of, of->answers), norms = vector_of(of, of->norms),
                 parameters = vector_of(of, of->parameters), targets = vector_of(of, of->targets),
                 threshold = vector_of(of, of->threshold);
    const icl_view data = sequence_view(of->data), query = sequence_view(of->query);
    const cl_uint rows = (cl_uint)(c->key.tokens ? of->data->shape[1] - 1 : 0), batch = (cl_uint)of->answers->shape[0];
    const cl_uint4 shape = {{batch, rows, c->key.size, (cl_uint)c->per_unit}};
    const cl_uint4 model = {{c->key.depth, c->key.layers, c->key.heads, c->key.copy}};
    const cl_uint4 parts = {{c->key.kept, (cl_uint)c->p_size, (cl_uint)c->q_size, c->key.shared_pitch}};
    const cl_uint4 lengths = {
        {(cl_uint)c->expanded_length, (cl_uint)c->state_length, (cl_uint)c->length, (cl_uint)c->scratch_length}};
    const cl_uint units = (cl_uint)c->units;
    const cl_float factor = (cl_float)params->factor,
                   repeats = c->key.copy == ICL_COPY_SPARSE ? (cl_float)params->heads : 1;
    char definitions[ICL_LINEAR_DEFINITIONS];

    if (!p->is_straight)
        ICL_CHECK(linear_prepare_steps(opencl, program, error));
    cl_mem steps = p->is_straight ? scratch : program->block->memory; /* straight lines read none */
    const cl_uint step_count = (cl_uint)program->steps, given = program->given;
    const icl_argument arguments[] = {
        VECTOR_ARGUMENTS(answers),
        VECTOR_ARGUMENTS(norms),
        VECTOR_ARGUMENTS(parameters),
        ICL_VIEW(data),
        ICL_VIEW(query),
        VECTOR_ARGUMENTS(targets),
        ICL_MEMORY_ARGUMENT(threshold.memory),
        ICL_ARGUMENT(threshold.offset),
        ICL_MEMORY_ARGUMENT(steps),
        ICL_ARGUMENT(step_count),
        ICL_ARGUMENT(given),
        ICL_ARGUMENT(shape),
        ICL_ARGUMENT(model),
        ICL_ARGUMENT(parts),
        ICL_ARGUMENT(lengths),
        ICL_GROUP_UNITS(units, work_of_unit(c, rows)),
        ICL_ARGUMENT(c->flags),
        ICL_ARGUMENT(factor),
        ICL_ARGUMENT(repeats),
        ICL_MEMORY_ARGUMENT(partial),
        ICL_MEMORY_ARGUMENT(scratch),
        {c->state_length * sizeof(cl_float), NULL}, /* local memory, if the kernel takes it */
    };
    const size_t count = sizeof arguments / sizeof *arguments - !c->is_local;
    icl_linear_interpreter_definitions(c, definitions);
    program->is_lost = !p->is_straight;
    const icl_specialization interpreter = {.definitions = definitions},
                             lines = linear_straight_special(opencl, program);
    ICL_CHECK(icl_opencl_launch_with(opencl, ICL_KERNEL_linear_transformer, p->is_straight ? &lines : &interpreter,
                                     p->teams * c->team, arguments, count, error));
    program->is_lost = false;
    opencl->linear->straight_launches += p->is_straight;
    if (opencl->lanes > 1) /* a team asks once more than it is given a unit */
        program->given += units + (cl_uint)p->teams;
    return ICL_OK;
}

static icl_status launch_sum(icl_opencl *opencl, const icl_linear_transformer_params *params, const operands *given,
                             const icl_linear_cut *c, cl_mem partial, icl_error *error) {
    const vector gradient = vector_of(given, given->gradient);
    const cl_uint count = (cl_uint)c->units, length = (cl_uint)c->length, part_length = (cl_uint)c->part_length;
    const cl_uint4 model = {{c->key.depth, c->key.layers, c->key.heads, c->key.copy}};
    const cl_uint2 sizes = {{(cl_uint)c->p_size, (cl_uint)c->q_size}};
    const cl_uint shared_heads = c->key.copy == ICL_COPY_SPARSE, batch = (cl_uint)given->answers->shape[0];
    const bool is_gpu = opencl->lanes == 1; /* on GPUs a work-group takes a unit */
    const size_t block = opencl->lanes > 1 ? opencl->lanes : SUM_ELEMENTS;
    const cl_uint blocks = (cl_uint)((c->part_length + block - 1) / block);
    const cl_uint units = (cl_uint)(params->layers * params->heads * 2) * blocks;
    const icl_argument unit_count = is_gpu ? ICL_GROUP_UNITS(units, (double)count * SUM_ELEMENTS)
                                           : ICL_UNITS(units, (double)count * (double)opencl->lanes);

    return ICL_LAUNCH(opencl, ICL_KERNEL_linear_transformer_sum, is_gpu ? units * opencl->local_size : units, error,
                      VECTOR_ARGUMENTS(gradient), ICL_MEMORY_ARGUMENT(partial), ICL_ARGUMENT(count),
                      ICL_ARGUMENT(length), ICL_ARGUMENT(model), ICL_ARGUMENT(sizes), ICL_ARGUMENT(part_length),
                      ICL_ARGUMENT(shared_heads), ICL_ARGUMENT(batch), ICL_ARGUMENT(blocks), unit_count);
}

/* Finds how many work-items of a GPU run in step: 64 on some, 32 or fewer on others. */
static icl_status find_wave(icl_opencl *opencl, icl_error *error) {
    icl_status status = ICL_OK;
    size_t together = 1;
    icl_compiled compiled;

    if (opencl->lanes == 1) {
        ICL_TRY(icl_opencl_kernel(opencl, ICL_KERNEL_linear_transformer_sum, &compiled, error));
        ICL_CL_TRY(opencl, "clGetKernelWorkGroupInfo",
                   clGetKernelWorkGroupInfo(compiled.kernel, opencl->device,
                                            CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, sizeof together, &together,
                                            NULL));
    }
    opencl->linear->wave = together == 64 ? 64 : 32;
done:
    return status;
}

/* Cuts the work for a straight-line program if that is allowed and due, else for the interpreter. */
static icl_status make_plan(icl_opencl *opencl, const icl_linear_transformer_params *params, const operands *given,
                            bool is_gram, bool may_be_straight, plan *p, icl_error *error) {
    const icl_capabilities *device = &opencl->backend->capabilities;

    if (opencl->linear->wave == 0)
        ICL_CHECK(find_wave(opencl, error));
    icl_linear_job job = {
        .params = params,
        .size = given->query->shape[1],
        .batch = given->answers->shape[0],
        .rows = is_gram ? 0 : given->data->shape[1],
        .train = given->gradient != NULL,
        .clips = given->threshold != NULL,
        .has_norms = given->norms != NULL,
        .is_contiguous = given->parameters->stride[0] == 1,
        .is_straight = may_be_straight && opencl->lanes == 1 &&
                       icl_opencl_choose(opencl, ICL_CHOICE_LINEAR, SIZE_MAX) == ICL_LINEAR_STRAIGHT,
        .lanes = opencl->lanes,
        .wave = opencl->linear->wave,
        .local_memory = device->local_memory,
        .max_allocation = device->max_allocation,
    };
    if (job.is_straight) {
        ICL_CHECK(icl_linear_cut_of(&job, &p->cut, error));
        ICL_CHECK(linear_find_program(opencl, &p->cut.key, &p->program, error));
        ICL_CHECK(linear_prepare_straight(opencl, p->program, &p->cut, &p->is_straight, error));
    }
    if (!p->is_straight) {
        job.is_straight = false;
        ICL_CHECK(icl_linear_cut_of(&job, &p->cut, error));
        ICL_CHECK(linear_find_program(opencl, &p->cut.key, &p->program, error));
    }
    /* A CPU has one team for each core, because a team's memory fills the core's cache. */
    const size_t team = p->cut.team, bytes = p->cut.scratch_length * sizeof(cl_float);
    const size_t most = opencl->lanes > 1 ? device->compute_units : opencl->max_items / team;
    const size_t fit = icl_opencl_items_with_scratch(opencl, p->cut.units * team, bytes / team) / team;
    p->teams = fit < most ? fit : most;
    if (p->teams > p->cut.most_teams)
        p->teams = p->cut.most_teams;
    return ICL_OK;
}

static icl_status launch_plan(icl_opencl *opencl, const icl_linear_transformer_params *params, const operands *given,
                              const plan *p, icl_error *error) {
    const icl_linear_cut *c = &p->cut;
    icl_block *partial = NULL, *scratch = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(
        icl_pool_take(opencl, (p->teams * c->scratch_length + ICL_LINEAR_PADDING) * sizeof(cl_float), &scratch, error));
    if (given->gradient)
        ICL_TRY(icl_pool_take(opencl, (c->units * c->length + ICL_LINEAR_PADDING) * sizeof(cl_float), &partial, error));
    ICL_TRY(
        launch_teams(opencl, params, given, p, partial ? partial->memory : scratch->memory, scratch->memory, error));
    if (partial)
        ICL_TRY(launch_sum(opencl, params, given, c, partial->memory, error));
done:
    icl_pool_give(opencl, partial);
    icl_pool_give(opencl, scratch);
    return status;
}

/* ---- Straight lines beside the interpreter ---- */

enum { OUTPUTS = 3 };

/* Runs the plan, and copies its results, `count` numbers: answers, then gradient, then norms. */
static icl_status run_and_read(icl_opencl *opencl, const icl_linear_transformer_params *params, const operands *given,
                               const plan *p, float *values, icl_error *error) {
    const icl_tensor *const outputs[OUTPUTS] = {given->answers, given->gradient, given->norms};

    ICL_CHECK(launch_plan(opencl, params, given, p, error));
    for (int i = 0; i < OUTPUTS; i++)
        if (outputs[i]) {
            ICL_CHECK(icl_tensor_read(*outputs[i], values, error));
            values += icl_tensor_count(outputs[i]);
        }
    return ICL_OK;
}

/* Returns the index of the first numbers that differ in their bits, unless both are NaN; `count` if there are none. */
static size_t first_difference(const float *one, const float *other, size_t count) {
    size_t i = 0;
    while (i < count && (memcmp(&one[i], &other[i], sizeof *one) == 0 || (one[i] != one[i] && other[i] != other[i])))
        i++;
    return i;
}

/*
 * Compares the first launch of a straight-line program with the interpreter, because the self-test has seen only the
 * interpreter, and a run that is resumed begins with the interpreter again: both must give the same bits. The outputs
 * are left with the interpreter's results.
 */
static icl_status compare_with_interpreter(icl_opencl *opencl, const icl_linear_transformer_params *params,
                                           const operands *given, bool is_gram, const plan *straight,
                                           icl_error *error) {
    const icl_tensor *const outputs[OUTPUTS] = {given->answers, given->gradient, given->norms};
    const size_t launches = opencl->backend->statistics.launches;
    icl_linear_program *program = straight->program;
    icl_status status = ICL_OK;
    float *lines = NULL;
    size_t count = 0;
    plan steps = {0};

    for (int i = 0; i < OUTPUTS; i++)
        count += outputs[i] ? icl_tensor_count(outputs[i]) : 0;
    ICL_TRY(icl_allocate(2 * count, sizeof *lines, "a straight-line program's results", &lines, error));
    float *const expected = lines + count;
    ICL_TRY(run_and_read(opencl, params, given, straight, lines, error));
    opencl->backend->statistics.launches = launches; /* only the interpreter's launch counts, which was asked for */
    ICL_TRY(make_plan(opencl, params, given, is_gram, false, &steps, error));
    ICL_TRY(run_and_read(opencl, params, given, &steps, expected, error));
    const size_t at = first_difference(lines, expected, count);
    program->is_compared = true;
    program->is_refused = at < count;
    if (program->is_refused)
        icl_log_write(&opencl->backend->log, ICL_LOG_WARNING,
                      "linear transformer: the interpreter serves instead of a straight-line program, whose "
                      "result %zu on %s "
                      "is %.9g, expected the bits of %.9g",
                      at, opencl->backend->capabilities.name, (double)lines[at], (double)expected[at]);
done:
    icl_free(&lines);
    return status;
}

static icl_status run(icl_opencl *opencl, const icl_linear_transformer_params *params, operands *given,
                      const icl_tensor *tokens, const icl_tensor *gram, const icl_tensor *query, icl_error *error) {
    const bool is_gram = gram->buffer != NULL;
    icl_status status = ICL_OK;
    plan p = {0};

    ICL_TRY(icl_opencl_test_program(opencl, ICL_TESTED_LINEAR_TRANSFORMER, error));
    given->data = is_gram ? gram : tokens;
    given->query = query;
    if (!is_gram) {
        const size_t shape[] = {tokens->shape[0], tokens->shape[2]};
        given->last_token = icl_tensor_slice(*tokens, 1, tokens->shape[1] - 1, 1);
        given->last_token.rank = 2;
        given->last_token.shape[1] = shape[1];
        given->last_token.stride[1] = tokens->stride[2];
        given->query = &given->last_token;
    }
    ICL_TRY(make_plan(opencl, params, given, is_gram, true, &p, error));
    /* A program is not compared if it was asked for, nor with relaxed arithmetic, whose bits may differ. */
    if (p.is_straight && !p.program->is_compared && icl_opencl_asked(opencl, ICL_CHOICE_LINEAR, NULL) == ICL_BY_TABLE &&
        !opencl->fast_math)
        status = compare_with_interpreter(opencl, params, given, is_gram, &p, error);
    else
        status = launch_plan(opencl, params, given, &p, error);
done:
    return status;
}

icl_status icl_opencl_linear_transformer_predict(icl_backend *backend, const void *params, const icl_tensor *tensors,
                                                 icl_error *error) {
    operands given = {.answers = &tensors[0], .parameters = &tensors[1]};
    return run(icl_opencl_of(backend), params, &given, &tensors[2], &tensors[3], &tensors[4], error);
}

icl_status icl_opencl_linear_transformer_gradient(icl_backend *backend, const void *params, const icl_tensor *tensors,
                                                  icl_error *error) {
    operands given = {.answers = &tensors[0],
                      .gradient = &tensors[1],
                      .norms = tensors[2].buffer ? &tensors[2] : NULL,
                      .parameters = &tensors[3],
                      .targets = &tensors[7],
                      .threshold = tensors[8].buffer ? &tensors[8] : NULL};
    return run(icl_opencl_of(backend), params, &given, &tensors[4], &tensors[5], &tensors[6], error);
}
