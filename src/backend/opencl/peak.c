/* What the device could do at best: cl/peak.cl. */
#include "backend/opencl/launch.h"
#include "backend/opencl/ops.h"
#include "backend/opencl/pool.h"

static icl_status multiply_add(icl_opencl *opencl, cl_uint rounds, const icl_tensor *out, double *amount,
                               icl_error *error) {
    const size_t group = opencl->local_size, room = out->shape[0] / opencl->lanes / group * group;
    const size_t items = opencl->max_items < room ? opencl->max_items : room;
    const cl_float f = 0.75F, g = 0.5F;
    cl_mem memory = icl_memory_of(out);

    *amount = 24.0 * (double)opencl->lanes * (double)rounds * (double)items;
    return ICL_LAUNCH_ITEMS(opencl, ICL_KERNEL_peak_multiply_add, items, error, ICL_MEMORY_ARGUMENT(memory),
                            ICL_ARGUMENT(rounds), ICL_ARGUMENT(f), ICL_ARGUMENT(g));
}

static icl_status triad(icl_opencl *opencl, cl_uint rounds, const icl_tensor *operands, double *amount,
                        icl_error *error) {
    const cl_uint count = (cl_uint)(operands[0].shape[0] / opencl->lanes);
    cl_mem a = icl_memory_of(&operands[0]), b = icl_memory_of(&operands[1]), c = icl_memory_of(&operands[2]);
    const cl_float s = 0.5F;

    *amount = 3.0 * sizeof(cl_float) * (double)opencl->lanes * (double)count * (double)rounds;
    return ICL_LAUNCH(opencl, ICL_KERNEL_peak_triad, count, error, ICL_MEMORY_ARGUMENT(a), ICL_MEMORY_ARGUMENT(b),
                      ICL_MEMORY_ARGUMENT(c), ICL_ARGUMENT(s), ICL_ARGUMENT(count), ICL_ARGUMENT(rounds));
}

/* A device has one instruction set and all of its units. */
icl_status icl_opencl_peak(icl_backend *backend, const icl_peak_params *params, const icl_tensor *operands,
                           double *amount, icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const cl_uint rounds = params->rounds < UINT32_MAX ? (cl_uint)params->rounds : UINT32_MAX;

    *amount = 0;
    if (params->isa != ICL_PEAK_WIDEST || params->threads > 0)
        return ICL_OK;
    return params->kind == ICL_PEAK_MULTIPLY_ADD ? multiply_add(opencl, rounds, operands, amount, error)
                                                 : triad(opencl, rounds, operands, amount, error);
}
