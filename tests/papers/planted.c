/*
 * This program prints what a reproduction judges at any scale, without its trainings: the linker plants models that are
 * not trained, and measurements of a few sequences, in place of what takes minutes or days. Quantities, targets,
 * tolerances and sources are the same.
 *
 * Arguments: a reproduction, a scale, a seed. Prints a line for each finding that is judged: what, quantity, target,
 * tolerance, criterion, evidence, source, and the note; and "broken" with a reason for one that breaks a law: a judged
 * finding has a finite target, a tolerance of 0 or more and a source, is told from all others by its names and its
 * note, is met by measurements within its bound, and missed by those beyond, by as much as they are.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iclab/baseline.h"
#include "iclab/run.h"
#include "papers/losses.h"
#include "probe/window.h"
#include "run/cell.h"
#include "run/metrics.h"
#include "train/objective.h"

#include "../core/scratch.h"

enum { FEW = 16, MOST_FINDINGS = 1000, LABEL = 512 };

static size_t at_most(size_t count, size_t most) {
    return count < most ? count : most;
}

/* ---- What the linker plants ---- */

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

icl_status __wrap_icl_cell_train(const icl_cell_params *params, icl_trainer **trainer, icl_error *error);
icl_status __wrap_icl_cell_train(const icl_cell_params *params, icl_trainer **trainer, icl_error *error) {
    ICL_CHECK(icl_trainer_create(params->session.backend, params->session.recipe, trainer, error));
    return params->initial ? icl_trainer_set_parameters(*trainer, params->initial, error) : ICL_OK;
}

icl_status __wrap_icl_trainer_predict(icl_trainer *trainer, const icl_batch *batch, float *outputs, icl_error *error);
icl_status __wrap_icl_trainer_predict(icl_trainer *trainer, const icl_batch *batch, float *outputs, icl_error *error) {
    (void)trainer;
    (void)error;
    for (size_t i = 0; i < batch->size * batch->shape.scored * batch->shape.outputs; i++)
        outputs[i] = .125F * (float)(1 + i % 5);
    return ICL_OK;
}

icl_status __wrap_icl_run_read_snapshot(const char *folder, uint64_t step, const icl_model *model, float *values,
                                        icl_error *error);
icl_status __wrap_icl_run_read_snapshot(const char *folder, uint64_t step, const icl_model *model, float *values,
                                        icl_error *error) {
    (void)folder;
    (void)error;
    icl_model_initialize(model, (uint32_t)step, values);
    return ICL_OK;
}

icl_status __wrap_icl_metrics_read(const char *folder, icl_metrics *metrics, icl_error *error);
icl_status __wrap_icl_metrics_read(const char *folder, icl_metrics *metrics, icl_error *error) {
    (void)folder;
    (void)error;
    metrics->all = (icl_evaluated){.least = .25, .last = .5};
    return ICL_OK;
}

icl_status __real_icl_trainer_run(icl_trainer *trainer, size_t steps, icl_error *error);
icl_status __wrap_icl_trainer_run(icl_trainer *trainer, size_t steps, icl_error *error);
icl_status __wrap_icl_trainer_run(icl_trainer *trainer, size_t steps, icl_error *error) {
    return __real_icl_trainer_run(trainer, at_most(steps, 1), error);
}

icl_status __real_icl_evaluate(icl_backend *backend, icl_trainer *trainer, const icl_recipe *recipe,
                               icl_evaluation **evaluation, icl_error *error);
icl_status __wrap_icl_evaluate(icl_backend *backend, icl_trainer *trainer, const icl_recipe *recipe,
                               icl_evaluation **evaluation, icl_error *error);
icl_status __wrap_icl_evaluate(icl_backend *backend, icl_trainer *trainer, const icl_recipe *recipe,
                               icl_evaluation **evaluation, icl_error *error) {
    icl_recipe *few = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_clone(recipe, &few, error));
    ICL_TRY(icl_reproduce_override_all(few, "eval.sequences=2 eval.fit_sequences=2", error));
    ICL_TRY(__real_icl_evaluate(backend, trainer, few, evaluation, error));
done:
    icl_recipe_destroy(&few);
    return status;
}

icl_status __real_icl_evaluator_create(icl_backend *backend, const icl_task *task, size_t sequences, uint32_t seed,
                                       icl_evaluator **evaluator, icl_error *error);
icl_status __wrap_icl_evaluator_create(icl_backend *backend, const icl_task *task, size_t sequences, uint32_t seed,
                                       icl_evaluator **evaluator, icl_error *error);
icl_status __wrap_icl_evaluator_create(icl_backend *backend, const icl_task *task, size_t sequences, uint32_t seed,
                                       icl_evaluator **evaluator, icl_error *error) {
    return __real_icl_evaluator_create(backend, task, at_most(sequences, 2), seed, evaluator, error);
}

icl_status __real_icl_predictors_create(const icl_task *task, const char *names, size_t fit_sequences, uint32_t seed,
                                        icl_predictors **predictors, icl_error *error);
icl_status __wrap_icl_predictors_create(const icl_task *task, const char *names, size_t fit_sequences, uint32_t seed,
                                        icl_predictors **predictors, icl_error *error);
icl_status __wrap_icl_predictors_create(const icl_task *task, const char *names, size_t fit_sequences, uint32_t seed,
                                        icl_predictors **predictors, icl_error *error) {
    return __real_icl_predictors_create(task, names, at_most(fit_sequences, 2), seed, predictors, error);
}

icl_status __real_icl_predictors_run(const icl_predictors *predictors, size_t count, const float *inputs,
                                     const float *sigma, double *predictions, icl_error *error);
icl_status __wrap_icl_predictors_run(const icl_predictors *predictors, size_t count, const float *inputs,
                                     const float *sigma, double *predictions, icl_error *error);
icl_status __wrap_icl_predictors_run(const icl_predictors *predictors, size_t count, const float *inputs,
                                     const float *sigma, double *predictions, icl_error *error) {
    return __real_icl_predictors_run(predictors, at_most(count, FEW), inputs, sigma, predictions, error);
}

icl_status __real_icl_objective_create(const icl_objective_params *params, icl_objective **objective, icl_error *error);
icl_status __wrap_icl_objective_create(const icl_objective_params *params, icl_objective **objective, icl_error *error);
icl_status __wrap_icl_objective_create(const icl_objective_params *params, icl_objective **objective,
                                       icl_error *error) {
    icl_objective_params few = *params;
    few.sequences = at_most(params->sequences, FEW);
    return __real_icl_objective_create(&few, objective, error);
}

icl_status __real_icl_window_draw(icl_backend *backend, const icl_recipe *recipe, icl_task_purpose purpose,
                                  uint32_t seed, size_t count, icl_window_set *set, icl_error *error);
icl_status __wrap_icl_window_draw(icl_backend *backend, const icl_recipe *recipe, icl_task_purpose purpose,
                                  uint32_t seed, size_t count, icl_window_set *set, icl_error *error);
icl_status __wrap_icl_window_draw(icl_backend *backend, const icl_recipe *recipe, icl_task_purpose purpose,
                                  uint32_t seed, size_t count, icl_window_set *set, icl_error *error) {
    return __real_icl_window_draw(backend, recipe, purpose, seed, at_most(count, FEW), set, error);
}

icl_status __real_icl_reproduce_losses(const icl_reproducing *run, icl_trainer *trainer, size_t sequences, size_t count,
                                       const float *const *parameters, icl_paired_loss *losses, icl_error *error);
icl_status __wrap_icl_reproduce_losses(const icl_reproducing *run, icl_trainer *trainer, size_t sequences, size_t count,
                                       const float *const *parameters, icl_paired_loss *losses, icl_error *error);
icl_status __wrap_icl_reproduce_losses(const icl_reproducing *run, icl_trainer *trainer, size_t sequences, size_t count,
                                       const float *const *parameters, icl_paired_loss *losses, icl_error *error) {
    return __real_icl_reproduce_losses(run, trainer, at_most(sequences, FEW), count, parameters, losses, error);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

/* ---- Findings ---- */

typedef struct labels {
    size_t count;
    char seen[MOST_FINDINGS][LABEL];
} labels;

/* A measurement so far above the target: met or missed, and by how much. */
static bool is_judged(const icl_finding *finding, double above, double miss) {
    icl_finding planted = *finding;

    planted.ours = finding->target + above;
    const double size = fabs(finding->target) + fabs(above);
    return icl_finding_judge(&planted) == (miss > 0 ? ICL_MISSED : ICL_MET) &&
           fabs(icl_finding_miss(&planted) - miss) <= 1e-12 * size;
}

/* Both sides of each bound, and far away. */
static bool has_bounds(const icl_finding *finding) {
    const double tolerance = finding->tolerance, size = fabs(finding->target) + tolerance + 1e-9;
    const double within = .9 * tolerance, step = 1e-3 * size, far = 1e3 * size;
    const bool high = finding->criterion != ICL_AT_LEAST, low = finding->criterion != ICL_AT_MOST;

    return is_judged(finding, within, 0) && is_judged(finding, -within, 0) &&
           is_judged(finding, tolerance + step, high ? step : 0) &&
           is_judged(finding, tolerance + far, high ? far : 0) &&
           is_judged(finding, -tolerance - step, low ? step : 0) && is_judged(finding, -tolerance - far, low ? far : 0);
}

static const char *find_flaw(const icl_finding *finding, const labels *all, const char *label) {
    if (finding->what[0] == '\0' || !finding->quantity || finding->quantity[0] == '\0' || strpbrk(label, "\t\n"))
        return "expected one line of words";
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->seen[i], label) == 0)
            return "expected words that no other finding has";
    if (!isfinite(finding->target) || !(finding->tolerance >= 0 && isfinite(finding->tolerance)))
        return "expected a finite target and a tolerance of 0 or more";
    if (!finding->source || finding->source[0] == '\0')
        return "expected a source";
    return has_bounds(finding) ? NULL : "expected a verdict on both sides of its bounds";
}

static void report(void *user, const icl_reproduction *reproduction, const icl_finding *finding) {
    const char *note = finding->note ? finding->note : "", *flaw;
    labels *all = user;
    char label[LABEL];

    (void)reproduction;
    if (finding->evidence == ICL_EVIDENCE_NONE || finding->evidence == ICL_RECALLED)
        return;
    snprintf(label, sizeof label, "%s; %s; %s", finding->what, finding->quantity, note);
    flaw = find_flaw(finding, all, label);
    if (flaw)
        printf("broken\t%s: %s\n", label, flaw);
    if (all->count < MOST_FINDINGS)
        memcpy(all->seen[all->count++], label, sizeof label);
    printf("%s\t%s\t%.6g\t%.6g\t%s\t%s\t%s\n", finding->what, finding->quantity, finding->target, finding->tolerance,
           icl_criterion_name(finding->criterion), icl_evidence_name(finding->evidence),
           finding->source ? finding->source : "");
}

static icl_scale read_scale(const char *name) {
    for (icl_scale scale = ICL_SCALE_CI; scale < ICL_SCALES; scale++)
        if (strcmp(name, icl_scale_name(scale)) == 0)
            return scale;
    exit(2);
}

int main(int count, char **arguments) {
    static labels all;
    const icl_reproduction *reproduction = NULL;
    icl_reproduce_params params = {.report = report, .user = &all};
    icl_reproduce_summary summary;
    scratch_folder scratch;
    icl_error error = {0};
    icl_status status = ICL_OK;

    if (count != 4)
        return 2;
    scratch_open(&scratch);
    params.scale = read_scale(arguments[2]);
    params.seed = (uint32_t)strtoul(arguments[3], NULL, 10);
    params.folder = scratch.folder;
    ICL_TRY(icl_reproduction_find(arguments[1], &reproduction, &error));
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &params.backend, &error));
    ICL_TRY(icl_reproduce(reproduction, &params, &summary, &error));
done:
    if (status != ICL_OK)
        fprintf(stderr, "%s\n", error.message);
    icl_backend_close(&params.backend);
    scratch_remove(scratch.folder);
    return status != ICL_OK;
}
