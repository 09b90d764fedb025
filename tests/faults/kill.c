/*
 * `iclab train` is killed (SIGKILL) at random moments, 50 times, and resumed each time, sometimes to be killed again.
 * Every run ends with the model, checkpoint and metrics of one that nobody touched, byte for byte.
 *
 * kill ICLAB RECIPE
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "tap.h"

#include "../core/scratch.h"

#define KILLS        50
#define MAX_ATTEMPTS 400 /* some die a natural death first */

static const char *const names[] = {"recipe.ini", "metrics.csv", "model.safetensors", "checkpoint/state.safetensors"};
enum { FILES = sizeof names / sizeof *names };

typedef struct files {
    char *data[FILES];
    size_t sizes[FILES];
} files;

typedef struct killing {
    const char *program, *recipe;
    char root[32];
    double seconds; /* of an undisturbed run */
    uint64_t random;
    int kills, before_recipe, before_checkpoint, in_training;
} killing;

/* ---- Time and chance ---- */

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void wait_for(double seconds) {
    struct timespec time = {.tv_sec = (time_t)seconds};
    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    nanosleep(&time, NULL);
}

/* From 0 to 1: SplitMix64 (Steele, Lea, Flood 2014). */
static double uniform(killing *all) {
    uint64_t z = all->random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* ---- The command ---- */

static void path_in(const killing *all, const char *folder, const char *name, char path[256]) {
    snprintf(path, 256, "%s/%s/%s", all->root, folder, name);
}

static bool exists(const killing *all, const char *folder, const char *name) {
    char path[256];
    path_in(all, folder, name, path);
    return icl_path_exists(path);
}

/* Begins the run, or resumes one that is there. */
static pid_t start(const killing *all, const char *folder) {
    const bool resume = exists(all, folder, "recipe.ini");
    char path[256];
    path_in(all, folder, "", path);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        const int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, STDOUT_FILENO);
        if (resume)
            execl(all->program, all->program, "train", "--resume", path, "--device", "cpu:threads=1", "--quiet",
                  (char *)NULL);
        else
            execl(all->program, all->program, "train", all->recipe, "--out", path, "--device", "cpu:threads=1",
                  "--quiet", (char *)NULL);
        _exit(127);
    }
    return child;
}

/* True when the command ended well by itself. */
static bool finish(pid_t child) {
    int state = 0;
    while (waitpid(child, &state, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(state) && WEXITSTATUS(state) == 0;
}

/* True when the kill came before the end. */
static bool start_and_kill(killing *all, const char *folder) {
    const double delay = uniform(all) * all->seconds;
    const pid_t child = start(all, folder);
    int state = 0;

    wait_for(delay);
    kill(child, SIGKILL);
    while (waitpid(child, &state, 0) < 0 && errno == EINTR)
        continue;
    if (!WIFSIGNALED(state))
        return false;
    all->kills++;
    if (!exists(all, folder, "recipe.ini"))
        all->before_recipe++;
    else if (!exists(all, folder, "checkpoint/state.safetensors"))
        all->before_checkpoint++;
    else
        all->in_training++;
    return true;
}

/* ---- What is left ---- */

static bool read_files(const killing *all, const char *folder, files *read) {
    for (int i = 0; i < FILES; i++) {
        char path[256];
        path_in(all, folder, names[i], path);
        if (icl_file_read(path, 0, &read->data[i], &read->sizes[i], NULL) != ICL_OK)
            return false;
    }
    return true;
}

static void release(files *read) {
    for (int i = 0; i < FILES; i++)
        icl_free(&read->data[i]);
}

/* The first file that differs from the undisturbed run's, or NULL. */
static const char *difference(const killing *all, const char *folder, const files *expected) {
    files seen = {{0}};
    const char *name = read_files(all, folder, &seen) ? NULL : "a missing file";
    for (int i = 0; i < FILES && !name; i++)
        if (seen.sizes[i] != expected->sizes[i] || !seen.data[i] || !expected->data[i] ||
            memcmp(seen.data[i], expected->data[i], seen.sizes[i]) != 0)
            name = names[i];
    release(&seen);
    return name;
}

/* One run, killed again and again with falling odds, then left to end. */
static bool torment(killing *all, const char *folder, const files *expected) {
    const int kills = all->kills;
    const char *differs;

    do
        (void)start_and_kill(all, folder);
    while (uniform(all) < 0.4 && all->kills < KILLS);
    if (!finish(start(all, folder))) {
        tap_note("%s: killed %d times, cannot be resumed", folder, all->kills - kills);
        return false;
    }
    differs = difference(all, folder, expected);
    if (differs)
        tap_note("%s: killed %d times, then %s differs", folder, all->kills - kills, differs);
    return !differs;
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    killing all = {.program = argc > 2 ? argv[1] : "", .recipe = argc > 2 ? argv[2] : "", .random = 2024};
    files expected = {{0}};
    int runs = 0, good = 0;
    const double begin = now();

    /* In memory, where there is such a place: flushing files to a disk takes three times as long as training. */
    strcpy(all.root, access("/dev/shm", W_OK) == 0 ? "/dev/shm/kill-XXXXXX" : "kill-XXXXXX");
    if (tap_ok(&tap, mkdtemp(all.root) != NULL, "a folder for the runs") &&
        tap_ok(&tap, finish(start(&all, "undisturbed")) && read_files(&all, "undisturbed", &expected),
               "an undisturbed run")) {
        all.seconds = now() - begin;
        for (; all.kills < KILLS && runs < MAX_ATTEMPTS; runs++) {
            char folder[32];
            snprintf(folder, sizeof folder, "run%d", runs);
            good += torment(&all, folder, &expected);
        }
        tap_note("an undisturbed run takes %.2f s", all.seconds);
        tap_ok(&tap, all.kills >= KILLS && good == runs,
               "%d runs, killed %d times (%d before there was a recipe, %d before the first checkpoint, %d in "
               "training), end in the same bits: %d",
               runs, all.kills, all.before_recipe, all.before_checkpoint, all.in_training, good);
        tap_ok(&tap, all.in_training > KILLS / 2, "most kills hit training");
    }
    release(&expected);
    if (!tap.failed)
        scratch_remove(all.root);
    return tap_done(&tap);
}
