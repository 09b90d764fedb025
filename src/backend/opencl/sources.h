/* The kernels of cl/, embedded by tools/embed.py. */
#ifndef ICLAB_BACKEND_OPENCL_SOURCES_H
#define ICLAB_BACKEND_OPENCL_SOURCES_H

#include <stddef.h>
#include <stdint.h>

typedef struct icl_kernel_source {
    const char *name;          /* of the file in cl/, without its extension */
    const unsigned char *data; /* includes resolved; followed by a NUL */
    size_t size;
    uint64_t hash; /* FNV-1a of the data */
} icl_kernel_source;

extern const icl_kernel_source icl_kernel_sources[];
extern const size_t icl_kernel_source_count;

#endif
