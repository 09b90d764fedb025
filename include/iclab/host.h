/* The machine that a program runs on: memory, time, and cores. */
#ifndef ICLAB_HOST_H
#define ICLAB_HOST_H

#include <stdbool.h>
#include <stddef.h>

#include "iclab/status.h"

ICL_C_BEGIN

/* Allocates zeroed memory for count * size bytes, aligned to 64 bytes if that is 64 bytes or more; freed with icl_free.
 * Never returns NULL with ICL_OK, even for count = 0. ICL_ERROR_MEMORY names `what`. */
ICL_API icl_status icl_allocate(size_t count, size_t size, const char *what, void *pointer_to_pointer,
                                icl_error *error);

/* Frees *pointer_to_pointer and sets it to NULL. */
ICL_API void icl_free(void *pointer_to_pointer);

/* Copies a text to new memory, freed with icl_text_free. */
ICL_API icl_status icl_duplicate(const char *text, char **copy, icl_error *error);

/* Returns the seconds since some moment in the past, by a clock that is never set. */
ICL_API double icl_clock_seconds(void);

/* Returns the default number of threads of a host backend: $OMP_NUM_THREADS, else the cores that this process may run
 * on. At least 1. */
ICL_API size_t icl_threads_available(void);

/* Returns whether `spec` is a host backend on all cores, which can be divided among several users. */
ICL_API bool icl_host_spec_is_divisible(const char *spec);

/* Writes `spec`, of a host backend, with another number of threads, at least 1, into `text` of `capacity` bytes. `text`
 * may be `spec` itself, and is left unchanged if `spec` names another device. */
ICL_API void icl_host_spec_take_threads(const char *spec, size_t threads, char *text, size_t capacity);

ICL_C_END

#endif
