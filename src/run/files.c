#include "run/files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "core/allocate.h"
#include "core/hash.h"
#include "iclab/file.h"
#include "iclab/number.h"
#include "iclab/run.h"
#include "iclab/text.h"

enum { NAME = 64, DIGITS = 16, TRIES = 100 };

typedef struct entry {
    char name[NAME];
    uint64_t hash, size;
} entry;

struct icl_run_files {
    char *folder;
    entry *entries;
    size_t count, capacity;
};

static const char *const known[] = {ICL_RUN_RECIPE,  ICL_RUN_ORIGIN, ICL_RUN_FACTS,
                                    ICL_RUN_METRICS, ICL_RUN_MODEL,  ICL_RUN_CHECKPOINT};

enum { KNOWN = sizeof known / sizeof *known };

static bool is_snapshot(const char *name) {
    const size_t folder = strlen(ICL_RUN_SNAPSHOTS "/");

    if (strncmp(name, ICL_RUN_SNAPSHOTS "/", folder) != 0)
        return false;
    return strcmp(name + folder + strspn(name + folder, "0123456789"), ".safetensors") == 0;
}

/* A list names no files but these. */
static bool is_known(const char *name) {
    for (size_t i = 0; i < KNOWN; i++)
        if (strcmp(known[i], name) == 0)
            return true;
    return is_snapshot(name);
}

static entry *find(const icl_run_files *files, const char *name) {
    for (size_t i = 0; i < files->count; i++)
        if (strcmp(files->entries[i].name, name) == 0)
            return &files->entries[i];
    return NULL;
}

/* ---- What a file holds ---- */

/* Adds the bytes after the first `seen->size`, whose hash is seen->hash. */
static icl_status hash_file(const char *path, entry *seen, icl_error *error) {
    char block[1 << 14];
    size_t count;
    FILE *file = fopen(path, "rb");
    bool failed = !file || fseeko(file, (off_t)seen->size, SEEK_SET) != 0;

    while (!failed && (count = fread(block, 1, sizeof block, file)) > 0) {
        seen->hash = icl_hash_more(seen->hash, block, count);
        seen->size += count;
    }
    failed = failed || ferror(file);
    if (failed)
        (void)icl_file_fail(error, "read", path, errno);
    if (file)
        (void)fclose(file);
    return failed ? ICL_ERROR_IO : ICL_OK;
}

/* ---- The list's text ---- */

static icl_status refuse_line(const char *path, size_t line, icl_error *error) {
    return icl_fail(error, ICL_ERROR_INPUT, "%s:%zu: expected a hash, a size and the name of a run's file", path, line);
}

/* Reads "HASH SIZE NAME", a line of `length` bytes. */
static bool read_line(const char *line, size_t length, entry *read) {
    char text[DIGITS + 32 + NAME], *size, *name, *end;

    if (length >= sizeof text)
        return false;
    memcpy(text, line, length);
    text[length] = '\0';
    size = strchr(text, ' ');
    name = size ? strchr(size + 1, ' ') : NULL;
    if (!name || size - text != DIGITS || strspn(text, "0123456789abcdef") != DIGITS || strlen(name + 1) >= NAME ||
        !is_known(name + 1) || !icl_parse_count(size + 1, (size_t)(name - size - 1), &read->size))
        return false;
    read->hash = strtoull(text, &end, 16);
    memcpy(read->name, name + 1, strlen(name + 1) + 1);
    return true;
}

static icl_status read_list(const char *path, const char *text, icl_run_files *files, icl_error *error) {
    size_t number = 1;

    for (const char *line = text; *line != '\0'; number++) {
        const size_t length = strcspn(line, "\n");
        entry read = {{0}};
        if (line[length] != '\n' || !read_line(line, length, &read))
            return refuse_line(path, number, error);
        ICL_CHECK(icl_grow(&files->entries, files->count, &files->capacity, sizeof read, "files of a run", error));
        files->entries[files->count++] = read;
        line += length + 1;
    }
    return ICL_OK;
}

/* *text is NULL if there is no list. */
static icl_status load_text(const char *folder, char **path, char **text, icl_error *error) {
    size_t size;

    *text = NULL;
    ICL_CHECK(icl_path_join(folder, ICL_RUN_FILES, path, error));
    return icl_path_exists(*path) ? icl_file_read(*path, 0, text, &size, error) : ICL_OK;
}

/* ---- Changing files ---- */

icl_status icl_run_files_open(const char *folder, icl_run_files **files, icl_error *error) {
    icl_status status = ICL_OK;
    icl_run_files *created = NULL;
    char *path = NULL, *text = NULL;
    icl_error why = {0};

    ICL_TRY(icl_allocate(1, sizeof *created, "files of a run", &created, error));
    ICL_TRY(icl_duplicate(folder, &created->folder, error));
    ICL_TRY(load_text(folder, &path, &text, error));
    const icl_status listed = text ? read_list(path, text, created, &why) : ICL_OK;
    if (listed == ICL_ERROR_MEMORY)
        ICL_TRY(icl_fail(error, listed, "%s", why.message));
    if (listed != ICL_OK)
        created->count = 0; /* the list was cut: icl_run_files_check tells whoever opens the run */
    if (text && unlink(path) != 0)
        ICL_TRY(icl_file_fail(error, "replace", path, errno));
    if (created->count == 0)
        for (size_t i = 0; i < KNOWN; i++)
            ICL_TRY(icl_run_files_update(created, known[i], error));
    *files = created;
    created = NULL;
done:
    icl_run_files_close(&created);
    icl_free(&text);
    icl_free(&path);
    return status;
}

void icl_run_files_forget(icl_run_files *files, const char *name) {
    entry *held = find(files, name);

    if (held)
        *held = files->entries[--files->count];
}

icl_status icl_run_files_update(icl_run_files *files, const char *name, icl_error *error) {
    const bool grows = strcmp(name, ICL_RUN_METRICS) == 0;
    entry *held = find(files, name), seen = {{0}, .hash = ICL_HASH_OF_NOTHING};
    icl_status status = ICL_OK;
    char *path = NULL;

    if (held && grows)
        seen = *held;
    snprintf(seen.name, sizeof seen.name, "%s", name);
    ICL_TRY(icl_path_join(files->folder, name, &path, error));
    if (!icl_path_exists(path)) {
        icl_run_files_forget(files, name);
        goto done;
    }
    ICL_TRY(hash_file(path, &seen, error));
    held = find(files, name);
    if (held) {
        *held = seen;
        goto done;
    }
    ICL_TRY(icl_grow(&files->entries, files->count, &files->capacity, sizeof seen, "files of a run", error));
    files->entries[files->count++] = seen;
done:
    icl_free(&path);
    return status;
}

icl_status icl_run_files_write(icl_run_files *files, icl_error *error) {
    icl_status status = ICL_OK;
    icl_text text = {0};

    for (size_t i = 0; i < files->count; i++)
        ICL_TRY(icl_text_print(&text, error, "%0*" PRIx64 " %" PRIu64 " %s\n", DIGITS, files->entries[i].hash,
                               files->entries[i].size, files->entries[i].name));
    if (text.length > 0)
        ICL_TRY(icl_file_write_in(files->folder, ICL_RUN_FILES, text.bytes, text.length, error));
done:
    icl_text_release(&text);
    return status;
}

void icl_run_files_close(icl_run_files **files) {
    if (*files) {
        icl_free(&(*files)->folder);
        icl_free(&(*files)->entries);
    }
    icl_free(files);
}

icl_status icl_run_file_write(const char *folder, const char *name, const char *text, icl_error *error) {
    icl_status status = ICL_OK;
    icl_run_files *files = NULL;

    ICL_TRY(icl_run_files_open(folder, &files, error));
    ICL_TRY(icl_file_write_in(folder, name, text, strlen(text), error));
    ICL_TRY(icl_run_files_update(files, name, error));
    ICL_TRY(icl_run_files_write(files, error));
done:
    icl_run_files_close(&files);
    return status;
}

icl_status icl_run_list_files(const char *folder, icl_error *error) {
    icl_status status = ICL_OK;
    icl_run_files *files = NULL;

    ICL_TRY(icl_run_files_open(folder, &files, error));
    for (size_t i = 0; i < KNOWN; i++) {
        icl_run_files_forget(files, known[i]);
        ICL_TRY(icl_run_files_update(files, known[i], error));
    }
    ICL_TRY(icl_run_files_write(files, error));
done:
    icl_run_files_close(&files);
    return status;
}

/* ---- Checking them ---- */

/* Sets *same if the file is missing or is as the list describes it. */
static icl_status compare(const char *path, const entry *listed, bool is_whole, bool *same, icl_error *error) {
    entry seen = {{0}, .hash = ICL_HASH_OF_NOTHING};
    struct stat facts;

    *same = stat(path, &facts) != 0;
    if (*same || !S_ISREG(facts.st_mode) || (uint64_t)facts.st_size != listed->size)
        return ICL_OK;
    if (is_whole)
        ICL_CHECK(hash_file(path, &seen, error));
    *same = !is_whole || (seen.hash == listed->hash && seen.size == listed->size);
    return ICL_OK;
}

static icl_status check_list(const icl_run_files *files, const char *list, const char *name, icl_error *error) {
    icl_status status = ICL_OK;
    char *path = NULL;

    for (size_t i = 0; i < files->count; i++) {
        const entry *listed = &files->entries[i];
        bool same = true;
        if (name && strcmp(name, listed->name) != 0)
            continue;
        ICL_TRY(icl_path_join(files->folder, listed->name, &path, error));
        ICL_TRY(compare(path, listed, name || !is_snapshot(listed->name), &same, error));
        if (!same)
            ICL_TRY(icl_fail(error, ICL_ERROR_INPUT,
                             "%s: not as it was written, by " ICL_RUN_FILES ": expected an undamaged copy (where the "
                             "change is meant, remove %s)",
                             path, list));
        icl_free(&path);
    }
done:
    icl_free(&path);
    return status;
}

/* Sets *settled if the list did not change during the check. */
static icl_status look(const char *folder, const char *name, bool *settled, icl_error *error) {
    icl_run_files files = {0};
    char *path = NULL, *text = NULL, *again = NULL;
    icl_status status = ICL_OK;

    *settled = true;
    ICL_TRY(icl_duplicate(folder, &files.folder, error));
    ICL_TRY(load_text(folder, &path, &text, error));
    if (!text)
        goto done;
    ICL_TRY(read_list(path, text, &files, error));
    status = check_list(&files, path, name, error);
    if (status == ICL_OK)
        goto done;
    icl_free(&path);
    *settled = load_text(folder, &path, &again, NULL) == ICL_OK && again && strcmp(text, again) == 0;
done:
    icl_free(&files.folder);
    icl_free(&files.entries);
    icl_free(&path);
    icl_free(&text);
    icl_free(&again);
    return status;
}

icl_status icl_run_files_check(const char *folder, const char *name, icl_error *error) {
    icl_status status = ICL_OK;
    bool settled = false;

    for (int tries = 0; tries < TRIES && !settled; tries++)
        status = look(folder, name, &settled, error);
    return settled ? status : ICL_OK;
}

/* ---- Records ---- */

void icl_provenance_add_program(icl_json *json) {
    icl_json_text(json, "version", ICL_VERSION);
    icl_json_text(json, "commit", ICL_COMMIT);
    icl_json_text(json, "compiler", ICL_COMPILER);
}

void icl_provenance_add_device(icl_json *json, const icl_capabilities *device) {
    icl_json_text(json, "device", device->spec);
    icl_json_text(json, "device_name", device->name);
    icl_json_text(json, "device_kind", icl_device_kind_name(device->kind));
    icl_json_text(json, "platform", device->platform);
    icl_json_text(json, "driver", device->driver);
    icl_json_text(json, "gemm", icl_gemm_name(device->gemm));
    icl_json_flag(json, "fast_math", device->fast_math);
    icl_json_text(json, "precision", icl_precision_name(device->precision));
}

icl_status icl_record_read(const char *folder, const char *name, cJSON **record, icl_error *error) {
    icl_status status = ICL_OK;
    char *path = NULL, *text = NULL;
    size_t size;

    *record = NULL;
    ICL_TRY(icl_path_join(folder, name, &path, error));
    status = icl_file_read(path, 0, &text, &size, error);
    if (status == ICL_OK)
        status = icl_json_parse(text, size, path, record, NULL, error);
    if (status != ICL_ERROR_MEMORY)
        status = ICL_OK;
done:
    icl_free(&text);
    icl_free(&path);
    return status;
}
