/*
 * Allocations, file calls and ops of an inspection fail, one for each path of calls that leads to one; of the first
 * model's the same with all that follow. Each time the outcome is an error of one line or, where there is a way around,
 * the summary and the files of the undisturbed one; and nothing is held afterwards.
 */
#include "iclab/inspect.h"

#include <dirent.h>
#include <stdio.h>

#include "attempts.h"
#include "core/allocate.h"
#include "core/hash.h"
#include "iclab/file.h"
#include "iclab/recipe.h"

#include "../core/scratch.h"

typedef struct surroundings {
    char run[512], out[512];
    char *expected, *seen;
    uint64_t expected_files; /* in out */
} surroundings;

static const char *const setups[] = {
    "task.d=2 task.n=3 model.layers=1 train.batch=1",
    ("task.family=recall task.vocabulary=16 task.length=8 task.pairs=2 model.family=sequence model.width=4 "
     "model.layers=2 model.mixer=delta,softmax train.batch=1"),
    "task.family=functions task.inputs=sphere task.d=2 task.n=3 model.family=softmax model.layers=1 train.batch=1",
    ("task.family=functions task.inputs=sphere task.d=2 task.n=3 model.family=softmax model.attention=linear "
     "model.layers=1 train.batch=1"),
};

static icl_status make_run(const surroundings *around, const char *settings, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_status status;

    ICL_TRY(fault_make_recipe(settings, &recipe, error));
    ICL_TRY(fault_make_run(around->run, recipe, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

/* Of the files in the folder, whatever their order; with `away` they are removed. */
static uint64_t look_at_files(const char *folder, bool away) {
    DIR *listing = opendir(folder);
    const struct dirent *entry;
    uint64_t sum = 0;

    while (listing && (entry = readdir(listing)) != NULL) {
        char path[1024], *text = NULL;
        size_t size = 0;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.')
            continue;
        if (!away && icl_file_read(path, 0, &text, &size, NULL) == ICL_OK)
            sum += icl_hash(entry->d_name, strlen(entry->d_name)) * (icl_hash(text, size) | 1);
        icl_free(&text);
        if (away)
            (void)remove(path);
    }
    if (listing)
        closedir(listing);
    return sum;
}

/* All that iclab inspect does but draw and print. */
static icl_status attempt(void *context, icl_error *error) {
    surroundings *around = context;
    icl_backend *backend = NULL;
    icl_status status;

    look_at_files(around->out, true);
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &backend, error));
    ICL_TRY(icl_inspect(
        &(icl_inspect_params){.backend = backend, .run = around->run, .folder = around->out, .sequences = 20},
        &around->seen, error));
done:
    icl_backend_close(&backend);
    return status;
}

static bool as_expected(const void *context) {
    const surroundings *around = context;
    return around->seen && strcmp(around->seen, around->expected) == 0 &&
           look_at_files(around->out, false) == around->expected_files;
}

static void clear(void *context) {
    icl_free(&((surroundings *)context)->seen);
}

static void check(tap_run *tap, const char *settings, bool with_lasting) {
    surroundings around = {.seen = NULL};
    const fault_work work = {attempt, as_expected, clear, &around, true};
    scratch_folder scratch;
    icl_error error = {0};

    scratch_open(&scratch);
    snprintf(around.run, sizeof around.run, "%s", scratch_path(&scratch, "run"));
    snprintf(around.out, sizeof around.out, "%s", scratch_path(&scratch, "out"));
    if (tap_status(tap, make_run(&around, settings, &error), &error, "a run") &&
        tap_status(tap, attempt(&around, &error), &error, "its inspection")) {
        around.expected = around.seen;
        around.seen = NULL;
        around.expected_files = look_at_files(around.out, false);
        for (int lasting = 0; lasting < (with_lasting ? 2 : 1); lasting++) {
            fault_check(tap, &work, FAULT_ALLOCATION, lasting);
            fault_check(tap, &work, FAULT_FILE, lasting);
        }
        fault_check(tap, &work, FAULT_OP, false);
    }
    icl_free(&around.expected);
    clear(&around);
    scratch_close(&scratch);
}

int main(void) {
    tap_run tap = {0};

    for (size_t i = 0; i < sizeof setups / sizeof *setups; i++)
        check(&tap, setups[i], i == 0);
    return tap_done(&tap);
}
