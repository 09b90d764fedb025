/* The metrics.csv of a run, as curves of a few hundred points. */
#ifndef ICLAB_RUN_METRICS_H
#define ICLAB_RUN_METRICS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/session.h"
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

/* ---- Streams ---- */

/*
 * The metrics of a training as JSON lines, as they come: to a file, a pipe, or a descriptor.
 *
 *     {"step":100,"loss":0.61,"gradient_norm":0.2,"learning_rate":0.001,"eval_half_adjusted":0.25}
 *
 * with the numbers of metrics.csv under its names: null if one is not finite, and eval_half_adjusted only if an
 * evaluation was due. A slow reader holds a training up, as it does any program that writes into a pipe. A reader that
 * goes away does not end it: the rows that it did not get are counted. SIGPIPE is never raised.
 */

/* A stream of rows. */
typedef struct icl_metrics_stream icl_metrics_stream;

/* Opens `target`: a path, "-" for standard output, or "fd:N" for an open descriptor. The first row truncates a file;
 * with `resumes` its rows of steps up to `step` are kept, so that no step occurs twice. Waits until a named pipe has a
 * reader. Once *stop is not zero, a slow reader is no longer waited for; with NULL it always is. ICL_ERROR_INPUT for a
 * descriptor that is not open, ICL_ERROR_IO if the path cannot be written. */
icl_status icl_metrics_stream_open(const char *target, bool resumes, uint64_t step, const volatile sig_atomic_t *stop,
                                   icl_metrics_stream **stream, icl_error *error);

/* Takes a row, for the next flush. */
void icl_metrics_stream_row(icl_metrics_stream *stream, const icl_session_row *row);

/* Writes the rows since the last flush. */
void icl_metrics_stream_flush(icl_metrics_stream *stream);

/* Writes the rest and frees everything. Returns how many rows did not arrive. NULL is allowed. */
uint64_t icl_metrics_stream_close(icl_metrics_stream **stream);

#endif
