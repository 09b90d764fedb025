/* The steps of a linear transformer, which linear_transformer.c launches. */
#ifndef ICLAB_BACKEND_OPENCL_LINEAR_TRANSFORMER_PROGRAM_H
#define ICLAB_BACKEND_OPENCL_LINEAR_TRANSFORMER_PROGRAM_H

#include "backend/opencl/device.h"
#include "cl/linear_transformer/linear_steps.h"

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

#endif
