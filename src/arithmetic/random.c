#include "iclab/random.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "arithmetic/random_words.h"

void icl_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t block[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];

    for (int round = 0; round < ICL_PHILOX_ROUNDS; round++) {
        const uint64_t product0 = (uint64_t)ICL_PHILOX_M0 * c0;
        const uint64_t product1 = (uint64_t)ICL_PHILOX_M1 * c2;
        c0 = (uint32_t)(product1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)product1;
        c2 = (uint32_t)(product0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)product0;
        k0 += ICL_PHILOX_W0;
        k1 += ICL_PHILOX_W1;
    }
    block[0] = c0;
    block[1] = c1;
    block[2] = c2;
    block[3] = c3;
}

uint32_t icl_random_word(icl_random_key key, uint64_t index) {
    const uint64_t block_index = index / 4;
    const uint32_t counter[4] = {(uint32_t)block_index, (uint32_t)(block_index >> 32), (uint32_t)key.step,
                                 (uint32_t)(key.step >> 32)};
    const uint32_t philox_key[2] = {key.seed, key.stream};
    uint32_t block[4];

    icl_philox(counter, philox_key, block);
    return block[index % 4];
}

uint32_t icl_random_seed(uint32_t seed, uint32_t stream, uint64_t number) {
    return number == 0 ? seed : icl_random_word((icl_random_key){.seed = seed, .stream = stream}, number);
}

float icl_normal_from_word(uint32_t word) {
    return icl_normal_value(word);
}

float icl_exponential_from_word(uint32_t word) {
    return icl_exponential_value(word);
}

float icl_random_value(const icl_random_params *params, uint64_t k) {
    const uint32_t word = icl_random_word(params->key, params->first_index + k);

    switch (params->distribution) {
    case ICL_UNIFORM:
        return icl_uniform_value(word, params->low, params->high - params->low);
    case ICL_NORMAL:
        return icl_normal_value(word);
    case ICL_CHOICE:
        return params->choices[icl_choice_index(word, params->choice_count)];
    case ICL_EXPONENTIAL_LAW:
        return icl_exponential_value(word);
    case ICL_DISTRIBUTION_COUNT:
        break;
    }
    return 0.0f;
}

/* ---- Gamma ---- */

/* Returns 1 / sqrt(s) as icl_spherical does. */
static float reciprocal_root(float s) {
    const float half = s * 0.5F;
    uint32_t bits;
    float y;

    memcpy(&bits, &s, sizeof bits);
    bits = 0x5f375a86u - (bits >> 1);
    memcpy(&y, &bits, sizeof y);
    for (int step = 0; step < 3; step++)
        y = y * (1.5F - half * y * y);
    return y;
}

/* Returns log x for 2^-24 <= x < 2^30: x = 2^k (1 + g), sqrt(1/2) <= 1 + g < sqrt(2). */
static float logarithm(float x) {
    uint32_t bits, exponent;
    float mantissa, k;

    memcpy(&bits, &x, sizeof bits);
    exponent = (bits - 0x3f3504f3u + (64u << 23)) >> 23;
    bits -= (exponent - 64u) << 23;
    memcpy(&mantissa, &bits, sizeof mantissa);
    k = (float)((int32_t)exponent - 64);
    return (k * ICL_LOG_2_HIGH + icl_log_near_one(mantissa - 1.0F)) + k * ICL_LOG_2_LOW;
}

/* Returns 2^L for -110 <= L <= 0 by its series about a whole number, as icl_spherical does; less than that counts as
 * -110. */
static float power_of_two(float exponent) {
    static const float c[8] = {1.0F,           0x1.62e430p-1F,  0x1.ebfbe0p-3F,  0x1.c6b08ep-5F,
                               0x1.3b2ab6p-7F, 0x1.5d87fep-10F, 0x1.430912p-13F, 0x1.ffcbfcp-17F};
    const float cut = exponent > -110.0F ? exponent : -110.0F;
    const int32_t whole = (int32_t)(cut + 110.5F) - 110;
    const float f = cut - (float)whole;
    const uint32_t bits = (uint32_t)(whole + 127) << 23;
    float sum = c[7], power;

    for (int j = 6; j >= 0; j--)
        sum = sum * f + c[j];
    memcpy(&power, &bits, sizeof power);
    return sum * power;
}

/* Returns x^2 / 2 + d - d v^3 + d log v^3 for v = 1 + y, x = 3 sqrt(d) y. With log(1 + y) = y - y^2 / 2 + y^3 P(y) it
 * is d y^3 (3 P(y) - 1), in which nothing large cancels. */
static float log_ratio(float d, float y) {
    const float cube = y * y * y;

    if (y > -0.29F && y < 0.41F)
        return d * (cube * (3.0F * icl_log_polynomial(y) - 1.0F));
    return d * (1.5F * y * y - 3.0F * y - cube + 3.0F * logarithm(1.0F + y));
}

float icl_random_gamma_value(icl_random_key key, uint64_t index, float shape) {
    const bool is_small = shape < 1.0F;
    const float d = (is_small ? shape + 1.0F : shape) - 0x1.555556p-2F;
    const float c = reciprocal_root(d) * 0x1.555556p-2F;
    float value = d;

    if (!(shape >= (float)ICL_LEAST_GAMMA_SHAPE && shape <= (float)ICL_MOST_GAMMA_SHAPE))
        return NAN;
    for (uint64_t attempt = 0; attempt < ICL_GAMMA_ATTEMPTS; attempt++) {
        const uint64_t first_word = 4 * (ICL_GAMMA_ATTEMPTS * index + attempt);
        const float y = c * icl_normal_value(icl_random_word(key, first_word)), v = 1.0F + y;
        const float exponential = icl_exponential_value(icl_random_word(key, first_word + 1));
        if (v > 0.0F && exponential > -log_ratio(d, y)) {
            value = d * (v * v * v);
            break;
        }
    }
    if (is_small) {
        const float inverse_root = reciprocal_root(shape);
        const float exponential =
            icl_exponential_value(icl_random_word(key, 4 * (uint64_t)ICL_GAMMA_ATTEMPTS * index + 2));
        value *= power_of_two(-(exponential * (inverse_root * inverse_root) * 0x1.715476p+0F));
    }
    return value < 0x1p-100F ? 0.0F : value;
}
