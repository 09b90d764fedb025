#include "attempts.h"

#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/run.h"
#include "iclab/train.h"

enum { MAX_COMPLAINT = 10 };

icl_status fault_make_run(const char *folder, const icl_recipe *recipe, icl_error *error) {
    icl_backend *backend = NULL;
    icl_trainer *trainer = NULL;
    char *path = NULL;
    icl_status status;

    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &backend, error));
    ICL_TRY(icl_run_create(folder, recipe, error));
    ICL_TRY(icl_trainer_create(backend, recipe, &trainer, error));
    ICL_TRY(icl_path_join(folder, ICL_RUN_MODEL, &path, error));
    ICL_TRY(icl_trainer_export(trainer, path, error));
done:
    icl_trainer_destroy(&trainer);
    icl_backend_close(&backend);
    icl_free(&path);
    return status;
}

/* What is wrong after a fault, or NULL. */
static const char *judge(const fault_work *work, icl_status status, const icl_error *error) {
    if (status == ICL_OK)
        return work->as_expected(work->context) ? NULL : "the outcome differs";
    return error->status == status && error->message[0] != '\0' && !strchr(error->message, '\n') ? NULL
                                                                                                 : "not one line";
}

static const char *judge_holdings(const fault_holdings *before) {
    const fault_holdings now = fault_held();

    if (now.memory != before->memory)
        return "memory is leaked";
    return now.files != before->files ? "a file is left open" : NULL;
}

void fault_check(tap_run *tap, const fault_work *work, fault_kind kind, bool lasting) {
    static const char *const kinds[FAULT_KINDS] = {"memory", "files", "what OpenCL has", "what OpenCL does"};
    unsigned reported = 0, survived = 0, bad = 0;

    for (uint64_t nth = 1;; nth++) {
        const fault_holdings before = fault_held();
        icl_error error = {0};
        fault_arm(kind, nth, lasting);
        const icl_status status = work->attempt(work->context, &error);
        const char *struck = fault_struck();
        fault_disarm();
        const char *complaint = struck ? judge(work, status, &error) : NULL;
        if (work->clear)
            work->clear(work->context);
        if (!struck)
            break;
        if (!complaint)
            complaint = judge_holdings(&before);
        if (complaint && bad++ < MAX_COMPLAINT)
            tap_note("fault %llu, %s: %s: %s", (unsigned long long)nth, struck, complaint, error.message);
        reported += status != ICL_OK;
        survived += status == ICL_OK;
    }
    tap_ok(tap, bad == 0 && reported > 0, "%s%s: %u faults reported, %u survived", kinds[kind],
           lasting ? ", and all that follow" : "", reported, survived);
}
