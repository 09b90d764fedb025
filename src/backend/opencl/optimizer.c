/* Clipping, its thresholds and optimizer steps: cl/optimizer.cl. Constants are computed in double and rounded once. */
#include <math.h>

#include "backend/opencl/opencl.h"

icl_status icl_opencl_clip(icl_backend *backend, const void *params, const icl_tensor *operands,
                           icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const icl_runs runs = icl_runs_of(opencl, operands, 1);
    cl_mem norm = icl_memory_of(&operands[1]);
    const cl_uint norm_offset = (cl_uint)operands[1].offset;
    const cl_float limit = (cl_float) * (const double *)params;
    return ICL_LAUNCH(opencl, ICL_KERNEL_clip_to_norm, runs.units, error, ICL_VIEW(runs.views[0]),
                      ICL_MEMORY_ARGUMENT(norm), ICL_ARGUMENT(norm_offset), ICL_RUNS(runs),
                      ICL_ARGUMENT(limit));
}

/* The optional norm of a step, and whether it is there. An absent one is passed as any other memory. */
typedef struct guard {
    cl_mem memory;
    cl_uint offset, present;
} guard;

static guard guard_of(const icl_tensor *operands, int norm) {
    if (!operands[norm].buffer)
        return (guard){.memory = icl_memory_of(&operands[0])};
    return (guard){icl_memory_of(&operands[norm]), (cl_uint)operands[norm].offset, 1};
}

#define ICL_GUARD(guard)                                                                                     \
    ICL_MEMORY_ARGUMENT((guard).memory), ICL_ARGUMENT((guard).offset), ICL_ARGUMENT((guard).present)

icl_status icl_opencl_adam_step(icl_backend *backend, const void *params, const icl_tensor *operands,
                                icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const icl_adam_params *p = params;
    const icl_runs runs = icl_runs_of(opencl, operands, 4);
    const guard norm = guard_of(operands, 4);
    const cl_float4 rates = {{(cl_float)p->learning_rate, (cl_float)(1 - p->learning_rate * p->weight_decay),
                              (cl_float)p->epsilon, 0}};
    const cl_float4 moments = {
        {(cl_float)p->beta1, (cl_float)(1 - p->beta1), (cl_float)p->beta2, (cl_float)(1 - p->beta2)}};
    const cl_float2 corrections = {
        {(cl_float)(1 - pow(p->beta1, (double)p->step)), (cl_float)(1 - pow(p->beta2, (double)p->step))}};
    return ICL_LAUNCH(opencl, ICL_KERNEL_adam, runs.units, error, ICL_VIEW(runs.views[0]),
                      ICL_VIEW(runs.views[1]), ICL_VIEW(runs.views[2]), ICL_VIEW(runs.views[3]),
                      ICL_GUARD(norm), ICL_RUNS(runs), ICL_ARGUMENT(rates), ICL_ARGUMENT(moments),
                      ICL_ARGUMENT(corrections));
}

icl_status icl_opencl_sgd_step(icl_backend *backend, const void *params, const icl_tensor *operands,
                               icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const icl_sgd_params *p = params;
    const icl_runs runs = icl_runs_of(opencl, operands, 3);
    const guard norm = guard_of(operands, 3);
    const cl_float rate = (cl_float)p->learning_rate, momentum = (cl_float)p->momentum;
    return ICL_LAUNCH(opencl, ICL_KERNEL_sgd, runs.units, error, ICL_VIEW(runs.views[0]),
                      ICL_VIEW(runs.views[1]), ICL_VIEW(runs.views[2]), ICL_GUARD(norm), ICL_RUNS(runs),
                      ICL_ARGUMENT(rate), ICL_ARGUMENT(momentum));
}

icl_status icl_opencl_track_threshold(icl_backend *backend, const void *params, const icl_tensor *operands,
                                      icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const icl_tensor *norms = &operands[2];
    cl_mem threshold = icl_memory_of(&operands[0]), dropped = icl_memory_of(&operands[1]),
           norm = icl_memory_of(norms);
    const cl_uint threshold_offset = (cl_uint)operands[0].offset,
                  dropped_offset = (cl_uint)operands[1].offset;
    const cl_uint norm_offset = (cl_uint)norms->offset, count = (cl_uint)norms->shape[0];
    const cl_int stride = (cl_int)norms->stride[0];
    const cl_float share_of_one = (cl_float)(1 / (*(const double *)params * (double)count));
    const cl_float4 constants = {{(cl_float)ICL_THRESHOLD_FIRST, (cl_float)ICL_THRESHOLD_RATE,
                                  (cl_float)ICL_THRESHOLD_LEAP, share_of_one}};
    return ICL_LAUNCH_ITEMS(opencl, ICL_KERNEL_track_threshold, opencl->local_size, error,
                            ICL_MEMORY_ARGUMENT(threshold), ICL_ARGUMENT(threshold_offset),
                            ICL_MEMORY_ARGUMENT(dropped), ICL_ARGUMENT(dropped_offset),
                            ICL_MEMORY_ARGUMENT(norm), ICL_ARGUMENT(norm_offset), ICL_ARGUMENT(stride),
                            ICL_ARGUMENT(count), ICL_ARGUMENT(constants));
}
