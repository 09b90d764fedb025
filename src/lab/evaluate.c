#include "iclab/evaluate.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "lab/sequences.h"

/* The share of the largest squared distances that the trimmed mean leaves out. */
#define TRIMMED_PER_CENT 1

/* Enough to fit predictors whose fit is thrown away. */
#define SEQUENCES_OF_CHECK 64

/* Everything that was predicted, for every sequence. Column 0 is the model's. */
typedef struct predictions {
    size_t sequences, columns;
    double *values;       /* [columns][sequences] */
    double *targets;      /* [sequences] */
    double *squares;      /* [sequences], scratch */
    size_t oracle, bayes; /* columns; 0: there are no reference predictors */
} predictions;

static double *column(const predictions *all, size_t index) {
    return all->values + index * all->sequences;
}

static void release_predictions(predictions *all) {
    icl_free(&all->values);
    icl_free(&all->targets);
    icl_free(&all->squares);
}

/* ---- Statistics, in a fixed order of summation ---- */

static double mean_of(const double *values, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return sum / (double)count;
}

static double standard_error_of(const double *values, size_t count, double mean) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (values[i] - mean) * (values[i] - mean);
    return sqrt(sum / (double)(count - 1) / (double)count);
}

/* (a - b)^2 of two columns, into all->squares. */
static const double *squared_distance(const predictions *all, const double *a, const double *b) {
    for (size_t i = 0; i < all->sequences; i++)
        all->squares[i] = (a[i] - b[i]) * (a[i] - b[i]);
    return all->squares;
}

/* NaN counts as largest: it sorts last. */
static int compare_numbers(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    if (isnan(x) || isnan(y))
        return !!isnan(x) - !!isnan(y);
    return x < y ? -1 : x > y;
}

/* Median and trimmed mean of all->squares, which it sorts. */
static void measure_tail(const predictions *all, icl_score *score) {
    const size_t count = all->sequences, kept = count - count * TRIMMED_PER_CENT / 100;

    assert(all->squares);
    qsort(all->squares, count, sizeof *all->squares, compare_numbers);
    score->adjusted_median =
        count % 2 ? all->squares[count / 2] : 0.5 * (all->squares[count / 2 - 1] + all->squares[count / 2]);
    score->adjusted_trimmed = mean_of(all->squares, kept);
}

static void score_column(const predictions *all, size_t index, icl_score *score) {
    const double *predicted = column(all, index), *squares;
    const size_t count = all->sequences;

    squares = squared_distance(all, predicted, all->targets);
    score->mse = mean_of(squares, count);
    score->se = standard_error_of(squares, count, score->mse);
    if (all->oracle == 0) {
        score->adjusted = score->adjusted_se = score->half_adjusted = score->half_adjusted_se = (double)NAN;
        score->half_above_bayes = score->adjusted_median = score->adjusted_trimmed = (double)NAN;
        return;
    }

    squares = squared_distance(all, predicted, column(all, all->bayes));
    score->half_above_bayes = index == all->oracle ? (double)NAN : 0.5 * mean_of(squares, count);

    squares = squared_distance(all, predicted, column(all, all->oracle));
    score->adjusted = mean_of(squares, count);
    score->adjusted_se = standard_error_of(squares, count, score->adjusted);
    score->half_adjusted = 0.5 * score->adjusted;
    score->half_adjusted_se = 0.5 * score->adjusted_se;
    measure_tail(all, score);
}

/* ---- Predicting ---- */

static icl_status allocate_predictions(predictions *all, icl_error *error) {
    icl_status status = ICL_OK;
    size_t elements;

    if (!icl_multiply_sizes(all->sequences, all->columns, &elements))
        return icl_fail(error, ICL_ERROR_MEMORY, "eval.sequences: %zu predictions overflow the address space",
                        all->sequences);
    ICL_TRY(icl_allocate(elements, sizeof(double), "predictions (fewer eval.sequences need less)",
                         &all->values, error));
    ICL_TRY(icl_allocate(all->sequences, sizeof(double), "targets", &all->targets, error));
    ICL_TRY(icl_allocate(all->sequences, sizeof(double), "squared distances", &all->squares, error));
done:
    return status;
}

/* Predicts one chunk, whose first sequence is number `first` of the evaluation. */
static icl_status predict_chunk(icl_sequences *sequences, icl_trainer *trainer,
                                const icl_predictors *predictors, size_t first, double *rows,
                                predictions *all, icl_error *error) {
    const size_t left = all->sequences - first, count = left < sequences->chunk ? left : sequences->chunk;
    const size_t references = all->columns - 1;
    icl_status status = ICL_OK;

    assert(all->targets && all->values);
    ICL_TRY(icl_sequences_sample(sequences, first / sequences->chunk, error));
    ICL_TRY(icl_sequences_predict(sequences, trainer, error));
    ICL_TRY(icl_sequences_refer(sequences, predictors, count, rows, error));
    for (size_t i = 0; i < count; i++) {
        all->targets[first + i] = (double)sequences->targets[i];
        column(all, 0)[first + i] = (double)sequences->model[i];
        for (size_t j = 0; j < references; j++)
            column(all, j + 1)[first + i] = rows[i * references + j];
    }
done:
    return status;
}

static icl_status predict_all(icl_backend *backend, icl_trainer *trainer, const icl_predictors *predictors,
                              uint32_t seed, predictions *all, icl_error *error) {
    icl_status status = ICL_OK;
    icl_sequences sequences = {0};
    double *rows = NULL;

    ICL_TRY(icl_sequences_create(backend, icl_trainer_task(trainer), seed, &sequences, error));
    ICL_TRY(icl_allocate(sequences.chunk * (all->columns - 1), sizeof *rows, "predictions", &rows, error));
    for (size_t first = 0; first < all->sequences; first += sequences.chunk)
        ICL_TRY(predict_chunk(&sequences, trainer, predictors, first, rows, all, error));
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

static icl_status create_evaluation(const icl_predictors *predictors, const predictions *all, size_t shown,
                                    icl_evaluation **evaluation, icl_error *error) {
    icl_status status = ICL_OK;
    icl_evaluation *made = NULL;

    ICL_TRY(icl_allocate(1, sizeof *made, "evaluation", &made, error));
    ICL_TRY(icl_allocate(shown + 1, sizeof *made->scores, "scores", &made->scores, error));
    made->count = shown + 1;
    made->sequences = all->sequences;
    for (size_t i = 0; i < made->count; i++) {
        icl_score *score = &made->scores[i];
        const char *constants = i == 0 ? "" : icl_predictors_constants(predictors, i - 1);
        snprintf(score->predictor, sizeof score->predictor, "%s",
                 i == 0 ? "model" : icl_predictors_name(predictors, i - 1));
        snprintf(score->constants, sizeof score->constants, "%s", constants ? constants : "");
        score_column(all, i, score);
    }
    *evaluation = made;
    made = NULL;
done:
    icl_evaluation_destroy(&made);
    return status;
}

/* The recipe's predictors, the oracle and Bayes; NULL for a task that has none. */
static icl_status create_predictors(const icl_task *task, const icl_recipe *recipe, size_t fit_sequences,
                                    uint32_t seed, icl_predictors **predictors, icl_error *error) {
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

icl_status icl_evaluation_check(const icl_task *task, const icl_recipe *recipe, icl_error *error) {
    icl_predictors *predictors = NULL;
    const icl_status status = create_predictors(task, recipe, SEQUENCES_OF_CHECK, 1, &predictors, error);

    icl_predictors_destroy(&predictors);
    return status;
}

icl_status icl_evaluate(icl_backend *backend, icl_trainer *trainer, const icl_recipe *recipe,
                        icl_evaluation **evaluation, icl_error *error) {
    const char *asked = icl_recipe_text(recipe, "eval", "predictors");
    const uint32_t seed = (uint32_t)icl_recipe_count(recipe, "eval", "seed");
    icl_status status = ICL_OK;
    icl_predictors *predictors = NULL;
    predictions all = {.sequences = (size_t)icl_recipe_count(recipe, "eval", "sequences"), .columns = 1};

    ICL_TRY(create_predictors(icl_trainer_task(trainer), recipe,
                              (size_t)icl_recipe_count(recipe, "eval", "fit_sequences"), seed, &predictors,
                              error));
    if (predictors) {
        all.columns = icl_predictors_count(predictors) + 1;
        all.oracle = find_column(predictors, "oracle");
        all.bayes = find_column(predictors, "bayes");
    }
    ICL_TRY(allocate_predictions(&all, error));
    ICL_TRY(predict_all(backend, trainer, predictors, seed, &all, error));
    ICL_TRY(create_evaluation(predictors, &all, count_names(asked), evaluation, error));
done:
    release_predictions(&all);
    icl_predictors_destroy(&predictors);
    return status;
}

void icl_evaluation_destroy(icl_evaluation **evaluation) {
    if (*evaluation)
        icl_free(&(*evaluation)->scores);
    icl_free(evaluation);
}
