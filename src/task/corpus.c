/* Files of text as one sequence of bytes. A file is opened for each read, so that a folder may hold any number of them,
 * and is read by pread: a file that is cut meanwhile is an error, where mapped memory would end the process. */
#include "task/text.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/allocate.h"
#include "core/hash.h"
#include "core/print.h"
#include "iclab/file.h"
#include "iclab/text.h"

struct icl_corpus_file {
    char *path;
    uint64_t first; /* the place of its first byte */
    struct stat facts;
};

/* ---- Finding files ---- */

static icl_status add_file(icl_corpus *corpus, const char *path, const struct stat *facts, icl_error *error) {
    icl_status status =
        icl_grow(&corpus->files, corpus->count, &corpus->capacity, sizeof *corpus->files, "files", error);
    icl_corpus_file file = {.first = corpus->size, .facts = *facts};

    if (status == ICL_OK)
        status = icl_duplicate(path, &file.path, error);
    if (status == ICL_OK) {
        corpus->files[corpus->count++] = file;
        corpus->size += (uint64_t)facts->st_size;
    }
    return status;
}

static icl_status add_found(icl_corpus *corpus, const char *path, const char *what, icl_error *error) {
    struct stat facts;

    if (stat(path, &facts) != 0)
        return icl_file_fail(error, "open", path, errno);
    if (!S_ISREG(facts.st_mode))
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %s is no regular file: expected files, or a folder of files alone",
                        what, path);
    return add_file(corpus, path, &facts, error);
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a folder. */
typedef struct name_list {
    char **items;
    size_t count, capacity;
} name_list;

static icl_status list_names(const char *folder, name_list *names, icl_error *error) {
    DIR *stream = opendir(folder);
    const struct dirent *found;
    icl_status status = ICL_OK;

    if (!stream)
        return icl_file_fail(error, "open", folder, errno);
    while (status == ICL_OK && (found = readdir(stream)) != NULL) {
        if (found->d_name[0] == '.')
            continue;
        status = icl_grow(&names->items, names->count, &names->capacity, sizeof *names->items, "names", error);
        if (status == ICL_OK)
            status = icl_duplicate(found->d_name, &names->items[names->count], error);
        names->count += status == ICL_OK;
    }
    closedir(stream);
    if (names->count > 0)
        qsort(names->items, names->count, sizeof *names->items, by_bytes);
    return status;
}

static icl_status add_folder(icl_corpus *corpus, const char *folder, const char *what, icl_error *error) {
    name_list names = {0};
    icl_status status = ICL_OK;
    char *path = NULL;

    ICL_TRY(list_names(folder, &names, error));
    if (names.count == 0)
        status = icl_fail(error, ICL_ERROR_INPUT, "%s: the folder %s is empty: expected files in it", what, folder);
    for (size_t i = 0; status == ICL_OK && i < names.count; i++) {
        ICL_TRY(icl_path_join(folder, names.items[i], &path, error));
        ICL_TRY(add_found(corpus, path, what, error));
        icl_text_free(&path);
    }
done:
    icl_text_free(&path);
    for (size_t i = 0; i < names.count; i++)
        icl_free(&names.items[i]);
    icl_free(&names.items);
    return status;
}

static icl_status add_named(icl_corpus *corpus, const char *path, const char *what, icl_error *error) {
    struct stat facts;

    if (*path == '\0')
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s: a name is empty: expected a file, several with commas between them, or a folder", what);
    if (stat(path, &facts) == 0 && S_ISDIR(facts.st_mode))
        return add_folder(corpus, path, what, error);
    return add_found(corpus, path, what, error);
}

static icl_status add_listed(icl_corpus *corpus, const char *list, const char *what, icl_error *error) {
    icl_status status = ICL_OK;
    char *names = NULL, *name;

    ICL_TRY(icl_duplicate(list, &names, error));
    name = names;
    for (char *comma; (comma = strchr(name, ',')) != NULL; name = comma + 1) {
        *comma = '\0';
        ICL_TRY(add_named(corpus, name, what, error));
    }
    ICL_TRY(add_named(corpus, name, what, error));
done:
    icl_free(&names);
    return status;
}

/* ---- Reading ---- */

static bool is_as_found(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mtime == b->st_mtime;
}

static icl_status refuse_changed(const icl_corpus_file *file, icl_error *error) {
    return icl_fail(error, ICL_ERROR_IO,
                    "%s: changed while it is in use: expected the file of %" PRIu64 " bytes that was there at first",
                    file->path, (uint64_t)file->facts.st_size);
}

/* Reads bytes of an open file. */
static icl_status read_open(const icl_corpus_file *file, int open_file, uint64_t first, size_t count,
                            unsigned char *bytes, icl_error *error) {
    struct stat facts;

    if (fstat(open_file, &facts) != 0)
        return icl_file_fail(error, "read", file->path, errno);
    if (!is_as_found(&facts, &file->facts))
        return refuse_changed(file, error);
    for (size_t done = 0; done < count;) {
        const ssize_t got = pread(open_file, bytes + done, count - done, (off_t)(first + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return icl_file_fail(error, "read", file->path, errno);
        if (got == 0)
            return refuse_changed(file, error);
        done += (size_t)got;
    }
    return ICL_OK;
}

static icl_status read_file(const icl_corpus_file *file, uint64_t first, size_t count, unsigned char *bytes,
                            icl_error *error) {
    const int open_file = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe of that name does not block */
    icl_status status;

    if (open_file < 0)
        return icl_file_fail(error, "open", file->path, errno);
    status = read_open(file, open_file, first, count, bytes, error);
    close(open_file);
    return status;
}

/* Returns the number of the file that holds the byte. */
static size_t find_file(const icl_corpus *corpus, uint64_t byte) {
    size_t low = 0, high = corpus->count;

    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (corpus->files[middle].first <= byte)
            low = middle;
        else
            high = middle;
    }
    return low;
}

icl_status icl_corpus_read(const icl_corpus *corpus, uint64_t first, size_t count, unsigned char *bytes,
                           icl_error *error) {
    assert(first <= corpus->size && count <= corpus->size - first);
    for (size_t done = 0, number = find_file(corpus, first); done < count; number++) {
        const icl_corpus_file *file = &corpus->files[number];
        const uint64_t within = first + done - file->first, left = (uint64_t)file->facts.st_size - within;
        const size_t piece = left < count - done ? (size_t)left : count - done;
        if (piece > 0)
            ICL_CHECK(read_file(file, within, piece, bytes + done, error));
        done += piece;
    }
    return ICL_OK;
}

/* ---- Facts ---- */

/* The bytes that are read at a time for the facts. */
#define BLOCK ((size_t)1 << 20)

/* Finds hash and encoding in one pass. */
static icl_status measure(icl_corpus *corpus, icl_error *error) {
    icl_utf8_state state = {0};
    icl_status status = ICL_OK;
    unsigned char *block = NULL;

    corpus->hash = ICL_HASH_OF_NOTHING;
    corpus->is_utf8 = true;
    ICL_TRY(icl_allocate(BLOCK, 1, "a block of text", &block, error));
    for (uint64_t first = 0; first < corpus->size; first += BLOCK) {
        const uint64_t left = corpus->size - first;
        const size_t count = left < BLOCK ? (size_t)left : BLOCK;
        ICL_TRY(icl_corpus_read(corpus, first, count, block, error));
        corpus->hash = icl_hash_more(corpus->hash, block, count);
        for (size_t i = 0; i < count && corpus->is_utf8; i++)
            corpus->is_utf8 = icl_utf8_take(&state, block[i]);
    }
    corpus->is_utf8 = corpus->is_utf8 && state.missing == 0;
done:
    icl_free(&block);
    return status;
}

icl_status icl_corpus_open(const char *list, const char *what, icl_corpus **corpus, icl_error *error) {
    icl_status status = ICL_OK;
    icl_corpus *created = NULL;

    *corpus = NULL;
    ICL_TRY(icl_allocate(1, sizeof *created, "files of text", &created, error));
    ICL_TRY(add_listed(created, list, what, error));
    ICL_TRY(measure(created, error));
    *corpus = created;
    created = NULL;
done:
    icl_corpus_close(&created);
    return status;
}

void icl_corpus_close(icl_corpus **corpus) {
    if (*corpus) {
        for (size_t i = 0; i < (*corpus)->count; i++)
            icl_free(&(*corpus)->files[i].path);
        icl_free(&(*corpus)->files);
    }
    icl_free(corpus);
}
