/* The backward pass of one batch and head while it runs: backward.c, which has the formulas. */
#ifndef ICLAB_BACKEND_CPU_RECURRENCE_BACKWARD_H
#define ICLAB_BACKEND_CPU_RECURRENCE_BACKWARD_H

#include "backend/cpu/kernels/parts.h"
#include "backend/cpu/kernels/recurrence/ahead.h"

enum { Q = ICL_RECURRENCE_Q, K, V, BETA, DECAY, READ_KEY, WRITE_KEY, STATE, INPUTS };

/* The rows of tokens, [SEGMENT][width]: vectors of the channels, and what is added up for their gradients. */
enum { ROW_Q = 0, ROW_K, ROW_R, ROW_W, ROW_KINDS };

/* Numbers for each value of a block, of the later token of a pair and of the earlier one: d, -u, e, and what w takes
 * with the sign of -u. So the sums for k and w come out negative. */
enum { FLOW_1 = 0, FLOW_0, KEY_1, KEY_0, READ_1, READ_0, WRITE_1, WRITE_0, COEFFICIENTS };

typedef struct HOST(recurrence_backward_state) {
    const recurrence_plan *plan;
    rows in[INPUTS], gradient[INPUTS];
    rows d_out, d_final, final, reads, states;
    bool apart;
    size_t width, chunks; /* channels with their padding; in vectors */
    size_t block;         /* values of a block, a multiple of LANE_COUNT */

    /* One segment. */
    size_t first, count;
    decay_track track;
    const real *row[ROW_KINDS]; /* of token 0; token t stands t width behind it */
    real beta[SEGMENT];
    real same_key[SEGMENT], same_write[SEGMENT];     /* q_t . k_t, q_t . w_t */
    real before_key[SEGMENT], before_write[SEGMENT]; /* q_t . k_(t-1), q_t . w_(t-1) */
    real read_key[SEGMENT], read_write[SEGMENT];     /* r_t . k_(t-1), r_t . w_(t-1) */
    lane d_beta[SEGMENT];
    ahead soon;

    /* One block. */
    size_t value, values, groups; /* the first one, how many, in how many vectors */

    /* Memory. */
    lane *gradients;      /* [values, padded][chunks]: G */
    lane *state;          /* [block][chunks]: C */
    lane *ends;           /* [SEGMENT + 1][block][chunks]: before the segment, and at the end of each stretch */
    real *packed;         /* [ROW_KINDS][SEGMENT][width] */
    real *sums;           /* [ROW_KINDS][SEGMENT][width] */
    real *restarts;       /* [SEGMENT + 1][width]: sum_j G_j C_j at each of `ends` */
    real *nothing;        /* [width]: zeros */
    real *unused;         /* [width]: takes what belongs to no token */
    real *v, *p;          /* [SEGMENT][block] */
    real *coefficients;   /* [COEFFICIENTS][block] */
    real *ones, *factors; /* [width]: of states: 1, and those of a decay in use */
    real *last;           /* [2][width]: c of the segment's last token, and 1 / c */
    real *track_space;
} HOST(recurrence_backward_state);

typedef HOST(recurrence_backward_state) backward;

/* The tokens [first, last) of a segment, which are one stretch, for one block of values. */
void KERNEL(recurrence_run_back)(backward *x, size_t first, size_t last);

#endif
