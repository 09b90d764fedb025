/*
 * Rows that will be touched soon. The rows of a segment of one operand are about a page of memory, and the pages of
 * many operands come in turn, so that a processor's own prefetcher sees none of them coming. Asked for while the
 * segment before them is computed, they are there in time: in the second cache, because the first one is full.
 */
#ifndef ICLAB_BACKEND_CPU_RECURRENCE_AHEAD_H
#define ICLAB_BACKEND_CPU_RECURRENCE_AHEAD_H

#include "backend/cpu/kernels/recurrence/segment.h"

#define AHEAD_LARGEST 16
#define AHEAD_PARTS   (SEGMENT / 2)       /* one for each pair of tokens */
#define AHEAD_LINE    (64 / sizeof(real)) /* elements of a cache line */

typedef struct ahead_rows {
    const real *next;
    size_t row, width; /* stride, elements */
    size_t left, each; /* rows: not yet asked for, and asked for at once */
} ahead_rows;

typedef struct ahead {
    size_t count;
    ahead_rows of[AHEAD_LARGEST];
} ahead;

/* Rows [first, first + count) of an operand, the last ones first, where their elements stand side by side. */
static inline void add_ahead(ahead *to, const rows *from, size_t first, size_t count, size_t width) {
    if (from->elements && from->column == 1)
        to->of[to->count++] = (ahead_rows){.next = from->elements + (first + count - 1) * from->row,
                                           .row = from->row,
                                           .width = width,
                                           .left = count,
                                           .each = (count + AHEAD_PARTS - 1) / AHEAD_PARTS};
}

/* Asks for the next part of all of them. */
static inline void ask_ahead(ahead *x) {
    for (ahead_rows *of = x->of; of < x->of + x->count; of++)
        for (size_t i = 0; i < of->each && of->left > 0; i++) {
            for (size_t at = 0; at < of->width; at += AHEAD_LINE)
                PREFETCH_LATER(of->next + at);
            of->left--;
            of->next -= of->left > 0 ? of->row : 0;
        }
}

#endif
