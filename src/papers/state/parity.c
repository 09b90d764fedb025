/*
 * Parity by negative eigenvalues: Grazzi et al. 2024, "Unlocking State-Tracking in Linear RNNs Through Negative
 * Eigenvalues" (arXiv 2411.12537).
 *
 * By hand: S is one number. The start symbol writes 1; a bit 1 writes v = 0 with beta = 2 under k = 1, S <- -S; a bit 0
 * writes nothing. No rounding at all, at any length.
 *
 * By training: one layer of the delta rule. With a write strength in (0, 1) the eigenvalue 1 - beta of a step is never
 * negative, and no model learns parity of words longer than those it was trained on; in (0, 2) it does. The loss stands
 * at every position, which makes it reliable: with the loss at the last one alone fewer seeds succeed.
 */
#include <stdint.h>
#include <stdio.h>

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

/* A range of the write strength. */
typedef struct range {
    icl_state_model model;
    bool turns;            /* the sign of a state: its models learn */
    icl_state_extent over; /* with twice the training length as second length */
} range;

enum { RANGES = 4, TWICE = 1 };

#define SMALL "task.longest=10 train.batch=64 train.steps=250 train.warmup=20"
#define PUBLISHED                                                                                                      \
    "task.longest=40 task.labels=last model.layers=2 model.width=128 model.heads=4 model.key_width=32 "                \
    "model.convolution=4 train.learning_rate=0.001 train.weight_decay=0 train.warmup=2000 train.steps=20000"
#define SHORT                                                                                                          \
    {{"state-parity", "", "strength2", "strength in (0, 2)"}, true, {5, 4096, {20, 40, 100, 256}}}, {                  \
        {"state-parity", "model.write_strength=1", "strength1", "strength in (0, 1)"}, false, {                        \
            5, 4096, {                                                                                                 \
                20, 40, 100, 256                                                                                       \
            }                                                                                                          \
        }                                                                                                              \
    }

/* At scale full the published setting stands beside ours: words of up to 40 bits, evaluated up to 256. */
static const range ranges[ICL_SCALES][RANGES] = {
    {{{"state-parity", SMALL, "strength2", "strength in (0, 2)"}, true, {1, 1024, {10, 20}}},
     {{"state-parity", SMALL " model.write_strength=1", "strength1", "strength in (0, 1)"},
      false,
      {1, 1024, {10, 20}}}},
    {SHORT},
    {SHORT,
     {{"state-parity", PUBLISHED, "published-strength2", "published, strength in (0, 2)"},
      true,
      {5, 8192, {40, 80, 160, 256}}},
     {{"state-parity", PUBLISHED " model.write_strength=1", "published-strength1", "published, strength in (0, 1)"},
      false,
      {5, 8192, {40, 80, 160, 256}}}},
};

static icl_status judge_training(icl_reproducing *run, const range *tried, const icl_state_accuracies *accuracies,
                                 icl_error *error) {
    const icl_state_extent *over = &tried->over;
    char note[160];

    icl_state_list(over, accuracies, TWICE, note, sizeof note);
    if (tried->turns)
        return ICL_FOUND(run, error, .what = tried->model.label,
                         .quantity = "seeds right on 99 % at twice the training length",
                         .ours = (double)icl_state_count(over, accuracies, TWICE, .99),
                         .target = over->seeds < 5 ? 1 : 3, .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED,
                         .source = "abstract: eigenvalues below 0 solve parity", .note = note);
    return ICL_FOUND(run, error, .what = tried->model.label, .quantity = "seeds above chance at twice that length",
                     .ours = (double)icl_state_count(over, accuracies, TWICE, .55), .target = 0,
                     .criterion = ICL_AT_MOST, .evidence = ICL_READ, .source = "abstract: eigenvalues in [0, 1] cannot",
                     .note = note);
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    icl_curves curves = {.figure = {.name = "accuracy-by-length",
                                    .title = "Parity by one delta layer: right answers by the length of the word",
                                    .x_label = "bits",
                                    .y_label = "share of right answers",
                                    .log_x = true}};
    icl_status status = ICL_OK;

    if (icl_reproduce_wants(run, "hand"))
        ICL_TRY(judge_by_hand(run, error));
    for (size_t i = 0; i < RANGES && ranges[run->params->scale][i].model.recipe; i++) {
        const range *tried = &ranges[run->params->scale][i];
        icl_state_accuracies accuracies = {{{0}}};
        if (!icl_reproduce_wants(run, tried->model.cell))
            continue;
        ICL_TRY(icl_state_train(run, &tried->model, &tried->over, &curves, &accuracies, error));
        ICL_TRY(judge_training(run, tried, &accuracies, error));
        ICL_TRY(icl_curves_draw(run, &curves, error));
    }
done:
    icl_curves_release(&curves);
    return status;
}

const icl_reproduction icl_state_parity = {
    .name = "state-parity",
    .source = "arXiv 2411.12537",
    .about = "parity by a delta layer: by hand at length 10,000, and trained with write strengths up to 1 and up to 2",
    .cost = {"4 s", "6 min", "10 h"},
    .run = reproduce,
};
