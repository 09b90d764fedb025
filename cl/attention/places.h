/* Sequences of operands of attention: a head of one of the batch. strides: batch, row, column, head. */
#ifndef ICL_PLACES_H
#define ICL_PLACES_H
#include "../common.h"

/* Head `head` of the queries reads group `group` of keys and values. */
typedef struct place {
    uint batch, head, group;
} place;

/* Returns the place of sequence number `sequence`, batch by batch. heads: how many the queries have, and how many of
 * these read one group. */
static place place_of_head(uint sequence, uint2 heads) {
    const uint batch = sequence / heads.s0, head = sequence - batch * heads.s0;
    return (place){batch, head, head / heads.s1};
}

/* As above, for sequences of keys; head is the first one that reads them. */
static place place_of_group(uint sequence, uint2 heads) {
    const uint groups = heads.s0 / heads.s1, batch = sequence / groups, group = sequence - batch * groups;
    return (place){batch, group * heads.s1, group};
}

/* Returns where the sequence begins in an operand that has one head for each head of the queries, or for each group. */
static int start_of_head(int4 stride, place at) {
    return (int)at.batch * stride.s0 + (int)at.head * stride.s3;
}
static int start_of_group(int4 stride, place at) {
    return (int)at.batch * stride.s0 + (int)at.group * stride.s3;
}

/* Returns the first key that query `first` attends to: of the keys j <= first + shift, and below `end`, the last
 * `window`. */
static uint first_seen(uint first, int shift, uint window, uint end) {
    return (uint)max(min((int)first + shift + 1, (int)end) - (int)window, 0);
}

/* Returns where the queries end whose windows reach back to a key below `key_end`. */
static uint last_seen(uint key_end, int shift, uint window, uint queries) {
    return min((uint)max((int)(key_end + window) - shift - 1, 0), queries);
}

#endif
