/* Settings and trainings that the studies of arXiv 2310.01082 share, and views of the loss of a trained model. */
#include "papers/landscape/landscape.h"

/* ---- The paper's settings, which its studies share ---- */

const char *const icl_landscape_optimizers[ICL_LANDSCAPE_OPTIMIZERS] = {"adam", "sgd"};
const char *const icl_landscape_labels[ICL_LANDSCAPE_OPTIMIZERS] = {"Adam", "SGD with momentum"};

const icl_landscape_setting icl_landscape_settings[ICL_LANDSCAPE_SETTINGS] = {
    {"S1", "normal inputs, n = 20", "normal", 20, {.02, .02}, 1},
    {"S2", "normal inputs, n = 5", "normal", 5, {.005, .01}, 1},
    {"S3", "heavy-tailed inputs, n = 20", "gamma:0.1,10", 20, {.02, .02}, 1},
    {"sphere", "inputs on the unit sphere, n = 20", "sphere", 20, {.1, 5}, .1},
};

/* ---- Trainings by their settings ---- */

icl_phrase icl_landscape_name(const icl_landscape_cell *cell) {
    const icl_landscape_setting *setting = &icl_landscape_settings[cell->setting];
    const bool has_own_rate = cell->rate > 0 && cell->rate != setting->rates[cell->optimizer];

    return icl_phrase_print("%s-%s-L%zu%s%s-steps%zu", setting->name, icl_landscape_optimizers[cell->optimizer],
                            cell->layers, has_own_rate ? ICL_PHRASE("-rate%.3g", cell->rate) : "",
                            cell->softmax ? "-softmax" : "", cell->steps);
}

icl_phrase icl_landscape_changes(const icl_landscape_cell *cell) {
    const icl_landscape_setting *setting = &icl_landscape_settings[cell->setting];

    return icl_phrase_print("task.n=%zu task.inputs=%s model.layers=%zu model.scale=%s train.optimizer=%s "
                            "train.learning_rate=%.9g train.clip=%.9g train.steps=%zu eval.seed=1",
                            setting->context, setting->inputs, cell->layers, cell->softmax ? "softmax" : "mean",
                            icl_landscape_optimizers[cell->optimizer],
                            cell->rate > 0 ? cell->rate : setting->rates[cell->optimizer], setting->clip, cell->steps);
}

const icl_study_cell *icl_landscape_find(const icl_study *study, size_t first, size_t second, size_t third,
                                         size_t fourth) {
    for (size_t i = 0; i < study->count; i++) {
        const size_t *at = study->cells[i]->at;
        if (at[0] == first && at[1] == second && at[2] == third && at[3] == fourth)
            return study->cells[i];
    }
    return NULL;
}

/* ---- Views of the loss ---- */

icl_status icl_landscape_view_open(const icl_study *study, icl_trainer *trainer, size_t sequences,
                                   icl_landscape_view *view, icl_error *error) {
    const icl_objective_params params = {.task = icl_trainer_task(trainer),
                                         .model = icl_trainer_model(trainer),
                                         .purpose = ICL_FOR_EVALUATION,
                                         .sequences = sequences};

    *view = (icl_landscape_view){.trainer = trainer, .size = icl_model_size(params.model)};
    ICL_CHECK(icl_objective_create(&params, &view->objective, error));
    ICL_CHECK(icl_objective_draw(view->objective, study->run->params->seed, 0, error));
    ICL_CHECK(icl_study_room(study, view->size, sizeof *view->held, &view->held, error));
    ICL_CHECK(icl_study_room(study, view->size, sizeof *view->at, &view->at, error));
    return icl_landscape_view_look(view, error);
}

icl_status icl_landscape_view_look(icl_landscape_view *view, icl_error *error) {
    ICL_CHECK(icl_trainer_get_parameters(view->trainer, view->held, error));
    for (size_t i = 0; i < view->size; i++)
        view->at[i] = (double)view->held[i];
    return ICL_OK;
}

icl_status icl_landscape_view_go(const icl_study *study, const icl_study_cell *cell, uint64_t step,
                                 icl_landscape_view *view, icl_error *error) {
    ICL_CHECK(icl_reproduce_poll(study->run, error));
    ICL_CHECK(icl_study_go_to_step(study, cell, step, view->trainer, error));
    return icl_landscape_view_look(view, error);
}

void icl_landscape_view_close(icl_landscape_view *view) {
    icl_objective_destroy(&view->objective);
}
