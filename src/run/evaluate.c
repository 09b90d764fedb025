/* Evaluations: tallies of losses, the final table, and one number for watching a training. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "baseline/predictors.h"
#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "iclab/evaluate.h"
#include "iclab/nearest.h"
#include "iclab/recipe.h"
#include "iclab/status.h"
#include "iclab/task_family.h"
#include "iclab/text.h"
#include "numeric/statistics.h"
#include "run/evaluation.h"
#include "run/recipe_keys.h"
#include "task/task.h"
#include "train/trainer.h"

/* ---- Keys ---- */

#define KEY(field) ICL_KEY("eval", icl_evaluation_settings, field)

static const icl_recipe_key keys[] = {
    {KEY(sequences), "100000", 2, 1e8, .help = "fresh sequences of the final table"},
    {KEY(predictors), "all",
     .help = "all, or some of oracle, bayes, ols, constrr, adarr, tunedrr, ridge, gd:K, gd++:K, pgd:K, pgd++:K"},
    {KEY(fit_sequences), "20000", 2, 1e8, .help = "sequences that fitted predictors are fitted on"},
    {KEY(decode), "false", .help = "a causal sequence model predicts position by position, from states"},
    {KEY(seed), "1", 0, ICL_MAX_SEED, .help = "of the evaluation and fitting sequences"},
};
const icl_recipe_group icl_evaluation_keys = ICL_RECIPE_GROUP(keys);

icl_evaluation_settings icl_evaluation_read(const icl_recipe *recipe) {
    icl_evaluation_settings settings;

    icl_recipe_read(recipe, &icl_evaluation_keys, &settings);
    icl_recipe_read(recipe, &icl_session_evaluation_keys, &settings);
    return settings;
}

/* ---- Sequences ---- */

#define MAX_CHUNK 2048

/* Creates chunks of that many sequences. */
static icl_status create_chunks(icl_backend *backend, const icl_task *task, uint32_t seed, size_t chunk,
                                icl_sequences *sequences, icl_error *error) {
    const icl_task_shape *shape = icl_task_get_shape(task);
    const size_t answers = shape->scored * shape->outputs;
    icl_batch *batch = &sequences->batch;
    icl_status status = ICL_OK;

    *sequences = (icl_sequences){.backend = backend, .task = task, .seed = seed, .chunk = chunk};
    ICL_TRY(icl_batch_create(task, backend, ICL_FOR_EVALUATION, chunk, batch, error));
    ICL_TRY(
        icl_allocate(icl_tensor_count(&batch->inputs), sizeof(float), "evaluation inputs", &sequences->inputs, error));
    ICL_TRY(icl_allocate(chunk, sizeof(float), "evaluation noise", &sequences->noise, error));
    ICL_TRY(icl_allocate(icl_tensor_count(&batch->targets), sizeof(float), "evaluation targets", &sequences->targets,
                         error));
    if (batch->weights.buffer)
        ICL_TRY(icl_allocate(chunk * shape->scored, sizeof(float), "evaluation weights", &sequences->weights, error));
    ICL_TRY(icl_allocate(chunk, answers * sizeof(float), "evaluation predictions", &sequences->model, error));
    return ICL_OK;
done:
    icl_sequences_release(sequences);
    return status;
}

icl_status icl_sequences_create(icl_backend *backend, const icl_task *task, uint32_t seed, icl_sequences *sequences,
                                icl_error *error) {
    return create_chunks(backend, task, seed, icl_task_piece(task, MAX_CHUNK), sequences, error);
}

icl_status icl_sequences_create_carried(icl_backend *backend, const icl_task *task, uint32_t seed,
                                        icl_sequences *sequences, icl_error *error) {
    const icl_task_text *text = icl_task_get_text(task);
    const size_t chunk = text && text->carries ? 1 : icl_task_piece(task, MAX_CHUNK);

    ICL_CHECK(create_chunks(backend, task, seed, chunk, sequences, error));
    sequences->carries = text && text->carries;
    return ICL_OK;
}

size_t icl_sequences_available(const icl_task *task, size_t asked) {
    const icl_task_text *text = icl_task_get_text(task);
    return text && text->evaluated < asked ? (size_t)text->evaluated : asked;
}

void icl_sequences_release(icl_sequences *sequences) {
    icl_decoder_destroy(&sequences->carried);
    icl_batch_release(&sequences->batch);
    icl_free(&sequences->inputs);
    icl_free(&sequences->noise);
    icl_free(&sequences->targets);
    icl_free(&sequences->weights);
    icl_free(&sequences->model);
}

icl_status icl_sequences_sample(icl_sequences *sequences, uint64_t chunk, icl_error *error) {
    return icl_task_sample(sequences->task, sequences->backend, ICL_FOR_EVALUATION, sequences->seed, chunk,
                           &sequences->batch, error);
}

icl_status icl_sequences_predict(icl_sequences *sequences, icl_trainer *trainer, icl_error *error) {
    if (sequences->carries)
        return icl_trainer_decode_on(trainer, &sequences->batch, &sequences->carried, sequences->model, error);
    return sequences->decodes ? icl_trainer_decode(trainer, &sequences->batch, sequences->model, error)
                              : icl_trainer_predict(trainer, &sequences->batch, sequences->model, error);
}

icl_status icl_sequences_refer(icl_sequences *sequences, const icl_predictors *predictors, size_t count,
                               double *predictions, icl_error *error) {
    const icl_batch *batch = &sequences->batch;

    ICL_CHECK(icl_tensor_read(batch->inputs, sequences->inputs, error));
    ICL_CHECK(icl_batch_noise(batch, icl_task_get_prior(sequences->task), sequences->noise, error));
    ICL_CHECK(icl_tensor_read(batch->targets, sequences->targets, error));
    if (batch->weights.buffer)
        ICL_CHECK(icl_tensor_read(batch->weights, sequences->weights, error));
    if (predictors)
        ICL_CHECK(icl_predictors_run(predictors, count, sequences->inputs, sequences->noise, predictions, error));
    return ICL_OK;
}

/* ---- Reference predictors ---- */

/* "all" means, in linear regression, the predictors of every sum of squares except those that take a number. */
static const char all_of_regression[] = "oracle,bayes,ols,constrr,adarr,tunedrr";

/* A name in a comma-separated list, without the blanks around it. */
typedef struct listed_name {
    const char *start;
    size_t length;
    const char *rest; /* the rest of the list; NULL after the last name */
} listed_name;

static bool next_name(listed_name *name) {
    const char *list = name->rest;
    size_t end, start;

    if (!list)
        return false;
    end = strcspn(list, ",");
    name->rest = list[end] == ',' ? list + end + 1 : NULL;
    start = strspn(list, " \t");
    start = start < end ? start : end;
    while (end > start && (list[end - 1] == ' ' || list[end - 1] == '\t'))
        end--;
    name->start = list + start;
    name->length = end - start;
    return true;
}

static listed_name names_of(const char *list) {
    return (listed_name){.rest = list[strspn(list, " \t")] != '\0' ? list : NULL};
}

static bool is_named(const listed_name *name, const char *word) {
    return strlen(word) == name->length && memcmp(name->start, word, name->length) == 0;
}

static bool has_name(const char *list, const char *word) {
    listed_name name = names_of(list);
    while (next_name(&name))
        if (is_named(&name, word))
            return true;
    return false;
}

static size_t count_names(const char *list) {
    listed_name name = names_of(list);
    size_t count = 0;
    while (next_name(&name))
        count++;
    return count;
}

static icl_status append_name(icl_text *list, const char *name, size_t length, icl_error *error) {
    return icl_text_print(list, error, "%s%.*s", list->length > 0 ? "," : "", (int)length, name);
}

/* Returns the predictors that a program registered, ended by one without a word. */
static const icl_choice *find_registered(const icl_recipe *recipe) {
    return icl_recipe_choices(recipe, ICL_EVAL_KEY(predictors));
}

static bool is_registered(const icl_choice *registered, const listed_name *name) {
    for (; registered->word; registered++)
        if (is_named(name, registered->word))
            return true;
    return false;
}

/* Returns whether the list asks for a registered predictor, by name or by "all" if it can answer the task. */
static bool asks_for(const char *list, const icl_choice *registered, const icl_task *task) {
    const icl_predictor_family *family = registered->object;

    return has_name(list, registered->word) || (has_name(list, "all") && (!family->answers || family->answers(task)));
}

/* Counts the registered predictors that the list asks for. ICL_ERROR_INPUT if it names one that cannot answer. */
static icl_status count_registered(const icl_recipe *recipe, const icl_task *task, const char *list, size_t *count,
                                   icl_error *error) {
    *count = 0;
    for (const icl_choice *choice = find_registered(recipe); choice->word; choice++) {
        const icl_predictor_family *family = choice->object;
        if (has_name(list, choice->word) && family->answers && !family->answers(task))
            return icl_recipe_reject(recipe, ICL_EVAL_KEY(predictors), error, "no %s, which cannot answer the task %s",
                                     choice->word, task->family->name);
        *count += asks_for(list, choice, task);
    }
    return ICL_OK;
}

/* Lists the names of regression that are asked for, and after them the oracle and Bayes if they are not among these. */
static icl_status list_regression(const char *asked, const icl_choice *registered, icl_text *names, size_t *shown,
                                  icl_error *error) {
    static const char *const always[] = {"oracle", "bayes"};
    listed_name name = names_of(asked);

    while (next_name(&name))
        if (is_named(&name, "all"))
            ICL_CHECK(append_name(names, all_of_regression, strlen(all_of_regression), error));
        else if (!is_registered(registered, &name))
            ICL_CHECK(append_name(names, name.start, name.length, error));
    *shown = names->length > 0 ? count_names(names->bytes) : 0;
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        if (names->length == 0 || !has_name(names->bytes, always[i]))
            ICL_CHECK(append_name(names, always[i], strlen(always[i]), error));
    return ICL_OK;
}

static icl_reference_row estimate(const icl_predictors *predictors, size_t index) {
    return (icl_reference_row){.name = icl_predictors_name(predictors, index),
                               .constants = icl_predictors_constants(predictors, index),
                               .estimate = index};
}

/* Leaves room for `own` predictors of the program behind those that are shown. */
static icl_status add_regression(const icl_trainer *trainer, const icl_recipe *recipe, size_t fit_sequences,
                                 uint32_t seed, size_t own, icl_reference_set *set, icl_error *error) {
    const char *asked = icl_evaluation_read(recipe).predictors;
    icl_status status = ICL_OK;
    icl_text names = {0};
    size_t shown, count;

    ICL_TRY(list_regression(asked, find_registered(recipe), &names, &shown, error));
    ICL_TRY(icl_predictors_create(icl_trainer_task(trainer), trainer->backend, names.bytes, fit_sequences, seed,
                                  &set->regression, error));
    count = icl_predictors_count(set->regression);
    ICL_TRY(icl_allocate(count + own + 1, sizeof *set->items, "reference predictors", &set->items, error));
    for (size_t i = 0; i < count; i++)
        set->items[i < shown ? i : i + own] = estimate(set->regression, i);
    set->shown = shown;
    set->count = count + own;
done:
    icl_text_release(&names);
    return status;
}

static icl_reference_row brought(const icl_reference_predictor *predictor) {
    return (icl_reference_row){.name = predictor->name, .constants = "", .predictor = predictor};
}

static const icl_reference_predictor *find_brought(const icl_reference_predictor *known, const listed_name *name) {
    for (; known && known->name; known++)
        if (is_named(name, known->name))
            return known;
    return NULL;
}

/* Reports in one line the names that are known, and the nearest one. */
static icl_status reject_name(const icl_recipe *recipe, const icl_task *task, const icl_reference_predictor *known,
                              const listed_name *name, icl_error *error) {
    const char *names[64];
    icl_text list = {0}, asked = {0};
    size_t count = 0;
    icl_status status = ICL_OK;

    for (; known && known->name && count < sizeof names / sizeof *names; known++)
        names[count++] = known->name;
    for (const icl_choice *choice = find_registered(recipe); choice->word; choice++)
        if (count < sizeof names / sizeof *names && asks_for("all", choice, task))
            names[count++] = choice->word;
    if (count == 0)
        return icl_recipe_reject(recipe, ICL_EVAL_KEY(predictors), error, "nothing: %s has no reference predictors",
                                 task->family->name);
    ICL_TRY(icl_text_append(&asked, name->start, name->length, error));
    for (size_t i = 0; i < count; i++)
        ICL_TRY(append_name(&list, names[i], strlen(names[i]), error));
    status = icl_recipe_reject(recipe, ICL_EVAL_KEY(predictors), error,
                               "all or some of %s, which %s has (nearest to \"%s\": \"%s\")", list.bytes,
                               task->family->name, asked.bytes, icl_nearest(asked.bytes, names, count));
done:
    icl_text_release(&list);
    icl_text_release(&asked);
    return status;
}

static icl_status add_once(const icl_recipe *recipe, const icl_reference_predictor *predictor, icl_reference_set *set,
                           icl_error *error) {
    for (size_t i = 0; i < set->count; i++)
        if (set->items[i].predictor == predictor)
            return icl_recipe_reject(recipe, ICL_EVAL_KEY(predictors), error, "%s once", predictor->name);
    set->items[set->count++] = brought(predictor);
    return ICL_OK;
}

/* Leaves room for `own` predictors of the program at the end. */
static icl_status add_brought(const icl_trainer *trainer, const icl_recipe *recipe, size_t own, icl_reference_set *set,
                              icl_error *error) {
    const icl_choice *registered = find_registered(recipe);
    const icl_task *task = icl_trainer_task(trainer);
    const icl_reference_predictor *known = task->family->references ? task->family->references(task) : NULL, *found;
    listed_name name = names_of(icl_evaluation_read(recipe).predictors);
    size_t most = own + 1;

    for (found = known; found && found->name; found++)
        most++;
    ICL_CHECK(icl_allocate(most, sizeof *set->items, "reference predictors", &set->items, error));
    while (next_name(&name)) {
        const bool all = is_named(&name, "all");
        found = all ? known : find_brought(known, &name);
        if (!found && is_registered(registered, &name))
            continue;
        if (!found && !all)
            return reject_name(recipe, task, known, &name, error);
        for (; found && found->name; found = all ? found + 1 : NULL)
            ICL_CHECK(add_once(recipe, found, set, error));
    }
    set->shown = set->count;
    set->count += own;
    return ICL_OK;
}

bool icl_reference_is_listed(const icl_task *task, const char *list, const char *name) {
    const bool is_other = !icl_task_get_prior(task);
    const icl_reference_predictor *known = is_other && task->family->references ? task->family->references(task) : NULL;
    const listed_name word = {.start = name, .length = strlen(name)};

    if (has_name(list, name))
        return true;
    return has_name(list, "all") && (is_other ? find_brought(known, &word) != NULL : has_name(all_of_regression, name));
}

icl_status icl_reference_set_create(const icl_trainer *trainer, const icl_recipe *recipe, size_t fit_sequences,
                                    uint32_t seed, icl_reference_set *set, icl_error *error) {
    const icl_trainer_parts own = icl_trainer_get_parts(trainer);
    const icl_task *task = icl_trainer_task(trainer);
    const char *asked = icl_evaluation_read(recipe).predictors;
    size_t registered;

    *set = (icl_reference_set){.recipe = recipe};
    ICL_CHECK(count_registered(recipe, task, asked, &registered, error));
    const size_t more = registered + own.reference_count;
    if (icl_task_get_prior(task))
        ICL_CHECK(add_regression(trainer, recipe, fit_sequences, seed, more, set, error));
    else
        ICL_CHECK(add_brought(trainer, recipe, more, set, error));
    assert(set->items);
    for (const icl_choice *choice = find_registered(recipe); choice->word; choice++)
        if (asks_for(asked, choice, task))
            set->items[set->shown++] = brought(&((const icl_predictor_family *)choice->object)->predictor);
    for (size_t i = 0; i < own.reference_count; i++)
        set->items[set->shown++] = brought(own.references[i]);
    return ICL_OK;
}

void icl_reference_set_release(icl_reference_set *set) {
    icl_predictors_destroy(&set->regression);
    icl_free(&set->items);
}

/* ---- Tallies ---- */

/* The share of the largest squared distances that the trimmed mean leaves out. */
#define TRIMMED_SHARE 0.01

/* The column of the model, and that of the oracle in an evaluator. */
enum { MODEL = 0, ORACLE };

icl_status icl_tally_create(icl_tally *tally, bool with_weights, icl_error *error) {
    const icl_task_shape *shape = &tally->shape;
    const size_t row = shape->scored * sizeof(double), target = icl_loss_target_size(shape->loss, shape->outputs);
    size_t rows;

    if (!icl_multiply_sizes(tally->sequences, tally->columns, &rows))
        return icl_fail(error, ICL_ERROR_MEMORY, "eval.sequences: %zu predictions overflow the address space",
                        tally->sequences);
    ICL_CHECK(icl_allocate(rows, row, "losses (fewer eval.sequences need less)", &tally->losses, error));
    if (icl_loss_has_accuracy(shape->loss))
        ICL_CHECK(icl_allocate(rows, row, "accuracies (fewer eval.sequences need less)", &tally->right, error));
    if (tally->oracle > 0)
        ICL_CHECK(icl_allocate(rows, row, "predictions (fewer eval.sequences need less)", &tally->values, error));
    if (with_weights)
        ICL_CHECK(icl_allocate(tally->sequences, row, "weights of positions", &tally->weights, error));
    ICL_CHECK(icl_allocate(tally->sequences, sizeof(double), "means of sequences", &tally->means, error));
    return icl_allocate(target, sizeof(double), "a target", &tally->target, error);
}

void icl_tally_release(icl_tally *tally) {
    icl_free(&tally->losses);
    icl_free(&tally->right);
    icl_free(&tally->weights);
    icl_free(&tally->values);
    icl_free(&tally->means);
    icl_free(&tally->target);
}

/* Returns where the row of a sequence begins in a table of all columns. */
static size_t value_row(const icl_tally *tally, size_t column, size_t sequence) {
    return (column * tally->sequences + sequence) * tally->shape.scored;
}

void icl_tally_weigh(icl_tally *tally, size_t first, size_t count, const float *weights) {
    const size_t scored = tally->shape.scored;

    assert(tally->weights);
    for (size_t i = 0; i < count * scored; i++)
        tally->weights[first * scored + i] = (double)weights[i];
}

void icl_tally_add(icl_tally *tally, size_t column, size_t first, size_t count, const double *outputs,
                   const float *targets) {
    const icl_task_shape *shape = &tally->shape;
    const size_t q = shape->outputs, c = icl_loss_target_size(shape->loss, q);
    const size_t row = value_row(tally, column, first);

    assert(tally->losses && tally->target);
    for (size_t at = 0; at < count * shape->scored; at++) {
        /* The loss at a position of weight 0 may be anything, infinity included. */
        const bool counts = !tally->weights || tally->weights[first * shape->scored + at] != 0;
        const double *output = outputs + at * q;
        for (size_t k = 0; k < c; k++)
            tally->target[k] = (double)targets[at * c + k];
        tally->losses[row + at] = counts ? icl_loss_of(shape->loss, q, output, tally->target) : 0;
        if (tally->right)
            tally->right[row + at] = counts ? icl_loss_accuracy(shape->loss, q, output, tally->target) : 0;
        if (tally->values)
            tally->values[row + at] = *output;
    }
}

/* Returns the mean over the scored positions of a sequence. */
static double squared_distance(const icl_tally *tally, size_t a, size_t b, size_t sequence) {
    const size_t scored = tally->shape.scored;
    const double *p = tally->values + value_row(tally, a, sequence), *o = tally->values + value_row(tally, b, sequence);
    double sum = 0;

    for (size_t s = 0; s < scored; s++)
        sum += (p[s] - o[s]) * (p[s] - o[s]);
    return sum / (double)scored;
}

static const double *squared_distances(const icl_tally *tally, size_t a, size_t b) {
    for (size_t i = 0; i < tally->sequences; i++)
        tally->means[i] = squared_distance(tally, a, b, i);
    return tally->means;
}

static void compare_distances(const icl_tally *tally, size_t column, icl_score *score) {
    for (size_t i = 0; i < tally->sequences; i++)
        tally->means[i] =
            .5 * (squared_distance(tally, column, tally->oracle, i) - squared_distance(tally, MODEL, tally->oracle, i));
    score->half_minus_model = icl_mean(tally->means, tally->sequences);
    score->half_minus_model_se = icl_standard_error(tally->means, tally->sequences);
}

static void score_distances(const icl_tally *tally, size_t column, icl_score *score) {
    const size_t count = tally->sequences;
    const double *squares;

    score->adjusted = score->adjusted_se = score->half_adjusted = score->half_adjusted_se = (double)NAN;
    score->half_above_bayes = score->adjusted_median = score->adjusted_trimmed = (double)NAN;
    score->half_minus_model = score->half_minus_model_se = (double)NAN;
    if (tally->oracle == 0)
        return;
    if (column != MODEL)
        compare_distances(tally, column, score);
    squares = squared_distances(tally, column, tally->bayes);
    score->half_above_bayes = column == tally->oracle ? (double)NAN : 0.5 * icl_mean(squares, count);

    squares = squared_distances(tally, column, tally->oracle);
    score->adjusted = icl_mean(squares, count);
    score->adjusted_se = icl_standard_error(squares, count);
    score->half_adjusted = 0.5 * score->adjusted;
    score->half_adjusted_se = 0.5 * score->adjusted_se;
    score->adjusted_median = icl_median(tally->means, count);
    score->adjusted_trimmed = icl_trimmed_mean(tally->means, count, TRIMMED_SHARE);
}

/* The numbers of a mean: a column of a table, minus another column, at `count` positions from `first` on. */
typedef struct selection {
    const double *table;
    size_t column, less; /* less: NO_COLUMN for none */
    size_t first, count;
} selection;

#define NO_COLUMN SIZE_MAX

typedef struct mean {
    double value, se;
} mean;

static double weight_at(const icl_tally *tally, size_t sequence, size_t s) {
    return tally->weights ? tally->weights[sequence * tally->shape.scored + s] : 1;
}

/* Returns the mean weight of a sequence at these positions. */
static double weight_of(const icl_tally *tally, const selection *chosen, size_t sequence) {
    double sum = 0;

    for (size_t s = chosen->first; s < chosen->first + chosen->count; s++)
        sum += weight_at(tally, sequence, s);
    return sum / (double)chosen->count;
}

static double mean_weight(const icl_tally *tally, const selection *chosen) {
    double sum = 0;

    for (size_t i = 0; i < tally->sequences; i++)
        sum += weight_of(tally, chosen, i);
    return sum / (double)tally->sequences;
}

static double value_at(const icl_tally *tally, const selection *chosen, size_t sequence, size_t s) {
    const double value = chosen->table[value_row(tally, chosen->column, sequence) + s];
    return chosen->less == NO_COLUMN ? value : value - chosen->table[value_row(tally, chosen->less, sequence) + s];
}

/* Returns a value of the mean's size, which is subtracted first: so a constant has exactly itself as its mean and no
 * error from rounding. */
static double find_base(const icl_tally *tally, const selection *chosen) {
    for (size_t i = 0; i < tally->sequences; i++)
        for (size_t s = chosen->first; s < chosen->first + chosen->count; s++)
            if (weight_at(tally, i, s) != 0)
                return isfinite(value_at(tally, chosen, i, s)) ? value_at(tally, chosen, i, s) : 0;
    return 0;
}

/* Returns sum w v / sum w over sequences and positions. Its standard error is that of a ratio of two means over
 * sequences: of the residuals (for each sequence the mean of w (v - ratio)) over the mean weight. */
static mean take_mean(const icl_tally *tally, const selection *chosen) {
    const size_t count = tally->sequences;
    const double base = tally->weights ? find_base(tally, chosen) : 0, weight = mean_weight(tally, chosen);
    double above;

    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (size_t s = chosen->first; s < chosen->first + chosen->count; s++)
            sum += weight_at(tally, i, s) * (value_at(tally, chosen, i, s) - base);
        tally->means[i] = sum / (double)chosen->count;
    }
    above = icl_mean(tally->means, count) / weight;
    for (size_t i = 0; i < count && tally->weights; i++)
        tally->means[i] -= above * weight_of(tally, chosen, i);
    return (mean){base + above, icl_standard_error(tally->means, count) / weight};
}

static icl_position_score score_positions(const icl_tally *tally, size_t column, size_t first, size_t count) {
    selection chosen = {tally->losses, column, NO_COLUMN, first, count};
    const mean loss = take_mean(tally, &chosen);
    mean difference = {(double)NAN, (double)NAN};
    icl_position_score score = {
        .position = tally->shape.first_scored + first, .loss = loss.value, .se = loss.se, .accuracy = (double)NAN};

    chosen.less = MODEL;
    if (column != MODEL)
        difference = take_mean(tally, &chosen);
    score.minus_model = difference.value;
    score.minus_model_se = difference.se;
    chosen = (selection){tally->right, column, NO_COLUMN, first, count};
    if (tally->right)
        score.accuracy = take_mean(tally, &chosen).value;
    return score;
}

static bool has_weight(const icl_tally *tally, size_t s) {
    for (size_t i = 0; i < tally->sequences; i++)
        if (weight_at(tally, i, s) > 0)
            return true;
    return false;
}

void icl_tally_score(const icl_tally *tally, size_t column, icl_position_score *positions, icl_score *score) {
    const icl_position_score whole = score_positions(tally, column, 0, tally->shape.scored);

    assert(tally->means);
    score->loss_kind = tally->shape.loss;
    score->mse = whole.loss;
    score->se = whole.se;
    score->accuracy = whole.accuracy;
    score->minus_model = whole.minus_model;
    score->minus_model_se = whole.minus_model_se;
    score->bits_per_byte = score->bits_per_byte_se = (double)NAN;
    score_distances(tally, column, score);
    score->positions = positions;
    score->position_count = 0;
    for (size_t s = 0; positions && s < tally->shape.scored; s++)
        if (has_weight(tally, s))
            positions[score->position_count++] = score_positions(tally, column, s, 1);
}

/* Enough to fit predictors whose fit is discarded. */
#define SEQUENCES_OF_CHECK 64

/* ---- Predicting ---- */

/* The predictions of a chunk. */
typedef struct workspace {
    double *estimates; /* [chunk][S][predictors of regression] */
    double *outputs;   /* [chunk][S][q], those of one predictor */
} workspace;

/* Predicts the outputs of the model, or of the reference predictor of row `row`, for the first `count` sequences of the
 * chunk. */
static icl_status predict_row(const icl_sequences *sequences, const icl_reference_set *beside, size_t row, size_t count,
                              const workspace *space, icl_error *error) {
    const icl_task_shape *shape = icl_task_get_shape(sequences->task);
    const size_t numbers = count * shape->scored * shape->outputs;
    const icl_shown_sequences shown = {sequences->task,    count,         sequences->inputs, &sequences->batch,
                                       sequences->backend, beside->recipe};
    const icl_reference_row *reference = row > 0 ? &beside->items[row - 1] : NULL;

    if (reference && reference->predictor)
        return reference->predictor->predict(reference->predictor, &shown, space->outputs, error);
    for (size_t i = 0; i < numbers; i++)
        space->outputs[i] = reference
                                ? space->estimates[i * icl_predictors_count(beside->regression) + reference->estimate]
                                : (double)sequences->model[i];
    return ICL_OK;
}

/* Predicts one chunk, whose first sequence is number `first` of the evaluation. */
static icl_status predict_chunk(icl_sequences *sequences, icl_trainer *trainer, const icl_reference_set *beside,
                                size_t first, const workspace *space, icl_tally *tally, icl_error *error) {
    const size_t left = tally->sequences - first, count = left < sequences->chunk ? left : sequences->chunk;

    assert(space->outputs);
    ICL_CHECK(icl_sequences_sample(sequences, first / sequences->chunk, error));
    ICL_CHECK(icl_sequences_predict(sequences, trainer, error));
    ICL_CHECK(icl_sequences_refer(sequences, beside->regression, count, space->estimates, error));
    if (tally->weights)
        icl_tally_weigh(tally, first, count, sequences->weights);
    for (size_t row = 0; row <= beside->count; row++) {
        ICL_CHECK(predict_row(sequences, beside, row, count, space, error));
        icl_tally_add(tally, row, first, count, space->outputs, sequences->targets);
    }
    return ICL_OK;
}

/* Draws and predicts all sequences. */
static icl_status predict_all(icl_backend *backend, icl_trainer *trainer, const icl_reference_set *beside,
                              const icl_recipe *recipe, icl_tally *tally, icl_error *error) {
    const icl_evaluation_settings settings = icl_evaluation_read(recipe);
    const size_t scored = tally->shape.scored;
    icl_status status = ICL_OK;
    icl_sequences sequences = {0};
    workspace space = {0};

    ICL_TRY(
        icl_sequences_create_carried(backend, icl_trainer_task(trainer), (uint32_t)settings.seed, &sequences, error));
    sequences.decodes = settings.decode;
    ICL_TRY(icl_tally_create(tally, sequences.weights != NULL, error));
    if (beside->regression)
        ICL_TRY(icl_allocate(sequences.chunk * icl_predictors_count(beside->regression),
                             scored * sizeof *space.estimates, "predictions", &space.estimates, error));
    ICL_TRY(icl_allocate(sequences.chunk * scored, tally->shape.outputs * sizeof *space.outputs, "predictions",
                         &space.outputs, error));
    for (size_t first = 0; first < tally->sequences; first += sequences.chunk)
        ICL_TRY(predict_chunk(&sequences, trainer, beside, first, &space, tally, error));
done:
    icl_free(&space.estimates);
    icl_free(&space.outputs);
    icl_sequences_release(&sequences);
    return status;
}

/* ---- Evaluation ---- */

static void describe(const icl_reference_row *reference, const icl_task *task, char text[ICL_CONSTANTS_CAPACITY]) {
    if (reference->predictor && reference->predictor->describe)
        reference->predictor->describe(reference->predictor, task, text, ICL_CONSTANTS_CAPACITY);
    else
        snprintf(text, ICL_CONSTANTS_CAPACITY, "%s", reference->constants);
}

static icl_status create_evaluation(const icl_task *task, const icl_reference_set *beside, const icl_tally *tally,
                                    icl_evaluation **evaluation, icl_error *error) {
    const size_t scored = tally->shape.scored;
    icl_status status = ICL_OK;
    icl_evaluation *created = NULL;

    ICL_TRY(icl_allocate(1, sizeof *created, "evaluation", &created, error));
    created->count = 1 + beside->shown;
    ICL_TRY(icl_allocate(created->count, sizeof *created->scores, "scores", &created->scores, error));
    if (scored > 1)
        ICL_TRY(icl_allocate(created->count, scored * sizeof *created->curves, "scores of positions", &created->curves,
                             error));
    created->sequences = tally->sequences;
    if (icl_task_get_text(task))
        snprintf(created->text, sizeof created->text, "%s", icl_task_get_text(task)->evaluation);
    for (size_t i = 0; i < created->count; i++) {
        const icl_reference_row model = {.name = "model", .constants = ""};
        const icl_reference_row *reference = i > 0 ? &beside->items[i - 1] : &model;
        icl_score *score = &created->scores[i];
        snprintf(score->predictor, sizeof score->predictor, "%s", reference->name);
        describe(reference, task, score->constants);
        icl_tally_score(tally, i, created->curves ? created->curves + i * scored : NULL, score);
        if (icl_task_get_text(task)) {
            score->bits_per_byte = score->mse / log(2);
            score->bits_per_byte_se = score->se / log(2);
        }
    }
    *evaluation = created;
    created = NULL;
done:
    icl_evaluation_destroy(&created);
    return status;
}

static icl_status check_decoding(const icl_trainer *trainer, const icl_recipe *recipe, icl_error *error) {
    const icl_task_text *text = icl_task_get_text(icl_trainer_task(trainer));

    if (text && text->carries && !icl_model_can(icl_trainer_model(trainer), ICL_MODEL_DECODES))
        return icl_recipe_reject(recipe, "task", "evaluation", error,
                                 "windows or stride:K: only a causal model of model.family = sequence carries a state");
    return !icl_evaluation_read(recipe).decode || icl_model_can(icl_trainer_model(trainer), ICL_MODEL_DECODES)
               ? ICL_OK
               : icl_recipe_reject(recipe, ICL_EVAL_KEY(decode), error,
                                   "false: model.family = sequence alone decodes, causal and read out by position");
}

icl_status icl_evaluation_check(const icl_trainer *trainer, const icl_recipe *recipe, icl_error *error) {
    icl_reference_set beside = {0};
    icl_status status = check_decoding(trainer, recipe, error);

    if (status == ICL_OK)
        status = icl_reference_set_create(trainer, recipe, SEQUENCES_OF_CHECK, 1, &beside, error);
    icl_reference_set_release(&beside);
    return status;
}

/* Returns the column of the predictor of this name (the model's is column 0), or 0 if there is none. */
static size_t find_column(const icl_reference_set *beside, const char *name) {
    for (size_t i = 0; beside->regression && i < beside->count; i++)
        if (!beside->items[i].predictor && strcmp(beside->items[i].name, name) == 0)
            return i + 1;
    return 0;
}

icl_status icl_evaluate(icl_backend *backend, icl_trainer *trainer, const icl_recipe *recipe,
                        icl_evaluation **evaluation, icl_error *error) {
    const icl_evaluation_settings settings = icl_evaluation_read(recipe);
    icl_reference_set beside = {0};
    const icl_task *task = icl_trainer_task(trainer);
    icl_tally tally = {.shape = *icl_task_get_shape(task),
                       .sequences = icl_sequences_available(task, settings.sequences)};
    icl_status status = ICL_OK;

    ICL_TRY(check_decoding(trainer, recipe, error));
    ICL_TRY(icl_reference_set_create(trainer, recipe, settings.fit_sequences, (uint32_t)settings.seed, &beside, error));
    tally.columns = 1 + beside.count;
    tally.oracle = find_column(&beside, "oracle");
    tally.bayes = find_column(&beside, "bayes");
    ICL_TRY(predict_all(backend, trainer, &beside, recipe, &tally, error));
    ICL_TRY(create_evaluation(task, &beside, &tally, evaluation, error));
done:
    icl_tally_release(&tally);
    icl_reference_set_release(&beside);
    return status;
}

void icl_evaluation_destroy(icl_evaluation **evaluation) {
    if (*evaluation) {
        icl_free(&(*evaluation)->scores);
        icl_free(&(*evaluation)->curves);
    }
    icl_free(evaluation);
}

/* ---- Evaluators: one number on a few fixed sequences, for watching a training run ---- */

struct icl_evaluator {
    icl_sequences sequences;
    icl_tally tally;
    double *outputs; /* [chunk][S][q] */
};

static size_t size_of_chunk(const icl_evaluator *evaluator, size_t first) {
    const size_t left = evaluator->tally.sequences - first;
    return left < evaluator->sequences.chunk ? left : evaluator->sequences.chunk;
}

static icl_status sample_watched(icl_evaluator *evaluator, size_t first, icl_error *error) {
    assert(evaluator->sequences.chunk > 0);
    return icl_sequences_sample(&evaluator->sequences, ICL_FIRST_WATCHED_STEP + first / evaluator->sequences.chunk,
                                error);
}

static icl_status consult_oracle(icl_evaluator *evaluator, uint32_t seed, icl_error *error) {
    icl_sequences *sequences = &evaluator->sequences;
    icl_status status = ICL_OK;
    icl_predictors *oracle = NULL;

    ICL_TRY(icl_predictors_create(sequences->task, sequences->backend, "oracle", 2, seed, &oracle, error));
    for (size_t first = 0; first < evaluator->tally.sequences; first += sequences->chunk) {
        const size_t count = size_of_chunk(evaluator, first);
        ICL_TRY(sample_watched(evaluator, first, error));
        ICL_TRY(icl_sequences_refer(sequences, oracle, count, evaluator->outputs, error));
        icl_tally_add(&evaluator->tally, ORACLE, first, count, evaluator->outputs, sequences->targets);
    }
done:
    icl_predictors_destroy(&oracle);
    return status;
}

icl_status icl_evaluator_create(icl_backend *backend, const icl_task *task, size_t sequences, uint32_t seed,
                                icl_evaluator **evaluator, icl_error *error) {
    const icl_task_shape *shape = icl_task_get_shape(task);
    const icl_task_text *text = icl_task_get_text(task);
    const size_t oracle = icl_task_get_prior(task) ? ORACLE : 0;
    const size_t there = text && text->watched < sequences ? (size_t)text->watched : sequences;
    icl_status status = ICL_OK;
    icl_evaluator *created = NULL;

    ICL_TRY(icl_allocate(1, sizeof *created, "evaluator", &created, error));
    ICL_TRY(icl_sequences_create(backend, task, seed, &created->sequences, error));
    created->tally =
        (icl_tally){.shape = *shape, .sequences = there, .columns = 1 + oracle, .oracle = oracle, .bayes = oracle};
    ICL_TRY(icl_tally_create(&created->tally, created->sequences.weights != NULL, error));
    ICL_TRY(icl_allocate(created->sequences.chunk * shape->scored, shape->outputs * sizeof *created->outputs,
                         "predictions", &created->outputs, error));
    if (oracle > 0)
        ICL_TRY(consult_oracle(created, seed, error));
    *evaluator = created;
    created = NULL;
done:
    icl_evaluator_destroy(&created);
    return status;
}

void icl_evaluator_destroy(icl_evaluator **evaluator) {
    if (*evaluator) {
        icl_sequences_release(&(*evaluator)->sequences);
        icl_tally_release(&(*evaluator)->tally);
        icl_free(&(*evaluator)->outputs);
    }
    icl_free(evaluator);
}

icl_status icl_evaluator_loss(icl_evaluator *evaluator, icl_trainer *trainer, double *loss, icl_error *error) {
    icl_sequences *sequences = &evaluator->sequences;
    icl_tally *tally = &evaluator->tally;
    icl_score score = {{0}};

    for (size_t first = 0; first < tally->sequences; first += sequences->chunk) {
        const size_t count = size_of_chunk(evaluator, first), numbers = tally->shape.scored * tally->shape.outputs;
        ICL_CHECK(sample_watched(evaluator, first, error));
        ICL_CHECK(icl_sequences_predict(sequences, trainer, error));
        ICL_CHECK(icl_sequences_refer(sequences, NULL, count, NULL, error));
        if (tally->weights)
            icl_tally_weigh(tally, first, count, sequences->weights);
        for (size_t i = 0; i < count * numbers; i++)
            evaluator->outputs[i] = (double)sequences->model[i];
        icl_tally_add(tally, MODEL, first, count, evaluator->outputs, sequences->targets);
    }
    icl_tally_score(tally, MODEL, NULL, &score);
    *loss = tally->oracle > 0 ? score.half_adjusted : score.mse;
    return ICL_OK;
}
