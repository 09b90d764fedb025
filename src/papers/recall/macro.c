#include "papers/recall/macro.h"

#include "core/allocate.h"

/* What a class was asked for, and how often that was answered. */
typedef struct tally {
    size_t asked, right;
} tally;

static size_t largest(const float *outputs, size_t count) {
    size_t at = 0;
    for (size_t k = 1; k < count; k++)
        if (outputs[k] > outputs[at])
            at = k;
    return at;
}

/* The mean over the classes that are asked for; their number is the inverse of the level of chance. */
static double macro(const tally *of, size_t classes, size_t *asked) {
    double sum = 0;

    *asked = 0;
    for (size_t k = 0; k < classes; k++)
        if (of[k].asked > 0) {
            sum += (double)of[k].right / (double)of[k].asked;
            (*asked)++;
        }
    return sum / (double)*asked;
}

icl_status icl_recall_macro_measure(const icl_reproducing *run, icl_trainer *trainer, size_t sequences,
                                    icl_recall_macro *to, icl_error *error) {
    const icl_task *task = icl_trainer_task(trainer);
    icl_batch batch = {0};
    float *outputs = NULL, *targets = NULL, *weights = NULL;
    tally *of = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_batch_create(task, run->params->backend, ICL_FOR_EVALUATION, sequences, &batch, error));
    ICL_TRY(icl_task_sample(task, run->params->backend, ICL_FOR_EVALUATION, run->params->seed, 0, &batch, error));
    const size_t positions = sequences * batch.shape.scored, classes = batch.shape.outputs;
    ICL_TRY(icl_allocate(positions, classes * sizeof *outputs, "outputs", &outputs, error));
    ICL_TRY(icl_allocate(positions, sizeof *targets, "targets", &targets, error));
    ICL_TRY(icl_allocate(positions, sizeof *weights, "weights", &weights, error));
    ICL_TRY(icl_allocate(classes, sizeof *of, "accuracies", &of, error));
    ICL_TRY(icl_tensor_read(batch.targets, targets, error));
    ICL_TRY(icl_tensor_read(batch.weights, weights, error));
    ICL_TRY(icl_trainer_predict(trainer, &batch, outputs, error));
    for (size_t i = 0; i < positions; i++)
        if (weights[i] > 0) {
            const size_t class = (size_t)targets[i];
            of[class].asked++;
            of[class].right += largest(outputs + i * classes, classes) == class;
        }
    to->accuracy = macro(of, classes, &to->classes);
done:
    icl_free(&outputs);
    icl_free(&targets);
    icl_free(&weights);
    icl_free(&of);
    icl_batch_release(&batch);
    return status;
}
