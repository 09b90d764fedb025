/* State tracking by training: kinds of models with several seeds each, and their accuracy by the length of words. */
#ifndef ICLAB_PAPERS_STATE_TRAINED_H
#define ICLAB_PAPERS_STATE_TRAINED_H

#include "papers/reproduce.h"

enum { ICL_STATE_MOST_SEEDS = 8, ICL_STATE_MOST_LENGTHS = 6 };

/* Scales, as bits. */
enum { ICL_AT_CI = 1 << ICL_SCALE_CI, ICL_AT_SHORT = 1 << ICL_SCALE_SHORT, ICL_AT_FULL = 1 << ICL_SCALE_FULL };

/* A kind of model: what it changes in the recipe, how often it is trained, and on which words it is evaluated. */
typedef struct icl_state_kind {
    unsigned scales;                        /* at which it is trained */
    const char *cell, *label;               /* of its run folders, runs/CELL-seedN; of its findings and its curve */
    const char *overrides;                  /* "section.key=value", separated by blanks */
    bool learns;                            /* more than half of its seeds do; otherwise none */
    size_t seeds;                           /* the run's and those behind it */
    size_t sequences;                       /* for each length */
    size_t lengths[ICL_STATE_MOST_LENGTHS]; /* 0 behind the last; the second is twice the longest in training */
    /* What is published of it: (accuracy - chance) / (1 - chance) of the best seed, on words between the first and the
     * last of these lengths. Recalled, so that it is shown and does not judge. NULL: nothing. */
    const double *published;
} icl_state_kind;

/* Accuracies are shares of words, all of one length, whose last class is right. */
typedef struct icl_state_training {
    const char *recipe, *title, *tokens; /* of the figure, and what words are made of */
    double right;                        /* the accuracy at twice the length that shows that a seed learned */
    double above_chance;                 /* the accuracy there that seeds without a chance stay below */
    double chance;                       /* the share of right guesses, a curve of the figure */
    const char *can, *cannot;            /* sources */
    size_t count;
    const icl_state_kind *kinds; /* [count] */
} icl_state_training;

/* Trains the kinds of this scale, judges them, and draws their accuracies. */
icl_status icl_state_judge_training(icl_reproducing *run, const icl_state_training *training, icl_error *error);

#endif
