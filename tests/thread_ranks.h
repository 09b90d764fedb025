/* Ranks that are threads of one process, to test iclab/ranks.h with several ranks without MPI. */
#ifndef ICLAB_TESTS_THREAD_RANKS_H
#define ICLAB_TESTS_THREAD_RANKS_H

#include <pthread.h>
#include <string.h>

#include "iclab/ranks.h"

enum { MOST_RANKS = 4 };

/* The function that each rank runs; its outcome is its own. */
typedef void thread_ranks_function(const icl_ranks *ranks, void *user);

static struct {
    pthread_mutex_t lock;
    pthread_cond_t all_here;
    size_t count, waiting, round;
    void *data[MOST_RANKS];
    thread_ranks_function *function;
    void *user;
} thread_world = {.lock = PTHREAD_MUTEX_INITIALIZER, .all_here = PTHREAD_COND_INITIALIZER};

static _Thread_local size_t thread_rank;

static inline void thread_ranks_wait(void) {
    pthread_mutex_lock(&thread_world.lock);
    const size_t round = thread_world.round;
    if (++thread_world.waiting == thread_world.count) {
        thread_world.waiting = 0;
        thread_world.round++;
        pthread_cond_broadcast(&thread_world.all_here);
    }
    while (thread_world.round == round)
        pthread_cond_wait(&thread_world.all_here, &thread_world.lock);
    pthread_mutex_unlock(&thread_world.lock);
}

static inline icl_status thread_ranks_broadcast(void *data, size_t size, size_t from, icl_error *error) {
    (void)error;
    thread_world.data[thread_rank] = data;
    thread_ranks_wait();
    if (thread_rank != from)
        memcpy(data, thread_world.data[from], size);
    thread_ranks_wait();
    return ICL_OK;
}

static inline icl_status thread_ranks_gather(void *data, const size_t *sizes, size_t count, icl_error *error) {
    (void)error;
    thread_world.data[thread_rank] = data;
    thread_ranks_wait();
    for (size_t rank = 0, at = 0; rank < count; at += sizes[rank++])
        if (rank != thread_rank)
            memcpy((char *)data + at, (char *)thread_world.data[rank] + at, sizes[rank]);
    thread_ranks_wait();
    return ICL_OK;
}

static inline void *thread_ranks_main(void *argument) {
    static const icl_ranks_calls calls = {thread_ranks_broadcast, thread_ranks_gather};
    size_t sizes[MOST_RANKS];
    uint64_t numbers[MOST_RANKS];

    thread_rank = *(size_t *)argument;
    const icl_ranks ranks = {.index = thread_rank,
                             .count = thread_world.count,
                             .local_index = thread_rank,
                             .local_count = thread_world.count,
                             .calls = &calls,
                             .sizes = sizes,
                             .numbers = numbers};
    thread_world.function(&ranks, thread_world.user);
    return NULL;
}

/* Runs the function on `count` ranks, at most MOST_RANKS, and waits for all. Returns false if a thread cannot be
 * made. */
static inline bool thread_ranks_run(size_t count, thread_ranks_function *function, void *user) {
    pthread_t threads[MOST_RANKS];
    size_t indices[MOST_RANKS];

    thread_world.count = count;
    thread_world.function = function;
    thread_world.user = user;
    for (size_t i = 0; i < count; i++) {
        indices[i] = i;
        if (pthread_create(&threads[i], NULL, thread_ranks_main, &indices[i]) != 0)
            return false; /* the running ranks wait for ever: the test's time limit ends it */
    }
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    return true;
}

#endif
