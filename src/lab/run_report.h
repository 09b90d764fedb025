/* The report of a training run: its evaluation, pictures of its training, where it comes from, and its recipe. */
#ifndef ICLAB_LAB_RUN_REPORT_H
#define ICLAB_LAB_RUN_REPORT_H

#include "iclab/evaluate.h"
#include "lab/figure.h"
#include "lab/run.h"

typedef struct icl_run_report {
    const char *folder; /* of a run, with its metrics */
    const icl_recipe *recipe;
    const icl_run_facts *facts;
    const icl_evaluation *evaluation;
    icl_status (*draw)(void *user, const char *folder, const char *script,
                       icl_error *error); /* see icl_drawing; may be NULL */
    void *user;
} icl_run_report;

/* Writes loss and, where there were evaluations on the way, adjusted (figures, see figure.h) and report.html into the folder. */
icl_status icl_run_report_write(const icl_run_report *run, icl_error *error);

#endif
