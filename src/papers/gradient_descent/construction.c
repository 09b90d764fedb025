/*
 * The constructions of von Oswald et al. 2022, "Transformers learn in-context by gradient descent" (arXiv 2212.07677),
 * proposition 1 and appendix: a layer of linear self-attention with W_K^T W_Q = diag(I, 0) and P = diag(0, -rate) is
 * one step of gradient descent, and with P = diag(-input I, -rate) one of GD++. Their predictions against the
 * algorithms themselves, which are computed in double precision without attention, and the loss of one
 * step against its closed form.
 */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "papers/gradient_descent/gradient_descent.h"
#include "papers/papers.h"
#include "run/evaluation.h"

enum { D = ICL_GD_DIMENSION, N = ICL_GD_CONTEXT, MOST_STEPS = 16, SEQUENCES = 2048 };

/* ---- Weights that are an algorithm's ---- */

icl_gd_step icl_gd_best_step(double a, size_t d, size_t n) {
    const double v = a * a / 3, fourth = a * a * a * a / 5, dimension = (double)d, count = (double)n;
    const double trace = count * dimension * v;
    /* E tr S^2 = n E |x|^4 + n (n - 1) d v^2, E |x|^4 = d E x^4 + d (d - 1) v^2. */
    const double square =
        count * (dimension * fourth + dimension * (dimension - 1) * v * v) + count * (count - 1) * dimension * v * v;

    return (icl_gd_step){.rate = trace / square, .half_loss = v / 2 * (dimension - trace * trace / square)};
}

void icl_gd_construct(const icl_model *model, const icl_descent *descent, size_t d, size_t n, float *values) {
    for (size_t i = 0; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        const char part = info->name[strlen(info->name) - 1];
        const size_t layer = (size_t)strtoull(info->name + strlen("layer."), NULL, 10);
        const double rate = descent->rates[layer], input = descent->inputs ? descent->inputs[layer] : 0;
        const double x = part == 'P' ? -input : part == 'A' ? -rate * (double)n : (double)n;
        const double y = part == 'P' ? -rate : 0;
        float *const entries = values + info->offset;

        memset(entries, 0, info->count * sizeof *entries);
        if (info->rank == 1) { /* entries for inputs and, but for gd++'s Q, for the label */
            entries[0] = (float)x;
            if (info->count > 1)
                entries[1] = (float)y;
            continue;
        }
        for (size_t k = 0; k < info->shape[0]; k++)
            entries[k * info->shape[1] + k] = (float)(k < d ? x : y);
    }
}

icl_status icl_gd_align(const icl_study *study, icl_trainer *trainer, const icl_descent *descent, size_t sequences,
                        icl_number numbers[ICL_GD_ALIGNMENT], icl_error *error) {
    const icl_reproduce_params *params = study->run->params;
    const icl_model *model = icl_trainer_model(trainer);
    const size_t n = icl_task_context(icl_trainer_task(trainer));
    icl_sequences drawn = {0};
    double *algorithm = NULL, *ours = NULL, *scratch = NULL;
    float *values = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_sequences_create(params->backend, icl_trainer_task(trainer), params->seed, &drawn, error));
    const size_t count = sequences < drawn.chunk ? sequences : drawn.chunk;
    ICL_TRY(icl_study_parameters(study, trainer, &values, error));
    ICL_TRY(icl_study_room(study, count, D * sizeof *algorithm, &algorithm, error));
    ICL_TRY(icl_study_room(study, count, D * sizeof *ours, &ours, error));
    ICL_TRY(icl_study_room(study, icl_descent_scratch(D, n), sizeof *scratch, &scratch, error));
    ICL_TRY(icl_sequences_sample(&drawn, 0, error));
    ICL_TRY(icl_tensor_read(drawn.batch.inputs, drawn.inputs, error));
    ICL_TRY(icl_sensitivity(params->backend, model, D, n, values, count, drawn.inputs, ours, error));
    icl_descent_weights(descent, D, n, count, drawn.inputs, scratch, algorithm);
    const icl_alignment alignment = icl_align(D, n, count, drawn.inputs, algorithm, ours);
    numbers[ICL_GD_DIFFERENCE].value = alignment.predictions;
    numbers[ICL_GD_PREDICTION].value = alignment.mean_prediction;
    numbers[ICL_GD_RELATIVE].value = alignment.predictions / alignment.mean_prediction;
    numbers[ICL_GD_COSINE].value = alignment.cosine;
    numbers[ICL_GD_DISTANCE].value = alignment.sensitivities;
done:
    icl_sequences_release(&drawn);
    return status;
}

/* ---- Cells: models that are not trained ---- */

/* Steps of a length that is stable for nearly every context; the same for all layers. */
#define RATE   0.3
#define INPUTS 0.1

typedef struct construction {
    const char *name, *form;
    size_t steps;
    double input; /* of GD++ */
    bool is_best; /* one step with the best rate, which the paper finds by a search */
} construction;

static const construction constructions[] = {
    {"full-1-step", "full", 1, 0, false},
    {"full-2-steps", "full", 2, 0, false},
    {"full-16-steps", "full", 16, 0, false},
    {"sparse-16-steps", "sparse", 16, 0, false},
    {"tied-16-steps", "full model.tied=true", 16, 0, false},
    {"full-2-steps-gd++", "full", 2, INPUTS, false},
    {"full-16-steps-gd++", "full", 16, INPUTS, false},
    {"tied-16-steps-gd++", "gd++ model.tied=true", 16, INPUTS, false},
    {"best-step", "full", 1, 0, true},
};

static void plan(icl_study *study) {
    for (size_t i = 0; i < sizeof constructions / sizeof *constructions; i++)
        ICL_ADD_CELL(study, .name = constructions[i].name, .data = &constructions[i], .recipe = "gd",
                     .is_untrained = true,
                     .settings = {ICL_PHRASE("model.layers=%zu model.parameterization=%s", constructions[i].steps,
                                             constructions[i].form)});
}

/* ---- Numbers ---- */

/* The squared error is that of the best step. */
enum { ROUNDING = ICL_GD_ALIGNMENT, LOSS, NUMBERS };

/* Rounding may make this of K stable steps, relative and in root mean square: a step sums n products of d products and
 * rounds the parameters, which are floats on any device, and magnifies no earlier error. */
static double rounding(const icl_backend *backend, size_t steps) {
    const bool is_double = icl_backend_capabilities(backend)->element_size == sizeof(double);
    return (double)steps * (is_double ? 3 : N + D + 8) * (double)FLT_EPSILON;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trainer, icl_number *numbers,
                          icl_error *error) {
    const construction *data = cell->data;
    const icl_model *model = icl_trainer_model(trainer);
    const size_t sequences = study->scale == ICL_SCALE_CI ? 50000 : 400000;
    double rates[MOST_STEPS], inputs[MOST_STEPS];
    const icl_descent descent = {data->steps, rates, data->input > 0 ? inputs : NULL};
    float *values = NULL;

    for (size_t i = 0; i < data->steps; i++) {
        rates[i] = data->is_best ? icl_gd_best_step(.5, D, N).rate : RATE;
        inputs[i] = data->input;
    }
    ICL_CHECK(icl_study_room(study, icl_model_size(model), sizeof *values, &values, error));
    icl_gd_construct(model, &descent, D, N, values);
    ICL_CHECK(icl_trainer_set_parameters(trainer, values, error));
    numbers[ROUNDING].value = rounding(study->run->params->backend, data->steps);
    return data->is_best ? icl_study_loss(study, trainer, sequences, &numbers[LOSS], error)
                         : icl_gd_align(study, trainer, &descent, SEQUENCES, numbers, error);
}

/* ---- Judging ---- */

static void judge(icl_study *study, const icl_study_cell *cell) {
    const construction *data = cell->data;
    const icl_number *numbers = cell->numbers, loss = numbers[LOSS];
    const icl_gd_step best = icl_gd_best_step(.5, D, N);

    if (data->is_best)
        ICL_JUDGE(study, .quantity = "half squared error", .ours = .5 * loss.value,
                  .standard_error = .5 * loss.standard_error, .target = best.half_loss,
                  .tolerance = 2 * loss.standard_error, .evidence = ICL_COMPUTED, .source = "closed form",
                  .note = ICL_PHRASE("rate %.4f for raw sums, %.3f / n", best.rate, best.rate * N));
    else
        ICL_JUDGE(study, .quantity = "difference of predictions, relative", ICL_OURS(numbers[ICL_GD_RELATIVE]),
                  .tolerance = numbers[ROUNDING].value, .criterion = ICL_AT_MOST, .evidence = ICL_READ,
                  .source = "proposition 1",
                  .note = ICL_PHRASE("1 - cosine of sensitivities %.1e, their distance %.1e",
                                     1 - numbers[ICL_GD_COSINE].value, numbers[ICL_GD_DISTANCE].value));
}

const icl_reproduction icl_gd_construction =
    ICL_STUDY(.name = "gd-construction", .source = "arXiv 2212.07677, proposition 1",
              .about = "weights that make layers steps of gradient descent and GD++, against the algorithms",
              .claim =
                  "There are weights with which layers of linear attention are steps of gradient descent, or of GD++.",
              .cost = {"1 s", "2 s", NULL}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge);
