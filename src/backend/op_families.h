/* Families of ops as all backends share them: the operands of recurrences by index and by name; the places of the
 * parameters of linear transformers, and the cost of their spaces. */
#ifndef ICLAB_BACKEND_OP_FAMILIES_H
#define ICLAB_BACKEND_OP_FAMILIES_H

#include <stdbool.h>

#include "iclab/ops_linear_transformer.h"
#include "iclab/ops_recurrence.h"

/* ---- Recurrences: the indices of their operands in op_table.h, and their inputs by name ---- */

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

/* ---- Linear transformers ---- */

/* The numbers of parameters of P and of Q of one head. */
typedef struct icl_linear_sizes {
    size_t p, q;
} icl_linear_sizes;

/* Returns these numbers. d is D - 1. */
icl_linear_sizes icl_linear_sizes_of(icl_parameterization parameterization, size_t d);

/* Returns where layer `i` of the `depth` layers in use begins in the parameter vector. The params are complete. */
size_t icl_linear_layer_offset(const icl_linear_transformer_params *params, size_t d, size_t i);

/* Returns whether, in dense forms, the layer before the last two is cheaper if it computes neither its Gram matrix nor
 * its n tokens but is applied to the vectors of the last two. params->space is settled; n is ignored in Gram space. */
bool icl_linear_passes(const icl_linear_transformer_params *params, size_t d, size_t n);

#endif
