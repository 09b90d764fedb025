/* State tracking by training: what the reproductions of parity and of permutations share. */
#ifndef ICLAB_PAPERS_STATE_TRAINED_H
#define ICLAB_PAPERS_STATE_TRAINED_H

#include "papers/curves.h"

enum { ICL_STATE_MOST_SEEDS = 8, ICL_STATE_MOST_LENGTHS = 8 };

/* A kind of model: a recipe, and what it changes there. */
typedef struct icl_state_model {
    const char *recipe, *overrides; /* "section.key=value", separated by blanks */
    const char *cell;               /* of its run folders, runs/CELL-seedN */
    const char *label;              /* of its curve */
} icl_state_model;

/* How often a model is trained, and the lengths of words on which it is evaluated, 0 behind the last. */
typedef struct icl_state_extent {
    size_t seeds;     /* the run's and those behind it */
    size_t sequences; /* for each length */
    size_t lengths[ICL_STATE_MOST_LENGTHS];
} icl_state_extent;

/* The share of words of exactly that length whose last class is right. */
typedef struct icl_state_accuracies {
    double of[ICL_STATE_MOST_SEEDS][ICL_STATE_MOST_LENGTHS];
} icl_state_accuracies;

/* Trains the model with each seed, and adds its accuracies to the curves. */
icl_status icl_state_train(icl_reproducing *run, const icl_state_model *model, const icl_state_extent *extent,
                           icl_curves *curves, icl_state_accuracies *accuracies, icl_error *error);

/* How many seeds have at least that accuracy at the length of that number. */
size_t icl_state_count(const icl_state_extent *extent, const icl_state_accuracies *accuracies, size_t length,
                       double accuracy);

/* The accuracies at one length as text: "1, 0.993, 0.51". */
void icl_state_list(const icl_state_extent *extent, const icl_state_accuracies *accuracies, size_t length, char *text,
                    size_t capacity);

#endif
