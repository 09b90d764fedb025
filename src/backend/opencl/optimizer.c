/* Clipping and optimizer steps: cl/optimizer.cl. Constants are computed in double and rounded once. */
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

icl_status icl_opencl_adam_step(icl_backend *backend, const void *params, const icl_tensor *operands,
                                icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const icl_adam_params *p = params;
    const icl_runs runs = icl_runs_of(opencl, operands, 4);
    const cl_float4 rates = {{(cl_float)p->learning_rate, (cl_float)(1 - p->learning_rate * p->weight_decay),
                              (cl_float)p->epsilon, 0}};
    const cl_float4 moments = {
        {(cl_float)p->beta1, (cl_float)(1 - p->beta1), (cl_float)p->beta2, (cl_float)(1 - p->beta2)}};
    const cl_float2 corrections = {
        {(cl_float)(1 - pow(p->beta1, (double)p->step)), (cl_float)(1 - pow(p->beta2, (double)p->step))}};
    return ICL_LAUNCH(opencl, ICL_KERNEL_adam, runs.units, error, ICL_VIEW(runs.views[0]),
                      ICL_VIEW(runs.views[1]), ICL_VIEW(runs.views[2]), ICL_VIEW(runs.views[3]),
                      ICL_RUNS(runs), ICL_ARGUMENT(rates), ICL_ARGUMENT(moments), ICL_ARGUMENT(corrections));
}

icl_status icl_opencl_sgd_step(icl_backend *backend, const void *params, const icl_tensor *operands,
                               icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const icl_sgd_params *p = params;
    const icl_runs runs = icl_runs_of(opencl, operands, 3);
    const cl_float rate = (cl_float)p->learning_rate, momentum = (cl_float)p->momentum;
    return ICL_LAUNCH(opencl, ICL_KERNEL_sgd, runs.units, error, ICL_VIEW(runs.views[0]),
                      ICL_VIEW(runs.views[1]), ICL_VIEW(runs.views[2]), ICL_RUNS(runs), ICL_ARGUMENT(rate),
                      ICL_ARGUMENT(momentum));
}
