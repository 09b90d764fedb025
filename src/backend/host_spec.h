/* The spec of a host backend: "NAME", "NAME:threads=N", "NAME:isa=SET" or "NAME:threads=N:isa=SET". */
#ifndef ICLAB_BACKEND_HOST_SPEC_H
#define ICLAB_BACKEND_HOST_SPEC_H

#include <stdbool.h>
#include <stddef.h>

#include "iclab/host.h"

/* Instruction sets that the host's kernels are compiled for, from narrow to wide. Architectures other than x86-64 have
 * only the first. AMX is AVX-512 with products of bfloat16 in tiles. */
typedef enum icl_isa { ICL_ISA_BASE = 0, ICL_ISA_AVX2, ICL_ISA_AVX512, ICL_ISA_AMX } icl_isa;

/* Returns "base", "avx2", "avx512" or "amx". */
const char *icl_isa_name(icl_isa isa);

typedef struct icl_host_spec {
    size_t threads; /* 0: all cores */
    bool has_isa;   /* else the widest instruction set that the machine has */
    icl_isa isa;
} icl_host_spec;

/* Reads a spec of this form with this NAME; returns false if it is not one. */
bool icl_host_spec_read(const char *spec, const char *name, icl_host_spec *read);

/* Writes the spec that icl_host_spec_read reads as `spec`. */
void icl_host_spec_write(const icl_host_spec *spec, const char *name, char *text, size_t capacity);

/* ---- Properties of the machine that the host backends run on (cpu/machine.c) ---- */

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
