/* What the steps of a chunk left on the device: losses, norms, mishaps. */
#include <math.h>

#include "core/hash.h"
#include "train/trainer.h"

/* On the host, because the queue is empty here and a sum on the device would be two launches more. */
static icl_status check_parameters(icl_trainer *trainer, bool *are_finite, icl_error *error) {
    const size_t size = icl_model_size(trainer->model);

    *are_finite = true;
    ICL_CHECK(icl_tensor_read_double(trainer->parameters, trainer->values, error));
    for (size_t i = 0; i < size; i++)
        *are_finite = *are_finite && isfinite(trainer->values[i]);
    return ICL_OK;
}

/* Takes the numbers of one step in. */
static void take_step(icl_trainer *trainer, const double *measures) {
    const double loss = measures[ICL_HISTORY_LOSS], norm = measures[ICL_HISTORY_NORM];
    icl_mishaps *mishaps = &trainer->mishaps;
    const bool skipped = !isfinite(norm);

    trainer->losses[trainer->loss_count] = (float)loss;
    trainer->norms[trainer->loss_count++] = (float)norm;
    if (isfinite(loss)) {
        trainer->progress.loss += loss;
        trainer->finite_losses++;
    }
    if (!skipped && norm > trainer->progress.gradient_norm)
        trainer->progress.gradient_norm = norm;
    mishaps->skipped_in_a_row = skipped ? mishaps->skipped_in_a_row + 1 : 0;
    mishaps->skipped_steps += skipped;
    mishaps->dropped_sequences += (uint64_t)measures[ICL_HISTORY_DROPPED];
}

static icl_status diverge(icl_trainer *trainer, uint64_t step, const double *measures, const char *what,
                          icl_error *error) {
    trainer->diverged = true;
    icl_trainer_set_step(trainer, step);
    return icl_fail(error, ICL_ERROR_DIVERGED,
                    "training diverged at step %llu: %s; loss %g, gradient norm %g; expected finite numbers "
                    "(a lower train.learning_rate or a tighter train.clip may help)",
                    (unsigned long long)step, what, measures[ICL_HISTORY_LOSS], measures[ICL_HISTORY_NORM]);
}

static icl_status read_chunk(icl_trainer *trainer, double history[ICL_HISTORY_LENGTH], bool *are_finite,
                             icl_error *error) {
    ICL_CHECK(icl_tensor_read_double(trainer->history, history, error));
    return check_parameters(trainer, are_finite, error);
}

icl_status icl_trainer_collect(icl_trainer *trainer, uint64_t first_step, size_t count, icl_error *error) {
    double history[ICL_HISTORY_LENGTH] = {0};
    const double *measures = history, *last = history + (count - 1) * ICL_HISTORY_MEASURES;
    bool are_finite = true;
    icl_status status = icl_trainer_take_failure(trainer, error);

    if (status == ICL_OK)
        status = read_chunk(trainer, history, &are_finite, error);
    ICL_CHECK(icl_ranks_agree(trainer->ranks, status, error));
    ICL_CHECK(icl_ranks_check_same(trainer->ranks,
                                   icl_hash(trainer->values, icl_model_size(trainer->model) * sizeof(double)),
                                   "the parameters of the ranks", error));
    for (size_t i = 0; i < count; i++, measures += ICL_HISTORY_MEASURES) {
        take_step(trainer, measures);
        if (trainer->mishaps.skipped_in_a_row >= ICL_TRAIN_CHUNK)
            return diverge(trainer, first_step + i, measures, "the last 50 steps were skipped", error);
    }
    if (!are_finite)
        return diverge(trainer, first_step + count - 1, last, "the parameters are not finite", error);
    return ICL_OK;
}
