#include "papers/trained_descent.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "model/named_matrix.h"
#include "numeric/matrix.h"
#include "numeric/statistics.h"
#include "papers/losses.h"

/* Layers that are free grow from two, which keeps them from the saddles where two of them are equal. */
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

static icl_status measure_lengths(const icl_descent_problem *problem, const icl_model *model, const float *values,
                                  icl_number *numbers, icl_error *error) {
    const size_t d = problem->dimension;
    double lengths[ICL_DESCENT_MOST_STEPS], distance = 0, to_inverse = 0, *matrix = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(d * d, sizeof *matrix, "a matrix", &matrix, error));
    for (size_t layer = 0; layer < problem->steps; layer++) {
        ICL_TRY(icl_matrix_of_model(model, values, ICL_PHRASE("layer.%zu.head.0.A", problem->is_tied ? 0 : layer), d, d,
                                    matrix, error));
        lengths[layer] = -icl_matrix_multiple(matrix, d);
        distance = fmax(distance, icl_matrix_distance(matrix, d));
        to_inverse = fmax(to_inverse, distance_to_inverse(matrix, d));
    }
    icl_sort_ascending(lengths, problem->steps);
    for (size_t k = 0; k < problem->steps; k++)
        numbers[ICL_DESCENT_LENGTHS + k].value = lengths[k];
    numbers[ICL_DESCENT_DISTANCE].value = distance;
    numbers[ICL_DESCENT_TO_INVERSE].value = to_inverse;
done:
    icl_free(&matrix);
    return status;
}

static void write_optimum(const icl_descent_problem *problem, const double *lengths, float *values) {
    const size_t d = problem->dimension, layers = problem->is_tied ? 1 : problem->steps;

    memset(values, 0, layers * d * d * sizeof *values);
    for (size_t layer = 0; layer < layers; layer++)
        for (size_t i = 0; i < d; i++)
            values[(layer * d + i) * d + i] = (float)-lengths[layer];
}

icl_status icl_study_measure_descent(icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                     size_t sequences, icl_number *numbers, icl_error *error) {
    const icl_descent_problem problem = icl_study_descent(cell);
    const size_t size = icl_model_size(icl_trainer_model(trained));
    float *values = NULL;
    double best[ICL_DESCENT_MOST_STEPS], least;
    icl_paired_loss losses[2];
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(2 * size, sizeof *values, "parameters", &values, error));
    const float *const vectors[] = {values + size, values}; /* the optimum's, and the learned ones */
    ICL_TRY(icl_descent_optimum(&problem, best, &least, error));
    write_optimum(&problem, best, values + size);
    ICL_TRY(icl_trainer_get_parameters(trained, values, error));
    ICL_TRY(measure_lengths(&problem, icl_trainer_model(trained), values, numbers, error));
    ICL_TRY(icl_reproduce_losses(study->run, trained, sequences, 2, vectors, losses, error));
    numbers[ICL_DESCENT_LOSS] = (icl_number){least + losses[1].excess, losses[1].excess_se};
done:
    icl_free(&values);
    return status;
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
