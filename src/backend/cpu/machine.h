/* Properties of the machine that the host backends run on. */
#ifndef ICLAB_BACKEND_CPU_MACHINE_H
#define ICLAB_BACKEND_CPU_MACHINE_H

#include <stddef.h>

#include "backend/host_spec.h"

/* Returns the widest instruction set that both this build and this processor have. */
icl_isa icl_machine_isa(void);

/* Writes the processor's own name, or "host". */
void icl_machine_name(char *name, size_t capacity);

/* Returns the bytes of memory that a process may use: the machine's, or its container's limit if lower; 0 if
 * unknown. */
size_t icl_machine_memory(void);

/* Returns the number of bytes in a control group's file; 0 if there is no such file, or if it says "max". */
size_t icl_machine_memory_limit(const char *path);

#endif
