/* Random numbers: cl/random/random.cl. */
#include <string.h>

#include "backend/opencl/ops.h"
#include "backend/opencl/view.h"

#define NUMBER_WORK 30.0 /* operations for a number, about */
#define BLOCK       4    /* numbers of one Philox block */

icl_status icl_opencl_random_fill(icl_backend *backend, const void *params, const icl_tensor *operands,
                                  icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const icl_random_params *p = params;
    const icl_view view = icl_view_of(&operands[0]);
    const cl_uint4 shape = icl_shape_of(&operands[0]);
    const cl_uint contiguous = icl_tensor_is_contiguous(&operands[0]);
    const cl_uint count = (cl_uint)icl_tensor_count(&operands[0]);
    const cl_ulong first_block = p->first_index / BLOCK;
    const cl_uint skip = (cl_uint)(p->first_index % BLOCK), unit_length = (cl_uint)(BLOCK * opencl->lanes);
    const cl_uint units = (cl_uint)(((size_t)count + skip + unit_length - 1) / unit_length);
    const cl_uint seed = p->key.seed, stream = p->key.stream;
    const cl_uint2 step = {{(cl_uint)p->key.step, (cl_uint)(p->key.step >> 32)}};
    const cl_uint distribution = (cl_uint)p->distribution, choice_count = p->choice_count;
    const cl_float2 range = {{p->low, p->high - p->low}};
    cl_float16 choices;

    memcpy(&choices, p->choices, sizeof choices);
    return ICL_LAUNCH(opencl, ICL_KERNEL_random_fill, units, error, ICL_VIEW(view), ICL_ARGUMENT(shape),
                      ICL_ARGUMENT(contiguous), ICL_ARGUMENT(count),
                      ICL_UNITS(units, NUMBER_WORK * (double)unit_length), ICL_ARGUMENT(seed), ICL_ARGUMENT(stream),
                      ICL_ARGUMENT(step), ICL_ARGUMENT(first_block), ICL_ARGUMENT(skip), ICL_ARGUMENT(distribution),
                      ICL_ARGUMENT(range), ICL_ARGUMENT(choice_count), ICL_ARGUMENT(choices));
}
