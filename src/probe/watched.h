/* A run of a sequence model that is watched, for probes. */
#ifndef ICLAB_PROBE_WATCHED_H
#define ICLAB_PROBE_WATCHED_H

#include "model/sequence/sequence.h"

/* Runs the model with parameters [N] on inputs on their backend, and hands the tape to `read`, with the watch's `user`:
 * while it runs, the variables that were seen have their values. ICL_ERROR_INPUT for models of another family. */
icl_status icl_watched_run(const icl_model *model, icl_backend *backend, icl_tensor parameters, icl_tensor inputs,
                           const icl_sequence_watch *watch,
                           icl_status (*read)(void *user, const icl_tape *tape, icl_error *error), icl_error *error);

#endif
