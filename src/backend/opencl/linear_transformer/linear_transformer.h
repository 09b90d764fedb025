/*
 * A linear transformer's steps as source text, which is put in front of linear_transformer.cl so that its kernel need
 * not read them, and the programs of steps that a backend has used.
 */
#ifndef ICLAB_BACKEND_OPENCL_LINEAR_TRANSFORMER_LINEAR_TRANSFORMER_H
#define ICLAB_BACKEND_OPENCL_LINEAR_TRANSFORMER_LINEAR_TRANSFORMER_H

#include "backend/opencl/linear_transformer/program.h"
#include "backend/opencl/pool.h"
#include "backend/opencl/program.h"
#include "iclab/text.h"

/* ---- Operands of steps (source.c) ---- */

#define ICL_LINEAR_OPERANDS 6 /* of a step, at most */

typedef struct icl_linear_operand {
    cl_uint *place;  /* in the step */
    bool is_read;    /* before anything is written */
    cl_uint written; /* elements */
    bool may_be_far; /* it need not be in local memory */
} icl_linear_operand;

/* Returns how many operands a step has. Parameters and gradients are not among them. */
size_t icl_linear_operands_of(icl_linear_step *s, icl_linear_operand operands[ICL_LINEAR_OPERANDS]);

/* ---- Placement: which objects are in local memory while a step runs ---- */

typedef enum icl_linear_placed_kind {
    ICL_PLACED_STEP,
    ICL_PLACED_FETCH, /* `length` numbers from far to near */
    ICL_PLACED_KEEP,  /* and back */
} icl_linear_placed_kind;

/* What a step or a move reads or writes, as a range of the whole object. */
typedef struct icl_linear_access {
    bool is_far, is_write;
    cl_uint at, length;
} icl_linear_access;

/* A step with the places where it finds its operands, or a move of numbers. */
typedef struct icl_linear_placed {
    icl_linear_placed_kind kind;
    bool meets; /* members wait for one another first */
    icl_linear_step step;
    bool is_to_far, is_second_far; /* in far memory: a product's result; its start, or transposed result */
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
 * empty placement, with a count of 0, means that `most` is too little. Freed by icl_linear_placement_clear.
 */
icl_status icl_linear_place(const icl_linear_key *key, cl_uint wanted, cl_uint most, icl_linear_placement *placement,
                            icl_error *error);
void icl_linear_placement_clear(icl_linear_placement *placement);

/* ---- Source text ---- */

/* Adds the definitions for the key and blocks of the cut. An empty text means that the interpreter serves better: there
 * are too many steps, or there is too little local memory. */
icl_status icl_linear_source(const icl_linear_cut *cut, size_t local_memory, icl_text *text, icl_error *error);

/* Bytes that suffice for the interpreter's definitions. */
#define ICL_LINEAR_DEFINITIONS 128

/* Writes the definitions in front of the interpreter, which say how it shares its work. */
void icl_linear_interpreter_definitions(const icl_linear_cut *cut, char definitions[ICL_LINEAR_DEFINITIONS]);

/* Returns `option`, which limits registers (see icl_opencl_register_option), for straight-line programs that are
 * compiled with it: NULL for diagonal parts, whose programs fit by themselves and, if limited, put numbers into
 * memory. */
const char *icl_linear_register_option(const icl_linear_key *key, const char *option);

/* ---- Programs ---- */

/* The steps of a key. They are kept, because writing them waits for the queue. After the steps on the device there is a
 * number, 0 at first, that the teams of a CPU count up when they ask for a unit. */
typedef struct icl_linear_program {
    icl_linear_key key;
    size_t steps;
    cl_uint given;    /* the value of that number once everything queued has run */
    bool is_lost;     /* the value is unknown, because a launch failed */
    icl_block *block; /* NULL: not written yet */
    size_t launches;  /* launches so far that could have been straight-line ones */
    icl_text text;    /* source of the straight-line program; empty: not made yet */
    bool is_refused;  /* the steps do not fit, the driver does not compile them, or they gave other bits */
    bool is_compared; /* its results were compared with the interpreter's */
    struct icl_linear_program *next;
} icl_linear_program;

typedef struct icl_linear {
    icl_linear_program *programs;
    size_t straight_launches; /* read by a test */
    bool has_complained;      /* that a driver does not compile a straight-line program */
    size_t wave;              /* work-items of a GPU that run in step: 32 or 64; 0: not asked yet */
} icl_linear;

/* Releases all programs. */
void icl_linear_programs_forget(icl_opencl *opencl);

#endif
