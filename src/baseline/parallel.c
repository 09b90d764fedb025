#include "baseline/parallel.h"

#include <stdatomic.h>

#include "core/threads.h"

/* A loop whose indices go out in pieces to whoever is free. */
typedef struct loop {
    icl_parallel_body *body;
    void *context;
    size_t count, piece;
    atomic_size_t next;
} loop;

static void take_pieces(void *context, size_t thread, size_t count) {
    loop *all = context;
    (void)count;
    for (;;) {
        const size_t first = atomic_fetch_add_explicit(&all->next, all->piece, memory_order_relaxed);
        if (first >= all->count)
            return;
        const size_t end = all->count - first < all->piece ? all->count : first + all->piece;
        for (size_t i = first; i < end; i++)
            all->body(all->context, i, thread);
    }
}

size_t icl_parallel_threads(void) {
    return icl_threads_available();
}

void icl_parallel_for(size_t count, size_t threads, icl_parallel_body *body, void *context) {
    /* A few pieces for each thread: small enough to balance, large enough to hide their cost. */
    loop all = {.body = body, .context = context, .count = count, .piece = count / (threads * 8) + 1};
    icl_threads *team = NULL;

    if (threads > 1 && count > 1 && icl_threads_create(threads, &team, NULL) == ICL_OK)
        icl_threads_run(team, threads, take_pieces, &all);
    else
        take_pieces(&all, 0, 1);
    icl_threads_destroy(&team);
}
