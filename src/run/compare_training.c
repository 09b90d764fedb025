#include "iclab/compare_training.h"

#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "core/print.h"
#include "train/trainer.h"

enum { REFERENCE = 0, DEVICE, AGAINST, TRAINERS };

/* If a step loses half of the digits, the device is at fault only if the other device's difference from the reference
 * is this many times smaller. */
#define FAR_FEWER 16

typedef struct comparison {
    const icl_training_params *params;
    icl_backend *backends[TRAINERS];
    icl_trainer *trainers[TRAINERS];
    bool diverged[TRAINERS];                    /* the step just run gave values that are not finite */
    icl_training_state start, states[TRAINERS]; /* start: the state before the next forced step */
    double *gradients[TRAINERS];
    icl_training_summary *summary;
} comparison;

const char *icl_training_mode_name(icl_training_mode mode) {
    static const char *const names[ICL_TRAINING_MODES] = {"forced", "free"};
    return names[mode];
}

static icl_status prepare(comparison *c, icl_error *error) {
    for (int i = 0; i < TRAINERS; i++) {
        ICL_CHECK(icl_trainer_create_with(c->backends[i], c->params->parts, c->params->recipe, &c->trainers[i], error));
        ICL_CHECK(icl_training_state_create(c->trainers[i], &c->states[i], error));
        ICL_CHECK(icl_allocate(c->states[i].size, sizeof(double), "gradient", &c->gradients[i], error));
    }
    return icl_training_state_create(c->trainers[REFERENCE], &c->start, error);
}

static void release(comparison *c) {
    for (int i = 0; i < TRAINERS; i++) {
        icl_trainer_destroy(&c->trainers[i]);
        icl_training_state_clear(&c->states[i]);
        icl_free(&c->gradients[i]);
    }
    icl_training_state_clear(&c->start);
}

/* ---- One step ---- */

/* A trainer skips a step that diverged and goes on, but comparisons after it would mean nothing. */
static icl_status run_step(comparison *c, icl_error *error) {
    icl_status status = ICL_OK;

    for (int i = 0; i < TRAINERS; i++) {
        double loss, norm;
        status = icl_trainer_run(c->trainers[i], 1, error);
        const bool diverged = status == ICL_ERROR_DIVERGED;
        if (diverged)
            status = ICL_OK;
        ICL_TRY(status);
        ICL_TRY(icl_trainer_read_measures(c->trainers[i], &loss, &norm, error));
        c->diverged[i] = diverged || !isfinite(loss) || !isfinite(norm);
        ICL_TRY(icl_trainer_read_state(c->trainers[i], &c->states[i], error));
        ICL_TRY(icl_trainer_read_gradient(c->trainers[i], c->gradients[i], error));
    }
done:
    return status;
}

static double relative(double difference, double size) {
    return difference == 0 ? 0 : difference / size;
}

static double vector_difference(const double *a, const double *reference, size_t count) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        difference = hypot(difference, a[i] - reference[i]);
        size = hypot(size, reference[i]);
    }
    return relative(difference, size);
}

static icl_status measure_side(comparison *c, int which, const icl_step_comparison *step, icl_training_side *side,
                               icl_error *error) {
    const size_t size = c->start.size;

    side->diverged = c->diverged[which];
    ICL_CHECK(icl_trainer_read_measures(c->trainers[which], &side->loss, &side->gradient_norm, error));
    side->loss_difference = relative(fabs(side->loss - step->reference_loss), fabs(step->reference_loss));
    side->norm_difference =
        relative(fabs(side->gradient_norm - step->reference_gradient_norm), step->reference_gradient_norm);
    side->gradient_difference = vector_difference(c->gradients[which], c->gradients[REFERENCE], size);
    side->parameter_difference = vector_difference(c->states[which].vectors[0], c->states[REFERENCE].vectors[0], size);
    return ICL_OK;
}

/* ---- Judging ---- */

/* A forced step shows the arithmetic of a device. Parameters are left out, because Adam divides small gradients by
 * their own size and so magnifies their rounding by design. */
static double digits_lost(const icl_training_side *side) {
    return fmax(side->loss_difference, side->gradient_difference);
}

static void judge_side(const comparison *c, int which, const icl_training_side *side, const icl_training_side *other,
                       icl_step_comparison *step) {
    const char *spec = icl_backend_capabilities(c->backends[which])->spec;
    const icl_backend *peer = c->backends[which == DEVICE ? AGAINST : DEVICE];
    const bool has_peer = icl_backend_capabilities(peer)->element_size == sizeof(float);

    if (step->verdict == ICL_VERDICT_FAIL)
        return;
    if (side->diverged) {
        step->verdict = ICL_VERDICT_FAIL;
        icl_print(step->reason, sizeof step->reason, "%.40s diverged: loss %g, gradient norm %g", spec, side->loss,
                  side->gradient_norm);
    } else if (step->mode == ICL_TRAINING_FORCED && digits_lost(side) > ICL_HALF_OF_THE_DIGITS) {
        const bool alone = has_peer && digits_lost(other) * FAR_FEWER < digits_lost(side);
        step->verdict = alone ? ICL_VERDICT_FAIL : ICL_VERDICT_MISTRUSTED;
        icl_print(step->reason, sizeof step->reason,
                  "%.40s differs from the reference by %.2g in one step; the other device by %.2g", spec,
                  digits_lost(side), digits_lost(other));
    }
}

/* Keeps the largest value and the step where it first occurred. NaN counts as the largest. */
static void take(icl_training_extreme *extreme, double value, uint64_t step) {
    if (extreme->step == 0 || value > extreme->value || (isnan(value) && !isnan(extreme->value)))
        *extreme = (icl_training_extreme){value, step};
}

static void summarize_side(icl_training_side_summary *summary, const icl_training_side *side, uint64_t step) {
    take(&summary->loss, side->loss_difference, step);
    take(&summary->gradient, side->gradient_difference, step);
    take(&summary->parameters, side->parameter_difference, step);
    summary->last_loss = side->loss_difference;
    summary->last_parameters = side->parameter_difference;
}

static void summarize(icl_training_summary *summary, const icl_step_comparison *step) {
    summary->steps[step->mode]++;
    summarize_side(&summary->device[step->mode], &step->device, step->step);
    summarize_side(&summary->against[step->mode], &step->against, step->step);
    summary->failed += step->verdict == ICL_VERDICT_FAIL;
    summary->mistrusted += step->verdict == ICL_VERDICT_MISTRUSTED;
}

/* ---- The two modes ---- */

static icl_status compare_step(comparison *c, icl_training_mode mode, uint64_t number, bool *ends, icl_error *error) {
    icl_step_comparison step = {.mode = mode, .step = number};
    icl_status status = ICL_OK;

    for (int i = 0; i < TRAINERS && mode == ICL_TRAINING_FORCED; i++)
        ICL_TRY(icl_trainer_write_state(c->trainers[i], &c->start, error));
    ICL_TRY(run_step(c, error));
    if (c->diverged[REFERENCE]) {
        c->summary->reference_diverged = number;
        *ends = true;
        goto done;
    }
    ICL_TRY(
        icl_trainer_read_measures(c->trainers[REFERENCE], &step.reference_loss, &step.reference_gradient_norm, error));
    ICL_TRY(measure_side(c, DEVICE, &step, &step.device, error));
    ICL_TRY(measure_side(c, AGAINST, &step, &step.against, error));
    judge_side(c, DEVICE, &step.device, &step.against, &step);
    judge_side(c, AGAINST, &step.against, &step.device, &step);
    summarize(c->summary, &step);
    /* A free run ends when a trainer diverges. */
    *ends = mode == ICL_TRAINING_FREE && (step.device.diverged || step.against.diverged);
    ICL_TRY(icl_trainer_read_state(c->trainers[REFERENCE], &c->start, error));
    icl_training_state_round(&c->start);
    if (c->params->callback)
        ICL_TRY(c->params->callback(c->params->user, &step, error));
done:
    return status;
}

icl_status icl_compare_training(const icl_training_params *params, icl_training_summary *summary, icl_error *error) {
    comparison c = {
        .params = params, .backends = {params->reference, params->device, params->against}, .summary = summary};
    icl_training_state beginning = {0};
    icl_status status = ICL_OK;

    *summary = (icl_training_summary){0};
    ICL_TRY(prepare(&c, error));
    ICL_TRY(icl_training_state_create(c.trainers[REFERENCE], &beginning, error));
    ICL_TRY(icl_trainer_read_state(c.trainers[REFERENCE], &beginning, error));
    icl_training_state_round(&beginning);
    for (int mode = 0; mode < ICL_TRAINING_MODES; mode++) {
        bool ends = false;
        for (int i = 0; i < TRAINERS; i++)
            ICL_TRY(icl_trainer_write_state(c.trainers[i], &beginning, error));
        ICL_TRY(icl_trainer_read_state(c.trainers[REFERENCE], &c.start, error));
        for (uint64_t step = 1; step <= params->steps && !ends; step++)
            ICL_TRY(compare_step(&c, (icl_training_mode)mode, step, &ends, error));
    }
done:
    icl_training_state_clear(&beginning);
    release(&c);
    return status;
}
