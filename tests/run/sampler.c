/* Choosing bytes: the share of words of each, what the limits leave, and valid UTF-8. */
#include "run/writer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "iclab/random.h"
#include "tap.h"

/* The logits of four bytes with the weights 8, 4, 2 and 2; all others get none. */
static void set_logits(float logits[ICL_SAMPLED]) {
    for (size_t i = 0; i < ICL_SAMPLED; i++)
        logits[i] = -1000;
    logits['a'] = 0;
    logits['d'] = (float)log(0.5);
    logits['b'] = logits['c'] = (float)log(0.25);
}

/* Checks where the words of one byte end and those of the next begin, in 16ths of all words. */
static void check_shares(tap_run *tap, icl_sampler sampler, const char *bytes, const char *what) {
    float logits[ICL_SAMPLED];
    bool right = true;
    const size_t count = strlen(bytes);

    set_logits(logits);
    for (size_t i = 0; i < count; i++) /* the middle of each share, so that rounding decides nothing */
        right = right &&
                icl_sampler_draw(&sampler, logits, 9, (uint32_t)(((double)i + 0.5) / (double)count * 4294967296.0)) ==
                    (unsigned char)bytes[i];
    tap_ok(tap, right, "%s: %s", what, bytes);
}

/* Draws texts from logits that are all alike, and checks that they are UTF-8 to their end. */
static void check_utf8(tap_run *tap) {
    enum { TEXTS = 300, MOST = 12 };
    const float logits[ICL_SAMPLED] = {0};
    size_t wrong = 0, long_ones = 0, free_wrong = 0;

    for (uint32_t text = 0; text < TEXTS; text++) {
        icl_sampler sampler = {.temperature = 1, .top_p = 1, .keeps_utf8 = true},
                    unbound = {.temperature = 1, .top_p = 1};
        icl_utf8_state state = {0}, other = {0};
        const uint64_t bytes = 1 + text % MOST;
        bool valid = true, other_valid = true;
        for (uint64_t i = 0; i < bytes; i++) {
            const uint32_t word = icl_random_word((icl_random_key){3, 1, text}, i);
            const unsigned char byte = icl_sampler_draw(&sampler, logits, bytes - i, word);
            valid = valid && icl_utf8_take(&state, byte);
            long_ones += icl_utf8_length(byte) > 2;
            other_valid = other_valid && icl_utf8_take(&other, icl_sampler_draw(&unbound, logits, bytes - i, word));
        }
        wrong += !valid || state.missing > 0;
        free_wrong += !other_valid || other.missing > 0;
    }
    tap_ok(tap, wrong == 0 && long_ones > 50 && free_wrong > TEXTS / 2,
           "%d texts are UTF-8 to the end, with %zu characters of 3 and 4 bytes; %zu are not where nothing asks for it",
           TEXTS, long_ones, free_wrong);
}

/* After the first two bytes of a character only its last can come. */
static void check_prompt(tap_run *tap) {
    icl_sampler sampler = {.top_p = 1, .keeps_utf8 = true};
    float logits[ICL_SAMPLED] = {[0xc3] = 5, [0x80] = 1};

    icl_sampler_take(&sampler, 0xe2);
    icl_sampler_take(&sampler, 0x82);
    const unsigned char last = icl_sampler_draw(&sampler, logits, 4, 0),
                        next = icl_sampler_draw(&sampler, logits, 3, 0);
    tap_ok(tap, last == 0x80 && next == 0xc3, "a character that the prompt began is ended first (%x, %x)", last, next);
    (void)icl_sampler_draw(&sampler, logits, 2, 0);
    tap_ok(tap, icl_sampler_draw(&sampler, logits, 1, 0) == 0, "the last byte begins no long character");
    icl_sampler_take(&sampler, 0xff);
    tap_ok(tap, icl_sampler_draw(&sampler, logits, 2, 0) == 0xc3,
           "after a byte that cannot stand the text begins anew");
}

static int by_weight(const void *a, const void *b) {
    const double left = *(const double *)a, right = *(const double *)b;
    return (left < right) - (left > right);
}

/* Draws from 256 different logits, and compares each byte's weight with that of the place in all weights, sorted, at
 * which the word's share of their sum lies. Beside an edge, where rounding could decide, a word is left out. */
static void check_order(tap_run *tap) {
    enum { WORDS = 4000 };
    float logits[ICL_SAMPLED];
    double weights[ICL_SAMPLED], sum = 0;
    size_t wrong = 0, compared = 0;

    for (uint32_t i = 0; i < ICL_SAMPLED; i++) {
        logits[i] = (float)(i * 167 % ICL_SAMPLED) / 40;
        sum += weights[i] = exp((double)logits[i]);
    }
    qsort(weights, ICL_SAMPLED, sizeof *weights, by_weight);
    for (uint32_t i = 0; i < WORDS; i++) {
        icl_sampler sampler = {.temperature = 1, .top_p = 1};
        const uint32_t word = icl_random_word((icl_random_key){5, 1, i}, 0);
        const double share = word * 0x1p-32 * sum;
        double before = 0;
        size_t place = 0;
        while (place + 1 < ICL_SAMPLED && before + weights[place] <= share)
            before += weights[place++];
        if (fabs(share - before) < 1e-9 * sum || fabs(share - before - weights[place]) < 1e-9 * sum)
            continue;
        const double drawn = exp((double)logits[icl_sampler_draw(&sampler, logits, 9, word)]);
        wrong += fabs(drawn - weights[place]) > 1e-9 * drawn;
        compared++;
    }
    tap_ok(tap, wrong == 0 && compared > WORDS / 2, "%zu draws of 256 bytes in the order of their weights", compared);
}

/* The bounds of RFC 3629, from both sides. */
static void check_bounds(tap_run *tap) {
    static const struct {
        unsigned char bytes[4];
        size_t count;
        bool valid;
    } rows[] = {{{0x7f}, 1, true},
                {{0x80}, 1, false},
                {{0xc1, 0x80}, 2, false},
                {{0xc2, 0x80}, 2, true},
                {{0xc2, 0xc0}, 2, false},
                {{0xe0, 0x9f, 0x80}, 3, false},
                {{0xe0, 0xa0, 0x80}, 3, true},
                {{0xed, 0x9f, 0xbf}, 3, true},
                {{0xed, 0xa0, 0x80}, 3, false},
                {{0xf0, 0x8f, 0x80, 0x80}, 4, false},
                {{0xf0, 0x90, 0x80, 0x80}, 4, true},
                {{0xf4, 0x8f, 0xbf, 0xbf}, 4, true},
                {{0xf4, 0x90, 0x80, 0x80}, 4, false},
                {{0xf5, 0x80, 0x80, 0x80}, 4, false}};
    size_t wrong = 0;

    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        icl_utf8_state state = {0};
        bool valid = true;
        for (size_t i = 0; i < rows[row].count; i++)
            valid = valid && icl_utf8_take(&state, rows[row].bytes[i]);
        wrong += (valid && state.missing == 0) != rows[row].valid;
    }
    tap_ok(tap, wrong == 0, "UTF-8 at its bounds");
}

int main(void) {
    tap_run tap = {0};

    check_shares(&tap, (icl_sampler){.temperature = 1, .top_p = 1}, "aaaaaaaaddddbbcc", "shares by probability");
    check_shares(&tap, (icl_sampler){.temperature = 0.5, .top_p = 1}, "aaaaaaaaaaaaaaaaddddbc", "temperature 0.5");
    check_shares(&tap, (icl_sampler){.temperature = 0, .top_p = 1}, "aaaa", "temperature 0");
    check_shares(&tap, (icl_sampler){.temperature = 1, .top_k = 2, .top_p = 1}, "aad", "top_k 2");
    check_shares(&tap, (icl_sampler){.temperature = 1, .top_k = 3, .top_p = 1}, "aaaaddb",
                 "top_k 3, of equal ones the lower");
    check_shares(&tap, (icl_sampler){.temperature = 1, .top_p = 0.7}, "aad", "top_p 0.7");
    check_shares(&tap, (icl_sampler){.temperature = 1, .top_p = 0.8}, "aaaaddb", "top_p 0.8");
    check_shares(&tap, (icl_sampler){.temperature = 1, .top_p = 0.01}, "a", "top_p 0.01: one at least");
    check_order(&tap);
    check_utf8(&tap);
    check_prompt(&tap);
    check_bounds(&tap);
    return tap_done(&tap);
}
