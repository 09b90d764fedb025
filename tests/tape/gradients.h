/* Gradients of ops: cases, and how each is checked (gradients.c). The families of ops have a file each. */
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
    /* Below 0: it could not write numbers of its own. */
    icl_variable (*build)(icl_tape *tape, const icl_variable *inputs, const struct gradient_case *c);
    int kind, option;
    unsigned axes;
    bool positive; /* inputs in (0.3, 2) instead of both signs */
    int input_count;
    shape inputs[MAX_INPUTS];
} gradient_case;

typedef struct bench {
    tap_run tap;
    icl_backend *device, *ref; /* the same where the device is "ref" */
} bench;

/* What a case is given, and the gradients that come of it. */
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

/* Numbers of order 1, the same at each call. */
void gradient_fill(const gradient_case *c, gradient_values *v);

/* The device's memory for a case. m->backend is given; whatever is returned, it is closed. */
icl_status gradient_machine_open(gradient_machine *m, const gradient_case *c, icl_error *error);
void gradient_machine_close(gradient_machine *m);

/* The loss: a sum of all outputs, each with another weight; with `backward` its gradients, too. */
icl_status gradient_evaluate(gradient_machine *m, const gradient_case *c, bool backward, double *loss,
                             icl_error *error);

/* The tape's gradients; the tensors start as NaN, so that an element that is not written shows. */
icl_status gradient_take(icl_backend *backend, const gradient_case *c, gradient_values *v, icl_error *error);

/* What a program does with each case. gradients.c checks every element of the gradient of every input, and that no
 * memory stays in use; tests/faults/gradients.c lets what it takes fail. */
void gradient_check(bench *b, const gradient_case *c);

/* Each family of ops, and all of them. */
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
