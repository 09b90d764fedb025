/* Known answers for tables of floats: FNV-1a, a word at a time. */
#ifndef ICLAB_TESTS_TABLE_HASH_H
#define ICLAB_TESTS_TABLE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TABLE_HASH 0xcbf29ce484222325u /* of nothing */

static inline uint64_t table_hash(uint64_t hash, const double *table, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const float coefficient = (float)table[i];
        uint32_t word;
        memcpy(&word, &coefficient, sizeof word);
        hash = (hash ^ word) * 0x100000001b3u;
    }
    return hash;
}

#endif
