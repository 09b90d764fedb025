#include "numeric/parallel.h"

#include "core/threads.h"

typedef struct loop {
    icl_parallel_body *body;
    void *context;
} loop;

static void run_items(void *context, size_t first, size_t last, size_t thread) {
    const loop *job = context;
    for (size_t i = first; i < last; i++)
        job->body(job->context, i, thread);
}

size_t icl_parallel_threads(void) {
    return icl_threads_available();
}

void icl_parallel_for(size_t count, size_t threads, icl_parallel_body *body, void *context) {
    loop job = {.body = body, .context = context};
    icl_threads *team = NULL;

    if (threads > 1 && count > 1 && icl_threads_create(threads, &team, NULL) == ICL_OK)
        icl_threads_share(team, threads, count, run_items, &job);
    else
        run_items(&job, 0, count, 0);
    icl_threads_destroy(&team);
}
