/*
 * A linear transformer's steps as source text: what stands in front of linear_transformer.cl where its kernel need not
 * read them. Before that, which objects stand in local memory while a step runs.
 */
#ifndef ICLAB_BACKEND_OPENCL_LINEAR_TRANSFORMER_SOURCE_H
#define ICLAB_BACKEND_OPENCL_LINEAR_TRANSFORMER_SOURCE_H

#include "backend/opencl/linear_transformer/cut.h"
#include "iclab/text.h"

/* ---- Operands of steps ---- */

#define ICL_LINEAR_OPERANDS 6 /* of a step, at most */

typedef struct icl_linear_operand {
    cl_uint *place;  /* in the step */
    bool is_read;    /* before anything is written */
    cl_uint written; /* elements */
    bool may_be_far; /* it need not stand in local memory */
} icl_linear_operand;

/* Returns how many there are. Parameters and gradients are not among them. */
size_t icl_linear_operands_of(icl_linear_step *s, icl_linear_operand operands[ICL_LINEAR_OPERANDS]);

/* ---- Placement ---- */

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
    icl_linear_step step;
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

/* ---- Source text ---- */

/* Adds the definitions for the key and blocks of the cut. An empty text says that the interpreter serves better: too
 * many steps, or too little local memory. *far_length: floats that a team needs in its scratch memory for the steps. */
icl_status icl_linear_source(const icl_linear_cut *cut, size_t local_memory, icl_text *text, icl_error *error);

/* Bytes that are enough for the interpreter's definitions. */
#define ICL_LINEAR_DEFINITIONS 128

/* Writes what stands in front of the interpreter: how it shares its work. */
void icl_linear_interpreter_definitions(const icl_linear_cut *cut, char definitions[ICL_LINEAR_DEFINITIONS]);

/* Returns what a straight-line program is compiled with of an option that limits registers (see
 * icl_opencl_register_option): NULL for diagonal parts, whose programs fit by themselves and, when limited, put numbers
 * into memory. */
const char *icl_linear_register_option(const icl_linear_key *key, const char *option);

#endif
