/*
 * Associative recall with many queries by mixer and size of state: Arora et al. 2023 (Zoology, arXiv 2312.04927) and
 * 2024 (Based, arXiv 2402.18668, figure "recall against state size").
 *
 * A gated convolution puts each key beside its value, and one head of the mixer under test recalls. Its state is m n
 * numbers, m = model.key_width and n = model.width; softmax attention keeps m + n numbers of every position, and a
 * convolution what it looks back on. Scale short has fewer symbols and pairs than the papers, and no published number
 * exists for it: it judges the order that their figures show. The worst mixer of one group has to be above the best of
 * the next by two standard errors. A sequence has twice as many pairs as a key has numbers, so that its keys cannot all
 * be orthogonal. Even so gated sums recall as much as delta rules here, .94 beside .93, and one seed of a delta rule
 * differs from another by more: that row is shown without a verdict.
 *
 * Scale full is the largest slice of their training, 64 pairs in 256 positions out of 8192 symbols, with the best of
 * four learning rates. Their accuracies are means over seven sizes of the task, and stand beside ours without a
 * verdict.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/evaluate.h"
#include "papers/curves.h"
#include "papers/papers.h"
#include "papers/recall/trained.h"

enum { MOST_WIDTHS = 4, MOST_RATES = 4 };

/* ---- Mixers ---- */

/* Groups of mixers in the order of the papers' figures; CONVOLUTION is to be last. */
typedef enum rank { SOFTMAX = 0, DELTA, GATED, PLAIN, CONVOLUTION, RANKS } rank;

static const struct {
    const char *name, *overrides;
    rank rank;
} mixers[] = {
    {"softmax", "model.mixer=conv,softmax", SOFTMAX},
    {"delta", "model.mixer=conv,delta", DELTA},
    {"gated-delta", "model.mixer=conv,gated-delta", DELTA},
    {"gla", "model.mixer=conv,gla", GATED},
    {"mamba2", "model.mixer=conv,mamba2", GATED},
    {"linear", "model.mixer=conv,linear model.feature_map=elu+1", PLAIN},
    {"conv", "model.mixer=conv,conv model.key_width=0", CONVOLUTION},
};
enum { MIXERS = sizeof mixers / sizeof *mixers };

static const char *const rank_names[RANKS] = {"softmax attention", "delta rules", "gated linear attention",
                                              "plain linear attention", "convolutions"};

/* ---- Settings ---- */

typedef struct setting {
    const char *task;
    size_t symbols, length, pairs, width, convolution;
    size_t key_widths[MOST_WIDTHS]; /* 0 behind the last; the first judges */
    const char *rates[MOST_RATES];  /* the best of them counts, by accuracy; NULL behind the last */
    size_t seeds, steps, sequences;
    bool judged[CONVOLUTION]; /* of each group: that it is above the next one */
    const char *reason;       /* why the others are shown without a verdict; NULL where there are none */
} setting;

static const setting settings[ICL_SCALES] = {
    {.task = "task.vocabulary=16 task.length=14 task.pairs=3 train.batch=32 train.warmup=20",
     .symbols = 16,
     .length = 14,
     .pairs = 3,
     .width = 32,
     .convolution = 3,
     .key_widths = {8},
     .rates = {"0.01"},
     .seeds = 1,
     .steps = 250,
     .sequences = 512,
     .judged = {[PLAIN] = true},
     .reason = "the task is too small"},
    {.task = "task.vocabulary=128 task.length=48 task.pairs=12",
     .symbols = 128,
     .length = 48,
     .pairs = 12,
     .width = 32,
     .convolution = 3,
     .key_widths = {6},
     .rates = {"0.016", "0.032"},
     .seeds = 3,
     .steps = 2000,
     .sequences = 1024,
     .judged = {[SOFTMAX] = true, [GATED] = true, [PLAIN] = true},
     .reason = "seeds differ more than these mixers"},
    {.task = "task.vocabulary=8192 task.length=256 task.pairs=64 task.gaps=power:0.01 task.filler=random "
             "model.width=64 train.batch=256 train.warmup=250",
     .symbols = 8192,
     .length = 256,
     .pairs = 64,
     .width = 64,
     .convolution = 3,
     .key_widths = {32, 64, 128},
     .rates = {"0.001", "0.0032", "0.01", "0.032"},
     .seeds = 1,
     .steps = 2500,
     .sequences = 1000,
     .judged = {[GATED] = true, [PLAIN] = true},
     .reason = "a single seed"},
};

/* Bytes of what a mixer keeps of the positions before. */
static double state_bytes(const setting *with, rank which, size_t key_width) {
    const double m = (double)key_width, n = (double)with->width;

    return 4 * (which == SOFTMAX       ? (double)with->length * (m + n)
                : which == CONVOLUTION ? (double)(with->convolution - 1) * n
                                       : m * n);
}

/* ---- Training ---- */

/* Accuracies of a mixer at a key width, by seed: at the best of the rates. */
typedef struct outcome {
    icl_curve_point point;
    bool is_there; /* wanted, and trained */
} outcome;

typedef struct results {
    icl_curves curves;
    outcome of[MIXERS][MOST_WIDTHS];
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

    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        for (size_t k = 1; k < evaluation->count; k++)
            if (strcmp(evaluation->scores[k].predictor, levels[i].name) == 0)
                ICL_CHECK(ICL_FOUND(run, error, .what = levels[i].what, .quantity = "accuracy",
                                    .ours = evaluation->scores[k].accuracy, .target = levels[i].accuracy,
                                    .tolerance = 1e-9, .evidence = ICL_COMPUTED, .source = "one of so many"));
    return ICL_OK;
}

/* A run that diverged recalls nothing. */
static icl_status train_one(icl_reproducing *run, const setting *with, const icl_recall_cell *cell, results *to,
                            double *accuracy, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    icl_evaluation *evaluation = NULL;
    icl_status status = icl_recall_train(run, cell, &recipe, &trainer, error);

    *accuracy = 0;
    if (status == ICL_ERROR_DIVERGED) {
        status = ICL_OK;
        goto done;
    }
    ICL_TRY(status);
    ICL_TRY(icl_evaluate(run->params->backend, trainer, recipe, &evaluation, error));
    *accuracy = evaluation->scores[0].accuracy;
    if (!to->chance_is_judged)
        ICL_TRY(judge_chance(run, with, evaluation, error));
    to->chance_is_judged = true;
done:
    icl_evaluation_destroy(&evaluation);
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

/* The best of the rates. */
static icl_status train_seed(icl_reproducing *run, const setting *with, size_t mixer, size_t key_width, uint32_t seed,
                             results *to, double *best, icl_error *error) {
    *best = 0;
    for (size_t i = 0; i < MOST_RATES && with->rates[i]; i++) {
        char name[64], model[160];
        double accuracy;
        snprintf(name, sizeof name, "%s-k%zu-%s", mixers[mixer].name, key_width, with->rates[i]);
        snprintf(model, sizeof model, "%s train.learning_rate=%s", mixers[mixer].overrides, with->rates[i]);
        const icl_recall_cell cell = {.name = name,
                                      .recipe = "recall",
                                      .task = with->task,
                                      .model = model,
                                      .key_width = key_width,
                                      .steps = with->steps,
                                      .sequences = with->sequences,
                                      .seed = seed};
        ICL_CHECK(icl_reproduce_next(run, train_one(run, with, &cell, to, &accuracy, error)));
        *best = fmax(*best, accuracy);
    }
    return ICL_OK;
}

static icl_status train_mixer(icl_reproducing *run, const setting *with, size_t mixer, size_t width, results *to,
                              icl_error *error) {
    const size_t key_width = with->key_widths[width];
    const double bytes = state_bytes(with, mixers[mixer].rank, key_width);
    outcome *of = &to->of[mixer][width];
    char what[96], note[96] = "";

    for (uint32_t i = 0; i < with->seeds; i++) {
        double accuracy;
        ICL_CHECK(train_seed(run, with, mixer, mixers[mixer].rank == CONVOLUTION ? 0 : key_width, run->params->seed + i,
                             to, &accuracy, error));
        ICL_CHECK(icl_curves_add(&to->curves, mixers[mixer].name, ICL_SERIES_OURS, bytes, accuracy, error));
        snprintf(note + strlen(note), sizeof note - strlen(note), "%s%.4f", i > 0 ? ", " : "seeds: ", accuracy);
    }
    ICL_CHECK(icl_curves_point(&to->curves, mixers[mixer].name, bytes, &of->point, error));
    of->is_there = true;
    if (mixers[mixer].rank == CONVOLUTION)
        snprintf(what, sizeof what, "%s, %g bytes", mixers[mixer].name, bytes);
    else
        snprintf(what, sizeof what, "%s, keys of %zu, %g bytes", mixers[mixer].name, key_width, bytes);
    return ICL_FOUND(run, error, .what = what, .quantity = "accuracy", .ours = of->point.mean,
                     .standard_error = of->point.standard_error, .note = note);
}

/* ---- The order ---- */

/* The worst mixer of one group, or the best, at the first key width; NULL where one of the group is missing. */
static const outcome *extreme(const results *of, rank which, bool best, const char **name) {
    const outcome *found = NULL;

    for (size_t i = 0; i < MIXERS; i++) {
        const outcome *here = &of->of[i][0];
        if (mixers[i].rank != which)
            continue;
        if (!here->is_there)
            return NULL;
        if (!found || (best ? here->point.mean > found->point.mean : here->point.mean < found->point.mean)) {
            found = here;
            *name = mixers[i].name;
        }
    }
    return found;
}

/* Of a mean accuracy: over seeds, or that of drawing the queries of one evaluation where that is larger. */
static double accuracy_error(const setting *with, const outcome *of) {
    const double p = of->point.mean, queries = (double)(with->sequences * with->pairs);
    return fmax(of->point.standard_error, sqrt(p * (1 - p) / queries));
}

static icl_status judge_order(icl_reproducing *run, const setting *with, const results *of, icl_error *error) {
    for (rank above = SOFTMAX; above + 1 < RANKS; above++) {
        const rank below = above + 1;
        const char *worst_name = "", *best_name = "";
        const outcome *worst = extreme(of, above, false, &worst_name), *best = extreme(of, below, true, &best_name);
        const bool judged = with->judged[above];
        char what[128], note[160];
        if (!worst || !best)
            continue;
        const double standard_error = hypot(accuracy_error(with, worst), accuracy_error(with, best));
        snprintf(what, sizeof what, "%s above %s", rank_names[above], rank_names[below]);
        snprintf(note, sizeof note, "%s less %s, keys of %zu%s%s", worst_name, best_name, with->key_widths[0],
                 judged ? "" : "; no verdict: ", judged ? "" : with->reason);
        ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = "accuracy",
                            .ours = worst->point.mean - best->point.mean, .standard_error = standard_error,
                            .target = 2 * standard_error, .criterion = ICL_AT_LEAST,
                            .evidence = judged ? ICL_INFERRED : ICL_EVIDENCE_NONE,
                            .source = "figures of Zoology and Based", .note = note));
    }
    return ICL_OK;
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
            char cell[32];
            snprintf(cell, sizeof cell, "%s-k%zu", mixers[mixer].name, with->key_widths[width]);
            if (icl_reproduce_wants(run, cell) && (width == 0 || mixers[mixer].rank != CONVOLUTION))
                ICL_TRY(train_mixer(run, with, mixer, width, &all, error));
        }
    ICL_TRY(judge_order(run, with, &all, error));
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
    .cost = {"2 s", "5 min", "weeks"},
    .is_shared = true,
    .run = reproduce,
};
