#include "iclab/evaluate.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "run/recipe_keys.h"
#include "run/reference_set.h"
#include "run/sequences.h"
#include "run/tally.h"

/* Enough to fit predictors whose fit is thrown away. */
#define SEQUENCES_OF_CHECK 64

/* ---- Predicting ---- */

/* What a chunk is predicted into. */
typedef struct workspace {
    double *estimates; /* [chunk][S][predictors of regression] */
    double *outputs;   /* [chunk][S][q], of one predictor */
} workspace;

/* The model's outputs, or those of the reference predictor of row `row`, for the first `count` sequences at hand. */
static icl_status predict_row(const icl_sequences *sequences, const icl_reference_set *beside, size_t row, size_t count,
                              const workspace *w, icl_error *error) {
    const icl_task_shape *shape = icl_task_get_shape(sequences->task);
    const size_t numbers = count * shape->scored * shape->outputs;
    const icl_shown_sequences shown = {sequences->task, count, sequences->inputs, &sequences->batch};
    const icl_reference_row *reference = row > 0 ? &beside->items[row - 1] : NULL;

    if (reference && reference->predictor)
        return reference->predictor->predict(reference->predictor, &shown, w->outputs, error);
    for (size_t i = 0; i < numbers; i++)
        w->outputs[i] = reference ? w->estimates[i * icl_predictors_count(beside->regression) + reference->estimate]
                                  : (double)sequences->model[i];
    return ICL_OK;
}

/* Predicts one chunk, whose first sequence is number `first` of the evaluation. */
static icl_status predict_chunk(icl_sequences *sequences, icl_trainer *trainer, const icl_reference_set *beside,
                                size_t first, const workspace *w, icl_tally *tally, icl_error *error) {
    const size_t left = tally->sequences - first, count = left < sequences->chunk ? left : sequences->chunk;

    assert(w->outputs);
    ICL_CHECK(icl_sequences_sample(sequences, first / sequences->chunk, error));
    ICL_CHECK(icl_sequences_predict(sequences, trainer, error));
    ICL_CHECK(icl_sequences_refer(sequences, beside->regression, count, w->estimates, error));
    if (tally->weights)
        icl_tally_weigh(tally, first, count, sequences->weights);
    for (size_t row = 0; row <= beside->count; row++) {
        ICL_CHECK(predict_row(sequences, beside, row, count, w, error));
        icl_tally_add(tally, row, first, count, w->outputs, sequences->targets);
    }
    return ICL_OK;
}

/* Draws and predicts them all. */
static icl_status predict_all(icl_backend *backend, icl_trainer *trainer, const icl_reference_set *beside,
                              const icl_recipe *recipe, icl_tally *tally, icl_error *error) {
    const uint32_t seed = (uint32_t)icl_recipe_count(recipe, "eval", "seed");
    const size_t scored = tally->shape.scored;
    icl_status status = ICL_OK;
    icl_sequences sequences = {0};
    workspace w = {0};

    ICL_TRY(icl_sequences_create(backend, icl_trainer_task(trainer), seed, &sequences, error));
    sequences.decodes = icl_recipe_flag(recipe, "eval", "decode");
    ICL_TRY(icl_tally_create(tally, sequences.weights != NULL, error));
    if (beside->regression)
        ICL_TRY(icl_allocate(sequences.chunk * icl_predictors_count(beside->regression), scored * sizeof *w.estimates,
                             "predictions", &w.estimates, error));
    ICL_TRY(icl_allocate(sequences.chunk * scored, tally->shape.outputs * sizeof *w.outputs, "predictions", &w.outputs,
                         error));
    for (size_t first = 0; first < tally->sequences; first += sequences.chunk)
        ICL_TRY(predict_chunk(&sequences, trainer, beside, first, &w, tally, error));
done:
    icl_free(&w.estimates);
    icl_free(&w.outputs);
    icl_sequences_release(&sequences);
    return status;
}

/* ---- Evaluation ---- */

static void describe(const icl_reference_row *of, const icl_task *task, char text[ICL_CONSTANTS_CAPACITY]) {
    if (of->predictor && of->predictor->describe)
        of->predictor->describe(of->predictor, task, text, ICL_CONSTANTS_CAPACITY);
    else
        snprintf(text, ICL_CONSTANTS_CAPACITY, "%s", of->constants);
}

static icl_status create_evaluation(const icl_task *task, const icl_reference_set *beside, const icl_tally *tally,
                                    icl_evaluation **evaluation, icl_error *error) {
    const size_t scored = tally->shape.scored;
    icl_status status = ICL_OK;
    icl_evaluation *made = NULL;

    ICL_TRY(icl_allocate(1, sizeof *made, "evaluation", &made, error));
    made->count = 1 + beside->shown;
    ICL_TRY(icl_allocate(made->count, sizeof *made->scores, "scores", &made->scores, error));
    if (scored > 1)
        ICL_TRY(icl_allocate(made->count, scored * sizeof *made->curves, "scores of positions", &made->curves, error));
    made->sequences = tally->sequences;
    for (size_t i = 0; i < made->count; i++) {
        const icl_reference_row model = {.name = "model", .constants = ""};
        const icl_reference_row *of = i > 0 ? &beside->items[i - 1] : &model;
        icl_score *score = &made->scores[i];
        snprintf(score->predictor, sizeof score->predictor, "%s", of->name);
        describe(of, task, score->constants);
        icl_tally_score(tally, i, made->curves ? made->curves + i * scored : NULL, score);
    }
    *evaluation = made;
    made = NULL;
done:
    icl_evaluation_destroy(&made);
    return status;
}

static const icl_recipe_key keys[] = {
    {"eval", "sequences", ICL_KEY_COUNT, "100000", 2, 1e8, .help = "fresh sequences of the final table"},
    {"eval", "predictors", ICL_KEY_TEXT, "all",
     .help = "all, or some of oracle, bayes, ols, constrr, adarr, tunedrr, ridge, gd:K, gd++:K, pgd:K, pgd++:K"},
    {"eval", "fit_sequences", ICL_KEY_COUNT, "20000", 2, 1e8, .help = "sequences that fitted predictors are fitted on"},
    {"eval", "decode", ICL_KEY_FLAG, "false",
     .help = "a causal sequence model predicts position by position, from states"},
    {"eval", "seed", ICL_KEY_COUNT, "1", 0, ICL_MAX_SEED, .help = "of the evaluation and fitting sequences"},
};
const icl_recipe_group icl_evaluation_keys = ICL_RECIPE_GROUP(keys);

static icl_status check_decoding(const icl_trainer *trainer, const icl_recipe *recipe, icl_error *error) {
    return !icl_recipe_flag(recipe, "eval", "decode") || icl_model_can(icl_trainer_model(trainer), ICL_MODEL_DECODES)
               ? ICL_OK
               : icl_recipe_reject(recipe, "eval", "decode", error,
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

/* The place of the column of this name, behind the model's. */
static size_t find_column(const icl_reference_set *beside, const char *name) {
    for (size_t i = 0; beside->regression && i < beside->count; i++)
        if (!beside->items[i].predictor && strcmp(beside->items[i].name, name) == 0)
            return i + 1;
    return 0;
}

icl_status icl_evaluate(icl_backend *backend, icl_trainer *trainer, const icl_recipe *recipe,
                        icl_evaluation **evaluation, icl_error *error) {
    const uint32_t seed = (uint32_t)icl_recipe_count(recipe, "eval", "seed");
    icl_reference_set beside = {0};
    icl_tally tally = {.shape = *icl_task_get_shape(icl_trainer_task(trainer)),
                       .sequences = (size_t)icl_recipe_count(recipe, "eval", "sequences")};
    icl_status status = ICL_OK;

    ICL_TRY(check_decoding(trainer, recipe, error));
    ICL_TRY(icl_reference_set_create(trainer, recipe, (size_t)icl_recipe_count(recipe, "eval", "fit_sequences"), seed,
                                     &beside, error));
    tally.columns = 1 + beside.count;
    tally.oracle = find_column(&beside, "oracle");
    tally.bayes = find_column(&beside, "bayes");
    ICL_TRY(predict_all(backend, trainer, &beside, recipe, &tally, error));
    ICL_TRY(create_evaluation(icl_trainer_task(trainer), &beside, &tally, evaluation, error));
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
