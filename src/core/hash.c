#include "core/hash.h"

uint64_t icl_hash_more(uint64_t before, const void *data, size_t size) {
    const unsigned char *bytes = data;
    uint64_t hash = before;

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    return hash;
}

uint64_t icl_hash(const void *data, size_t size) {
    return icl_hash_more(ICL_HASH_OF_NOTHING, data, size);
}
