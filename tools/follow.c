#include "follow.h"

#include <inttypes.h>
#include <stdio.h>

#include "iclab/file.h"

static void take_row(void *user, const icl_session_row *row) {
    followers *all = user;

    if (all->stream)
        icl_metrics_stream_row(all->stream, row);
    if (all->events)
        icl_event_file_row(all->events, row);
}

static void flush_rows(void *user) {
    followers *all = user;

    if (all->stream)
        icl_metrics_stream_flush(all->stream);
    if (all->events)
        icl_event_file_flush(all->events);
}

icl_status followers_open(followers *all, bool resumes, uint64_t step, icl_error *error) {
    all->follower = (icl_session_follower){.row = take_row, .flush = flush_rows, .user = all};
    if (all->tensorboard)
        ICL_CHECK(icl_folder_create(all->tensorboard, error));
    if (all->metrics)
        ICL_CHECK(icl_metrics_stream_open(all->metrics, resumes, step, &all->stream, error));
    return ICL_OK;
}

icl_status followers_begin(followers *all, bool resumes, uint64_t step, icl_error *error) {
    if (all->tensorboard)
        ICL_CHECK(icl_event_file_create(all->tensorboard, resumes, step, &all->events, error));
    return ICL_OK;
}

void followers_end(followers *all) {
    icl_error error = {0};
    const uint64_t lost = icl_metrics_stream_close(&all->stream);

    if (lost > 0)
        fprintf(stderr, "iclab: --metrics %s: %" PRIu64 " rows did not arrive; metrics.csv has them\n", all->metrics,
                lost);
    if (icl_event_file_close(&all->events, &error) != ICL_OK)
        fprintf(stderr, "iclab: --tensorboard %s: %s; metrics.csv has what is missing\n", all->tensorboard,
                error.message);
}
