/* Internals of the task room: reference predictors of text. */
#ifndef ICLAB_TASK_TEXT_PREDICTORS_H
#define ICLAB_TASK_TEXT_PREDICTORS_H

#include "iclab/task_family.h"
#include "task/byte_trees.h"

/* These learn from the context: n-grams of orders 0 … ICL_LEARNERS - 2, and trees of contexts. */
enum { ICL_LEARNERS = 5 };

/* Counts or trees of what was shown, up to the byte before place `next`; 0: of something else. */
typedef struct icl_text_learner {
    icl_ngrams *counts;
    icl_byte_trees *trees;
    uint64_t next;
} icl_text_learner;

/* The counts that predictors of a task keep between calls; zero at first. */
typedef struct icl_text_predictors {
    icl_ngrams *counts; /* of the training part, for all orders; NULL: not counted yet */
    icl_text_learner learners[ICL_LEARNERS];
} icl_text_predictors;

void icl_text_predictors_release(icl_text_predictors *predictors);

/* Is icl_task_family.references of text: uniform; bytes and ngram:1 … ngram:6, the interpolated n-grams of the training
 * part, of order 0 to 6; context:0 … context:3, those that know nothing but the bytes before in the window, or in the
 * whole part that the final table reads where the state is carried; ctw, Bayes over trees of contexts of up to
 * ICL_MOST_ORDER bytes, which knows as much as those. */
const icl_reference_predictor *icl_text_references(const icl_task *task);

#endif
