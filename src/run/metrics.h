/* The metrics.csv of a run, as curves of a few hundred points. */
#ifndef ICLAB_RUN_METRICS_H
#define ICLAB_RUN_METRICS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/session.h"
#include "iclab/status.h"

/* Points of a curve at most. */
#define ICL_METRICS_POINTS 400

/* The evaluations of a run so far. */
typedef struct icl_evaluated {
    double least, last;   /* NaN before the first */
    uint64_t since_least; /* evaluations behind the first that was least */
} icl_evaluated;

extern const icl_evaluated icl_evaluated_none;

/* Takes one in; a NaN, which the table does not have, counts for nothing. */
void icl_evaluated_add(icl_evaluated *evaluated, double value);

typedef struct icl_metrics {
    uint64_t rows;               /* in the file */
    size_t rows_a_point;         /* of which a point of the loss is the mean */
    size_t count;                /* points of the loss */
    double *steps, *loss;        /* [count]: the last step of each group of rows, and the mean of its finite losses */
    double *median, *low, *high; /* [count]: of these losses the median, and the quantiles 1/10 and 9/10 */
    size_t evaluations;
    double *evaluated_at,
        *half_adjusted; /* [evaluations]: at most ICL_METRICS_POINTS of them, evenly chosen, with the last */
    icl_evaluated all;  /* of the evaluations */
} icl_metrics;

/* Reads the metrics of a run folder. ICL_ERROR_INPUT if the table has other columns than
 * ICL_METRICS_HEADER. Release it in any case. */
icl_status icl_metrics_read(const char *folder, icl_metrics *metrics, icl_error *error);
void icl_metrics_release(icl_metrics *metrics);

/* The mean of the losses in the last tenth of a run folder's table; NaN where that has none. */
icl_status icl_metrics_final_loss(const char *folder, double *loss, icl_error *error);

/* ---- Streams ---- */

/*
 * The metrics of a training as JSON lines, as they come: to a file, a pipe, or a descriptor.
 *
 *     {"step":100,"loss":0.61,"gradient_norm":0.2,"learning_rate":0.001,"eval_half_adjusted":0.25}
 *
 * with the numbers of metrics.csv under its names; null where one is not finite, and eval_half_adjusted where an
 * evaluation was due alone. A reader that is slow holds a training up, as it does any program that writes into a pipe;
 * one that goes away does not end it: the rows that it did not get are counted. SIGPIPE is never raised.
 */

/* Rows on their way. */
typedef struct icl_metrics_stream icl_metrics_stream;

/*
 * Opens `target`: a path, "-" for standard output, or "fd:N" for an open descriptor. A file is begun anew
 * with the first row; with `resumes` it keeps its rows of steps up to `step`, so that none stands there twice. A named
 * pipe is waited for until somebody reads it. Once *stop is not zero, no slow reader is waited for; NULL: never so.
 * ICL_ERROR_INPUT for a descriptor that is none, ICL_ERROR_IO where the path cannot be written. */
icl_status icl_metrics_stream_open(const char *target, bool resumes, uint64_t step, const volatile sig_atomic_t *stop,
                                   icl_metrics_stream **stream, icl_error *error);

/* Takes a row, for the next flush. */
void icl_metrics_stream_row(icl_metrics_stream *stream, const icl_session_row *row);

/* Writes the rows since the last one. */
void icl_metrics_stream_flush(icl_metrics_stream *stream);

/* Writes the rest and frees everything. Returns how many rows did not arrive. NULL is allowed. */
uint64_t icl_metrics_stream_close(icl_metrics_stream **stream);

#endif
