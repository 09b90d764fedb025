/*
 * A team of threads for loops over independent pieces, or for one task beside the caller's own work.
 *
 * Between two runs a thread checks for work for 10 to 50 microseconds, long enough for the next op of a training step,
 * and then sleeps: an idle team costs nothing, and teams of several processes on one machine do not stall each other.
 */
#ifndef ICLAB_CORE_THREADS_H
#define ICLAB_CORE_THREADS_H

#include <stddef.h>

#include "iclab/host.h"

typedef struct icl_threads icl_threads;

/* Does the share of thread number `thread` of `count`. */
typedef void icl_thread_task(void *context, size_t thread, size_t count);

/* Creates a team of `count` >= 1 threads, including the caller. The others are started when they are first needed. */
icl_status icl_threads_create(size_t count, icl_threads **threads, icl_error *error);

/* Runs the task on `count` threads, from 1 to the team's size, or on fewer if the system cannot start more, and waits
 * for all. Only one thread at a time may call it, and not from within a task. */
void icl_threads_run(icl_threads *threads, size_t count, icl_thread_task *task, void *context);

/* Does items [first, last) as thread number `thread`. */
typedef void icl_thread_items(void *context, size_t first, size_t last, size_t thread);

/* Hands `items` out to at most `count` threads, in pieces of consecutive items, eight pieces per thread. A thread that
 * is done takes the next piece, so that a slow or busy core does not hold up the others. So which thread does an item
 * depends on timing. */
void icl_threads_share(icl_threads *threads, size_t count, size_t items, icl_thread_items *task, void *context);

/* Waits for the task that the last such call started, then starts this one on another thread of a team of two, as
 * thread 1 of 2, and returns at once; NULL starts none. If the system cannot start a thread, the task runs here, as
 * thread 0 of 1. Between a start and its wait the team has no other use. */
void icl_threads_run_beside(icl_threads *threads, icl_thread_task *task, void *context);

/* Waits for a task beside, and ends the threads. NULL is allowed. */
void icl_threads_destroy(icl_threads **threads);

/* ---- A loop over independent indices on all cores ---- */

/* `thread` is below icl_parallel_threads() and tells which private workspace to use. */
typedef void icl_parallel_body(void *context, size_t index, size_t thread);

size_t icl_parallel_threads(void);

/* Runs body once for every index in 0 … count - 1, in any order, on at most `threads` threads. Results must not depend
 * on `thread`, so that they are the same for any number of threads. */
void icl_parallel_for(size_t count, size_t threads, icl_parallel_body *body, void *context);

#endif
