/*
 * Fast weight memory (Schlag, Munkhdalai, Schmidhuber 2021, arXiv 2011.07831): the delta rule in a memory whose norm is
 * 1 at most from the second write on. A write M <- (M + beta k m^T) g with the miss m = v - M^T k and g = 1 / max(1,
 * |M + beta k m^T|_F) needs only what M holds under k, and the norm of M:
 *
 *     |M + beta k m^T|^2 = |M|^2 + beta m . (2 M^T k + beta |k|^2 m)
 *
 * So the writes of a block use what M holds under the keys to come, P = K M, which each write changes to P <- (P +
 * (beta K k) m^T) g. M itself changes once, after the block: what write t added shrinks by the g of t and of all later
 * writes. No write makes anything that is larger than M would be.
 */
#include "model/sequence/sequence.h"

enum { BLOCK = 16 }; /* writes; each costs BLOCK / 2 rows of P, and a block some passes over M */

/* The state of a block whose writes are made one after the other. All variables are [B, 1, ., .]. */
typedef struct block {
    icl_tape *tape;
    icl_variable v, beta, one;
    icl_variable coupling; /* [writes, writes]: beta_j k_i . k_j */
    icl_variable reads;    /* [writes to come, n]: P */
    icl_variable square;   /* |M|^2 */
    icl_variable misses[BLOCK], shrinks[BLOCK];
} block;

/* Returns rows x columns elements of x, from (row, column) on. */
static icl_variable part_of(icl_tape *tape, icl_variable x, size_t row, size_t rows, size_t column, size_t columns) {
    return icl_tape_slice(tape, icl_tape_slice(tape, x, 2, row, rows), 3, column, columns);
}

/* Returns |M|^2 after write t of the block, before M shrinks. */
static icl_variable grown_square(const block *tile, size_t t, icl_variable read, icl_variable miss) {
    icl_tape *tape = tile->tape;
    const icl_variable gain = part_of(tape, tile->coupling, t, 1, t, 1);
    const icl_variable twice = icl_tape_scale_add(tape, 2, read, 1, icl_sequence_multiply(tape, gain, miss));
    const icl_variable product = icl_tape_reduce(tape, ICL_SUM, 1u << 3, icl_sequence_multiply(tape, miss, twice));

    return icl_tape_binary(tape, ICL_ADD, tile->square,
                           icl_sequence_multiply(tape, icl_tape_slice(tape, tile->beta, 2, t, 1), product));
}

static void write_one(block *tile, size_t t, size_t writes, bool is_bounded) {
    icl_tape *tape = tile->tape;
    const icl_variable read = icl_tape_slice(tape, tile->reads, 2, 0, 1);
    const icl_variable miss = icl_tape_binary(tape, ICL_SUBTRACT, icl_tape_slice(tape, tile->v, 2, t, 1), read);
    const size_t left = writes - t - 1;

    tile->square = grown_square(tile, t, read, miss);
    tile->misses[t] = miss;
    tile->shrinks[t] = tile->one;
    if (is_bounded) {
        const icl_variable bound = icl_tape_binary(tape, ICL_MAXIMUM, tile->square, tile->one);
        tile->shrinks[t] = icl_tape_unary(tape, ICL_RECIPROCAL, icl_tape_unary(tape, ICL_SQUARE_ROOT, bound));
        tile->square = icl_tape_binary(tape, ICL_DIVIDE, tile->square, bound);
    }
    if (left == 0)
        return;
    const icl_variable added = icl_tape_matmul(tape, 1, part_of(tape, tile->coupling, t + 1, left, t, 1), miss);
    const icl_variable sum = icl_tape_binary(tape, ICL_ADD, icl_tape_slice(tape, tile->reads, 2, 1, left), added);
    tile->reads = is_bounded ? icl_sequence_multiply(tape, sum, tile->shrinks[t]) : sum;
}

/* Returns M after the block. */
static icl_variable write_memory(const block *tile, size_t writes, icl_variable memory, icl_variable k) {
    icl_tape *tape = tile->tape;
    icl_variable left[BLOCK]; /* the share of write t, and of M before it, that the writes t and later leave */

    left[writes - 1] = tile->shrinks[writes - 1];
    for (size_t t = writes - 1; t-- > 0;)
        left[t] = icl_sequence_multiply(tape, tile->shrinks[t], left[t + 1]);
    const icl_variable misses = icl_tape_concatenate(tape, 2, writes, tile->misses);
    const icl_variable weights = icl_sequence_multiply(tape, tile->beta, icl_tape_concatenate(tape, 2, writes, left));
    const icl_variable added =
        icl_tape_matmul(tape, 1, icl_tape_swap_axes(tape, k, 2, 3), icl_sequence_multiply(tape, misses, weights));
    return icl_tape_binary(tape, ICL_ADD, icl_sequence_multiply(tape, memory, left[0]), added);
}

icl_variable icl_sequence_bounded_memory(const icl_sequence_pass *pass, icl_variable k, icl_variable v,
                                         icl_variable beta) {
    icl_tape *tape = pass->tape;
    const icl_tensor keys = icl_tape_value(tape, k), values = icl_tape_value(tape, v);
    const size_t batch = keys.shape[0], count = keys.shape[2];
    const size_t one[] = {batch, 1, 1, 1}, state[] = {batch, 1, keys.shape[3], values.shape[3]};
    icl_variable memory = icl_tape_filled(tape, 4, state, 0);
    block is = {.tape = tape, .one = icl_tape_filled(tape, 4, one, 1), .square = icl_tape_filled(tape, 4, one, 0)};

    for (size_t first = 0; first < count; first += BLOCK) {
        const size_t writes = count - first < BLOCK ? count - first : BLOCK;
        const icl_variable own = icl_tape_slice(tape, k, 2, first, writes);
        is.v = icl_tape_slice(tape, v, 2, first, writes);
        is.beta = icl_tape_slice(tape, beta, 2, first, writes);
        is.coupling = icl_sequence_multiply(tape, icl_tape_matmul(tape, 1, own, icl_tape_swap_axes(tape, own, 2, 3)),
                                            icl_tape_swap_axes(tape, is.beta, 2, 3));
        is.reads = icl_tape_matmul(tape, 1, own, memory);
        for (size_t t = 0; t < writes; t++)
            write_one(&is, t, writes, first + t > 0);
        memory = write_memory(&is, writes, memory, own);
    }
    return memory;
}
