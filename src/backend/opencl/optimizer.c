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

/* Every work-group computes the whole norm, so one more group pays off only for this many parameters. On GPUs fewer
 * suffice as long as there are no more groups than compute units, which would be idle otherwise. On CPUs more groups
 * than units would only compute the norm more often. */
#define PARAMETERS_PER_GROUP 4096
#define FEW_PARAMETERS       256

static size_t groups_of(const icl_opencl *opencl, size_t parameters) {
    const size_t units = opencl->backend->capabilities.compute_units, least = parameters / PARAMETERS_PER_GROUP + 1;
    const size_t wanted = parameters / FEW_PARAMETERS + 1, groups = wanted < units ? wanted : units;
    if (opencl->lanes > 1)
        return least < units ? least : units;
    return groups > least ? groups : least;
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
    icl_argument arguments[VECTORS + 9];
    cl_mem memory[VECTORS];
    cl_uint8 offsets = {{0}};
    cl_int8 strides = {{0}};
    cl_int2 at_decays = {{0}};

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
    const icl_argument rest[9] = {ICL_ARGUMENT(offsets),          ICL_ARGUMENT(strides),    ICL_ARGUMENT(sizes),
                                  ICL_ARGUMENT(limits),           ICL_ARGUMENT(adam.rates), ICL_ARGUMENT(adam.moments),
                                  ICL_ARGUMENT(adam.corrections), ICL_ARGUMENT(constants),  ICL_ARGUMENT(at_decays)};
    memcpy(arguments + VECTORS, rest, sizeof rest);
    const size_t groups = groups_of(opencl, size);
    return icl_opencl_launch_items(opencl, ICL_KERNEL_update_step,
                                   icl_opencl_items(opencl, groups * opencl->local_size), arguments, VECTORS + 9,
                                   error);
}
