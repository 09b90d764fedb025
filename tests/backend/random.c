/* Random numbers: Philox against known answers and Random123, normals against a double-precision inverse CDF. */
#include "iclab/random.h"

#include <math.h>

#include "tap.h"

#ifdef __has_include
#if __has_include(<Random123/philox.h>)
#include <Random123/philox.h>
#define HAVE_RANDOM123 1
#endif
#endif
#ifndef HAVE_RANDOM123
#define HAVE_RANDOM123 0
#endif

/* The vectors of Random123's kat_vectors for philox4x32 with 10 rounds. */
static void check_known_answers(tap_run *tap) {
    static const struct {
        uint32_t counter[4], key[2], block[4];
    } vectors[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        uint32_t block[4];
        icl_philox(vectors[i].counter, vectors[i].key, block);
        tap_ok(tap, memcmp(block, vectors[i].block, sizeof block) == 0, "philox known answer %zu", i);
    }
}

static void check_random123(tap_run *tap) {
#if HAVE_RANDOM123
    uint64_t state = 1;
    int wrong = 0;
    for (int i = 0; i < 100000; i++) {
        uint32_t words[6], block[4];
        philox4x32_ctr_t counter, expected;
        philox4x32_key_t key;
        for (int j = 0; j < 6; j++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            words[j] = (uint32_t)(state >> 32);
        }
        memcpy(counter.v, words, sizeof counter.v);
        memcpy(key.v, words + 4, sizeof key.v);
        expected = philox4x32(counter, key);
        icl_philox(words, words + 4, block);
        wrong += memcmp(block, expected.v, sizeof block) != 0;
    }
    tap_ok(tap, wrong == 0, "100000 blocks equal Random123's");
#else
    tap_skip(tap, "blocks equal Random123's", "Random123/philox.h is not installed");
#endif
}

/* Checks index -> (block, word) and (step, stream) -> (counter, key), as random.h states them. */
static void check_counter(tap_run *tap) {
    static const uint64_t indices[] = {0, 1, 2, 3, 4, 7, 1000003, ((uint64_t)1 << 34) + 5, UINT64_MAX};
    const icl_random_key key = {77, 3, ((uint64_t)5 << 32) + 9};
    bool same = true;
    for (size_t i = 0; i < sizeof indices / sizeof indices[0]; i++) {
        const uint64_t block_index = indices[i] / 4;
        const uint32_t counter[4] = {(uint32_t)block_index, (uint32_t)(block_index >> 32), 9, 5};
        uint32_t block[4];
        icl_philox(counter, (const uint32_t[2]){77, 3}, block);
        same = same && icl_random_word(key, indices[i]) == block[indices[i] % 4];
    }
    tap_ok(tap, same, "a word is word index mod 4 of block index / 4");
}

/* Phi^-1(p), p <= 1/2, by Newton's method on log Phi, which is concave: from the left
 * it converges without overshoot. */
static double inverse_normal(double p) {
    double x = p > 0.02 ? 0.0 : -sqrt(-2.0 * log(p));
    for (int i = 0; i < 60; i++) {
        const double cdf = 0.5 * erfc(-x / sqrt(2.0));
        const double density = exp(-0.5 * x * x) / sqrt(2.0 * acos(-1.0));
        const double step = cdf / density * log(cdf / p);
        x -= step;
        if (fabs(step) < 1e-15 * fmax(1.0, fabs(x)))
            break;
    }
    return x;
}

typedef struct worst_error {
    double error; /* in units of max(1, |x|) */
    uint32_t word;
} worst_error;

static void measure(worst_error *worst, uint32_t word) {
    const uint32_t low = word >> 31 ? ~word : word;
    const double tail = inverse_normal(((double)low + 0.5) / 4294967296.0);
    const double x = word >> 31 ? -tail : tail;
    const double error = fabs((double)icl_normal_from_word(word) - x) / fmax(1.0, fabs(x));
    if (!(error <= worst->error)) {
        worst->error = error;
        worst->word = word;
    }
}

static void check_normal_error(tap_run *tap) {
    worst_error worst = {0};
    for (uint32_t word = 0; word < 70000; word++) /* the far tail, every word */
        measure(&worst, word);
    for (int bit = 0; bit < 32; bit++) /* both sides of every octave's edge */
        for (uint32_t near = 0; near < 3000; near++) {
            measure(&worst, ((uint32_t)1 << bit) + near);
            measure(&worst, ((uint32_t)1 << bit) - near);
            measure(&worst, ~(((uint32_t)1 << bit) + near));
        }
    for (uint32_t i = 0; i < 1000000; i++) /* evenly over all words */
        measure(&worst, i * 4294u + i % 4294u);
    for (uint32_t octave = 1; octave < 20; octave++) /* evenly over each octave */
        for (uint32_t i = 0; i < 20000; i++)
            measure(&worst, ((uint32_t)1 << (31 - octave)) + (uint32_t)((uint64_t)i * (1u << (31 - octave)) / 20000));
    tap_note("worst error %.3g * max(1, |x|), at word 0x%08x", worst.error, worst.word);
    tap_ok(tap, worst.error < 2e-7, "normals are within 2e-7 of the inverse CDF");
}

static void check_normal_shape(tap_run *tap) {
    bool antisymmetric = true, monotone = true;
    float previous = icl_normal_from_word(0);
    for (uint32_t i = 0; i < 4000000; i++) {
        const uint32_t word = i * 1073u + i % 1073u;
        const float value = icl_normal_from_word(word);
        antisymmetric = antisymmetric && value == -icl_normal_from_word(~word);
        monotone = monotone && value >= previous - 4e-7f * fmaxf(1.0f, fabsf(value));
        previous = value;
    }
    tap_ok(tap, antisymmetric, "normal(~word) = -normal(word)");
    tap_ok(tap, monotone, "normals grow with the word, to within their error");
    tap_ok(tap, icl_normal_from_word(0x7fffffff) < 0 && icl_normal_from_word(0x80000000) > 0,
           "the two words in the middle have opposite signs");
    tap_ok(tap, fabsf(icl_normal_from_word(0) + 6.33798f) < 1e-4f, "the smallest word gives the 2^-33 quantile");
}

static void check_moments(tap_run *tap) {
    enum { COUNT = 2000000 };
    const icl_random_params params = {.key = {1, 2, 3}, .distribution = ICL_NORMAL};
    double sum[5] = {0};
    for (uint64_t k = 0; k < COUNT; k++) {
        const double x = (double)icl_random_value(&params, k);
        double power = 1.0;
        for (int i = 1; i < 5; i++)
            sum[i] += power *= x;
    }
    for (int i = 1; i < 5; i++) {
        static const double expected[5] = {1, 0, 1, 0, 3}, variance[5] = {0, 1, 2, 15, 96};
        const double deviation = (sum[i] / COUNT - expected[i]) / sqrt(variance[i] / COUNT);
        tap_note("moment %d: %.6f, %.2f standard errors off", i, sum[i] / COUNT, deviation);
        tap_ok(tap, fabs(deviation) < 4.0, "moment %d of 2 million normals", i);
    }
}

static void check_values(tap_run *tap) {
    const icl_random_params uniform = {
        .key = {9, 0, 0}, .first_index = 100, .distribution = ICL_UNIFORM, .low = -2.0f, .high = 3.0f};
    const icl_random_params choice = {
        .key = {9, 1, 0}, .distribution = ICL_CHOICE, .choice_count = 3, .choices = {1.0f, 3.0f, 5.0f}};
    int counts[3] = {0};
    bool in_range = true, known = true;
    double sum = 0;
    for (uint64_t k = 0; k < 300000; k++) {
        const float u = icl_random_value(&uniform, k), c = icl_random_value(&choice, k);
        in_range = in_range && u >= -2.0f && u < 3.0f;
        known = known && (c == 1.0f || c == 3.0f || c == 5.0f);
        counts[c == 3.0f ? 1 : c == 5.0f ? 2 : 0]++;
        sum += (double)u;
    }
    tap_ok(tap, in_range, "uniforms lie in [low, high)");
    tap_ok(tap, fabs(sum / 300000 - 0.5) < 4 * 5 / sqrt(12.0 * 300000), "uniforms have the right mean");
    tap_ok(tap, known, "choices come from the list");
    tap_ok(tap, abs(counts[0] - 100000) < 1200 && abs(counts[1] - 100000) < 1200, "choices are equally likely");
    tap_ok(tap,
           icl_random_value(&uniform, 7) == -2.0f + 5.0f * ((float)(icl_random_word(uniform.key, 107) >> 8) * 0x1p-24f),
           "element k has index first_index + k");
}

int main(void) {
    tap_run tap = {0};
    check_known_answers(&tap);
    check_random123(&tap);
    check_counter(&tap);
    check_normal_error(&tap);
    check_normal_shape(&tap);
    check_moments(&tap);
    check_values(&tap);
    return tap_done(&tap);
}
