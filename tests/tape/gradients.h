/* Gradients of ops: the cases, and how each is checked (gradients.c). Each family of ops has its own file. */
#ifndef ICLAB_TEST_TAPE_GRADIENTS_H
#define ICLAB_TEST_TAPE_GRADIENTS_H

#include "iclab/iclab.h"
#include "tap.h"

#define MAX_INPUTS 3
#define MAX_COUNT  512

typedef struct shape {
    int rank;
    size_t extent[ICL_MAX_RANK];
} shape;

typedef struct gradient_case {
    char name[160];
    /* Returns a variable below 0 if it could not write numbers of its own. */
    icl_variable (*build)(icl_tape *tape, const icl_variable *inputs, const struct gradient_case *c);
    int kind, option;
    unsigned axes;
    bool positive; /* inputs in (0.3, 2) instead of both signs */
    int input_count;
    shape inputs[MAX_INPUTS];
} gradient_case;

typedef struct bench {
    tap_run tap;
    icl_backend *device, *ref; /* the same backend if the device is "ref" */
} bench;

/* The inputs of a case, and the resulting gradients. */
typedef struct gradient_values {
    float inputs[MAX_INPUTS][MAX_COUNT];
    double gradients[MAX_INPUTS][MAX_COUNT];
} gradient_values;

/* A case on a device. */
typedef struct gradient_machine {
    icl_backend *backend;
    icl_tape *tape;
    icl_tensor inputs[MAX_INPUTS], gradients[MAX_INPUTS], weights;
} gradient_machine;

size_t gradient_count(const shape *s);

/* Names a case after `what` and the shapes of its inputs. */
void gradient_describe(gradient_case *c, const char *what);

/* Fills inputs with numbers of order 1, the same at each call. */
void gradient_fill(const gradient_case *c, gradient_values *v);

/* Makes the device's memory for a case. m->backend is set before; the caller closes m, also after a failure. */
icl_status gradient_machine_open(gradient_machine *m, const gradient_case *c, icl_error *error);
void gradient_machine_close(gradient_machine *m);

/* Computes the loss, a sum of all outputs, each with another weight; and with `backward` its gradients. */
icl_status gradient_evaluate(gradient_machine *m, const gradient_case *c, bool backward, double *loss,
                             icl_error *error);

/* Computes the tape's gradients; the tensors start as NaN, so that elements that are not written are noticed. */
icl_status gradient_take(icl_backend *backend, const gradient_case *c, gradient_values *v, icl_error *error);

/* Called for each case; each program defines its own. gradients.c checks every element of the gradient of every input,
 * and that no memory stays in use; tests/faults/gradients.c makes its allocations fail. */
void gradient_check(bench *b, const gradient_case *c);

/* Run the cases of each family of ops, and of all of them. */
void check_elementwise(bench *b);
void check_reductions(bench *b);
void check_matmul(bench *b);
void check_attention(bench *b);
void check_losses(bench *b);
void check_recurrence(bench *b);
void check_tokens(bench *b);
void check_normalize(bench *b);
void check_cross_entropy(bench *b);
void check_every(bench *b);
void check_views(bench *b);

#endif
