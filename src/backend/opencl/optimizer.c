/* Optimizer steps and the thresholds of clipping: cl/optimizer.cl. Constants are computed in double and rounded
 * once. */
#include <math.h>
#include <string.h>

#include "backend/opencl/launch.h"
#include "backend/opencl/ops.h"
#include "backend/opencl/pool.h"

/* Constants of Adam as cl/optimizer.cl takes them. */
typedef struct adam_constants {
    cl_float4 rates, moments;
    cl_float2 corrections;
} adam_constants;

static adam_constants adam_constants_of(const icl_adam_params *p) {
    return (adam_constants){
        .rates = {{(cl_float)p->learning_rate, (cl_float)(1 - p->learning_rate * p->weight_decay), (cl_float)p->epsilon,
                   0}},
        .moments = {{(cl_float)p->beta1, (cl_float)(1 - p->beta1), (cl_float)p->beta2, (cl_float)(1 - p->beta2)}},
        .corrections = {{(cl_float)(1 - pow(p->beta1, (double)p->step)),
                         (cl_float)(1 - pow(p->beta2, (double)p->step))}},
    };
}

static cl_float4 threshold_constants(double fraction, size_t count) {
    return (cl_float4){{(cl_float)ICL_THRESHOLD_FIRST, (cl_float)ICL_THRESHOLD_RATE, (cl_float)ICL_THRESHOLD_LEAP,
                        (cl_float)(1 / (fraction * (double)count))}};
}

icl_status icl_opencl_track_threshold(icl_backend *backend, const void *params, const icl_tensor *operands,
                                      icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const icl_tensor *norms = &operands[2];
    cl_mem threshold = icl_memory_of(&operands[0]), dropped = icl_memory_of(&operands[1]), norm = icl_memory_of(norms);
    const cl_uint threshold_offset = (cl_uint)operands[0].offset, dropped_offset = (cl_uint)operands[1].offset;
    const cl_uint norm_offset = (cl_uint)norms->offset, count = (cl_uint)norms->shape[0];
    const cl_int stride = (cl_int)norms->stride[0];
    const cl_float4 constants = threshold_constants(*(const double *)params, norms->shape[0]);
    return ICL_LAUNCH_ITEMS(opencl, ICL_KERNEL_track_threshold, opencl->local_size, error,
                            ICL_MEMORY_ARGUMENT(threshold), ICL_ARGUMENT(threshold_offset),
                            ICL_MEMORY_ARGUMENT(dropped), ICL_ARGUMENT(dropped_offset), ICL_MEMORY_ARGUMENT(norm),
                            ICL_ARGUMENT(norm_offset), ICL_ARGUMENT(stride), ICL_ARGUMENT(count),
                            ICL_ARGUMENT(constants));
}

/* ---- The end of a training step ---- */

enum { VECTORS = 9, SIZE_OF = 5, BATCH_OF = 6, NORMS_OF = 7, DECAYS = 8 }; /* operands; indices of the extents */

/* Without partial sums every work-group computes the whole norm, so one more group pays off only for this many
 * parameters. On GPUs fewer suffice as long as there are no more groups than compute units, which would be idle
 * otherwise. On CPUs more groups than units would only compute the norm more often. */
#define PARAMETERS_PER_GROUP 4096
#define FEW_PARAMETERS       256

static size_t groups_of(const icl_opencl *opencl, size_t parameters) {
    const size_t units = opencl->backend->capabilities.compute_units, least = parameters / PARAMETERS_PER_GROUP + 1;
    const size_t wanted = parameters / FEW_PARAMETERS + 1, groups = wanted < units ? wanted : units;
    if (opencl->lanes > 1)
        return least < units ? least : units;
    return groups > least ? groups : least;
}

/* From MANY_PARAMETERS on, GPUs first sum the squares of blocks of the gradient, in a launch of its own, and then only
 * add these sums. The length of a block depends on the number of parameters alone, and so do the bits. */
#define MANY_PARAMETERS 8192
#define SUM_LENGTH      64 /* of the sums of a block, as SUMS in cl/optimizer.cl */
#define MOST_BLOCKS     1024

static cl_uint block_length(size_t parameters) {
    cl_uint length = 8 * SUM_LENGTH;
    while (parameters / length >= MOST_BLOCKS)
        length *= 2;
    return length;
}

/* Sums the squares of the blocks of a gradient. The caller gives the block of memory back. */
static icl_status sum_blocks(icl_opencl *opencl, const icl_tensor *gradient, icl_block **partial, cl_uint *count,
                             icl_error *error) {
    cl_mem memory = icl_memory_of(gradient);
    const cl_uint size = (cl_uint)gradient->shape[0], offset = (cl_uint)gradient->offset, length = block_length(size);
    const cl_int stride = (cl_int)gradient->stride[0];
    const cl_uint blocks = (size - 1) / length + 1;

    *count = blocks;
    ICL_CHECK(icl_pool_take(opencl, blocks * sizeof(cl_float), partial, error));
    return ICL_LAUNCH(opencl, ICL_KERNEL_gradient_squares, blocks * opencl->local_size, error,
                      ICL_MEMORY_ARGUMENT((*partial)->memory), ICL_MEMORY_ARGUMENT(memory), ICL_ARGUMENT(offset),
                      ICL_ARGUMENT(stride), ICL_ARGUMENT(size), ICL_ARGUMENT(length),
                      ICL_GROUP_UNITS(blocks, 3 * length));
}

icl_status icl_opencl_update_step(icl_backend *backend, const void *params, const icl_tensor *operands,
                                  icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const icl_update_params *p = params;
    const bool is_adam = p->kind == ICL_UPDATE_ADAM, follows = operands[NORMS_OF].buffer != NULL;
    const size_t size = operands[SIZE_OF].shape[0], batch = operands[BATCH_OF].shape[0];
    const cl_uint4 sizes = {{(cl_uint)size, (cl_uint)batch, follows ? (cl_uint)batch : 0,
                             is_adam && operands[DECAYS].buffer ? 2 : is_adam}};
    const cl_float2 limits = {{(cl_float)p->clip, (cl_float)(1 / (double)batch)}};
    const cl_float4 constants = threshold_constants(follows ? p->fraction : 1, batch);
    adam_constants adam = {.rates = {{(cl_float)p->sgd.learning_rate, 0, 0, 0}},
                           .moments = {{(cl_float)p->sgd.momentum, 0, 0, 0}},
                           .corrections = {{1, 1}}};
    icl_argument arguments[VECTORS + 11];
    cl_mem memory[VECTORS];
    cl_uint8 offsets = {{0}};
    cl_int8 strides = {{0}};
    cl_int2 at_decays = {{0}};
    icl_block *partial = NULL;
    cl_uint partials = 0;
    icl_status status = ICL_OK;

    if (is_adam)
        adam = adam_constants_of(&p->adam);
    for (int i = 0; i < VECTORS; i++) { /* an absent operand is passed as any other memory */
        const icl_tensor *operand = i > 0 && !operands[i].buffer ? &operands[0] : &operands[i];
        memory[i] = icl_memory_of(operand);
        if (i == DECAYS) {
            at_decays = (cl_int2){{(cl_int)operand->offset, (cl_int)operand->stride[0]}};
        } else {
            offsets.s[i] = (cl_uint)operand->offset;
            strides.s[i] = (cl_int)operand->stride[0];
        }
        arguments[i] = ICL_MEMORY_ARGUMENT(memory[i]);
    }
    if (opencl->lanes == 1 && size >= MANY_PARAMETERS)
        ICL_TRY(sum_blocks(opencl, &operands[SIZE_OF], &partial, &partials, error));
    const icl_argument rest[11] = {ICL_ARGUMENT(offsets),
                                   ICL_ARGUMENT(strides),
                                   ICL_ARGUMENT(sizes),
                                   ICL_ARGUMENT(limits),
                                   ICL_ARGUMENT(adam.rates),
                                   ICL_ARGUMENT(adam.moments),
                                   ICL_ARGUMENT(adam.corrections),
                                   ICL_ARGUMENT(constants),
                                   ICL_ARGUMENT(at_decays),
                                   partial ? ICL_MEMORY_ARGUMENT(partial->memory) : ICL_MEMORY_ARGUMENT(memory[0]),
                                   ICL_ARGUMENT(partials)};
    memcpy(arguments + VECTORS, rest, sizeof rest);
    const size_t items = partials > 0 ? size : groups_of(opencl, size) * opencl->local_size;
    status = icl_opencl_launch_items(opencl, ICL_KERNEL_update_step, icl_opencl_items(opencl, items), arguments,
                                     VECTORS + 11, error);
done:
    icl_pool_give(opencl, partial);
    return status;
}
