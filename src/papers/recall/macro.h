/* Macro accuracy: the mean over classes of the share of right answers to it. */
#ifndef ICLAB_PAPERS_RECALL_MACRO_H
#define ICLAB_PAPERS_RECALL_MACRO_H

#include "papers/reproduce.h"

typedef struct icl_recall_macro {
    double accuracy;
    size_t classes; /* that were asked for: one of them is the level of chance */
} icl_recall_macro;

/* Of the trainer's parameters, on sequences drawn for evaluation. */
icl_status icl_recall_macro_measure(const icl_reproducing *run, icl_trainer *trainer, size_t sequences,
                                    icl_recall_macro *to, icl_error *error);

#endif
