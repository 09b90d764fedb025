/* The mixers by plain loops over tokens in double: models of one block, z = e + mixer(e), e = x W + b, with a linear
 * readout. */
#ifndef ICLAB_TESTS_MODEL_SEQUENCE_PLAIN_MIXERS_H
#define ICLAB_TESTS_MODEL_SEQUENCE_PLAIN_MIXERS_H

#include "eliminate.h"
#include "plain_published.h"

/* ---- The formulas ---- */

/* Sums over all pairs of tokens: softmax, and both forms of linear attention. */
static inline void attend(const plain *p, size_t h, head *at) {
    const double *sink = get(p, P_SINK);

    for (size_t t = 0; t < T; t++) {
        const size_t end = p->two_sided ? T : t + 1, first = end > p->window ? end - p->window : 0;
        double total = sink ? exp(sink[h]) : 0, sums[MOST_VALUE] = {0};
        for (size_t s = first; s < end; s++) {
            const double score = p->scale * dot(at->q[t], at->k[s][0], p->features);
            const double weight = p->mixer == SOFTMAX ? exp(score) : score;
            total += weight;
            for (size_t j = 0; j < p->value; j++)
                sums[j] += weight * at->v[s][0][j];
        }
        for (size_t j = 0; j < p->value; j++)
            at->o[t][j] = p->mixer == SOFTMAX ? sums[j] / total : p->normalizer ? sums[j] / (total + 1e-6) : sums[j];
    }
}

/* Runs a state for each head. */
static inline void recur(const plain *p, head *at) {
    const double kept = p->momentum;
    const bool delta = p->mixer == DELTA || p->mixer == GATED_DELTA || p->mixer == DELTA_PRODUCT;
    double state[MOST_KEY][MOST_VALUE] = {{0}}, ball[MOST_KEY][MOST_VALUE] = {{0}};

    for (size_t t = 0; t < T; t++) {
        for (size_t i = 0; i < p->features; i++)
            for (size_t j = 0; j < p->value; j++)
                state[i][j] *= at->decay[t][i];
        for (size_t s = 0; s < p->steps; s++) {
            double miss[MOST_VALUE];
            for (size_t j = 0; j < p->value; j++) {
                miss[j] = at->v[t][s][j];
                for (size_t i = 0; delta && i < p->features; i++)
                    miss[j] -= state[i][j] * at->k[t][s][i];
            }
            for (size_t i = 0; i < p->features; i++)
                for (size_t j = 0; j < p->value; j++) {
                    ball[i][j] = kept * ball[i][j] + at->beta[t][s] * at->k[t][s][i] * miss[j];
                    state[i][j] += ball[i][j];
                }
        }
        for (size_t j = 0; j < p->value; j++) {
            at->o[t][j] = 0;
            for (size_t i = 0; i < p->features; i++)
                at->o[t][j] += p->scale * state[i][j] * at->q[t][i];
        }
    }
}

/* Slots with keys and values of their own (gated slot attention). */
static inline void read_slots(const plain *p, head *at) {
    double keys[MOST_KEY][MOST_KEY] = {{0}}, values[MOST_KEY][MOST_VALUE] = {{0}};

    for (size_t t = 0; t < T; t++) {
        double total = 0;
        memset(at->o[t], 0, sizeof at->o[t]);
        for (size_t s = 0; s < p->slots; s++) {
            const double kept = at->decay[t][s];
            for (size_t i = 0; i < p->features; i++)
                keys[s][i] = kept * keys[s][i] + (1 - kept) * at->k[t][0][i];
            for (size_t j = 0; j < p->value; j++)
                values[s][j] = kept * values[s][j] + (1 - kept) * at->v[t][0][j];
            const double weight = exp(p->scale * dot(keys[s], at->q[t], p->features));
            total += weight;
            for (size_t j = 0; j < p->value; j++)
                at->o[t][j] += weight * values[s][j];
        }
        for (size_t j = 0; j < p->value; j++)
            at->o[t][j] /= total;
    }
}

/* S = S Diag(a) + beta (k - S Diag(a) v) v^T (the gated Oja rule), with v of length 1. */
static inline void learn_keys(const plain *p, head *at) {
    double state[MOST_KEY][MOST_VALUE] = {{0}};

    for (size_t t = 0; t < T; t++) {
        const double *v = at->v[t][0], length = sqrt(dot(v, v, p->value) + 1e-12);
        memset(at->o[t], 0, sizeof at->o[t]);
        for (size_t i = 0; i < p->features; i++) {
            double miss = at->k[t][0][i];
            for (size_t j = 0; j < p->value; j++) {
                state[i][j] *= at->decay[t][j];
                miss -= state[i][j] * v[j] / length;
            }
            for (size_t j = 0; j < p->value; j++) {
                state[i][j] += at->beta[t][0] * miss * v[j] / length;
                at->o[t][j] += p->scale * at->q[t][i] * state[i][j];
            }
        }
    }
}

/* Sums over all pairs of tokens, weighted by the level at which one reads the other (log-linear attention). */
static inline void read_levels(const plain *p, size_t h, head *at) {
    const double *level = get(p, P_LEVEL), *scale = get(p, P_LEVEL_SCALE);

    for (size_t t = 0; t < T; t++) {
        double kept = 1;
        memset(at->o[t], 0, sizeof at->o[t]);
        for (size_t s = t + 1; s-- > 0;) {
            size_t bits = 0;
            while ((t ^ s) >> bits)
                bits++;
            const size_t own = h * LEVELS + (bits < LEVELS ? bits : LEVELS - 1);
            const double weight = softplus(scale[own] * column(p->z[t], level, WIDTH, p->heads * LEVELS, own));
            for (size_t j = 0; j < p->value; j++)
                at->o[t][j] += p->scale * weight * kept * dot(at->q[t], at->k[s][0], p->features) * at->v[s][0][j];
            kept *= at->decay[s][0];
        }
    }
}

/* Replaces q by a^-1 q, by `steps` conjugate gradient steps that start at q over the diagonal (Hestenes and Stiefel
 * 1952). */
static inline void descend(size_t size, double a[MOST_KEY][MOST_KEY], double *q, size_t steps) {
    double x[MOST_KEY], r[MOST_KEY], d[MOST_KEY], product[MOST_KEY], square;

    for (size_t i = 0; i < size; i++)
        x[i] = q[i] / a[i][i];
    for (size_t i = 0; i < size; i++)
        d[i] = r[i] = q[i] - dot(a[i], x, size);
    square = dot(r, r, size);
    for (size_t n = 0; n < steps && square > 0; n++) {
        for (size_t i = 0; i < size; i++)
            product[i] = dot(a[i], d, size);
        const double step = square / dot(d, product, size), before = square;
        for (size_t i = 0; i < size; i++) {
            x[i] += step * d[i];
            r[i] -= step * product[i];
        }
        square = dot(r, r, size);
        for (size_t i = 0; i < size; i++)
            d[i] = r[i] + square / before * d[i];
    }
    memcpy(q, x, size * sizeof *q);
}

/* Replaces queries by (H_t + Lambda)^-1 q_t, with H_t as a sum over all keys up to t. */
static inline void solve_queries(const plain *p, size_t h, head *at) {
    const size_t size = p->features, steps = p->iterations;
    const double *ridge = get(p, P_RIDGE);

    for (size_t t = 0; t < T && steps > 0; t++) {
        double a[MOST_KEY][MOST_KEY] = {{0}}, weight = 1;
        for (size_t s = t + 1; s-- > 0;) {
            for (size_t i = 0; i < size; i++)
                for (size_t j = 0; j < size; j++)
                    a[i][j] += weight * at->beta[s][0] * at->k[s][0][i] * at->k[s][0][j];
            weight *= at->decay[s][0];
        }
        for (size_t i = 0; i < size; i++)
            a[i][i] += p->ridge / 4 + softplus(ridge[h * size + i]);
        if (steps < size)
            descend(size, a, at->q[t], steps);
        else
            eliminate(size, MOST_KEY, &a[0][0], at->q[t]);
    }
}

/* Divides o, less its mean for a layer norm, by the root of its mean square, and multiplies by the gain. */
static inline void normalize(const plain *p, double *o) {
    const double *gain = get(p, P_GAIN);
    const double count = (double)p->value;
    double mean = 0, square = 0;

    if (!p->has_norm)
        return;
    for (size_t j = 0; j < p->value && p->is_layer_norm; j++)
        mean += o[j] / count;
    for (size_t j = 0; j < p->value; j++)
        square += (o[j] - mean) * (o[j] - mean) / count;
    for (size_t j = 0; j < p->value; j++)
        o[j] = (o[j] - mean) / sqrt(square + 1e-5) * gain[j];
}

/* Computes (norm(o) of every head, gated by SiLU or a sigmoid) W. */
static inline void mix_heads(plain *p) {
    const double *output = get(p, P_OUTPUT), *gate = get(p, P_OUTPUT_GATE);
    const size_t values = p->heads * p->value;
    static double joined[T][MOST_HEADS * MOST_VALUE];
    static head at;

    for (size_t h = 0; h < p->heads; h++) {
        fill_head(p, h, &at);
        if (p->mixer == MESA)
            solve_queries(p, h, &at);
        if (p->mixer == SOFTMAX || p->mixer == LINEAR)
            attend(p, h, &at);
        else if (p->mixer == GSA)
            read_slots(p, &at);
        else if (p->mixer == OJA)
            learn_keys(p, &at);
        else if (p->mixer == LOG_LINEAR)
            read_levels(p, h, &at);
        else if (!run_published(p, h, &at))
            recur(p, &at);
        for (size_t t = 0; t < T; t++) {
            normalize(p, at.o[t]);
            for (size_t j = 0; j < p->value; j++) {
                const double x = gate ? column(p->z[t], gate, WIDTH, values, h * p->value + j) : 0;
                joined[t][h * p->value + j] = at.o[t][j] * (gate ? (p->has_sigmoid ? 1 : x) * sigmoid(x) : 1);
            }
        }
    }
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < WIDTH; i++)
            p->mixed[t][i] = column(joined[t], output, values, WIDTH, i);
}

static inline void mix_convolution(plain *p) {
    const double *filter = get(p, P_FILTER), *output = get(p, P_OUTPUT);
    const double *bias = get(p, P_OUTPUT_BIAS);

    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < WIDTH; i++) {
            double sum = 0;
            for (size_t back = 0; back < p->taps && back <= t; back++)
                sum += filter[(p->taps - 1 - back) * WIDTH + i] * p->z[t - back][i];
            p->mixed[t][i] = sum * (column(p->z[t], output, WIDTH, WIDTH, i) + bias[i]);
        }
}

/* The numbers of one sequence that a call of dropout takes, [positions][WIDTH], from position `first` on. */
typedef struct dropped {
    size_t call, sequence, first, positions;
} dropped;

/* Returns what dropout multiplies number i of position t by. */
static inline double factor_of(const plain *p, const dropped *of, size_t t, size_t i) {
    const uint64_t place = (of->sequence * of->positions + t - of->first) * WIDTH + i;
    const uint32_t word = icl_random_word(fixture_dropout.key, (uint64_t)of->call * (UINT64_C(1) << 40) + place);

    return (double)(word >> 8) * 0x1p-24 > p->dropout ? 1 / (1 - p->dropout) : 0;
}

/* Computes z <- z + mixer(z), cut to the clip; with injection, e is added to z before every loop but the first, where z
 * is e. */
static inline void run_loop(plain *p, const dropped *of) {
    const double clip = p->clip;

    for (size_t t = 0; t < T && of->call > 1 && p->injection; t++)
        for (size_t i = 0; i < WIDTH; i++)
            p->z[t][i] += p->e[t][i];
    if (p->mixer == CONV)
        mix_convolution(p);
    else
        mix_heads(p);
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < WIDTH; i++) {
            if (t >= of->first)
                p->z[t][i] += p->mixed[t][i] * factor_of(p, of, t, i);
            if (clip > 0)
                p->z[t][i] = fmin(clip, fmax(-clip, p->z[t][i]));
        }
}

/* Computes outputs [B][scored][OUTPUTS] at the last positions. */
static inline void run_plain(plain *p, const double *inputs, size_t scored, double *outputs) {
    const double *embedding = get(p, P_EMBEDDING), *bias = get(p, P_EMBEDDING_BIAS);
    const double *readout = get(p, P_READOUT), *last = get(p, P_READOUT_BIAS);

    for (size_t b = 0; b < B; b++) {
        for (size_t t = 0; t < T; t++)
            for (size_t i = 0; i < WIDTH; i++)
                p->e[t][i] =
                    (column(inputs + (b * T + t) * INPUTS, embedding, INPUTS, WIDTH, i) + (bias ? bias[i] : 0)) *
                    factor_of(p, &(dropped){0, b, 0, T}, t, i);
        memcpy(p->z, p->e, sizeof p->z);
        for (size_t loop = 1; loop <= p->loops;
             loop++) /* behind the last one, positions without a score are left out */
            run_loop(p, loop < p->loops ? &(dropped){loop, b, 0, T} : &(dropped){loop, b, T - scored, scored});
        for (size_t t = T - scored; t < T; t++)
            for (size_t j = 0; j < OUTPUTS; j++)
                *outputs++ = column(p->z[t], readout, WIDTH, OUTPUTS, j) + last[j];
    }
}

#endif
