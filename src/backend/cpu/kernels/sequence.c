/* Kernels of sequence models: convolutions, cross-entropy, sums of rows and rotations. */
#include "arithmetic/exponential.h"
#include "arithmetic/row_sum.h"
#include "arithmetic/vector.h"
#include "backend/cpu/kernels/parts.h"

/* ---- Convolutions ---- */

/* Adjacent channels are processed in vectors, others one by one, with the same bits. */

DEFINE_VECTOR(channel_vector, real);
#define LENGTH (sizeof(channel_vector) / sizeof(real))

/* ---- Filtering ---- */

/* The number of adjacent vectors: the taps of the widths below then stay in registers. */
#define CHANNEL_VECTORS 2
#define MOST_WIDTH      4

/* Returns the first tap that is not before the sequence: 0, or more at its first tokens. */
ALWAYS_INLINE size_t first_tap(const HOST(token_block) * block, size_t token) {
    const size_t seen = block->before + token + 1;
    return seen < block->width ? block->width - seen : 0;
}

ALWAYS_INLINE const real *tap_of(const HOST(token_block) * block, size_t token, size_t tap) {
    return block->in + ((ptrdiff_t)(token + tap) - (ptrdiff_t)(block->width - 1)) * block->in_time;
}

static real filtered(const HOST(token_block) * block, const real *kernel, size_t token, size_t channel) {
    real sum = 0;
    for (size_t j = first_tap(block, token); j < block->width; j++)
        sum += kernel[j * block->channels + channel] * tap_of(block, token, j)[channel * block->in_step];
    return sum;
}

ALWAYS_INLINE real *out_of(const HOST(token_block) * block, size_t token) {
    return block->out + (ptrdiff_t)token * block->out_time;
}

ALWAYS_INLINE void filter_vectors(const HOST(token_block) * block, const real *kernel, size_t channel,
                                  const size_t vectors) {
    for (size_t t = 0; t < block->tokens; t++) {
        channel_vector sum[CHANNEL_VECTORS];
        UNROLL for (size_t v = 0; v < vectors; v++) sum[v] = (channel_vector){0};
        for (size_t j = first_tap(block, t); j < block->width; j++) {
            const real *in = tap_of(block, t, j) + channel, *tap = kernel + j * block->channels + channel;
            UNROLL for (size_t v = 0; v < vectors; v++) sum[v] +=
                *(const channel_vector *)(tap + v * LENGTH) * *(const channel_vector *)(in + v * LENGTH);
        }
        UNROLL for (size_t v = 0; v < vectors; v++) * (channel_vector *)(out_of(block, t) + channel + v * LENGTH) =
            sum[v];
    }
}

/* As above if every token has all taps, and the compiler knows their number. */
ALWAYS_INLINE void filter_width(const HOST(token_block) * block, const real *kernel, size_t channel,
                                const size_t width) {
    channel_vector tap[MOST_WIDTH][CHANNEL_VECTORS];

    UNROLL for (size_t j = 0; j < width; j++) UNROLL for (size_t v = 0; v < CHANNEL_VECTORS; v++) tap[j][v] =
        *(const channel_vector *)(kernel + j * block->channels + channel + v * LENGTH);
    for (size_t t = 0; t < block->tokens; t++) {
        channel_vector sum[CHANNEL_VECTORS];
        UNROLL for (size_t v = 0; v < CHANNEL_VECTORS; v++) sum[v] = (channel_vector){0};
        UNROLL for (size_t j = 0; j < width; j++) {
            const real *in = tap_of(block, t, j) + channel;
            UNROLL for (size_t v = 0; v < CHANNEL_VECTORS; v++) sum[v] +=
                tap[j][v] * *(const channel_vector *)(in + v * LENGTH);
        }
        UNROLL for (size_t v = 0; v < CHANNEL_VECTORS; v++) *
            (channel_vector *)(out_of(block, t) + channel + v * LENGTH) = sum[v];
    }
}

static void filter_full(const HOST(token_block) * block, const real *kernel, size_t channel) {
    switch (block->width) {
    case 1:
        filter_width(block, kernel, channel, 1);
        break;
    case 2:
        filter_width(block, kernel, channel, 2);
        break;
    case 3:
        filter_width(block, kernel, channel, 3);
        break;
    case 4:
        filter_width(block, kernel, channel, 4);
        break;
    default:
        filter_vectors(block, kernel, channel, CHANNEL_VECTORS);
    }
}

/* Splits a block into the first tokens of a sequence, which lack taps, and the others. */
static HOST(token_block) split_block(HOST(token_block) * block) {
    HOST(token_block) head = *block;
    const size_t needed = block->width - 1, lacking = needed > block->before ? needed - block->before : 0;

    head.tokens = lacking < block->tokens ? lacking : block->tokens;
    block->out += (ptrdiff_t)head.tokens * block->out_time;
    block->in += (ptrdiff_t)head.tokens * block->in_time;
    block->before += head.tokens;
    block->tokens -= head.tokens;
    return head;
}

void KERNEL(convolve)(const HOST(token_block) * block, const real *kernel) {
    HOST(token_block) rest = *block;
    const HOST(token_block) head = split_block(&rest);
    size_t channel = 0;

    if (block->out_step == 1 && block->in_step == 1) {
        for (; channel + CHANNEL_VECTORS * LENGTH <= block->channels; channel += CHANNEL_VECTORS * LENGTH) {
            filter_vectors(&head, kernel, channel, CHANNEL_VECTORS);
            filter_full(&rest, kernel, channel);
        }
        for (; channel + LENGTH <= block->channels; channel += LENGTH)
            filter_vectors(block, kernel, channel, 1);
    }
    for (size_t t = 0; t < block->tokens; t++)
        for (size_t c = channel; c < block->channels; c++)
            out_of(block, t)[c * block->out_step] = filtered(block, kernel, t, c);
}

/* ---- Sums over tokens ---- */

#define SUM_VECTORS 4

/* Returns the first token that has the tap: the inverse of first_tap. */
ALWAYS_INLINE size_t first_token(const HOST(token_block) * block, size_t tap) {
    const size_t needed = block->width - 1 - tap, lacking = needed > block->before ? needed - block->before : 0;
    return lacking < block->tokens ? lacking : block->tokens;
}

ALWAYS_INLINE void sum_taps(const HOST(token_block) * block, size_t tap, size_t channel, const size_t vectors,
                            real *sums) {
    channel_vector sum[SUM_VECTORS];

    UNROLL for (size_t v = 0; v < vectors; v++) sum[v] = (channel_vector){0};
    for (size_t t = first_token(block, tap); t < block->tokens; t++) {
        const real *in = tap_of(block, t, tap) + channel, *out = out_of(block, t) + channel;
        UNROLL for (size_t v = 0; v < vectors; v++) sum[v] +=
            *(const channel_vector *)(out + v * LENGTH) * *(const channel_vector *)(in + v * LENGTH);
    }
    UNROLL for (size_t v = 0; v < vectors; v++) * (channel_vector *)(sums + channel + v * LENGTH) = sum[v];
}

void KERNEL(convolve_taps)(const HOST(token_block) * block, real *sums) {
    for (size_t j = 0; j < block->width; j++, sums += block->channels) {
        size_t channel = 0;
        if (block->out_step == 1 && block->in_step == 1) {
            for (; channel + SUM_VECTORS * LENGTH <= block->channels; channel += SUM_VECTORS * LENGTH)
                sum_taps(block, j, channel, SUM_VECTORS, sums);
            for (; channel + LENGTH <= block->channels; channel += LENGTH)
                sum_taps(block, j, channel, 1, sums);
        }
        for (; channel < block->channels; channel++) {
            real sum = 0;
            for (size_t t = first_token(block, j); t < block->tokens; t++)
                sum += out_of(block, t)[channel * block->out_step] * tap_of(block, t, j)[channel * block->in_step];
            sums[channel] = sum;
        }
    }
}

/* ---- Cross-entropy ---- */

/*
 * Cross-entropy of a row of logits, and its gradient; ops_sequence.h has the formulas. Weights exp(z - max) are
 * computed and added GROUP_BLOCK at a time, in the order of row_sum.h, then these sums: a term passes through at most
 * 42 + n / 1024 additions. The backward pass keeps them in the gradient's place until their sum is known. Cost of an
 * element: a comparison, an exponential and 2 flops, 4 bytes forward; 2 flops more and 8 bytes backward.
 */

ALWAYS_INLINE real plain_sum(const real *x, size_t n){
#define VECTOR_TERM(i) VECTOR_AT(x + (i))
#define SCALAR_TERM(i) x[i]
    SUM_ROW(n, VECTOR_TERM, SCALAR_TERM)
#undef VECTOR_TERM
#undef SCALAR_TERM
}

/* Returns the sum of n weights. They are left in `weights` [n]; if they are not kept, it is only [GROUP_BLOCK]. */
ALWAYS_INLINE real weigh(const real *z, size_t n, real largest, real *weights, const bool are_kept) {
    real sum = 0;

    for (size_t start = 0; start < n; start += GROUP_BLOCK) {
        const size_t left = n - start, count = left < GROUP_BLOCK ? left : GROUP_BLOCK;
        const real *from = z + start;
        real *to = are_kept ? weights + start : weights;
        INDEPENDENT for (size_t i = 0; i < count; i++) to[i] = weight_exponential(from[i] - largest, false);
        sum += plain_sum(to, count);
    }
    return sum;
}

/* Returns whether a number is that of one of n classes, and if so sets *index to it. */
ALWAYS_INLINE bool find_class(real number, size_t n, size_t *index) {
    if (!(number >= 0 && number < (real)n))
        return false;
    *index = (size_t)number;
    return (real)*index == number;
}

real KERNEL(cross_entropy)(const real *z, size_t n, real class_number) {
    const real largest = KERNEL(max_run)(z, n, 1);
    real weights[GROUP_BLOCK];
    size_t own;

    if (!find_class(class_number, n, &own))
        return (real)NAN;
    return REAL_LOG(weigh(z, n, largest, weights, false)) - (z[own] - largest);
}

void KERNEL(cross_entropy_backward)(const real *z, size_t n, real class_number, real d_loss, real *d_z) {
    const real largest = KERNEL(max_run)(z, n, 1), factor = d_loss / weigh(z, n, largest, d_z, true);
    size_t own;
    const bool is_class = find_class(class_number, n, &own);

    INDEPENDENT for (size_t i = 0; i < n; i++) d_z[i] = is_class ? factor * d_z[i] : (real)NAN;
    if (is_class)
        d_z[own] -= d_loss;
}

/* ---- Rows ---- */

/* Adjacent elements are processed in vectors, others one by one, with the same bits. */

DEFINE_VECTOR(row_vector, real);
#define ROW_LENGTH (sizeof(row_vector) / sizeof(real))

/* The number of vectors that stay in registers while the rows pass by. */
#define ROW_VECTORS 4

/* ---- Sums ---- */

ALWAYS_INLINE const real *row_of(const HOST(row_list) * rows, size_t i) {
    return rows->from + (rows->offsets ? rows->offsets[i] : i * rows->row_stride);
}

ALWAYS_INLINE void sum_vectors(const HOST(row_list) * rows, size_t column, const size_t vectors, bool onto, real *sum) {
    row_vector total[ROW_VECTORS];

    UNROLL for (size_t v = 0; v < vectors; v++) total[v] =
        onto ? *(const row_vector *)(sum + column + v * ROW_LENGTH) : (row_vector){0};
    for (size_t i = 0; i < rows->count; i++) {
        const real *row = row_of(rows, i) + column;
        UNROLL for (size_t v = 0; v < vectors; v++) total[v] += *(const row_vector *)(row + v * ROW_LENGTH);
    }
    UNROLL for (size_t v = 0; v < vectors; v++) * (row_vector *)(sum + column + v * ROW_LENGTH) = total[v];
}

static void sum_elements(const HOST(row_list) * rows, size_t column, size_t columns, bool onto, real *sum) {
    for (; column < columns; column++) {
        real total = onto ? sum[column] : 0;
        for (size_t i = 0; i < rows->count; i++)
            total += row_of(rows, i)[column * rows->step];
        sum[column] = total;
    }
}

void KERNEL(sum_rows)(const HOST(row_list) * rows, size_t columns, bool onto, real *sum) {
    size_t column = 0;

    if (rows->step == 1) {
        for (; column + ROW_VECTORS * ROW_LENGTH <= columns; column += ROW_VECTORS * ROW_LENGTH)
            sum_vectors(rows, column, ROW_VECTORS, onto, sum);
        for (; column + ROW_LENGTH <= columns; column += ROW_LENGTH)
            sum_vectors(rows, column, 1, onto, sum);
    }
    sum_elements(rows, column, columns, onto, sum);
}

/* ---- Rotations ---- */

/* out may be in, because a pair is read before it is written. */
#define ROTATE(out_index, in_index)                                                                                    \
    INDEPENDENT for (size_t i = 0; i < half; i++) {                                                                    \
        const real x = low[in_index], y = high[in_index];                                                              \
        out_low[out_index] = cosines[i] * x - sines[i] * y;                                                            \
        out_high[out_index] = sines[i] * x + cosines[i] * y;                                                           \
    }

void KERNEL(rotate_row)(real *out, size_t out_step, const real *in, size_t in_step, const real *cosines,
                        const real *sines, size_t half) {
    const real *low = in, *high = in + half * in_step;
    real *out_low = out, *out_high = out + half * out_step;

    if (out_step == 1 && in_step == 1)
        ROTATE(i, i)
    else
        ROTATE(i * out_step, i * in_step)
}
