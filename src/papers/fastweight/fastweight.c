/*
 * Fast weights: Schlag, Irie, Schmidhuber 2021, "Linear Transformers Are Secretly Fast Weight Programmers" (arXiv
 * 2102.11174), section 6.1. A memory of one matrix is trained to return the values of S keys.
 *
 * How many values a memory holds (setting 1, figure 2): S keys are each written once, and one is asked. No memory of D
 * < S features returns all S values: the S x S matrix of the answers to all keys has rank D at most, and half of its
 * mean squared distance to the identity is (1 - D / S) / 2 or more. Trained memories come close to that.
 *
 * Memories whose keys are written again (setting 2, figure 3): a query asks for the last value. A sum does not depend
 * on the order of a key's writes, so that the best it can return is the mean of the values, whatever the keys; the
 * delta rule replaces old values. The loss of the mean of c values, independent and uniform over S, against the last
 * one is expected to be half of (1 - 1 / c) (1 - 1 / S). The number c of a key's writes among S has the binomial
 * distribution of S draws of probability 1 / S, given c >= 1; for large S, c is Poisson(1) given c >= 1, and this
 * expectation is .1165.
 */
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/task_family.h"
#include "numeric/statistics.h"
#include "papers/papers.h"
#include "run/metrics.h"

/* ---- Memories ---- */

enum { SIZES = 30, STEP = 20 }; /* S = 20, 40, … 600: place i stands for 20 (i + 1) */

/* A memory, and the least losses of the authors' runs, from their logs. */
typedef struct memory {
    const char *label, *name; /* label of findings and curves; name of run folders */
    const char *rule, *map;   /* as in the recipe */
    size_t features;          /* D, numbers after the feature map; 0: without such a limit */
    icl_scale first;          /* first scale at which it is part of the figure */
    const double *logs;       /* [SIZES]; 0: not at hand */
    const char *settings;     /* further settings; NULL: none */
    size_t short_steps;       /* most steps at scale short; 0: as for the others */
    size_t short_patience;    /* evaluations without a lower loss that end training at scale short; 0: 10 */
} memory;

/* In the logs, runs with a loss of .001 or less ended there. */
typedef double logs[SIZES];

static const logs softmax_logs = {.001, .001, .001,  .001, .001,  .001,  .001, .001,  .001, .001,
                                  .001, .001, .001,  .001, .001,  .001,  .001, .0045, .001, .001,
                                  .001, .001, .0089, .001, .0089, .0088, .016, .030,  .019, .030};
static const logs elu_sum_logs = {.00089, .00083, .0245, .108, .164, .232, .271, .301, .322, .342, [29] = .451};
static const logs dpfp1_sum_logs = {.001, .001, .001, .001,        .001,         .0083,      .051,
                                    .102, 0,    .173, [14] = .286, [19] = .3415, [29] = .411};
static const logs dpfp2_sum_logs = {.001, .001, .001, .001,  .001, .001, .001,        .001,       .001,
                                    .001, .001, .001, .0084, .045, .068, [19] = .164, [29] = .323};
static const logs dpfp3_sum_logs = {.001, .001, .001, .001, .001, .001, .001,  .001, .001, .001,        .001,
                                    .001, .001, .001, .001, .001, .001, .0034, 0,    .036, [24] = .169, [29] = .198};
static const logs favor64_sum_logs = {.117, .274, .5, .5, .5};
static const logs favor512_sum_logs = {.024, .075, .41, .49, .49};

#define DRAWN_DIRECTIONS "model.directions=drawn"

static const memory written_once[] = {
    {"softmax", "softmax-identity", "softmax", "identity", 0, ICL_SCALE_CI, softmax_logs},
    {"elu+1, sum", "sum-elu-1", "sum", "elu+1", 64, ICL_SCALE_SHORT, elu_sum_logs},
    {"dpfp-1, sum", "sum-dpfp-1", "sum", "dpfp:1", 128, ICL_SCALE_CI, dpfp1_sum_logs},
    {"dpfp-2, sum", "sum-dpfp-2", "sum", "dpfp:2", 256, ICL_SCALE_SHORT, dpfp2_sum_logs},
    {"dpfp-3, sum", "sum-dpfp-3", "sum", "dpfp:3", 384, ICL_SCALE_SHORT, dpfp3_sum_logs},
    {"favor-64, sum", "sum-favor-64", "sum", "favor:64", 128, ICL_SCALE_SHORT, favor64_sum_logs, DRAWN_DIRECTIONS},
    {"favor-512, sum", "sum-favor-512", "sum", "favor:512", 1024, ICL_SCALE_SHORT, favor512_sum_logs, DRAWN_DIRECTIONS},
};

static const logs dpfp1_delta_again = {.001, .001, .0049, .0063, .000086, .0141, .0475, .104, .133, .171};
static const logs dpfp1_sum_again = {.097, .104, .103, .113, .111, .128, .155, .180, .201, .231};
/* Because of the norm of what is read, losses are S / 2 if nothing was learned; .5 is the loss of zeros, which training
 * reaches by reading little compared with the norm's epsilon. */
static const logs dpfp1_fwm_again = {.040, .49, .499, .4999, .526, .556, .743, 1.97, 2.5, 1.09};
static const logs favor64_delta_again = {.102, .183, .398, .493, .5};
static const logs dpfp2_delta_again = {.001, .001, .001, .001, .085, .001, .001, .001, .001, .001};
static const logs elu_delta_again = {.001, .001, .001, .094, .150, .215, .257, .276, .315, .341};
/* S = 20 reaches 1.8 after 15,000 steps, five minutes on one core. A step takes .1 s at S = 60, .3 s at 100. */
static const logs tanh_fwm_again = {1.50, 4.83, 9.02, 30.3, 42.4, 56.0, 59.8, 74.8, 85.3, 95.5};

/* The longest trainings come first, because workers begin with the first ones and should not have to wait at the
 * end. */
static const memory written_again[] = {
    {"dpfp-1, delta", "delta-dpfp-1", "delta", "dpfp:1", 128, ICL_SCALE_CI, dpfp1_delta_again},
    {"dpfp-1, sum", "sum-dpfp-1", "sum", "dpfp:1", 128, ICL_SCALE_CI, dpfp1_sum_again},
    {"dpfp-1, fwm", "fwm-dpfp-1", "fwm", "dpfp:1", 0, ICL_SCALE_SHORT, dpfp1_fwm_again, .short_steps = 3300},
    {"favor-64, delta", "delta-favor-64", "delta", "favor:64", 128, ICL_SCALE_SHORT, favor64_delta_again,
     DRAWN_DIRECTIONS, 2000, 5},
    {"dpfp-2, delta", "delta-dpfp-2", "delta", "dpfp:2", 256, ICL_SCALE_SHORT, dpfp2_delta_again},
    {"elu+1, delta", "delta-elu-1", "delta", "elu+1", 64, ICL_SCALE_SHORT, elu_delta_again},
    {"tanh, fwm", "fwm-tanh", "fwm", "tanh", 0, ICL_SCALE_FULL, tanh_fwm_again,
     "train.learning_rate=0.0001 train.batch=128"},
};

/* A figure: memories over S. */
typedef struct setting {
    const char *title, *source;
    size_t places; /* of S at scale full */
    size_t count;
    const memory *memories; /* [count] */
} setting;

static const setting once = {"Fast weights: how many values a memory holds (setting 1, figure 2)",
                             "authors' logs, setting 1", 30, sizeof written_once / sizeof *written_once, written_once};
static const setting again = {"Fast weights: keys that are written again (setting 2, figure 3)",
                              "authors' logs, setting 2", 10, sizeof written_again / sizeof *written_again,
                              written_again};

static bool is_repeated(const icl_study *study) {
    return study->run->reproduction == &icl_fastweight_overwrite;
}

static const setting *setting_of(const icl_study *study) {
    return is_repeated(study) ? &again : &once;
}

/* ---- Limits ---- */

static double rank_floor(size_t features, size_t keys) {
    return features > 0 ? .5 * fmax(0, 1 - (double)features / (double)keys) : 0;
}

static double mean_floor(size_t keys) {
    const double S = (double)keys;
    double chance = pow(1 - 1 / S, S), there = 1 - chance, sum = 0; /* chance: of c = 0 */

    for (size_t c = 1; c <= keys; c++) {
        chance *= (S - (double)c + 1) / ((double)c * (S - 1)); /* chance of c, from that of c - 1 */
        sum += chance / there * (1 - 1 / (double)c);
    }
    return .5 * sum * (1 - 1 / S);
}

/* Returns the least expected loss of a memory of this kind; 0 if no limit is known. */
static double floor_of(const icl_study *study, const memory *kind, size_t keys) {
    if (is_repeated(study))
        return strcmp(kind->rule, "sum") == 0 ? mean_floor(keys) : 0;
    return rank_floor(kind->features, keys);
}

/* ---- Cells: at[0] is S; a memory, or the mean of a key's values ---- */

/* Trainings end at a loss of .001, after more than 10 evaluations without a new best, one every 100 steps, or after the
 * largest number of steps. */
static void add_memory(icl_study *study, const memory *kind, size_t keys) {
    static const size_t most_steps[ICL_SCALES] = {1500, 10000, 100000};
    const bool is_short = study->scale == ICL_SCALE_SHORT;

    ICL_ADD_CELL(
        study, .name = ICL_PHRASE("%s-S%zu", kind->name, keys), .recipe = "fastweight", .is_outside = true,
        .is_watched = true, .may_diverge = true, .data = kind, .at = {keys},
        .settings = {ICL_PHRASE("task.keys=%zu task.writes=%zu task.draws=%s", keys,
                                is_repeated(study) ? 2 * keys : keys, is_repeated(study) ? "repeated" : "distinct"),
                     ICL_PHRASE("model.rule=%s model.feature_map=%s", kind->rule, kind->map), kind->settings,
                     ICL_PHRASE("eval.every=100 eval.seed=1 train.stop_at=0.001 train.stop_after=%zu train.steps=%zu",
                                is_short && kind->short_patience > 0 ? kind->short_patience : 10,
                                is_short && kind->short_steps > 0 ? kind->short_steps : most_steps[study->scale])});
}

static void plan(icl_study *study) {
    static const unsigned places[ICL_SCALES] = {1, 1 + 4 + 16, ~0U}; /* S = 20; 20, 60, 100; all */
    static const size_t sizes[] = {20, 60, 100, 200};
    const setting *config = setting_of(study);

    for (size_t i = 0; is_repeated(study) && i < sizeof sizes / sizeof *sizes; i++)
        ICL_ADD_CELL(
            study, .name = ICL_PHRASE("mean of a key's values, S %zu", sizes[i]), .recipe = "fastweight",
            .is_untrained = true, .at = {sizes[i]},
            .settings = {ICL_PHRASE("task.keys=%zu task.writes=%zu task.queries=%zu", sizes[i], sizes[i], sizes[i]),
                         "task.draws=repeated task.asked=keys train.batch=1"});
    for (size_t i = 0; i < config->count; i++)
        for (size_t place = 0; place < config->places; place++)
            if (study->scale >= config->memories[i].first && places[study->scale] >> place & 1)
                add_memory(study, &config->memories[i], STEP * (place + 1));
}

/* ---- Samples ---- */

/* Draws sequences whose keys are asked once each, in the order of their numbers; only asked positions have a weight. */
typedef struct sample {
    icl_batch batch;
    float *inputs, *targets, *weights;
} sample;

static icl_status draw_sample(const icl_study *study, const icl_task *task, size_t sequences, uint64_t step,
                              sample *drawn, icl_error *error) {
    ICL_CHECK(icl_study_batch(study, task, sequences, 0, step, &drawn->batch, error));
    ICL_CHECK(icl_study_read(study, drawn->batch.inputs, &drawn->inputs, error));
    ICL_CHECK(icl_study_read(study, drawn->batch.targets, &drawn->targets, error));
    return icl_study_read(study, drawn->batch.weights, &drawn->weights, error);
}

/* Returns how many keys a sequence asks for. */
static size_t count_asked(const sample *drawn, size_t sequence) {
    const size_t queries = drawn->batch.shape.scored;
    size_t count = 0;
    while (count < queries && drawn->weights[sequence * queries + count] > 0)
        count++;
    return count;
}

/* ---- The loss of a memory: half of the squared error ---- */

enum { SEQUENCES = 20, MOST_QUERIES = 200 }; /* as in the authors' evaluation */

/* Returns the mean over sequences of the mean loss over their keys. */
static icl_number mean_loss(const sample *drawn, const float *outputs) {
    const size_t queries = drawn->batch.shape.scored, width = drawn->batch.shape.outputs;
    double by_sequence[SEQUENCES], by_query[MOST_QUERIES];

    for (size_t s = 0; s < SEQUENCES; s++) {
        const size_t asked = count_asked(drawn, s);
        for (size_t i = 0; i < asked; i++) {
            double sum = 0;
            for (size_t k = (s * queries + i) * width; k < (s * queries + i + 1) * width; k++)
                sum +=
                    ((double)outputs[k] - (double)drawn->targets[k]) * ((double)outputs[k] - (double)drawn->targets[k]);
            by_query[i] = .5 * sum;
        }
        by_sequence[s] = icl_mean(by_query, asked);
    }
    return (icl_number){icl_mean(by_sequence, SEQUENCES), icl_standard_error(by_sequence, SEQUENCES)};
}

/* Makes a trainer of the cell's model, with the parameters of `trained`, on the task of the evaluation. */
static icl_status make_evaluated(const icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                 icl_trainer **trainer, icl_error *error) {
    const size_t keys = cell->at[0];
    icl_recipe *recipe = NULL;
    float *parameters = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_study_parameters(study, trained, &parameters, error));
    ICL_TRY(icl_recipe_clone(cell->complete, &recipe, error));
    ICL_TRY(icl_recipe_set_count(recipe, "task", "writes", keys, error));
    ICL_TRY(icl_recipe_set_count(recipe, "task", "queries", keys < MOST_QUERIES ? keys : MOST_QUERIES, error));
    ICL_TRY(icl_recipe_set_text(recipe, "task", "asked", "keys", error));
    ICL_TRY(icl_trainer_create(study->run->params->backend, recipe, trainer, error));
    ICL_TRY(icl_trainer_set_parameters(*trainer, parameters, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

static icl_status measure_loss(const icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                               icl_number *loss, icl_error *error) {
    icl_trainer *trainer = NULL;
    sample drawn = {.inputs = NULL};
    float *outputs = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(make_evaluated(study, cell, trained, &trainer, error));
    ICL_TRY(draw_sample(study, icl_trainer_task(trainer), SEQUENCES, 0, &drawn, error));
    ICL_TRY(icl_study_room(study, icl_tensor_count(&drawn.batch.targets), sizeof *outputs, &outputs, error));
    ICL_TRY(icl_trainer_predict(trainer, &drawn.batch, outputs, error));
    *loss = mean_loss(&drawn, outputs);
done:
    icl_trainer_destroy(&trainer);
    return status;
}

static icl_status watch(icl_study *study, const icl_study_cell *cell, icl_trainer *trainer, double *value,
                        icl_error *error) {
    icl_number loss;

    ICL_CHECK(measure_loss(study, cell, trainer, &loss, error));
    *value = loss.value;
    return ICL_OK;
}

/* ---- The loss of the mean of a key's values, by the reference predictor ---- */

enum { DRAWN = 1000 }; /* sequences */

/* Returns the mean over all keys of all sequences, a ratio of two means, with the standard error of its linear part. */
static icl_number ratio_loss(const sample *drawn, const double *outputs) {
    const size_t queries = drawn->batch.shape.scored, width = drawn->batch.shape.outputs;
    double losses[DRAWN] = {0}, asked[DRAWN], sum = 0, count = 0;

    for (size_t s = 0; s < DRAWN; s++) {
        asked[s] = (double)count_asked(drawn, s);
        for (size_t k = s * queries * width; k < (s * queries + count_asked(drawn, s)) * width; k++)
            losses[s] += .5 * (outputs[k] - (double)drawn->targets[k]) * (outputs[k] - (double)drawn->targets[k]);
        sum += losses[s];
        count += asked[s];
    }
    for (size_t s = 0; s < DRAWN; s++)
        losses[s] = (losses[s] - sum / count * asked[s]) * DRAWN / count;
    return (icl_number){sum / count, icl_standard_error(losses, DRAWN)};
}

static icl_status measure_mean(const icl_study *study, const icl_task *task, icl_number *loss, icl_error *error) {
    const icl_reference_predictor *mean = task->family->references(task);
    sample drawn = {.inputs = NULL};
    double *outputs = NULL;

    ICL_CHECK(draw_sample(study, task, DRAWN, 1, &drawn, error));
    ICL_CHECK(icl_study_room(study, icl_tensor_count(&drawn.batch.targets), sizeof *outputs, &outputs, error));
    while (strcmp(mean->name, "mean") != 0)
        mean++;
    ICL_CHECK(mean->predict(mean, &(icl_shown_sequences){task, DRAWN, drawn.inputs, &drawn.batch}, outputs, error));
    *loss = ratio_loss(&drawn, outputs);
    return ICL_OK;
}

/* ---- Numbers ---- */

/* The loss of the last parameters, or of the mean of the values; the least and the last periodic evaluation; and the
 * number of steps. */
enum { LOSS = 0, LEAST, LAST, STEPS, NUMBERS };

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    icl_metrics metrics = {0};
    char *folder = NULL;
    icl_status status = ICL_OK;

    if (cell->is_untrained)
        return measure_mean(study, icl_trainer_task(trained), &numbers[LOSS], error);
    ICL_TRY(measure_loss(study, cell, trained, &numbers[LOSS], error));
    ICL_TRY(icl_study_folder(study, cell, &folder, error));
    ICL_TRY(icl_metrics_read(folder, &metrics, error));
    numbers[LEAST] = (icl_number){metrics.all.least, numbers[LOSS].standard_error};
    numbers[LAST].value = metrics.all.last;
    numbers[STEPS].value = (double)icl_trainer_progress(trained).step;
done:
    icl_metrics_release(&metrics);
    icl_free(&folder);
    return status;
}

/* ---- Judging ---- */

/* If a log lies on its floor, ours must, too, within a tenth and three standard errors of 20 sequences; elsewhere a
 * lower loss is as good. Logs are means over 20 sequences and over splits of keys of unequal size: if chance has put
 * one below its floor, the floor is the target. */
static void judge(icl_study *study, const icl_study_cell *cell) {
    const memory *kind = cell->data;
    const icl_number *numbers = cell->numbers;

    if (cell->is_untrained)
        return;
    const double floor = floor_of(study, kind, cell->at[0]), log = kind->logs[cell->at[0] / STEP - 1];
    const double target = log > 0 ? fmax(log, floor) : 0;
    const bool is_on_floor = target <= 1.1 * floor;
    const icl_phrase what = icl_phrase_print("%s, S %zu", kind->label, cell->at[0]);
    const icl_phrase below =
        target > log ? icl_phrase_print("; their log %.3g: below the floor", log) : (icl_phrase){""};

    ICL_JUDGE(study, .what = what.text, .quantity = "least half squared error", ICL_OURS(numbers[LEAST]),
              .target = target,
              .tolerance = fmax(.1 * target, .002) + (is_on_floor ? 3 * numbers[LEAST].standard_error : 0),
              .criterion = is_on_floor ? ICL_WITHIN : ICL_AT_MOST, .evidence = log > 0 ? ICL_READ : ICL_EVIDENCE_NONE,
              .source = setting_of(study)->source,
              .note = ICL_PHRASE("after %.0f steps %.4g%s", numbers[STEPS].value, numbers[LAST].value, below.text));
    if (floor > 0 && !is_repeated(study)) /* rounding moves a loss of order 1 by less than 1e-5 */
        ICL_JUDGE(study, .what = what.text, .quantity = "half squared error at the end", .ours = numbers[LOSS].value,
                  .target = floor, .tolerance = 1e-5, .criterion = ICL_AT_LEAST, .evidence = ICL_COMPUTED,
                  .source = "rank of what a memory returns, (1 - D / S) / 2");
}

static double expected_mean(const icl_study *study, const icl_study_cell *cell) {
    (void)study;
    return mean_floor(cell->at[0]);
}

/* Chance exceeds four standard errors in one of 16,000 rows. */
static const icl_study_check_row overwrite_checks[] = {
    ICL_ROW(.quantity = "half squared error", .only = "mean of", .number = LOSS, .expected = expected_mean, .errors = 4,
            .evidence = ICL_COMPUTED, .source = "binomial law of a key's writes"),
};

/* ---- Figures ---- */

/* Plots ours and the known values: the logs, and the limit of rank, once for all curves with the same number of
 * features. */
static void plot_memory(icl_study *study, const memory *kind, icl_curves *curves) {
    const size_t places = setting_of(study)->places;

    for (size_t i = 0; i < study->count; i++)
        if (study->cells[i]->data == kind && study->cells[i]->is_wanted)
            icl_study_plot(study, curves, kind->label, ICL_SERIES_OURS, (double)study->cells[i]->at[0],
                           study->cells[i]->numbers[LEAST].value);
    for (size_t place = 0; place < places; place++) {
        const size_t keys = STEP * (place + 1);
        if (kind->logs[place] > 0)
            icl_study_plot(study, curves, ICL_PHRASE("%s, their log", kind->label), ICL_SERIES_PUBLISHED, (double)keys,
                           kind->logs[place]);
        if (kind->features > 0 && kind->features < STEP * places)
            icl_study_plot(study, curves, ICL_PHRASE("rank of %zu features", kind->features), ICL_SERIES_REFERENCE,
                           (double)keys, rank_floor(kind->features, keys));
    }
}

static void conclude(icl_study *study) {
    const setting *config = setting_of(study);
    icl_curves curves = ICL_CURVES(.name = study->run->reproduction->name, .title = config->title, .x_label = "keys S",
                                   .y_label = "least half squared error", .log_y = true, .least_y = 1e-4);

    for (size_t i = 0; i < study->count; i++)
        if (study->cells[i]->is_untrained)
            icl_study_plot(study, &curves, "mean of a key's values", ICL_SERIES_REFERENCE,
                           (double)study->cells[i]->at[0], mean_floor(study->cells[i]->at[0]));
    for (size_t i = 0; i < config->count; i++)
        if (study->scale >= config->memories[i].first)
            plot_memory(study, &config->memories[i], &curves);
    icl_study_draw(study, &curves);
}

const icl_reproduction icl_fastweight_capacity = ICL_STUDY(
        .name = "fastweight-capacity", .source = "arXiv 2102.11174, figure 2",
        .about = "values that a memory of fast weights holds, by its feature map",
        .claim =
            "A linear memory returns as many values as its feature map has numbers, and no more; softmax attention has "
            "no such limit.",
        .scope = "A met table means that trained memories reach the authors' losses and stay above the "
                 "limit of rank; real keys, which are not drawn at random, were not tested.",
        .cost = {"3 s", "10 min", "5 h"}, .numbers = NUMBERS, .plan = plan, .watch = watch, .measure = measure,
        .judge = judge, .conclude = conclude);

const icl_reproduction icl_fastweight_overwrite = ICL_STUDY(
        .name = "fastweight-overwrite", .source = "arXiv 2102.11174, figure 3",
        .about = "fast weights whose keys are written again, by the rule of writing",
        .claim =
            "A memory that writes by the delta rule replaces the value of a key that is written again; one that sums "
            "returns the mean of its values at best.",
        .scope = "A met table means that memories by the delta rule and by sums reach the authors' losses "
                 "on keys that are written again; keys that are alike and not equal were not tested.",
        .cost = {"5 s", "15 min", "2 h"}, .numbers = NUMBERS, .plan = plan, .watch = watch, .measure = measure,
        ICL_CHECKS(overwrite_checks), .judge = judge, .conclude = conclude);
