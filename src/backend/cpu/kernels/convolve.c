/* Short convolutions of neighbouring tokens: adjacent channels in vectors, others one by one, with the same bits. */
#include "backend/cpu/kernels/parts.h"

#include "arithmetic/vector.h"

DEFINE_VECTOR(channel_vector, real);
#define LENGTH (sizeof(channel_vector) / sizeof(real))

/* ---- Filtering ---- */

/* Vectors side by side, for which the widths below keep their taps in registers. */
#define VECTORS    2
#define MOST_WIDTH 4

/* Taps from the last one that lies before the sequence on: 0, or more at its first tokens. */
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
        channel_vector sum[VECTORS];
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

/* As above where every token has all taps, a number of them that is known to the compiler. */
ALWAYS_INLINE void filter_width(const HOST(token_block) * block, const real *kernel, size_t channel,
                                const size_t width) {
    channel_vector tap[MOST_WIDTH][VECTORS];

    UNROLL for (size_t j = 0; j < width; j++) UNROLL for (size_t v = 0; v < VECTORS; v++) tap[j][v] =
        *(const channel_vector *)(kernel + j * block->channels + channel + v * LENGTH);
    for (size_t t = 0; t < block->tokens; t++) {
        channel_vector sum[VECTORS];
        UNROLL for (size_t v = 0; v < VECTORS; v++) sum[v] = (channel_vector){0};
        UNROLL for (size_t j = 0; j < width; j++) {
            const real *in = tap_of(block, t, j) + channel;
            UNROLL for (size_t v = 0; v < VECTORS; v++) sum[v] +=
                tap[j][v] * *(const channel_vector *)(in + v * LENGTH);
        }
        UNROLL for (size_t v = 0; v < VECTORS; v++) * (channel_vector *)(out_of(block, t) + channel + v * LENGTH) =
            sum[v];
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
        filter_vectors(block, kernel, channel, VECTORS);
    }
}

/* The first tokens of a sequence, and the others. */
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
        for (; channel + VECTORS * LENGTH <= block->channels; channel += VECTORS * LENGTH) {
            filter_vectors(&head, kernel, channel, VECTORS);
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

/* The first token that has the tap: as first_tap, the other way round. */
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
