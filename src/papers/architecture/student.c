#include "papers/architecture/student.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "papers/architecture/architecture.h"
#include "papers/architecture/distillation.h"
#include "papers/kept.h"
#include "papers/phrase.h"

void icl_student_mixer(size_t features, char text[ICL_STUDENT_MIXER]) {
    snprintf(text, ICL_STUDENT_MIXER,
             "eval.every=0 eval.predictors= model.mixer=conv,linear model.normalizer=true model.output_norm=none "
             "model.feature_map=learned:%zu",
             features);
}

icl_status icl_student_open(icl_reproducing *run, const icl_student_params *params, icl_student *student,
                            icl_error *error) {
    char mixer[ICL_STUDENT_MIXER];
    const icl_seeded_cell cell = {.name = "student", .recipe = "recall", .overrides = {mixer}, .seed = params->seed};
    float *values = NULL;
    icl_status status = ICL_OK;

    student->params = *params;
    icl_student_mixer(params->features, mixer);
    ICL_TRY(icl_reproduce_train_seed(run, &cell, &student->made, error));
    const icl_model *model = icl_trainer_model(student->made.trainer), *from = icl_trainer_model(params->teacher);
    ICL_TRY(icl_allocate(icl_model_size(from), sizeof *values, "parameters", &values, error));
    ICL_TRY(icl_allocate(icl_model_size(model), sizeof(float), "parameters", &student->swapped, error));
    ICL_TRY(icl_allocate(icl_model_size(model), sizeof(float), "parameters", &student->distilled, error));
    ICL_TRY(icl_trainer_get_parameters(params->teacher, values, error));
    ICL_TRY(icl_trainer_get_parameters(student->made.trainer, student->swapped, error));
    ICL_TRY(icl_architecture_copy(from, values, model, student->swapped, error));
    memcpy(student->distilled, student->swapped, icl_model_size(model) * sizeof(float));
done:
    icl_free(&values);
    return status;
}

void icl_student_close(icl_student *student) {
    icl_seeded_release(&student->made);
    icl_free(&student->swapped);
    icl_free(&student->distilled);
}

static icl_distillation_params params_of(const icl_student *student) {
    return (icl_distillation_params){.teacher = student->params.teacher,
                                     .student = icl_trainer_model(student->made.trainer),
                                     .steps = student->params.steps,
                                     .batch = 64,
                                     .learning_rate = .01,
                                     .seed = student->params.seed};
}

static icl_status distil(icl_reproducing *run, void *context, icl_error *error) {
    icl_student *student = context;
    const icl_distillation_params params = params_of(student);

    icl_reproduce_say(run, "distilling %zu features, %zu steps", student->params.features, params.steps);
    return icl_distillation_run(run, &params, student->distilled, &student->losses[0], &student->losses[1], error);
}

icl_status icl_student_distil(icl_reproducing *run, icl_student *student, icl_error *error) {
    const icl_distillation_params with = params_of(student);
    char made_of[192];

    icl_print(made_of, sizeof made_of,
              "%zu steps of %zu sequences with learning rate %g, seed %" PRIu32 " behind %zu, evaluation %" PRIu32,
              with.steps, with.batch, with.learning_rate, with.seed, student->params.trained, run->params->seed);
    return icl_reproduce_keep(
        run,
        &(icl_kept){.name = ICL_PHRASE("distilled-%zu-seed%" PRIu32, student->params.features, with.seed),
                    .made_of = made_of,
                    .values = student->distilled,
                    .count = icl_model_size(with.student),
                    .numbers = student->losses,
                    .number_count = 2,
                    .compute = distil,
                    .context = student},
        error);
}
