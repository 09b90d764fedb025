/* Host memory: the one place that calls the allocator, so that overflow is checked and faults can be planted. */
#ifndef ICLAB_CORE_ALLOCATE_H
#define ICLAB_CORE_ALLOCATE_H

#include "iclab/host.h"
#include "iclab/status.h"

/* *product = a * b, or false on overflow. */
bool icl_multiply_sizes(size_t a, size_t b, size_t *product);

#endif
