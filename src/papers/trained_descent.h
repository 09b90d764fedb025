/*
 * Cells that studies share: trained layers of linear attention with B = 0 and A alone, on whitened data without noise.
 * Each layer is a step of gradient descent, A = -a I at the optimum (Ahn et al. 2023, arXiv 2306.00297, lemma 1), and
 * the optimum is known exactly (iclab/descent_optimum.h).
 *
 * A polynomial of the eigenvalues has heavy tails: means over some 10,000 sequences miss the expected loss of four
 * layers by several per cent. So the loss of what was trained is the optimum's exact one and the mean difference to it,
 * sequence by sequence, which scatters far less.
 */
#ifndef ICLAB_PAPERS_TRAINED_DESCENT_H
#define ICLAB_PAPERS_TRAINED_DESCENT_H

#include "iclab/descent_optimum.h"
#include "papers/study.h"

/* Numbers of such a cell; those of the study's own stand behind them. */
enum {
    ICL_DESCENT_LOSS = 0,   /* the expected loss, as above; the full squared error */
    ICL_DESCENT_DISTANCE,   /* the largest Dist(A, I) */
    ICL_DESCENT_TO_INVERSE, /* the largest ||A + I||_F / ||I||_F: how far -A is from the inputs' inverse covariance */
    ICL_DESCENT_LENGTHS,    /* a of A = -a I, ascending */
    ICL_DESCENT_NUMBERS = ICL_DESCENT_LENGTHS + ICL_DESCENT_MOST_STEPS
};

/* Training steps of each depth below the last one, where layers are free, and of the last one; sequences for the
 * difference to the optimum. */
typedef struct icl_descent_budget {
    size_t stage, last, sequences;
} icl_descent_budget;

/* Adds the cell "tied-d5-n20-L4" or "untied-d5-n20-L4": one layer for each step; at x of a curve. */
const icl_study_cell *icl_study_add_descent(icl_study *study, const icl_descent_problem *problem,
                                            const icl_descent_budget *budget, const char *curve, double x);

/* The problem of a cell that was added so; it has no noise. */
icl_descent_problem icl_study_descent(const icl_study_cell *cell);

icl_status icl_study_measure_descent(icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                     size_t sequences, icl_number *numbers, icl_error *error);

/* The optimum: its step lengths and its expected loss. */
typedef struct icl_best_descent {
    double lengths[ICL_DESCENT_MOST_STEPS], loss;
} icl_best_descent;

icl_best_descent icl_study_best_descent(const icl_study *study, const icl_study_cell *cell);

/* Judges the loss beside the optimum's, within this part of it, or at most so much above. */
void icl_study_judge_descent(icl_study *study, const icl_study_cell *cell, double tolerance, icl_criterion criterion);

#endif
