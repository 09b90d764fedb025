#include "core/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/allocate.h"
#include "core/hash.h"
#include "iclab/file.h"

#define MAGIC         "iclab-cache-1\n\n" /* 15 bytes and a NUL */
#define SUFFIX        ".entry"
#define DIGITS        16 /* of the hash that names an entry */
#define NAME_CAPACITY 64
#define MAX_ENTRY     ((size_t)256 << 20)

/* Seconds after which a temporary file belongs to no living process. */
#define ABANDONED 3600

/* The header of an entry; the key and the value follow it. Numbers are in the machine's byte order: on a machine with
 * another one the checksum is wrong. */
typedef struct entry_header {
    char magic[16];
    uint64_t checksum; /* of all that follows it */
    uint64_t key_size, value_size;
} entry_header;

#define CHECKED_FROM offsetof(entry_header, key_size)

/* ---- The folder ---- */

icl_status icl_cache_folder(char **folder, icl_error *error) {
    const char *own = getenv("ICLAB_CACHE_DIR"), *caches = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    *folder = NULL;
    if (own)
        return own[0] != '\0' ? icl_duplicate(own, folder, error) : ICL_OK;
    if (caches && caches[0] == '/') /* the XDG specification says to ignore relative paths */
        return icl_path_join(caches, "iclab", folder, error);
    return home && home[0] == '/' ? icl_path_join(home, ".cache/iclab", folder, error) : ICL_OK;
}

/* Refuses what others could have replaced with their own: entries hold code that a driver runs. */
static icl_status check_owner(const char *path, const struct stat *facts, bool is_folder, icl_error *error) {
    if (is_folder ? !S_ISDIR(facts->st_mode) : !S_ISREG(facts->st_mode))
        return icl_fail(error, ICL_ERROR_INPUT, "%s: expected a %s that is no symbolic link", path,
                        is_folder ? "folder" : "file");
    if (facts->st_uid != geteuid())
        return icl_fail(error, ICL_ERROR_INPUT, "%s: belongs to another user: expected one's own", path);
    if (facts->st_mode & (S_IWGRP | S_IWOTH))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s: others can write there: expected otherwise (chmod go-w makes it so)", path);
    return ICL_OK;
}

/* Sets *there to false if nothing has that name. */
static icl_status check_path(const char *path, bool is_folder, bool *there, icl_error *error) {
    struct stat facts;

    *there = lstat(path, &facts) == 0;
    return *there ? check_owner(path, &facts, is_folder, error) : ICL_OK;
}

/* Makes the folder, if it is missing, with permissions for its owner only, whatever the umask says. */
static icl_status make_folder(const char *folder, icl_error *error) {
    bool there;

    ICL_CHECK(check_path(folder, true, &there, error));
    if (there)
        return ICL_OK;
    ICL_CHECK(icl_folder_create(folder, error));
    (void)chmod(folder, S_IRWXU);
    return check_path(folder, true, &there, error);
}

/* Returns whether the file is an entry, or the temporary file of one (*temporary) that a killed process left. */
static bool is_entry(const char *name, bool *temporary) {
    const char *end = name + DIGITS;
    if (strspn(name, "0123456789abcdef") != DIGITS || strncmp(end, SUFFIX, strlen(SUFFIX)) != 0)
        return false;
    end += strlen(SUFFIX);
    *temporary = *end == '.';
    return *end == '\0' || (*temporary && strcmp(end + 1 + strspn(end + 1, "0123456789"), ".tmp") == 0);
}

typedef struct listed {
    char name[NAME_CAPACITY];
    uint64_t bytes;
    time_t used;
} listed;

typedef struct listing {
    listed *entries;
    size_t count, capacity;
    uint64_t bytes;
} listing;

static icl_status add(listing *all, const listed *entry, icl_error *error) {
    ICL_CHECK(icl_grow(&all->entries, all->count, &all->capacity, sizeof *entry, "list of a cache", error));
    all->entries[all->count++] = *entry;
    all->bytes += entry->bytes;
    return ICL_OK;
}

/* Lists the entries that are young enough, and removes the others. */
static icl_status list(int directory, DIR *stream, uint64_t seconds, listing *all, icl_error *error) {
    const time_t now = time(NULL);
    const struct dirent *found;

    while ((found = readdir(stream)) != NULL) {
        listed entry = {{0}};
        struct stat facts;
        bool temporary = false;
        const size_t length = strlen(found->d_name);
        if (length >= sizeof entry.name || !is_entry(found->d_name, &temporary) ||
            fstatat(directory, found->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(facts.st_mode))
            continue;
        const double age = difftime(now, facts.st_mtime);
        if (age > (temporary ? ABANDONED : (double)seconds)) {
            (void)unlinkat(directory, found->d_name, 0);
        } else if (!temporary) {
            memcpy(entry.name, found->d_name, length + 1);
            entry.bytes = (uint64_t)facts.st_size;
            entry.used = facts.st_mtime;
            ICL_CHECK(add(all, &entry, error));
        }
    }
    return ICL_OK;
}

static int oldest_first(const void *left, const void *right) {
    const listed *a = left, *b = right;
    return a->used != b->used ? (a->used < b->used ? -1 : 1) : strcmp(a->name, b->name);
}

icl_status icl_cache_prepare(const char *folder, icl_cache_limits limits, icl_error *error) {
    icl_status status = ICL_OK;
    listing all = {0};
    DIR *stream = NULL;

    ICL_TRY(make_folder(folder, error));
    stream = opendir(folder);
    if (!stream) {
        status = icl_file_fail(error, "list", folder, errno);
        goto done;
    }
    ICL_TRY(list(dirfd(stream), stream, limits.seconds, &all, error));
    if (all.bytes > limits.bytes)
        qsort(all.entries, all.count, sizeof *all.entries, oldest_first);
    for (size_t i = 0; i < all.count && all.bytes > limits.bytes; i++) {
        (void)unlinkat(dirfd(stream), all.entries[i].name, 0); /* another process may have removed it already */
        all.bytes -= all.entries[i].bytes;
    }
done:
    if (stream)
        closedir(stream);
    icl_free(&all.entries);
    return status;
}

/* ---- Entries ---- */

static icl_status entry_path(const char *folder, const char *key, size_t key_size, char **path, icl_error *error) {
    char name[NAME_CAPACITY];
    snprintf(name, sizeof name, "%0*" PRIx64 SUFFIX, DIGITS, icl_hash(key, key_size));
    return icl_path_join(folder, name, path, error);
}

/* Returns what is wrong with an entry, or NULL. */
static const char *fault_of(const char *data, size_t size, const char *key, size_t key_size, entry_header *header) {
    if (size < sizeof *header)
        return "too short";
    memcpy(header, data, sizeof *header);
    if (memcmp(header->magic, MAGIC, sizeof header->magic) != 0)
        return "not a cache entry of this version";
    const size_t rest = size - sizeof *header;
    if (header->key_size > rest || header->value_size != rest - header->key_size)
        return "truncated or of a wrong length";
    if (icl_hash(data + CHECKED_FROM, size - CHECKED_FROM) != header->checksum)
        return "damaged: its checksum is wrong";
    if (header->key_size != key_size || memcmp(data + sizeof *header, key, key_size) != 0)
        return "another key's with the same hash";
    return NULL;
}

icl_status icl_cache_load(const char *folder, const char *key, size_t key_size, char **value, size_t *size,
                          icl_error *error) {
    icl_status status = ICL_OK;
    char *path = NULL, *data = NULL;
    entry_header header;
    size_t data_size = 0;
    bool there = false;

    *value = NULL;
    *size = 0;
    ICL_TRY(check_path(folder, true, &there, error));
    ICL_TRY(entry_path(folder, key, key_size, &path, error));
    if (there)
        ICL_TRY(check_path(path, false, &there, error));
    if (!there)
        goto done;
    ICL_TRY(icl_file_read(path, MAX_ENTRY, &data, &data_size, error));
    const char *fault = fault_of(data, data_size, key, key_size, &header);
    if (fault) {
        status = icl_fail(error, ICL_ERROR_INPUT, "%s: %s", path, fault);
        goto done;
    }
    (void)utimensat(AT_FDCWD, path, NULL, 0); /* marks it as used now; in a read-only folder its date stays */
    *size = (size_t)header.value_size;
    memmove(data, data + sizeof header + key_size, *size);
    *value = data;
    data = NULL;
done:
    icl_free(&data);
    icl_free(&path);
    return status;
}

icl_status icl_cache_store(const char *folder, const char *key, size_t key_size, const void *value, size_t size,
                           icl_error *error) {
    entry_header header = {.magic = MAGIC, .key_size = key_size, .value_size = size};
    icl_status status = ICL_OK;
    char *path = NULL, *data = NULL;
    bool there;

    if (size > MAX_ENTRY || key_size > MAX_ENTRY - size || sizeof header > MAX_ENTRY - size - key_size)
        return icl_fail(error, ICL_ERROR_INPUT, "cache: %zu bytes are too many for an entry", size);
    ICL_CHECK(check_path(folder, true, &there, error));
    const size_t data_size = sizeof header + key_size + size;
    ICL_TRY(entry_path(folder, key, key_size, &path, error));
    ICL_TRY(icl_allocate(data_size, 1, "cache entry", &data, error));
    memcpy(data, &header, sizeof header);
    memcpy(data + sizeof header, key, key_size);
    if (size > 0)
        memcpy(data + sizeof header + key_size, value, size);
    header.checksum = icl_hash(data + CHECKED_FROM, data_size - CHECKED_FROM);
    memcpy(data, &header, sizeof header);
    ICL_TRY(icl_file_write(path, data, data_size, error));
    (void)chmod(path, S_IRUSR | S_IWUSR);
done:
    icl_free(&data);
    icl_free(&path);
    return status;
}
