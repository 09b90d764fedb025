/* What the machine under the host backends is. */
#ifndef ICLAB_BACKEND_CPU_MACHINE_H
#define ICLAB_BACKEND_CPU_MACHINE_H

#include <stddef.h>

#include "backend/host_spec.h"

/* The widest instruction set that both this build and this processor have. */
icl_isa icl_machine_isa(void);

/* The processor's own name, or "host". */
void icl_machine_name(char *name, size_t capacity);

/* Bytes of memory that a process may use: the machine's, or the limit of its container; 0 where unknown. */
size_t icl_machine_memory(void);

/* The number of bytes that a control group's file holds; 0 without such a file, or where it says "max". */
size_t icl_machine_memory_limit(const char *path);

#endif
