/*
 * Rows of operands that the next segment will touch. The rows of a segment of one operand are about a page of memory,
 * and the pages of many operands come in turn, so that a processor sees none of them coming. Asked for while the
 * segment before them is computed, they are there in time: in the second cache, because the first one is full.
 */
#ifndef ICL_AHEAD_H
#define ICL_AHEAD_H

#include "../common.h"

#define AHEAD_LARGEST 10
#define AHEAD_LINE    16 /* floats of a cache line */

typedef struct ahead {
    uint count;
    struct {
        __global const float *rows;
        int row_stride;
        uint each, width; /* rows for each token of the segment; elements of a row */
    } of[AHEAD_LARGEST];
} ahead;

/* Rows of `width` elements, `each` of them for a token, if the operand exists and its elements lie side by side. */
static void add_ahead(ahead *to, bool is_there, __global const float *rows, int row_stride, int stride, uint each,
                      uint width) {
    if (!is_there || stride != 1)
        return;
    to->of[to->count].rows = rows;
    to->of[to->count].row_stride = row_stride;
    to->of[to->count].each = each;
    to->of[to->count++].width = width;
}

/* Fetches all rows of one token. */
static void ask_ahead(const ahead *from, uint t) {
#ifdef FETCH_LATER
    for (uint i = 0; i < from->count; i++)
        for (uint row = t * from->of[i].each; row < (t + 1) * from->of[i].each; row++)
            for (uint at = 0; at < from->of[i].width; at += AHEAD_LINE)
                FETCH_LATER(from->of[i].rows + (int)row * from->of[i].row_stride + (int)at);
#endif
}

#endif
