/* The adjusted loss on a few fixed sequences, for watching a training run. */
#include <assert.h>

#include "core/allocate.h"
#include "iclab/evaluate.h"
#include "run/sequences.h"

struct icl_evaluator {
    icl_sequences sequences;
    size_t count;
    double *oracle; /* [count][S] */
};

static size_t size_of_chunk(const icl_evaluator *evaluator, size_t first) {
    const size_t left = evaluator->count - first;
    return left < evaluator->sequences.chunk ? left : evaluator->sequences.chunk;
}

static icl_status sample(icl_evaluator *evaluator, size_t first, icl_error *error) {
    assert(evaluator->sequences.chunk > 0);
    return icl_sequences_sample(&evaluator->sequences, ICL_FIRST_CHUNK_IN_TRAINING + first / evaluator->sequences.chunk,
                                error);
}

icl_status icl_evaluator_create(icl_backend *backend, const icl_task *task, size_t sequences, uint32_t seed,
                                icl_evaluator **evaluator, icl_error *error) {
    const size_t scored = icl_task_get_shape(task)->scored;
    icl_status status = ICL_OK;
    icl_evaluator *made = NULL;
    icl_predictors *oracle = NULL;

    ICL_TRY(icl_allocate(1, sizeof *made, "evaluator", &made, error));
    made->count = sequences;
    ICL_TRY(icl_sequences_create(backend, task, seed, &made->sequences, error));
    ICL_TRY(icl_allocate(sequences, scored * sizeof *made->oracle, "oracle predictions", &made->oracle, error));
    ICL_TRY(icl_predictors_create(task, "oracle", 2, seed, &oracle, error));
    for (size_t first = 0; first < sequences; first += made->sequences.chunk) {
        ICL_TRY(sample(made, first, error));
        ICL_TRY(icl_sequences_refer(&made->sequences, oracle, size_of_chunk(made, first), made->oracle + first * scored,
                                    error));
    }
    *evaluator = made;
    made = NULL;
done:
    icl_predictors_destroy(&oracle);
    icl_evaluator_destroy(&made);
    return status;
}

void icl_evaluator_destroy(icl_evaluator **evaluator) {
    if (*evaluator) {
        icl_sequences_release(&(*evaluator)->sequences);
        icl_free(&(*evaluator)->oracle);
    }
    icl_free(evaluator);
}

icl_status icl_evaluator_half_adjusted(icl_evaluator *evaluator, icl_trainer *trainer, double *half_adjusted,
                                       icl_error *error) {
    const size_t scored = evaluator->sequences.batch.shape.scored;
    double sum = 0;

    for (size_t first = 0; first < evaluator->count; first += evaluator->sequences.chunk) {
        ICL_CHECK(sample(evaluator, first, error));
        ICL_CHECK(icl_sequences_predict(&evaluator->sequences, trainer, error));
        for (size_t i = 0; i < size_of_chunk(evaluator, first) * scored; i++) {
            const double distance = (double)evaluator->sequences.model[i] - evaluator->oracle[first * scored + i];
            sum += distance * distance;
        }
    }
    *half_adjusted = 0.5 * sum / (double)(evaluator->count * scored);
    return ICL_OK;
}
