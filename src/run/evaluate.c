/* Evaluations: tallies of losses, the final table, and one number for watching a training. */
#include "iclab/evaluate.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "baseline/predictors.h"
#include "core/allocate.h"
#include "iclab/recipe.h"
#include "iclab/status.h"
#include "iclab/task_family.h"
#include "numeric/statistics.h"
#include "run/evaluation.h"
#include "run/recipe_keys.h"
#include "train/trainer.h"

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
