#ifndef ICLAB_CORE_HASH_H
#define ICLAB_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* FNV-1a, 64 bits (G. Fowler, L. C. Noll, K.-P. Vo). It finds damage and spreads names; it withstands no attacker. */
uint64_t icl_hash(const void *data, size_t size);

#endif
