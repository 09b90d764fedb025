/* The indices of the recurrences' operands in op_table.h, and their inputs by name. */
#ifndef ICLAB_BACKEND_RECURRENCE_H
#define ICLAB_BACKEND_RECURRENCE_H

#include "iclab/ops_recurrence.h"

/* The inputs in the order of icl_recurrence_inputs, and their gradients. All except q, k and v may be absent. */
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

/* Returns the inputs by name, from a list in which absent ones are zeroed. */
static inline icl_recurrence_inputs icl_recurrence_named(const icl_tensor list[ICL_RECURRENCE_INPUTS]) {
    return (icl_recurrence_inputs){.q = list[ICL_RECURRENCE_Q],
                                   .k = list[ICL_RECURRENCE_K],
                                   .v = list[ICL_RECURRENCE_V],
                                   .beta = list[ICL_RECURRENCE_BETA],
                                   .decay = list[ICL_RECURRENCE_DECAY],
                                   .read_key = list[ICL_RECURRENCE_READ_KEY],
                                   .write_key = list[ICL_RECURRENCE_WRITE_KEY],
                                   .state = list[ICL_RECURRENCE_STATE]};
}

/* The forward pass's operands before the inputs. */
enum {
    ICL_RECURRENCE_OUT = 0,
    ICL_RECURRENCE_FINAL,
    ICL_RECURRENCE_READS,
    ICL_RECURRENCE_STATES,
    ICL_RECURRENCE_FORWARD_INPUTS
};

/* The backward pass's operands between the gradients and the inputs. */
enum {
    ICL_RECURRENCE_BACKWARD_D_OUT = ICL_RECURRENCE_INPUTS,
    ICL_RECURRENCE_BACKWARD_D_FINAL,
    ICL_RECURRENCE_BACKWARD_FINAL,
    ICL_RECURRENCE_BACKWARD_READS,
    ICL_RECURRENCE_BACKWARD_STATES,
    ICL_RECURRENCE_BACKWARD_INPUTS
};

#endif
