/* Host memory: the one place that calls the allocator, so that overflow is checked and faults can be planted. */
#ifndef ICLAB_CORE_ALLOCATE_H
#define ICLAB_CORE_ALLOCATE_H

#include "iclab/host.h"
#include "iclab/status.h"

/* *product = a * b, or false on overflow. */
bool icl_multiply_sizes(size_t a, size_t b, size_t *product);

/* Makes room for one element more behind the count of an array, whose pointer stands at pointer_to_pointer: an array
 * that is full, also of capacity 0, is doubled, and its elements move. On failure it is what it was. Messages call it
 * WHAT. */
icl_status icl_grow(void *pointer_to_pointer, size_t count, size_t *capacity, size_t element_size, const char *what,
                    icl_error *error);

#endif
