/* FNV-1a, 64 bits (G. Fowler, L. C. Noll, K.-P. Vo). It detects damage and spreads names evenly; it does not withstand
 * an attacker. */
#ifndef ICLAB_CORE_HASH_H
#define ICLAB_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define ICL_HASH_OF_NOTHING UINT64_C(14695981039346656037)

/* Continues a hash: returns the hash of the earlier bytes, which is `before`, and of these bytes after them. */
static inline uint64_t icl_hash_more(uint64_t before, const void *data, size_t size) {
    const unsigned char *bytes = data;
    uint64_t hash = before;

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    return hash;
}

static inline uint64_t icl_hash(const void *data, size_t size) {
    return icl_hash_more(ICL_HASH_OF_NOTHING, data, size);
}

#endif
