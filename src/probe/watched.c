#include "probe/watched.h"

#include "iclab/tape.h"

icl_status icl_watched_run(const icl_model *model, icl_backend *backend, icl_tensor parameters, icl_tensor inputs,
                           const icl_sequence_watch *watch,
                           icl_status (*read)(void *user, const icl_tape *tape, icl_error *error), icl_error *error) {
    icl_tape *tape = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_tape_create(backend, &tape, error));
    ICL_TRY(icl_sequence_watch_run(model, tape, parameters, inputs, watch, error));
    ICL_TRY(read(watch->user, tape, error));
done:
    icl_tape_destroy(&tape);
    return status;
}
