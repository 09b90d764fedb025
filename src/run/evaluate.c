#include "iclab/evaluate.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "core/safetensors.h"
#include "iclab/model_file.h"
#include "run/evaluation.h"
#include "run/recipe_keys.h"

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

/* ---- Evaluators: one number on a few fixed sequences, for watching a training run ---- */

enum { MODEL = 0, ORACLE }; /* columns of the tally */

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
    return icl_sequences_sample(&evaluator->sequences, ICL_FIRST_CHUNK_IN_TRAINING + first / evaluator->sequences.chunk,
                                error);
}

static icl_status consult_oracle(icl_evaluator *evaluator, uint32_t seed, icl_error *error) {
    icl_sequences *sequences = &evaluator->sequences;
    icl_status status = ICL_OK;
    icl_predictors *oracle = NULL;

    ICL_TRY(icl_predictors_create(sequences->task, "oracle", 2, seed, &oracle, error));
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
    const size_t oracle = icl_task_get_prior(task)->nonlinear ? 0 : ORACLE;
    icl_status status = ICL_OK;
    icl_evaluator *made = NULL;

    ICL_TRY(icl_allocate(1, sizeof *made, "evaluator", &made, error));
    ICL_TRY(icl_sequences_create(backend, task, seed, &made->sequences, error));
    made->tally =
        (icl_tally){.shape = *shape, .sequences = sequences, .columns = 1 + oracle, .oracle = oracle, .bayes = oracle};
    ICL_TRY(icl_tally_create(&made->tally, made->sequences.weights != NULL, error));
    ICL_TRY(icl_allocate(made->sequences.chunk * shape->scored, shape->outputs * sizeof *made->outputs, "predictions",
                         &made->outputs, error));
    if (oracle > 0)
        ICL_TRY(consult_oracle(made, seed, error));
    *evaluator = made;
    made = NULL;
done:
    icl_evaluator_destroy(&made);
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

/* ---- Predictions of a model as a file ---- */

enum { TOKENS = 0, TARGETS, NOISE, PREDICTIONS, VECTORS };

/* The whole file, on the host. */
typedef struct evaluation_prompts {
    size_t count, elements; /* sequences, and numbers in the tokens of one */
    float *values[VECTORS];
} evaluation_prompts;

static icl_status reserve_prompts(evaluation_prompts *all, icl_error *error) {
    size_t total;

    if (!icl_multiply_sizes(all->count, all->elements, &total))
        return icl_fail(error, ICL_ERROR_MEMORY, "eval.sequences: the tokens of %zu overflow the address space",
                        all->count);
    for (int i = 0; i < VECTORS; i++)
        ICL_CHECK(icl_allocate(i == TOKENS ? total : all->count, sizeof(float),
                               "prompts (fewer eval.sequences need less)", &all->values[i], error));
    return ICL_OK;
}

static icl_status fill_prompts(icl_sequences *sequences, icl_trainer *trainer, evaluation_prompts *all,
                               icl_error *error) {
    assert(all->values[TOKENS] && all->values[TARGETS] && all->values[NOISE] && all->values[PREDICTIONS]);
    for (size_t first = 0; first < all->count; first += sequences->chunk) {
        const size_t left = all->count - first, count = left < sequences->chunk ? left : sequences->chunk;
        ICL_CHECK(icl_sequences_sample(sequences, first / sequences->chunk, error));
        ICL_CHECK(icl_sequences_predict(sequences, trainer, error));
        ICL_CHECK(icl_sequences_refer(sequences, NULL, count, NULL, error));
        memcpy(all->values[TOKENS] + first * all->elements, sequences->inputs, count * all->elements * sizeof(float));
        memcpy(all->values[TARGETS] + first, sequences->targets, count * sizeof(float));
        memcpy(all->values[NOISE] + first, sequences->noise, count * sizeof(float));
        memcpy(all->values[PREDICTIONS] + first, sequences->model, count * sizeof(float));
    }
    return ICL_OK;
}

/* The file has one target and one prediction of a sequence. */
static icl_status require_regression(const icl_task_shape *shape, icl_error *error) {
    char text[ICL_TASK_SHAPE_TEXT];

    if (shape->scored == 1 && shape->outputs == 1 && shape->inputs > 0)
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT,
                    "predictions: the task has %s, expected coordinates and one output at one position",
                    icl_task_shape_text(shape, text));
}

icl_status icl_predictions_write(icl_backend *backend, icl_trainer *trainer, const icl_recipe *recipe, const char *path,
                                 icl_error *error) {
    const icl_task *task = icl_trainer_task(trainer);
    const size_t rows = icl_task_context(task) + 1, columns = icl_task_dimension(task) + 1;
    icl_sequences sequences = {0};
    evaluation_prompts all = {.count = (size_t)icl_recipe_count(recipe, "eval", "sequences"),
                              .elements = rows * columns};
    icl_status status = ICL_OK;

    ICL_TRY(require_regression(icl_task_get_shape(task), error));
    ICL_TRY(reserve_prompts(&all, error));
    ICL_TRY(icl_sequences_create(backend, task, (uint32_t)icl_recipe_count(recipe, "eval", "seed"), &sequences, error));
    ICL_TRY(fill_prompts(&sequences, trainer, &all, error));
    const icl_named_tensor tensors[VECTORS] = {
        {.name = "tokens", .rank = 3, .shape = {all.count, rows, columns}, .data = all.values[TOKENS]},
        {.name = "targets", .rank = 1, .shape = {all.count}, .data = all.values[TARGETS]},
        {.name = "noise", .rank = 1, .shape = {all.count}, .data = all.values[NOISE]},
        {.name = "predictions", .rank = 1, .shape = {all.count}, .data = all.values[PREDICTIONS]},
    };
    ICL_TRY(icl_safetensors_write(path, tensors, VECTORS, NULL, 0, error));
done:
    icl_sequences_release(&sequences);
    for (int i = 0; i < VECTORS; i++)
        icl_free(&all.values[i]);
    return status;
}
