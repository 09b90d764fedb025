#include "papers/losses.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "numeric/statistics.h"
#include "run/evaluation.h"

/* The recipe with these overrides, for a model that is trained: one that grows has all its layers from the start. */
static icl_status make_other(const icl_recipe *recipe, const char *overrides, icl_recipe **other, icl_error *error) {
    ICL_CHECK(icl_recipe_clone(recipe, other, error));
    ICL_CHECK(icl_reproduce_override(*other, error, "train.growth=0"));
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

/* Sums over the sequences so far, of one vector. */
typedef struct sums {
    double loss, square, excess, excess_square;
    double product, product_square, targets, predictions; /* y y^, its square, y^2 and y^^2 */
} sums;

/* Adds the squared errors of one vector on the chunk at hand; `first` [count] receives those of vector 0,
 * and is read by the others. */
static icl_status add_chunk(icl_sequences *sequences, icl_trainer *trainer, const float *parameters, bool is_first,
                            size_t count, double *first, sums *to, icl_error *error) {
    ICL_CHECK(icl_trainer_set_parameters(trainer, parameters, error));
    ICL_CHECK(icl_sequences_predict(sequences, trainer, error));
    for (size_t i = 0; i < count; i++) {
        const double prediction = (double)sequences->model[i], target = (double)sequences->targets[i];
        const double loss = (prediction - target) * (prediction - target), product = prediction * target;
        if (is_first)
            first[i] = loss;
        to->loss += loss;
        to->square += loss * loss;
        to->excess += loss - first[i];
        to->excess_square += (loss - first[i]) * (loss - first[i]);
        to->product += product;
        to->product_square += product * product;
        to->targets += target * target;
        to->predictions += prediction * prediction;
    }
    return ICL_OK;
}

static icl_paired_loss loss_of(const sums *of, size_t count) {
    const double n = (double)count, size = sqrt(of->targets * of->predictions);
    icl_paired_loss loss = {.mse = of->loss / n,
                            .se = icl_standard_error_of_sums(of->loss, of->square, count),
                            .excess = of->excess / n,
                            .excess_se = icl_standard_error_of_sums(of->excess, of->excess_square, count)};

    if (size > 0) {
        loss.cosine = of->product / size;
        loss.cosine_se = icl_standard_error_of_sums(of->product, of->product_square, count) * n / size;
    }
    return loss;
}

static icl_status add_all(const icl_reproducing *run, icl_sequences *sequences, icl_trainer *trainer, size_t total,
                          size_t count, const float *const *parameters, double *first, sums *to, icl_error *error) {
    const size_t chunk = sequences->chunk;
    for (size_t number = 0, done = 0; done < total; number++, done += chunk) {
        const size_t left = total - done, used = left < chunk ? left : chunk;
        ICL_CHECK(icl_reproduce_poll(run, error));
        ICL_CHECK(icl_sequences_sample(sequences, number, error));
        ICL_CHECK(icl_tensor_read(sequences->batch.targets, sequences->targets, error));
        for (size_t i = 0; i < count; i++)
            ICL_CHECK(add_chunk(sequences, trainer, parameters[i], i == 0, used, first, &to[i], error));
    }
    return ICL_OK;
}

icl_status icl_reproduce_losses(const icl_reproducing *run, icl_trainer *trainer, size_t sequences, size_t count,
                                const float *const *parameters, icl_paired_loss *losses, icl_error *error) {
    icl_sequences drawn = {0};
    float *own = NULL;
    double *first = NULL;
    sums *to = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(icl_model_size(icl_trainer_model(trainer)), sizeof *own, "parameters", &own, error));
    ICL_TRY(icl_allocate(count, sizeof *to, "sums of losses", &to, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, own, error));
    ICL_TRY(icl_sequences_create(run->params->backend, icl_trainer_task(trainer), run->params->seed, &drawn, error));
    ICL_TRY(icl_allocate(drawn.chunk, sizeof *first, "losses", &first, error));
    ICL_TRY(add_all(run, &drawn, trainer, sequences, count, parameters, first, to, error));
    for (size_t i = 0; i < count; i++)
        losses[i] = loss_of(&to[i], sequences);
    ICL_TRY(icl_trainer_set_parameters(trainer, own, error));
done:
    icl_sequences_release(&drawn);
    icl_free(&own);
    icl_free(&first);
    icl_free(&to);
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
