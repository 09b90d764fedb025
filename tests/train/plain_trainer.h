/*
 * A trainer in plain loops and double precision, which shares nothing with the library but the names of parameters and
 * the sequences. Two models of regression with D inputs and N labelled examples are small enough for a function each:
 *
 *     linear      LAYERS layers e_i <- e_i + 1/N P sum_j e_j (e_j^T Q e_i), P and Q diagonal; the output is minus the
 *                 query's last coordinate. While it grows, the first layers and the last one are in use.
 *     sequence    e = x W + b, and LOOPS times z <- z + (the embedding from the second loop on), then
 *                 z <- z + causal linear attention of one head; the output is z W' + b' of the last position
 *
 * A derivative is the imaginary part of the loss at p + i 1e-30, over 1e-30: both losses are polynomials, so that the
 * next term is 1e-60 times as large, and nothing cancels.
 */
#ifndef ICLAB_TESTS_TRAIN_PLAIN_TRAINER_H
#define ICLAB_TESTS_TRAIN_PLAIN_TRAINER_H

#include <complex.h>

#include "fixture.h"

enum { D = 2, N = 3, T = N + 1, WIDTH = 2, LAYERS = 4, LOOPS = 4, MOST_NUMBERS = 32, MOST_SEQUENCES = 24 };

/* The parameters of the models; those of the linear one are P and Q, layer after layer. */
enum { EMBEDDING, EMBEDDING_BIAS, QUERY, KEY, VALUE, OUTPUT, READOUT, READOUT_BIAS, PARTS };

static const char *const plain_names[2][PARTS] = {
    {"embedding.weight", "embedding.bias", "block.0.mixer.query", "block.0.mixer.key", "block.0.mixer.value",
     "block.0.mixer.output", "readout.weight", "readout.bias"},
    {"layer.0.head.0.P", "layer.0.head.0.Q", "layer.1.head.0.P", "layer.1.head.0.Q", "layer.2.head.0.P",
     "layer.2.head.0.Q", "layer.3.head.0.P", "layer.3.head.0.Q"},
};

typedef double complex number;

typedef struct plain_sequence {
    double tokens[T][D + 1], target;
} plain_sequence;

typedef struct plain_trainer {
    const char *settings; /* " key=value key=value": if a key occurs twice, the last value counts */
    bool is_linear;
    size_t places[PARTS], size; /* of the parameters, and their number */
    size_t step;                /* steps done */
    size_t depth;               /* layers in use at this step */
    size_t loops, window;       /* loops, and how many of the last ones have a loss; window 0: the last one, uncut */
    double parameters[MOST_NUMBERS], first[MOST_NUMBERS], second[MOST_NUMBERS];
    double threshold;        /* of sequences' norms; 0: none yet */
    double loss, norm, rate; /* of the last step */
    size_t cut;              /* number of gradients that were cut */
} plain_trainer;

/* ---- Settings ---- */

static inline const char *plain_value(const plain_trainer *t, const char *key) {
    const char *found = NULL;
    char text[64];

    snprintf(text, sizeof text, " %s=", key);
    for (const char *at = strstr(t->settings, text); at; at = strstr(at + 1, text))
        found = at + strlen(text);
    return found;
}

static inline double plain_number(const plain_trainer *t, const char *key) {
    return strtod(plain_value(t, key), NULL);
}

static inline size_t plain_count(const plain_trainer *t, const char *key) {
    return (size_t)plain_number(t, key);
}

static inline bool plain_is(const plain_trainer *t, const char *key, const char *word) {
    return strncmp(plain_value(t, key), word, strlen(word)) == 0;
}

static inline void plain_find(plain_trainer *t, const icl_model *model) {
    t->size = icl_model_size(model);
    for (size_t part = 0; part < PARTS; part++)
        for (size_t i = 0; i < icl_model_parameter_count(model); i++)
            if (strcmp(icl_model_parameter(model, i)->name, plain_names[t->is_linear][part]) == 0)
                t->places[part] = icl_model_parameter(model, i)->offset;
}

/* ---- Losses of one sequence, at the point p ---- */

static inline number plain_linear_loss(const plain_trainer *t, const number *p, const plain_sequence *s) {
    number e[T][D + 1], added[T][D + 1];

    for (size_t i = 0; i < T; i++)
        for (size_t c = 0; c <= D; c++)
            e[i][c] = s->tokens[i][c];
    for (size_t l = 0; l < t->depth; l++) {
        const size_t layer = l + 1 == t->depth ? LAYERS - 1 : l;
        const number *P = p + t->places[2 * layer], *Q = p + t->places[2 * layer + 1];
        memset(added, 0, sizeof added);
        for (size_t i = 0; i < T; i++)
            for (size_t j = 0; j < N; j++) {
                number weight = 0;
                for (size_t c = 0; c <= D; c++)
                    weight += e[j][c] * Q[c == D] * e[i][c];
                for (size_t c = 0; c <= D; c++)
                    added[i][c] += P[c == D] * weight * e[j][c] / N;
            }
        for (size_t i = 0; i < T; i++)
            for (size_t c = 0; c <= D; c++)
                e[i][c] += added[i][c];
    }
    return (-e[N][D] - s->target) * (-e[N][D] - s->target);
}

/* Computes x M, M [rows][columns], plus a bias if there is one. */
static inline void plain_product(size_t rows, size_t columns, const number *x, const number *matrix, const number *bias,
                                 number *out) {
    for (size_t j = 0; j < columns; j++) {
        out[j] = bias ? bias[j] : 0;
        for (size_t i = 0; i < rows; i++)
            out[j] += x[i] * matrix[i * columns + j];
    }
}

/* z <- z + mixer(z). */
static inline void plain_attend(const plain_trainer *t, const number *p, number z[T][WIDTH]) {
    number q[WIDTH], k[WIDTH], v[WIDTH], o[WIDTH], y[WIDTH], state[WIDTH][WIDTH] = {{0}};

    for (size_t i = 0; i < T; i++) {
        plain_product(WIDTH, WIDTH, z[i], p + t->places[QUERY], NULL, q);
        plain_product(WIDTH, WIDTH, z[i], p + t->places[KEY], NULL, k);
        plain_product(WIDTH, WIDTH, z[i], p + t->places[VALUE], NULL, v);
        for (size_t a = 0; a < WIDTH; a++)
            for (size_t b = 0; b < WIDTH; b++)
                state[a][b] += k[a] * v[b];
        plain_product(WIDTH, WIDTH, q, &state[0][0], NULL, o);
        plain_product(WIDTH, WIDTH, o, p + t->places[OUTPUT], NULL, y);
        for (size_t c = 0; c < WIDTH; c++)
            z[i][c] += y[c] / sqrt(WIDTH);
    }
}

static inline number plain_sequence_loss(const plain_trainer *t, const number *p, const plain_sequence *s) {
    const size_t scored = t->window > 0 ? t->window : 1;
    number e[T][WIDTH], z[T][WIDTH], x[D + 1], out, sum = 0;

    for (size_t i = 0; i < T; i++) {
        for (size_t c = 0; c <= D; c++)
            x[c] = s->tokens[i][c];
        plain_product(D + 1, WIDTH, x, p + t->places[EMBEDDING], p + t->places[EMBEDDING_BIAS], e[i]);
    }
    memcpy(z, e, sizeof z);
    for (size_t loop = 0; loop < t->loops; loop++) {
        for (size_t i = 0; i < T; i++)
            for (size_t c = 0; c < WIDTH; c++) {
                const bool ends = loop > 0 && loop + t->window == t->loops; /* the gradient stops here */
                z[i][c] = (ends ? creal(z[i][c]) : z[i][c]) + (loop > 0 ? e[i][c] : 0);
            }
        plain_attend(t, p, z);
        plain_product(WIDTH, 1, z[N], p + t->places[READOUT], p + t->places[READOUT_BIAS], &out);
        if (loop + scored >= t->loops)
            sum += (out - s->target) * (out - s->target);
    }
    return sum / (double)scored;
}

static inline number plain_loss(const plain_trainer *t, const number *p, const plain_sequence *s) {
    return t->is_linear ? plain_linear_loss(t, p, s) : plain_sequence_loss(t, p, s);
}

/* ---- A step ---- */

/* Returns the steps for each layer; the sequence model has a single layer and cannot grow. */
static inline size_t plain_growth(const plain_trainer *t) {
    return t->is_linear ? plain_count(t, "growth") : 0;
}

/* Sets layers and loops: a model grows from 2 layers; loops start with those that have a loss. */
static inline void plain_prepare(plain_trainer *t) {
    const size_t every = plain_growth(t), window = plain_count(t, "loop_window");
    const size_t rises = plain_count(t, "loop_curriculum");

    t->depth = every > 0 && t->step < (LAYERS - 2) * every ? 2 + t->step / every : LAYERS;
    t->window = window < LOOPS ? window : LOOPS;
    t->loops = rises > 0 ? t->window + t->step / rises * plain_count(t, "loop_rise") : LOOPS;
    if (t->loops > LOOPS)
        t->loops = LOOPS;
}

static inline double plain_differentiate(const plain_trainer *t, const plain_sequence *s, double *gradient) {
    const double small = 1e-30;
    const number beside = small * (number)I;
    number p[MOST_NUMBERS];
    double square = 0;

    for (size_t i = 0; i < t->size; i++)
        p[i] = t->parameters[i];
    for (size_t i = 0; i < t->size; i++) {
        p[i] += beside;
        gradient[i] = cimag(plain_loss(t, p, s)) / small;
        p[i] = t->parameters[i];
        square += gradient[i] * gradient[i];
    }
    return sqrt(square);
}

/* Moves the threshold towards the value that the setting's share of the sequences exceeds. */
static inline void plain_track(plain_trainer *t, const double *norms, size_t count) {
    double mean = 0, above = 0;

    for (size_t b = 0; b < count; b++) {
        mean += norms[b] / (double)count;
        above += norms[b] > t->threshold ? 1 / (double)count : 0;
    }
    if (t->threshold == 0)
        t->threshold = 5 * mean;
    else
        t->threshold *= exp(0.1 * fmin(above / plain_number(t, "sequence_clip") - 1, 5));
}

/* Computes the mean over all sequences of losses and of gradients, each of which may be cut. */
static inline void plain_gradient(plain_trainer *t, const plain_sequence *batch, size_t count, double *gradient) {
    const bool cuts = plain_number(t, "sequence_clip") > 0;
    double each[MOST_SEQUENCES][MOST_NUMBERS], norms[MOST_SEQUENCES];

    t->loss = 0;
    memset(gradient, 0, MOST_NUMBERS * sizeof *gradient);
    for (size_t b = 0; b < count; b++) {
        number p[MOST_NUMBERS];
        for (size_t i = 0; i < t->size; i++)
            p[i] = t->parameters[i];
        norms[b] = plain_differentiate(t, &batch[b], each[b]);
        t->loss += creal(plain_loss(t, p, &batch[b])) / (double)count;
    }
    if (cuts && t->step == 0)
        plain_track(t, norms, count);
    for (size_t b = 0; b < count; b++) {
        const bool is_cut = cuts && norms[b] > t->threshold;
        t->cut += is_cut;
        for (size_t i = 0; i < t->size; i++)
            gradient[i] += each[b][i] * (is_cut ? t->threshold / norms[b] : 1) / (double)count;
    }
    if (cuts)
        plain_track(t, norms, count);
}

/* Returns the schedule's rate, and sets *since to the steps since the optimizer began: growth restarts it with each
 * layer, with its own schedule until all layers exist. */
static inline double plain_rate(const plain_trainer *t, size_t *since) {
    const size_t every = plain_growth(t), growing = (LAYERS - 2) * every;
    const size_t end = plain_count(t, plain_count(t, "horizon") > 0 ? "horizon" : "steps");
    const bool grows = t->step < growing;
    const double now = (double)(*since = grows ? t->step % every : t->step - growing);
    const double length = (double)(grows ? every : end - growing), half = floor((double)every / 2);
    const double asked = plain_number(t, "warmup"), warmup = grows ? fmin(asked, half) : asked;
    const double share =
        now < warmup || length <= warmup ? 0 : fmin(1, (now - warmup) / (length - warmup)); /* share after warmup */
    double rate = plain_number(t, "learning_rate");

    if (now < warmup)
        rate *= (now + 1) / warmup;
    if (grows)
        return rate * (1 - 0.9 * share);
    if (plain_is(t, "schedule", "cosine"))
        return rate * (1 + cos(acos(-1) * share)) / 2;
    if (plain_is(t, "schedule", "step"))
        return rate * pow(plain_number(t, "step_factor"), floor(now / plain_number(t, "step_every")));
    if (plain_is(t, "schedule", "warmup-stable-decay")) {
        const double left = fmax(0, length - now) / (plain_number(t, "decay_share") * length);
        return rate * (1 - sqrt(1 - fmin(1, left)));
    }
    return rate;
}

/* Biases do not decay. */
static inline double plain_decay(const plain_trainer *t, size_t i) {
    const bool is_bias = !t->is_linear && ((i >= t->places[EMBEDDING_BIAS] && i < t->places[EMBEDDING_BIAS] + WIDTH) ||
                                           i == t->places[READOUT_BIAS]);
    return is_bias ? 0 : plain_number(t, "weight_decay");
}

/* Takes a step of Adam with decoupled decay (Kingma and Ba 2015; Loshchilov and Hutter 2019). */
static inline void plain_adam(plain_trainer *t, size_t i, double gradient, size_t since) {
    const double beta1 = plain_number(t, plain_is(t, "optimizer", "muon") ? "muon_momentum" : "beta1");
    const double beta2 = plain_number(t, "beta2"), power = (double)since + 1;

    t->first[i] = beta1 * t->first[i] + (1 - beta1) * gradient;
    t->second[i] = beta2 * t->second[i] + (1 - beta2) * gradient * gradient;
    t->parameters[i] -= t->rate * plain_decay(t, i) * t->parameters[i];
    t->parameters[i] -= t->rate * t->first[i] / (1 - pow(beta1, power)) /
                        (sqrt(t->second[i] / (1 - pow(beta2, power))) + plain_number(t, "epsilon"));
}

/* Takes Muon's step of a hidden matrix, which begins at `at`: its first moment is Nesterov's, and its singular values
 * become p(p(p(p(p(s / |s|))))), p(s) = 3.4445 s - 4.7750 s^3 + 2.0315 s^5 (Jordan 2024), by X, X X^T X and so on. */
static inline void plain_muon(plain_trainer *t, size_t at, const double *cut) {
    const double b = plain_number(t, "muon_momentum"), decay = plain_number(t, "weight_decay");
    double x[WIDTH][WIDTH], square = 0;

    for (size_t i = 0; i < WIDTH; i++)
        for (size_t j = 0; j < WIDTH; j++) {
            const size_t k = at + i * WIDTH + j;
            t->first[k] = b * t->first[k] + (1 - b) * cut[k];
            x[i][j] = b * t->first[k] + (1 - b) * cut[k];
            square += x[i][j] * x[i][j];
        }
    for (size_t i = 0; i < WIDTH * WIDTH; i++)
        x[i / WIDTH][i % WIDTH] /= sqrt(square) + 1e-7;
    for (size_t round = 0; round < 5; round++) {
        double sum[WIDTH][WIDTH], power[WIDTH][WIDTH], next[WIDTH][WIDTH];
        memcpy(power, x, sizeof x);
        for (size_t term = 0; term < 3; term++) {
            const double factor = (const double[]){3.4445, -4.7750, 2.0315}[term];
            for (size_t i = 0; i < WIDTH; i++)
                for (size_t j = 0; j < WIDTH; j++) {
                    sum[i][j] = (term > 0 ? sum[i][j] : 0) + factor * power[i][j];
                    next[i][j] = 0;
                    for (size_t k = 0; k < WIDTH; k++)
                        for (size_t l = 0; l < WIDTH; l++)
                            next[i][j] += x[i][k] * x[l][k] * power[l][j];
                }
            memcpy(power, next, sizeof next);
        }
        memcpy(x, sum, sizeof sum);
    }
    for (size_t i = 0; i < WIDTH * WIDTH; i++) {
        t->parameters[at + i] *= 1 - t->rate * decay;
        t->parameters[at + i] -= t->rate * 0.2 * sqrt(WIDTH) * x[i / WIDTH][i % WIDTH];
    }
}

static inline bool plain_is_hidden(const plain_trainer *t, size_t i) {
    for (size_t part = QUERY; part <= OUTPUT; part++)
        if (!t->is_linear && i >= t->places[part] && i < t->places[part] + WIDTH * WIDTH)
            return true;
    return false;
}

/* Takes one step with the sequences of its batch. */
static inline void plain_step(plain_trainer *t, const plain_sequence *batch) {
    const bool orthogonalizes = plain_is(t, "optimizer", "muon");
    double gradient[MOST_NUMBERS], square = 0;
    const double clip = plain_number(t, "clip");
    size_t since;

    plain_prepare(t);
    plain_gradient(t, batch, plain_count(t, "batch"), gradient);
    for (size_t i = 0; i < t->size; i++)
        square += gradient[i] * gradient[i];
    t->norm = sqrt(square);
    t->rate = plain_rate(t, &since);
    for (size_t i = 0; i < t->size; i++) {
        const double cut = gradient[i] = clip > 0 && t->norm > clip ? gradient[i] * clip / t->norm : gradient[i];
        if (since == 0)
            t->first[i] = t->second[i] = 0;
        if (orthogonalizes && plain_is_hidden(t, i))
            continue;
        if (orthogonalizes || plain_is(t, "optimizer", "adam")) {
            plain_adam(t, i, cut, since);
            continue;
        }
        t->first[i] = plain_number(t, "momentum") * t->first[i] + cut;
        t->parameters[i] -= t->rate * t->first[i];
    }
    for (size_t part = QUERY; orthogonalizes && part <= OUTPUT; part++)
        plain_muon(t, t->places[part], gradient);
    t->step++;
}

#endif
