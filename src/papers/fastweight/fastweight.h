/* What the reproductions of "Linear Transformers Are Secretly Fast Weight Programmers" (Schlag, Irie, Schmidhuber 2021,
 * arXiv 2102.11174, section 6.1) share: memories trained on S keys, over S. */
#ifndef ICLAB_PAPERS_FASTWEIGHT_FASTWEIGHT_H
#define ICLAB_PAPERS_FASTWEIGHT_FASTWEIGHT_H

#include "papers/curves.h"
#include "papers/reproduce.h"

/* S = 20, 40, … 600: place i stands for 20 (i + 1). */
enum { ICL_FASTWEIGHT_SIZES = 30, ICL_FASTWEIGHT_STEP = 20, ICL_FASTWEIGHT_NAME = 64 };

/* A memory, and the least losses of the authors' runs, by their logs. */
typedef struct icl_fastweight_curve {
    const char *name;                  /* "dpfp-1, sum" */
    const char *rule, *feature_map;    /* as the recipe has them */
    size_t features;                   /* D, numbers behind the feature map; 0: without such a limit */
    double logs[ICL_FASTWEIGHT_SIZES]; /* 0: not at hand */
    const char *differs;               /* from the authors' code, so that their logs do not judge it; NULL: nothing */
    icl_scale first;                   /* scale from which on it is part of the figure */
    const char *overrides;             /* of the recipe, "section.key=value", separated by blanks; NULL: none */
    size_t short_steps;                /* at most at scale short; 0: as many as the others */
    size_t short_patience;             /* evaluations without a lower loss that end it at scale short; 0: 10 */
} icl_fastweight_curve;

/* A figure: curves over S. */
typedef struct icl_fastweight_figure {
    const char *name, *title, *source;
    bool repeated; /* setting 2: keys are written again */
    size_t most;   /* the largest S at scale full */
    size_t count;
    const icl_fastweight_curve *curves;
} icl_fastweight_figure;

/* Trains and judges the figure's curves at the run's scale, and draws them beside the logs, the limit of rank and what
 * `curves` has already. */
icl_status icl_fastweight_reproduce(icl_reproducing *run, const icl_fastweight_figure *figure, icl_curves *curves,
                                    icl_error *error);

/* ---- The measure (measure.c) ---- */

/* Sequences of the evaluation, and a trainer of their task that is lent parameters. */
typedef struct icl_fastweight_measure icl_fastweight_measure;

/* For models of this recipe: `sequences` sequences of `keys` writes whose keys are asked in the order of their numbers,
 * the first 200. */
icl_status icl_fastweight_measure_create(icl_reproducing *run, const icl_recipe *recipe, size_t keys, size_t sequences,
                                         icl_fastweight_measure **measure, icl_error *error);
void icl_fastweight_measure_destroy(icl_fastweight_measure **measure);

/* Half of the squared error: the mean over sequences of that over their keys. */
typedef struct icl_fastweight_loss {
    double mean;
    double standard_error; /* of the sequences */
} icl_fastweight_loss;

icl_status icl_fastweight_measure_of(icl_fastweight_measure *measure, icl_trainer *trainer, icl_fastweight_loss *loss,
                                     icl_error *error);

/* No memory of D features returns S values: the S x S matrix of what it returns for each key has rank D at most, and
 * half of its mean squared distance to the identity is (1 - D / S) / 2 or more. */
double icl_fastweight_rank_floor(size_t features, size_t keys);

/* A sum does not know the order of a key's writes, so that the mean of the values is the best that it returns. Of c
 * values, independent and uniform over S, the mean is half of (1 - 1 / c) (1 - 1 / S) from the last one in expectation.
 * A key is among S writes c times with the binomial law of S draws of probability 1 / S, given that it is there; for
 * large S, c is Poisson(1) given c >= 1, and this expectation .1165. */
double icl_fastweight_mean_floor(size_t keys);

#endif
