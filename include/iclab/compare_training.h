/*
 * `iclab compare --train`: training steps on two devices and on the double-precision reference.
 *
 * Forced: every step of all three starts from the reference's state, rounded to single precision, so that the
 * difference after a step arises in that step. Free-running: all three start alike once and then go their own ways, so
 * that the differences show how rounding errors grow during training. The batches have the same bits on all three.
 */
#ifndef ICLAB_COMPARE_TRAINING_H
#define ICLAB_COMPARE_TRAINING_H

#include "iclab/compare.h"
#include "iclab/status.h"
#include "iclab/train.h"

ICL_C_BEGIN

/* How the devices' states are related. */
typedef enum icl_training_mode {
    ICL_TRAINING_FORCED = 0, /* each step starts from the state of the reference */
    ICL_TRAINING_FREE,       /* all start alike once */
    ICL_TRAINING_MODES
} icl_training_mode;

/* "forced", "free". */
ICL_API const char *icl_training_mode_name(icl_training_mode mode);

/* The relative difference from the reference above which a forced step is not explained by rounding: half of the digits
 * of single precision are lost. */
#define ICL_HALF_OF_THE_DIGITS 0x1p-12

/* One device after one step. Differences are |a - r| / |r| of vectors in the Euclidean norm; 0 if both are 0. */
typedef struct icl_training_side {
    bool diverged;              /* loss, gradient or parameters are not finite, while the reference's are */
    double loss, gradient_norm; /* of this device in the step */
    double loss_difference, norm_difference;          /* relative differences of these two */
    double gradient_difference, parameter_difference; /* the clipped gradient; the updated parameters */
} icl_training_side;

/* One step on all three. */
typedef struct icl_step_comparison {
    icl_training_mode mode;                         /* mode of the step */
    uint64_t step;                                  /* counted from 1 */
    double reference_loss, reference_gradient_norm; /* both of the step on the reference */
    icl_training_side device, against;              /* the other two */
    /* FAIL: a device diverged where the reference did not, or it lost half of its digits in a forced step in which the
     * other single-precision device lost far fewer. MISTRUSTED: half of the digits are lost, but no other device kept
     * them: the step may be ill-conditioned. */
    icl_verdict verdict;
    char reason[160]; /* empty for PASS */
} icl_step_comparison;

/* The worst values of one mode, each with its step. */
typedef struct icl_training_extreme {
    double value;  /* the largest */
    uint64_t step; /* its step; 0: there is none */
} icl_training_extreme;

/* One device in one mode. */
typedef struct icl_training_side_summary {
    icl_training_extreme loss, gradient, parameters; /* largest differences */
    double last_loss, last_parameters;               /* after the last step */
} icl_training_side_summary;

/* All steps. */
typedef struct icl_training_summary {
    uint64_t steps[ICL_TRAINING_MODES];                                                /* compared */
    icl_training_side_summary device[ICL_TRAINING_MODES], against[ICL_TRAINING_MODES]; /* in each mode */
    uint64_t failed, mistrusted;                                                       /* steps with that verdict */
    uint64_t reference_diverged; /* the step at which the reference itself diverged, which ends a mode; 0: never */
} icl_training_summary;

/* Receives a step. A failure ends the comparison. */
typedef icl_status icl_step_callback(void *user, const icl_step_comparison *step, icl_error *error);

/* What to compare. */
typedef struct icl_training_params {
    icl_backend *device, *against, *reference; /* reference: "ref" */
    const icl_recipe *recipe;                  /* the training to compare */
    const icl_trainer_parts *parts;            /* the program's own parts; NULL: the recipe decides all */
    uint64_t steps;                            /* at most the recipe's train.steps */
    icl_step_callback *callback;               /* gets each step; may be NULL */
    void *user;                                /* handed to the calls above */
} icl_training_params;

/* Runs both modes, the forced one first, with one callback for each step. A difference is a result, not an error. */
ICL_API icl_status icl_compare_training(const icl_training_params *params, icl_training_summary *summary,
                                        icl_error *error);

ICL_C_END

#endif
