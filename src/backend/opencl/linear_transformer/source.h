/* A linear transformer's steps as source text: what stands in front of linear_transformer.cl where its
 * kernel need not read them. */
#ifndef ICLAB_BACKEND_OPENCL_LINEAR_TRANSFORMER_SOURCE_H
#define ICLAB_BACKEND_OPENCL_LINEAR_TRANSFORMER_SOURCE_H

#include "backend/opencl/linear_transformer/cut.h"
#include "iclab/text.h"

/* Adds the definitions for the key and blocks of the cut. An empty text says that the interpreter serves better: too
 * many steps, or too little local memory. *far_length: floats that a team needs in its scratch memory for the steps. */
icl_status icl_linear_source(const icl_linear_cut *cut, size_t local_memory, icl_text *text, icl_error *error);

/* Enough for the interpreter's definitions. */
#define ICL_LINEAR_DEFINITIONS 128

/* What stands in front of the interpreter: how it shares its work. */
void icl_linear_interpreter_definitions(const icl_linear_cut *cut, char definitions[ICL_LINEAR_DEFINITIONS]);

/* What of an option that limits registers (see icl_opencl_register_option) a straight-line program is compiled with:
 * NULL for diagonal parts, whose programs fit by themselves and, when limited, put numbers into memory. */
const char *icl_linear_register_option(const icl_linear_key *key, const char *option);

#endif
