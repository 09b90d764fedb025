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

size_t gradient_count(const shape *s);

/* Names a case after `what` and the shapes of its inputs. */
void gradient_describe(gradient_case *c, const char *what);

/* Checks every element of the gradient of every input, and that no memory stays in use. */
void gradient_check(bench *b, const gradient_case *c);

/* Each family of ops. */
void check_elementwise(bench *b);
void check_reductions(bench *b);
void check_matmul(bench *b);
void check_attention(bench *b);
void check_losses(bench *b);
void check_recurrence(bench *b);
void check_tokens(bench *b);
void check_normalize(bench *b);
void check_cross_entropy(bench *b);
void check_views(bench *b);

#endif
