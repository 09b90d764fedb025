/* Host memory: the one place that calls the allocator, so that overflow is checked and faults can be planted. */
#ifndef ICLAB_CORE_ALLOCATE_H
#define ICLAB_CORE_ALLOCATE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/status.h"

/* Zeroed memory for count * size bytes, aligned to 64 bytes; freed with icl_free. Never returns NULL with ICL_OK, even for
 * count = 0. ICL_ERROR_MEMORY names `what`. */
icl_status icl_allocate(size_t count, size_t size, const char *what, void *pointer_to_pointer,
                        icl_error *error);

/* Frees *pointer_to_pointer and sets it to NULL. */
void icl_free(void *pointer_to_pointer);

/* Copies text to new memory, freed with icl_free. */
icl_status icl_duplicate(const char *text, char **copy, icl_error *error);

/* *product = a * b, or false on overflow. */
bool icl_multiply_sizes(size_t a, size_t b, size_t *product);

#endif
