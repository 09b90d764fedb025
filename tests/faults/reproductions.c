/*
 * Allocations of a reproduction at scale ci fail, one for each path of calls that leads to one: each time in a process
 * of its own, which goes on with the failure and must end with an error of one line, or with the findings of the
 * undisturbed run. The trainings are finished before: what a training meets is the matter of other tests of faults.
 */
#define _XOPEN_SOURCE 700 /* nftw */
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../core/scratch.h"
#include "core/hash.h"
#include "papers/reproduce.h"
#include "plant.h"
#include "tap.h"

enum { CHILD_DID_WELL = 0, CHILD_DID_NOT = 1 };

/* What a run found. No memory is taken for it, which could fail, too. */
typedef struct findings {
    size_t count;
    uint64_t hash;
} findings;

static void note_finding(void *user, const icl_reproduction *reproduction, const icl_finding *finding) {
    findings *of = user;
    char line[512];

    (void)reproduction;
    snprintf(line, sizeof line, "%zu %016" PRIx64 " %s %s %.17g %.17g", ++of->count, of->hash, finding->what,
             finding->quantity, finding->ours, finding->target);
    of->hash = icl_hash(line, strlen(line));
}

static icl_status run(const icl_reproduction *reproduction, icl_backend *backend, const char *folder, findings *found,
                      icl_error *error) {
    icl_reproduce_summary summary;
    const icl_reproduce_params params = {.backend = backend, .folder = folder, .report = note_finding, .user = found};

    *found = (findings){0};
    return icl_reproduce(reproduction, &params, &summary, error);
}

/* Does not return. */
static void end_child(icl_status status, const icl_error *error, bool is_same) {
    const char *complaint = NULL;

    if (status == ICL_OK)
        complaint = is_same ? NULL : "other findings";
    else if (error->status != status || error->message[0] == '\0' || strchr(error->message, '\n'))
        complaint = "not one line";
    if (complaint)
        printf("# %s: %s: %s\n", fault_struck(), complaint, error->message);
    fflush(stdout);
    _exit(complaint ? CHILD_DID_NOT : CHILD_DID_WELL);
}

static void test_reproduction(tap_run *tap, const scratch_folder *scratch, const char *name) {
    const icl_reproduction *reproduction = NULL;
    icl_backend *backend = NULL;
    findings expected, found;
    icl_error error = {0};

    if (!tap_status(tap, icl_reproduction_find(name, &reproduction, &error), &error, "the name") ||
        !tap_status(tap, icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &backend, &error), &error,
                    "the device") ||
        !tap_status(tap, run(reproduction, backend, scratch->folder, &expected, &error), &error, "undisturbed"))
        goto done;
    fault_branch(FAULT_ALLOCATION);
    const icl_status status = run(reproduction, backend, scratch->folder, &found, &error);
    const bool is_same = found.count == expected.count && found.hash == expected.hash;
    if (fault_struck())
        end_child(status, &error, is_same);
    const fault_branches branches = fault_branched();
    fault_disarm();
    tap_ok(tap, status == ICL_OK && is_same && expected.count > 0, "the same without a fault");
    tap_ok(tap, branches.forked > 10 && branches.bad == 0, "%u faults, %u of them badly met", branches.forked,
           branches.bad);
done:
    icl_backend_close(&backend);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk) {
    (void)status;
    (void)kind;
    (void)walk;
    return remove(path);
}

/* The name of a reproduction. */
int main(int argc, char **argv) {
    tap_run tap = {0};
    scratch_folder scratch;

    scratch_open(&scratch);
    test_reproduction(&tap, &scratch, argc == 2 ? argv[1] : "");
    (void)nftw(scratch.folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return tap_done(&tap);
}
