/* Run folders inside of a scratch folder. */
#ifndef ICLAB_TESTS_LAB_SCRATCH_RUN_H
#define ICLAB_TESTS_LAB_SCRATCH_RUN_H

#include "../core/scratch.h"

/* Removes what a short run leaves, files before their folders: scratch_close removes files and empty folders alone. */
static inline void scratch_remove_run(scratch_folder *scratch, const char *run) {
    static const char *const names[] = {"recipe.ini",
                                        "origin",
                                        "metrics.csv",
                                        "model.safetensors",
                                        "run.json",
                                        "checkpoint/state.safetensors",
                                        "checkpoint",
                                        "snapshots/0.safetensors",
                                        "snapshots/4.safetensors",
                                        "snapshots/8.safetensors",
                                        "snapshots"};
    char name[128];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(name, sizeof name, "%s/%s", run, names[i]);
        (void)remove(scratch_path(scratch, name));
    }
}

#endif
