#include "probe/residual_stream.h"

#include "core/allocate.h"
#include "iclab/tape.h"
#include "probe/watched.h"

/* What stands behind the stages, on the tape. */
typedef struct watcher {
    icl_residual_stream *stream; /* of what was seen */
    icl_variable *stages;
    size_t count, capacity;
    icl_status status;
    icl_error *error;
} watcher;

static void see(void *user, size_t stage, icl_variable z) {
    watcher *w = user;

    if (w->status == ICL_OK)
        w->status =
            icl_grow(&w->stages, stage, &w->capacity, sizeof *w->stages, "stages of a residual stream", w->error);
    if (w->status != ICL_OK)
        return;
    w->stages[stage] = z;
    w->count = stage + 1;
}

static icl_status read_stages(void *user, const icl_tape *tape, icl_error *error) {
    const watcher *w = user;
    icl_residual_stream *stream = w->stream;

    ICL_CHECK(w->status);
    const icl_tensor first = icl_tape_value(tape, w->stages[0]);

    stream->stages = w->count;
    stream->tokens = first.shape[0] * first.shape[1];
    stream->width = first.shape[2];
    ICL_CHECK(icl_allocate(w->count, icl_tensor_count(&first) * sizeof *stream->values, "residual stream",
                           &stream->values, error));
    for (size_t i = 0; i < w->count; i++)
        ICL_CHECK(icl_tensor_read(icl_tape_value(tape, w->stages[i]),
                                  stream->values + i * stream->tokens * stream->width, error));
    return ICL_OK;
}

icl_status icl_residual_stream_read(const icl_model *model, icl_backend *backend, icl_tensor parameters,
                                    icl_tensor inputs, icl_residual_stream *stream, icl_error *error) {
    watcher w = {.stream = stream, .error = error};
    const icl_sequence_watch watch = {.stage = see, .user = &w};
    icl_status status;

    *stream = (icl_residual_stream){0};
    status = icl_watched_run(model, backend, parameters, inputs, &watch, read_stages, error);
    icl_free(&w.stages);
    return status;
}

void icl_residual_stream_release(icl_residual_stream *stream) {
    icl_free(&stream->values);
}

const float *icl_residual_stream_stage(const icl_residual_stream *stream, size_t stage) {
    return stream->values + stage * stream->tokens * stream->width;
}
