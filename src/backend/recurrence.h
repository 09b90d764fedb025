/* The ops of recurrences, for the backends: their rows, as in ICL_OP_TABLE of contract.h, and where operands stand. */
#ifndef ICLAB_BACKEND_RECURRENCE_H
#define ICLAB_BACKEND_RECURRENCE_H

#include "iclab/ops_recurrence.h"

/* Never called where B, H, T, m or n is 0. Every input has the full shape, with stride 0 where it repeats, but for
 * decay, whose last extent is 1 or m. */
#define ICL_RECURRENCE_OPS(OP)                                                                                         \
    /* (out, final or absent, reads or absent, states or absent, the inputs); params: icl_recurrence_params */         \
    OP(recurrence_forward, 4, 8)                                                                                       \
    /* (gradients of the inputs, d_out, d_final or absent, final, reads or absent, states, the inputs) */              \
    OP(recurrence_backward, 8, 13)

/* The inputs in the order of icl_recurrence_inputs, and of their gradients, all but q, k and v or absent. */
enum {
    ICL_RECURRENCE_Q = 0,
    ICL_RECURRENCE_K,
    ICL_RECURRENCE_V,
    ICL_RECURRENCE_BETA,
    ICL_RECURRENCE_DECAY,
    ICL_RECURRENCE_READ_KEY,
    ICL_RECURRENCE_WRITE_KEY,
    ICL_RECURRENCE_STATE,
    ICL_RECURRENCE_INPUTS
};

/* The operands of the forward pass before the inputs. */
enum {
    ICL_RECURRENCE_OUT = 0,
    ICL_RECURRENCE_FINAL,
    ICL_RECURRENCE_READS,
    ICL_RECURRENCE_STATES,
    ICL_RECURRENCE_FORWARD_INPUTS
};

/* The operands of the backward pass between the gradients and the inputs. */
enum {
    ICL_RECURRENCE_BACKWARD_D_OUT = ICL_RECURRENCE_INPUTS,
    ICL_RECURRENCE_BACKWARD_D_FINAL,
    ICL_RECURRENCE_BACKWARD_FINAL,
    ICL_RECURRENCE_BACKWARD_READS,
    ICL_RECURRENCE_BACKWARD_STATES,
    ICL_RECURRENCE_BACKWARD_INPUTS
};

#endif
