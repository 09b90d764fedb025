#include "papers/study_file_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/nearest.h"
#include "iclab/number.h"
#include "papers/measures.h"
#include "run/evaluation.h"
#include "run/metrics.h"
#include "run/recipe_keys.h"

/* ---- Quantities ---- */

enum { NOWHERE = 0 }; /* no number has the offset 0 in a score */

/* What an evaluation must have for a quantity to exist. */
typedef enum need { ANYTHING = 0, CLASSES, ORACLE, TRAINING, PARAMETERS, IN_BLOCKS, MACRO, ASKED } need;

/* A quantity, with the offsets of its value and its standard error in a score, and in that of a position. */
typedef struct quantity {
    const char *name;
    need needs;
    bool is_of_reference; /* only of reference predictors, not of the model */
    size_t value, error, value_at, error_at;
    bool is_half; /* half of the number at the offset */
} quantity;

#define IN(member) offsetof(icl_score, member)
#define AT(member) offsetof(icl_position_score, member)

static const quantity quantities[] = {
    {"mse", ANYTHING, false, IN(mse), IN(se), AT(loss), AT(se)},
    {"loss", ANYTHING, false, IN(mse), IN(se), AT(loss), AT(se)},
    {"half_mse", ANYTHING, false, IN(mse), IN(se), AT(loss), AT(se), true},
    {"accuracy", CLASSES, false, IN(accuracy), NOWHERE, AT(accuracy), NOWHERE},
    {"minus_model", ANYTHING, true, IN(minus_model), IN(minus_model_se), AT(minus_model), AT(minus_model_se)},
    {"adjusted", ORACLE, false, IN(adjusted), IN(adjusted_se), NOWHERE, NOWHERE},
    {"half_adjusted", ORACLE, false, IN(half_adjusted), IN(half_adjusted_se), NOWHERE, NOWHERE},
    {"half_minus_model", ORACLE, true, IN(half_minus_model), IN(half_minus_model_se), NOWHERE, NOWHERE},
    {"half_above_bayes", ORACLE, false, IN(half_above_bayes), NOWHERE, NOWHERE, NOWHERE},
    {"adjusted_median", ORACLE, false, IN(adjusted_median), NOWHERE, NOWHERE, NOWHERE},
    {"adjusted_trimmed", ORACLE, false, IN(adjusted_trimmed), NOWHERE, NOWHERE, NOWHERE},
    {"final_loss", TRAINING, false, NOWHERE, NOWHERE, NOWHERE, NOWHERE},
    {"parameters", PARAMETERS, false, NOWHERE, NOWHERE, NOWHERE, NOWHERE},
    {"parameters_in_blocks", IN_BLOCKS, false, NOWHERE, NOWHERE, NOWHERE, NOWHERE},
    {"macro_accuracy", MACRO, false, NOWHERE, NOWHERE, NOWHERE, NOWHERE},
    {"classes", ASKED, false, NOWHERE, NOWHERE, NOWHERE, NOWHERE},
};
enum { QUANTITIES = sizeof quantities / sizeof *quantities };

/* Positions of a number without any. */
#define EVERYWHERE UINT64_MAX

struct icl_study_number {
    char *name;       /* "shifted/ols.mse@5" */
    char *evaluation; /* "shifted"; may be empty */
    char *predictor;  /* "ols", "model" */
    const quantity *quantity;
    unsigned scales;         /* that name it, a bit for each */
    uint64_t position, last; /* the mean from one to the other; `last` may be EVERYWHERE: to the end */
};

/* Returns whether it is a number of the training or of the model alone, and not of an evaluation. */
static bool is_of_training(const quantity *of) {
    return of->needs >= TRAINING;
}

static const quantity *find_quantity(const char *name, size_t length) {
    for (size_t i = 0; i < QUANTITIES; i++)
        if (strlen(quantities[i].name) == length && strncmp(quantities[i].name, name, length) == 0)
            return &quantities[i];
    return NULL;
}

/* Refuses a name with the nearest of "mse", "accuracy", ... to its last part. */
static icl_status refuse(const char *name, icl_error *error) {
    const char *names[QUANTITIES];

    for (size_t i = 0; i < QUANTITIES; i++)
        names[i] = quantities[i].name;
    const char *dot = strrchr(name, '.'), *word = dot ? dot + 1 : name;
    return icl_fail(error, ICL_ERROR_INPUT, "NUMBER or PREDICTOR.NUMBER; the nearest known number is %s",
                    icl_nearest(word, names, QUANTITIES));
}

/* Reads what stands behind @: 5, 5..9, or 5.. for all from 5 on. */
static bool read_places(const char *text, struct icl_study_number *number) {
    const char *range = strstr(text, "..");
    const size_t length = range ? (size_t)(range - text) : strlen(text);

    if (!icl_parse_count(text, length, &number->position))
        return false;
    number->last = range ? EVERYWHERE : number->position;
    return !range || !range[2] ||
           (icl_parse_count(range + 2, strlen(range + 2), &number->last) && number->last >= number->position);
}

/* Reads the parts of a name. */
static icl_status read_name(const char *whole, struct icl_study_number *number, icl_error *error) {
    const char *slash = strchr(whole, '/'), *name = slash ? slash + 1 : whole, *word = name;
    const size_t length = strcspn(name, "@");

    for (const char *c = name; c < name + length; c++)
        word = *c == '.' ? c + 1 : word;
    number->quantity = find_quantity(word, (size_t)(name + length - word));
    if (!number->quantity)
        return refuse(name, error);
    if (name[length] == '@' && number->quantity->value_at == NOWHERE)
        return icl_fail(error, ICL_ERROR_INPUT, "mse, loss, accuracy or minus_model before @POSITION");
    number->position = EVERYWHERE;
    if (name[length] == '@' && !read_places(name + length + 1, number))
        return icl_fail(error, ICL_ERROR_INPUT, "a position behind @, counted from 0, or FIRST..LAST or FIRST..");
    if (number->quantity->is_of_reference && word == name)
        return icl_fail(error, ICL_ERROR_INPUT, "PREDICTOR.%s: it is a predictor's, less the model's",
                        number->quantity->name);
    if (is_of_training(number->quantity) && word > whole)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: it is that of the training", number->quantity->name);
    ICL_CHECK(icl_duplicate(word > name ? name : "model", &number->predictor, error));
    if (word > name)
        number->predictor[word - name - 1] = '\0';
    ICL_CHECK(icl_duplicate(slash ? whole : "", &number->evaluation, error));
    if (slash)
        number->evaluation[slash - whole] = '\0';
    return icl_duplicate(whole, &number->name, error);
}

/* ---- The table ---- */

size_t icl_study_numbers_find(const icl_study_numbers *numbers, const char *name) {
    size_t i = 0;
    while (i < numbers->count && strcmp(numbers->rows[i].name, name) != 0)
        i++;
    return i;
}

static void release_number(struct icl_study_number *number) {
    icl_free(&number->name);
    icl_free(&number->evaluation);
    icl_free(&number->predictor);
}

icl_status icl_study_numbers_add(icl_study_numbers *numbers, const char *name, icl_error *error) {
    struct icl_study_number number = {0};
    icl_status status = ICL_OK;

    if (icl_study_numbers_find(numbers, name) < numbers->count)
        return ICL_OK;
    ICL_TRY(icl_grow(&numbers->rows, numbers->count, &numbers->capacity, sizeof number, "numbers", error));
    ICL_TRY(read_name(name, &number, error));
    numbers->rows[numbers->count++] = number;
    number = (struct icl_study_number){0};
done:
    release_number(&number);
    return status;
}

void icl_study_numbers_release(icl_study_numbers *numbers) {
    for (size_t i = 0; i < numbers->count; i++)
        release_number(&numbers->rows[i]);
    icl_free(&numbers->rows);
    *numbers = (icl_study_numbers){0};
}

const char *icl_study_numbers_evaluation(const icl_study_numbers *numbers, size_t number) {
    return numbers->rows[number].evaluation;
}

static bool is_of_model(const struct icl_study_number *number) {
    return strcmp(number->predictor, "model") == 0;
}

/* Returns the length of a predictor's name before its *, which stands for any argument: "polynomial:*". */
static size_t length_before_star(const char *predictor) {
    const size_t length = strlen(predictor);
    return length > 0 && predictor[length - 1] == '*' ? length - 1 : SIZE_MAX;
}

static bool is_listed(const icl_task *task, const char *list, const char *predictor) {
    const size_t length = length_before_star(predictor);

    if (length == SIZE_MAX)
        return icl_reference_is_listed(task, list, predictor);
    return strstr(list, ICL_PHRASE("%.*s", (int)length, predictor)) != NULL;
}

static const icl_score *find_score(const icl_evaluation *evaluation, const char *predictor) {
    const size_t length = length_before_star(predictor);

    for (size_t i = 0; length < SIZE_MAX && i < evaluation->count; i++)
        if (strncmp(evaluation->scores[i].predictor, predictor, length) == 0)
            return &evaluation->scores[i];
    return icl_reproduce_score(evaluation, predictor);
}

icl_status icl_study_numbers_check(const icl_study_numbers *numbers, size_t index, const icl_task *task,
                                   const icl_recipe *recipe, icl_error *error) {
    const struct icl_study_number *number = &numbers->rows[index];
    const icl_task_shape *shape = icl_task_get_shape(task);
    const char *listed = icl_evaluation_read(recipe).predictors;

    if ((number->quantity->needs == CLASSES || number->quantity->needs >= MACRO) && !icl_loss_has_accuracy(shape->loss))
        return icl_fail(error, ICL_ERROR_INPUT, "another number: the task's loss, %s, has no accuracy",
                        icl_loss_name(shape->loss));
    if (number->quantity->needs == ORACLE && !icl_task_get_prior(task))
        return icl_fail(error, ICL_ERROR_INPUT, "another number, such as mse: the task has no oracle");
    if (number->position != EVERYWHERE && shape->scored == 1)
        return icl_fail(error, ICL_ERROR_INPUT, "it without @: the task scores one position");
    if (number->position != EVERYWHERE &&
        (number->position < shape->first_scored || number->position >= shape->first_scored + shape->scored ||
         (number->last != EVERYWHERE && number->last >= shape->first_scored + shape->scored)))
        return icl_fail(error, ICL_ERROR_INPUT, "a scored position, %zu to %zu", shape->first_scored,
                        shape->first_scored + shape->scored - 1);
    if (!is_of_model(number) && !is_listed(task, listed, number->predictor))
        return icl_fail(error, ICL_ERROR_INPUT, "a predictor of eval.predictors = %s", listed[0] ? listed : "nothing");
    return ICL_OK;
}

/* ---- Measuring ---- */

static icl_number read_score(const void *score, size_t value, size_t error, double factor) {
    const double spread = error == NOWHERE ? 0 : *(const double *)((const char *)score + error);
    return (icl_number){factor * *(const double *)((const char *)score + value), factor * spread};
}

/* Returns the mean over the positions that count; its standard error is not known from theirs. */
static icl_number take_mean(const struct icl_study_number *number, const icl_score *score, double factor) {
    double sum = 0;
    size_t count = 0;

    for (size_t i = 0; i < score->position_count; i++) {
        const icl_position_score *at = &score->positions[i];
        if (at->position < number->position || at->position > number->last)
            continue;
        sum += read_score(at, number->quantity->value_at, NOWHERE, factor).value;
        count++;
    }
    return (icl_number){sum / (double)count, 0};
}

static icl_number take(const struct icl_study_number *number, const icl_score *score) {
    const quantity *taken = number->quantity;
    const double factor = taken->is_half ? .5 : 1;

    if (!score)
        return (icl_number){(double)NAN, 0};
    if (number->position == EVERYWHERE)
        return read_score(score, taken->value, taken->error, factor);
    if (number->last != number->position)
        return take_mean(number, score, factor);
    for (size_t i = 0; i < score->position_count; i++) {
        const icl_position_score *at = &score->positions[i];
        if (at->position == number->position)
            return read_score(at, taken->value_at, taken->error_at, factor);
    }
    return (icl_number){(double)NAN, 0};
}

/* ---- Numbers of the training or of the model alone ---- */

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

/* Computes the mean, over the classes that are asked for, of the share of right answers; or the number of these
 * classes, whose inverse is the level of chance. */
static double average(const tally *tallies, size_t classes, need which) {
    double sum = 0;
    size_t asked = 0;

    for (size_t k = 0; k < classes; k++)
        if (tallies[k].asked > 0) {
            sum += (double)tallies[k].right / (double)tallies[k].asked;
            asked++;
        }
    return which == ASKED ? (double)asked : sum / (double)asked;
}

/* Asks for classes in one batch of eval.sequences sequences. */
static icl_status take_of_classes(need which, const icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                  double *value, icl_error *error) {
    const size_t sequences = (size_t)icl_evaluation_read(cell->complete).sequences;
    icl_batch batch;
    float *outputs = NULL, *targets = NULL, *weights = NULL;
    tally *tallies = NULL;

    ICL_CHECK(icl_study_batch(study, icl_trainer_task(trained), sequences, 0, 0, &batch, error));
    const size_t positions = sequences * batch.shape.scored, classes = batch.shape.outputs;
    ICL_CHECK(icl_study_room(study, positions, classes * sizeof *outputs, &outputs, error));
    ICL_CHECK(icl_study_room(study, classes, sizeof *tallies, &tallies, error));
    ICL_CHECK(icl_study_read(study, batch.targets, &targets, error));
    if (batch.weights.buffer)
        ICL_CHECK(icl_study_read(study, batch.weights, &weights, error));
    ICL_CHECK(icl_trainer_predict(trained, &batch, outputs, error));
    for (size_t i = 0; i < positions; i++)
        if (!weights || weights[i] > 0) {
            const size_t class = (size_t)targets[i];
            tallies[class].asked++;
            tallies[class].right += largest(outputs + i * classes, classes) == class;
        }
    *value = average(tallies, classes, which);
    return ICL_OK;
}

static double count_parameters(const icl_model *model, bool in_blocks) {
    double sum = 0;

    for (size_t i = 0; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        sum += !in_blocks || strncmp(info->name, "block.", 6) == 0 ? (double)info->count : 0;
    }
    return sum;
}

/* Takes a number of the training or of the model alone. */
static icl_status take_of_training(need which, const icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                   icl_number *value, icl_error *error) {
    char *folder = NULL;
    icl_status status = ICL_OK;

    *value = (icl_number){0, 0};
    if (which >= MACRO)
        return take_of_classes(which, study, cell, trained, &value->value, error);
    if (which != TRAINING) {
        value->value = count_parameters(icl_trainer_model(trained), which == IN_BLOCKS);
        return ICL_OK;
    }
    ICL_TRY(icl_study_folder(study, cell, &folder, error));
    ICL_TRY(icl_metrics_final_loss(folder, &value->value, error));
done:
    icl_free(&folder);
    return status;
}

icl_status icl_study_numbers_measure(const icl_study_numbers *numbers, const char *evaluation, const bool *needed,
                                     const icl_recipe *recipe, icl_study *study, const icl_study_cell *cell,
                                     icl_trainer *trained, icl_number *values, icl_error *error) {
    icl_evaluation *evaluated = NULL;
    bool is_needed = false, has_references = false;
    icl_status status = ICL_OK;

    for (size_t i = 0; i < numbers->count; i++)
        if (needed[i] && strcmp(numbers->rows[i].evaluation, evaluation) == 0) {
            is_needed = is_needed || !is_of_training(numbers->rows[i].quantity);
            has_references = has_references || !is_of_model(&numbers->rows[i]);
        }
    if (is_needed) /* reference predictors are computed only if a number needs them */
        ICL_TRY(icl_reproduce_evaluate_as(study->run, trained, recipe,
                                          has_references ? "" : "eval.predictors=", &evaluated, error));
    for (size_t i = 0; i < numbers->count; i++) {
        const struct icl_study_number *number = &numbers->rows[i];
        if (!needed[i] || strcmp(number->evaluation, evaluation) != 0)
            continue;
        if (is_of_training(number->quantity))
            ICL_TRY(take_of_training(number->quantity->needs, study, cell, trained, &values[i], error));
        else
            values[i] = take(number, find_score(evaluated, number->predictor));
    }
done:
    icl_evaluation_destroy(&evaluated);
    return status;
}
