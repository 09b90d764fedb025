/*
 * The tasks of MAD by mixer: Poli et al. 2024 (arXiv 2403.17844), with the tables of DeltaNet (Yang et al. 2024, arXiv
 * 2406.06484) and of MesaNet (von Oswald et al. 2025, arXiv 2506.05233) beside ours. Two blocks of the mixer and a
 * gated feed-forward part.
 *
 * Accuracies are macro averages, as the authors': the mean over classes of the share of right answers to it. Recall is
 * trained on every next token and evaluated on values of keys that were shown before.
 *
 * The tables differ by up to 32 points on mixers of one name, whose protocols differ. Two orders hold in both, and
 * scale full judges them: of the recurrent mixers, a mesa layer aside, the delta rule is best at fuzzy recall, and it
 * is worse than the gated ones, Mamba-2 aside, at memorisation. Smaller scales judge what no protocol changes: every
 * mixer is above the level of chance, and the delta rule recalls in context.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/print.h"
#include "papers/curves.h"
#include "papers/papers.h"
#include "papers/phrase.h"
#include "papers/recall/macro.h"
#include "papers/seeds.h"
#include "papers/tables.h"

/* ---- Tasks and mixers ---- */

typedef enum skill { IN_CONTEXT = 0, NOISY, FUZZY, COPY, MEMORISE, COMPRESS, SKILLS } skill;

static const char *const skill_names[SKILLS] = {"in-context-recall", "noisy-recall", "fuzzy-recall",
                                                "selective-copying", "memorisation", "compression"};

/* Percent, in the order of the skills; 0: not in the table. That of MesaNet has in-context and noisy recall as one. */
static const struct {
    const char *name, *overrides;
    icl_scale first; /* scale from which on it is trained */
    double deltanet[SKILLS], mesanet[SKILLS];
} mixers[] = {
    {"softmax",
     "model.mixer=softmax model.positions=rotary",
     ICL_SCALE_SHORT,
     {94.1, 86.8, 29.8, 99.6, 85.2, 51.6},
     {100, 100, 48.6, 96.0, 84.7, 49.5}},
    {"delta", "model.mixer=delta", ICL_SCALE_CI, {100, 100, 35.7, 100, 52.8, 42.2}, {100, 100, 55.5, 98.8, 40.8, 43.3}},
    {"gla",
     "model.mixer=gla",
     ICL_SCALE_SHORT,
     {80.8, 81.6, 6.9, 88.6, 63.3, 38.8},
     {100, 100, 39.0, 96.1, 82.5, 42.3}},
    {"mamba2", "model.mixer=mamba2", ICL_SCALE_SHORT, {0}, {100, 100, 51.2, 95.4, 42.0, 41.3}},
    {"gated-delta", "model.mixer=gated-delta", ICL_SCALE_FULL, {0}, {100, 100, 32.7, 95.7, 81.7, 45.0}},
    {"mesa", "model.mixer=mesa", ICL_SCALE_FULL, {0}, {100, 100, 58.5, 99.2, 77.2, 45.4}},
};
enum { MIXERS = sizeof mixers / sizeof *mixers, DELTA = 1, MESA = MIXERS - 1 };

typedef struct setting {
    const char *tasks[SKILLS]; /* overrides; NULL: not at this scale */
    const char *model;
    size_t seeds, steps, sequences;
} setting;

#define SKILL(name) "task.skill=" name " "

static const setting settings[ICL_SCALES] = {
    {.tasks = {SKILL("in-context-recall") "task.vocabulary=8 task.length=16"},
     .model = "train.warmup=20",
     .seeds = 1,
     .steps = 200,
     .sequences = 512},
    {.tasks = {SKILL("in-context-recall") "task.vocabulary=16 task.length=64",
               SKILL("noisy-recall") "task.vocabulary=24 task.noise_symbols=8 task.length=64",
               SKILL("fuzzy-recall") "task.vocabulary=12 task.length=64 task.motif=2",
               SKILL("selective-copying") "task.vocabulary=16 task.length=48 task.copied=8",
               SKILL("memorisation") "task.vocabulary=64 task.length=16",
               SKILL("compression") "task.vocabulary=16 task.length=16 model.readout=last"},
     .model = "",
     .seeds = 1,
     .steps = 600,
     .sequences = 512},
    {.tasks = {SKILL("in-context-recall") "task.vocabulary=16 task.length=128",
               SKILL("noisy-recall") "task.vocabulary=32 task.noise_symbols=16 task.length=128",
               SKILL("fuzzy-recall") "task.vocabulary=16 task.length=128",
               SKILL("selective-copying") "task.vocabulary=16 task.length=256",
               SKILL("memorisation") "task.vocabulary=256 task.length=32",
               SKILL("compression") "task.vocabulary=16 task.length=32 model.readout=last"},
     .model = "model.width=128 model.heads=8 model.feed_forward_factor=4 train.batch=128 train.learning_rate=0.001 "
              "train.warmup=750",
     .seeds = 3,
     .steps = 20000,
     .sequences = 1280},
};

/* ---- A cell of the table ---- */

typedef enum origin { OURS = 0, DELTANET, MESANET, ORIGINS } origin;

typedef struct table {
    icl_curves values; /* one curve for each mixer, over the skills */
    double accuracies[ORIGINS][SKILLS][MIXERS];
    size_t classes; /* of the last cell's task */
} table;

static icl_status train_seed(icl_reproducing *run, const setting *with, skill which, size_t mixer, uint32_t seed,
                             table *to, icl_error *error) {
    char name[ICL_SEEDED_NAME];
    const icl_seeded_cell cell = {
        .name = name,
        .recipe = "mad",
        .overrides = {with->tasks[which], mixers[mixer].overrides, with->model, "eval.every=0"},
        .steps = with->steps,
        .sequences = with->sequences,
        .seed = seed};
    icl_seeded made = {NULL};
    icl_recall_macro is;
    icl_status status = ICL_OK;

    snprintf(name, sizeof name, "%s-%s", skill_names[which], mixers[mixer].name);
    ICL_TRY(icl_reproduce_train_seed(run, &cell, &made, error));
    ICL_TRY(icl_recall_macro_measure(run, made.trainer, with->sequences, &is, error));
    ICL_TRY(icl_curves_add(&to->values, mixers[mixer].name, ICL_SERIES_OURS, which + 1, is.accuracy, error));
    to->classes = is.classes;
done:
    icl_seeded_release(&made);
    return status;
}

static void describe(const char *name, double percent, char *text, size_t size) {
    if (percent > 0)
        icl_print(text + strlen(text), size - strlen(text), "%s%s %.1f %%", *text ? ", " : "", name, percent);
}

/* Chance is one of the classes that are asked for. The delta rule's recall in context is to be nearly right. */
static icl_status train_cell(icl_reproducing *run, const setting *with, skill which, size_t mixer, table *to,
                             icl_error *error) {
    const bool recalls = which == IN_CONTEXT && mixer == DELTA;
    char note[128] = "";

    to->classes = 1;
    for (uint32_t i = 0; i < with->seeds; i++)
        ICL_CHECK(icl_reproduce_next(run, train_seed(run, with, which, mixer, icl_reproduce_seed(run, i), to, error)));
    const icl_curve_point point = icl_curves_at(&to->values, mixers[mixer].name, which + 1);
    to->accuracies[OURS][which][mixer] = point.mean;
    describe("DeltaNet's table", mixers[mixer].deltanet[which], note, sizeof note);
    describe("MesaNet's table", mixers[mixer].mesanet[which], note, sizeof note);
    return ICL_FOUND_POINT(run, error, point, .what = ICL_PHRASE("%s, %s", skill_names[which], mixers[mixer].name),
                           .quantity = "macro accuracy", .target = recalls ? .9 : 1 / (double)to->classes,
                           .criterion = ICL_AT_LEAST, .evidence = recalls ? ICL_INFERRED : ICL_COMPUTED,
                           .source = recalls ? "100 % in both tables" : "chance", .note = note);
}

/* ---- The table ---- */

/* The delta rule against the other recurrent mixers but a mesa layer: above all in fuzzy recall; and in memorisation
 * below all but one, Mamba-2, that is near it in one table and not in the other. */
static icl_status judge_orders(icl_reproducing *run, double (*const ours)[MIXERS], icl_error *error) {
    static const struct {
        skill which;
        double sign;
        const char *what;
    } orders[] = {{FUZZY, 1, "delta above other recurrent mixers"}, {MEMORISE, -1, "delta below gla and gated-delta"}};

    for (size_t k = 0; k < sizeof orders / sizeof *orders; k++) {
        double least = (double)INFINITY;
        for (size_t i = DELTA + 1; i < MESA; i++)
            if (orders[k].sign > 0 || strcmp(mixers[i].name, "mamba2") != 0)
                least = fmin(least, orders[k].sign * (ours[orders[k].which][DELTA] - ours[orders[k].which][i]));
        if (isfinite(least))
            ICL_CHECK(ICL_FOUND(run, error, .what = orders[k].what, .quantity = skill_names[orders[k].which],
                                .ours = least, .target = 0, .criterion = ICL_AT_LEAST, .evidence = ICL_READ,
                                .source = "both tables"));
    }
    return ICL_OK;
}

static icl_status draw(icl_reproducing *run, const table *of, icl_error *error) {
    const char *names[MIXERS];
    const icl_tables tables = {.figure = {.name = "recall-mad",
                                          .title = "Tasks of MAD by mixer: macro accuracy",
                                          .row_label = "task",
                                          .column_label = "mixer",
                                          .value_label = "macro accuracy"},
                               .rows = SKILLS,
                               .columns = MIXERS,
                               .row_names = skill_names,
                               .column_names = names,
                               .count = ORIGINS,
                               .tables = {{"ours", of->accuracies[OURS][0]},
                                          {"DeltaNet (2406.06484)", of->accuracies[DELTANET][0]},
                                          {"MesaNet (2506.05233)", of->accuracies[MESANET][0]}}};

    for (size_t i = 0; i < MIXERS; i++)
        names[i] = mixers[i].name;
    ICL_CHECK(icl_tables_draw(run, &tables, error));
    return run->params->scale > ICL_SCALE_CI ? icl_curves_draw(run, &of->values, error) : ICL_OK;
}

static double share(bool is_asked, double percent) {
    return is_asked && percent > 0 ? percent / 100 : (double)NAN;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    const setting *with = &settings[run->params->scale];
    table all = {.values = {.figure = {.name = "recall-mad-curves",
                                       .title = "Tasks of MAD by mixer",
                                       .x_label = "task, as in the table",
                                       .y_label = "macro accuracy"}}};
    icl_status status = ICL_OK;

    for (skill which = IN_CONTEXT; which < SKILLS; which++)
        for (size_t mixer = 0; mixer < MIXERS; mixer++) {
            const bool is_asked = with->tasks[which] != NULL;
            all.accuracies[OURS][which][mixer] = (double)NAN;
            all.accuracies[DELTANET][which][mixer] = share(is_asked, mixers[mixer].deltanet[which]);
            all.accuracies[MESANET][which][mixer] = share(is_asked, mixers[mixer].mesanet[which]);
            if (is_asked && run->params->scale >= mixers[mixer].first &&
                icl_reproduce_wants(run, ICL_PHRASE("%s-%s", skill_names[which], mixers[mixer].name)))
                ICL_TRY(train_cell(run, with, which, mixer, &all, error));
        }
    if (run->params->scale == ICL_SCALE_FULL)
        ICL_TRY(judge_orders(run, all.accuracies[OURS], error));
    if (run->findings > 0)
        ICL_TRY(draw(run, &all, error));
done:
    icl_curves_release(&all.values);
    return status;
}

const icl_reproduction icl_recall_mad = {
    .name = "recall-mad",
    .source = "arXiv 2403.17844, 2406.06484, 2506.05233",
    .about = "tasks of MAD by mixer: recall in context, noisy and fuzzy, copying, memorisation, compression",
    .cost = {"2 s", "5 min", "a month"},
    .is_shared = true,
    .run = reproduce,
};
