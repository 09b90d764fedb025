/* A temporary folder for the files of one test. */
#ifndef ICLAB_TESTS_CORE_SCRATCH_H
#define ICLAB_TESTS_CORE_SCRATCH_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct scratch_folder {
    char folder[256];
    char path[512]; /* the last result of scratch_path */
} scratch_folder;

static inline void scratch_open(scratch_folder *scratch) {
    const char *base = getenv("TMPDIR");
    snprintf(scratch->folder, sizeof scratch->folder, "%.200s/iclab-test-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(scratch->folder)) {
        printf("Bail out! no scratch folder\n");
        exit(1);
    }
}

/* Returns folder/name, valid until the next call. */
static inline const char *scratch_path(scratch_folder *scratch, const char *name) {
    snprintf(scratch->path, sizeof scratch->path, "%s/%.200s", scratch->folder, name);
    return scratch->path;
}

/* Returns the number of entries in the folder. */
static inline int scratch_count(const scratch_folder *scratch) {
    DIR *listing = opendir(scratch->folder);
    const struct dirent *entry;
    int count = 0;
    while (listing && (entry = readdir(listing)) != NULL)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    if (listing)
        closedir(listing);
    return count;
}

/* Removes a file, or a folder with all its contents. Links are not followed. */
static inline void scratch_remove(const char *path) {
    DIR *listing = remove(path) == 0 ? NULL : opendir(path);
    const struct dirent *entry;
    char below[1024];

    while (listing && (entry = readdir(listing)) != NULL) {
        snprintf(below, sizeof below, "%.700s/%.300s", path, entry->d_name);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            scratch_remove(below);
    }
    if (listing) {
        closedir(listing);
        (void)remove(path);
    }
}

/* Removes the folder with all its contents. */
static inline void scratch_close(scratch_folder *scratch) {
    scratch_remove(scratch->folder);
}

/* Writes a file by plain means, for the code under test to read. */
static inline void scratch_write(scratch_folder *scratch, const char *name, const void *data, size_t size) {
    FILE *file = fopen(scratch_path(scratch, name), "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) {
        printf("Bail out! cannot write %s\n", scratch->path);
        exit(1);
    }
}

#endif
