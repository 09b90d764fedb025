/*
 * Whole linear transformers: cl/linear_transformer.cl computes predictions and the gradients' sums of each unit of sequences,
 * cl/linear_transformer_sum.cl adds these up. Two launches, or one where only predictions are wanted.
 *
 * In token space layers carry the tokens on. Those of the sparse form turn them into Gram matrices first, whatever space the caller
 * asks for, and so do others where choose_tokens says so: the polynomial is the same one.
 */
#include <stdio.h>
#include <string.h>

#include "backend/linear_transformer.h"
#include "backend/opencl/linear_program.h"

/* As in cl/linear_transformer.cl. */
#define FLAG_TRAIN  1u
#define FLAG_CLIP   2u
#define FLAG_EXPAND 4u
#define FLAG_CLEAR  8u
#define FLAG_NORMS  16u

#define LOCAL_BYTES ((size_t)32 << 10) /* of local memory that a work-group uses at most */
#define SPARE_BYTES ((size_t)1 << 10)  /* of it that the kernel itself uses */
#define KEPT_BYTES                                                                                           \
    ((size_t)8 << 20) /* of maps that a work-item of a CPU keeps for the backward pass at most */
#define TOKEN_BYTES   (64.0 * (1 << 20)) /* of the tokens of all layers that a team carries on, at most */
#define PARTIAL_BYTES ((size_t)64 << 20) /* of the units' sums, unless there are few units */

/* The operands of either op; absent ones are NULL. */
typedef struct operands {
    const icl_tensor *predictions, *gradient, *norms, *parameters, *data, *query, *targets, *threshold;
    icl_tensor last_token; /* the query, where tokens are given */
} operands;

/* How the work is cut, and what it needs. */
typedef struct cut {
    icl_linear_key key;
    size_t rows, columns;                 /* of a block of sums */
    size_t p_size, q_size;                /* parameters of P and of Q */
    size_t part_length;                   /* elements of a part's gradient */
    size_t length;                        /* of all of them */
    size_t expanded_length, state_length; /* floats of a team: parameters, and what the steps work on */
    size_t scratch_length;                /* floats of a team in global memory */
    size_t per_unit, units;               /* groups of a unit */
    bool local;                           /* the steps work in local memory */
    cl_uint flags;
} cut;

static size_t round_up(size_t value, size_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

static size_t blocks_of(size_t extent, size_t block) {
    return (extent + block - 1) / block;
}

/*
 * The block that computes fewest sums beyond the matrix and loads least: a step of the inner loop loads rows + columns vectors for
 * rows * columns products. Few shapes, because each is a program to compile. On GPUs a side such that 64 work-items take one
 * block each.
 */
static void choose_block(const icl_opencl *opencl, cut *c) {
    static const size_t wide[][2] = {{3, 7}, {4, 6}, {4, 4}}, narrow[][2] = {{3, 4}, {4, 2}};
    const size_t(*shapes)[2] = opencl->lanes == 16 ? wide : narrow, count = opencl->lanes == 16 ? 3 : 2;
    size_t least = SIZE_MAX;

    if (opencl->lanes == 1) {
        const size_t side = blocks_of(c->key.size, 8);
        c->rows = c->columns = side < 4 ? side : 4;
        return;
    }
    c->rows = c->columns = 1;
    for (size_t i = 0; i < count; i++) {
        const size_t rows = shapes[i][0], columns = shapes[i][1];
        const size_t cost = blocks_of(c->key.size, rows) * blocks_of(c->key.size, columns) *
                            (2 * rows * columns + rows + columns);
        if (cost < least) {
            least = cost;
            c->rows = rows;
            c->columns = columns;
        }
    }
}

/* The maps of the full layers are kept for the backward pass where there is room for them, else computed twice. */
static void choose_memory(const icl_opencl *opencl, cut *c) {
    const size_t lanes = opencl->lanes, device = opencl->backend->capabilities.local_memory;
    const size_t limit = (device < LOCAL_BYTES ? device : LOCAL_BYTES) - SPARE_BYTES;

    c->key.keep = 0;
    const size_t least = icl_linear_state_length(&c->key) * lanes * sizeof(cl_float);
    c->key.keep = c->key.train;
    const size_t most = icl_linear_state_length(&c->key) * lanes * sizeof(cl_float);
    c->local = lanes == 1 && device > SPARE_BYTES && least <= limit;
    if (c->local)
        c->key.keep = c->key.train && most <= limit;
    else if (lanes > 1)
        c->key.keep = c->key.train && most - least <= KEPT_BYTES;
    c->state_length = round_up(c->key.keep ? most / sizeof(cl_float) : least / sizeof(cl_float), 16);
    c->scratch_length = c->expanded_length + (c->local ? 0 : c->state_length);
    if (c->flags & FLAG_TRAIN) /* one group's gradient; on CPUs also the unit's sums */
        c->scratch_length += c->length * lanes * (lanes > 1 ? 2 : 1);
    c->scratch_length = round_up(c->scratch_length, 16);
}

/*
 * Units: groups of `lanes` sequences whose gradients a team adds up before it writes them. Enough of them for every core, and so few
 * that writing them costs little. They follow from the sizes alone, so that the sums do too.
 */
static void choose_units(const icl_opencl *opencl, size_t batch, cut *c) {
    const size_t groups = blocks_of(batch, opencl->lanes), unit_bytes = c->length * sizeof(cl_float);
    const size_t wanted = opencl->lanes == 1 ? 1024 : 32, most_per_unit = opencl->lanes == 1 ? 64 : 8;
    const size_t least = opencl->lanes == 1 ? 64 : wanted; /* whatever their sums take */
    const size_t fit = PARTIAL_BYTES / (unit_bytes > 0 ? unit_bytes : 1), most = fit > least ? fit : least;

    c->per_unit = blocks_of(groups, wanted);
    if (c->per_unit > most_per_unit)
        c->per_unit = most_per_unit;
    if (blocks_of(groups, c->per_unit) > most)
        c->per_unit = blocks_of(groups, most);
    c->units = blocks_of(groups, c->per_unit);
}

/* What the steps depend on, in Gram space. A team of work-items on a GPU has too little to do in products with few vectors, and no room
 * for one matrix more. */
static icl_linear_key key_of(const icl_linear_transformer_params *params, size_t size, size_t lanes,
                             bool is_gram, bool train) {
    icl_linear_transformer_params in_gram = *params;
    static const icl_linear_layout layouts[] = {[ICL_LINEAR_FULL] = ICL_LAYOUT_DENSE,
                                                [ICL_LINEAR_DIAG] = ICL_LAYOUT_DIAGONAL,
                                                [ICL_LINEAR_GDPP] = ICL_LAYOUT_DIAGONAL,
                                                [ICL_LINEAR_SPARSE] = ICL_LAYOUT_SPARSE,
                                                [ICL_LINEAR_SPARSE_B] = ICL_LAYOUT_CORNER};
    const bool is_block = params->form == ICL_LINEAR_SPARSE || params->form == ICL_LINEAR_SPARSE_B;
    in_gram.space = ICL_SPACE_GRAM;
    return (icl_linear_key){
        .layout = layouts[params->form],
        .size = (cl_uint)size,
        .depth = (cl_uint)params->depth,
        .layers = (cl_uint)params->layers,
        .heads = (cl_uint)params->heads,
        .kept = (cl_uint)(is_block ? size - 1 : size),
        .is_short = params->form == ICL_LINEAR_GDPP,
        .train = train,
        .tokens = !is_gram,
        .scaled = params->factor != 1.0,
        .passes = lanes > 1 && icl_linear_passes(&in_gram, size - 1, 0),
        .keeps_first = lanes > 1 && train,
    };
}

/*
 * Layers carry tokens on where the caller asks for it, if any are carried at all. Gram matrices are carried where tokens
 * need too much memory, and where they are too many for a GPU: for each term a sum of a thin product takes two loads and a
 * multiplication, and one of a block of side s only 2 / s loads. So rows D sums at 3 stand against D^2 at 1 + 2 / s.
 */
static void choose_tokens(const icl_linear_transformer_params *params, size_t rows, size_t lanes, cut *c) {
    const bool is_dense = c->key.layout == ICL_LAYOUT_DENSE || c->key.layout == ICL_LAYOUT_CORNER;
    const bool passes = lanes > 1 && icl_linear_passes(params, c->key.size - 1, rows - 1);
    const size_t last = 2 + passes, kept = is_dense ? 1 + 2 * params->heads : 1; /* Z, and U, V */

    if (params->space != ICL_SPACE_TOKENS || c->key.layout == ICL_LAYOUT_SPARSE || params->depth <= last)
        return;
    if (lanes == 1 && 3 * rows * c->rows >= c->key.size * (c->rows + 2))
        return;
    if ((double)rows * (double)(c->key.pitch * lanes * sizeof(cl_float)) * (double)kept *
            (double)(params->depth - last) >
        TOKEN_BYTES)
        return;
    c->key.rows = (cl_uint)rows;
    c->key.passes = passes;
    c->key.keeps_first = 0;
}

static cut cut_of(const icl_opencl *opencl, const icl_linear_transformer_params *params, const operands *of,
                  bool is_gram) {
    const size_t size = of->query->shape[1];
    cut c = {.key = key_of(params, size, opencl->lanes, is_gram, of->gradient != NULL)};
    const bool is_diagonal = c.key.layout == ICL_LAYOUT_DIAGONAL,
               is_sparse = c.key.layout == ICL_LAYOUT_SPARSE;
    const size_t parts = is_sparse ? params->depth : params->depth * params->heads * 2;

    c.p_size = icl_linear_p_size(params->form, size - 1);
    c.q_size = icl_linear_q_size(params->form, size - 1);
    c.part_length = is_diagonal ? 2 : (size_t)c.key.kept * c.key.kept;
    c.length = parts * c.part_length;
    c.flags =
        (of->gradient ? FLAG_TRAIN : 0) | (of->threshold ? FLAG_CLIP : 0) | (of->norms ? FLAG_NORMS : 0);
    choose_block(opencl, &c);
    const size_t high = round_up(size, c.rows), wide = round_up(size, c.columns);
    const size_t padded = opencl->lanes == 1 ? size : high > wide ? high : wide;
    c.key.sides = c.key.shared_pitch = (cl_uint)padded;
    c.key.pitch =
        (cl_uint)padded | 1; /* odd: columns spread over the banks of local memory and the sets of caches */
    if (!is_gram)
        choose_tokens(params, of->data->shape[1], opencl->lanes, &c);
    if (opencl->lanes > 1 || params->form != ICL_LINEAR_FULL || of->parameters->stride[0] != 1) {
        c.flags |= FLAG_EXPAND;
        c.expanded_length = round_up(parts * (is_diagonal ? 2 : padded * padded), 16);
    } else {
        c.key.is_direct = 1;
    }
    if (opencl->lanes > 1 && (padded != size || is_sparse))
        c.flags |= FLAG_CLEAR;
    choose_memory(opencl, &c);
    choose_units(opencl, of->predictions->shape[0], &c);
    return c;
}

/* ---- Programs ---- */

#define MOST_PROGRAMS 32

/* Steps on the device. They are kept, because writing them waits for the queue. Behind them stands a number, 0 at first, that the teams of
 * a CPU count up when they ask for a unit. */
typedef struct icl_linear_program {
    icl_linear_key key;
    size_t steps;
    cl_uint given; /* what that number will be when all that is queued has run */
    bool is_lost;  /* nobody knows, because a launch failed */
    icl_block *block;
    struct icl_linear_program *next;
} icl_linear_program;

static void release(icl_opencl *opencl, icl_linear_program *program) {
    icl_pool_give(opencl, program->block);
    icl_free(&program);
}

void icl_linear_programs_forget(icl_opencl *opencl) {
    while (opencl->linear_programs) {
        icl_linear_program *program = opencl->linear_programs;
        opencl->linear_programs = program->next;
        release(opencl, program);
    }
}

/* Forgets the program that was made first, where there are many. */
static void make_room(icl_opencl *opencl) {
    size_t count = 0;
    for (icl_linear_program **p = &opencl->linear_programs; *p; p = &(*p)->next)
        if (++count == MOST_PROGRAMS) {
            release(opencl, *p);
            *p = NULL;
            return;
        }
}

static icl_status make_program(icl_opencl *opencl, icl_linear_program *program, icl_error *error) {
    icl_status status = ICL_OK;
    void *steps = NULL;

    ICL_TRY(icl_linear_compose(&program->key, &steps, &program->steps, error));
    const size_t bytes = program->steps * STEP_WORDS * sizeof(cl_uint) + sizeof program->given;
    ICL_TRY(icl_pool_take(opencl, bytes, &program->block, error));
    ICL_CL_TRY(
        opencl, "clEnqueueWriteBuffer",
        clEnqueueWriteBuffer(opencl->queue, program->block->memory, CL_TRUE, 0, bytes, steps, 0, NULL, NULL));
done:
    icl_free(&steps);
    return status;
}

static icl_status count_anew(icl_opencl *opencl, icl_linear_program *program, icl_error *error) {
    icl_status status = ICL_OK;

    program->given = 0;
    ICL_CL_TRY(opencl, "clEnqueueWriteBuffer",
               clEnqueueWriteBuffer(opencl->queue, program->block->memory, CL_TRUE,
                                    program->steps * STEP_WORDS * sizeof(cl_uint), sizeof program->given,
                                    &program->given, 0, NULL, NULL));
    program->is_lost = false;
done:
    return status;
}

/* The program, composed and written to the device at its first use. It belongs to the backend. */
static icl_status find_program(icl_opencl *opencl, const icl_linear_key *key, icl_linear_program **found,
                               icl_error *error) {
    icl_status status = ICL_OK;
    icl_linear_program *made = NULL;

    for (icl_linear_program *p = opencl->linear_programs; p; p = p->next)
        if (memcmp(&p->key, key, sizeof *key) == 0) {
            *found = p;
            return ICL_OK;
        }
    ICL_TRY(icl_allocate(1, sizeof *made, "linear transformer's steps", &made, error));
    made->key = *key;
    ICL_TRY(make_program(opencl, made, error));
    make_room(opencl);
    made->next = opencl->linear_programs;
    opencl->linear_programs = made;
    *found = made;
    made = NULL;
done:
    if (made)
        release(opencl, made);
    return status;
}

/* ---- Launching ---- */

/* A vector as the kernels take it: memory, offset, stride. An absent one is passed as the predictions. */
typedef struct vector {
    cl_mem memory;
    cl_uint offset;
    cl_int stride;
} vector;

static vector vector_of(const operands *of, const icl_tensor *tensor) {
    const icl_tensor *from = tensor ? tensor : of->predictions;
    return (vector){icl_memory_of(from), (cl_uint)from->offset, (cl_int)from->stride[0]};
}

#define VECTOR_ARGUMENTS(v)                                                                                  \
    ICL_MEMORY_ARGUMENT((v).memory), ICL_ARGUMENT((v).offset), ICL_ARGUMENT((v).stride)

/* Strides: sequence, row, column. */
static icl_view sequence_view(const icl_tensor *t) {
    icl_view view = {.memory = icl_memory_of(t), .offset = (cl_uint)t->offset};
    view.stride.s[0] = (cl_int)t->stride[0];
    view.stride.s[1] = t->rank == 3 ? (cl_int)t->stride[1] : 0;
    view.stride.s[2] = (cl_int)t->stride[t->rank - 1];
    return view;
}

/* About how many operations a unit takes on a GPU: the products of matrices, of which the backward pass has two for each of the forward one. */
static double work_of_unit(const cut *c, cl_uint rows) {
    const double size = c->key.size, layers = (double)c->key.depth * c->key.heads * (c->key.train ? 9 : 3);
    return 2 * size * size * (size * layers + rows) * (double)c->per_unit;
}

static icl_status launch_teams(icl_opencl *opencl, const icl_linear_transformer_params *params,
                               const operands *of, const cut *c, cl_mem partial, cl_mem scratch, size_t items,
                               icl_error *error) {
    const vector predictions = vector_of(of, of->predictions), norms = vector_of(of, of->norms),
                 parameters = vector_of(of, of->parameters), targets = vector_of(of, of->targets),
                 threshold = vector_of(of, of->threshold);
    const icl_view data = sequence_view(of->data), query = sequence_view(of->query);
    const cl_uint rows = (cl_uint)(c->key.tokens ? of->data->shape[1] - 1 : 0),
                  batch = (cl_uint)of->predictions->shape[0];
    const cl_uint4 shape = {{batch, rows, c->key.size, (cl_uint)c->per_unit}};
    const cl_uint4 model = {{c->key.depth, c->key.layers, c->key.heads, c->key.layout}};
    const cl_uint4 parts = {{c->key.kept, (cl_uint)c->p_size, (cl_uint)c->q_size, c->key.shared_pitch}};
    const cl_uint4 lengths = {{(cl_uint)c->expanded_length, (cl_uint)c->state_length, (cl_uint)c->length,
                               (cl_uint)c->scratch_length}};
    const cl_uint units = (cl_uint)c->units;
    const cl_float factor = (cl_float)params->factor,
                   repeats = c->key.layout == ICL_LAYOUT_SPARSE ? (cl_float)params->heads : 1;
    icl_linear_program *program = NULL;
    icl_status status = ICL_OK;
    char options[96];

    ICL_TRY(find_program(opencl, &c->key, &program, error));
    if (program->is_lost)
        ICL_TRY(count_anew(opencl, program, error));
    cl_mem steps = program->block->memory;
    const cl_uint step_count = (cl_uint)program->steps, given = program->given;
    const icl_argument arguments[] = {
        VECTOR_ARGUMENTS(predictions),
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
        {c->state_length * sizeof(cl_float), NULL}, /* local memory, where the kernel takes it */
    };
    const size_t count = sizeof arguments / sizeof *arguments - !c->local;
    snprintf(options, sizeof options, "-DROWS=%zu -DCOLUMNS=%zu -DIN_LOCAL=%d", c->rows, c->columns,
             c->local);
    program->is_lost = true;
    ICL_TRY(icl_opencl_launch_with(opencl, ICL_KERNEL_linear_transformer, options, items, arguments, count,
                                   error));
    program->is_lost = false;
    if (opencl->lanes > 1) /* a team asks once more than it is given a unit */
        program->given += units + (cl_uint)items;
done:
    return status;
}

static icl_status launch_sum(icl_opencl *opencl, const icl_linear_transformer_params *params,
                             const operands *of, const cut *c, cl_mem partial, icl_error *error) {
    const vector gradient = vector_of(of, of->gradient);
    const cl_uint count = (cl_uint)c->units, length = (cl_uint)c->length,
                  part_length = (cl_uint)c->part_length;
    const cl_uint4 model = {{c->key.depth, c->key.layers, c->key.heads, c->key.layout}};
    const cl_uint2 sizes = {{(cl_uint)c->p_size, (cl_uint)c->q_size}};
    const cl_uint shared_heads = c->key.layout == ICL_LAYOUT_SPARSE,
                  batch = (cl_uint)of->predictions->shape[0];
    const cl_uint blocks = (cl_uint)blocks_of(c->part_length, opencl->lanes);
    const cl_uint units = (cl_uint)(params->layers * params->heads * 2) * blocks;

    return ICL_LAUNCH(opencl, ICL_KERNEL_linear_transformer_sum, units, error, VECTOR_ARGUMENTS(gradient),
                      ICL_MEMORY_ARGUMENT(partial), ICL_ARGUMENT(count), ICL_ARGUMENT(length),
                      ICL_ARGUMENT(model), ICL_ARGUMENT(sizes), ICL_ARGUMENT(part_length),
                      ICL_ARGUMENT(shared_heads), ICL_ARGUMENT(batch), ICL_ARGUMENT(blocks),
                      ICL_UNITS(units, count * opencl->lanes));
}

static icl_status run(icl_opencl *opencl, const icl_linear_transformer_params *params, operands *of,
                      const icl_tensor *tokens, const icl_tensor *gram, const icl_tensor *query,
                      icl_error *error) {
    const bool is_gram = gram->buffer != NULL;
    icl_block *partial = NULL, *scratch = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_opencl_test_program(opencl, ICL_TESTED_LINEAR_TRANSFORMER, error));
    of->data = is_gram ? gram : tokens;
    of->query = query;
    if (!is_gram) {
        const size_t shape[] = {tokens->shape[0], tokens->shape[2]};
        of->last_token = icl_tensor_slice(*tokens, 1, tokens->shape[1] - 1, 1);
        of->last_token.rank = 2;
        of->last_token.shape[1] = shape[1];
        of->last_token.stride[1] = tokens->stride[2];
        of->query = &of->last_token;
    }
    const cut c = cut_of(opencl, params, of, is_gram);
    const size_t team = opencl->local_size, bytes = c.scratch_length * sizeof(cl_float);
    /* One team for each core of a CPU, because what it works on fills its cache. */
    const size_t most = opencl->lanes > 1 ? opencl->backend->capabilities.compute_units : opencl->max_items;
    const size_t fit = icl_opencl_items_with_scratch(opencl, c.units * team, bytes / team);
    const size_t items = fit < most ? fit : most;
    const size_t room = opencl->backend->capabilities.max_allocation - 64,
                 words = UINT32_MAX * sizeof(cl_float);
    if (bytes > (room < words ? room : words))
        return icl_fail(
            error, ICL_ERROR_MEMORY,
            "linear transformer: %zu layers of %zu heads for tokens of %zu coordinates need %zu bytes for "
            "each work-group, at most %zu fit into one buffer",
            params->depth, params->heads, (size_t)c.key.size, bytes, room < words ? room : words);
    ICL_TRY(icl_pool_take(opencl, items / team * bytes + 64, &scratch, error));
    if (of->gradient)
        ICL_TRY(icl_pool_take(opencl, (c.units * c.length + 16) * sizeof(cl_float), &partial, error));
    ICL_TRY(launch_teams(opencl, params, of, &c, partial ? partial->memory : scratch->memory, scratch->memory,
                         items, error));
    if (partial)
        ICL_TRY(launch_sum(opencl, params, of, &c, partial->memory, error));
done:
    icl_pool_give(opencl, partial);
    icl_pool_give(opencl, scratch);
    return status;
}

icl_status icl_opencl_linear_transformer_predict(icl_backend *backend, const void *params,
                                                 const icl_tensor *tensors, icl_error *error) {
    operands of = {.predictions = &tensors[0], .parameters = &tensors[1]};
    return run(icl_opencl_of(backend), params, &of, &tensors[2], &tensors[3], &tensors[4], error);
}

icl_status icl_opencl_linear_transformer_gradient(icl_backend *backend, const void *params,
                                                  const icl_tensor *tensors, icl_error *error) {
    operands of = {.predictions = &tensors[0],
                   .gradient = &tensors[1],
                   .norms = tensors[2].buffer ? &tensors[2] : NULL,
                   .parameters = &tensors[3],
                   .targets = &tensors[7],
                   .threshold = tensors[8].buffer ? &tensors[8] : NULL};
    return run(icl_opencl_of(backend), params, &of, &tensors[4], &tensors[5], &tensors[6], error);
}
