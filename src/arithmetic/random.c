#include "iclab/random.h"

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

float icl_random_value(const icl_random_params *params, uint64_t k) {
    const uint32_t word = icl_random_word(params->key, params->first_index + k);

    switch (params->distribution) {
    case ICL_UNIFORM:
        return icl_uniform_value(word, params->low, params->high - params->low);
    case ICL_NORMAL:
        return icl_normal_value(word);
    case ICL_CHOICE:
        return params->choices[icl_choice_index(word, params->choice_count)];
    }
    return 0.0f;
}
