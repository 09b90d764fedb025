#include "iclab/evaluate.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "run/recipe_keys.h"
#include "run/score.h"
#include "run/sequences.h"

/* Enough to fit predictors whose fit is thrown away. */
#define SEQUENCES_OF_CHECK 64

/* What predicts beside the model. */
typedef struct references {
    icl_predictors *listed; /* the recipe's; NULL: none */
    size_t listed_count;
    icl_trainer_parts own; /* the trainer's */
} references;

/* ---- Predicting ---- */

static void widen(const float *from, size_t count, double *to) {
    for (size_t i = 0; i < count; i++)
        to[i] = (double)from[i];
}

/* Predicts one chunk, whose first sequence is number `first` of the evaluation. */
static icl_status predict_chunk(icl_sequences *sequences, icl_trainer *trainer, const references *beside, size_t first,
                                double *rows, icl_outputs *all, icl_error *error) {
    const size_t left = all->sequences - first, count = left < sequences->chunk ? left : sequences->chunk;
    const size_t answers = all->shape.scored * all->shape.outputs;
    const size_t targets = all->shape.scored * icl_loss_target_size(all->shape.loss, all->shape.outputs);

    assert(all->targets && all->values);
    ICL_CHECK(icl_sequences_sample(sequences, first / sequences->chunk, error));
    ICL_CHECK(icl_sequences_predict(sequences, trainer, error));
    ICL_CHECK(icl_sequences_refer(sequences, beside->listed, count, rows, error));
    widen(sequences->targets, count * targets, all->targets + first * targets);
    if (all->weights)
        widen(sequences->weights, count * all->shape.scored, all->weights + first * all->shape.scored);
    widen(sequences->model, count * answers, icl_outputs_column(all, 0) + first * answers);
    for (size_t j = 0; j < beside->listed_count; j++)
        for (size_t i = 0; i < count * answers; i++)
            icl_outputs_column(all, j + 1)[first * answers + i] = rows[i * beside->listed_count + j];
    for (size_t j = 0; j < beside->own.reference_count; j++) {
        const icl_reference_predictor *predictor = beside->own.references[j];
        const icl_shown_sequences shown = {sequences->task, count, sequences->inputs, &sequences->batch};
        double *column = icl_outputs_column(all, 1 + beside->listed_count + j);
        ICL_CHECK(predictor->predict(predictor, &shown, column + first * answers, error));
    }
    return ICL_OK;
}

/* Draws and predicts them all. */
static icl_status predict_all(icl_backend *backend, icl_trainer *trainer, const references *beside,
                              const icl_recipe *recipe, icl_outputs *all, icl_error *error) {
    const uint32_t seed = (uint32_t)icl_recipe_count(recipe, "eval", "seed");
    icl_status status = ICL_OK;
    icl_sequences sequences = {0};
    double *rows = NULL;

    ICL_TRY(icl_sequences_create(backend, icl_trainer_task(trainer), seed, &sequences, error));
    sequences.decodes = icl_recipe_flag(recipe, "eval", "decode");
    ICL_TRY(icl_outputs_create(all, sequences.weights != NULL, error));
    ICL_TRY(icl_allocate(sequences.chunk * beside->listed_count, all->shape.scored * sizeof *rows, "predictions", &rows,
                         error));
    for (size_t first = 0; first < all->sequences; first += sequences.chunk)
        ICL_TRY(predict_chunk(&sequences, trainer, beside, first, rows, all, error));
done:
    icl_free(&rows);
    icl_sequences_release(&sequences);
    return status;
}

/* ---- Which predictors ---- */

/* The list, with the oracle and Bayes behind it: what is named twice is computed once and found by its first place. */
static icl_status complete_list(const char *asked, char **names, icl_error *error) {
    static const char *const always[] = {"oracle", "bayes"};
    const size_t capacity = strlen(asked) + sizeof ",oracle,bayes";
    const icl_status status = icl_allocate(capacity, 1, "predictor names", names, error);

    if (status != ICL_OK)
        return status;
    memcpy(*names, asked, strlen(asked));
    for (size_t i = 0; i < 2; i++) {
        const size_t used = strlen(*names);
        bool listed = false;
        for (const char *name = *names; *name != '\0';) {
            const size_t length = strcspn(name, ",");
            const size_t blanks = strspn(name, " ");
            const char *start = name + (blanks < length ? blanks : length);
            size_t word = (size_t)(name + length - start);
            while (word > 0 && start[word - 1] == ' ')
                word--;
            listed = listed || (word == strlen(always[i]) && memcmp(start, always[i], word) == 0);
            name += length + (name[length] == ',');
        }
        if (!listed)
            snprintf(*names + used, capacity - used, "%s%s", used > 0 ? "," : "", always[i]);
    }
    return ICL_OK;
}

/* How many names the user's list has: those behind it are ours and are not shown. */
static size_t count_names(const char *list) {
    size_t count = list[strspn(list, " ")] != '\0';
    for (; *list != '\0'; list++)
        count += *list == ',';
    return count;
}

static size_t find_column(const icl_predictors *predictors, const char *name) {
    size_t i = 0;
    while (i < icl_predictors_count(predictors) && strcmp(icl_predictors_name(predictors, i), name) != 0)
        i++;
    return i + 1;
}

/* ---- Evaluation ---- */

/* The column of row i of the table, its name and its constants: listed predictors that were not asked for have no
 * row. */
static size_t column_of_row(const references *beside, size_t shown, size_t i, const char **name,
                            const char **constants) {
    *constants = "";
    if (i == 0) {
        *name = "model";
        return 0;
    }
    if (i <= shown) {
        *name = icl_predictors_name(beside->listed, i - 1);
        *constants = icl_predictors_constants(beside->listed, i - 1);
        return i;
    }
    *name = beside->own.references[i - 1 - shown]->name;
    return i - shown + beside->listed_count;
}

static icl_status create_evaluation(const references *beside, const icl_outputs *all, size_t shown,
                                    icl_evaluation **evaluation, icl_error *error) {
    const size_t scored = all->shape.scored;
    icl_status status = ICL_OK;
    icl_evaluation *made = NULL;

    ICL_TRY(icl_allocate(1, sizeof *made, "evaluation", &made, error));
    made->count = 1 + shown + beside->own.reference_count;
    ICL_TRY(icl_allocate(made->count, sizeof *made->scores, "scores", &made->scores, error));
    if (scored > 1)
        ICL_TRY(icl_allocate(made->count, scored * sizeof *made->curves, "scores of positions", &made->curves, error));
    made->sequences = all->sequences;
    for (size_t i = 0; i < made->count; i++) {
        icl_score *score = &made->scores[i];
        const char *name, *constants;
        const size_t column = column_of_row(beside, shown, i, &name, &constants);
        snprintf(score->predictor, sizeof score->predictor, "%s", name);
        snprintf(score->constants, sizeof score->constants, "%s", constants ? constants : "");
        icl_outputs_score(all, column, made->curves ? made->curves + i * scored : NULL, score);
    }
    *evaluation = made;
    made = NULL;
done:
    icl_evaluation_destroy(&made);
    return status;
}

static const icl_recipe_key keys[] = {
    {"eval", "sequences", ICL_KEY_COUNT, "100000", 2, 1e8, .help = "fresh sequences of the final table"},
    {"eval", "predictors", ICL_KEY_TEXT, "oracle,bayes,ols,constrr,adarr,tunedrr",
     .help = "beside the model: oracle, bayes, ols, constrr, adarr, tunedrr, ridge, gd:K, gd++:K, pgd:K, "
             "pgd++:K"},
    {"eval", "fit_sequences", ICL_KEY_COUNT, "20000", 2, 1e8, .help = "sequences that fitted predictors are fitted on"},
    {"eval", "decode", ICL_KEY_FLAG, "false",
     .help = "a causal sequence model predicts position by position, from states"},
    {"eval", "seed", ICL_KEY_COUNT, "1", 0, ICL_MAX_SEED, .help = "of the evaluation and fitting sequences"},
};
const icl_recipe_group icl_evaluation_keys = ICL_RECIPE_GROUP(keys);

/* The recipe's predictors, the oracle and Bayes; NULL for a task that has none. */
static icl_status create_predictors(const icl_task *task, const icl_recipe *recipe, size_t fit_sequences, uint32_t seed,
                                    icl_predictors **predictors, icl_error *error) {
    const char *asked = icl_recipe_text(recipe, "eval", "predictors");
    icl_status status = ICL_OK;
    char *names = NULL;

    if (icl_task_get_prior(task)->nonlinear) {
        if (count_names(asked) > 0)
            ICL_TRY(icl_recipe_reject(recipe, "eval", "predictors", error,
                                      "nothing: reference predictors are those of linear regression"));
        if (icl_recipe_count(recipe, "eval", "every") > 0)
            ICL_TRY(icl_recipe_reject(recipe, "eval", "every", error,
                                      "0: without an oracle training is watched by its loss alone"));
        return ICL_OK;
    }
    ICL_TRY(complete_list(asked, &names, error));
    ICL_TRY(icl_predictors_create(task, names, fit_sequences, seed, predictors, error));
done:
    icl_free(&names);
    return status;
}

static icl_status check_decoding(const icl_trainer *trainer, const icl_recipe *recipe, icl_error *error) {
    return !icl_recipe_flag(recipe, "eval", "decode") || icl_model_can(icl_trainer_model(trainer), ICL_MODEL_DECODES)
               ? ICL_OK
               : icl_recipe_reject(recipe, "eval", "decode", error,
                                   "false: model.family = sequence alone decodes, causal and read out by position");
}

icl_status icl_evaluation_check(const icl_trainer *trainer, const icl_recipe *recipe, icl_error *error) {
    icl_predictors *predictors = NULL;
    icl_status status = check_decoding(trainer, recipe, error);

    if (status == ICL_OK)
        status = create_predictors(icl_trainer_task(trainer), recipe, SEQUENCES_OF_CHECK, 1, &predictors, error);
    icl_predictors_destroy(&predictors);
    return status;
}

icl_status icl_evaluate(icl_backend *backend, icl_trainer *trainer, const icl_recipe *recipe,
                        icl_evaluation **evaluation, icl_error *error) {
    const char *asked = icl_recipe_text(recipe, "eval", "predictors");
    const uint32_t seed = (uint32_t)icl_recipe_count(recipe, "eval", "seed");
    const icl_task *task = icl_trainer_task(trainer);
    references beside = {.own = icl_trainer_get_parts(trainer)};
    icl_outputs all = {.shape = *icl_task_get_shape(task),
                       .sequences = (size_t)icl_recipe_count(recipe, "eval", "sequences")};
    icl_status status = ICL_OK;

    ICL_TRY(check_decoding(trainer, recipe, error));
    if (!beside.own.task || !icl_task_get_prior(task)->nonlinear)
        ICL_TRY(create_predictors(task, recipe, (size_t)icl_recipe_count(recipe, "eval", "fit_sequences"), seed,
                                  &beside.listed, error));
    if (beside.listed) {
        beside.listed_count = icl_predictors_count(beside.listed);
        all.oracle = find_column(beside.listed, "oracle");
        all.bayes = find_column(beside.listed, "bayes");
    }
    all.columns = 1 + beside.listed_count + beside.own.reference_count;
    ICL_TRY(predict_all(backend, trainer, &beside, recipe, &all, error));
    ICL_TRY(create_evaluation(&beside, &all, beside.listed ? count_names(asked) : 0, evaluation, error));
done:
    icl_outputs_release(&all);
    icl_predictors_destroy(&beside.listed);
    return status;
}

void icl_evaluation_destroy(icl_evaluation **evaluation) {
    if (*evaluation) {
        icl_free(&(*evaluation)->scores);
        icl_free(&(*evaluation)->curves);
    }
    icl_free(evaluation);
}
