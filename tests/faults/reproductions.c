/* Allocations or ops of a reproduction at scale ci fail, one for each path of calls that leads to one. Each attempt
 * has a process of its own, which goes on with the failure and must end with an error of one line or, for an
 * allocation, with the findings of the undisturbed run. The trainings are finished before, because other tests make
 * trainings fail. */
#include <stdio.h>

#include "../core/scratch.h"
#include "attempts.h"
#include "core/allocate.h"
#include "faults.h"
#include "iclab/text.h"
#include "papers/study_list.h"

/* A reproduction that runs, and its findings so far. */
typedef struct run {
    const icl_reproduction *reproduction;
    const char *folder;
    icl_text findings;
    icl_status status; /* of writing them down */
} run;

static void note_finding(void *user, const icl_reproduction *reproduction, const icl_finding *finding) {
    run *job = user;

    (void)reproduction;
    if (job->status == ICL_OK)
        job->status = icl_text_print(&job->findings, NULL, "%s %s %.17g %.17g\n", finding->what, finding->quantity,
                                     finding->ours, finding->target);
}

/* Runs the reproduction and tells its findings. The device is opened anew each time, since it keeps memory for later
 * work. */
static icl_status tell_findings(void *context, char **text, icl_error *error) {
    run *job = context;
    icl_reproduce_summary summary;
    icl_reproduce_params params = {.folder = job->folder, .report = note_finding, .user = job};
    icl_status status = ICL_OK;

    job->status = ICL_OK;
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &params.backend, error));
    ICL_TRY(icl_reproduce(job->reproduction, &params, &summary, error));
    if (job->status != ICL_OK)
        ICL_TRY(icl_fail(error, job->status, "no memory for what was found"));
    *text = job->findings.bytes;
    job->findings = (icl_text){0};
done:
    icl_text_release(&job->findings);
    icl_backend_close(&params.backend);
    return status;
}

static void test_reproduction(tap_run *tap, const scratch_folder *scratch, const char *name, fault_kind kind) {
    run job = {.folder = scratch->folder};
    icl_catalogue all;
    icl_error error = {0};
    icl_status status = icl_catalogue_open(&all, &error);

    if (status == ICL_OK)
        status = icl_catalogue_find(&all, name, &job.reproduction, &error);
    if (tap_status(tap, status, &error, "the name"))
        fault_check_text(tap, tell_findings, &job, kind, FAULT_FORKED, name);
    icl_catalogue_close(&all);
}

void fault_reproductions(tap_run *tap, const char *name, const char *kind) {
    scratch_folder scratch;

    scratch_open(&scratch);
    test_reproduction(tap, &scratch, name, strcmp(kind, "ops") == 0 ? FAULT_OP : FAULT_ALLOCATION);
    scratch_close(&scratch);
}
