/*
 * Evaluation: a model and the reference predictors on the same fresh sequences, each mean with its standard error.
 *
 * With p a prediction, o the oracle's (the posterior mean that knows sigma), y the noiseless target:
 *     mse      = mean of (p - y)^2
 *     adjusted = mean of (p - o)^2, equal in expectation to mse - oracle mse, with a far smaller standard error
 * Papers report half of the adjusted loss. Losses of linear transformers have heavy tails: the median, and the mean
 * without the largest 1 %, tell whether a few sequences dominate a mean. If several positions are scored, all losses
 * are means over these positions, too; positions with weights give a weighted mean: sum of weight times loss over the
 * sum of weights.
 *
 * To tell which of two predictors is better, use the difference of their losses, sequence by sequence: its standard
 * error is far smaller than those of the two means.
 */
#ifndef ICLAB_EVALUATE_H
#define ICLAB_EVALUATE_H

#include <stdbool.h>
#include <stdint.h>

#include "iclab/baseline.h"
#include "iclab/train.h"

ICL_C_BEGIN

/* Bytes of icl_score.constants. */
#define ICL_CONSTANTS_CAPACITY 512

/* One of several scored positions: means over all sequences, weighted by the task's batches. */
typedef struct icl_position_score {
    size_t position;                    /* counted from 0 */
    double loss, se;                    /* mean loss, and its standard error */
    double accuracy;                    /* the share of right answers; NaN for the squared error */
    double minus_model, minus_model_se; /* as in icl_score */
} icl_position_score;

/* One predictor's results. Every loss is of the full squared error unless its name says half. */
typedef struct icl_score {
    char predictor[64];         /* "model", or the name of a reference predictor */
    icl_loss_kind loss_kind;    /* loss of the task */
    double mse;                 /* mean squared error; for a task with another loss, the mean of that loss */
    double se;                  /* standard error of mse */
    double accuracy;            /* the share of right answers; NaN for the squared error */
    double bits_per_byte;       /* of text: mse / log 2; NaN for other tasks */
    double bits_per_byte_se;    /* its standard error; the windows are taken as independent */
    double minus_model;         /* mse less the model's on the same sequences; NaN for the model */
    double minus_model_se;      /* its standard error, from the differences sequence by sequence */
    double adjusted;            /* mean squared distance to the oracle's prediction */
    double adjusted_se;         /* its standard error */
    double half_adjusted;       /* half of adjusted, as papers report it */
    double half_adjusted_se;    /* its standard error */
    double half_minus_model;    /* half_adjusted less the model's on the same sequences; NaN for the model */
    double half_minus_model_se; /* its standard error, from the differences sequence by sequence */
    /* Half of the mean squared distance to the Bayes-optimal prediction, the floor for any predictor that is not told
     * sigma; NaN for the oracle, which is told. */
    double half_above_bayes;
    double adjusted_median;                 /* median of the squared distance to the oracle */
    double adjusted_trimmed;                /* its mean without the largest 1 % */
    char constants[ICL_CONSTANTS_CAPACITY]; /* fitted constants as text; may be empty */
    /* [position_count]: the curve over the positions that count; positions of weight 0 in every sequence are left out.
     * Owned by the evaluation. */
    const icl_position_score *positions;
    size_t position_count; /* 0 if only one position is scored */
} icl_score;

/* The results of icl_evaluate. */
typedef struct icl_evaluation {
    size_t count; /* number of scores */
    /* [count]: the model first, then the predictors in the order asked for, then the trainer's own. */
    icl_score *scores;
    icl_position_score *curves; /* what icl_score.positions point to; NULL if only one position is scored */
    uint64_t sequences;         /* the number of sequences, the same for all predictors */
    char text[192];             /* how text was cut into them; "" for other tasks */
} icl_evaluation;

/* Checks whether the recipe's [eval] section can be evaluated for the trainer's task and model: ICL_ERROR_INPUT for
 * what icl_evaluate would refuse, so that a long training run does not end with that error. */
ICL_API icl_status icl_evaluation_check(const icl_trainer *trainer, const icl_recipe *recipe, icl_error *error);

/* Evaluates the trainer's parameters as the recipe's [eval] section says, on sequences drawn for ICL_FOR_EVALUATION.
 * eval.predictors names reference predictors of baseline.h, or, if the task has no prior, those that its family
 * brings; "all" stands for all those of the family, or for oracle, bayes, ols, constrr, adarr and tunedrr. The
 * oracle and the Bayes-optimal predictor are computed even if they are not listed. */
ICL_API icl_status icl_evaluate(icl_backend *backend, icl_trainer *trainer, const icl_recipe *recipe,
                                icl_evaluation **evaluation, icl_error *error);
ICL_API void icl_evaluation_destroy(icl_evaluation **evaluation);

/* Write the results as a table for people, and one result as a line of JSON. Freed with icl_text_free. */
ICL_API icl_status icl_evaluation_table(const icl_evaluation *evaluation, char **text, icl_error *error);
ICL_API icl_status icl_score_json(const icl_score *score, char **text, icl_error *error);

/* ---- One number, again and again during training ---- */

/* Fixed sequences, with the oracle's predictions if there is an oracle. */
typedef struct icl_evaluator icl_evaluator;

/* Draws `sequences` sequences, which differ from those of icl_evaluate. */
ICL_API icl_status icl_evaluator_create(icl_backend *backend, const icl_task *task, size_t sequences, uint32_t seed,
                                        icl_evaluator **evaluator, icl_error *error);
ICL_API void icl_evaluator_destroy(icl_evaluator **evaluator);

/* Computes half of the adjusted loss of the trainer's parameters on these sequences; if the task has no prior, the mean
 * of its own loss. */
ICL_API icl_status icl_evaluator_loss(icl_evaluator *evaluator, icl_trainer *trainer, double *loss, icl_error *error);

ICL_C_END

#endif
