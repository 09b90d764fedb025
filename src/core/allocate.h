/* Host memory. All allocations are made here, so that overflow is checked and faults can be planted. */
#ifndef ICLAB_CORE_ALLOCATE_H
#define ICLAB_CORE_ALLOCATE_H

#include "iclab/host.h"
#include "iclab/status.h"

/* Sets *product = a * b; returns false on overflow. */
bool icl_multiply_sizes(size_t a, size_t b, size_t *product);

/* Makes room for one more element after the first `count` of an array, whose pointer is at pointer_to_pointer. If the
 * array is full, its capacity is doubled (from 0: set to 16) and its elements move. On failure nothing changes.
 * Messages call the array WHAT. */
icl_status icl_grow(void *pointer_to_pointer, size_t count, size_t *capacity, size_t element_size, const char *what,
                    icl_error *error);

#endif
