/* How the work of a linear transformer is cut into blocks, teams and units, and what memory it needs. */
#ifndef ICLAB_BACKEND_OPENCL_LINEAR_TRANSFORMER_CUT_H
#define ICLAB_BACKEND_OPENCL_LINEAR_TRANSFORMER_CUT_H

#include "backend/opencl/linear_transformer/program.h"
#include "iclab/ops_linear_transformer.h"

/* As in cl/linear_transformer/linear_transformer.cl. */
#define ICL_LINEAR_TRAIN  1u
#define ICL_LINEAR_CLIP   2u
#define ICL_LINEAR_EXPAND 4u
#define ICL_LINEAR_CLEAR  8u
#define ICL_LINEAR_NORMS  16u

#define ICL_LINEAR_PADDING                                                                                             \
    16 /* floats after the teams' scratch memory and the units' sums, which kernels may read past */

/* Everything that the cut follows from. */
typedef struct icl_linear_job {
    const icl_linear_transformer_params *params;
    size_t size, batch;
    size_t rows; /* n + 1 rows of tokens; 0: Gram matrices */
    bool train, clips, has_norms;
    bool is_contiguous; /* the parameters are contiguous */
    bool is_straight;   /* for a straight-line program, which works in scratch memory instead of local memory */
    size_t lanes, wave; /* work-items of a GPU that run in step: 32 or 64 */
    size_t local_memory, max_allocation;
} icl_linear_job;

typedef struct icl_linear_cut {
    icl_linear_key key;
    size_t team;                          /* work-items that share a sequence */
    size_t rows, columns;                 /* of a block of sums */
    size_t p_size, q_size;                /* parameters of P and of Q */
    size_t part_length;                   /* elements of a part's gradient */
    size_t length;                        /* of all of them */
    size_t expanded_length, state_length; /* floats of a team: its copy of parameters, and the memory of the steps */
    size_t scratch_length;                /* floats of a team in global memory */
    size_t per_unit, units;               /* groups of a unit */
    size_t most_teams;                    /* as many as have scratch memory that the kernel can address */
    bool is_local;                        /* the interpreter's steps work in local memory */
    cl_uint flags;
} icl_linear_cut;

/* Fails if a team's scratch memory or a unit's gradient is more than can be addressed, or than the device allows in one
 * buffer. */
icl_status icl_linear_cut_of(const icl_linear_job *job, icl_linear_cut *cut, icl_error *error);

#endif
