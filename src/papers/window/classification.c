/*
 * Windows for classes: softmax attention under the cross-entropy (Collins et al. 2024, window.c, treats the squared
 * error of functions alone).
 *
 *     c uniform on the sphere, s_i = +1 or -1,  x_i = (delta s_i c + g_i) / |delta s_i c + g_i|,  g_i ~ N(0, I)
 *     y_i = s_i, turned round with probability eta;  m = sum_i beta_i y_i,  beta_i = softmax_i(w <x_i, x_q>)
 *
 * The probability of y_q = 1 is read in two ways: as the share of the weights that its labels have, (1 + m) / 2, or as
 * 1 / (1 + exp(-gain m)) with the gain that is best for each w (logistic regression on m, by Newton's method). w is
 * searched for: nothing is trained. Shares must tell by their window how sure to be, so that noise of labels widens it,
 * as it does for functions; with a gain, the gain tells it, and the window hardly moves. That M = w I is best for
 * inputs without a preferred direction is asked by turning away from it: the loss must not fall, whichever way M turns.
 */
#include <math.h>

#include "iclab/random.h"
#include "numeric/statistics.h"
#include "papers/papers.h"

enum { D = 5, N = 20, SETS = 4, TURNS = 4 };
enum { WORDS = D * (N + 2) + 2 * (N + 1) }; /* of a sequence: c and inputs, then classes and turned labels */

/* The streams of this file's random numbers. Tasks have other streams (task/streams.h). */
#define DATA_STREAM 0x636c7764u
#define TURN_STREAM 0x636c7774u

static const double flips[] = {.02, .05, .1, .2, .3}, distances[] = {1, 2, 4}; /* eta and delta */
static const char *const readouts[] = {"gain", "share"};
enum { FLIPS = sizeof flips / sizeof *flips, DISTANCES = sizeof distances / sizeof *distances, READOUTS = 2 };

static const size_t sequences[ICL_SCALES] = {2048, 8192, 65536}; /* of a set */

/* ---- Sequences ---- */

/* Sequences of one set. */
typedef struct sequence_set {
    size_t count;
    float *inputs, *labels; /* [count][N + 1][D], [count][N + 1]; the query is the last */
    double *scores;         /* [count][N], x_i^T M x_q */
    double *means;          /* [count], sum beta_i y_i */
    bool is_share;          /* p is the share of the weights that labels of 1 have, without a gain */
} sequence_set;

static void normalize(float *vector) {
    double square = 0;
    for (size_t j = 0; j < D; j++)
        square += (double)vector[j] * (double)vector[j];
    for (size_t j = 0; j < D; j++)
        vector[j] = (float)((double)vector[j] / sqrt(square));
}

static void draw(const icl_study_cell *cell, uint32_t seed, sequence_set *set) {
    const icl_random_key key = {.seed = seed, .stream = DATA_STREAM};
    const double delta = distances[cell->at[1]], eta = flips[cell->at[0]];

    for (size_t s = 0; s < set->count; s++) {
        const uint64_t first = s * WORDS, classes = first + D * (N + 2);
        float centre[D];
        for (size_t j = 0; j < D; j++)
            centre[j] = icl_normal_from_word(icl_random_word(key, first + j));
        normalize(centre);
        for (size_t i = 0; i <= N; i++) {
            const float sign = icl_random_word(key, classes + i) >> 31 ? 1 : -1;
            const bool is_turned = icl_random_word(key, classes + N + 1 + i) < eta * 4294967296.0;
            float *x = set->inputs + (s * (N + 1) + i) * D;
            for (size_t j = 0; j < D; j++)
                x[j] = (float)delta * sign * centre[j] +
                       icl_normal_from_word(icl_random_word(key, first + D * (i + 1) + j));
            normalize(x);
            set->labels[s * (N + 1) + i] = is_turned ? -sign : sign;
        }
    }
}

/* Scores by I + turn A, A [D][D]; NULL: by I. */
static void score(sequence_set *set, const double *A, double turn) {
    for (size_t s = 0; s < set->count; s++) {
        const float *inputs = set->inputs + s * (N + 1) * D, *query = inputs + (size_t)N * D;
        double mapped[D];
        for (size_t a = 0; a < D; a++) {
            mapped[a] = (double)query[a];
            for (size_t b = 0; A && b < D; b++)
                mapped[a] += turn * A[a * D + b] * (double)query[b];
        }
        for (size_t i = 0; i < N; i++) {
            double *to = &set->scores[s * N + i];
            *to = 0;
            for (size_t a = 0; a < D; a++)
                *to += (double)inputs[i * D + a] * mapped[a];
        }
    }
}

/* ---- The loss of a window ---- */

static void average_labels(sequence_set *set, double w) {
    for (size_t s = 0; s < set->count; s++) {
        const double *scores = set->scores + s * N;
        double sum = 0, labels = 0;
        for (size_t i = 0; i < N; i++) {
            const double weight = exp(w * (scores[i] - 1));
            sum += weight;
            labels += weight * (double)set->labels[s * (N + 1) + i];
        }
        set->means[s] = labels / sum;
    }
}

static double query_label(const sequence_set *set, size_t sequence) {
    return (double)set->labels[sequence * (N + 1) + N];
}

/* Returns the cross-entropy of a sequence: log(1 + exp(-gain y_q m)), or -log of the share of its label. */
static double entropy_of(const sequence_set *set, size_t sequence, double gain) {
    if (isnan(gain))
        return -log((1 + query_label(set, sequence) * set->means[sequence]) / 2);
    const double margin = gain * query_label(set, sequence) * set->means[sequence];
    return margin > 0 ? log1p(exp(-margin)) : log1p(exp(margin)) - margin;
}

/* Returns the gain of least cross-entropy, which is convex in it; NaN for shares. */
static double best_gain(const sequence_set *set) {
    double gain = 1;

    if (set->is_share)
        return (double)NAN;
    for (int round = 0; round < 20; round++) {
        double slope = 0, curvature = 1e-12;
        for (size_t s = 0; s < set->count; s++) {
            const double m = query_label(set, s) * set->means[s], p = 1 / (1 + exp(gain * m));
            slope -= p * m;
            curvature += p * (1 - p) * m * m;
        }
        gain = fmin(fmax(gain - slope / curvature, 0), 4 * gain + 1);
    }
    return gain;
}

static double loss_at(sequence_set *set, double w) {
    double sum = 0;

    average_labels(set, w);
    const double gain = best_gain(set);
    for (size_t s = 0; s < set->count; s++)
        sum += entropy_of(set, s, gain);
    return sum / (double)set->count;
}

/* Returns the best w between .1 and 100: a grid in log w, and a golden section around its best. */
static double search(sequence_set *set) {
    const double ratio = .6180339887498949;
    double best = log(.1), least = HUGE_VAL;

    for (int i = 0; i < 10; i++) {
        const double at = log(.1) + i * log(2);
        const double loss = loss_at(set, exp(at));
        if (loss < least) {
            least = loss;
            best = at;
        }
    }
    double low = best - log(2), high = best + log(2);
    while (high - low > .01) {
        const double left = high - ratio * (high - low), right = low + ratio * (high - low);
        if (loss_at(set, exp(left)) < loss_at(set, exp(right)))
            high = right;
        else
            low = left;
    }
    return exp((low + high) / 2);
}

/* ---- Cells ---- */

static void plan(icl_study *study) {
    for (size_t i = 0; i < (size_t)READOUTS * DISTANCES * FLIPS; i++) {
        const size_t flip = i % FLIPS, distance = i / FLIPS % DISTANCES, readout = i / FLIPS / DISTANCES;
        const icl_phrase curve = icl_phrase_print("%s, delta %g", readouts[readout], distances[distance]);
        ICL_ADD_CELL(study, .name = ICL_PHRASE("%s, eta %g", curve.text, flips[flip]), .at = {flip, distance, readout},
                     .curve = curve.text, .x = flips[flip]);
    }
}

/* The best w, its loss, and by how much the loss rises with M turned: the least of TURNS ways, and its error. */
enum { WINDOW = 0, LOSS, RISE, NUMBERS };

#define TURN .3 /* size of what is added to I, in the Frobenius norm over sqrt(d) */

/* Makes way number `way` to turn: normal entries, without their part along I, of the norm of I. */
static void make_way(uint32_t seed, size_t way, double *A) {
    const icl_random_key key = {.seed = seed, .stream = TURN_STREAM, .step = way};
    double trace = 0, square = 0;

    for (size_t i = 0; i < (size_t)D * D; i++) {
        A[i] = (double)icl_normal_from_word(icl_random_word(key, i));
        trace += i % (D + 1) == 0 ? A[i] / D : 0;
    }
    for (size_t i = 0; i < (size_t)D * D; i++) {
        A[i] -= i % (D + 1) == 0 ? trace : 0;
        square += A[i] * A[i];
    }
    for (size_t i = 0; i < (size_t)D * D; i++)
        A[i] *= sqrt(D / square);
}

/* Finds the least rise of the loss over ways to turn, sequence by sequence, at the window's own gain. */
static void measure_turns(const icl_study *study, sequence_set *set, double w, double *room, icl_number *rise) {
    double A[D * D];

    average_labels(set, w);
    const double gain = best_gain(set);
    for (size_t s = 0; s < set->count; s++)
        room[s] = entropy_of(set, s, gain);
    *rise = (icl_number){HUGE_VAL, 0};
    for (size_t way = 0; way < TURNS; way++) {
        double *rises = room + set->count;
        make_way(study->run->params->seed, way, A);
        score(set, A, TURN);
        average_labels(set, w);
        for (size_t s = 0; s < set->count; s++)
            rises[s] = entropy_of(set, s, gain) - room[s];
        if (icl_mean(rises, set->count) < rise->value)
            *rise = (icl_number){icl_mean(rises, set->count), icl_standard_error(rises, set->count)};
    }
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    sequence_set set = {.count = sequences[study->scale], .is_share = cell->at[2] == 1};
    double widths[SETS], losses[SETS], *room = NULL;

    (void)trained;
    ICL_CHECK(icl_study_room(study, set.count * (N + 1) * D, sizeof *set.inputs, &set.inputs, error));
    ICL_CHECK(icl_study_room(study, set.count * (N + 1), sizeof *set.labels, &set.labels, error));
    ICL_CHECK(icl_study_room(study, set.count * N, sizeof *set.scores, &set.scores, error));
    ICL_CHECK(icl_study_room(study, set.count, sizeof *set.means, &set.means, error));
    ICL_CHECK(icl_study_room(study, 2 * set.count, sizeof *room, &room, error));
    for (size_t i = 0; i < SETS; i++) {
        ICL_CHECK(icl_reproduce_poll(study->run, error));
        draw(cell, icl_study_seed(study, i), &set);
        score(&set, NULL, 0);
        widths[i] = search(&set);
        losses[i] = loss_at(&set, widths[i]);
    }
    numbers[WINDOW] = (icl_number){icl_mean(widths, SETS), icl_standard_error(widths, SETS)};
    numbers[LOSS] = (icl_number){icl_mean(losses, SETS), icl_standard_error(losses, SETS)};
    measure_turns(study, &set, numbers[WINDOW].value, room, &numbers[RISE]);
    return ICL_OK;
}

/* ---- Judging ---- */

/* No predictor knows whether the query's label is turned round. */
static void judge(icl_study *study, const icl_study_cell *cell) {
    const double eta = flips[cell->at[0]];
    const double floor = eta > 0 ? -eta * log(eta) - (1 - eta) * log(1 - eta) : 0;

    ICL_JUDGE(study, .quantity = "cross-entropy", ICL_OURS(cell->numbers[LOSS]), .target = floor,
              .tolerance = 3 * cell->numbers[LOSS].standard_error, .criterion = ICL_AT_LEAST, .evidence = ICL_COMPUTED,
              .source = "entropy of turned labels", .note = ICL_PHRASE("best w %.4g", cell->numbers[WINDOW].value));
    ICL_JUDGE(study, .quantity = "loss rises with M turned", ICL_OURS(cell->numbers[RISE]),
              .tolerance = 3 * cell->numbers[RISE].standard_error, .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED,
              .source = "optimal M are w I");
}

static bool is_whole(const icl_study *study) {
    for (size_t i = 0; i < study->count; i++)
        if (!study->cells[i]->is_wanted)
            return false;
    return true;
}

/* Returns log of the best w at the second eta over that at the last. */
static icl_number fall_of(const icl_study *study, size_t readout, size_t distance) {
    icl_study_cell *const *first = study->cells + (readout * DISTANCES + distance) * FLIPS;
    const icl_number narrow = first[1]->numbers[WINDOW], wide = first[FLIPS - 1]->numbers[WINDOW];

    return (icl_number){log(narrow.value / wide.value),
                        hypot(narrow.standard_error / narrow.value, wide.standard_error / wide.value)};
}

/* That the window hardly moves means less than half as far. */
static void conclude(icl_study *study) {
    for (size_t distance = 0; distance < DISTANCES && is_whole(study); distance++) {
        const icl_number shares = fall_of(study, 1, distance), gains = fall_of(study, 0, distance);
        const icl_phrase what =
            icl_phrase_print("delta %g, eta %g to %g", distances[distance], flips[1], flips[FLIPS - 1]);
        ICL_JUDGE(study, .what = what.text, .quantity = "fall of log w, shares", ICL_OURS(shares),
                  .target = 3 * shares.standard_error, .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED,
                  .source = "noise widens the window");
        ICL_JUDGE(study, .what = what.text, .quantity = "fall of log w, with a gain", ICL_OURS(gains),
                  .target = shares.value / 2, .tolerance = 3 * hypot(gains.standard_error, shares.standard_error / 2),
                  .criterion = ICL_AT_MOST, .evidence = ICL_INFERRED, .source = "half of that of shares");
    }
}

static const icl_study_figure_row figures[] = {
    {.figure = {.name = "window-classification",
                .title = "The best window of classes by the noise of their labels",
                .x_label = "share of labels that are turned round",
                .y_label = "w",
                .log_y = true},
     .number = WINDOW},
};

const icl_reproduction icl_window_classification = ICL_STUDY(
        .name = "window-classification", .source = "arXiv 2402.11639",
        .about = "the best window of softmax attention under the cross-entropy, by noise and distance of classes",
        .claim =
            "Under the cross-entropy, too, noise of labels widens the best window of softmax attention, if it is the "
            "window that tells how sure to be.",
        .scope = "A met table means that the searched best window widens with turned labels where it must "
                 "tell how sure to be, and hardly where a gain tells it; nothing was trained, and there "
                 "are two classes alone.",
        .cost = {"5 s", "20 s", "3 min"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
        .conclude = conclude, ICL_FIGURES(figures));
