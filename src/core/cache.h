/*
 * A folder of values that can be made again, kept from run to run: key to bytes.
 *
 * A folder that another user owns or can write to, or that is a symbolic link, is not used, nor is such an entry: the
 * calls below refuse it with ICL_ERROR_INPUT. What a user's own folder holds is not believed either. An entry holds its
 * whole key and a checksum, so that one which is torn, damaged, or another key's under the same hash counts as absent
 * and is replaced by the next store. Entries are written atomically: any number of processes may share a folder.
 */
#ifndef ICLAB_CORE_CACHE_H
#define ICLAB_CORE_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "iclab/status.h"

/* The folder of this user's caches in new memory, freed with icl_free: $ICLAB_CACHE_DIR, else $XDG_CACHE_HOME/iclab,
 * else ~/.cache/iclab. *folder is NULL where ICLAB_CACHE_DIR is set and empty, which turns caching off, or where
 * there is no home. */
icl_status icl_cache_folder(char **folder, icl_error *error);

typedef struct icl_cache_limits {
    uint64_t bytes;   /* of all entries together */
    uint64_t seconds; /* since an entry was last stored or loaded */
} icl_cache_limits;

/* Makes the folder where it is missing, as the user's alone, and removes the entries that are beyond the limits, those
 * unused for longest first. Other files in the folder are left alone. ICL_ERROR_IO if it cannot be made or listed. */
icl_status icl_cache_prepare(const char *folder, icl_cache_limits limits, icl_error *error);

/* *value, freed with icl_free, is NULL with ICL_OK where the folder has no entry for the key. ICL_ERROR_INPUT says what
 * is wrong with one that is not to be trusted, ICL_ERROR_IO that it cannot be read. */
icl_status icl_cache_load(const char *folder, const char *key, size_t key_size, char **value, size_t *size,
                          icl_error *error);

/* Keeps a value under the key in place of any other. */
icl_status icl_cache_store(const char *folder, const char *key, size_t key_size, const void *value, size_t size,
                           icl_error *error);

#endif
