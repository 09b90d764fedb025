/* Files are written whole or not at all. */
#include "iclab/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "core/allocate.h"
#include "core/file.h"
#include "iclab/csv.h"
#include "scratch.h"
#include "tap.h"

static bool holds(const char *path, const char *expected) {
    char *data = NULL;
    size_t size = 0;
    const bool same = icl_file_read(path, 0, &data, &size, NULL) == ICL_OK && size == strlen(expected) &&
                      memcmp(data, expected, size + 1) == 0;
    if (!same)
        tap_note("%s holds \"%s\"", path, data ? data : "(nothing)");
    icl_free(&data);
    return same;
}

static void check_files(tap_run *tap, scratch_folder *scratch) {
    icl_error error = {0};
    char *data = NULL, *large = NULL;
    size_t size = 0;
    const size_t large_size = 3000001;

    tap_status(tap, icl_file_write(scratch_path(scratch, "a"), "one", 3, &error), &error, "write");
    tap_ok(tap, holds(scratch_path(scratch, "a"), "one"), "read back");
    tap_status(tap, icl_file_write(scratch_path(scratch, "a"), "second", 6, &error), &error, "replace");
    tap_ok(tap, holds(scratch_path(scratch, "a"), "second"), "replaced");
    tap_status(tap, icl_file_write(scratch_path(scratch, "empty"), "", 0, &error), &error, "write nothing");
    tap_ok(tap, holds(scratch_path(scratch, "empty"), ""), "an empty file");
    tap_ok(tap, scratch_count(scratch) == 2, "no temporary file stays");

    icl_allocate(large_size, 1, "large", &large, NULL);
    for (size_t i = 0; i < large_size; i++)
        large[i] = (char)(i * 31);
    tap_status(tap, icl_file_write(scratch_path(scratch, "large"), large, large_size, &error), &error, "write 3 MB");
    tap_ok(tap,
           icl_file_read(scratch_path(scratch, "large"), 0, &data, &size, &error) == ICL_OK && size == large_size &&
               memcmp(data, large, size) == 0,
           "3 MB read back");
    icl_free(&data);
    tap_ok(tap, icl_file_read(scratch_path(scratch, "large"), 1000, &data, &size, &error) == ICL_ERROR_INPUT,
           "a file over the limit is bad input");
    icl_free(&large);
}

static void check_failures(tap_run *tap, scratch_folder *scratch) {
    icl_error error = {0};
    char *data = NULL;
    size_t size;
    const int before = scratch_count(scratch);

    tap_ok(tap,
           icl_file_read(scratch_path(scratch, "missing"), 0, &data, &size, &error) == ICL_ERROR_IO &&
               strstr(error.message, "missing: No such file"),
           "a missing file is named: %s", error.message);
    tap_ok(tap, icl_file_read(scratch->folder, 0, &data, &size, &error) == ICL_ERROR_IO, "a folder is no file: %s",
           error.message);
    tap_ok(tap, icl_file_write(scratch_path(scratch, "no/such/folder"), "x", 1, &error) == ICL_ERROR_IO,
           "no folder to write to: %s", error.message);
    tap_ok(tap, icl_file_write(scratch->folder, "x", 1, &error) == ICL_ERROR_IO, "cannot replace a folder: %s",
           error.message);
    tap_ok(tap, scratch_count(scratch) == before, "failed writes leave nothing");
}

/* Temporary files of killed writers are removed; a living writer holds the lock of its file. */
static void check_leftovers(tap_run *tap, scratch_folder *scratch) {
    icl_error error = {0};
    char *living = NULL, left[512], other[512], path[512];
    int file = -1;

    snprintf(path, sizeof path, "%s", scratch_path(scratch, "state"));
    snprintf(left, sizeof left, "%s", scratch_path(scratch, "state.17.tmp"));
    snprintf(other, sizeof other, "%s", scratch_path(scratch, "state.new.17.tmp"));
    scratch_write(scratch, "state.17.tmp", "cut", 3);
    scratch_write(scratch, "state.new.17.tmp", "other", 5);
    tap_status(tap, icl_temporary_create(path, &living, &file, &error), &error, "another process writes the file");
    tap_status(tap, icl_file_write(path, "mine", 4, &error), &error, "and this one, too");
    tap_ok(tap, holds(path, "mine") && !icl_path_exists(left), "what a killed process left of it is gone");
    tap_ok(tap, icl_path_exists(living), "but not what another one is writing");
    tap_ok(tap, holds(other, "other"), "nor what belongs to another file");
    close(file);
    tap_ok(tap, icl_file_write(path, "again", 5, &error) == ICL_OK && !icl_path_exists(living),
           "that goes once its writer is gone");
    icl_free(&living);
    (void)unlink(other);
    (void)unlink(path);
}

static void check_folders(tap_run *tap, scratch_folder *scratch) {
    icl_error error = {0};
    struct stat found;
    char deep[600];

    snprintf(deep, sizeof deep, "%s/x//y/z/", scratch->folder);
    tap_status(tap, icl_folder_create(deep, &error), &error, "a folder and those above it");
    tap_ok(tap, stat(deep, &found) == 0 && S_ISDIR(found.st_mode), "it is there");
    tap_status(tap, icl_folder_create(deep, &error), &error, "again");
    tap_ok(tap, icl_folder_create("/dev/null/x", &error) == ICL_ERROR_IO, "not under a file: %s", error.message);
    snprintf(deep, sizeof deep, "%s/x/y/z", scratch->folder);
    (void)rmdir(deep);
    snprintf(deep, sizeof deep, "%s/x/y", scratch->folder);
    (void)rmdir(deep);
}

static void check_tables(tap_run *tap, scratch_folder *scratch) {
    static const char header[] = "step,loss,rate";
    const double missing = strtod("nan", NULL);
    icl_error error = {0};
    icl_csv *csv = NULL;

    tap_status(tap, icl_csv_create(scratch_path(scratch, "t.csv"), header, &csv, &error), &error, "create a table");
    for (uint64_t step = 1; step <= 4; step++)
        icl_csv_row(csv, step, (const double[]){0.5 * (double)step, step == 2 ? missing : (double)0.1f}, 2, &error);
    tap_ok(tap, holds(scratch_path(scratch, "t.csv"), "step,loss,rate\n"), "rows wait for a flush");
    tap_status(tap, icl_csv_flush(csv, &error), &error, "flush");
    tap_ok(tap, holds(scratch_path(scratch, "t.csv"), "step,loss,rate\n1,0.5,0.1\n2,1,\n3,1.5,0.1\n4,2,0.1\n"),
           "rows, with an empty field for NaN");
    icl_csv_destroy(&csv);

    tap_status(tap, icl_csv_resume(scratch_path(scratch, "t.csv"), header, 2, &csv, &error), &error,
               "resume at step 2");
    icl_csv_row(csv, 3, (const double[]){9, 9}, 2, &error);
    icl_csv_flush(csv, &error);
    tap_ok(tap, holds(scratch_path(scratch, "t.csv"), "step,loss,rate\n1,0.5,0.1\n2,1,\n3,9,9\n"),
           "later rows are dropped, new ones follow");
    icl_csv_destroy(&csv);

    scratch_write(scratch, "torn.csv", "step,loss,rate\n1,2,3\n2,4", 24);
    tap_status(tap, icl_csv_resume(scratch_path(scratch, "torn.csv"), header, 9, &csv, &error), &error,
               "a torn last row");
    tap_ok(tap, holds(scratch_path(scratch, "torn.csv"), "step,loss,rate\n1,2,3\n"), "is dropped");
    icl_csv_destroy(&csv);
    tap_ok(tap,
           icl_csv_resume(scratch_path(scratch, "torn.csv"), "step,other", 9, &csv, &error) == ICL_ERROR_INPUT && !csv,
           "another header is refused: %s", error.message);
    scratch_write(scratch, "bad.csv", "step,loss,rate\nx,2,3\n", 21);
    tap_ok(tap, icl_csv_resume(scratch_path(scratch, "bad.csv"), header, 9, &csv, &error) == ICL_ERROR_INPUT && !csv,
           "a row without a step is refused: %s", error.message);
}

int main(void) {
    tap_run tap = {0};
    scratch_folder scratch;

    scratch_open(&scratch);
    check_files(&tap, &scratch);
    check_failures(&tap, &scratch);
    check_leftovers(&tap, &scratch);
    check_folders(&tap, &scratch);
    check_tables(&tap, &scratch);
    scratch_close(&scratch);
    return tap_done(&tap);
}
