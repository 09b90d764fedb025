#include "kept.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "iclab/file.h"
#include "iclab/text.h"

icl_status kept_begin(kept *keep, icl_error *error) {
    return icl_result_create(&keep->result, error);
}

void kept_end(kept *keep) {
    icl_result_destroy(&keep->result);
}

static icl_status take_line(kept *keep, const char *table, const char *line, icl_error *error) {
    if (keep->json)
        printf("%s\n", line);
    return icl_result_add(keep->result, table, line, error);
}

icl_status kept_row_of(kept *keep, const char *table, icl_json *row, icl_error *error) {
    icl_status status = ICL_OK;
    char *line = NULL;

    ICL_TRY(icl_json_finish(row, false, &line, error));
    ICL_TRY(take_line(keep, table, line, error));
done:
    icl_text_free(&line);
    return status;
}

icl_status kept_row(kept *keep, icl_json *row, icl_error *error) {
    return kept_row_of(keep, ICL_RESULT_ROWS, row, error);
}

icl_status kept_lines(kept *keep, const char *table, const char *lines, icl_error *error) {
    icl_status status = ICL_OK;
    icl_text line = {0};

    for (const char *at = lines; *at != '\0'; at += strspn(at, "\n")) {
        const size_t length = strcspn(at, "\n");
        line.length = 0;
        ICL_TRY(icl_text_append(&line, at, length, error));
        ICL_TRY(take_line(keep, table, line.bytes, error));
        at += length;
    }
done:
    icl_text_release(&line);
    return status;
}

icl_status kept_open_folder(kept *keep, icl_error *error) {
    icl_error reason = {0};
    icl_status status;

    (void)fflush(stdout); /* before what is said of the files */
    if (!keep->folder)
        return ICL_OK;
    status = icl_folder_create(keep->folder, &reason);
    if (status == ICL_OK && access(keep->folder, W_OK) != 0)
        status = icl_file_fail(&reason, "write in", keep->folder, errno);
    if (status == ICL_OK)
        return ICL_OK;
    if (!keep->is_default || status != ICL_ERROR_IO)
        return icl_fail(error, status, "%s", reason.message);
    fprintf(stderr, "iclab: the result is not kept: %s (--out DIR takes it elsewhere)\n", reason.message);
    keep->folder = NULL;
    return ICL_OK;
}

static icl_status write_files(const kept *keep, const char *summary, icl_error *error) {
    ICL_CHECK(icl_result_write(keep->result, keep->folder, &keep->facts, summary, error));
    if (!keep->quiet)
        fprintf(stderr, "iclab: result %s/" ICL_RESULT_FILE "\n", keep->folder);
    return ICL_OK;
}

icl_status kept_finish(kept *keep, icl_json *summary, icl_error *error) {
    icl_status status = ICL_OK;
    char *line = NULL;

    ICL_TRY(kept_open_folder(keep, error));
    if (keep->folder)
        icl_json_text(summary, "folder", keep->folder);
    ICL_TRY(icl_json_finish(summary, false, &line, error));
    if (keep->folder)
        ICL_TRY(write_files(keep, line, error));
    if (keep->json)
        printf(keep->is_wrapped ? "{\"summary\":%s}\n" : "%s\n", line);
done:
    icl_json_discard(summary);
    icl_text_free(&line);
    return status;
}
