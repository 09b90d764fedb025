/*
 * Counter-based random numbers: the same bits in C and on every device.
 *
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011), with
 *     key     = (seed, stream)
 *     counter = (low(index / 4), high(index / 4), low(step), high(step))
 * so that element `index` of a fill is word index % 4 of one block. There is no state: a number is a pure function of
 * (seed, stream, step, index). Uniforms and normals are made from the word with integer ops and float +, -, * that
 * round once each, so they too are bit-identical everywhere.
 */
#ifndef ICLAB_RANDOM_H
#define ICLAB_RANDOM_H

#include <stdint.h>

#include "iclab/export.h"
#include "iclab/kinds.h"

ICL_C_BEGIN

/* The arguments of a random number beside its index. */
typedef struct icl_random_key {
    uint32_t seed;   /* seed of the experiment */
    uint32_t stream; /* one for each purpose, so that purposes never share numbers */
    uint64_t step;   /* the step of training, or another counter */
} icl_random_key;

/* The numbers that an op draws with. */
typedef struct icl_draw_params {
    icl_random_key key;   /* whose numbers */
    uint64_t first_index; /* element k of the view, in row-major order, is draw first_index + k */
} icl_draw_params;

/* Different numbers of each row: draw j of row r takes word first_index + r row_words + j. */
typedef struct icl_distinct_params {
    icl_random_key key;   /* whose words */
    uint64_t first_index; /* the first word of row 0 */
    uint64_t row_words;   /* words from the start of a row to that of the next */
    uint32_t least;       /* the least number; the others follow it */
    uint32_t count;       /* how many numbers there are */
} icl_distinct_params;

/* The shapes that gamma distributions may have. */
#define ICL_LEAST_GAMMA_SHAPE (1.0 / 1024)
#define ICL_MOST_GAMMA_SHAPE  1073741824.0

/* The attempts of a gamma draw, each of which is refused with a probability below 0.05. */
#define ICL_GAMMA_ATTEMPTS 16

/* The largest number of values of ICL_CHOICE. */
#define ICL_MAX_CHOICES 16

/* A fill with random numbers. */
typedef struct icl_random_params {
    icl_random_key key; /* which numbers */
    /* Index of the first element; element k of the view, in row-major order, has first + k. */
    uint64_t first_index;
    icl_distribution distribution;  /* what becomes of the random words */
    float low;                      /* ICL_UNIFORM: the least value; the product rounds once, then the sum once */
    float high;                     /* ICL_UNIFORM: the upper end, which is not reached */
    uint32_t choice_count;          /* ICL_CHOICE: the number of values */
    float choices[ICL_MAX_CHOICES]; /* ICL_CHOICE: the values */
} icl_random_params;

/* One Philox4x32-10 block. */
ICL_API void icl_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t block[4]);

/* Returns the random word of one element. */
ICL_API uint32_t icl_random_word(icl_random_key key, uint64_t index);

/* Returns seed `number`, from 0, of several that are made from one: `seed` itself for number 0, and a random word of
 * the stream for the others, so that the seeds made from 1 and from 2 have no number in common but by chance (one
 * pair in 2^32). Purposes have streams of their own. */
ICL_API uint32_t icl_random_seed(uint32_t seed, uint32_t stream, uint64_t number);

/* Returns the inverse normal CDF at (word + 1/2) / 2^32, rounded: |error| < 2e-7 * max(1, |x|). Antisymmetric in the
 * word: normal(~word) = -normal(word). */
ICL_API float icl_normal_from_word(uint32_t word);

/* Returns -log((word + 1/2) / 2^32), rounded: relative error < 2e-7. */
ICL_API float icl_exponential_from_word(uint32_t word);

/* Returns element k of a fill, computed on the host: what every backend writes there. */
ICL_API float icl_random_value(const icl_random_params *params, uint64_t k);

/*
 * Returns draw `index` of the gamma distribution with scale 1 and this shape a; what every backend writes for
 * icl_random_gamma. NaN unless ICL_LEAST_GAMMA_SHAPE <= a <= ICL_MOST_GAMMA_SHAPE; 0 for what is below 2^-100.
 *
 * Marsaglia and Tsang (2000), "A simple method for generating gamma variables": with b = a, or a + 1 where a < 1,
 * d = b - 1/3 and c = 1 / (3 sqrt(d)), attempt t has the block 16 index + t of the key's numbers: a normal x from its
 * word 0 and an exponential e from its word 1. y = c x, v = 1 + y, and d v^3 is the draw if v > 0 and
 * e > -(x^2 / 2 + d - d v^3 + d log v^3); if no attempt is accepted, d is. Where a < 1 it is multiplied by U^(1 / a),
 * U = exp(-e) of word 2 of block 16 index. src/arithmetic/random.c has every product and sum.
 */
ICL_API float icl_random_gamma_value(icl_random_key key, uint64_t index, float shape);

ICL_C_END

#endif
