/* What the writer and the reader of safetensors files share. */
#ifndef ICLAB_CORE_SAFETENSORS_FORMAT_H
#define ICLAB_CORE_SAFETENSORS_FORMAT_H

#include "core/safetensors.h"

#define LENGTH_BYTES  8
#define ALIGNMENT     8 /* of the data behind the header */
#define METADATA_NAME "__metadata__"

static inline size_t icl_element_size(icl_element_type type) {
    return type == ICL_ELEMENT_F64 ? 8 : 4;
}

#endif
