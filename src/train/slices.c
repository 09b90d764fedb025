/*
 * A step's batch in slices: each is drawn, predicted and differentiated by itself, so that memory holds one slice, and
 * ranks can share them. Slice s of S at batch t is batch number t S + s of B / S sequences. With g_s the mean gradient
 * of slice s, the step's is
 *
 *     (g_0 + g_1 + … + g_(S-1)) / S,
 *
 * summed in this order, in double precision, on the host of every rank: the number of ranks changes where numbers are
 * computed and none of the numbers. Every rank then makes its own update from the same bits.
 */
#include <string.h>

#include "core/allocate.h"
#include "train/trainer.h"

/* What is kept of a slice of b sequences, in doubles: gradient [N], then losses and norms [b], then the
 * status of its rank. */
typedef struct record_layout {
    size_t parameters, sequences, width;
} record_layout;

enum { OF_SEQUENCES = 2 };

static record_layout layout_of(const icl_trainer *trainer) {
    const size_t parameters = icl_model_size(trainer->model), sequences = trainer->batch.targets.shape[0];
    return (record_layout){parameters, sequences, parameters + OF_SEQUENCES * sequences + 1};
}

icl_status icl_trainer_create_slices(icl_trainer *trainer, icl_error *error) {
    const record_layout layout = layout_of(trainer);
    const size_t batch = layout.sequences * trainer->slices;
    const size_t longest = batch > layout.parameters ? batch : layout.parameters;

    ICL_CHECK(icl_allocate(trainer->slices, layout.width * sizeof(double), "gradients of train.slices",
                           &trainer->records, error));
    return icl_allocate(longest, sizeof(double), "gradient of train.slices", &trainer->combined, error);
}

static double *record_of(const icl_trainer *trainer, size_t slice) {
    return trainer->records + slice * layout_of(trainer).width;
}

static bool has_norms(const icl_trainer *trainer) {
    return trainer->threshold.buffer != NULL;
}

/* ---- The slices of this rank ---- */

static icl_status differentiate_slice(icl_trainer *trainer, size_t slice, bool is_cut, icl_error *error) {
    const record_layout layout = layout_of(trainer);
    double *record = record_of(trainer, slice), *of_sequences = record + layout.parameters;
    icl_tensor losses;

    ICL_CHECK(icl_trainer_draw(trainer, trainer->step / trainer->refresh * trainer->slices + slice, error));
    ICL_CHECK(icl_trainer_differentiate_batch(trainer, is_cut, &losses, error));
    ICL_CHECK(icl_tensor_read_double(trainer->gradient, record, error));
    ICL_CHECK(icl_tensor_read_double(losses, of_sequences, error));
    if (has_norms(trainer))
        ICL_CHECK(icl_tensor_read_double(icl_tensor_slice(trainer->sequence_norms, 0, 0, layout.sequences),
                                         of_sequences + layout.sequences, error));
    return ICL_OK;
}

static icl_status differentiate_own(icl_trainer *trainer, bool is_cut, icl_error *error) {
    size_t first, last;

    icl_ranks_part(trainer->ranks, trainer->slices, &first, &last);
    for (size_t slice = first; slice < last; slice++)
        ICL_CHECK(differentiate_slice(trainer, slice, is_cut, error));
    return ICL_OK;
}

/* ---- Failures: what one rank meets alone goes to the others with the next numbers ---- */

icl_status icl_trainer_keep_failure(icl_trainer *trainer, icl_status own, const icl_error *error) {
    if (own == ICL_OK || !trainer->ranks || trainer->ranks->count == 1)
        return own;
    if (trainer->failure == ICL_OK && error)
        trainer->failure_error = *error;
    if (trainer->failure == ICL_OK)
        trainer->failure = own;
    return ICL_OK;
}

icl_status icl_trainer_take_failure(icl_trainer *trainer, icl_error *error) {
    const icl_status status = trainer->failure;

    if (status != ICL_OK && error)
        *error = trainer->failure_error;
    trainer->failure = ICL_OK;
    return status;
}

static void mark_own(icl_trainer *trainer, icl_status own) {
    const size_t width = layout_of(trainer).width;
    size_t first, last;

    icl_ranks_part(trainer->ranks, trainer->slices, &first, &last);
    for (size_t slice = first; slice < last; slice++)
        record_of(trainer, slice)[width - 1] = (double)own;
}

static bool all_are_well(const icl_trainer *trainer) {
    const size_t width = layout_of(trainer).width;
    bool well = true;

    for (size_t slice = 0; slice < trainer->slices; slice++)
        well = well && record_of(trainer, slice)[width - 1] == (double)ICL_OK;
    return well;
}

/* ---- All of them ---- */

static icl_status write_gradient(icl_trainer *trainer, icl_error *error) {
    const size_t size = layout_of(trainer).parameters;
    double *sum = trainer->combined;

    memcpy(sum, record_of(trainer, 0), size * sizeof *sum);
    for (size_t slice = 1; slice < trainer->slices; slice++)
        for (size_t i = 0; i < size; i++)
            sum[i] += record_of(trainer, slice)[i];
    for (size_t i = 0; i < size; i++)
        sum[i] /= (double)trainer->slices;
    return icl_tensor_write_double(trainer->gradient, sum, error);
}

/* One of the two vectors [B], slice by slice. */
static icl_status write_sequences(icl_trainer *trainer, size_t which, icl_tensor to, icl_error *error) {
    const record_layout layout = layout_of(trainer);
    double *values = trainer->combined;

    for (size_t slice = 0; slice < trainer->slices; slice++)
        memcpy(values + slice * layout.sequences,
               record_of(trainer, slice) + layout.parameters + which * layout.sequences,
               layout.sequences * sizeof *values);
    return icl_tensor_write_double(to, values, error);
}

static icl_status write_step(icl_trainer *trainer, icl_error *error) {
    ICL_CHECK(write_gradient(trainer, error));
    ICL_CHECK(write_sequences(trainer, 0, trainer->sequence_losses, error));
    if (has_norms(trainer))
        ICL_CHECK(write_sequences(trainer, 1, trainer->sequence_norms, error));
    return ICL_OK;
}

icl_status icl_trainer_differentiate_slices(icl_trainer *trainer, bool is_cut, icl_tensor *losses, icl_error *error) {
    icl_status own = icl_trainer_take_failure(trainer, error);

    if (own == ICL_OK)
        own = differentiate_own(trainer, is_cut, error);
    mark_own(trainer, own);
    ICL_CHECK(
        icl_ranks_gather_rows(trainer->ranks, trainer->records, trainer->slices, layout_of(trainer).width, error));
    if (!all_are_well(trainer))
        ICL_CHECK(icl_ranks_agree(trainer->ranks, own, error));
    *losses = trainer->sequence_losses;
    return icl_trainer_keep_failure(trainer, write_step(trainer, error), error);
}

/* ---- Ranks ---- */

icl_status icl_trainer_set_ranks(icl_trainer *trainer, const icl_ranks *ranks, icl_error *error) {
    if (ranks && ranks->count > trainer->slices)
        return icl_recipe_reject(trainer->recipe, "train", "slices", error,
                                 "at least one for each of the %zu ranks that share the batch", ranks->count);
    trainer->ranks = ranks;
    return ICL_OK;
}

icl_status icl_trainer_follow_first(icl_trainer *trainer, icl_error *error) {
    const icl_ranks *ranks = trainer->ranks;
    icl_mishaps mishaps = trainer->mishaps;
    icl_training_state state = {0};
    icl_status status = ICL_OK;

    if (!ranks || ranks->count == 1)
        return ICL_OK;
    status = icl_training_state_create(trainer, &state, error);
    if (status == ICL_OK)
        status = icl_trainer_read_state(trainer, &state, error);
    ICL_TRY(icl_ranks_agree(ranks, status, error));
    ICL_TRY(icl_ranks_share(ranks, &state.step, sizeof state.step, error));
    ICL_TRY(icl_ranks_share(ranks, &state.threshold, sizeof state.threshold, error));
    ICL_TRY(icl_ranks_share(ranks, &mishaps, sizeof mishaps, error));
    for (int i = 0; i < ICL_STATE_VECTORS; i++)
        ICL_TRY(icl_ranks_share(ranks, state.vectors[i], state.size * sizeof(double), error));
    status = icl_trainer_write_state(trainer, &state, error);
    trainer->mishaps = mishaps;
    ICL_TRY(icl_ranks_agree(ranks, status, error));
done:
    icl_training_state_clear(&state);
    return status;
}
