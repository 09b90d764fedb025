/*
 * A cache on disk: a folder of values by key, kept from run to run.
 *
 * A folder or entry that another user owns or can write to, or that is a symbolic link, is not used: the calls below
 * refuse it with ICL_ERROR_INPUT. The contents of a user's own folder are checked, too. An entry holds its whole key
 * and a checksum, so that one which is torn, damaged, or belongs to another key with the same hash is recognised, and
 * the next store replaces it. Entries are written atomically: any number of processes may share a folder.
 */
#ifndef ICLAB_CORE_CACHE_H
#define ICLAB_CORE_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "iclab/status.h"

/* Returns the folder of this user's caches in new memory, freed with icl_free: $ICLAB_CACHE_DIR, else
 * $XDG_CACHE_HOME/iclab, else ~/.cache/iclab. *folder is NULL if ICLAB_CACHE_DIR is set but empty, which turns caching
 * off, or if there is no home. */
icl_status icl_cache_folder(char **folder, icl_error *error);

typedef struct icl_cache_limits {
    uint64_t bytes;   /* of all entries together */
    uint64_t seconds; /* since an entry was last stored or loaded */
} icl_cache_limits;

/* Makes the folder, for its owner only, if it is missing, and removes the entries that exceed the limits, least
 * recently used first. Other files in the folder are left alone. ICL_ERROR_IO if it cannot be made or listed. */
icl_status icl_cache_prepare(const char *folder, icl_cache_limits limits, icl_error *error);

/* Reads the value of a key into *value, freed with icl_free; NULL with ICL_OK if the folder has no entry for the key.
 * ICL_ERROR_INPUT says why an entry is not to be trusted, ICL_ERROR_IO that it cannot be read. */
icl_status icl_cache_load(const char *folder, const char *key, size_t key_size, char **value, size_t *size,
                          icl_error *error);

/* Stores a value under the key and replaces any older one. */
icl_status icl_cache_store(const char *folder, const char *key, size_t key_size, const void *value, size_t size,
                           icl_error *error);

#endif
