/* The report of a training run: its evaluation, pictures of its training, text of a model of text, its origin, and its
 * recipe. */
#ifndef ICLAB_RUN_REPORT_H
#define ICLAB_RUN_REPORT_H

#include "iclab/evaluate.h"
#include "iclab/run.h"

ICL_C_BEGIN

/* Its name in the run folder. */
#define ICL_REPORT_FILE "report.html"

/* The contents of a report. */
typedef struct icl_run_report {
    const char *folder;               /* folder of a run, with its metrics */
    const icl_recipe *recipe;         /* the run's */
    const icl_run_facts *facts;       /* the origin of its numbers */
    const icl_evaluation *evaluation; /* of the trained model */
    /* The trained model, for a task on text: the report then shows what held-out bytes cost it, and text that it
     * writes. Its device computes both. NULL: neither; not read for other tasks. */
    icl_trainer *trainer;
    icl_status (*draw)(void *user, const char *folder, const char *script,
                       icl_error *error); /* makes pictures of a gnuplot script in the folder; may be NULL */
    void *user;                           /* handed to the calls above */
} icl_run_report;

/* Writes loss and, if there were periodic evaluations, adjusted (figures) and report.html into the folder. */
ICL_API icl_status icl_run_report_write(const icl_run_report *run, icl_error *error);

ICL_C_END

#endif
