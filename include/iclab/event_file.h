/*
 * The metrics of a training as TensorBoard reads them: an event file of scalars loss, gradient_norm, learning_rate and
 * eval_half_adjusted by step.
 *
 * Every training, and every one that goes on, writes a file of its own into the folder. One that goes on begins it with
 * the step that it starts from, at which TensorBoard drops what earlier files have of later steps; a reader of the
 * plain files finds these rows twice, where a run was killed behind its last checkpoint.
 */
#ifndef ICLAB_EVENT_FILE_H
#define ICLAB_EVENT_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "iclab/session.h"
#include "iclab/status.h"

ICL_C_BEGIN

/* An event file that is being written. */
typedef struct icl_event_file icl_event_file;

/* Makes the folder where it is missing, and events.out.tfevents.TIME.HOST.PROCESS.NUMBER in it. With `resumes` it
 * starts behind `step`. ICL_ERROR_IO where it cannot be written. */
ICL_API icl_status icl_event_file_create(const char *folder, bool resumes, uint64_t step, icl_event_file **file,
                                         icl_error *error);

/* Takes a row. */
ICL_API void icl_event_file_row(icl_event_file *file, const icl_session_row *row);

/* Writes what was taken, in whole records. */
ICL_API void icl_event_file_flush(icl_event_file *file);

/* Writes the rest and frees everything. ICL_ERROR_IO where something could not be written, the first time: the file
 * ends there. NULL is allowed. */
ICL_API icl_status icl_event_file_close(icl_event_file **file, icl_error *error);

ICL_C_END

#endif
