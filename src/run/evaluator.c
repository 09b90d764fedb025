/* One number on a few fixed sequences, for watching a training run. */
#include <assert.h>

#include "core/allocate.h"
#include "iclab/evaluate.h"
#include "run/sequences.h"
#include "run/tally.h"

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

static icl_status sample(icl_evaluator *evaluator, size_t first, icl_error *error) {
    assert(evaluator->sequences.chunk > 0);
    return icl_sequences_sample(&evaluator->sequences, ICL_FIRST_CHUNK_IN_TRAINING + first / evaluator->sequences.chunk,
                                error);
}

static icl_status consult(icl_evaluator *evaluator, uint32_t seed, icl_error *error) {
    icl_sequences *sequences = &evaluator->sequences;
    icl_status status = ICL_OK;
    icl_predictors *oracle = NULL;

    ICL_TRY(icl_predictors_create(sequences->task, "oracle", 2, seed, &oracle, error));
    for (size_t first = 0; first < evaluator->tally.sequences; first += sequences->chunk) {
        const size_t count = size_of_chunk(evaluator, first);
        ICL_TRY(sample(evaluator, first, error));
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
        ICL_TRY(consult(made, seed, error));
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
        ICL_CHECK(sample(evaluator, first, error));
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
