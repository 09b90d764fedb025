#include "papers/gradient_descent/gradient_descent.h"

#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "papers/losses.h"
#include "run/sequences.h"

icl_gd_step icl_gd_best_step(double a, size_t d, size_t n) {
    const double v = a * a / 3, fourth = a * a * a * a / 5, D = (double)d, N = (double)n;
    const double trace = N * D * v;
    /* E tr S^2 = n E |x|^4 + n (n - 1) d v^2, E |x|^4 = d E x^4 + d (d - 1) v^2. */
    const double square = N * (D * fourth + D * (D - 1) * v * v) + N * (N - 1) * D * v * v;

    return (icl_gd_step){.rate = trace / square, .half_loss = v / 2 * (D - trace * trace / square)};
}

void icl_gd_construct(const icl_model *model, const icl_descent *descent, size_t d, size_t n, float *values) {
    for (size_t i = 0; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        const char part = info->name[strlen(info->name) - 1];
        const size_t layer = (size_t)strtoull(info->name + strlen("layer."), NULL, 10);
        const double rate = descent->rates[layer], input = descent->inputs ? descent->inputs[layer] : 0;
        const double x = part == 'P' ? -input : part == 'A' ? -rate * (double)n : (double)n;
        const double y = part == 'P' ? -rate : 0;
        float *const at = values + info->offset;

        memset(at, 0, info->count * sizeof *at);
        if (info->rank == 1) { /* entries for inputs and, but for gd++'s Q, for the label */
            at[0] = (float)x;
            if (info->count > 1)
                at[1] = (float)y;
            continue;
        }
        for (size_t k = 0; k < info->shape[0]; k++)
            at[k * info->shape[1] + k] = (float)(k < d ? x : y);
    }
}

/* Memory for a chunk of sequences. */
typedef struct workspace {
    icl_sequences sequences;
    float *values;                           /* the model's parameters */
    double *of_model, *of_descent, *scratch; /* [chunk][d], [chunk][d] */
} workspace;

static void release(workspace *w) {
    icl_sequences_release(&w->sequences);
    icl_free(&w->values);
    icl_free(&w->of_model);
    icl_free(&w->of_descent);
    icl_free(&w->scratch);
}

static icl_status create(const icl_reproducing *run, icl_trainer *trainer, workspace *w, icl_error *error) {
    const icl_task *task = icl_trainer_task(trainer);
    const size_t d = icl_task_dimension(task);

    ICL_CHECK(icl_sequences_create(run->params->backend, task, run->params->seed, &w->sequences, error));
    ICL_CHECK(icl_allocate(icl_model_size(icl_trainer_model(trainer)), sizeof(float), "parameters", &w->values, error));
    ICL_CHECK(icl_allocate(w->sequences.chunk * d, sizeof(double), "sensitivities", &w->of_model, error));
    ICL_CHECK(icl_allocate(w->sequences.chunk * d, sizeof(double), "sensitivities", &w->of_descent, error));
    ICL_CHECK(icl_allocate(icl_descent_scratch(d, icl_task_context(task)), sizeof(double), "gradient descent",
                           &w->scratch, error));
    return icl_trainer_get_parameters(trainer, w->values, error);
}

icl_status icl_gd_align(const icl_reproducing *run, icl_trainer *trainer, const icl_descent *descent, size_t sequences,
                        icl_alignment *alignment, icl_error *error) {
    const icl_model *model = icl_trainer_model(trainer);
    const size_t d = icl_task_dimension(icl_trainer_task(trainer));
    const size_t n = icl_task_context(icl_trainer_task(trainer));
    workspace w = {.values = NULL};
    icl_status status = ICL_OK;

    ICL_TRY(create(run, trainer, &w, error));
    const size_t count = sequences < w.sequences.chunk ? sequences : w.sequences.chunk;
    ICL_TRY(icl_sequences_sample(&w.sequences, 0, error));
    ICL_TRY(icl_tensor_read(w.sequences.batch.inputs, w.sequences.inputs, error));
    ICL_TRY(icl_sensitivity(run->params->backend, model, d, n, w.values, count, w.sequences.inputs, w.of_model, error));
    icl_descent_weights(descent, d, n, count, w.sequences.inputs, w.scratch, w.of_descent);
    *alignment = icl_align(d, n, count, w.sequences.inputs, w.of_descent, w.of_model);
done:
    release(&w);
    return status;
}

icl_status icl_gd_half_losses(const icl_reproducing *run, const icl_recipe *recipe, const char *override,
                              size_t sequences, const float *const vectors[2], double half[2], icl_error *error) {
    icl_paired_loss losses[2];

    ICL_CHECK(icl_reproduce_losses_as(run, recipe, override, sequences, 2, vectors, losses, error));
    half[0] = .5 * losses[0].mse;
    half[1] = .5 * losses[1].mse;
    return ICL_OK;
}

void icl_gd_normalise_full(const icl_model *model, double corner, float *values) {
    for (size_t i = 0; i + 1 < icl_model_parameter_count(model); i += 2) {
        const icl_parameter_info *p = icl_model_parameter(model, i), *q = icl_model_parameter(model, i + 1);
        const double scale = corner / (double)values[p->offset + p->count - 1];
        for (size_t k = 0; k < p->count; k++) {
            values[p->offset + k] = (float)((double)values[p->offset + k] * scale);
            values[q->offset + k] = (float)((double)values[q->offset + k] / scale);
        }
    }
}
