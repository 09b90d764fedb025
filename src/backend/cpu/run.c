/* How an op of a host backend gets its threads and its scratch memory. */
#include <string.h>

#include "backend/cpu/host.h"
#include "core/allocate.h"
#include "iclab/status.h"

#define WORK_WORTH_A_THREAD 16384

void HOST(run)(const HOST(state) * state, size_t items, size_t work, icl_thread_items *task, void *context) {
    size_t threads = state->threads < items ? state->threads : items;
    if (work / WORK_WORTH_A_THREAD < threads)
        threads = work / WORK_WORTH_A_THREAD;
    if (threads > 1)
        icl_threads_share(state->team, threads, items, task, context);
    else
        task(context, 0, items, 0);
}

icl_status HOST(scratch)(icl_backend *backend, size_t bytes, void *memory, icl_error *error) {
    HOST(state) *state = host_state(backend);
    icl_backend_statistics *statistics = &backend->statistics;

    if (bytes > state->scratch_bytes) {
        icl_free(&state->scratch);
        statistics->bytes_reserved -= state->scratch_bytes;
        state->scratch_bytes = 0;
        ICL_CHECK(icl_host_pool_make_room(&state->pool, HOST_SPEC, "scratch memory of all threads", bytes, statistics,
                                          error));
        ICL_CHECK(icl_allocate(1, bytes, "scratch memory of an op", &state->scratch, error));
        state->scratch_bytes = bytes;
        statistics->bytes_reserved += bytes;
    }
    if (statistics->bytes_live + state->scratch_bytes > statistics->bytes_peak)
        statistics->bytes_peak = statistics->bytes_live + state->scratch_bytes;
    memcpy(memory, &state->scratch, sizeof state->scratch);
    return ICL_OK;
}
