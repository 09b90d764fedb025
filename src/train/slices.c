/*
 * The gradient of a step. Its batch is taken as a whole or in slices, each of which is drawn, predicted and
 * differentiated by itself, so that memory holds one slice, and ranks can share them. Slice s of S at batch t is batch
 * number t S + s of B / S sequences. If g_s is the mean gradient of slice s, the step's gradient is
 *
 *     (g_0 + g_1 + … + g_(S-1)) / S,
 *
 * summed in this order, in double precision, on the host of every rank: the number of ranks changes where numbers are
 * computed, but not the numbers. Every rank then makes its own update from the same bits.
 */
#include <string.h>

#include "core/allocate.h"
#include "train/settings.h"
#include "train/trainer.h"

/* ---- One batch ---- */

/* A slice of the batch of a step. */
typedef struct place {
    uint64_t step;
    size_t slice;
} place;

static uint64_t number_at(const icl_training_problem *problem, place at) {
    return at.step / problem->settings.refresh * problem->plan.slices + at.slice;
}

static void draw_ahead(void *context, size_t thread, size_t count) {
    icl_ahead *ahead = context;
    const icl_training_problem *problem = ahead->problem;

    (void)thread;
    (void)count;
    ahead->status = icl_host_batch_draw(problem->task, ICL_FOR_TRAINING, problem->settings.seed, ahead->number,
                                        &ahead->host, &ahead->error);
    ahead->is_drawn = true;
}

/* Writes batch `number` to `batch`, then has the thread draw batch `next`. A batch other than the one that was drawn
 * ahead is drawn here; a failure of the thread is that of the call that asks for its batch. */
static icl_status take(icl_ahead *ahead, uint64_t number, uint64_t next, const icl_batch *batch, icl_error *error) {
    icl_threads_run_beside(ahead->team, NULL, NULL);
    if (!ahead->is_drawn || ahead->number != number) {
        ahead->number = number;
        draw_ahead(ahead, 0, 1);
    }
    ahead->is_drawn = false;
    if (ahead->status != ICL_OK && error)
        *error = ahead->error;
    ICL_CHECK(ahead->status);
    ICL_CHECK(icl_host_batch_write(&ahead->host, batch, error));
    ahead->number = next;
    if (next != ICL_NO_BATCH)
        icl_threads_run_beside(ahead->team, draw_ahead, ahead);
    return ICL_OK;
}

/* Draws a slice of this step's batch unless it is the current one. `next` is the one that is drawn after it. */
static icl_status draw(icl_trainer *trainer, size_t slice, place next, icl_error *error) {
    const icl_training_problem *problem = &trainer->problem;
    icl_trainer_state *state = &trainer->state;
    const uint64_t number = number_at(problem, (place){state->step, slice});
    const uint64_t after = next.step < problem->settings.steps ? number_at(problem, next) : ICL_NO_BATCH;

    if (state->batch_number == number)
        return ICL_OK;
    state->batch_number = ICL_NO_BATCH;
    ICL_CHECK(state->ahead.team ? take(&state->ahead, number, after, &state->batch, error)
                                : icl_task_sample(problem->task, trainer->backend, ICL_FOR_TRAINING,
                                                  problem->settings.seed, number, &state->batch, error));
    state->batch_number = number;
    return ICL_OK;
}

/* Keeps the numbers of dropout apart from those of tasks and models. */
#define DROPOUT_STREAM 0x64720000u

icl_gradient_call icl_trainer_call(const icl_trainer *trainer, const icl_batch *batch) {
    const icl_training_settings *settings = &trainer->problem.settings;
    const icl_trainer_state *state = &trainer->state;

    return (icl_gradient_call){
        .batch = batch,
        .depth = icl_training_stage_at(settings, state->step).depth,
        .window = icl_loop_window_at(&settings->loops, state->step),
        .turn_penalty = settings->turn_penalty,
        .dropout = {.key = {settings->seed, DROPOUT_STREAM, state->step}},
        .with = {.parameters = state->parameters, .gradient = state->gradient},
    };
}

/* Computes the gradient of the current batch. is_cut: gradients of sequences are cut at the threshold, if there is
 * one. */
static icl_status differentiate_batch(icl_trainer *trainer, bool is_cut, icl_tensor *losses, icl_error *error) {
    const icl_gradient_plan *plan = &trainer->problem.plan;
    const icl_trainer_state *state = &trainer->state;
    icl_gradient_call call = icl_trainer_call(trainer, &state->batch);

    call.dropout.first_sequence = state->batch_number % plan->slices * plan->sequences;
    if (plan->keeps_losses)
        call.with.losses = icl_tensor_slice(state->sequence_losses, 0, 0, plan->sequences);
    if (plan->cuts_sequences)
        call.with.norms = icl_tensor_slice(state->sequence_norms, 0, 0, plan->sequences);
    if (is_cut)
        call.with.threshold = state->threshold;
    return icl_differentiate(trainer->differentiator, &call, losses, error);
}

/* ---- Slices: the numbers of each ---- */

/* The record of a slice of b sequences, in doubles: gradient [N], then losses and norms [b], then the status of its
 * rank. */
enum { OF_SEQUENCES = 2 };

icl_status icl_trainer_create_slices(icl_trainer *trainer, icl_error *error) {
    icl_sharing *sharing = &trainer->sharing;
    const size_t batch = trainer->problem.settings.batch;

    sharing->slices = trainer->problem.plan.slices;
    sharing->sequences = trainer->problem.plan.sequences;
    sharing->parameters = icl_model_size(trainer->problem.model);
    sharing->width = sharing->parameters + OF_SEQUENCES * sharing->sequences + 1;
    const size_t longest = batch > sharing->parameters ? batch : sharing->parameters;
    ICL_CHECK(icl_allocate(sharing->slices, sharing->width * sizeof(double), "gradients of train.slices",
                           &sharing->records, error));
    return icl_allocate(longest, sizeof(double), "gradient of train.slices", &sharing->combined, error);
}

static double *record_of(const icl_sharing *sharing, size_t slice) {
    return sharing->records + slice * sharing->width;
}

/* Differentiates a slice, after which `next` is drawn. */
static icl_status differentiate_slice(icl_trainer *trainer, size_t slice, place next, bool is_cut, icl_error *error) {
    const icl_training_problem *problem = &trainer->problem;
    const icl_trainer_state *state = &trainer->state;
    const size_t sequences = problem->plan.sequences;
    double *record = record_of(&trainer->sharing, slice), *of_sequences = record + trainer->sharing.parameters;
    icl_tensor losses;

    ICL_CHECK(draw(trainer, slice, next, error));
    ICL_CHECK(differentiate_batch(trainer, is_cut, &losses, error));
    ICL_CHECK(icl_tensor_read_double(state->gradient, record, error));
    ICL_CHECK(icl_tensor_read_double(losses, of_sequences, error));
    if (problem->plan.cuts_sequences)
        ICL_CHECK(icl_tensor_read_double(icl_tensor_slice(state->sequence_norms, 0, 0, sequences),
                                         of_sequences + sequences, error));
    return ICL_OK;
}

/* Differentiates the slices of this rank. */
static icl_status differentiate_own(icl_trainer *trainer, bool is_cut, icl_error *error) {
    const uint64_t step = trainer->state.step;
    size_t first, last;

    icl_ranks_part(trainer->sharing.ranks, trainer->sharing.slices, &first, &last);
    for (size_t slice = first; slice < last; slice++) {
        const place next = slice + 1 < last ? (place){step, slice + 1} : (place){step + 1, first};
        ICL_CHECK(differentiate_slice(trainer, slice, next, is_cut, error));
    }
    return ICL_OK;
}

/* ---- Slices: failures. A failure of one rank goes to the others with the next numbers. ---- */

icl_status icl_sharing_keep_failure(icl_sharing *sharing, icl_status own, const icl_error *error) {
    if (own == ICL_OK || !sharing->ranks || sharing->ranks->count == 1)
        return own;
    if (sharing->failure == ICL_OK && error)
        sharing->failure_error = *error;
    if (sharing->failure == ICL_OK)
        sharing->failure = own;
    return ICL_OK;
}

icl_status icl_sharing_take_failure(icl_sharing *sharing, icl_error *error) {
    const icl_status status = sharing->failure;

    if (status != ICL_OK && error)
        *error = sharing->failure_error;
    sharing->failure = ICL_OK;
    return status;
}

static void mark_own(icl_sharing *sharing, icl_status own) {
    size_t first, last;

    icl_ranks_part(sharing->ranks, sharing->slices, &first, &last);
    for (size_t slice = first; slice < last; slice++)
        record_of(sharing, slice)[sharing->width - 1] = (double)own;
}

static bool all_are_well(const icl_sharing *sharing) {
    bool well = true;

    for (size_t slice = 0; slice < sharing->slices; slice++)
        well = well && record_of(sharing, slice)[sharing->width - 1] == (double)ICL_OK;
    return well;
}

/* ---- Slices: all of them ---- */

static icl_status write_gradient(const icl_sharing *sharing, icl_tensor gradient, icl_error *error) {
    const size_t size = sharing->parameters;
    double *sum = sharing->combined;

    memcpy(sum, record_of(sharing, 0), size * sizeof *sum);
    for (size_t slice = 1; slice < sharing->slices; slice++)
        for (size_t i = 0; i < size; i++)
            sum[i] += record_of(sharing, slice)[i];
    for (size_t i = 0; i < size; i++)
        sum[i] /= (double)sharing->slices;
    return icl_tensor_write_double(gradient, sum, error);
}

/* Writes the losses (which = 0) or norms (1) of all sequences. */
static icl_status write_sequences(const icl_sharing *sharing, size_t which, icl_tensor to, icl_error *error) {
    const size_t count = sharing->sequences;
    double *values = sharing->combined;

    for (size_t slice = 0; slice < sharing->slices; slice++)
        memcpy(values + slice * count, record_of(sharing, slice) + sharing->parameters + which * count,
               count * sizeof *values);
    return icl_tensor_write_double(to, values, error);
}

static icl_status write_step(const icl_trainer *trainer, icl_error *error) {
    const icl_trainer_state *state = &trainer->state;

    ICL_CHECK(write_gradient(&trainer->sharing, state->gradient, error));
    ICL_CHECK(write_sequences(&trainer->sharing, 0, state->sequence_losses, error));
    if (trainer->problem.plan.cuts_sequences)
        ICL_CHECK(write_sequences(&trainer->sharing, 1, state->sequence_norms, error));
    return ICL_OK;
}

static icl_status differentiate_slices(icl_trainer *trainer, bool is_cut, icl_tensor *losses, icl_error *error) {
    icl_sharing *sharing = &trainer->sharing;
    icl_status own = icl_sharing_take_failure(sharing, error);

    if (own == ICL_OK)
        own = differentiate_own(trainer, is_cut, error);
    mark_own(sharing, own);
    ICL_CHECK(icl_ranks_gather_rows(sharing->ranks, sharing->records, sharing->slices, sharing->width, error));
    if (!all_are_well(sharing))
        ICL_CHECK(icl_ranks_agree(sharing->ranks, own, error));
    *losses = trainer->state.sequence_losses;
    return icl_sharing_keep_failure(sharing, write_step(trainer, error), error);
}

/* ---- A step ---- */

/* Differentiates a step. Before the first step the threshold has no value, so a first pass computes the norms for
 * it. */
icl_status icl_trainer_differentiate(icl_trainer *trainer, icl_tensor dropped, icl_tensor *losses, icl_error *error) {
    const icl_training_problem *problem = &trainer->problem;
    const icl_trainer_state *state = &trainer->state;
    icl_status (*const differentiate)(icl_trainer *, bool, icl_tensor *, icl_error *) =
        problem->plan.slices > 1 ? differentiate_slices : differentiate_batch;

    const uint64_t refresh = problem->settings.refresh;
    const place next = {(state->step / refresh + 1) * refresh, 0}; /* the first step of the next batch */

    if (problem->plan.slices == 1)
        ICL_CHECK(draw(trainer, 0, next, error));
    if (problem->plan.cuts_sequences && state->step == 0) {
        ICL_CHECK(differentiate(trainer, false, losses, error));
        const icl_status status = icl_track_threshold(trainer->backend, problem->settings.update.fraction,
                                                      state->threshold, dropped, state->sequence_norms, error);
        ICL_CHECK(icl_sharing_keep_failure(&trainer->sharing, status, error));
    }
    return differentiate(trainer, true, losses, error);
}

icl_status icl_trainer_set_ranks(icl_trainer *trainer, const icl_ranks *ranks, icl_error *error) {
    if (ranks && ranks->count > trainer->problem.plan.slices)
        return icl_recipe_reject(trainer->problem.recipe, ICL_TRAIN_KEY(slices), error,
                                 "at least one for each of the %zu ranks that share the batch", ranks->count);
    trainer->sharing.ranks = ranks;
    return ICL_OK;
}
