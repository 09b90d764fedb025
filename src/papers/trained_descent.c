#include "papers/trained_descent.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "model/named_matrix.h"
#include "numeric/matrix.h"
#include "numeric/statistics.h"
#include "papers/losses.h"

void icl_descent_training_name(const icl_descent_training *training, char name[ICL_TRAINED_DESCENT_NAME]) {
    const icl_descent_problem *of = &training->problem;

    snprintf(name, ICL_TRAINED_DESCENT_NAME, "%s-d%zu-n%zu-L%zu", of->is_tied ? "tied" : "untied", of->dimension,
             of->context, of->steps);
}

bool icl_descent_training_wanted(const icl_reproducing *run, const icl_descent_training *training) {
    char name[ICL_TRAINED_DESCENT_NAME];

    icl_descent_training_name(training, name);
    return icl_reproduce_wants(run, name);
}

void icl_trained_descent_release(icl_trained_descent *trained) {
    icl_trainer_destroy(&trained->trainer);
    icl_recipe_destroy(&trained->recipe);
}

/* Layers that are free grow from two, which keeps them from the saddles where two of them are equal. */
static icl_status train(icl_reproducing *run, const icl_descent_training *training, icl_trained_descent *trained,
                        icl_error *error) {
    const icl_descent_problem *of = &training->problem;
    const size_t stages = !of->is_tied && of->steps > 2 ? of->steps - 2 : 0;
    char name[ICL_TRAINED_DESCENT_NAME];

    icl_descent_training_name(training, name);
    ICL_CHECK(icl_reproduce_recipe("precondition-depth", &trained->recipe, error));
    ICL_CHECK(icl_reproduce_override(trained->recipe, error, "task.d=%zu", of->dimension));
    ICL_CHECK(icl_reproduce_override(trained->recipe, error, "task.n=%zu", of->context));
    ICL_CHECK(icl_reproduce_override(trained->recipe, error, "model.layers=%zu", of->steps));
    ICL_CHECK(icl_reproduce_override(trained->recipe, error, "model.tied=%s", of->is_tied ? "true" : "false"));
    ICL_CHECK(icl_reproduce_override(trained->recipe, error, "train.growth=%zu", stages > 0 ? training->stage : 0));
    ICL_CHECK(
        icl_reproduce_override(trained->recipe, error, "train.steps=%zu", stages * training->stage + training->last));
    return icl_reproduce_cell(run, name, trained->recipe, NULL, &trained->trainer, error);
}

static double distance_to_inverse(const double *matrix, size_t d) {
    double sum = 0;

    for (size_t i = 0; i < d * d; i++) {
        const double apart = matrix[i] + (i % (d + 1) == 0 ? 1 : 0);
        sum += apart * apart;
    }
    return sqrt(sum / (double)d);
}

/* The step lengths of A [d][d] of every layer, or of the one that all are. */
static icl_status read_lengths(const icl_descent_problem *problem, const float *values, double *matrix,
                               icl_trained_descent *trained, icl_error *error) {
    const size_t d = problem->dimension;
    char name[64];

    for (size_t layer = 0; layer < problem->steps; layer++) {
        snprintf(name, sizeof name, "layer.%zu.head.0.A", problem->is_tied ? 0 : layer);
        ICL_CHECK(icl_matrix_of_model(icl_trainer_model(trained->trainer), values, name, d, d, matrix, error));
        trained->lengths[layer] = -icl_matrix_multiple(matrix, d);
        trained->distance = fmax(trained->distance, icl_matrix_distance(matrix, d));
        trained->to_inverse = fmax(trained->to_inverse, distance_to_inverse(matrix, d));
    }
    icl_sort_ascending(trained->lengths, problem->steps);
    return ICL_OK;
}

static void write_optimum(const icl_descent_problem *problem, const double *lengths, float *values) {
    const size_t d = problem->dimension, layers = problem->is_tied ? 1 : problem->steps;

    memset(values, 0, layers * d * d * sizeof *values);
    for (size_t layer = 0; layer < layers; layer++)
        for (size_t i = 0; i < d; i++)
            values[(layer * d + i) * d + i] = (float)-lengths[layer];
}

static icl_status compare(icl_reproducing *run, const icl_descent_training *training, icl_trained_descent *trained,
                          icl_error *error) {
    const size_t d = training->problem.dimension, size = icl_model_size(icl_trainer_model(trained->trainer));
    float *values = NULL, *optimum = NULL;
    double *matrix = NULL;
    icl_paired_loss losses[2];
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(size, sizeof *values, "parameters", &values, error));
    ICL_TRY(icl_allocate(size, sizeof *optimum, "parameters", &optimum, error));
    ICL_TRY(icl_allocate(d * d, sizeof *matrix, "a matrix", &matrix, error));
    ICL_TRY(icl_trainer_get_parameters(trained->trainer, values, error));
    ICL_TRY(read_lengths(&training->problem, values, matrix, trained, error));
    write_optimum(&training->problem, trained->best, optimum);
    const float *const vectors[] = {optimum, values};
    ICL_TRY(icl_reproduce_losses(run, trained->trainer, training->sequences, 2, vectors, losses, error));
    trained->loss = trained->least + losses[1].excess;
    trained->standard_error = losses[1].excess_se;
done:
    icl_free(&values);
    icl_free(&optimum);
    icl_free(&matrix);
    return status;
}

icl_status icl_train_descent(icl_reproducing *run, const icl_descent_training *training, icl_trained_descent *trained,
                             icl_error *error) {
    ICL_CHECK(icl_descent_optimum(&training->problem, trained->best, &trained->least, error));
    ICL_CHECK(train(run, training, trained, error));
    return compare(run, training, trained, error);
}

icl_status icl_judge_descent(icl_reproducing *run, const icl_descent_training *training,
                             const icl_trained_descent *trained, double tolerance, icl_criterion criterion,
                             icl_error *error) {
    char name[ICL_TRAINED_DESCENT_NAME], note[128];
    double of_lengths;

    icl_descent_training_name(training, name);
    ICL_CHECK(icl_descent_loss(&training->problem, trained->lengths, &of_lengths, error));
    icl_print(note, sizeof note, "optimum's and the difference to it; of a I alone %.5g; Dist(A, I) at most %.3f",
              of_lengths, trained->distance);
    return ICL_FOUND(run, error, .what = name, .quantity = "squared error", .ours = trained->loss,
                     .standard_error = trained->standard_error, .target = trained->least,
                     .tolerance = tolerance * trained->least, .criterion = criterion, .evidence = ICL_COMPUTED,
                     .source = "exact optimum", .note = note);
}
