/*
 * The tasks of MAD by mixer: Poli et al. 2024 (arXiv 2403.17844), with the tables of DeltaNet (Yang et al. 2024, arXiv
 * 2406.06484) and of MesaNet (von Oswald et al. 2025, arXiv 2506.05233) next to ours. A model has two blocks of the
 * mixer and a gated feed-forward part.
 *
 * Accuracies are macro averages, as in the authors' code: the mean over classes of the share of right answers to it.
 * Recall is trained on every next token and evaluated on values of keys that were shown before.
 *
 * The tables differ by up to 32 points on mixers of one name, whose protocols differ. Two orders hold in both, and
 * scale full judges them: among the recurrent mixers except a mesa layer, the delta rule is best at fuzzy recall, and
 * at memorisation it is worse than the gated ones except Mamba-2. Smaller scales judge statements that no protocol
 * changes: every mixer is above the level of chance, and the delta rule recalls in context.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "papers/papers.h"

/* ---- Tasks and mixers ---- */

typedef enum skill { IN_CONTEXT = 0, NOISY, FUZZY, COPY, MEMORISE, COMPRESS, SKILLS } skill;

static const char *const skill_names[SKILLS] = {"in-context-recall", "noisy-recall", "fuzzy-recall",
                                                "selective-copying", "memorisation", "compression"};

/* Percentages of the tables, in the order of the skills; 0: not in the table. The table of MesaNet has in-context and
 * noisy recall as one skill. */
static const struct {
    const char *name, *settings;
    icl_scale first; /* first scale at which it is trained */
    double deltanet[SKILLS], mesanet[SKILLS];
} mixers[] = {
    {"softmax",
     "model.positions=rotary",
     ICL_SCALE_SHORT,
     {94.1, 86.8, 29.8, 99.6, 85.2, 51.6},
     {100, 100, 48.6, 96.0, 84.7, 49.5}},
    {"delta", NULL, ICL_SCALE_CI, {100, 100, 35.7, 100, 52.8, 42.2}, {100, 100, 55.5, 98.8, 40.8, 43.3}},
    {"gla", NULL, ICL_SCALE_SHORT, {80.8, 81.6, 6.9, 88.6, 63.3, 38.8}, {100, 100, 39.0, 96.1, 82.5, 42.3}},
    {"mamba2", NULL, ICL_SCALE_SHORT, {0}, {100, 100, 51.2, 95.4, 42.0, 41.3}},
    {"gated-delta", NULL, ICL_SCALE_FULL, {0}, {100, 100, 32.7, 95.7, 81.7, 45.0}},
    {"mesa", NULL, ICL_SCALE_FULL, {0}, {100, 100, 58.5, 99.2, 77.2, 45.4}},
};
enum { MIXERS = sizeof mixers / sizeof *mixers, DELTA = 1, MESA = MIXERS - 1 };

typedef struct setting {
    const char *tasks[SKILLS]; /* NULL: not at this scale */
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

/* ---- Cells ---- */

enum { SKILL_AT = 0, MIXER_AT }; /* places in the grid */

static void plan_cell(icl_study *study, const setting *scaled, size_t which, size_t mixer) {
    const char *task = skill_names[which], *name = mixers[mixer].name;

    for (size_t i = 0; i < scaled->seeds; i++) {
        const uint32_t seed = icl_study_seed(study, i);
        ICL_ADD_CELL(study, .name = ICL_PHRASE("%s, %s", task, name), .group = ICL_PHRASE("%s-%s", task, name),
                     .folder = ICL_PHRASE("%s-%s-seed%" PRIu32, task, name, seed), .recipe = "mad", .seed = seed,
                     .settings = {ICL_PHRASE("eval.sequences=%zu train.steps=%zu eval.every=0", scaled->sequences,
                                             scaled->steps),
                                  scaled->tasks[which], ICL_PHRASE("model.mixer=%s %s", name, scaled->model),
                                  mixers[mixer].settings},
                     .at = {which, mixer}, .curve = name, .x = (double)which + 1);
    }
}

static void plan(icl_study *study) {
    const setting *scaled = &settings[study->scale];

    for (size_t which = IN_CONTEXT; which < SKILLS; which++)
        for (size_t mixer = 0; mixer < MIXERS; mixer++)
            if (scaled->tasks[which] && study->scale >= mixers[mixer].first)
                plan_cell(study, scaled, which, mixer);
}

/* ---- Macro accuracy ---- */

enum { ACCURACY = 0, CLASSES_ASKED, NUMBERS };

/* How often a class is asked for, and how often it is answered right. */
typedef struct tally {
    size_t asked, right;
} tally;

static size_t largest(const float *outputs, size_t count) {
    size_t at = 0;
    for (size_t k = 1; k < count; k++)
        if (outputs[k] > outputs[at])
            at = k;
    return at;
}

/* Computes the mean over the classes that are asked for, and their number, whose inverse is the level of chance. */
static void average(const tally *tallies, size_t classes, icl_number *numbers) {
    double sum = 0;
    size_t asked = 0;

    for (size_t k = 0; k < classes; k++)
        if (tallies[k].asked > 0) {
            sum += (double)tallies[k].right / (double)tallies[k].asked;
            asked++;
        }
    numbers[ACCURACY].value = sum / (double)asked;
    numbers[CLASSES_ASKED].value = (double)asked;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    const size_t sequences = settings[study->scale].sequences;
    icl_batch batch;
    float *outputs = NULL, *targets = NULL, *weights = NULL;
    tally *tallies = NULL;

    (void)cell;
    ICL_CHECK(icl_study_batch(study, icl_trainer_task(trained), sequences, 0, 0, &batch, error));
    const size_t positions = sequences * batch.shape.scored, classes = batch.shape.outputs;
    ICL_CHECK(icl_study_room(study, positions, classes * sizeof *outputs, &outputs, error));
    ICL_CHECK(icl_study_room(study, classes, sizeof *tallies, &tallies, error));
    ICL_CHECK(icl_study_read(study, batch.targets, &targets, error));
    ICL_CHECK(icl_study_read(study, batch.weights, &weights, error));
    ICL_CHECK(icl_trainer_predict(trained, &batch, outputs, error));
    for (size_t i = 0; i < positions; i++)
        if (weights[i] > 0) {
            const size_t class = (size_t)targets[i];
            tallies[class].asked++;
            tallies[class].right += largest(outputs + i * classes, classes) == class;
        }
    average(tallies, classes, numbers);
    return ICL_OK;
}

/* ---- Judging ---- */

static icl_phrase describe(const char *table, double percent) {
    return percent > 0 ? icl_phrase_print("%s %.1f %%", table, percent) : (icl_phrase){""};
}

/* The level of chance is one over the classes that are asked for. The delta rule's recall in context must be nearly
 * right. */
static void judge(icl_study *study, const icl_study_cell *cell) {
    const size_t which = cell->at[SKILL_AT], mixer = cell->at[MIXER_AT];
    const bool recalls = which == IN_CONTEXT && mixer == DELTA;
    const icl_phrase deltanet = describe("DeltaNet's table", mixers[mixer].deltanet[which]);
    const icl_phrase mesanet = describe("MesaNet's table", mixers[mixer].mesanet[which]);

    ICL_JUDGE(study, .quantity = "macro accuracy", ICL_OURS(icl_over_seeds(study, cell, ACCURACY)),
              .target = recalls ? .9 : 1 / cell->numbers[CLASSES_ASKED].value, .criterion = ICL_AT_LEAST,
              .evidence = recalls ? ICL_INFERRED : ICL_COMPUTED, .source = recalls ? "100 % in both tables" : "chance",
              .note = ICL_PHRASE("%s%s%s", deltanet.text, *deltanet.text && *mesanet.text ? ", " : "", mesanet.text));
}

typedef enum origin { OURS = 0, DELTANET, MESANET, ORIGINS } origin;

typedef double table[ORIGINS][SKILLS][MIXERS]; /* NaN: not asked for, or not in the table */

static double share(double percent) {
    return percent > 0 ? percent / 100 : (double)NAN;
}

static void fill_table(const icl_study *study, table accuracies) {
    for (size_t which = 0; which < SKILLS; which++)
        for (size_t mixer = 0; mixer < MIXERS; mixer++) {
            const bool is_asked = settings[study->scale].tasks[which] != NULL;
            const icl_study_cell *cell =
                icl_study_find(study, ICL_PHRASE("%s, %s", skill_names[which], mixers[mixer].name));
            accuracies[OURS][which][mixer] = cell ? icl_over_seeds(study, cell, ACCURACY).value : (double)NAN;
            accuracies[DELTANET][which][mixer] = share(is_asked ? mixers[mixer].deltanet[which] : 0);
            accuracies[MESANET][which][mixer] = share(is_asked ? mixers[mixer].mesanet[which] : 0);
        }
}

/* Judges the delta rule against the other recurrent mixers except a mesa layer: above all of them in fuzzy recall, and
 * in memorisation below all except Mamba-2, which is near it in one table and not in the other. */
static void judge_orders(icl_study *study, double (*const ours)[MIXERS]) {
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
            ICL_JUDGE(study, .what = orders[k].what, .quantity = skill_names[orders[k].which], .ours = least,
                      .target = 0, .criterion = ICL_AT_LEAST, .evidence = ICL_READ, .source = "both tables");
    }
}

/* Storage for a heat map of a table. */
typedef struct map_room {
    double values[SKILLS * MIXERS];
    const char *rows[SKILLS], *columns[MIXERS];
} map_room;

static bool is_complete(const setting *scaled, double (*const accuracies)[MIXERS], size_t mixer) {
    for (size_t which = 0; which < SKILLS; which++)
        if (scaled->tasks[which] && isnan(accuracies[which][mixer]))
            return false;
    return true;
}

/* Copies the complete columns of a table, for the tasks of this scale. */
static icl_heat_map fill_map(const setting *scaled, const char *label, double (*const accuracies)[MIXERS],
                             map_room *room) {
    size_t rows = 0, columns = 0, used = 0;

    for (size_t mixer = 0; mixer < MIXERS; mixer++)
        if (is_complete(scaled, accuracies, mixer))
            room->columns[columns++] = mixers[mixer].name;
    for (size_t which = 0; which < SKILLS; which++) {
        if (!scaled->tasks[which])
            continue;
        room->rows[rows++] = skill_names[which];
        for (size_t mixer = 0; mixer < MIXERS; mixer++)
            if (is_complete(scaled, accuracies, mixer))
                room->values[used++] = accuracies[which][mixer];
    }
    return (icl_heat_map){label, rows, columns, room->values, room->rows, room->columns};
}

/* Tables without a complete column are left out. */
static void draw(icl_study *study, table accuracies) {
    static const char *const labels[ORIGINS] = {"ours", "DeltaNet (2406.06484)", "MesaNet (2506.05233)"};
    map_room rooms[ORIGINS];
    icl_heat_map maps[ORIGINS];
    size_t count = 0;

    for (origin i = OURS; i < ORIGINS; i++) {
        maps[count] = fill_map(&settings[study->scale], labels[i], accuracies[i], &rooms[i]);
        count += maps[count].columns > 0;
    }
    ICL_STUDY_MAPS(study, .name = "recall-mad", .title = "Tasks of MAD by mixer: macro accuracy", .row_label = "task",
                   .column_label = "mixer", .value_label = "macro accuracy", .count = count, .maps = maps);
}

static void conclude(icl_study *study) {
    icl_curves curves = {
        .figure = {"recall-mad-curves", "Tasks of MAD by mixer", "task, as in the table", "macro accuracy"}};
    table accuracies;

    fill_table(study, accuracies);
    if (study->scale == ICL_SCALE_FULL)
        judge_orders(study, accuracies[OURS]);
    draw(study, accuracies);
    for (size_t i = 0; i < study->count && study->scale > ICL_SCALE_CI; i++)
        icl_study_plot(study, &curves, study->cells[i]->curve, ICL_SERIES_OURS, study->cells[i]->x,
                       study->cells[i]->numbers[ACCURACY].value);
    icl_study_draw(study, &curves);
}

const icl_reproduction icl_recall_mad = ICL_STUDY(
        .name = "recall-mad", .source = "arXiv 2403.17844, 2406.06484, 2506.05233",
        .about = "tasks of MAD by mixer: recall in context, noisy and fuzzy, copying, memorisation, compression",
        .claim =
            "Of recurrent mixers the delta rule is best at recall in context, also where keys are fuzzy, and worse at "
            "memorisation than mixers with gates.",
        .scope = "A met table means that every mixer is above chance and that the delta rule recalls in "
                 "context; the claim's two orders between mixers are judged at scale full alone.",
        .cost = {"2 s", "5 min", "a month"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
        .conclude = conclude);
