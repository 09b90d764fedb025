/*
 * The metrics of a training as JSON lines, as they come: to a file, a pipe, or a descriptor.
 *
 *     {"step":100,"loss":0.61,"gradient_norm":0.2,"learning_rate":0.001,"eval_half_adjusted":0.25}
 *
 * with the numbers of metrics.csv under its names: null if one is not finite, and eval_half_adjusted only if an
 * evaluation was due. A slow reader holds a training up, as it does any program that writes into a pipe. A reader that
 * goes away does not end it: the rows that it did not get are counted. SIGPIPE is never raised.
 */
#ifndef ICLAB_TOOLS_METRICS_STREAM_H
#define ICLAB_TOOLS_METRICS_STREAM_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "iclab/session.h"
#include "iclab/status.h"

/* A stream of rows. */
typedef struct metrics_stream metrics_stream;

/* Opens `target`: a path, "-" for standard output, or "fd:N" for an open descriptor. The first row truncates a file;
 * with `resumes` its rows of steps up to `step` are kept, so that no step occurs twice. Waits until a named pipe has a
 * reader. Once *stop is not zero, a slow reader is no longer waited for; with NULL it always is. ICL_ERROR_INPUT for a
 * descriptor that is not open, ICL_ERROR_IO if the path cannot be written. */
icl_status metrics_stream_open(const char *target, bool resumes, uint64_t step, const volatile sig_atomic_t *stop,
                               metrics_stream **stream, icl_error *error);

/* Takes a row, for the next flush. */
void metrics_stream_row(metrics_stream *stream, const icl_session_row *row);

/* Writes the rows since the last flush. */
void metrics_stream_flush(metrics_stream *stream);

/* Writes the rest and frees everything. Returns how many rows did not arrive. NULL is allowed. */
uint64_t metrics_stream_close(metrics_stream **stream);

#endif
