/* The metrics.csv of a run, as curves of a few hundred points. */
#ifndef ICLAB_RUN_METRICS_H
#define ICLAB_RUN_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/status.h"

/* The most points of a curve. */
#define ICL_METRICS_POINTS 400

/* The evaluations of a run so far. */
typedef struct icl_evaluated {
    double least, last;   /* NaN before the first */
    uint64_t since_least; /* evaluations after the first with the least value */
} icl_evaluated;

extern const icl_evaluated icl_evaluated_none;

/* Adds a value; ignores NaN, which the table does not have. */
void icl_evaluated_add(icl_evaluated *evaluated, double value);

typedef struct icl_metrics {
    uint64_t rows;               /* rows of the file */
    size_t rows_a_point;         /* the rows whose mean is a point of the loss */
    size_t count;                /* points of the loss */
    double *steps, *loss;        /* [count]: the last step of each group of rows, and the mean of its finite losses */
    double *median, *low, *high; /* [count]: the median of these losses, and their quantiles 1/10 and 9/10 */
    size_t evaluations;
    double *evaluated_at,
        *half_adjusted; /* [evaluations]: at most ICL_METRICS_POINTS evenly spaced ones, with the last */
    icl_evaluated all;  /* all evaluations */
} icl_metrics;

/* Reads the metrics of a run folder. ICL_ERROR_INPUT if the table has other columns than
 * ICL_METRICS_HEADER. Release it in any case. */
icl_status icl_metrics_read(const char *folder, icl_metrics *metrics, icl_error *error);
void icl_metrics_release(icl_metrics *metrics);

/* Computes the mean of the losses in the last tenth of a run folder's table; NaN if that has none. */
icl_status icl_metrics_final_loss(const char *folder, double *loss, icl_error *error);

#endif
