/* A loop over independent indices on all cores. */
#ifndef ICLAB_NUMERIC_PARALLEL_H
#define ICLAB_NUMERIC_PARALLEL_H

#include <stddef.h>

/* `thread` is below icl_parallel_threads() and tells which private workspace to use. */
typedef void icl_parallel_body(void *context, size_t index, size_t thread);

size_t icl_parallel_threads(void);

/* Runs body once for every index in 0 … count - 1, in any order, on at most `threads` threads. Results must not depend
 * on `thread`, so that they are the same for any number of threads. */
void icl_parallel_for(size_t count, size_t threads, icl_parallel_body *body, void *context);

#endif
