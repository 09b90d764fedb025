/* The parts of an evaluation: sequences, reference predictors beside the model, and tallies of losses. */
#include "run/evaluation.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "baseline/predictors.h"
#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "iclab/nearest.h"
#include "iclab/text.h"
#include "numeric/statistics.h"
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
