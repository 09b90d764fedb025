/*
 * Named tensors in a file, in the safetensors format that machine-learning tools share: 8 bytes of header length
 * (little-endian), a JSON header with each tensor's dtype, shape and byte range and a string-to-string table
 * "__metadata__", then the data. Written files align the data to 8 bytes and hold only F32 and F64; files that are read
 * may also hold F16 and BF16, which become F32.
 */
#ifndef ICLAB_CORE_SAFETENSORS_H
#define ICLAB_CORE_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "iclab/status.h"

#define ICL_SAFETENSORS_MAX_RANK 8

typedef enum icl_element_type { ICL_ELEMENT_F32 = 0, ICL_ELEMENT_F64 } icl_element_type;

typedef struct icl_named_tensor {
    const char *name;
    icl_element_type type;
    int rank;
    size_t shape[ICL_SAFETENSORS_MAX_RANK];
    const void *data; /* row-major floats or doubles, of the host's byte order */
} icl_named_tensor;

typedef struct icl_metadata {
    const char *key, *value;
} icl_metadata;

/* Returns the number of elements: the product of the shape, which the reader has checked for overflow. */
size_t icl_named_tensor_count(const icl_named_tensor *tensor);

/* Writes a file atomically. The same arguments give the same bytes. Names must differ. */
icl_status icl_safetensors_write(const char *path, const icl_named_tensor *tensors, size_t count,
                                 const icl_metadata *metadata, size_t metadata_count, icl_error *error);

typedef struct icl_safetensors icl_safetensors;

/* Reads a whole file. ICL_ERROR_IO if it cannot be read; ICL_ERROR_INPUT, with a one-line reason, if it is truncated or
 * malformed in any way. */
icl_status icl_safetensors_read(const char *path, icl_safetensors **file, icl_error *error);
void icl_safetensors_destroy(icl_safetensors **file);

/* Return all tensors, in the order of the header, or one by its name (NULL if there is none). They belong to the
 * file. */
size_t icl_safetensors_count(const icl_safetensors *file);
const icl_named_tensor *icl_safetensors_at(const icl_safetensors *file, size_t index);
const icl_named_tensor *icl_safetensors_find(const icl_safetensors *file, const char *name);

/* Returns a metadata value, or NULL. It belongs to the file. */
const char *icl_safetensors_metadata(const icl_safetensors *file, const char *key);

#endif
