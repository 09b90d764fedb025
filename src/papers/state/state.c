/*
 * State tracking by negative eigenvalues and products of reflections: Grazzi et al. 2024, "Unlocking State-Tracking in
 * Linear RNNs Through Negative Eigenvalues" (arXiv 2411.12537), Siems et al. 2025, "DeltaProduct: Improving
 * State-Tracking in Linear RNNs via Householder Products" (arXiv 2502.10297).
 *
 * Parity: one layer of the delta rule. With a write strength in (0, 1) the eigenvalue 1 - beta of a step is never
 * negative, and no model learns parity of words longer than those it was trained on; in (0, 2) most seeds do, with the
 * loss at every position.
 *
 * Permutations: words of all elements of S3. Those that take three points around are no single reflection, so that one
 * write a token is not enough; words of swaps of neighbours need no more. With strengths in (0, 1) no write reflects.
 * With one head of key width 16 training finds the sign of the permutation alone; four heads of width 8 find the rest.
 *
 * Layers by hand stand in hand.c.
 */
#include <inttypes.h>
#include <math.h>

#include "core/print.h"
#include "papers/papers.h"
#include "papers/state/hand.h"

/* ---- Kinds of cells ---- */

enum { HAND_TOKENS = 10000, MOST_LENGTHS = 6, TWICE = 1 }; /* the second length is twice the longest in training */

/* Scales, as bits. */
enum { AT_CI = 1 << ICL_SCALE_CI, AT_FULL = 1 << ICL_SCALE_FULL, LATER = 1 << ICL_SCALE_SHORT | AT_FULL };

/* A layer by hand, of permutations of so many points; 0: of parity. */
typedef struct hand_kind {
    const char *name, *rule;
    size_t points;
    bool is_even;
} hand_kind;

/* A kind of model: what it changes in the recipe, how often it is trained, and on which words it is evaluated. */
typedef struct trained_kind {
    unsigned scales;          /* at which it is trained */
    const char *name, *label; /* of its run folders; of its findings and its curve */
    const char *settings;
    bool learns;                  /* more than half of its seeds do; otherwise none */
    size_t seeds, sequences;      /* the study's and those behind it; for each length */
    size_t lengths[MOST_LENGTHS]; /* 0 behind the last */
    /* (accuracy - chance) / (1 - chance) of the best seed, on words between the first and the last of these lengths.
     * Recalled, so that it is shown and does not judge. 0: nothing is published. */
    double published;
} trained_kind;

/* Accuracies are shares of words, all of one length, whose last class is right. */
typedef struct state_study {
    const char *recipe, *title, *tokens; /* of the figure, and what words are made of */
    double right;                        /* the accuracy at twice the length that shows that a seed learned */
    double above_chance;                 /* the accuracy there that seeds without a chance stay below */
    double chance;                       /* the share of right guesses, a curve of the figure */
    const char *can, *cannot;            /* sources */
    const hand_kind *hands;              /* ends without a name */
    const trained_kind *kinds;           /* ends without a name */
} state_study;

/* ---- Parity ---- */

#define UP_TO_1 "model.write_strength=1 "
#define FEW     "task.longest=10 train.batch=64 train.steps=250 train.warmup=20 "
/* The published setting: two layers, words of up to 40 bits, the loss at the last one, evaluation up to 256. */
#define PUBLISHED                                                                                                      \
    "task.longest=40 task.labels=last model.layers=2 model.width=128 model.heads=4 model.key_width=32 "                \
    "model.convolution=4 train.learning_rate=0.001 train.weight_decay=0 train.warmup=2000 train.steps=20000 "
#define BITS                                                                                                           \
    { 20, 40, 100, 256 }
#define PUBLISHED_BITS                                                                                                 \
    { 40, 80, 160, 256 }

static const trained_kind parity_kinds[] = {
    {AT_CI, "strength2", "strength in (0, 2)", FEW, true, 1, 1024, {10, 20}},
    {AT_CI, "strength1", "strength in (0, 1)", FEW UP_TO_1, false, 1, 1024, {10, 20}},
    {LATER, "strength2", "strength in (0, 2)", "", true, 5, 4096, BITS},
    {LATER, "strength1", "strength in (0, 1)", UP_TO_1, false, 5, 4096, BITS},
    {AT_FULL, "published2", "published model, (0, 2)", PUBLISHED, true, 5, 8192, PUBLISHED_BITS, 1},
    {AT_FULL, "published1", "published model, (0, 1)", PUBLISHED UP_TO_1, false, 5, 8192, PUBLISHED_BITS, .017},
    {.name = NULL}};

static const state_study parity = {
    .recipe = "state-parity",
    .title = "Parity by one delta layer: right answers by the length of the word",
    .tokens = "bits",
    .right = .99,
    .above_chance = .55,
    .chance = .5,
    .can = "abstract: eigenvalues below 0 can",
    .cannot = "abstract: eigenvalues in [0, 1] cannot",
    .hands = (const hand_kind[]){{"hand", "parity", 0, false}, {.name = NULL}},
    .kinds = parity_kinds,
};

/* ---- Words of permutations ---- */

#define ONE_WRITE "model.delta_steps=1 "
#define SHORT     "task.longest=8 train.batch=64 train.steps=200 train.warmup=20 "
#define LONG                                                                                                           \
    "task.longest=128 model.width=128 model.heads=8 model.key_width=16 train.learning_rate=0.001 train.steps=20000 "
#define SWAPS ONE_WRITE "task.tokens=generators"
#define WORDS                                                                                                          \
    { 20, 40, 100 }
#define LONG_WORDS                                                                                                     \
    { 128, 256, 512 }

static const trained_kind word_kinds[] = {
    {AT_CI, "2-writes", "S3, 2 writes in (0, 2)", SHORT, true, 1, 1024, {8, 16}},
    {AT_CI, "1-write", "S3, 1 write in (0, 2)", SHORT ONE_WRITE, false, 1, 1024, {8, 16}},
    {LATER, "2-writes", "S3, 2 writes in (0, 2)", "", true, 3, 4096, WORDS},
    {LATER, "1-write", "S3, 1 write in (0, 2)", ONE_WRITE, false, 3, 4096, WORDS},
    {LATER, "up-to-1", "S3, 2 writes in (0, 1)", UP_TO_1, false, 3, 4096, WORDS},
    {LATER, "swaps", "swaps of S3, 1 write in (0, 2)", SWAPS, true, 3, 4096, WORDS},
    {AT_FULL, "a5", "A5, 2 writes in (0, 2)", LONG "task.rule=a5", true, 3, 8192, LONG_WORDS},
    {AT_FULL, "s5", "S5, 4 writes in (0, 2)", LONG "task.rule=s5 model.delta_steps=4", true, 3, 8192, LONG_WORDS},
    {.name = NULL}};

static const hand_kind word_hands[] = {
    {"hand-s3", "s3", 3, false}, {"hand-a5", "a5", 5, true}, {"hand-s5", "s5", 5, false}, {.name = NULL}};

static const state_study words = {
    .recipe = "state-words",
    .title = "Words of permutations by one layer: right answers by the length of the word",
    .tokens = "permutations",
    .right = .99,
    .above_chance = .5,
    .chance = 1 / 6.0, /* of S3 */
    .can = "a write for each reflection",
    .cannot = "rotations need 2 reflections; [0, 1] has none",
    .hands = word_hands,
    .kinds = word_kinds,
};

/* ---- Cells ---- */

static const state_study *settings_of(const icl_study *study) {
    return study->run->reproduction == &icl_state_parity ? &parity : &words;
}

static void plan(icl_study *study) {
    const state_study *all = settings_of(study);

    for (const hand_kind *hand = all->hands; hand->name; hand++)
        ICL_ADD_CELL(study, .name = hand->name, .group = "hand", .recipe = all->recipe, .is_untrained = true,
                     .data = hand,
                     .settings = {ICL_PHRASE("task.rule=%s task.shortest=%d task.longest=%d", hand->rule, HAND_TOKENS,
                                             HAND_TOKENS)});
    for (const trained_kind *kind = all->kinds; kind->name; kind++)
        for (size_t number = 0; kind->scales >> study->scale & 1 && number < kind->seeds; number++)
            ICL_ADD_CELL(study, .name = kind->name, .recipe = all->recipe, .data = kind,
                         .seed = icl_study_seed(study, number),
                         .settings = {kind->settings, ICL_PHRASE("eval.seed=%" PRIu32, icl_study_seed(study, number))});
}

/* A layer by hand has for each form the share of right classes, and the distance of states from whole numbers. A
 * trained one has accuracies by length, and on words of all lengths where something is published. */
enum { SHARE = 0, DEVIATION = SHARE + ICL_HAND_FORMS, ACCURACY = DEVIATION + ICL_HAND_FORMS };
enum { MIXED = ACCURACY + MOST_LENGTHS, NUMBERS };

static size_t count_lengths(const trained_kind *kind) {
    size_t count = 0;
    while (count < MOST_LENGTHS && kind->lengths[count] > 0)
        count++;
    return count;
}

static icl_status measure_hand(icl_study *study, const hand_kind *hand, const icl_task *task, icl_number *numbers,
                               icl_error *error) {
    icl_hand_tally tallies[ICL_HAND_FORMS];

    ICL_CHECK(icl_hand_run(study->run, task, hand->points, hand->is_even, tallies, error));
    for (size_t form = 0; form < ICL_HAND_FORMS; form++) {
        numbers[SHARE + form].value = tallies[form].share;
        numbers[DEVIATION + form].value = tallies[form].deviation;
    }
    return ICL_OK;
}

/* The share of right answers on words of these lengths. */
static icl_status measure_words(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, size_t shortest,
                                size_t longest, icl_number *accuracy, icl_error *error) {
    const trained_kind *kind = cell->data;

    return icl_reproduce_accuracy_as(study->run, trained, cell->complete,
                                     ICL_PHRASE("task.shortest=%zu task.longest=%zu task.labels=last "
                                                "eval.sequences=%zu eval.predictors=",
                                                shortest, longest, kind->sequences),
                                     &accuracy->value, error);
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    const trained_kind *kind = cell->data;

    if (cell->is_untrained)
        return measure_hand(study, cell->data, icl_trainer_task(trained), numbers, error);
    const size_t *lengths = kind->lengths, count = count_lengths(kind);
    for (size_t i = 0; i < count; i++)
        ICL_CHECK(measure_words(study, cell, trained, lengths[i], lengths[i], &numbers[ACCURACY + i], error));
    return kind->published > 0
               ? measure_words(study, cell, trained, lengths[0], lengths[count - 1], &numbers[MIXED], error)
               : ICL_OK;
}

/* ---- Judging ---- */

static void judge_hand(icl_study *study, const hand_kind *hand, const icl_number *numbers) {
    static const char *const forms[] = {[ICL_HAND_WHOLE] = "as a whole", [ICL_HAND_STEPWISE] = "token by token"};
    const size_t writes = hand->points > 0 ? hand->points - 1 : 1;

    for (size_t form = 0; form < ICL_HAND_FORMS; form++)
        ICL_JUDGE(study, .what = ICL_PHRASE("%s by hand, %s, %d tokens", hand->rule, forms[form], HAND_TOKENS),
                  .quantity = "share of right classes", ICL_OURS(numbers[SHARE + form]), .target = 1,
                  .evidence = ICL_COMPUTED, .source = "product of reflections",
                  .note = ICL_PHRASE("%zu write%s for a token; states are off by %.2g at most", writes,
                                     writes == 1 ? "" : "s", numbers[DEVIATION + form].value));
}

static void judge_seeds(icl_study *study, const trained_kind *kind, const double *at_twice, size_t seeds) {
    const state_study *all = settings_of(study);
    const double accuracy = kind->learns ? all->right : all->above_chance;
    char note[160] = "";
    const size_t most = seeds / 2 + 1;
    size_t used = 0, above = 0;

    for (size_t i = 0; i < seeds; i++) {
        above += at_twice[i] >= accuracy;
        if (used < sizeof note)
            used += (size_t)icl_print(note + used, sizeof note - used, "%s%.4g", i > 0 ? ", " : "", at_twice[i]);
    }
    ICL_JUDGE(study, .what = kind->label,
              .quantity = ICL_PHRASE("of %zu seed%s, right on %.3g %% at %zu %s", seeds, seeds == 1 ? "" : "s",
                                     100 * accuracy, kind->lengths[TWICE], all->tokens),
              .ours = (double)above, .target = kind->learns ? (double)most : 0,
              .criterion = kind->learns ? ICL_AT_LEAST : ICL_AT_MOST,
              .evidence = kind->learns ? ICL_INFERRED : ICL_READ, .source = kind->learns ? all->can : all->cannot,
              .note = note);
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    const state_study *all = settings_of(study);
    const trained_kind *kind = cell->data;
    double at_twice[8], best = 0;
    size_t seeds = 0;

    if (cell->is_untrained) {
        judge_hand(study, cell->data, cell->numbers);
        return;
    }
    for (size_t i = 0; i < study->count; i++)
        if (study->cells[i]->data == kind) {
            at_twice[seeds++] = study->cells[i]->numbers[ACCURACY + TWICE].value;
            best = fmax(best, study->cells[i]->numbers[MIXED].value);
        }
    judge_seeds(study, kind, at_twice, seeds);
    if (kind->published > 0)
        ICL_JUDGE(study, .what = kind->label,
                  .quantity = ICL_PHRASE("best scaled accuracy at %zu to %zu %s", kind->lengths[0],
                                         kind->lengths[count_lengths(kind) - 1], all->tokens),
                  .ours = (best - all->chance) / (1 - all->chance), .target = kind->published, .evidence = ICL_RECALLED,
                  .source = "their table of parity");
}

static void conclude(icl_study *study) {
    const state_study *all = settings_of(study);
    icl_curves curves = ICL_CURVES(.name = "accuracy-by-length", .title = all->title, .x_label = all->tokens,
                                   .y_label = "share of right answers", .log_x = true);

    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i];
        const trained_kind *kind = cell->data;
        for (size_t k = 0; !cell->is_untrained && cell->is_measured && k < count_lengths(kind); k++) {
            icl_study_plot(study, &curves, kind->label, ICL_SERIES_OURS, (double)kind->lengths[k],
                           cell->numbers[ACCURACY + k].value);
            icl_study_plot(study, &curves, "chance", ICL_SERIES_REFERENCE, (double)kind->lengths[k], all->chance);
        }
    }
    icl_study_draw(study, &curves);
}

const icl_reproduction icl_state_parity = ICL_STUDY(
        .name = "state-parity", .source = "arXiv 2411.12537",
        .about =
            "parity by a delta layer: by hand at length 10,000, and trained with write strengths up to 1 and up to 2",
        .claim =
            "A linear recurrence tracks parity on words longer than those of its training if its eigenvalues can be "
            "negative, and not otherwise.",
        .cost = {"3 s", "4 min", "12 h"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
        .conclude = conclude);

const icl_reproduction icl_state_words = ICL_STUDY(
        .name = "state-words", .source = "arXiv 2411.12537, 2502.10297",
        .about = "permutation words by products of reflections: by hand at length 10,000, and trained on S3",
        .claim =
            "A linear recurrence tracks words of permutations if it writes as often for each token as the permutation "
            "has reflections.",
        .cost = {"3 s", "3 min", "30 h"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
        .conclude = conclude);
