#include "core/allocate.h"
#include "train/trainer.h"

static icl_tensor vector_of(const icl_trainer *trainer, int index) {
    return index == 0 ? trainer->parameters : trainer->states[index - 1];
}

icl_status icl_training_state_create(const icl_trainer *trainer, icl_training_state *state, icl_error *error) {
    *state = (icl_training_state){.size = icl_model_size(trainer->model)};
    for (int i = 0; i < ICL_STATE_VECTORS; i++)
        ICL_CHECK(icl_allocate(state->size, sizeof(double), "training state", &state->vectors[i], error));
    return ICL_OK;
}

void icl_training_state_clear(icl_training_state *state) {
    for (int i = 0; i < ICL_STATE_VECTORS; i++)
        icl_free(&state->vectors[i]);
}

icl_status icl_trainer_read_state(icl_trainer *trainer, icl_training_state *state, icl_error *error) {
    for (int i = 0; i < ICL_STATE_VECTORS; i++)
        ICL_CHECK(icl_tensor_read_double(vector_of(trainer, i), state->vectors[i], error));
    state->threshold = 0;
    if (trainer->threshold.buffer)
        ICL_CHECK(icl_tensor_read_double(trainer->threshold, &state->threshold, error));
    state->step = trainer->step;
    return ICL_OK;
}

icl_status icl_trainer_write_state(icl_trainer *trainer, const icl_training_state *state, icl_error *error) {
    for (int i = 0; i < ICL_STATE_VECTORS; i++)
        ICL_CHECK(icl_tensor_write_double(vector_of(trainer, i), state->vectors[i], error));
    if (trainer->threshold.buffer)
        ICL_CHECK(icl_tensor_write_double(trainer->threshold, &state->threshold, error));
    trainer->diverged = false;
    trainer->mishaps = (icl_mishaps){0};
    icl_trainer_set_step(trainer, state->step);
    return ICL_OK;
}

void icl_training_state_round(icl_training_state *state) {
    for (int i = 0; i < ICL_STATE_VECTORS; i++)
        for (size_t k = 0; k < state->size; k++)
            state->vectors[i][k] = (double)(float)state->vectors[i][k];
    state->threshold = (double)(float)state->threshold;
}

icl_status icl_trainer_read_measures(icl_trainer *trainer, double *loss, double *gradient_norm, icl_error *error) {
    ICL_CHECK(icl_tensor_read_double(icl_tensor_slice(trainer->history, 0, ICL_HISTORY_LOSS, 1), loss, error));
    return icl_tensor_read_double(icl_tensor_slice(trainer->history, 0, ICL_HISTORY_NORM, 1), gradient_norm, error);
}

icl_status icl_trainer_read_gradient(icl_trainer *trainer, double *gradient, icl_error *error) {
    return icl_tensor_read_double(trainer->gradient, gradient, error);
}
