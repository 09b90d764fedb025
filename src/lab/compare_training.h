/*
 * `iclab compare --train`: training steps on two devices beside the double-precision reference.
 *
 * Forced: every step of all three starts from the reference's state, rounded to single precision, so that the difference after it
 * was made in that one step. Free-running: all three start alike once and then go their own ways, so that the differences show how
 * rounding grows as training goes on. The batches have the same bits on all three.
 */
#ifndef ICLAB_LAB_COMPARE_TRAINING_H
#define ICLAB_LAB_COMPARE_TRAINING_H

#include "core/status.h"
#include "iclab/train.h"
#include "lab/compare.h"

typedef enum icl_training_mode {
    ICL_TRAINING_FORCED = 0,
    ICL_TRAINING_FREE,
    ICL_TRAINING_MODES
} icl_training_mode;

/* "forced", "free". */
const char *icl_training_mode_name(icl_training_mode mode);

/* A device's relative difference from the reference after which a forced step is no longer taken for rounding: half of the digits of
 * single precision are lost. */
#define ICL_HALF_OF_THE_DIGITS 0x1p-12

/* One device after one step. Differences are |a - r| / |r|, of vectors in the Euclidean norm; 0 where both are 0. */
typedef struct icl_training_side {
    bool diverged; /* loss, gradient or parameters are not finite, while the reference's are */
    double loss, gradient_norm;
    double loss_difference, norm_difference;
    double gradient_difference, parameter_difference; /* the clipped gradient; the updated parameters */
} icl_training_side;

typedef struct icl_step_comparison {
    icl_training_mode mode;
    uint64_t step; /* counted from 1 */
    double reference_loss, reference_gradient_norm;
    icl_training_side device, against;
    /* FAIL: a device diverged alone, or lost half of its digits in a forced step in which the other device of single precision lost
     * far fewer. MISTRUSTED: half of the digits are lost, but there is no device that keeps them: the step may be ill-conditioned. */
    icl_verdict verdict;
    char reason[160]; /* empty for PASS */
} icl_step_comparison;

/* The worst of one mode, each with its step. */
typedef struct icl_training_extreme {
    double value;
    uint64_t step; /* 0: none */
} icl_training_extreme;

typedef struct icl_training_side_summary {
    icl_training_extreme loss, gradient, parameters; /* largest differences */
    double last_loss, last_parameters;               /* after the last step */
} icl_training_side_summary;

typedef struct icl_training_summary {
    uint64_t steps[ICL_TRAINING_MODES]; /* compared */
    icl_training_side_summary device[ICL_TRAINING_MODES], against[ICL_TRAINING_MODES];
    uint64_t failed, mistrusted;
    uint64_t reference_diverged; /* the step at which the reference itself did, which ends a mode; 0: never */
} icl_training_summary;

typedef icl_status icl_step_callback(void *user, const icl_step_comparison *step, icl_error *error);

typedef struct icl_training_params {
    icl_backend *device, *against, *reference; /* reference: "ref" */
    const icl_recipe *recipe;
    uint64_t steps; /* at most the recipe's train.steps */
    icl_step_callback *callback;
    void *user;
} icl_training_params;

/* Runs both modes, forced first, one callback for each step. A difference is a result, not an error. */
icl_status icl_compare_training(const icl_training_params *params, icl_training_summary *summary,
                                icl_error *error);

#endif
