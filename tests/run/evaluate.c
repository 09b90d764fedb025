/* Tests evaluation: its numbers against the same sums made by hand, and the relations that it promises. */
#include "iclab/evaluate.h"

#include <math.h>

#include "core/allocate.h"
#include "iclab/recipe.h"
#include "recipes.h"
#include "run/evaluation.h"
#include "tap.h"

enum { SEQUENCES = 700, CHUNK = 2048 };

static icl_recipe *open_recipe(const char *predictors) {
    icl_recipe *recipe = NULL;
    char assignment[128];

    tap_need(make_recipe("",
                         "task.d=4 task.n=8 task.noise=choice:1,3 model.layers=2 "
                         "model.parameterization=diag train.batch=32 eval.sequences=700 "
                         "eval.fit_sequences=300 eval.seed=7",
                         &recipe, tap_error()));
    snprintf(assignment, sizeof assignment, "eval.predictors=%s", predictors);
    if (icl_recipe_override(recipe, assignment, NULL) != ICL_OK)
        exit(1);
    return recipe;
}

static const icl_score *find(const icl_evaluation *evaluation, const char *name) {
    for (size_t i = 0; i < evaluation->count; i++)
        if (strcmp(evaluation->scores[i].predictor, name) == 0)
            return &evaluation->scores[i];
    return NULL;
}

static bool near(double a, double b) {
    return fabs(a - b) <= 1e-12 * (fabs(a) + fabs(b));
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Predicts and sums without the evaluation's help: its sequences are the first of chunk 0 of the evaluation purpose. */
static void check_by_hand(tap_run *tap, icl_backend *backend, icl_trainer *trainer, const icl_score *model,
                          const icl_score *best) {
    const icl_task *task = icl_trainer_task(trainer);
    static float tokens[CHUNK * 9 * 5], noise[CHUNK], targets[CHUNK], predicted[CHUNK];
    static double oracle[CHUNK], distances[CHUNK], differences[CHUNK];
    double mse = 0, adjusted = 0, variance = 0, trimmed = 0, difference = 0, its_variance = 0;
    icl_predictors *predictors = NULL;
    icl_batch batch = {{0}};
    icl_error error = {0};
    size_t below = 0;
    icl_status status = icl_batch_create(task, backend, ICL_FOR_EVALUATION, CHUNK, &batch, &error);

    if (status == ICL_OK)
        status = icl_task_sample(task, backend, ICL_FOR_EVALUATION, 7, 0, &batch, &error);
    if (status == ICL_OK)
        status = icl_trainer_predict(trainer, &batch, predicted, &error);
    if (status == ICL_OK)
        status = icl_tensor_read(batch.inputs, tokens, &error);
    if (status == ICL_OK)
        status = icl_tensor_read(icl_batch_side(&batch, ICL_SIDE_NOISE), noise, &error);
    if (status == ICL_OK)
        status = icl_tensor_read(batch.targets, targets, &error);
    if (status == ICL_OK)
        status = icl_predictors_create(task, NULL, "oracle", 2, 7, &predictors, &error);
    if (status == ICL_OK)
        status = icl_predictors_run(predictors, SEQUENCES, tokens, noise, oracle, &error);
    tap_status(tap, status, &error, "the same sequences by hand");
    for (int i = 0; i < SEQUENCES; i++) {
        const double miss = (double)predicted[i] - (double)targets[i], distance = (double)predicted[i] - oracle[i];
        distances[i] = distance * distance;
        const double its_miss = oracle[i] - (double)targets[i];
        mse += miss * miss / SEQUENCES;
        differences[i] = its_miss * its_miss - miss * miss;
        difference += differences[i] / SEQUENCES;
        adjusted += distances[i] / SEQUENCES;
    }
    for (int i = 0; i < SEQUENCES; i++) {
        variance += (distances[i] - adjusted) * (distances[i] - adjusted) / (SEQUENCES - 1);
        its_variance += (differences[i] - difference) * (differences[i] - difference) / (SEQUENCES - 1);
        below += distances[i] <= model->adjusted_median;
    }
    tap_ok(tap, near(model->mse, mse), "mse %g", mse);
    tap_ok(tap, near(model->adjusted, adjusted) && model->half_adjusted == 0.5 * model->adjusted, "adjusted %g",
           adjusted);
    tap_ok(tap, near(model->half_adjusted_se, 0.5 * sqrt(variance / SEQUENCES)), "its standard error %g",
           0.5 * sqrt(variance / SEQUENCES));
    tap_ok(tap, near(best->minus_model, difference) && near(best->minus_model_se, sqrt(its_variance / SEQUENCES)),
           "the oracle less the model, sequence by sequence: %g +- %g", difference, sqrt(its_variance / SEQUENCES));
    tap_ok(tap,
           near(best->half_minus_model, -.5 * adjusted) && near(best->half_minus_model_se, model->half_adjusted_se) &&
               best->minus_model_se < .9 * hypot(best->se, model->se),
           "and by the distance to it: %g +- %g", best->half_minus_model, best->half_minus_model_se);
    tap_ok(tap, below == SEQUENCES / 2, "half of the distances lie below the median");
    qsort(distances, SEQUENCES, sizeof *distances, ascending);
    const int kept = SEQUENCES - SEQUENCES / 100;
    for (int i = 0; i < kept; i++)
        trimmed += distances[i] / kept;
    tap_ok(tap, near(model->adjusted_trimmed, trimmed), "without the largest 1 %%: %g", trimmed);
    icl_predictors_destroy(&predictors);
    icl_batch_release(&batch);
}

static void check_promises(tap_run *tap, const icl_evaluation *evaluation) {
    const icl_score *oracle = find(evaluation, "oracle"), *bayes = find(evaluation, "bayes"),
                    *ols = find(evaluation, "ols");
    const icl_score *model = find(evaluation, "model");

    tap_ok(tap, evaluation->count == 5 && evaluation->scores[0].predictor[0] == 'm',
           "the model first, then the four asked for");
    tap_ok(tap, oracle && bayes && ols && model && find(evaluation, "gd:1"), "each by its name");
    if (!oracle || !bayes || !ols || !model || !find(evaluation, "gd:1"))
        return;
    tap_ok(tap, oracle->adjusted == 0 && oracle->half_adjusted_se == 0 && isnan(oracle->half_above_bayes),
           "the oracle is at no distance from itself, and has no distance to the floor");
    tap_ok(tap, bayes->half_above_bayes == 0, "Bayes is the floor");
    tap_ok(tap, bayes->adjusted < ols->adjusted && bayes->adjusted < model->adjusted, "nobody is below it");
    /* E[mse] - E[oracle mse] = E[adjusted]: the difference of the two estimates is a mean of
     * products, within their errors. */
    tap_ok(tap, fabs(ols->mse - oracle->mse - ols->adjusted) < 4 * (ols->se + oracle->se),
           "adjusted is the excess over the oracle");
    tap_ok(tap, find(evaluation, "gd:1")->constants[0] != '\0', "fitted constants: %s",
           find(evaluation, "gd:1")->constants);
}

/* Checks the table's rows: names of the columns, then each predictor with its numbers in that order. */
static void check_table(tap_run *tap, const icl_evaluation *evaluation, const char *text) {
    static const char *const names[] = {"predictor",        "mse",         "se",          "half_adjusted", "se",
                                        "half_above_bayes", "half_median", "half_trimmed"};
    enum { COLUMNS = sizeof names / sizeof *names };
    char line[256], words[COLUMNS + 1][64];

    for (size_t row = 0; row <= evaluation->count; row++) {
        const int length = (int)strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", length, text);
        text += length + 1;
        const int count = sscanf(line, "%63s %63s %63s %63s %63s %63s %63s %63s %63s", words[0], words[1], words[2],
                                 words[3], words[4], words[5], words[6], words[7], words[8]);
        bool same = count == COLUMNS;
        for (size_t i = 0; row == 0 && same && i < COLUMNS; i++)
            same = strcmp(words[i], names[i]) == 0;
        if (row > 0 && same) {
            const icl_score *score = &evaluation->scores[row - 1];
            const double shown[] = {score->mse,
                                    score->se,
                                    score->half_adjusted,
                                    score->half_adjusted_se,
                                    score->half_above_bayes,
                                    .5 * score->adjusted_median,
                                    .5 * score->adjusted_trimmed};
            char number[16];
            same = strcmp(words[0], score->predictor) == 0;
            for (size_t i = 0; same && i + 1 < COLUMNS; i++)
                same = strcmp(words[i + 1], icl_loss_text(shown[i], number)) == 0;
        }
        tap_ok(tap, same, "the table's row %zu: %s", row, line);
    }
    const char *constants = strstr(text, "\nconstants: ");
    tap_ok(tap, constants && strncmp(strchr(constants + 1, '\n'), "\n\n", 2) == 0 && !strstr(constants, "\n\n\n"),
           "constants end their line, and the notes stand below an empty one");
}

static void check_text(tap_run *tap, const icl_evaluation *evaluation) {
    icl_error error = {0};
    char *text = NULL;

    if (tap_status(tap, icl_evaluation_table(evaluation, &text, &error), &error, "a table"))
        check_table(tap, evaluation, text);
    icl_text_free(&text);
    tap_status(tap, icl_score_json(find(evaluation, "oracle"), &text, &error), &error, "JSON");
    tap_ok(tap,
           strncmp(text, "{\"predictor\":\"oracle\",\"mse\":", 27) == 0 && strstr(text, "\"half_above_bayes\":null"),
           "%s", text);
    icl_text_free(&text);
}

/* A reference is better or worse if the difference is more than two of its standard errors. The difference is that of
 * the distances to the oracle, if there is one. */
static void check_verdicts(tap_run *tap) {
    const double nan = (double)NAN;
    const struct {
        icl_score reference;
        icl_standing verdict;
    } cases[] = {
        {{.minus_model = 2, .minus_model_se = 1, .half_minus_model = nan}, ICL_ALIKE},
        {{.minus_model = 2.001, .minus_model_se = 1, .half_minus_model = nan}, ICL_BETTER},
        {{.minus_model = -2, .minus_model_se = 1, .half_minus_model = nan}, ICL_ALIKE},
        {{.minus_model = -2.001, .minus_model_se = 1, .half_minus_model = nan}, ICL_WORSE},
        {{.minus_model = nan, .minus_model_se = nan, .half_minus_model = nan}, ICL_ALIKE},
        {{.minus_model = -9, .minus_model_se = 1, .half_minus_model = 2.001, .half_minus_model_se = 1}, ICL_BETTER},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        tap_ok(tap, icl_score_standing(&cases[i].reference) == cases[i].verdict, "verdict %zu", i);
}

/* eval.predictors changes the rows that are shown, not the numbers. */
static void check_hidden(tap_run *tap, icl_backend *backend, icl_trainer *trainer, const icl_score *model) {
    icl_recipe *recipe = open_recipe("constrr");
    icl_evaluation *evaluation = NULL;
    icl_error error = {0};

    tap_status(tap, icl_evaluate(backend, trainer, recipe, &evaluation, &error), &error,
               "evaluate without oracle and Bayes");
    tap_ok(tap,
           evaluation && evaluation->count == 2 && evaluation->scores[0].adjusted == model->adjusted &&
               evaluation->scores[0].half_above_bayes == model->half_above_bayes,
           "they are used and not shown");
    icl_evaluation_destroy(&evaluation);
    icl_recipe_destroy(&recipe);
    recipe = open_recipe("oracel");
    tap_ok(tap, icl_evaluation_check(trainer, recipe, &error) == ICL_ERROR_INPUT && strstr(error.message, "oracle"),
           "%s", error.message);
    icl_recipe_destroy(&recipe);
}

/* Evaluation during training has sequences of its own: as many as the final table's, from the same seed, give another
 * number. */
static void check_own_sequences(tap_run *tap, icl_backend *backend, icl_trainer *trainer, const icl_score *model) {
    icl_evaluator *evaluator = NULL;
    icl_error error = {0};
    double loss = 0;
    icl_status status = icl_evaluator_create(backend, icl_trainer_task(trainer), SEQUENCES, 7, &evaluator, &error);

    if (status == ICL_OK)
        status = icl_evaluator_loss(evaluator, trainer, &loss, &error);
    tap_ok(tap,
           status == ICL_OK && loss != model->half_adjusted &&
               fabs(loss - model->half_adjusted) < 6 * model->half_adjusted_se,
           "on the way %g, in the table %g +- %g: of other sequences", loss, model->half_adjusted,
           model->half_adjusted_se);
    icl_evaluator_destroy(&evaluator);
}

static void check_evaluator(tap_run *tap, icl_backend *backend, icl_trainer *trainer) {
    icl_evaluator *evaluator = NULL;
    icl_error error = {0};
    double first = 0, second = 0;

    tap_status(tap, icl_evaluator_create(backend, icl_trainer_task(trainer), 3000, 7, &evaluator, &error), &error,
               "an evaluator");
    tap_status(tap, icl_evaluator_loss(evaluator, trainer, &first, &error), &error, "its number");
    icl_evaluator_loss(evaluator, trainer, &second, NULL);
    tap_ok(tap, first > 0 && first == second, "the same each time: %g", first);
    icl_trainer_run(trainer, 20, NULL);
    icl_evaluator_loss(evaluator, trainer, &second, NULL);
    tap_ok(tap, first != second, "another after training: %g", second);
    icl_evaluator_destroy(&evaluator);
}

int main(int count, char **arguments) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, count > 1 ? arguments[1] : "cpu");
    icl_recipe *recipe = open_recipe("oracle, bayes, ols, gd:1");
    icl_trainer *trainer = NULL;
    icl_evaluation *evaluation = NULL;
    icl_error error = {0};

    if (backend && tap_status(&tap, icl_trainer_create(backend, recipe, &trainer, &error), &error, "a trainer") &&
        tap_status(&tap, icl_evaluate(backend, trainer, recipe, &evaluation, &error), &error, "evaluate")) {
        check_by_hand(&tap, backend, trainer, &evaluation->scores[0], find(evaluation, "oracle"));
        check_verdicts(&tap);
        check_promises(&tap, evaluation);
        check_text(&tap, evaluation);
        check_hidden(&tap, backend, trainer, &evaluation->scores[0]);
        check_own_sequences(&tap, backend, trainer, &evaluation->scores[0]);
        check_evaluator(&tap, backend, trainer);
    }
    icl_evaluation_destroy(&evaluation);
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
