/* The state of a backward recurrence for one batch and head; backward.c has the formulas. */
#ifndef ICLAB_BACKEND_CPU_RECURRENCE_BACKWARD_H
#define ICLAB_BACKEND_CPU_RECURRENCE_BACKWARD_H

#include "backend/cpu/kernels/recurrence/segment.h"

/* ---- Rows that will be touched soon ---- */

/* Rows that will be touched soon. The rows of a segment of one operand are about a page of memory, and the pages of
 * many operands come in turn, so a processor's own prefetcher foresees none of them. They are requested while the
 * segment before them is computed, and arrive in time: in the second cache, because the first one is full. */

#define AHEAD_LARGEST 64
#define AHEAD_PARTS   (SEGMENT / 2)       /* one for each pair of tokens */
#define AHEAD_LINE    (64 / sizeof(real)) /* elements of a cache line */

/* Lines at equal distances, of which a few are requested at a time. */
typedef struct ahead_lines {
    const real *next;
    size_t step, left, each;
} ahead_lines;

typedef struct ahead {
    size_t count;
    ahead_lines of[AHEAD_LARGEST];
} ahead;

static inline void add_lines(ahead *to, const real *first, size_t step, size_t count) {
    if (to->count < AHEAD_LARGEST)
        to->of[to->count++] =
            (ahead_lines){first + (count - 1) * step, step, count, (count + AHEAD_PARTS - 1) / AHEAD_PARTS};
}

/* Adds rows [first, first + count) of an operand, the last ones first, if their elements are adjacent. */
static inline void add_ahead(ahead *to, const rows *from, size_t first, size_t count, size_t width) {
    const real *at = from->elements + first * from->row;
    if (!from->elements || from->column != 1)
        return;
    if (from->row == width && width % AHEAD_LINE == 0)
        add_lines(to, at, AHEAD_LINE, count * width / AHEAD_LINE);
    else
        for (size_t i = 0; i < width; i += AHEAD_LINE)
            add_lines(to, at + i, from->row, count);
}

/* Requests the next part of all operands. */
static inline void ask_ahead(ahead *soon) {
    for (ahead_lines *lines = soon->of; lines < soon->of + soon->count; lines++) {
        const size_t count = lines->left < lines->each ? lines->left : lines->each;
        for (size_t i = 0; i < count; i++)
            PREFETCH_LATER(lines->next - i * lines->step);
        lines->left -= count;
        lines->next -= lines->left > 0 ? count * lines->step : 0;
    }
}

/* ---- The pass of a head ---- */

enum { Q = ICL_RECURRENCE_Q, K, V, BETA, DECAY, READ_KEY, WRITE_KEY, STATE, INPUTS };

/* The kinds of tokens' rows, [SEGMENT][width]: vectors over channels, and the sums of their gradients. */
enum { ROW_Q = 0, ROW_K, ROW_R, ROW_W, ROW_KINDS };

/* Coefficients for each value of a block, of the later token of a pair and of the earlier one: d, -u, e, and the factor
 * of w, with the sign of -u. Therefore the sums for k and w come out negative. */
enum { FLOW = 0, KEY = 2, READ = 4, WRITE = 6, COEFFICIENTS = 8 };

/* Values of a block: so few that their S and G leave room for the tokens' rows. */
#define LARGEST_BLOCK ((size_t)32)
#define BLOCK_BYTES   ((size_t)16 << 10)

typedef struct head_pass head_pass;

/* Runs back token t and, if is_pair, t - 1. */
typedef void pair_function(head_pass *x, size_t t, bool is_pair);

struct head_pass {
    const recurrence_plan *plan;
    pair_function *run;
    rows in[INPUTS], gradient[INPUTS];
    rows d_out, d_final, final, reads, states;
    bool apart;
    size_t width, chunks; /* channels with padding; the same in vectors */
    size_t block;         /* values of a block, a multiple of LANE_COUNT */

    /* One segment. */
    size_t first, count;
    decay_track track;
    token_rows row[ROW_KINDS], sum[ROW_KINDS];
    bool joined; /* the gradient of k is one sum: that for r, which begins with that for k */
    real beta[SEGMENT];
    real factor[SEGMENT], inverse[SEGMENT];          /* c_t and 1 / c_t of one decay for all channels, else 1 */
    real same_key[SEGMENT], same_write[SEGMENT];     /* q_t . k_t, q_t . w_t */
    real before_key[SEGMENT], before_write[SEGMENT]; /* q_t . k_(t-1), q_t . w_(t-1) */
    real read_key[SEGMENT], read_write[SEGMENT];     /* r_t . k_(t-1), r_t . w_(t-1) */
    lane d_beta[SEGMENT], v_dv[SEGMENT];             /* sums over values, in lanes */
    ahead soon;

    /* One block. */
    size_t value, values, groups; /* the first one, their number, and that of their vectors */

    /* Memory. */
    lane *gradients;      /* [values, padded][chunks]: G */
    lane *state;          /* [block][chunks]: C */
    lane *ends;           /* [SEGMENT + 1][block][chunks]: before the segment, and at the end of each stretch */
    real *packed;         /* [ROW_KINDS][SEGMENT][width] */
    real *sums;           /* [ROW_KINDS][SEGMENT][width] */
    real *restarts;       /* [SEGMENT + 1][width]: sum_j G_j C_j at each of `ends` */
    real *nothing;        /* [width]: zeros */
    real *unused;         /* [width]: receives what belongs to no token */
    real *v, *p;          /* [SEGMENT][block] */
    real *coefficients;   /* [COEFFICIENTS][block] */
    real *ones, *factors; /* [width]: factors of states: 1, and those of the decay */
    real *last;           /* [2][width]: c of the segment's last token, and 1 / c */
    real *track_space;
};

/* The rows of one token and their sums; zeros if it is not there. */
typedef struct token {
    size_t t;
    const real *row[ROW_KINDS];
    real *sum[ROW_KINDS];
} token;

static token token_at(const head_pass *pass, size_t t, bool is_there) {
    token to = {.t = t};
    for (int i = 0; i < ROW_KINDS; i++) {
        to.row[i] = is_there ? pass->row[i].elements + t * pass->row[i].row : pass->nothing;
        to.sum[i] = is_there ? pass->sum[i].elements + t * pass->sum[i].row : pass->unused;
    }
    return to;
}

#endif
