/*
 * Associative recall with many queries by mixer and size of state: Arora et al. 2023 (Zoology, arXiv 2312.04927) and
 * 2024 (Based, arXiv 2402.18668, figure "recall against state size").
 *
 * A gated convolution puts each key beside its value, and one head of the mixer under test recalls. Its state is m n
 * numbers, m = model.key_width and n = model.value_width; softmax attention keeps m + n numbers of every position, and
 * a convolution what it looks back on. Scale short has fewer symbols and pairs than the papers, and no published number
 * exists for it: it judges the order that their figures show, at more than one size of state. The worst mixer of one
 * group has to be above the best of the next by two standard errors.
 *
 * Values are narrow because their width decides what the delta rule is worth. A sum of P pairs with unit keys answers
 * with the value, of length 1, and with interference of squared length near P / m, of which each of n directions has
 * one part. The largest of K values is the right one where sqrt(m n / P) is well above sqrt(2 log K), however much keys
 * overlap. The delta rule leaves less interference, but takes from what it wrote before. For K = 63 and P = 12 the
 * threshold is 2.9. With n = 32, m = 6 a sum has 4.0 and loses nothing by its interference: gated sums recalled .94
 * there, and delta rules .93. With n = 8 it has 3.3 at m = 16, where delta rules are a tenth above gated sums; with 2.3
 * at m = 8 no mixer recalls half.
 *
 * Scale full is the largest slice of their training, 64 pairs in 256 positions out of 8192 symbols, with the best of
 * four learning rates. Their accuracies are means over seven sizes of the task, and stand beside ours without a
 * verdict.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/print.h"
#include "papers/curves.h"
#include "papers/losses.h"
#include "papers/order.h"
#include "papers/papers.h"
#include "papers/phrase.h"
#include "papers/seeds.h"

enum { MOST_WIDTHS = 4, MOST_RATES = 4 };

/* ---- Mixers ---- */

/* In the order of the papers' figures; CONVOLUTION is to be last. */
typedef enum group { SOFTMAX = 0, DELTA, GATED, PLAIN, CONVOLUTION, GROUPS } group;

static const struct {
    const char *name, *overrides;
    group group;
} mixers[] = {
    {"softmax", "model.mixer=conv,softmax", SOFTMAX},
    {"delta", "model.mixer=conv,delta", DELTA},
    {"gated-delta", "model.mixer=conv,gated-delta", DELTA},
    {"gla", "model.mixer=conv,gla", GATED},
    {"mamba2", "model.mixer=conv,mamba2", GATED},
    {"linear", "model.mixer=conv,linear model.feature_map=elu+1", PLAIN},
    {"conv", "model.mixer=conv,conv", CONVOLUTION},
};
enum { MIXERS = sizeof mixers / sizeof *mixers };

static const char *const group_names[GROUPS] = {"softmax attention", "delta rules", "gated linear attention",
                                                "plain linear attention", "convolutions"};

/* ---- Settings ---- */

#define CONVOLVED 3 /* positions that a convolution sees, its own included */

static const char *const tasks[ICL_SCALES] = {
    "task.vocabulary=16 task.length=14 task.pairs=3 train.batch=32 train.warmup=20",
    "task.vocabulary=128 task.length=48 task.pairs=12",
    ("task.vocabulary=8192 task.length=256 task.pairs=64 task.gaps=power:0.01 task.filler=random model.width=64 "
     "train.batch=256 train.warmup=250"),
};

typedef struct setting {
    size_t symbols, length, pairs;    /* as the task has them */
    size_t width, value_width;        /* of the model, and of a mixer's values */
    size_t key_widths[MOST_WIDTHS];   /* 0 behind the last */
    size_t judged_from;               /* narrower keys are shown without a verdict */
    const char *rates[MOST_RATES];    /* the best of them counts, by accuracy; NULL behind the last */
    size_t seeds, steps, sequences;   /* sequences: of the evaluation */
    const char *unjudged[GROUPS - 1]; /* by group: see order.h */
} setting;

#define SMALL "the task is too small"
#define ALONE "a single seed"

static const setting settings[ICL_SCALES] = {
    {16, 14, 3, 32, 32, {8}, 0, {"0.01"}, 1, 250, 512, {SMALL, SMALL, SMALL}},
    {128, 48, 12, 32, 8, {8, 16}, 16, {"0.016", "0.032"}, 3, 2000, 1024, {NULL}},
    {8192, 256, 64, 64, 64, {32, 64, 128}, 0, {"0.001", "0.0032", "0.01", "0.032"}, 1, 2500, 1000, {ALONE, ALONE}},
};

/* Bytes of what a mixer keeps of the positions before. */
static double state_bytes(const setting *with, group which, size_t key_width) {
    const double m = (double)key_width, n = (double)with->value_width;

    return 4 * (which == SOFTMAX       ? (double)with->length * (m + n)
                : which == CONVOLUTION ? (CONVOLVED - 1) * (double)with->width
                                       : m * n);
}

/* ---- Training ---- */

typedef struct results {
    icl_curves curves;
    icl_curve_point of[MIXERS][MOST_WIDTHS]; /* accuracy at the best of the rates; no seeds: not wanted */
    bool chance_is_judged;
} results;

static icl_status judge_chance(icl_reproducing *run, const setting *with, const icl_evaluation *evaluation,
                               icl_error *error) {
    const size_t values = with->symbols / 2 - 1;
    const struct {
        const char *name, *what;
        double accuracy;
    } levels[] = {{"uniform", "any symbol", 1 / (double)with->symbols},
                  {"values", "any value", 1 / (double)values},
                  {"context", "any value of the context", 1 / (double)with->pairs}};

    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        const icl_score *score = icl_reproduce_score(evaluation, levels[i].name);
        ICL_CHECK(ICL_FOUND(run, error, .what = levels[i].what, .quantity = "accuracy",
                            .ours = score ? score->accuracy : (double)NAN, .target = levels[i].accuracy,
                            .tolerance = 1e-9, .evidence = ICL_COMPUTED, .source = "one of so many"));
    }
    return ICL_OK;
}

/* The best of the rates; who diverges recalls nothing. */
static icl_status train_seed(icl_reproducing *run, const setting *with, size_t mixer, size_t key_width, uint32_t seed,
                             results *to, double *accuracy, icl_error *error) {
    const bool has_keys = mixers[mixer].group != CONVOLUTION;
    const size_t keys = has_keys ? key_width : 0, values = has_keys ? with->value_width : 0;
    char name[ICL_SEEDED_NAME], widths[96];
    const icl_seeded_cell cell = {.name = name,
                                  .recipe = "recall",
                                  .overrides = {tasks[run->params->scale], mixers[mixer].overrides, widths},
                                  .steps = with->steps,
                                  .sequences = with->sequences,
                                  .seed = seed};
    icl_evaluation *evaluation = NULL;
    icl_status status = ICL_OK;

    snprintf(name, sizeof name, "%s-k%zu", mixers[mixer].name, keys);
    snprintf(widths, sizeof widths, "model.key_width=%zu model.value_width=%zu eval.every=0", keys, values);
    ICL_TRY(icl_reproduce_evaluate_best_rate(run, &cell, MOST_RATES, with->rates, &evaluation, error));
    *accuracy = evaluation ? evaluation->scores[0].accuracy : 0;
    if (evaluation && !to->chance_is_judged) {
        ICL_TRY(judge_chance(run, with, evaluation, error));
        to->chance_is_judged = true;
    }
done:
    icl_evaluation_destroy(&evaluation);
    return status;
}

static icl_status train_mixer(icl_reproducing *run, const setting *with, size_t mixer, size_t width, results *to,
                              icl_error *error) {
    const size_t key_width = with->key_widths[width];
    const char *name = mixers[mixer].name;
    const double bytes = state_bytes(with, mixers[mixer].group, key_width);
    char keys[32] = "", note[96] = "";

    for (uint32_t i = 0; i < with->seeds; i++) {
        double accuracy;
        ICL_CHECK(train_seed(run, with, mixer, key_width, icl_reproduce_seed(run, i), to, &accuracy, error));
        ICL_CHECK(icl_curves_add(&to->curves, name, ICL_SERIES_OURS, bytes, accuracy, error));
        icl_print(note + strlen(note), sizeof note - strlen(note), "%s%.4f", i > 0 ? ", " : "seeds: ", accuracy);
    }
    to->of[mixer][width] = icl_curves_at(&to->curves, name, bytes);
    if (mixers[mixer].group != CONVOLUTION)
        snprintf(keys, sizeof keys, "keys of %zu, ", key_width);
    return ICL_FOUND_POINT(run, error, to->of[mixer][width], .what = ICL_PHRASE("%s, %s%g bytes", name, keys, bytes),
                           .quantity = "accuracy", .note = note);
}

/* ---- The order ---- */

/* Of a mean accuracy: over seeds, or that of drawing the queries of one evaluation where that is larger. */
static double accuracy_error(const setting *with, const icl_curve_point *of) {
    const double p = of->mean, queries = (double)(with->sequences * with->pairs);
    return fmax(of->standard_error, sqrt(p * (1 - p) / queries));
}

#define NARROW "fewer key coordinates than pairs, no state recalls half"

/* At one key width. A convolution has none: it is below the plain linear attention of any. */
static icl_status judge_order(icl_reproducing *run, const setting *with, const results *of, size_t width,
                              icl_error *error) {
    static const char *const narrow[GROUPS - 1] = {NARROW, NARROW, NARROW, NARROW};
    const icl_order order = {.quantity = "accuracy",
                             .source = "figures of Zoology and Based",
                             .groups = group_names,
                             .unjudged = with->key_widths[width] < with->judged_from ? narrow : with->unjudged,
                             .count = GROUPS};
    icl_ranked all[MIXERS];

    for (size_t i = 0; i < MIXERS; i++) {
        const icl_curve_point *point = &of->of[i][mixers[i].group == CONVOLUTION ? 0 : width];
        all[i] = (icl_ranked){mixers[i].name, mixers[i].group, point->seeds > 0 ? point->mean : (double)NAN,
                              accuracy_error(with, point)};
    }
    return icl_reproduce_order(run, &order, ICL_PHRASE("keys of %zu", with->key_widths[width]), all, MIXERS, error);
}

/* ---- What is published ---- */

/* Bytes of state and accuracy, read off the figure of Based; means over sizes of the task up to 256 pairs. */
static icl_status add_published(icl_curves *curves, icl_error *error) {
    static const struct {
        const char *name;
        double points[6][2];
    } known[] = {
        {"DeltaNet, published", {{8.9e3, .793}, {34e3, .963}, {134e3, .995}}},
        {"gated DeltaNet, published", {{17e3, .890}, {67e3, .988}, {259e3, .994}, {1e6, 1}}},
        {"GLA, published", {{4.8e3, .533}, {18e3, .771}, {68e3, .950}}},
        {"Mamba-2, published", {{8e3, .52}, {16e3, .69}, {33e3, .785}, {65e3, .832}, {98e3, .844}}},
        {"Based, published", {{9e3, .667}, {25e3, .840}, {40e3, .913}, {80e3, .985}, {154e3, .991}, {578e3, 1}}},
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (size_t k = 0; k < 6 && known[i].points[k][0] > 0; k++)
            ICL_CHECK(icl_curves_add(curves, known[i].name, ICL_SERIES_PUBLISHED, known[i].points[k][0],
                                     known[i].points[k][1], error));
    return ICL_OK;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    const setting *with = &settings[run->params->scale];
    results all = {.curves = {.figure = {.name = "recall-mqar",
                                         .title = "Recall by mixer and size of state",
                                         .x_label = "bytes of state",
                                         .y_label = "accuracy",
                                         .log_x = true}}};
    icl_status status = ICL_OK;

    for (size_t mixer = 0; mixer < MIXERS; mixer++)
        for (size_t width = 0; width < MOST_WIDTHS && with->key_widths[width] > 0; width++) {
            const bool is_new = width == 0 || mixers[mixer].group != CONVOLUTION;
            if (is_new && icl_reproduce_wants(run, ICL_PHRASE("%s-k%zu", mixers[mixer].name, with->key_widths[width])))
                ICL_TRY(train_mixer(run, with, mixer, width, &all, error));
        }
    for (size_t width = 0; width < MOST_WIDTHS && with->key_widths[width] > 0; width++)
        ICL_TRY(judge_order(run, with, &all, width, error));
    if (run->params->scale == ICL_SCALE_FULL)
        ICL_TRY(add_published(&all.curves, error));
    if (run->findings > 0)
        ICL_TRY(icl_curves_draw(run, &all.curves, error));
done:
    icl_curves_release(&all.curves);
    return status;
}

const icl_reproduction icl_recall_mqar = {
    .name = "recall-mqar",
    .source = "arXiv 2312.04927, 2402.18668",
    .about = "recall with many queries by mixer and size of state, beside levels of chance",
    .cost = {"2 s", "10 min", "weeks"},
    .is_shared = true,
    .run = reproduce,
};
