/* The steps of a linear transformer, and how its work is cut. linear_transformer.c launches them. */
#ifndef ICLAB_BACKEND_OPENCL_LINEAR_TRANSFORMER_PROGRAM_H
#define ICLAB_BACKEND_OPENCL_LINEAR_TRANSFORMER_PROGRAM_H

#include "backend/opencl/device.h"
#include "cl/linear_transformer/linear_steps.h"
#include "iclab/ops_linear_transformer.h"

/* How the kernel copies parameters; as in cl/linear_transformer/linear_transformer.cl. */
typedef enum icl_linear_copy {
    ICL_COPY_DENSE = 0,
    ICL_COPY_CORNER,
    ICL_COPY_DIAGONAL,
    ICL_COPY_SPARSE,
} icl_linear_copy;

/* Everything that the steps depend on. Keys are compared bytewise, so there is no padding. */
typedef struct icl_linear_key {
    cl_uint copy, size, depth, layers, heads; /* size: D */
    cl_uint pitch, sides;                     /* of a matrix of the team: its row stride, and its rows with padding */
    cl_uint shared_pitch, kept; /* of a dense part: its row stride, and its rows (and columns) that are parameters */
    cl_uint is_direct;          /* shared holds all layers, not only those in use */
    cl_uint is_short;           /* the second element of a diagonal Q is no parameter */
    cl_uint train, keep, tokens, scaled;
    cl_uint rows;        /* n + 1 if layers carry tokens on, 0 if they carry Gram matrices */
    cl_uint passes;      /* the layer before the last two is passed on to vectors, not carried on */
    cl_uint keeps_first; /* A G of the first layer is kept for the backward pass */
    cl_uint most_rows;   /* rows of tokens at a time; 0: as many as fit into the work memory of a layer */
} icl_linear_key;

/* Returns how many elements of the team's memory the steps work on. */
size_t icl_linear_state_length(const icl_linear_key *key);

/* A step as the device reads it. */
typedef struct icl_linear_step {
    cl_uint kind, mode;
    cl_uint to, to_row, to_column, a, a_row, a_column, b, b_row, b_column;
    cl_uint start, rows, columns, depth, extra;
} icl_linear_step;

_Static_assert(sizeof(icl_linear_step) == STEP_WORDS * sizeof(cl_uint), "cl/linear_transformer/linear_steps.h differs");

/* Steps, and the objects that they work on: matrices, and groups of vectors. Freed by icl_linear_steps_clear. */
typedef struct icl_linear_steps {
    icl_linear_step *steps; /* STEP_WORDS numbers each, followed by one step of zeros */
    size_t count;
    cl_uint *objects; /* where in the team's memory each begins, in ascending order, and where the last one ends */
    size_t object_count;
} icl_linear_steps;

/* Composes the steps of a key. */
icl_status icl_linear_compose(const icl_linear_key *key, icl_linear_steps *composed, icl_error *error);
void icl_linear_steps_clear(icl_linear_steps *composed);

/* ---- The cut into blocks, teams and units, and the memory that it needs (linear_transformer.c) ---- */

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
