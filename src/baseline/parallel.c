#include "baseline/parallel.h"

#include "config.h"

#if ICL_HAVE_OPENMP
#include <omp.h>

size_t icl_parallel_threads(void) {
    const int threads = omp_get_max_threads();
    return threads > 0 ? (size_t)threads : 1;
}

void icl_parallel_for(size_t count, size_t threads, icl_parallel_body *body, void *context) {
    /* A few pieces for each thread: small enough to balance, large enough to hide their cost. */
#pragma omp parallel for schedule(dynamic, count / (threads * 8) + 1) num_threads((int)threads)
    for (size_t i = 0; i < count; i++)
        body(context, i, (size_t)omp_get_thread_num());
}

#else

size_t icl_parallel_threads(void) {
    return 1;
}

void icl_parallel_for(size_t count, size_t threads, icl_parallel_body *body, void *context) {
    (void)threads;
    for (size_t i = 0; i < count; i++)
        body(context, i, 0);
}

#endif
