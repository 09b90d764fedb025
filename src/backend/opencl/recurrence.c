/*
 * The recurrence with a matrix state: cl/recurrence/. On CPUs a work-item takes a head, or in the forward pass a block
 * of its value columns. On GPUs a work-group takes a block of columns, and if there are several blocks another kernel
 * adds up the sums over columns. In the forward pass some GPUs walk through chunks of tokens if there are several, else
 * token by token; in the backward pass it always walks token by token, from the same saved states.
 */
#include "backend/op_families.h"

#include <stdio.h>

#include "backend/call.h"
#include "backend/opencl/launch.h"
#include "backend/opencl/ops.h"
#include "backend/opencl/pool.h"

/* As in cl/recurrence/recurrence.h. */
enum {
    HAS_BETA = 1 << 0,
    HAS_READ_KEY = 1 << 1,
    HAS_STATE = 1 << 2,
    HAS_FINAL = 1 << 3,
    HAS_SAVED = 1 << 4,
    HAS_D_FINAL = 1 << 5,
    WANTS_FIRST = 8 /* the number of the first output's bit */
};

/* These constants are as in the kernels for GPUs. */
#define GROUP    64
#define PARTS    4
#define CHUNK    16  /* tokens */
#define MOST_KEY 256 /* coordinates; wider keys run on the host */

/* The widest keys of the kernels that take chunks; without and with a written key of its own. */
#define MOST_CHUNK_KEY  128
#define MOST_CHUNK_KEYS 64

#define LEFT_BYTES ((size_t)128 << 20) /* the most that kernels leave for others, unless a single head leaves more */

#define GAPS              (20 * 5 + 1) /* gaps in the scratch memory of the backward pass on CPUs */
#define MOST_VECTORS      4            /* the most vectors of value columns that a work-item takes forward */
#define VIEWS             (ICL_RECURRENCE_BACKWARD_INPUTS + ICL_RECURRENCE_INPUTS)
#define VIEW_PAIR(x, i)   ICL_VIEW((x)[i]), ICL_VIEW((x)[(i) + 1])
#define VIEW_QUAD(x, i)   VIEW_PAIR(x, i), VIEW_PAIR(x, (i) + 2)
#define INPUT_VIEWS(x, i) VIEW_QUAD(x, i), VIEW_QUAD(x, (i) + 4)

static size_t blocks_of(size_t count, size_t block) {
    return (count + block - 1) / block;
}

/* ---- How heads are cut, and programs for that ---- */

/* Returns how many vectors of value columns a work-item of a CPU takes in the forward pass. */
static size_t vectors_of(size_t n, size_t lanes) {
    const size_t groups = blocks_of(n, lanes);
    return blocks_of(groups, blocks_of(groups, MOST_VECTORS));
}

/* Returns how many vectors of four key coordinates a work-item holds in the forward pass: a power of two; PARTS
 * work-items share a column. */
static size_t rows_of(size_t m) {
    size_t rows = 1;
    while (4 * PARTS * rows < m)
        rows *= 2;
    return rows;
}

/* How a head's backward pass is cut: see cl/recurrence/recurrence_backward_tiles.cl. */
typedef struct cut {
    size_t quads, columns, group, blocks;
    size_t left; /* numbers that a token leaves for the kernel that sums */
} cut;

/* Cuts a head. Work-items hold as many columns as leave 64 of them with work, but at most four, because more do not fit
 * the registers. The kernel takes groups of 64 and less than 16 KiB, which every GPU has. */
static cut cut_of(const icl_recurrence_form *form) {
    const size_t sums = (size_t)form->delta + form->write_key + (form->decay == 2);
    cut c = {.quads = 4, .columns = 4, .left = (2 + sums) * form->m + 2};

    while (4 * c.quads < form->m)
        c.quads *= 2;
    while (c.columns > 2 && c.quads * blocks_of(form->n, c.columns) < 64)
        c.columns /= 2;
    c.group = 64;
    c.blocks = blocks_of(form->n, c.group / c.quads * c.columns);
    return c;
}

void icl_recurrence_options(const icl_recurrence_form *form, size_t lanes, char forward[ICL_RECURRENCE_OPTIONS],
                            char backward[ICL_RECURRENCE_OPTIONS]) {
    char both[64];

    snprintf(both, sizeof both, "-DDELTA=%d -DDECAY=%d -DWRITE_KEY=%d", form->delta, form->decay, form->write_key);
    if (lanes > 1) {
        snprintf(forward, ICL_RECURRENCE_OPTIONS, "%s -DVECTORS=%zu", both, vectors_of(form->n, lanes));
        snprintf(backward, ICL_RECURRENCE_OPTIONS, "%s", both);
    } else {
        const cut c = cut_of(form);
        snprintf(forward, ICL_RECURRENCE_OPTIONS, "%s -DROWS=%zu", both, rows_of(form->m));
        snprintf(backward, ICL_RECURRENCE_OPTIONS, "%s -DQUADS=%zu -DGROUP=%zu -DCOLUMNS=%zu", both, c.quads, c.group,
                 c.columns);
    }
}

/* Wider keys, and keys of more than 64 coordinates with a written key of their own, need more registers than a
 * work-item has. With one channel the delta term may shrink the whole state, but not a sum over a chunk's tokens, whose
 * error then has no bound. */
bool icl_recurrence_serves_chunks(const icl_recurrence_form *form) {
    return form->m > 1 && form->m <= (form->write_key ? MOST_CHUNK_KEYS : MOST_CHUNK_KEY);
}

/* ---- Calls ---- */

/* One call: its extents, what its kernels are compiled with, and their arguments. */
typedef struct call {
    icl_opencl *opencl;
    icl_view views[VIEWS];
    icl_recurrence_form form;
    size_t heads; /* of all batches */
    double work;  /* operations of one pass over the state of a head */
    cl_uint4 sizes;
    cl_uint present;
    cl_float scale;
    char forward[ICL_RECURRENCE_OPTIONS], backward[ICL_RECURRENCE_OPTIONS];
} call;

static unsigned bit_if(const icl_tensor *operand, unsigned bit) {
    return operand->buffer ? bit : 0;
}

/* Describes a call. in: the inputs among the operands; an absent operand is passed as any other memory. */
static call call_of(icl_opencl *opencl, const icl_recurrence_params *params, const icl_tensor *operands, int count,
                    const icl_tensor *in) {
    const icl_tensor *v = &in[ICL_RECURRENCE_V], *decay = &in[ICL_RECURRENCE_DECAY];
    const size_t tokens = v->shape[2], m = in[ICL_RECURRENCE_K].shape[3], n = v->shape[3];
    call x = {.opencl = opencl, .heads = v->shape[0] * v->shape[1]};

    for (int i = 0; i < count; i++)
        x.views[i] = icl_view_of(operands[i].buffer ? &operands[i] : v);
    x.form = (icl_recurrence_form){.delta = params->delta,
                                   .decay = !decay->buffer         ? 0
                                            : decay->shape[3] == 1 ? 1
                                                                   : 2,
                                   .write_key = in[ICL_RECURRENCE_WRITE_KEY].buffer != NULL,
                                   .m = m,
                                   .n = n};
    icl_recurrence_options(&x.form, opencl->lanes, x.forward, x.backward);
    x.work = 2.0 * (double)tokens * (double)m * (double)n;
    x.sizes = (cl_uint4){{(cl_uint)v->shape[1], (cl_uint)tokens, (cl_uint)m, (cl_uint)n}};
    x.scale = (cl_float)params->scale;
    x.present = bit_if(&in[ICL_RECURRENCE_BETA], HAS_BETA) | bit_if(&in[ICL_RECURRENCE_READ_KEY], HAS_READ_KEY) |
                bit_if(&in[ICL_RECURRENCE_STATE], HAS_STATE);
    return x;
}

/* ---- CPUs ---- */

static icl_status forward_lanes(const call *request, icl_error *error) {
    icl_opencl *opencl = request->opencl;
    const size_t lanes = opencl->lanes, m = request->form.m, vectors = vectors_of(request->form.n, lanes);
    const size_t longest = m > ICL_RECURRENCE_SEGMENT ? m : ICL_RECURRENCE_SEGMENT;
    const cl_uint blocks = (cl_uint)blocks_of(request->form.n, vectors * lanes);
    const cl_uint padded = (cl_uint)(blocks_of(longest, lanes) * lanes), units = (cl_uint)request->heads * blocks;
    const cl_uint rows = (cl_uint)(m * vectors + 6 * padded / lanes);
    const size_t row_bytes = lanes * sizeof(cl_float),
                 items = icl_opencl_items_with_scratch(opencl, units, rows * row_bytes);
    const icl_specialization special = {.options = request->forward};
    icl_status status = ICL_OK;
    icl_block *scratch = NULL;

    ICL_TRY(icl_opencl_take_scratch(opencl, items, rows * row_bytes, &scratch, error));
    ICL_TRY(ICL_LAUNCH_WITH(opencl, ICL_KERNEL_recurrence_forward_lanes, &special, items, error,
                            VIEW_QUAD(request->views, 0), INPUT_VIEWS(request->views, ICL_RECURRENCE_FORWARD_INPUTS),
                            ICL_ARGUMENT(request->sizes), ICL_ARGUMENT(request->present), ICL_ARGUMENT(request->scale),
                            ICL_ARGUMENT(blocks), ICL_UNITS(units, 3 * request->work / blocks),
                            ICL_MEMORY_ARGUMENT(scratch->memory), ICL_ARGUMENT(rows), ICL_ARGUMENT(padded)));
done:
    icl_pool_give(opencl, scratch);
    return status;
}

static icl_status backward_lanes(const call *request, icl_error *error) {
    icl_opencl *opencl = request->opencl;
    const size_t lanes = opencl->lanes, width = blocks_of(request->form.m, lanes),
                 columns = blocks_of(request->form.n, lanes) * lanes;
    const cl_uint units = (cl_uint)request->heads;
    const cl_uint rows = (cl_uint)(width * (columns + lanes) + ICL_RECURRENCE_SEGMENT * (11 * width + 6) + GAPS +
                                   (request->form.decay > 0 ? ICL_RECURRENCE_SEGMENT * width * lanes : 0));
    const size_t row_bytes = lanes * sizeof(cl_float),
                 items = icl_opencl_items_with_scratch(opencl, units, rows * row_bytes);
    const icl_specialization special = {.options = request->backward};
    icl_status status = ICL_OK;
    icl_block *scratch = NULL;

    ICL_TRY(icl_opencl_take_scratch(opencl, items, rows * row_bytes, &scratch, error));
    ICL_TRY(ICL_LAUNCH_WITH(opencl, ICL_KERNEL_recurrence_backward_lanes, &special, items, error,
                            INPUT_VIEWS(request->views, 0), VIEW_QUAD(request->views, ICL_RECURRENCE_BACKWARD_D_OUT),
                            ICL_VIEW(request->views[ICL_RECURRENCE_BACKWARD_STATES]),
                            INPUT_VIEWS(request->views, ICL_RECURRENCE_BACKWARD_INPUTS), ICL_ARGUMENT(request->sizes),
                            ICL_ARGUMENT(request->present), ICL_ARGUMENT(request->scale),
                            ICL_UNITS(units, 8 * request->work), ICL_MEMORY_ARGUMENT(scratch->memory),
                            ICL_ARGUMENT(rows)));
done:
    icl_pool_give(opencl, scratch);
    return status;
}

/* ---- GPUs ---- */

static icl_status forward_tiles(const call *request, icl_error *error) {
    icl_opencl *opencl = request->opencl;
    const cl_uint blocks = (cl_uint)blocks_of(request->form.n, GROUP / PARTS), units = (cl_uint)request->heads * blocks;
    const icl_specialization special = {.options = request->forward};

    return ICL_LAUNCH_WITH(opencl, ICL_KERNEL_recurrence_forward_tiles, &special,
                           icl_opencl_items(opencl, (size_t)units * GROUP), error, VIEW_QUAD(request->views, 0),
                           INPUT_VIEWS(request->views, ICL_RECURRENCE_FORWARD_INPUTS), ICL_ARGUMENT(request->sizes),
                           ICL_ARGUMENT(request->present), ICL_ARGUMENT(request->scale), ICL_ARGUMENT(blocks),
                           ICL_GROUP_UNITS(units, 3 * request->work / blocks));
}

/* Returns how many heads a launch takes if each leaves head_bytes for another kernel. */
static size_t heads_at_once(const call *request, size_t head_bytes) {
    const size_t most = request->opencl->backend->capabilities.max_allocation,
                 limit = most < LEFT_BYTES ? most : LEFT_BYTES;
    const size_t fit = head_bytes > 0 ? limit / head_bytes : request->heads;
    return fit < 1 ? 1 : fit < request->heads ? fit : request->heads;
}

/* Returns the bytes that recurrence_chunk_products leaves of a head: matrices of each of its chunks, and factors of
 * tokens. */
static size_t products_bytes(const call *request) {
    const size_t matrices = 1 + (size_t)request->form.delta + 2 * (size_t)request->form.write_key;
    const size_t factors = request->form.decay == 1 ? 2 * CHUNK : 0;
    return blocks_of(request->sizes.s[1], CHUNK) * (matrices * CHUNK * CHUNK + factors) * sizeof(cl_float);
}

static bool takes_chunks(const call *request) {
    const size_t tokens = request->sizes.s[1];
    return tokens > 0 && icl_opencl_choose(request->opencl, ICL_CHOICE_RECURRENCE, tokens) == ICL_WALK_BY_CHUNKS &&
           icl_recurrence_serves_chunks(&request->form) &&
           products_bytes(request) <= request->opencl->backend->capabilities.max_allocation;
}

/* Runs the heads [first, first + count) forward. products: memory for the products of their chunks. */
static icl_status forward_heads(const call *request, size_t first, size_t count, const icl_block *products,
                                icl_error *error) {
    icl_opencl *opencl = request->opencl;
    const icl_view *in = &request->views[ICL_RECURRENCE_FORWARD_INPUTS];
    const cl_uint blocks = (cl_uint)blocks_of(request->form.n, GROUP / PARTS), heads = (cl_uint)count,
                  first_head = (cl_uint)first, chunks = (cl_uint)blocks_of(request->sizes.s[1], CHUNK);
    const cl_uint all_chunks = heads * chunks, units = heads * blocks;
    const icl_specialization special = {.options = request->forward};
    icl_status status = ICL_OK;

    ICL_TRY(ICL_LAUNCH_WITH(
        opencl, ICL_KERNEL_recurrence_chunk_products, &special, icl_opencl_items(opencl, (size_t)all_chunks * GROUP),
        error, VIEW_PAIR(in, ICL_RECURRENCE_Q), VIEW_PAIR(in + ICL_RECURRENCE_DECAY, 0),
        ICL_VIEW(in[ICL_RECURRENCE_WRITE_KEY]), ICL_ARGUMENT(request->sizes), ICL_ARGUMENT(request->present),
        ICL_ARGUMENT(chunks), ICL_GROUP_UNITS(all_chunks, 8.0 * CHUNK * CHUNK * (double)request->form.m),
        ICL_ARGUMENT(first_head), ICL_MEMORY_ARGUMENT(products->memory)));
    ICL_TRY(ICL_LAUNCH_WITH(opencl, ICL_KERNEL_recurrence_forward_chunks, &special,
                            icl_opencl_items(opencl, (size_t)units * GROUP), error, VIEW_QUAD(request->views, 0),
                            INPUT_VIEWS(request->views, ICL_RECURRENCE_FORWARD_INPUTS), ICL_ARGUMENT(request->sizes),
                            ICL_ARGUMENT(request->present), ICL_ARGUMENT(request->scale), ICL_ARGUMENT(blocks),
                            ICL_GROUP_UNITS(units, 3 * request->work / blocks), ICL_ARGUMENT(first_head),
                            ICL_ARGUMENT(chunks), ICL_MEMORY_ARGUMENT(products->memory)));
done:
    return status;
}

static icl_status forward_chunks(const call *request, icl_error *error) {
    const size_t head_bytes = products_bytes(request), heads = heads_at_once(request, head_bytes);
    icl_status status = ICL_OK;
    icl_block *products = NULL;

    ICL_TRY(icl_pool_take(request->opencl, heads * head_bytes, &products, error));
    for (size_t first = 0; first < request->heads; first += heads)
        ICL_TRY(forward_heads(request, first, first + heads < request->heads ? heads : request->heads - first, products,
                              error));
done:
    icl_pool_give(request->opencl, products);
    return status;
}

/* Runs the heads [first, first + count) backward. lefts: memory for the numbers that their blocks leave. */
static icl_status backward_heads(const call *request, const cut *c, size_t first, size_t count, const icl_block *lefts,
                                 const icl_specialization *special, icl_error *error) {
    icl_opencl *opencl = request->opencl;
    const cl_uint blocks = (cl_uint)c->blocks, heads = (cl_uint)count, first_head = (cl_uint)first;
    const cl_uint units = heads * blocks, sums = heads * request->sizes.s[1] * (cl_uint)c->left;
    const size_t kept_bytes = request->form.decay > 0 ? c->columns * ICL_RECURRENCE_SEGMENT * 4 * sizeof(cl_float) : 0;
    const size_t most = icl_opencl_items_with_scratch(opencl, units * c->group, kept_bytes);
    const size_t items = most > c->group ? most / c->group * c->group : c->group;
    const icl_view *v = &request->views[ICL_RECURRENCE_BACKWARD_INPUTS + ICL_RECURRENCE_V]; /* for what is not there */
    icl_status status = ICL_OK;
    icl_block *scratch = NULL;

    if (request->form.decay > 0)
        ICL_TRY(icl_opencl_take_scratch(opencl, items, kept_bytes * opencl->local_size, &scratch, error));
    cl_mem kept = scratch ? scratch->memory : v->memory, left = lefts ? lefts->memory : v->memory;
    ICL_TRY(ICL_LAUNCH_WITH(opencl, ICL_KERNEL_recurrence_backward_tiles, special, items, error,
                            INPUT_VIEWS(request->views, 0), VIEW_QUAD(request->views, ICL_RECURRENCE_BACKWARD_D_OUT),
                            ICL_VIEW(request->views[ICL_RECURRENCE_BACKWARD_STATES]),
                            INPUT_VIEWS(request->views, ICL_RECURRENCE_BACKWARD_INPUTS), ICL_ARGUMENT(request->sizes),
                            ICL_ARGUMENT(request->present), ICL_ARGUMENT(request->scale), ICL_ARGUMENT(blocks),
                            ICL_GROUP_UNITS(units, 8 * request->work / blocks), ICL_ARGUMENT(first_head),
                            ICL_ARGUMENT(heads), ICL_MEMORY_ARGUMENT(left), ICL_MEMORY_ARGUMENT(kept)));
    if (lefts)
        ICL_TRY(ICL_LAUNCH_WITH(opencl, ICL_KERNEL_recurrence_backward_sum, special, icl_opencl_items(opencl, sums),
                                error, INPUT_VIEWS(request->views, 0), ICL_ARGUMENT(request->sizes),
                                ICL_ARGUMENT(request->present), ICL_ARGUMENT(blocks), ICL_UNITS(sums, blocks),
                                ICL_ARGUMENT(first_head), ICL_ARGUMENT(heads), ICL_MEMORY_ARGUMENT(left)));
done:
    icl_pool_give(opencl, scratch);
    return status;
}

static icl_status backward_tiles(const call *request, icl_error *error) {
    const cut c = cut_of(&request->form);
    const size_t head_bytes = c.blocks > 1 ? c.blocks * request->sizes.s[1] * c.left * sizeof(cl_float) : 0;
    const size_t heads = heads_at_once(request, head_bytes);
    const icl_specialization special = {.options = request->backward};
    icl_status status = ICL_OK;
    icl_block *lefts = NULL;

    if (head_bytes > 0)
        ICL_TRY(icl_pool_take(request->opencl, heads * head_bytes, &lefts, error));
    for (size_t first = 0; first < request->heads; first += heads)
        ICL_TRY(backward_heads(request, &c, first, first + heads < request->heads ? heads : request->heads - first,
                               lefts, &special, error));
done:
    icl_pool_give(request->opencl, lefts);
    return status;
}

/* ---- From rows ---- */

/* Launches the row pass of CPUs; a unit is a segment of a head. */
static icl_status forward_row_lanes(const call *request, icl_error *error) {
    icl_opencl *opencl = request->opencl;
    const icl_view *views = request->views, *in = &views[ICL_RECURRENCE_FORWARD_INPUTS];
    const size_t lanes = opencl->lanes, vectors = blocks_of(request->form.n, lanes);
    const cl_uint segments = (cl_uint)blocks_of(request->sizes.s[1], ICL_RECURRENCE_SEGMENT);
    const cl_uint units = (cl_uint)request->heads * segments;
    const cl_uint rows = (cl_uint)((3 * ICL_RECURRENCE_SEGMENT + lanes) * vectors);
    const size_t row_bytes = lanes * sizeof(cl_float),
                 items = icl_opencl_items_with_scratch(opencl, units, rows * row_bytes);
    const icl_specialization special = {.options = request->forward};
    icl_status status = ICL_OK;
    icl_block *scratch = NULL;

    ICL_TRY(icl_opencl_take_scratch(opencl, items, rows * row_bytes, &scratch, error));
    ICL_TRY(ICL_LAUNCH_WITH(
        opencl, ICL_KERNEL_recurrence_rows_lanes, &special, items, error, ICL_VIEW(views[ICL_RECURRENCE_OUT]),
        VIEW_PAIR(views, ICL_RECURRENCE_READS), VIEW_QUAD(in, ICL_RECURRENCE_Q), ICL_VIEW(in[ICL_RECURRENCE_DECAY]),
        ICL_VIEW(in[ICL_RECURRENCE_WRITE_KEY]), ICL_ARGUMENT(request->sizes), ICL_ARGUMENT(request->present),
        ICL_ARGUMENT(request->scale), ICL_ARGUMENT(segments), ICL_UNITS(units, 2 * request->work / segments),
        ICL_MEMORY_ARGUMENT(scratch->memory), ICL_ARGUMENT(rows)));
done:
    icl_pool_give(opencl, scratch);
    return status;
}

/* Launches the row pass of GPUs; a unit is a row of the state in one segment. */
static icl_status forward_rows(const call *request, icl_error *error) {
    icl_opencl *opencl = request->opencl;
    const icl_view *views = request->views, *in = &views[ICL_RECURRENCE_FORWARD_INPUTS];
    const cl_uint segments = (cl_uint)blocks_of(request->sizes.s[1], ICL_RECURRENCE_SEGMENT);
    const cl_uint units = (cl_uint)(request->heads * segments * request->form.m);
    const icl_specialization special = {.options = request->forward};

    return ICL_LAUNCH_WITH(opencl, ICL_KERNEL_recurrence_rows, &special, icl_opencl_items(opencl, units), error,
                           ICL_VIEW(views[ICL_RECURRENCE_OUT]), VIEW_PAIR(views, ICL_RECURRENCE_READS),
                           VIEW_QUAD(in, ICL_RECURRENCE_Q), ICL_VIEW(in[ICL_RECURRENCE_DECAY]),
                           ICL_VIEW(in[ICL_RECURRENCE_WRITE_KEY]), ICL_ARGUMENT(request->sizes),
                           ICL_ARGUMENT(request->present), ICL_ARGUMENT(request->scale), ICL_ARGUMENT(segments),
                           ICL_UNITS(units, 2.0 * ICL_RECURRENCE_SEGMENT * (double)request->form.n));
}

/* ---- The ops ---- */

icl_status icl_opencl_recurrence_forward(icl_backend *backend, const void *params, const icl_tensor *operands,
                                         icl_error *error) {
    const icl_tensor *in = operands + ICL_RECURRENCE_FORWARD_INPUTS;
    icl_opencl *opencl = icl_opencl_of(backend);
    call x = call_of(opencl, params, operands, ICL_RECURRENCE_FORWARD_INPUTS + ICL_RECURRENCE_INPUTS, in);

    x.present |=
        bit_if(&operands[ICL_RECURRENCE_FINAL], HAS_FINAL) | bit_if(&operands[ICL_RECURRENCE_STATES], HAS_SAVED);
    ICL_CHECK(icl_opencl_test_program(opencl, ICL_TESTED_RECURRENCE, error));
    if (((const icl_recurrence_params *)params)->from_rows)
        return opencl->lanes > 1 ? forward_row_lanes(&x, error) : forward_rows(&x, error);
    if (opencl->lanes > 1)
        return forward_lanes(&x, error);
    if (x.form.m > MOST_KEY)
        return icl_dispatch_to_host(backend, ICL_OP_recurrence_forward, params, operands, error);
    return takes_chunks(&x) ? forward_chunks(&x, error) : forward_tiles(&x, error);
}

icl_status icl_opencl_recurrence_backward(icl_backend *backend, const void *params, const icl_tensor *operands,
                                          icl_error *error) {
    const icl_tensor *in = operands + ICL_RECURRENCE_BACKWARD_INPUTS;
    icl_opencl *opencl = icl_opencl_of(backend);
    call x = call_of(opencl, params, operands, VIEWS, in);

    x.present |= bit_if(&operands[ICL_RECURRENCE_BACKWARD_D_FINAL], HAS_D_FINAL);
    for (unsigned i = 0; i < ICL_RECURRENCE_INPUTS; i++)
        x.present |= bit_if(&operands[i], 1U << (WANTS_FIRST + i));
    ICL_CHECK(icl_opencl_test_program(opencl, ICL_TESTED_RECURRENCE_GRADIENT, error));
    if (opencl->lanes > 1)
        return backward_lanes(&x, error);
    if (x.form.m > MOST_KEY)
        return icl_dispatch_to_host(backend, ICL_OP_recurrence_backward, params, operands, error);
    return backward_tiles(&x, error);
}
