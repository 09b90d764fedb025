#include "papers/measures.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/random.h"
#include "model/model.h"
#include "numeric/matrix.h"
#include "numeric/statistics.h"
#include "run/evaluation.h"
#include "train/settings.h"

/* ---- Evaluations and losses ---- */

/* Makes the recipe with these overrides, for a trained model: one that grows has all its layers from the start. */
static icl_status make_other(const icl_recipe *recipe, const char *overrides, icl_recipe **other, icl_error *error) {
    ICL_CHECK(icl_recipe_clone(recipe, other, error));
    ICL_CHECK(icl_recipe_set_count(*other, ICL_TRAIN_KEY(growth), 0, error));
    return icl_reproduce_override_all(*other, overrides, error);
}

icl_status icl_reproduce_evaluate_as(const icl_reproducing *run, icl_trainer *trained, const icl_recipe *recipe,
                                     const char *overrides, icl_evaluation **evaluation, icl_error *error) {
    icl_recipe *other = NULL;
    icl_trainer *trainer = NULL;
    float *parameters = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_poll(run, error));
    ICL_TRY(make_other(recipe, overrides, &other, error));
    ICL_TRY(icl_trainer_create(run->params->backend, other, &trainer, error));
    ICL_TRY(
        icl_allocate(icl_model_size(icl_trainer_model(trained)), sizeof *parameters, "parameters", &parameters, error));
    ICL_TRY(icl_trainer_get_parameters(trained, parameters, error));
    ICL_TRY(icl_trainer_set_parameters(trainer, parameters, error));
    ICL_TRY(icl_evaluate(run->params->backend, trainer, other, evaluation, error));
done:
    icl_free(&parameters);
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&other);
    return status;
}

const icl_score *icl_reproduce_score(const icl_evaluation *evaluation, const char *name) {
    for (size_t i = 0; i < evaluation->count; i++)
        if (strcmp(evaluation->scores[i].predictor, name) == 0)
            return &evaluation->scores[i];
    return NULL;
}

icl_status icl_reproduce_accuracy_as(const icl_reproducing *run, icl_trainer *trained, const icl_recipe *recipe,
                                     const char *overrides, double *accuracy, icl_error *error) {
    icl_evaluation *evaluation = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_evaluate_as(run, trained, recipe, overrides, &evaluation, error));
    *accuracy = evaluation->scores[0].accuracy;
done:
    icl_evaluation_destroy(&evaluation);
    return status;
}

/* Sums over the sequences so far, for one vector. */
typedef struct sums {
    double loss, square, excess, excess_square;
    double product, product_square, targets, predictions; /* y y^, its square, y^2 and y^^2 */
} sums;

/* Adds the squared errors of one vector on the current chunk; `first` [count] receives those of vector 0, and is read
 * for the others. */
static icl_status add_chunk(icl_sequences *sequences, icl_trainer *trainer, const float *parameters, bool is_first,
                            size_t count, double *first, sums *total, icl_error *error) {
    ICL_CHECK(icl_trainer_set_parameters(trainer, parameters, error));
    ICL_CHECK(icl_sequences_predict(sequences, trainer, error));
    for (size_t i = 0; i < count; i++) {
        const double prediction = (double)sequences->model[i], target = (double)sequences->targets[i];
        const double loss = (prediction - target) * (prediction - target), product = prediction * target;
        if (is_first)
            first[i] = loss;
        total->loss += loss;
        total->square += loss * loss;
        total->excess += loss - first[i];
        total->excess_square += (loss - first[i]) * (loss - first[i]);
        total->product += product;
        total->product_square += product * product;
        total->targets += target * target;
        total->predictions += prediction * prediction;
    }
    return ICL_OK;
}

static icl_paired_loss loss_of(const sums *total, size_t count) {
    const double n = (double)count, size = sqrt(total->targets * total->predictions);
    icl_paired_loss loss = {.mse = total->loss / n,
                            .se = icl_standard_error_of_sums(total->loss, total->square, count),
                            .excess = total->excess / n,
                            .excess_se = icl_standard_error_of_sums(total->excess, total->excess_square, count)};

    if (size > 0) {
        loss.cosine = total->product / size;
        loss.cosine_se = icl_standard_error_of_sums(total->product, total->product_square, count) * n / size;
    }
    return loss;
}

static icl_status add_all(const icl_reproducing *run, icl_sequences *sequences, icl_trainer *trainer, size_t total,
                          size_t count, const float *const *parameters, double *first, sums *all, icl_error *error) {
    const size_t chunk = sequences->chunk;
    for (size_t number = 0, done = 0; done < total; number++, done += chunk) {
        const size_t left = total - done, used = left < chunk ? left : chunk;
        ICL_CHECK(icl_reproduce_poll(run, error));
        ICL_CHECK(icl_sequences_sample(sequences, number, error));
        ICL_CHECK(icl_tensor_read(sequences->batch.targets, sequences->targets, error));
        for (size_t i = 0; i < count; i++)
            ICL_CHECK(add_chunk(sequences, trainer, parameters[i], i == 0, used, first, &all[i], error));
    }
    return ICL_OK;
}

icl_status icl_reproduce_losses(const icl_reproducing *run, icl_trainer *trainer, size_t sequences, size_t count,
                                const float *const *parameters, icl_paired_loss *losses, icl_error *error) {
    icl_sequences drawn = {0};
    float *own = NULL;
    double *first = NULL;
    sums *total = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(icl_model_size(icl_trainer_model(trainer)), sizeof *own, "parameters", &own, error));
    ICL_TRY(icl_allocate(count, sizeof *total, "sums of losses", &total, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, own, error));
    ICL_TRY(icl_sequences_create(run->params->backend, icl_trainer_task(trainer), run->params->seed, &drawn, error));
    ICL_TRY(icl_allocate(drawn.chunk, sizeof *first, "losses", &first, error));
    ICL_TRY(add_all(run, &drawn, trainer, sequences, count, parameters, first, total, error));
    for (size_t i = 0; i < count; i++)
        losses[i] = loss_of(&total[i], sequences);
    ICL_TRY(icl_trainer_set_parameters(trainer, own, error));
done:
    icl_sequences_release(&drawn);
    icl_free(&own);
    icl_free(&first);
    icl_free(&total);
    return status;
}

icl_status icl_reproduce_losses_as(const icl_reproducing *run, const icl_recipe *recipe, const char *overrides,
                                   size_t sequences, size_t count, const float *const *parameters,
                                   icl_paired_loss *losses, icl_error *error) {
    icl_recipe *other = NULL;
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(make_other(recipe, overrides, &other, error));
    ICL_TRY(icl_trainer_create(run->params->backend, other, &trainer, error));
    ICL_TRY(icl_reproduce_losses(run, trainer, sequences, count, parameters, losses, error));
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&other);
    return status;
}

icl_status icl_study_loss(const icl_study *study, icl_trainer *trainer, size_t sequences, icl_number *loss,
                          icl_error *error) {
    float *values = NULL;
    icl_paired_loss paired;

    ICL_CHECK(icl_study_parameters(study, trainer, &values, error));
    ICL_CHECK(icl_reproduce_losses(study->run, trainer, sequences, 1, (const float *const[]){values}, &paired, error));
    *loss = (icl_number){paired.mse, paired.se};
    return ICL_OK;
}

icl_status icl_study_put_parameters(const icl_study *study, icl_trainer *trainer, icl_tensor *parameters,
                                    icl_error *error) {
    const size_t size = icl_model_size(icl_trainer_model(trainer));
    float *values = NULL;

    *parameters = (icl_tensor){0};
    ICL_CHECK(icl_study_parameters(study, trainer, &values, error));
    ICL_CHECK(icl_tensor_create(study->run->params->backend, 1, &size, parameters, error));
    return icl_tensor_write(*parameters, values, error);
}

/* ---- Layers that descend ---- */

/* Free layers grow from two layers, which keeps them from the saddles at which two layers are equal. */
const icl_study_cell *icl_study_add_descent(icl_study *study, const icl_descent_problem *problem,
                                            const icl_descent_budget *budget, const char *curve, double x) {
    const size_t d = problem->dimension, n = problem->context, layers = problem->steps;
    const size_t stages = !problem->is_tied && layers > 2 ? layers - 2 : 0;

    return ICL_ADD_CELL(study,
                        .name = ICL_PHRASE("%s-d%zu-n%zu-L%zu", problem->is_tied ? "tied" : "untied", d, n, layers),
                        .recipe = "precondition-depth",
                        .settings = {ICL_PHRASE("task.d=%zu task.n=%zu model.layers=%zu model.tied=%s", d, n, layers,
                                                problem->is_tied ? "true" : "false"),
                                     ICL_PHRASE("train.growth=%zu train.steps=%zu", stages > 0 ? budget->stage : 0,
                                                stages * budget->stage + budget->last)},
                        .at = {d, n, layers, problem->is_tied}, .curve = curve, .x = x);
}

icl_descent_problem icl_study_descent(const icl_study_cell *cell) {
    return (icl_descent_problem){
        .dimension = cell->at[0], .context = cell->at[1], .steps = cell->at[2], .is_tied = cell->at[3] > 0};
}

static double distance_to_inverse(const double *matrix, size_t d) {
    double sum = 0;

    for (size_t i = 0; i < d * d; i++) {
        const double apart = matrix[i] + (i % (d + 1) == 0 ? 1 : 0);
        sum += apart * apart;
    }
    return sqrt(sum / (double)d);
}

static icl_status measure_lengths(const icl_study *study, const icl_descent_problem *problem, const icl_model *model,
                                  const float *values, icl_number *numbers, icl_error *error) {
    const size_t d = problem->dimension;
    double lengths[ICL_DESCENT_MOST_STEPS], distance = 0, to_inverse = 0, *matrix = NULL;

    ICL_CHECK(icl_study_room(study, d * d, sizeof *matrix, &matrix, error));
    for (size_t layer = 0; layer < problem->steps; layer++) {
        ICL_CHECK(icl_matrix_of_model(model, values, ICL_PHRASE("layer.%zu.head.0.A", problem->is_tied ? 0 : layer), d,
                                      d, matrix, error));
        lengths[layer] = -icl_matrix_multiple(matrix, d);
        distance = fmax(distance, icl_matrix_distance(matrix, d));
        to_inverse = fmax(to_inverse, distance_to_inverse(matrix, d));
    }
    icl_sort_ascending(lengths, problem->steps);
    for (size_t k = 0; k < problem->steps; k++)
        numbers[ICL_DESCENT_LENGTHS + k].value = lengths[k];
    numbers[ICL_DESCENT_DISTANCE].value = distance;
    numbers[ICL_DESCENT_TO_INVERSE].value = to_inverse;
    return ICL_OK;
}

static void write_optimum(const icl_descent_problem *problem, const double *lengths, float *values) {
    const size_t d = problem->dimension, layers = problem->is_tied ? 1 : problem->steps;

    for (size_t layer = 0; layer < layers; layer++)
        for (size_t i = 0; i < d; i++)
            values[(layer * d + i) * d + i] = (float)-lengths[layer];
}

icl_status icl_study_measure_descent(icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                     size_t sequences, icl_number *numbers, icl_error *error) {
    const icl_descent_problem problem = icl_study_descent(cell);
    const icl_model *model = icl_trainer_model(trained);
    float *learned = NULL, *optimum = NULL;
    double best[ICL_DESCENT_MOST_STEPS], least;
    icl_paired_loss losses[2];

    ICL_CHECK(icl_study_parameters(study, trained, &learned, error));
    ICL_CHECK(icl_study_room(study, icl_model_size(model), sizeof *optimum, &optimum, error));
    ICL_CHECK(icl_descent_optimum(&problem, best, &least, error));
    write_optimum(&problem, best, optimum);
    ICL_CHECK(measure_lengths(study, &problem, model, learned, numbers, error));
    ICL_CHECK(icl_reproduce_losses(study->run, trained, sequences, 2, (const float *const[]){optimum, learned}, losses,
                                   error));
    numbers[ICL_DESCENT_LOSS] = (icl_number){least + losses[1].excess, losses[1].excess_se};
    return ICL_OK;
}

icl_best_descent icl_study_best_descent(const icl_study *study, const icl_study_cell *cell) {
    const icl_descent_problem problem = icl_study_descent(cell);
    icl_best_descent best = {.loss = (double)NAN};

    ICL_STUDY_CALL(study, icl_descent_optimum, &problem, best.lengths, &best.loss);
    return best;
}

void icl_study_judge_descent(icl_study *study, const icl_study_cell *cell, double tolerance, icl_criterion criterion) {
    const icl_descent_problem problem = icl_study_descent(cell);
    const double least = icl_study_best_descent(study, cell).loss;
    double lengths[ICL_DESCENT_MOST_STEPS], scalar_loss = (double)NAN;

    for (size_t k = 0; k < problem.steps; k++)
        lengths[k] = cell->numbers[ICL_DESCENT_LENGTHS + k].value;
    ICL_STUDY_CALL(study, icl_descent_loss, &problem, lengths, &scalar_loss);
    ICL_JUDGE(study, .quantity = "squared error", ICL_OURS(cell->numbers[ICL_DESCENT_LOSS]), .target = least,
              .tolerance = tolerance * least, .criterion = criterion, .evidence = ICL_COMPUTED,
              .source = "exact optimum",
              .note = ICL_PHRASE("optimum's and the difference to it; of a I alone %.5g; Dist(A, I) at most %.3f",
                                 scalar_loss, cell->numbers[ICL_DESCENT_DISTANCE].value));
}

/* ---- Sample covariances ---- */

#define WISHART_STREAM 0x77697368u

void icl_wishart_sample(size_t d, size_t n, uint32_t seed, uint64_t number, double *row, double *matrix) {
    const icl_random_key key = {.seed = seed, .stream = WISHART_STREAM, .step = number};

    memset(matrix, 0, d * d * sizeof *matrix);
    for (uint64_t k = 0; k < n; k++) {
        for (size_t i = 0; i < d; i++)
            row[i] = (double)icl_normal_from_word(icl_random_word(key, k * d + i));
        for (size_t i = 0; i < d; i++)
            for (size_t j = 0; j <= i; j++)
                matrix[i * d + j] += row[i] * row[j] / (double)n;
    }
    for (size_t i = 0; i < d; i++)
        for (size_t j = i + 1; j < d; j++)
            matrix[i * d + j] = matrix[j * d + i];
}

icl_status icl_wishart_mean(size_t d, size_t n, uint32_t seed, size_t count, icl_spectral_function *function,
                            const void *user, double *mean, double *standard_error, icl_error *error) {
    double *work = NULL, *values = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(2 * d * d + 4 * d, sizeof *work, "a sample covariance", &work, error));
    ICL_TRY(icl_allocate(count, sizeof *values, "samples", &values, error));
    double *const matrix = work, *const vectors = work + d * d, *const eigenvalues = vectors + d * d;
    for (size_t i = 0; i < count; i++) {
        icl_wishart_sample(d, n, seed, i, eigenvalues, matrix);
        if (!icl_symmetric_eigen(d, matrix, eigenvalues, vectors, eigenvalues + d))
            ICL_TRY(icl_fail(error, ICL_ERROR_INPUT, "sample covariance %zu: its eigenvalues were not found", i));
        values[i] = function(user, d, eigenvalues);
    }
    *mean = icl_mean(values, count);
    *standard_error = icl_standard_error(values, count);
done:
    icl_free(&work);
    icl_free(&values);
    return status;
}

/* ---- Curvature of the expected loss of loops ---- */

typedef struct steps {
    size_t count;
    double length;
} steps;

/* icl_spectral_function */
static double curvature_of(const void *user, size_t d, const double *s) {
    const steps *total = user;
    double sum = 0;

    for (size_t p = 0; p < d; p++)
        for (size_t q = 0; q < d; q++) {
            const double r_p = 1 - total->length * s[p], r_q = 1 - total->length * s[q];
            double h = 0, g = 0;
            if (p == q)
                continue;
            for (size_t m = 0; m < total->count; m++)
                h = h * r_q + pow(r_p, (double)m);
            for (size_t m = 0; m + 1 < total->count; m++)
                g += (double)(total->count - 1 - m) * pow(r_p, (double)(total->count - 2 - m)) * pow(r_q, (double)m);
            sum += s[p] * s[p] * h * h - 2 * s[p] * s[q] * pow(r_p, (double)total->count) * g;
        }
    return sum / (double)(d * (d - 1));
}

icl_status icl_looped_skew_curvature(const icl_descent_problem *problem, double a, uint32_t seed, size_t count,
                                     double *curvature, double *standard_error, icl_error *error) {
    const steps total = {problem->steps, a};

    return icl_wishart_mean(problem->dimension, problem->context, seed, count, curvature_of, &total, curvature,
                            standard_error, error);
}
