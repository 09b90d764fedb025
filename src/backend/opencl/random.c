/* Random numbers, rows on spheres and Gram matrices of in-context regression problems: cl/random/. */
#include <string.h>

#include "backend/opencl/launch.h"
#include "backend/opencl/ops.h"
#include "backend/opencl/pool.h"
#include "iclab/ops_gram.h"

/* ---- Random numbers ---- */

#define NUMBER_WORK 30.0 /* approximate operations for a number */
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

/* ---- Rows on spheres ---- */

#define ELEMENT_WORK 8.0 /* approximate operations for an element */

/* spherical's operands. */
enum { OUT = 0, IN, NORMALS, TABLE };

icl_status icl_opencl_spherical(icl_backend *backend, const void *params, const icl_tensor *operands,
                                icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const cl_uint4 shape = icl_shape_of(&operands[OUT]);
    const cl_uint rows = shape.s[0] * shape.s[1] * shape.s[2], lanes = (cl_uint)opencl->lanes;
    const cl_uint units = (rows + lanes - 1) / lanes, has_radius = operands[TABLE].buffer != NULL;
    icl_view views[4];

    (void)params;
    for (int i = OUT; i <= TABLE; i++) /* an absent operand is passed as any other memory */
        views[i] = icl_view_of(operands[i].buffer ? &operands[i] : &operands[IN]);
    return ICL_LAUNCH(opencl, ICL_KERNEL_spherical, units, error, ICL_VIEW(views[OUT]), ICL_VIEW(views[IN]),
                      ICL_VIEW(views[NORMALS]), ICL_VIEW(views[TABLE]), ICL_ARGUMENT(shape), ICL_ARGUMENT(rows),
                      ICL_UNITS(units, ELEMENT_WORK * (double)(lanes * shape.s[3])), ICL_ARGUMENT(has_radius));
}

/* ---- Gram matrices ---- */

#define CHI_ROW 16 /* as in cl/random/gram.cl */

#define NORMAL_WORK 30.0 /* approximate operations for a normal number */

/* gram_sample's operands. */
enum { GRAM = 0, QUERY, TARGETS, WEIGHTS, NOISE, CHI, ROOTS };

/* The scratch memory of a sequence: see cl/random/gram.cl. */
typedef struct layout {
    cl_uint4 sizes, rows;
    cl_uint table_rows, rows_in_all;
} layout;

static layout layout_of(const icl_opencl *opencl, uint64_t context, const icl_tensor *gram, bool has_roots) {
    const size_t batch = gram->shape[0], extent = gram->shape[2], d = extent - 1;
    const size_t columns = context < extent ? (size_t)context : extent;
    const size_t entries = columns * (columns + 1) / 2 + (extent - columns) * columns;
    const size_t blocks = (entries + 2 * d + 1 + 3) / 4, normals = 4 * blocks;
    const size_t inputs = d * (d < columns ? d : columns) + columns; /* of F = R L */
    const size_t query = has_roots ? normals + inputs : entries;
    const size_t noise = has_roots ? query + 2 * d : normals;
    const size_t tables = columns * ICL_CHI_TERMS * CHI_ROW + (has_roots ? 2 * d * d : 0) + extent * extent + 2 * d;
    const bool lanes = opencl->lanes > 1;
    layout l = {.sizes = {{(cl_uint)batch, (cl_uint)d, (cl_uint)columns, (cl_uint)blocks}},
                .rows = {{has_roots ? (cl_uint)normals : 0, (cl_uint)query, (cl_uint)(query + d), (cl_uint)noise}}};
    l.table_rows = lanes ? (cl_uint)((tables + opencl->lanes - 1) / opencl->lanes) : 0;
    l.rows_in_all = l.table_rows + (cl_uint)(noise + 2 + (lanes ? extent * (extent + 1) / 2 : 0));
    return l;
}

icl_status icl_opencl_gram_sample(icl_backend *backend, const void *params, const icl_tensor *operands,
                                  icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const icl_gram_params *p = params;
    const icl_random_params *level = &p->noise_level;
    const cl_uint has_roots = operands[ROOTS].buffer != NULL;
    const layout l = layout_of(opencl, p->context, &operands[GRAM], has_roots);
    icl_view views[7];
    icl_status status = ICL_OK;
    icl_block *scratch = NULL;

    for (int i = 0; i < 7; i++) /* an absent operand is passed as any other memory */
        views[i] = icl_view_of(operands[i].buffer ? &operands[i] : &operands[CHI]);
    const cl_uint2 key = {{p->key.seed, p->key.stream}}, step = {{(cl_uint)p->key.step, (cl_uint)(p->key.step >> 32)}};
    const cl_uint distribution = (cl_uint)level->distribution, choice_count = level->choice_count;
    const cl_float2 range = {{level->low, level->high - level->low}};
    const size_t group_bytes = l.rows_in_all * opencl->lanes * sizeof(cl_float);
    const cl_uint groups = (cl_uint)((l.sizes.s[0] + opencl->lanes - 1) / opencl->lanes);
    const size_t items =
        icl_opencl_items_with_scratch(opencl, groups * opencl->local_size, group_bytes / opencl->local_size + 1);
    const double work =
        NORMAL_WORK * 4 * l.sizes.s[3] + (double)opencl->lanes * (2.0 * l.sizes.s[1] + 1) * l.sizes.s[1] * l.sizes.s[1];
    cl_float16 choices;
    ICL_TRY(icl_opencl_test_program(opencl, ICL_TESTED_GRAM, error));
    memcpy(&choices, level->choices, sizeof choices);
    ICL_TRY(icl_opencl_take_scratch(opencl, items, group_bytes, &scratch, error));
    ICL_TRY(ICL_LAUNCH_ITEMS(
        opencl, opencl->lanes > 1 ? ICL_KERNEL_gram_lanes : ICL_KERNEL_gram_groups, items, error, ICL_VIEW(views[GRAM]),
        ICL_VIEW(views[QUERY]), ICL_VIEW(views[TARGETS]), ICL_VIEW(views[WEIGHTS]), ICL_VIEW(views[NOISE]),
        ICL_VIEW(views[CHI]), ICL_VIEW(views[ROOTS]), ICL_ARGUMENT(has_roots), ICL_ARGUMENT(l.sizes),
        ICL_GROUP_UNITS(groups, work), ICL_ARGUMENT(l.rows), ICL_ARGUMENT(key), ICL_ARGUMENT(step),
        ICL_ARGUMENT(distribution), ICL_ARGUMENT(range), ICL_ARGUMENT(choice_count), ICL_ARGUMENT(choices),
        ICL_MEMORY_ARGUMENT(scratch->memory), ICL_ARGUMENT(l.rows_in_all), ICL_ARGUMENT(l.table_rows)));
done:
    icl_pool_give(opencl, scratch);
    return status;
}
