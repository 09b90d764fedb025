/*
 * A block that is applied b times, compared with b blocks: Yang, Lee, Nowak, Papailiopoulos 2024, "Looped Transformers
 * are Better at Learning Learning Algorithms" (arXiv 2311.12424), figure 2, on linear functions without noise.
 *
 * Every loop adds the embedded prompt and ends in the norm before the readout, and the loss is that of the last T
 * loops: so training finds a fixed point, at which the model stays with more loops than were trained. It is compared
 * with models that lack the loss of several loops, the prompt in all loops but the first, or all of these and the norm,
 * too: these do not stay. (With d = 1, at scale ci, the first of these does stay, and is left out.) All have the same
 * data; errors by examples have the closed form 1 - k / d of least squares, and at scale full the rows that the
 * authors' program printed.
 */
#include <math.h>
#include <string.h>

#include "papers/papers.h"

#define PRINTED_SOURCE "Leiay/looped_transformer, saved results"

/* Labelled pairs; and numbers of loops that are tried, relative to the trained number: from one loop up to four times
 * as many. */
enum { MOST_POINTS = 41, MOST_TRIED = 32, TIMES = 4 };

/* A model stays if its error after more loops is at most this many times that after the trained number. The short
 * trainings of scale ci separate less: varying only rounding and instruction sets, models that stay have ratios of .93
 * to 1.06 there, and models that leave 1.43 to 8. */
static const double STAYS[ICL_SCALES] = {1.2, 1.5, 1.5};

#define FULL                                                                                                           \
    "task.d=20 task.n=40 task.curriculum=5000 task.curriculum_d=5 model.heads=8 model.width=256 "                      \
    "train.learning_rate=0.0001 train.schedule=constant train.warmup=0"

typedef struct setting {
    size_t d, n, loops, layers; /* b, and the number of blocks of the untied model */
    const char *common;         /* settings of all models */
    const char *looped;         /* settings of models with loops */
    const char *window;         /* T, and the schedule of loops */
    size_t steps, sequences;
} setting;

static const setting settings[ICL_SCALES] = {
    {1, 4, 6, 6, "task.d=1 task.n=4 model.width=16 train.learning_rate=0.01 train.warmup=30 train.batch=32",
     "model.loops=6", "train.loop_window=4 train.loop_curriculum=60 train.loop_rise=1", 300, 2048},
    {3, 7, 12, 12, "task.d=3 task.n=7 model.width=32 train.learning_rate=0.003 train.warmup=300", "model.loops=12",
     "train.loop_window=8 train.loop_curriculum=200 train.loop_rise=1", 3000, 10000},
    {20, 40, 20, 12, FULL, "model.loops=20", "train.loop_window=15 train.loop_curriculum=500", 500000, 10000},
};

/* ---- Cells: models ---- */

typedef enum model_kind { LOOPED = 0, UNTIED, LAST_LOOP, NO_INJECTION, BARE, MODELS } model_kind;

/* `millions` are the numbers of parameters that the paper printed for d = 20, without embedding and readout. */
static const struct {
    const char *name, *what;
    double millions;
} models[MODELS] = {{"looped", "looped", .79},
                    {"untied", "untied", 9.48},
                    {"last-loop", "looped, the loss of the last loop alone", 0},
                    {"no-injection", "looped, the prompt in the first loop alone", 0},
                    {"bare", "looped, none of the three", 0}};

static icl_phrase settings_of(const setting *config, model_kind kind) {
    if (kind == UNTIED)
        return icl_phrase_print("model.layers=%zu", config->layers);
    if (kind == BARE)
        return icl_phrase_print("model.layers=1 %s model.injection=false", config->looped);
    return icl_phrase_print("model.layers=1 model.loop_norm=true %s %s %s", config->looped,
                            kind == LAST_LOOP ? "" : config->window,
                            kind == NO_INJECTION ? "model.injection=false" : "");
}

static void plan(icl_study *study) {
    const setting *config = &settings[study->scale];

    for (model_kind kind = LOOPED; kind < MODELS; kind++)
        if (kind != LAST_LOOP || study->scale != ICL_SCALE_CI)
            ICL_ADD_CELL(
                study, .name = models[kind].name, .at = {kind}, .recipe = "garg", .seed = icl_study_seed(study, 0),
                .settings = {config->common, settings_of(config, kind).text, "eval.predictors=least-squares",
                             ICL_PHRASE("train.steps=%zu eval.sequences=%zu", config->steps, config->sequences)});
}

/* ---- Numbers ---- */

/* Parameters, and those in blocks; errors over d of the model and of least squares after k pairs; errors from d pairs
 * on after each number of loops tried, and after the trained number with the prompt only in the first loop. */
enum {
    PARAMETERS = 0,
    IN_BLOCKS,
    WITHOUT_PROMPT,
    ERRORS,
    SQUARES = ERRORS + MOST_POINTS,
    LATE = SQUARES + MOST_POINTS,
    NUMBERS = LATE + MOST_TRIED
};

/* Chooses the loops to try: one by one up to the trained number, then in halves of it. Returns how many. */
static size_t choose_loops(const setting *config, double loops[MOST_TRIED]) {
    size_t count = 0;

    for (size_t i = 1; i < config->loops && count + 2 * TIMES < MOST_TRIED; i++)
        loops[count++] = (double)i;
    for (size_t half = 2; half <= 2 * TIMES; half++)
        loops[count++] = floor(.5 * (double)(half * config->loops));
    return count;
}

static double late_behind(const icl_study *study, const icl_study_cell *cell, size_t loops) {
    double tried[MOST_TRIED];
    const size_t count = choose_loops(&settings[study->scale], tried);

    for (size_t i = 0; i < count; i++)
        if (tried[i] == (double)loops)
            return cell->numbers[LATE + i].value;
    return (double)NAN;
}

/* Reads errors over d after k = 0 .. n pairs; without a score they stay NaN. */
static void read_errors(const icl_score *score, const setting *config, icl_number *errors) {
    for (size_t k = 0; score && k <= config->n && k < score->position_count; k++)
        errors[k] =
            (icl_number){score->positions[k].loss / (double)config->d, score->positions[k].se / (double)config->d};
}

/* Returns the mean from k = d on, where least squares has no error. */
static double mean_from_d(const setting *config, const icl_number *errors) {
    double sum = 0;
    for (size_t k = config->d; k <= config->n; k++)
        sum += errors[k].value;
    return sum / (double)(config->n - config->d + 1);
}

static icl_status measure_late(const icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                               const char *setting_of_loops, icl_number *late, icl_error *error) {
    const setting *config = &settings[study->scale];
    icl_number errors[MOST_POINTS] = {{0}};
    icl_evaluation *evaluation = NULL;

    ICL_CHECK(icl_study_evaluate(
        study, cell, trained,
        ICL_PHRASE("%s eval.sequences=%zu eval.predictors=zero", setting_of_loops, config->sequences / 8), &evaluation,
        error));
    read_errors(icl_reproduce_score(evaluation, "model"), config, errors);
    late->value = mean_from_d(config, errors);
    return ICL_OK;
}

static void count_parameters(const icl_model *model, icl_number *numbers) {
    numbers[PARAMETERS].value = (double)icl_model_size(model);
    numbers[IN_BLOCKS].value = 0;
    for (size_t i = 0; i < icl_model_parameter_count(model); i++)
        if (strncmp(icl_model_parameter(model, i)->name, "block.", 6) == 0)
            numbers[IN_BLOCKS].value += (double)icl_model_parameter(model, i)->count;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    const setting *config = &settings[study->scale];
    double loops[MOST_TRIED];
    icl_evaluation *evaluation = NULL;

    count_parameters(icl_trainer_model(trained), numbers);
    ICL_CHECK(icl_study_evaluate(study, cell, trained, NULL, &evaluation, error));
    read_errors(icl_reproduce_score(evaluation, "model"), config, numbers + ERRORS);
    read_errors(icl_reproduce_score(evaluation, "least-squares"), config, numbers + SQUARES);
    if (cell->at[0] == UNTIED)
        return ICL_OK;
    for (size_t i = 0; i < choose_loops(config, loops); i++)
        ICL_CHECK(
            measure_late(study, cell, trained, ICL_PHRASE("model.loops=%.0f", loops[i]), &numbers[LATE + i], error));
    return measure_late(study, cell, trained, "model.injection=false", &numbers[WITHOUT_PROMPT], error);
}

/* ---- Errors by examples ---- */

/* Judges the error after k pairs: against least squares up to d of them, then as for the model of garg-curves. */
static void judge_pairs(icl_study *study, const icl_study_cell *cell, size_t k) {
    const size_t d = settings[study->scale].d;
    const icl_number ours = cell->numbers[ERRORS + k];
    const bool is_late = k > d;
    const double target = is_late ? .13 : 1 - (double)k / (double)d;

    ICL_JUDGE(study, .what = ICL_PHRASE("%s, after %zu pairs", models[cell->at[0]].what, k), .quantity = "error / d",
              ICL_OURS(ours), .target = target, .tolerance = is_late ? 0 : .12 * target + 2 * ours.standard_error,
              .criterion = is_late ? ICL_AT_MOST : ICL_WITHIN,
              .evidence = study->scale == ICL_SCALE_SHORT ? ICL_COMPUTED : ICL_EVIDENCE_NONE,
              .source = is_late ? "as in garg-curves" : "least squares, 1 - k / d",
              .note = is_late ? NULL : "within 12 % and two standard errors");
}

/* Errors of looped and untied, d = 20, 41 pairs. */
static const struct {
    size_t pairs;
    double errors[2];
} printed[] = {{10, {.519, .519}},   {15, {.248, .247}},    {19, {.0596, .0592}},   {20, {.0242, .0204}},
               {21, {.0110, .0077}}, {25, {.0023, .00135}}, {30, {.00115, 7.4e-4}}, {40, {7.8e-4, 4.8e-4}}};

static void judge_examples(icl_study *study, const icl_study_cell *cell) {
    const size_t d = settings[study->scale].d, kind = cell->at[0];

    for (size_t k = 0; k < d && k <= 3; k++)
        judge_pairs(study, cell, k);
    judge_pairs(study, cell, d + 1);
    for (size_t i = 0; study->scale == ICL_SCALE_FULL && i < sizeof printed / sizeof *printed; i++) {
        const icl_number ours = cell->numbers[ERRORS + printed[i].pairs];
        const double target = printed[i].errors[kind];
        ICL_JUDGE(study, .what = ICL_PHRASE("%s, d = 20, after %zu pairs", models[kind].what, printed[i].pairs),
                  .quantity = "error / d", ICL_OURS(ours), .target = target,
                  .tolerance = .1 * target + 3 * ours.standard_error, .criterion = ICL_AT_MOST, .evidence = ICL_READ,
                  .source = PRINTED_SOURCE);
    }
    if (study->scale == ICL_SCALE_FULL)
        ICL_JUDGE(study, .quantity = "parameters of blocks, millions", .ours = 1e-6 * cell->numbers[IN_BLOCKS].value,
                  .target = models[kind].millions, .tolerance = .01 * models[kind].millions, .evidence = ICL_READ,
                  .source = "Leiay/looped_transformer");
}

/* ---- Errors by loops ---- */

static void judge_ratio(icl_study *study, const icl_study_cell *cell, const char *where, double late,
                        icl_criterion criterion, icl_evidence evidence) {
    const size_t loops = settings[study->scale].loops;

    ICL_JUDGE(study, .what = ICL_PHRASE("%s: %s beside %zu", models[cell->at[0]].what, where, loops),
              .quantity = "error from d pairs on, ratio", .ours = late / late_behind(study, cell, loops),
              .target = STAYS[study->scale], .criterion = criterion, .evidence = evidence,
              .source = "figure 2: a fixed point");
}

/* The looped model needs more than one loop, and the prompt, and stays with more loops than were trained; the others
 * leave. */
static void judge_loops(icl_study *study, const icl_study_cell *cell) {
    const bool is_looped = cell->at[0] == LOOPED;
    const icl_evidence of_looped = is_looped ? ICL_INFERRED : ICL_EVIDENCE_NONE;

    judge_ratio(study, cell, "1 loop", late_behind(study, cell, 1), ICL_AT_LEAST, of_looped);
    if (is_looped)
        judge_ratio(study, cell, "no prompt behind the first loop", cell->numbers[WITHOUT_PROMPT].value, ICL_AT_LEAST,
                    of_looped);
    for (size_t times = 2; times <= TIMES; times += 2) {
        const size_t count = times * settings[study->scale].loops;
        const bool is_far = !is_looped && times == TIMES;
        judge_ratio(study, cell, ICL_PHRASE("%zu loops", count), late_behind(study, cell, count),
                    is_far ? ICL_AT_LEAST : ICL_AT_MOST, is_far ? ICL_INFERRED : of_looped);
    }
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    if (cell->at[0] == LOOPED || cell->at[0] == UNTIED)
        judge_examples(study, cell);
    if (cell->at[0] != UNTIED)
        judge_loops(study, cell);
}

/* ---- Looped beside untied ---- */

/* The largest ratio of the two printed columns, at 25 pairs. */
static const double MOST_ABOVE_UNTIED = 1.7;

static void compare(icl_study *study, const icl_number *looped, const icl_number *untied) {
    const setting *config = &settings[study->scale];
    const bool is_full = study->scale == ICL_SCALE_FULL;

    ICL_JUDGE(study, .what = "parameters of blocks, looped beside untied", .quantity = "ratio",
              .ours = looped[IN_BLOCKS].value / untied[IN_BLOCKS].value, .target = 1 / (double)config->layers,
              .tolerance = 1e-12, .evidence = ICL_COMPUTED, .source = "1 / L",
              .note = ICL_PHRASE("%.0f of %.0f; %.0f of %.0f with embedding and readout", looped[IN_BLOCKS].value,
                                 untied[IN_BLOCKS].value, looped[PARAMETERS].value, untied[PARAMETERS].value));
    ICL_JUDGE(study, .what = "looped beside untied", .quantity = "error from d pairs on, ratio",
              .ours = mean_from_d(config, looped + ERRORS) / mean_from_d(config, untied + ERRORS),
              .target = MOST_ABOVE_UNTIED, .criterion = ICL_AT_MOST,
              .evidence = is_full ? ICL_INFERRED : ICL_EVIDENCE_NONE, .source = "the printed rows: 1.2 to 1.7",
              .note = is_full ? NULL : "printed, after 500,000 steps: 1.2 to 1.7");
}

/* ---- Figures ---- */

static void plot(icl_study *study, const icl_study_cell *cell, icl_curves *by_examples, icl_curves *by_loops) {
    const char *const what = models[cell->at[0]].what;
    const size_t d = settings[study->scale].d, points = settings[study->scale].n + 1;
    double loops[MOST_TRIED];
    const size_t tried = choose_loops(&settings[study->scale], loops);

    icl_study_plot_numbers(study, by_examples, what, ICL_SERIES_LINE, NULL, cell->numbers + ERRORS, points);
    if (cell->at[0] != UNTIED)
        icl_study_plot_numbers(study, by_loops, what, ICL_SERIES_OURS, loops, cell->numbers + LATE, tried);
    if (cell->at[0] != LOOPED)
        return;
    icl_study_plot_numbers(study, by_examples, "least squares", ICL_SERIES_REFERENCE, NULL, cell->numbers + SQUARES,
                           points);
    for (size_t k = 0; k < d; k++)
        icl_study_plot(study, by_examples, "1 - k / d", ICL_SERIES_PUBLISHED, (double)k, 1 - (double)k / (double)d);
}

static void conclude(icl_study *study) {
    const icl_study_cell *looped = icl_study_find(study, "looped"), *untied = icl_study_find(study, "untied");
    const icl_phrase title = icl_phrase_print("Errors from d pairs on, by loops at test time: %zu were trained",
                                              settings[study->scale].loops);
    icl_curves by_examples =
        ICL_CURVES(.name = "looped-curves-examples", .title = "A looped block beside untied ones: errors by examples",
                   .x_label = "labelled pairs k", .y_label = "squared error / d", .log_y = true, .least_y = 1e-4);
    icl_curves by_loops = ICL_CURVES(.name = "looped-curves-loops", .title = title.text, .x_label = "loops",
                                     .y_label = "squared error / d", .log_y = true);

    if (looped->is_measured && untied->is_measured)
        compare(study, looped->numbers, untied->numbers);
    for (size_t i = 0; i < study->count; i++)
        if (study->cells[i]->is_measured)
            plot(study, study->cells[i], &by_examples, &by_loops);
    icl_study_draw(study, &by_examples);
    icl_study_draw(study, &by_loops);
}

const icl_reproduction icl_looped_curves =
    ICL_STUDY(.name = "looped-curves", .source = "arXiv 2311.12424, figure 2",
              .about = "a block that is looped beside untied ones, by examples and by loops at test time",
              .claim =
                  "A looped block learns linear functions as untied blocks do, and its loops end in a fixed point.",
              .scope = "A met table means that this small block stays at its errors with up to four times the "
                       "loops of its training, and that models that lack one of its parts do not; classes of "
                       "functions other than linear ones were not tested.",
              .cost = {"6 s", "4 min", "a month"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
              .conclude = conclude);
