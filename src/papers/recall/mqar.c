/*
 * Associative recall with many queries by mixer and size of state: Arora et al. 2023 (Zoology, arXiv 2312.04927) and
 * 2024 (Based, arXiv 2402.18668, figure "recall against state size").
 *
 * A gated convolution puts each key next to its value, and one head of the mixer under test recalls. Its state is m n
 * numbers, m = model.key_width and n = model.value_width; softmax attention keeps m + n numbers of every position, and
 * a convolution the inputs that it looks back on. Scale short has fewer symbols and pairs than the papers, and there
 * are no published numbers for it: it judges the order that their figures show, at more than one size of state. The
 * worst mixer of one group must be above the best of the next by two standard errors. kda and rwkv7 came after the
 * figures: their recall is shown beside that of the delta rules, and has no part in the order.
 *
 * Values are narrow because their width decides how much the delta rule helps. A sum of P pairs with unit keys answers
 * with the value, of length 1, and with interference of squared length near P / m, of which each of n directions has
 * one part. The largest of K values is the right one where sqrt(m n / P) is well above sqrt(2 log K), however much keys
 * overlap. The delta rule leaves less interference, but removes part of what it wrote before. For K = 63 and P = 12 the
 * threshold is 2.9. With n = 32, m = 6 a sum has 4.0 and loses nothing by its interference: gated sums recalled .94
 * there, and delta rules .93. With n = 8 it has 3.3 at m = 16, where delta rules are a tenth above gated sums; with 2.3
 * at m = 8 no mixer recalls half.
 *
 * Scale full is the largest slice of their training, 64 pairs in 256 positions out of 8192 symbols, with the best of
 * four learning rates. Their accuracies are means over seven sizes of the task, and are shown next to ours without a
 * verdict.
 */
#include <inttypes.h>
#include <math.h>

#include "numeric/statistics.h"
#include "papers/papers.h"

enum { MOST_WIDTHS = 4, MOST_RATES = 4, MOST_SEEDS = 3 };

/* ---- Mixers ---- */

/* In the order of the papers' figures; CONVOLUTION must be last. */
typedef enum group { SOFTMAX = 0, DELTA, GATED, PLAIN, CONVOLUTION, GROUPS } group;

static const struct {
    const char *name, *settings;
    group group;
    bool is_newer; /* than the figures: trained from scale short on and shown, but not judged */
} mixers[] = {
    {"softmax", "model.mixer=conv,softmax", SOFTMAX, false},
    {"delta", "model.mixer=conv,delta", DELTA, false},
    {"gated-delta", "model.mixer=conv,gated-delta", DELTA, false},
    {"kda", "model.mixer=conv,kda", DELTA, true},
    {"rwkv7", "model.mixer=conv,rwkv7", DELTA, true},
    {"gla", "model.mixer=conv,gla", GATED, false},
    {"mamba2", "model.mixer=conv,mamba2", GATED, false},
    {"linear", "model.mixer=conv,linear model.feature_map=elu+1", PLAIN, false},
    {"conv", "model.mixer=conv,conv", CONVOLUTION, false},
};
enum { MIXERS = sizeof mixers / sizeof *mixers };

static const char *const group_names[GROUPS] = {"softmax attention", "delta rules", "gated linear attention",
                                                "plain linear attention", "convolutions"};

/* ---- Settings ---- */

#define CONVOLVED 3 /* positions that a convolution sees, including its own */

static const char *const tasks[ICL_SCALES] = {
    "task.vocabulary=16 task.length=14 task.pairs=3 train.batch=32 train.warmup=20",
    "task.vocabulary=128 task.length=48 task.pairs=12",
    ("task.vocabulary=8192 task.length=256 task.pairs=64 task.gaps=power:0.01 task.filler=random model.width=64 "
     "train.batch=256 train.warmup=250"),
};

typedef struct setting {
    size_t symbols, length, pairs;    /* as in the task */
    size_t width, value_width;        /* width of the model, and of a mixer's values */
    size_t key_widths[MOST_WIDTHS];   /* 0 behind the last */
    size_t judged_from;               /* narrower keys are shown but not judged */
    const char *rates[MOST_RATES];    /* only the one with the best accuracy counts; NULL after the last */
    size_t seeds, steps, sequences;   /* sequences: those of the evaluation */
    const char *unjudged[GROUPS - 1]; /* by group: why it is not judged; NULL: it is */
} setting;

#define SMALL "the task is too small"
#define ALONE "a single seed"

static const setting settings[ICL_SCALES] = {
    {16, 14, 3, 32, 32, {8}, 0, {"0.01"}, 1, 250, 512, {SMALL, SMALL, SMALL}},
    {128, 48, 12, 32, 8, {8, 16}, 16, {"0.016", "0.032"}, 3, 2000, 1024, {NULL}},
    {8192, 256, 64, 64, 64, {32, 64, 128}, 0, {"0.001", "0.0032", "0.01", "0.032"}, 1, 2500, 1000, {ALONE, ALONE}},
};

/* Returns the bytes that a mixer keeps of earlier positions. */
static double state_bytes(const setting *config, group which, size_t key_width) {
    const double m = (double)key_width, n = (double)config->value_width;

    return 4 * (which == SOFTMAX       ? (double)config->length * (m + n)
                : which == CONVOLUTION ? (CONVOLVED - 1) * (double)config->width
                                       : m * n);
}

/* ---- Cells ---- */

/* Places in the grid. A point has the cells of all seeds and rates. */
enum { MIXER = 0, WIDTH, SEED, RATE };

static bool has_keys(size_t mixer) {
    return mixers[mixer].group != CONVOLUTION;
}

static icl_phrase name_point(const setting *config, size_t mixer, size_t width) {
    const char *name = mixers[mixer].name;
    const double bytes = state_bytes(config, mixers[mixer].group, config->key_widths[width]);

    if (!has_keys(mixer))
        return icl_phrase_print("%s, %g bytes", name, bytes);
    return icl_phrase_print("%s, keys of %zu, %g bytes", name, config->key_widths[width], bytes);
}

static void plan_cell(icl_study *study, size_t mixer, size_t width, size_t k, size_t r) {
    const setting *config = &settings[study->scale];
    const char *rate = config->rates[r];
    const size_t keys = has_keys(mixer) ? config->key_widths[width] : 0,
                 values = has_keys(mixer) ? config->value_width : 0;
    const uint32_t seed = icl_study_seed(study, k);
    const char *name = mixers[mixer].name;

    ICL_ADD_CELL(study, .name = name_point(config, mixer, width).text,
                 .group = ICL_PHRASE("%s-k%zu", name, config->key_widths[width]),
                 .folder = ICL_PHRASE("%s-k%zu-%s-seed%" PRIu32, name, keys, rate, seed), .recipe = "recall",
                 .seed = seed, .may_diverge = true, .at = {mixer, width, k, r}, .curve = name,
                 .x = state_bytes(config, mixers[mixer].group, config->key_widths[width]),
                 .settings = {ICL_PHRASE("eval.sequences=%zu train.steps=%zu", config->sequences, config->steps),
                              tasks[study->scale], mixers[mixer].settings,
                              ICL_PHRASE("model.key_width=%zu model.value_width=%zu eval.every=0 "
                                         "train.learning_rate=%s",
                                         keys, values, rate)});
}

/* Returns at how many widths a mixer is trained: a convolution has no keys, and one is enough. */
static size_t count_widths(const icl_study *study, size_t mixer) {
    if (mixers[mixer].is_newer && study->scale == ICL_SCALE_CI)
        return 0;
    return has_keys(mixer) ? MOST_WIDTHS : 1;
}

static void plan(icl_study *study) {
    const setting *config = &settings[study->scale];

    for (size_t mixer = 0; mixer < MIXERS; mixer++)
        for (size_t width = 0; width < count_widths(study, mixer) && config->key_widths[width] > 0; width++)
            for (size_t k = 0; k < config->seeds; k++)
                for (size_t rate = 0; rate < MOST_RATES && config->rates[rate]; rate++)
                    plan_cell(study, mixer, width, k, rate);
}

/* ---- Accuracies ---- */

enum { ACCURACY = 0, UNIFORM, VALUES, CONTEXT, NUMBERS }; /* accuracy of the model, and levels of chance */

static const char *const predictors[] = {"model", "uniform", "values", "context"};

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    icl_evaluation *evaluation = NULL;

    ICL_CHECK(icl_study_evaluate(study, cell, trained, NULL, &evaluation, error));
    for (size_t i = 0; i < NUMBERS; i++) {
        const icl_score *score = icl_reproduce_score(evaluation, predictors[i]);
        if (score)
            numbers[i].value = score->accuracy;
    }
    return ICL_OK;
}

/* Returns the accuracy of a seed at the best of the rates; a training that diverges counts as 0. */
static double best_of_rates(const icl_study *study, const icl_study_cell *point, size_t seed) {
    double best = (double)NAN;

    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i];
        if (cell->at[MIXER] == point->at[MIXER] && cell->at[WIDTH] == point->at[WIDTH] && cell->at[SEED] == seed &&
            cell->is_wanted)
            best = fmax(best, cell->has_diverged ? 0 : cell->numbers[ACCURACY].value);
    }
    return best;
}

static icl_number accuracy_of(const icl_study *study, const icl_study_cell *point) {
    const size_t seeds = settings[study->scale].seeds;
    double best[MOST_SEEDS];

    for (size_t i = 0; i < seeds; i++)
        best[i] = best_of_rates(study, point, i);
    return (icl_number){icl_mean(best, seeds), icl_standard_error(best, seeds)};
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    icl_phrase note = {"seeds: "};

    for (size_t i = 0; i < settings[study->scale].seeds; i++)
        note = icl_phrase_print("%s%s%.4f", note.text, i > 0 ? ", " : "", best_of_rates(study, cell, i));
    ICL_JUDGE(study, .quantity = "accuracy", ICL_OURS(accuracy_of(study, cell)), .note = note.text);
}

/* ---- Chance ---- */

/* Judges the levels of chance, which depend only on the task, not on the model. */
static void judge_chance(icl_study *study) {
    const setting *config = &settings[study->scale];
    const struct {
        const char *what;
        size_t number, count;
    } levels[] = {{"any symbol", UNIFORM, config->symbols},
                  {"any value", VALUES, config->symbols / 2 - 1},
                  {"any value of the context", CONTEXT, config->pairs}};
    size_t first = 0;

    while (first < study->count && !study->cells[first]->is_measured)
        first++;
    for (size_t i = 0; i < sizeof levels / sizeof *levels && first < study->count; i++)
        ICL_JUDGE(study, .what = levels[i].what, .quantity = "accuracy",
                  ICL_OURS(study->cells[first]->numbers[levels[i].number]), .target = 1 / (double)levels[i].count,
                  .tolerance = 1e-9, .evidence = ICL_COMPUTED, .source = "one of so many");
}

/* ---- The order ---- */

/* Returns the standard error over seeds, or that of drawing the queries of one evaluation if it is larger. */
static double error_of(const setting *config, icl_number accuracy) {
    const double p = accuracy.value, queries = (double)(config->sequences * config->pairs);
    return fmax(accuracy.standard_error, sqrt(p * (1 - p) / queries));
}

/* Returns the mixer of a group with the highest or the lowest accuracy, among those of the figures; MIXERS if one of
 * them was not asked for. */
static size_t find_extreme(const icl_number accuracies[MIXERS], group which, bool highest) {
    size_t found = MIXERS;

    for (size_t i = 0; i < MIXERS; i++) {
        if (mixers[i].group != which || mixers[i].is_newer)
            continue;
        if (isnan(accuracies[i].value))
            return MIXERS;
        if (found == MIXERS ||
            (highest ? accuracies[i].value > accuracies[found].value : accuracies[i].value < accuracies[found].value))
            found = i;
    }
    return found;
}

/* Judges the worst mixer of a group against the best of the next group, by two standard errors. */
static void judge_groups(icl_study *study, group above, const icl_number accuracies[MIXERS], size_t key_width) {
    const setting *config = &settings[study->scale];
    const size_t worst = find_extreme(accuracies, above, false), best = find_extreme(accuracies, above + 1, true);
    const char *reason = key_width < config->judged_from ? "fewer key coordinates than pairs, no state recalls half"
                                                         : config->unjudged[above];

    if (worst == MIXERS || best == MIXERS)
        return;
    const double error = hypot(error_of(config, accuracies[worst]), error_of(config, accuracies[best]));
    ICL_JUDGE(study,
              .what = ICL_PHRASE("%s above %s, keys of %zu", group_names[above], group_names[above + 1], key_width),
              .quantity = "accuracy", .ours = accuracies[worst].value - accuracies[best].value, .standard_error = error,
              .target = 2 * error, .criterion = ICL_AT_LEAST, .evidence = reason ? ICL_EVIDENCE_NONE : ICL_INFERRED,
              .source = "figures of Zoology and Based",
              .note = ICL_PHRASE("%s less %s%s%s", mixers[worst].name, mixers[best].name,
                                 reason ? "; no verdict: " : "", reason ? reason : ""));
}

/* Judges at one key width. A convolution has no key width: it is below plain linear attention of any. */
static void judge_order(icl_study *study, size_t width) {
    const setting *config = &settings[study->scale];
    icl_number accuracies[MIXERS] = {{0}};

    for (size_t i = 0; i < MIXERS; i++)
        if (!mixers[i].is_newer)
            accuracies[i] =
                accuracy_of(study, icl_study_find(study, name_point(config, i, has_keys(i) ? width : 0).text));
    for (group above = SOFTMAX; above < CONVOLUTION; above++)
        judge_groups(study, above, accuracies, config->key_widths[width]);
}

/* ---- Figure ---- */

/* Bytes of state and accuracy, read off the figure of Based; means over sizes of the task up to 256 pairs. */
static void plot_published(icl_study *study, icl_curves *curves) {
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
            icl_study_plot(study, curves, known[i].name, ICL_SERIES_PUBLISHED, known[i].points[k][0],
                           known[i].points[k][1]);
}

static void draw(icl_study *study) {
    icl_curves curves = {
        .figure = {"recall-mqar", "Recall by mixer and size of state", "bytes of state", "accuracy", true}};

    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i];
        if (cell->at[RATE] == 0)
            icl_study_plot(study, &curves, cell->curve, ICL_SERIES_OURS, cell->x,
                           best_of_rates(study, cell, cell->at[SEED]));
    }
    if (study->scale == ICL_SCALE_FULL)
        plot_published(study, &curves);
    icl_study_draw(study, &curves);
}

static void conclude(icl_study *study) {
    judge_chance(study);
    for (size_t width = 0; width < MOST_WIDTHS && settings[study->scale].key_widths[width] > 0; width++)
        judge_order(study, width);
    draw(study);
}

const icl_reproduction icl_recall_mqar = ICL_STUDY(
        .name = "recall-mqar", .source = "arXiv 2312.04927, 2402.18668",
        .about = "recall with many queries by mixer and size of state, beside levels of chance",
        .claim =
            "Softmax attention recalls more than delta rules, these more than gated and plain linear attention of the "
            "same state, and convolutions recall least.",
        .scope = "A met table means that groups of mixers are ordered as the figures show at the judged "
                 "sizes of state, with one budget of training; the published accuracies were not "
                 "reproduced below scale full, and are not judged there either.",
        .cost = {"2 s", "10 min", "weeks"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
        .conclude = conclude);
