/*
 * The record of a tape, which the files of src/tape share.
 *
 * A node is a leaf, a view of another node, or the output of an op. Only leaves and op outputs own a
 * gradient; the gradient of a view is the same view of its root's gradient, so that slices of one tensor
 * accumulate in one buffer without copies.
 */
#ifndef ICLAB_TAPE_RECORD_H
#define ICLAB_TAPE_RECORD_H

#include "iclab/ops_recurrence.h"
#include "iclab/ops_sequence.h"
#include "iclab/status.h"
#include "iclab/tape.h"

#define ICL_NODE_INPUTS 8

typedef struct icl_node icl_node;

/* One kind of recorded op; each is a constant in the file of its family. */
typedef struct icl_operation {
    const char *name;

    /* Computes node->value (made with icl_tape_output, or a view) from the inputs. */
    icl_status (*forward)(icl_tape *tape, icl_node *node, icl_error *error);

    /* Adds to the gradient of every wanted input, given the gradient of node->value. NULL for views and constants. */
    icl_status (*backward)(icl_tape *tape, const icl_node *node, icl_tensor gradient, icl_error *error);

    /* For views: applies the same view to another tensor with the input's shape. */
    icl_tensor (*view)(const icl_node *node, icl_tensor input);
} icl_operation;

struct icl_node {
    const icl_operation *operation; /* NULL: a leaf */
    icl_variable inputs[ICL_NODE_INPUTS];
    int input_count;
    union {
        icl_unary_kind unary;
        icl_binary_kind binary;
        struct {
            double alpha, beta;
        } scale; /* scale, scale_add; matmul uses alpha */
        struct {
            icl_reduce_kind kind;
            unsigned axes;
        } reduce;
        icl_attention_params attention;
        struct {
            icl_recurrence_params call;
            bool has_final;   /* the value holds the final state, too */
            unsigned present; /* bit i: input i, in the order of icl_recurrence_inputs, is present */
        } recurrence;
        struct {
            size_t iterations;
            int beta, decay, state; /* their indices among the inputs; 0: absent */
        } ridge_solve;
        struct {
            icl_normalize_params how;
            bool has_gain, has_shift;
        } normalize;
        struct {
            int axis, other;
            size_t start, count;
        } view; /* slice, swap_axes */
        struct {
            int rank;
            size_t shape[ICL_MAX_RANK];
        } reshape;
        size_t start[ICL_MAX_RANK]; /* place */
        struct {
            int rank;
            size_t shape[ICL_MAX_RANK];
            double value;
        } fill;
        struct {
            double base;
            size_t first;
            icl_tensor angles; /* a view of one of the tape's tables */
        } rotate;
        struct {
            double share;
            uint64_t call; /* its number on the tape */
        } drop_out;
    } params;
    icl_tensor value;
    icl_tensor saved;    /* what backward needs besides inputs and value; owned; may be absent */
    bool owns_value;     /* value goes back to the pool on reset */
    bool constant;       /* no gradient flows through, whatever the inputs (argmax, equal, sign) */
    bool differentiable; /* depends on a parameter, and a gradient passes through */
    bool is_parameter;
    icl_tensor parameter_gradient; /* of a parameter; the caller's tensor */
    int slot;                      /* index of the gradient slot during backward; < 0: no gradient yet */
};

/* A gradient buffer. Several nodes may share it while their gradients are equal (both terms of a sum). A node that adds
 * to it takes a copy first, unless it is the last user. */
typedef struct icl_gradient_slot {
    icl_tensor tensor;
    int users;
    bool borrowed; /* a parameter's gradient, which the caller owns: never shared or released */
} icl_gradient_slot;

/* Cosines and sines of the angles for rotary positions; see sequence.c. */
typedef struct icl_rotary_table {
    double base;
    size_t start;      /* the first position */
    icl_tensor angles; /* [positions, half of a row, 2] */
    struct icl_rotary_table *next;
} icl_rotary_table;

struct icl_tape {
    icl_backend *backend;
    icl_rotary_table *rotary; /* kept until the tape is destroyed */
    icl_node *nodes;
    size_t node_count, node_capacity;
    icl_gradient_slot *slots;
    size_t slot_count, slot_capacity;
    bool drops_out; /* icl_tape_set_dropout was called since the last reset */
    icl_dropout_numbers dropout;
    uint64_t dropout_calls;
    icl_error error; /* the first failure; its status is ICL_OK while there is none */
};

/* ---- Recording (tape.c) ---- */

/* Runs node->operation forward and appends the node. The caller sets operation, inputs and params. */
icl_variable icl_tape_record(icl_tape *tape, icl_node *node);

/* Creates node->value, owned by the tape. */
icl_status icl_tape_output(icl_tape *tape, icl_node *node, int rank, const size_t *shape, icl_error *error);

/* Returns the value of one input. */
icl_tensor icl_node_input(const icl_tape *tape, const icl_node *node, int input);

bool icl_same_shape(const icl_tensor *tensor, int rank, const size_t *shape);

/* Computes the shape that a and b broadcast to. If they do not fit, the op itself refuses them. */
void icl_broadcast_shape(const icl_tensor *a, const icl_tensor *b, int *rank, size_t *shape);

/* Returns a view with axes of extent 1 added in front (the rank grows) or removed there (it shrinks). */
icl_tensor icl_with_rank(icl_tensor tensor, int rank);

/* ---- Gradients (tape.c) ---- */

/* Returns whether the variable needs a gradient. */
bool icl_gradient_wanted(const icl_tape *tape, icl_variable variable);

/* Returns the tensor, shaped as the variable, that a contribution is added to: target = beta * target + contribution.
 * beta is 0 for the first contribution, because the target holds nothing yet, and 1 for all others. */
icl_status icl_gradient_target(icl_tape *tape, icl_variable variable, icl_tensor *target, double *beta,
                               icl_error *error);

/* Adds factor * contribution. The contribution's shape broadcasts from or to the variable's: it is summed over the axes
 * along which the variable was repeated, and repeated along those over which the variable was summed. */
icl_status icl_gradient_add(icl_tape *tape, icl_variable variable, double factor, icl_tensor contribution,
                            icl_error *error);

/* As icl_gradient_add with factor 1, if contribution is the whole gradient that an op's backward was given: where
 * possible the variable shares its buffer instead of copying it. */
icl_status icl_gradient_share(icl_tape *tape, icl_variable variable, const icl_node *node, icl_tensor contribution,
                              icl_error *error);

/* A contribution that takes several ops to compute. `tensor` is the target itself if that is still empty and the shapes
 * agree; otherwise it is a temporary, which icl_contribution_end adds and releases. */
typedef struct icl_contribution {
    icl_variable variable;
    icl_tensor tensor;
    bool temporary;
} icl_contribution;

icl_status icl_contribution_begin(icl_tape *tape, icl_variable variable, int rank, const size_t *shape,
                                  icl_contribution *contribution, icl_error *error);
icl_status icl_contribution_end(icl_tape *tape, icl_contribution *contribution, icl_error *error);

/* Releases the temporary without adding it; harmless after icl_contribution_end. For cleanup. */
void icl_contribution_drop(icl_contribution *contribution);

#endif
