/*
 * What the kernels of the matrix-state recurrence share: icl_recurrence_forward and _backward of ops_recurrence.h.
 *
 * Programs are compiled for one kind of recurrence each: DELTA, with the delta term; DECAY, NO_DECAY, SCALAR_DECAY (a
 * factor for each token) or CHANNEL_DECAY (one for each token and key coordinate); WRITE_KEY, with a written key other
 * than k. All else is known at run time: `present` says which optional operands are there.
 *
 * Strides of views: batch, head, token (or row of a state), column. sizes: heads of a batch, tokens, m, n.
 */
#ifndef ICL_RECURRENCE_H
#define ICL_RECURRENCE_H
#include "../common.h"

#define NO_DECAY      0
#define SCALAR_DECAY  1
#define CHANNEL_DECAY 2

#ifndef DELTA
#define DELTA 1
#endif
#ifndef DECAY
#define DECAY SCALAR_DECAY
#endif
#ifndef WRITE_KEY
#define WRITE_KEY 0
#endif

#define SEGMENT 32 /* tokens between two saved states: ICL_RECURRENCE_SEGMENT */

/* If the magnitudes of a segment's decays sum to more than this, its states are computed forward again and not run
 * back. */
#define LARGEST_DECAY 4.0f

/* Bits of `present`: operands of both passes, outputs of the forward pass, gradients. As in recurrence.c. */
#define HAS_BETA       (1u << 0)
#define HAS_READ_KEY   (1u << 1)
#define HAS_STATE      (1u << 2)
#define HAS_FINAL      (1u << 3)
#define HAS_SAVED      (1u << 4)
#define HAS_D_FINAL    (1u << 5)
#define WANTS(operand) (1u << (8 + (operand))) /* in the order of the outputs of the backward pass */

enum { OF_Q = 0, OF_K, OF_V, OF_BETA, OF_DECAY, OF_READ_KEY, OF_WRITE_KEY, OF_STATE };

/* A view as an argument of a kernel, and its first element in a batch's head. */
#define INPUT(name)         __global const float *name, uint name##_offset, int4 name##_stride
#define OUTPUT(name)        __global float *name, uint name##_offset, int4 name##_stride
#define AT(name, b, h)      (name + name##_offset + (int)(b)*name##_stride.s0 + (int)(h)*name##_stride.s1)
#define TOKEN(name, t)      ((int)(t)*name##_stride.s2)
#define COLUMN(name, j)     ((int)(j)*name##_stride.s3)
#define ELEMENT(name, t, j) (TOKEN(name, t) + COLUMN(name, j))

#endif
