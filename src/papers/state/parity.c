/*
 * Parity by negative eigenvalues: Grazzi et al. 2024, "Unlocking State-Tracking in Linear RNNs Through Negative
 * Eigenvalues" (arXiv 2411.12537).
 *
 * By hand: S is one number. The start symbol writes 1; a bit 1 writes v = 0 with beta = 2 under k = 1, S <- -S; a bit 0
 * writes nothing. No rounding at all, at any length.
 *
 * By training: one layer of the delta rule. With a write strength in (0, 1) the eigenvalue 1 - beta of a step is never
 * negative, and no model learns parity of words longer than those it was trained on; in (0, 2) most seeds do, with the
 * loss at every position.
 */
#include <stdint.h>

#include "papers/papers.h"
#include "papers/state/hand.h"
#include "papers/state/trained.h"

/* ---- By hand ---- */

static size_t classify(const icl_hand_layer *layer, const int *state) {
    (void)layer;
    return state[0] == 1 ? 0 : state[0] == -1 ? 1 : SIZE_MAX;
}

static icl_status judge_by_hand(icl_reproducing *run, icl_error *error) {
    static const icl_hand_layer layer = {
        .symbols = 3,
        .writes = 1,
        .width = 1,
        .table = {{{1, 1, {1}}}, {{0, 0, {1}}}, {{2, 0, {1}}}}, /* start, 0, 1 */
        .classify = classify,
    };
    return icl_hand_judge(run, "parity", &layer, 8, 10000, error);
}

/* ---- By training ---- */

#define UP_TO_1 "model.write_strength=1 "
#define FEW     "task.longest=10 train.batch=64 train.steps=250 train.warmup=20 "
/* The published setting: two layers, words of up to 40 bits, the loss at the last one, evaluation up to 256. */
#define PUBLISHED                                                                                                      \
    "task.longest=40 task.labels=last model.layers=2 model.width=128 model.heads=4 model.key_width=32 "                \
    "model.convolution=4 train.learning_rate=0.001 train.weight_decay=0 train.warmup=2000 train.steps=20000 "

static const double of_delta_net[] = {.017, 1}; /* with eigenvalues in [0, 1], in [-1, 1] */

static const icl_state_kind kinds[] = {
    {ICL_AT_CI, "strength2", "strength in (0, 2)", FEW, true, 1, 1024, {10, 20}},
    {ICL_AT_CI, "strength1", "strength in (0, 1)", FEW UP_TO_1, false, 1, 1024, {10, 20}},
    {ICL_AT_SHORT | ICL_AT_FULL, "strength2", "strength in (0, 2)", "", true, 5, 4096, {20, 40, 100, 256}},
    {ICL_AT_SHORT | ICL_AT_FULL, "strength1", "strength in (0, 1)", UP_TO_1, false, 5, 4096, {20, 40, 100, 256}},
    {ICL_AT_FULL,
     "published2",
     "published model, (0, 2)",
     PUBLISHED,
     true,
     5,
     8192,
     {40, 80, 160, 256},
     &of_delta_net[1]},
    {ICL_AT_FULL,
     "published1",
     "published model, (0, 1)",
     PUBLISHED UP_TO_1,
     false,
     5,
     8192,
     {40, 80, 160, 256},
     &of_delta_net[0]},
};

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    const icl_state_training training = {
        .recipe = "state-parity",
        .title = "Parity by one delta layer: right answers by the length of the word",
        .tokens = "bits",
        .right = .99,
        .above_chance = .55,
        .chance = .5,
        .can = "abstract: eigenvalues below 0 can",
        .cannot = "abstract: eigenvalues in [0, 1] cannot",
        .count = sizeof kinds / sizeof *kinds,
        .kinds = kinds,
    };

    if (icl_reproduce_wants(run, "hand") && icl_reproduce_judges(run))
        ICL_CHECK(judge_by_hand(run, error));
    return icl_state_judge_training(run, &training, error);
}

const icl_reproduction icl_state_parity = {
    .name = "state-parity",
    .source = "arXiv 2411.12537",
    .about = "parity by a delta layer: by hand at length 10,000, and trained with write strengths up to 1 and up to 2",
    .cost = {"3 s", "4 min", "12 h"},
    .is_shared = true,
    .run = reproduce,
};
