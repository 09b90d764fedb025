/*
 * Which of a linear transformer's objects stand in local memory while a step runs.
 *
 * A team's objects (matrices, groups of vectors) take many times the local memory that lets a GPU hold enough teams. So
 * every object has its place in the team's scratch memory, which is "far", and the steps work on copies that are
 * "near". What is near is chosen as a compiler chooses registers: the steps are known, so the object whose next use is
 * the furthest gives way, and it is written back only where it was changed and is of use again. Only the results of
 * products may be written to far memory directly.
 */
#ifndef ICLAB_BACKEND_OPENCL_LINEAR_TRANSFORMER_PLACEMENT_H
#define ICLAB_BACKEND_OPENCL_LINEAR_TRANSFORMER_PLACEMENT_H

#include "backend/opencl/linear_transformer/operands.h"

typedef enum icl_linear_placed_kind {
    ICL_PLACED_STEP,
    ICL_PLACED_FETCH, /* `length` numbers from far to near */
    ICL_PLACED_KEEP,  /* and back */
} icl_linear_placed_kind;

/* What a step or a move reads or writes, with all that is counted as one object. */
typedef struct icl_linear_access {
    bool is_far, is_write;
    cl_uint at, length;
} icl_linear_access;

/* A step whose places are those of the memory that it finds its operands in, or numbers that move. */
typedef struct icl_linear_placed {
    icl_linear_placed_kind kind;
    bool meets; /* members wait for one another first: what they did since they last met is of concern here */
    step step;
    bool is_to_far, is_second_far; /* the result of a product; what it starts with, or its transpose */
    cl_uint near, far, length;
    icl_linear_access accesses[ICL_LINEAR_OPERANDS];
    size_t access_count;
} icl_linear_placed;

typedef struct icl_linear_placement {
    icl_linear_placed *placed;
    size_t count;
    cl_uint near_length, far_length; /* floats of a team */
} icl_linear_placement;

/*
 * Places the steps of a key in the least local memory that serves, at least `wanted` floats and at most `most`. An
 * empty placement, with a count of 0, says that `most` is too little. Freed by icl_linear_placement_clear.
 */
icl_status icl_linear_place(const icl_linear_key *key, cl_uint wanted, cl_uint most, icl_linear_placement *placement,
                            icl_error *error);
void icl_linear_placement_clear(icl_linear_placement *placement);

#endif
