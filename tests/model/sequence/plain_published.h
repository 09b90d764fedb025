/*
 * Mixers as their papers define them, token by token in double, without the rewriting that the library's recurrence
 * needs: fox by products of its gates over all pairs of tokens, and the others as
 *
 *     S_t = A_t S_(t-1) + W_t,   o_t = scale S_t^T q_t
 *
 * with the transition A_t [m, m] and what is written, W_t [m, n], each formed in full.
 */
#ifndef ICLAB_TESTS_MODEL_SEQUENCE_PLAIN_PUBLISHED_H
#define ICLAB_TESTS_MODEL_SEQUENCE_PLAIN_PUBLISHED_H

#include "plain_heads.h"

typedef struct transition {
    double A[MOST_KEY][MOST_KEY], W[MOST_KEY][MOST_VALUE];
} transition;

/* A state S, and the squares that preconditioned-delta keeps beside it. */
typedef struct published_state {
    double S[MOST_KEY][MOST_VALUE], squares[MOST_KEY];
} published_state;

/* A = Diag(kept) - left right^T, W = key value^T. */
static inline void fill_transition(const plain *p, const double *kept, const double *left, const double *right,
                                   const double *key, const double *value, transition *out) {
    for (size_t i = 0; i < p->features; i++) {
        for (size_t j = 0; j < p->features; j++)
            out->A[i][j] = (i == j ? kept[i] : 0) - left[i] * right[j];
        for (size_t j = 0; j < p->value; j++)
            out->W[i][j] = key[i] * value[j];
    }
}

static inline void apply(const plain *p, const transition *with, double S[MOST_KEY][MOST_VALUE]) {
    double next[MOST_KEY][MOST_VALUE] = {{0}};

    for (size_t i = 0; i < p->features; i++)
        for (size_t j = 0; j < p->value; j++) {
            next[i][j] = with->W[i][j];
            for (size_t l = 0; l < p->features; l++)
                next[i][j] += with->A[i][l] * S[l][j];
        }
    memcpy(S, next, sizeof next);
}

/* ---- Gates ---- */

/* exp(-exp(A) softplus(x W + dt)) below the limit; the bias and the rate follow the weight. */
static inline double rate_gate_of(const plain *p, size_t part, size_t h, size_t t) {
    const double x = column(p->z[t], get(p, part), WIDTH, p->heads, h) + get(p, part + 1)[h];
    return p->limit * exp(-exp(get(p, part + 2)[h]) * softplus(x));
}

/* sigmoid(x W + b); the bias follows the weight. */
static inline double share_of(const plain *p, size_t part, size_t t, size_t columns, size_t j) {
    return sigmoid(column(p->z[t], get(p, part), WIDTH, columns, j) + get(p, part + 1)[j]);
}

/* f(x F) G + b for number i of the key, with as many numbers between F and G as a value has. */
static inline double low_rank_of(const plain *p, size_t h, size_t t, size_t i, bool squashes) {
    const size_t columns = p->heads * p->features, own = h * p->features + i;
    double low[MOST_VALUE];

    for (size_t j = 0; j < p->value; j++) {
        low[j] = column(p->z[t], get(p, P_GATE_DOWN), WIDTH, p->value, j);
        low[j] = squashes ? tanh(low[j]) : low[j];
    }
    return column(low, get(p, P_GATE_UP), p->value, columns, own) + get(p, P_GATE_BIAS)[own];
}

static inline double channel_gate_of(const plain *p, size_t h, size_t t, size_t i) {
    return p->limit * exp(-exp(get(p, P_GATE_RATE)[h]) * softplus(low_rank_of(p, h, t, i, false)));
}

/* ---- Transitions ---- */

/* Kimi Linear, equation 1: S_t = (I - b k k^T) Diag(a) S_(t-1) + b k v^T. */
static inline void transit_kda(const plain *p, size_t h, size_t t, const head *at, transition *out) {
    const double *k = at->k[t][0], beta = at->beta[t][0];
    double kept[MOST_KEY], left[MOST_KEY], right[MOST_KEY];

    for (size_t i = 0; i < p->features; i++) {
        kept[i] = channel_gate_of(p, h, t, i);
        left[i] = beta * k[i];
        right[i] = k[i] * kept[i];
    }
    fill_transition(p, kept, left, right, left, at->v[t][0], out);
}

/* Gated DeltaNet-2: S_t = (I - k (b o k)^T) Diag(a) S_(t-1) + k (w o v)^T. */
static inline void transit_gated_delta_2(const plain *p, size_t h, size_t t, const head *at, transition *out) {
    const double *k = at->k[t][0];
    const size_t m = p->features, n = p->value;
    double kept[MOST_KEY], right[MOST_KEY], value[MOST_VALUE];

    for (size_t i = 0; i < m; i++) {
        kept[i] = channel_gate_of(p, h, t, i);
        right[i] = p->strength * share_of(p, P_ERASE, t, p->heads * m, h * m + i) * k[i] * kept[i];
    }
    for (size_t j = 0; j < n; j++)
        value[j] = share_of(p, P_WRITE, t, p->heads * n, h * n + j) * at->v[t][0][j];
    fill_transition(p, kept, k, right, k, value, out);
}

/* Preconditioned gated DeltaNet: S_t = a (I - b (M o k) k^T) S_(t-1) + b (M o k) v^T. */
static inline void transit_preconditioned(const plain *p, size_t h, size_t t, const head *at, double *squares,
                                          transition *out) {
    const double *k = at->k[t][0], a = rate_gate_of(p, P_GATE, h, t), beta = at->beta[t][0];
    const double forgotten = rate_gate_of(p, P_CONDITION_GATE, h, t);
    const double written = share_of(p, P_CONDITION_WRITE, t, p->heads, h);
    double kept[MOST_KEY], left[MOST_KEY], right[MOST_KEY];

    for (size_t i = 0; i < p->features; i++) {
        squares[i] = forgotten * squares[i] + written * k[i] * k[i];
        const double l = log(squares[i] + 1e-6) - get(p, P_CONDITION_CENTER)[h];
        kept[i] = a;
        left[i] = beta * pow(1.5, -l / (1 + fabs(l))) * k[i];
        right[i] = a * k[i];
    }
    fill_transition(p, kept, left, right, left, at->v[t][0], out);
}

/* The share of the state before its decay that a mixer reads: all of it, unless less than exp(-8) stays. */
static inline double read_share(double kept) {
    return fmin(1, exp(8) * kept);
}

/* Comba: S_t = (a I - b k p^T) S_(t-1) + b k v^T, p = sigmoid(f) k. */
static inline void transit_comba(const plain *p, size_t h, size_t t, const head *at, transition *out) {
    const double *k = at->k[t][0], share = sigmoid(get(p, P_FEEDBACK)[h]), a = rate_gate_of(p, P_GATE, h, t);
    double kept[MOST_KEY], left[MOST_KEY], right[MOST_KEY];

    for (size_t i = 0; i < p->features; i++) {
        kept[i] = a;
        left[i] = at->beta[t][0] * k[i];
        right[i] = read_share(a) * share * k[i];
    }
    fill_transition(p, kept, left, right, left, at->v[t][0], out);
}

/* RWKV-7: S_t = (Diag(w) - (a o c) c^T) S_(t-1) + k' v^T. */
static inline void transit_rwkv7(const plain *p, size_t h, size_t t, const head *at, transition *out) {
    const double *k = at->k[t][0];
    const size_t m = p->features, columns = p->heads * m;
    double kept[MOST_KEY], left[MOST_KEY], removal[MOST_KEY], key[MOST_KEY], square = 0;

    for (size_t i = 0; i < m; i++) {
        const double a = share_of(p, P_ERASE, t, columns, h * m + i);
        kept[i] = exp(-exp(-0.5) * sigmoid(low_rank_of(p, h, t, i, true)));
        removal[i] = k[i] * get(p, P_REMOVAL)[h * m + i];
        square += removal[i] * removal[i];
        left[i] = a;
        key[i] = k[i] * (1 + (a - 1) * get(p, P_BLEND)[h * m + i]);
    }
    for (size_t i = 0; i < m; i++) {
        removal[i] /= sqrt(square + 1e-12);
        left[i] *= removal[i];
    }
    fill_transition(p, kept, left, removal, key, at->v[t][0], out);
}

/* Titans without momentum: S_t = (1 - a) S_(t-1) - b k (S_(t-1)^T k - v)^T. */
static inline void transit_titans(const plain *p, size_t h, size_t t, const head *at, transition *out) {
    const double *k = at->k[t][0], kept_share = p->limit * share_of(p, P_GATE, t, p->heads, h);
    double kept[MOST_KEY], left[MOST_KEY], right[MOST_KEY];

    for (size_t i = 0; i < p->features; i++) {
        kept[i] = kept_share;
        left[i] = at->beta[t][0] * k[i];
        right[i] = read_share(kept_share) * k[i];
    }
    fill_transition(p, kept, left, right, left, at->v[t][0], out);
}

/* Longhorn: (I + b k k^T) S_t = S_(t-1) + b k v^T, where the derivative of its objective is 0. The inverse is that of
 * Sherman and Morrison. */
static inline void transit_longhorn(const plain *p, size_t t, const head *at, transition *out) {
    const double *k = at->k[t][0], b = at->beta[t][0];
    double kept[MOST_KEY], left[MOST_KEY];

    for (size_t i = 0; i < p->features; i++) {
        kept[i] = 1;
        left[i] = b * k[i] / (1 + b * dot(k, k, p->features));
    }
    fill_transition(p, kept, left, k, left, at->v[t][0], out);
}

static inline bool transit(const plain *p, size_t h, size_t t, const head *at, double *squares, transition *out) {
    switch (p->mixer) {
    case KDA:
        transit_kda(p, h, t, at, out);
        return true;
    case GATED_DELTA_2:
        transit_gated_delta_2(p, h, t, at, out);
        return true;
    case PRECONDITIONED:
        transit_preconditioned(p, h, t, at, squares, out);
        return true;
    case COMBA:
        transit_comba(p, h, t, at, out);
        return true;
    case RWKV7:
        transit_rwkv7(p, h, t, at, out);
        return true;
    case TITANS:
        transit_titans(p, h, t, at, out);
        return true;
    case LONGHORN:
        transit_longhorn(p, t, at, out);
        return true;
    default:
        return false;
    }
}

/* ---- Outputs ---- */

/* Forgetting attention: the weight of s is exp(q_t . k_s / sqrt(m)) times the gates of the tokens from s + 1 to t. */
static inline void forget(const plain *p, size_t h, head *at) {
    for (size_t t = 0; t < T; t++) {
        double total = 0, product = 1, sums[MOST_VALUE] = {0};
        for (size_t s = t + 1; s-- > 0;) {
            const double weight = product * exp(p->scale * dot(at->q[t], at->k[s][0], p->features));
            total += weight;
            for (size_t j = 0; j < p->value; j++)
                sums[j] += weight * at->v[s][0][j];
            product *= p->limit * share_of(p, P_GATE, s, p->heads, h);
        }
        for (size_t j = 0; j < p->value; j++)
            at->o[t][j] = sums[j] / total;
    }
}

/* ---- Mamba-3 ---- */

/* RMS norm, offset, and rotation of the pairs (i, i + m/2) by the angles. */
static inline void turn_by(const plain *p, size_t h, size_t r, size_t gain, const double *angle, double *x) {
    const size_t m = p->key, half = m / 2;
    const double root = sqrt(dot(x, x, m) / (double)m + 1e-5), *offset = get(p, gain + 2) + (r * p->heads + h) * m;

    for (size_t i = 0; i < m; i++)
        x[i] = x[i] / root * get(p, gain)[i] + offset[i];
    for (size_t i = 0; i < half; i++) {
        const double a = x[i], b = x[i + half];
        x[i] = a * cos(angle[i]) - b * sin(angle[i]);
        x[i + half] = a * sin(angle[i]) + b * cos(angle[i]);
    }
}

/* S += factor K V^T of a token, with all of its keys. */
static inline void write_all(const plain *p, size_t h, const head *at, size_t t, double factor,
                             double S[MOST_KEY][MOST_VALUE]) {
    const double *by = get(p, P_SPREAD);

    for (size_t r = 0; r < p->steps; r++)
        for (size_t i = 0; i < p->key; i++)
            for (size_t j = 0; j < p->value; j++)
                S[i][j] += factor * at->k[t][r][i] * at->v[t][0][j] * (by ? by[(r * p->heads + h) * p->value + j] : 1);
}

/* Mamba-3: S_t = a_t S_(t-1) + (1 - l_t) d_t a_t K_(t-1) V_(t-1)^T + l_t d_t K_t V_t^T, o_r = S_t^T q_r + D v_r. */
static inline void run_mamba3(const plain *p, size_t h, head *at) {
    double S[MOST_KEY][MOST_VALUE] = {{0}}, angle[MOST_KEY] = {0};

    for (size_t t = 0; t < T; t++) {
        const double d = softplus(column(p->z[t], get(p, P_STEP), WIDTH, p->heads, h) + get(p, P_STEP_BIAS)[h]);
        const double a = exp(-d * fmax(1e-4, softplus(column(p->z[t], get(p, P_GATE), WIDTH, p->heads, h))));
        const double l = sigmoid(column(p->z[t], get(p, P_SHARE), WIDTH, p->heads, h));
        for (size_t i = 0; i < p->key / 2; i++)
            angle[i] += acos(-1.0) * d * tanh(column(p->z[t], get(p, P_ANGLE), WIDTH, p->key / 2, i));
        for (size_t r = 0; r < p->steps; r++) {
            turn_by(p, h, r, P_QUERY_GAIN, angle, at->more_q[t][r]);
            turn_by(p, h, r, P_KEY_GAIN, angle, at->k[t][r]);
        }
        for (size_t i = 0; i < p->key; i++)
            for (size_t j = 0; j < p->value; j++)
                S[i][j] *= a;
        if (t > 0)
            write_all(p, h, at, t - 1, a * (1 - l) * d, S);
        write_all(p, h, at, t, l * d, S);
        for (size_t j = 0; j < p->value; j++) {
            at->o[t][j] = 0;
            for (size_t r = 0; r < p->steps; r++) {
                const size_t place = (r * p->heads + h) * p->value + j;
                const double into = get(p, P_SPREAD) ? get(p, P_SPREAD)[place] : 1;
                double sum = get(p, P_SKIP)[h] * into * at->v[t][0][j];
                for (size_t i = 0; i < p->key; i++)
                    sum += S[i][j] * at->more_q[t][r][i];
                at->o[t][j] += sum * (get(p, P_GATHER) ? get(p, P_GATHER)[place] : 1);
            }
        }
    }
}

/* Fills o and returns true, if the mixer is one of these. */
static inline bool run_published(const plain *p, size_t h, head *at) {
    published_state state = {0};
    transition next;

    if (p->mixer == FOX || p->mixer == MAMBA3) {
        (p->mixer == FOX ? forget : run_mamba3)(p, h, at);
        return true;
    }
    for (size_t t = 0; t < T; t++) {
        double query[MOST_KEY];
        if (!transit(p, h, t, at, state.squares, &next))
            return false;
        apply(p, &next, state.S);
        for (size_t i = 0; i < p->features; i++)
            query[i] =
                at->q[t][i] -
                (p->mixer == COMBA ? get(p, P_CORRECTION)[h] * sigmoid(get(p, P_FEEDBACK)[h]) * at->k[t][0][i] : 0);
        for (size_t j = 0; j < p->value; j++) {
            at->o[t][j] = 0;
            for (size_t i = 0; i < p->features; i++)
                at->o[t][j] += p->scale * state.S[i][j] * query[i];
        }
    }
    return true;
}

#endif
