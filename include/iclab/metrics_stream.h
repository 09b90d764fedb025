/*
 * The metrics of a training as JSON lines, as they come: to a file, a pipe, or a descriptor.
 *
 *     {"step":100,"loss":0.61,"gradient_norm":0.2,"learning_rate":0.001,"eval_half_adjusted":0.25}
 *
 * with the numbers of metrics.csv under its names; null where one is not finite, and eval_half_adjusted where an
 * evaluation was due alone. A reader that is slow holds a training up, as it does any program that writes into a pipe;
 * one that goes away does not end it: the rows that it did not get are counted. SIGPIPE is never raised.
 */
#ifndef ICLAB_METRICS_STREAM_H
#define ICLAB_METRICS_STREAM_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "iclab/session.h"
#include "iclab/status.h"

ICL_C_BEGIN

/* Rows on their way. */
typedef struct icl_metrics_stream icl_metrics_stream;

/*
 * Opens `target`: a path, "-" for standard output, or "fd:N" for an open descriptor. A file is begun anew
 * with the first row; with `resumes` it keeps its rows of steps up to `step`, so that none stands there twice. A named
 * pipe is waited for until somebody reads it. Once *stop is not zero, no slow reader is waited for; NULL: never so.
 * ICL_ERROR_INPUT for a descriptor that is none, ICL_ERROR_IO where the path cannot be written. */
ICL_API icl_status icl_metrics_stream_open(const char *target, bool resumes, uint64_t step,
                                           const volatile sig_atomic_t *stop, icl_metrics_stream **stream,
                                           icl_error *error);

/* Takes a row, for the next flush. */
ICL_API void icl_metrics_stream_row(icl_metrics_stream *stream, const icl_session_row *row);

/* Writes the rows since the last one. */
ICL_API void icl_metrics_stream_flush(icl_metrics_stream *stream);

/* Writes the rest and frees everything. Returns how many rows did not arrive. NULL is allowed. */
ICL_API uint64_t icl_metrics_stream_close(icl_metrics_stream **stream);

ICL_C_END

#endif
