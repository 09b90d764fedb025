/*
 * A trained model shown contexts that are given, of any length.
 *
 * Models whose attention weights are a mean or a softmax over the context take any number of rows as they are. A linear
 * transformer that sums (model.scale = raw) is shown N rows as tokens scaled by c = sqrt(n / N), n the length it was
 * trained at, and its predictions are divided by c. That is exactly the model with every sum times n /
 * N, because a layer
 *     e <- e + P (sum_j e_j e_j^T) Q e
 * of c e is c times the layer whose sum is multiplied by c^2.
 */
#ifndef ICLAB_PREDICT_PROMPTS_H
#define ICLAB_PREDICT_PROMPTS_H

#include <stdbool.h>

#include "iclab/train.h"

typedef struct icl_prompter {
    icl_backend *backend;
    const char *folder;
    const icl_recipe *recipe;
    size_t dimension, trained_context; /* d, n */
    bool takes_any_length;             /* as it is */
    size_t most_queries;

    /* For prompts of the size at hand. */
    size_t context;       /* N */
    size_t chunk;         /* queries predicted at once */
    icl_trainer *trainer; /* holds the model */
    icl_batch batch;
    double scale;       /* c, or 1 */
    float *shown;       /* [N][d + 1] */
    float *tokens;      /* [chunk][N + 1][d + 1] */
    float *predictions; /* [chunk] */
} icl_prompter;

/* Takes the model of a run folder; folder and recipe (the run's) are borrowed. Queries will mostly come `most_queries`
 * at once, or fewer. ICL_ERROR_INPUT for a model of targets that are not linear in x, and as icl_run_read_model has it.
 * Release with icl_prompter_release, also after a failure. */
icl_status icl_prompter_create(icl_backend *backend, const char *folder, const icl_recipe *recipe, size_t most_queries,
                               icl_prompter *prompter, icl_error *error);
void icl_prompter_release(icl_prompter *prompter);

/* What the model's task says about w, x and the noise. Valid until the next call that takes the prompter. */
const icl_task_prior *icl_prompter_prior(const icl_prompter *prompter);

/* Shows a context of `count` rows: inputs [count][d] and labels [count]. */
icl_status icl_prompter_show(icl_prompter *prompter, size_t count, const double *inputs, const double *labels,
                             icl_error *error);

/* Predictions [count] for queries [count][d], each after the context last shown. The order of rows and the number of
 * queries change nothing but, with the order of the rows, rounding. */
icl_status icl_prompter_predict(icl_prompter *prompter, size_t count, const double *queries, double *predictions,
                                icl_error *error);

#endif
