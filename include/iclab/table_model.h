/* Predictions of rows of a table by a model that was trained on tables (task.family = tables): no training, one pass
 * over the rows whose target is known. */
#ifndef ICLAB_TABLE_MODEL_H
#define ICLAB_TABLE_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "iclab/backend.h"

ICL_C_BEGIN

/* The model of a run on tables, loaded on a backend. */
typedef struct icl_table_model icl_table_model;

/* The limits of what a model can be asked. */
typedef struct icl_table_model_limits {
    size_t features;      /* most features of a row */
    size_t least_rows;    /* fewest rows with a known target: 2 */
    size_t rows;          /* most rows with a known target: their number's cube counts */
    size_t trained_least; /* the training had tables of this many known rows or more … */
    size_t trained_most;  /* … up to this many */
} icl_table_model_limits;

/* Rows whose target is known, and rows to predict. Units are the caller's: the model centres and scales by the known
 * rows. A NaN among the features is a missing value and stands for the feature's mean. */
typedef struct icl_table_question {
    size_t features;       /* d */
    size_t known;          /* n rows with a target */
    size_t asked;          /* m rows to predict; each is predicted by itself */
    const double *rows;    /* [known][features] */
    const double *targets; /* [known], finite */
    const double *queries; /* [asked][features] */
    size_t ensemble;       /* predictions are averaged over so many orders of the features; 0: 4 */
    uint32_t seed;         /* of these orders */
} icl_table_question;

/* The distribution of the target of each asked row, in the target's units; borrowed from the caller. A mean, or the
 * value below which the target lies with each probability, which grows with it. Pointers that are NULL are not
 * written. */
typedef struct icl_table_answer {
    size_t levels;               /* l */
    const double *probabilities; /* [levels], each between 0 and 1 */
    double *means;               /* [asked] */
    double *quantiles;           /* [asked][levels]; the median is that of 0.5 */
} icl_table_answer;

/* Returns the folder of the model that ships, ../models/tables beside the folder in which icl_recipe_locate finds the
 * recipe `tables`; freed with icl_text_free. ICL_ERROR_INPUT if either is missing. */
ICL_API icl_status icl_table_model_locate(char **folder, icl_error *error);

/* Loads the model of a run folder. ICL_ERROR_INPUT if its task is not tables, and as for icl_run_read_model. The
 * backend must outlive it. */
ICL_API icl_status icl_table_model_load(icl_backend *backend, const char *folder, icl_table_model **model,
                                        icl_error *error);
ICL_API void icl_table_model_destroy(icl_table_model **model);

/* Returns the limits of questions. */
ICL_API icl_table_model_limits icl_table_model_get_limits(const icl_table_model *model);

/* Answers a question. The order of the known rows changes only rounding, the other asked rows nothing, and a feature
 * that is the same in every known row has no effect. Known targets that are all equal are predicted exactly.
 * ICL_ERROR_INPUT for a question beyond the limits, for targets that are not finite, infinite features, and
 * probabilities not between 0 and 1. */
ICL_API icl_status icl_table_model_predict(icl_table_model *model, const icl_table_question *question,
                                           const icl_table_answer *answer, icl_error *error);

ICL_C_END

#endif
