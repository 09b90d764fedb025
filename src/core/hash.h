#ifndef ICLAB_CORE_HASH_H
#define ICLAB_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* FNV-1a, 64 bits (G. Fowler, L. C. Noll, K.-P. Vo). It finds damage and spreads names; it withstands no attacker. */
uint64_t icl_hash(const void *data, size_t size);

/* The hash of what has the hash `before` and of these bytes behind it. */
#define ICL_HASH_OF_NOTHING UINT64_C(14695981039346656037)
uint64_t icl_hash_more(uint64_t before, const void *data, size_t size);

#endif
