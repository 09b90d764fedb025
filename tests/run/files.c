/* Tests the list of a run's files: those that are unchanged, those that are not, and those that are not listed. */
#include "run/files.h"

#include "../core/scratch.h"
#include "iclab/file.h"
#include "iclab/run.h"
#include "tap.h"

static const char *folder;

static void put(const char *name, const char *text) {
    char path[600];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (icl_file_write(path, text, strlen(text), NULL) != ICL_OK)
        exit(1);
}

static void expect_refusal(tap_run *tap, const char *name, const char *message, const char *what) {
    icl_error error = {0};

    tap_ok(tap, icl_run_files_check(folder, name, &error) == ICL_ERROR_INPUT && strstr(error.message, message),
           "%s: %s", what, error.message);
}

static void expect_good(tap_run *tap, const char *name, const char *what) {
    icl_error error = {0};

    tap_status(tap, icl_run_files_check(folder, name, &error), &error, what);
}

static void check_changes(tap_run *tap) {
    icl_run_files *files = NULL;
    icl_error error = {0};

    put(ICL_RUN_RECIPE, "[task]\n");
    expect_good(tap, NULL, "a folder without a list");
    tap_status(tap, icl_run_file_write(folder, ICL_RUN_FACTS, "{}\n", &error), &error, "a file is written");
    expect_good(tap, NULL, "and the recipe is listed with it");
    put(ICL_RUN_RECIPE, "[tasK]\n");
    expect_refusal(tap, NULL, "recipe.ini: not as it was written", "another byte");
    expect_good(tap, ICL_RUN_FACTS, "which is no other file's business");
    tap_status(tap, icl_run_list_files(folder, &error), &error, "listed anew");
    expect_good(tap, NULL, "the change counts");

    put(ICL_RUN_METRICS, "step\n1\n");
    for (int i = 0; i < 2; i++) {
        tap_status(tap, icl_run_files_open(folder, &files, &error), &error, "the list is taken");
        if (i > 0)
            put(ICL_RUN_METRICS, "step\n1\n2\n");
        expect_good(tap, NULL, "while it is gone, nothing is checked");
        (void)icl_run_files_update(files, ICL_RUN_METRICS, &error);
        (void)icl_run_files_write(files, &error);
        icl_run_files_close(&files);
        expect_good(tap, NULL, i == 0 ? "the table is listed" : "and once it has grown");
    }
    put(ICL_RUN_METRICS, "step\n1\n3\n");
    expect_refusal(tap, NULL, "metrics.csv: not as it was written", "another row of the same length");
    put(ICL_RUN_METRICS, "step\n1\n2\n");
}

/* Snapshots are read one by one, so they are checked one by one. */
static void check_snapshots(tap_run *tap) {
    icl_run_files *files = NULL;
    icl_error error = {0};
    char path[600];

    snprintf(path, sizeof path, "%s/" ICL_RUN_SNAPSHOTS, folder);
    (void)icl_folder_create(path, NULL);
    put("snapshots/7.safetensors", "seven");
    (void)icl_run_files_open(folder, &files, &error);
    tap_status(tap, icl_run_files_update(files, "snapshots/7.safetensors", &error), &error, "a snapshot");
    (void)icl_run_files_write(files, &error);
    icl_run_files_close(&files);
    expect_good(tap, "snapshots/7.safetensors", "is as it was");
    put("snapshots/7.safetensors", "sevem");
    expect_good(tap, NULL, "its contents are not read with the others");
    expect_refusal(tap, "snapshots/7.safetensors", "7.safetensors: not as it was written", "but by themselves");
    put("snapshots/7.safetensors", "");
    expect_refusal(tap, NULL, "7.safetensors: not as it was written", "its size is");
    scratch_remove(path);
    expect_good(tap, NULL, "what is gone is no damage");
}

static void check_lists(tap_run *tap) {
    static const char *const bad[] = {"0123456789abcdef 3 ../recipe.ini\n",
                                      "0123456789abcdef 3 /dev/zero\n",
                                      "0123456789abcdef 3 recipe.ini",
                                      "0123456789abcdef three recipe.ini\n",
                                      "123 3 recipe.ini\n",
                                      "0123456789abcdef 3\n",
                                      "0123456789abcdef 3 snapshots/../1.safetensors\n"};
    icl_run_files *files = NULL;
    icl_error error = {0};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put(ICL_RUN_FILES, bad[i]);
        expect_refusal(tap, NULL, "files.txt:1: expected a hash, a size", "no list of a run");
    }
    tap_ok(tap, icl_run_files_open(folder, &files, &error) == ICL_OK && icl_run_files_write(files, &error) == ICL_OK,
           "whoever writes there makes a new one");
    icl_run_files_close(&files);
    expect_good(tap, NULL, "which holds");
}

int main(void) {
    tap_run tap = {0};
    scratch_folder scratch;

    scratch_open(&scratch);
    folder = scratch.folder;
    check_changes(&tap);
    check_snapshots(&tap);
    check_lists(&tap);
    scratch_close(&scratch);
    return tap_done(&tap);
}
