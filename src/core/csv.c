#include "iclab/csv.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/number.h"
#include "iclab/text.h"

struct icl_csv {
    char *path;
    int file;
    off_t size;    /* of the file, in whole rows */
    size_t count;  /* numbers after the step in each row */
    icl_text held; /* rows not yet written */
};

/* Opens a table to append to it. */
static icl_status open_table(const char *path, const char *header, icl_csv **csv, icl_error *error) {
    icl_status status = ICL_OK;
    icl_csv *created = NULL;

    ICL_TRY(icl_allocate(1, sizeof *created, "table", &created, error));
    created->file = -1;
    for (const char *c = header; *c != '\0'; c++)
        created->count += *c == ',';
    ICL_TRY(icl_duplicate(path, &created->path, error));
    created->file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (created->file < 0) {
        status = icl_file_fail(error, "write", path, errno);
        goto done;
    }
    created->size = lseek(created->file, 0, SEEK_END);
    if (created->size < 0) {
        status = icl_file_fail(error, "write", path, errno);
        goto done;
    }
    *csv = created;
    created = NULL;
done:
    icl_csv_destroy(&created);
    return status;
}

icl_status icl_csv_create(const char *path, const char *header, icl_csv **csv, icl_error *error) {
    icl_status status = ICL_OK;
    const size_t length = strlen(header);
    char *line = NULL;

    ICL_TRY(icl_allocate(length + 2, 1, "header of a table", &line, error));
    memcpy(line, header, length + 1);
    line[length] = '\n';
    /* The header is written at once, because a table without its whole header could not be resumed. */
    ICL_TRY(icl_file_write(path, line, length + 1, error));
    ICL_TRY(open_table(path, header, csv, error));
done:
    icl_free(&line);
    return status;
}

/* Returns in *length how much of a table is kept: the header and the whole rows up to step `last`. */
static icl_status kept_length(const char *path, const char *text, const char *header, uint64_t last, size_t *length,
                              icl_error *error) {
    const size_t header_length = strlen(header);
    const char *row = text + header_length + 1;
    size_t line = 2;

    if (strncmp(text, header, header_length) != 0 || text[header_length] != '\n')
        return icl_fail(error, ICL_ERROR_INPUT, "%s:1: not the header of this table: expected %s", path, header);
    for (;; line++) {
        const char *end = strchr(row, '\n');
        uint64_t step;
        if (!end)
            break;
        if (!icl_parse_count(row, strcspn(row, ",\n"), &step))
            return icl_fail(error, ICL_ERROR_INPUT, "%s:%zu: expected a row that starts with a step", path, line);
        if (step > last)
            break;
        row = end + 1;
    }
    *length = (size_t)(row - text);
    return ICL_OK;
}

icl_status icl_csv_resume(const char *path, const char *header, uint64_t last, icl_csv **csv, icl_error *error) {
    icl_status status = ICL_OK;
    char *text = NULL;
    size_t size = 0, kept = 0;

    ICL_TRY(icl_file_read(path, 0, &text, &size, error));
    ICL_TRY(kept_length(path, text, header, last, &kept, error));
    if (kept < size)
        ICL_TRY(icl_file_write(path, text, kept, error));
    ICL_TRY(open_table(path, header, csv, error));
done:
    icl_free(&text);
    return status;
}

icl_status icl_csv_row(icl_csv *csv, uint64_t step, const double *values, size_t count, icl_error *error) {
    const size_t before = csv->held.length;
    icl_status status = ICL_OK;

    if (count != csv->count)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s: a row of %zu numbers behind the step: expected %zu, as in the header", csv->path, count,
                        csv->count);
    ICL_TRY(icl_text_print(&csv->held, error, "%" PRIu64, step));
    for (size_t i = 0; i < count; i++) {
        char number[ICL_NUMBER_CAPACITY];
        ICL_TRY(icl_text_print(&csv->held, error, ",%s", isnan(values[i]) ? "" : icl_format_value(values[i], number)));
    }
    ICL_TRY(icl_text_append(&csv->held, "\n", 1, error));
done:
    if (status != ICL_OK)
        csv->held.length = before;
    return status;
}

icl_status icl_csv_flush(icl_csv *csv, icl_error *error) {
    size_t written = 0;
    int failure = 0;

    while (written < csv->held.length && failure == 0) {
        const ssize_t count = write(csv->file, csv->held.bytes + written, csv->held.length - written);
        if (count >= 0)
            written += (size_t)count;
        else if (errno != EINTR)
            failure = errno;
    }
    if (failure == 0 && fsync(csv->file) != 0)
        failure = errno;
    if (failure != 0) {
        /* The partly written rows are cut off, so that the next flush appends to whole rows. */
        const int cut = ftruncate(csv->file, csv->size);
        (void)cut;
        return icl_file_fail(error, "write", csv->path, failure);
    }
    csv->size += (off_t)written;
    csv->held.length = 0;
    return ICL_OK;
}

void icl_csv_destroy(icl_csv **csv) {
    if (!*csv)
        return;
    if ((*csv)->file >= 0)
        close((*csv)->file);
    icl_text_release(&(*csv)->held);
    icl_free(&(*csv)->path);
    icl_free(csv);
}
