#include "follow.h"

#include <inttypes.h>
#include <stdio.h>

#include "stop.h"

static void take_row(void *user, const icl_session_row *row) {
    followers *all = user;

    if (all->stream)
        icl_metrics_stream_row(all->stream, row);
}

static void flush_rows(void *user) {
    followers *all = user;

    if (all->stream)
        icl_metrics_stream_flush(all->stream);
}

icl_status followers_open(followers *all, bool resumes, uint64_t step, icl_error *error) {
    all->follower = (icl_session_follower){.row = take_row, .flush = flush_rows, .user = all};
    return all->metrics ? icl_metrics_stream_open(all->metrics, resumes, step, &stop_signal, &all->stream, error)
                        : ICL_OK;
}

void followers_end(followers *all) {
    const uint64_t lost = icl_metrics_stream_close(&all->stream);

    if (lost > 0)
        fprintf(stderr, "iclab: --metrics %s: %" PRIu64 " rows did not arrive; metrics.csv has them\n", all->metrics,
                lost);
}
