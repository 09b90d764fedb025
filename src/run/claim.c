/* Who trains in a run folder: one training at a time. */
#include "core/allocate.h"
#include "core/lock.h"
#include "iclab/file.h"
#include "iclab/run.h"

/* The folder's own lock stands beside the file's, which whoever takes it for a leftover may remove. */
struct icl_run_claim {
    icl_lock *folder, *file;
};

icl_status icl_run_claim_take(const char *folder, icl_run_claim **claim, icl_error *error) {
    icl_status status = ICL_OK;
    icl_run_claim *made = NULL;
    char *path = NULL;

    *claim = NULL;
    ICL_TRY(icl_allocate(1, sizeof *made, "claim of a run folder", &made, error));
    ICL_TRY(icl_folder_create(folder, error));
    ICL_TRY(icl_path_join(folder, ICL_RUN_LOCK, &path, error));
    ICL_TRY(icl_lock_folder(folder, &made->folder, error));
    if (made->folder)
        ICL_TRY(icl_lock_try(path, &made->file, error));
    if (!made->file) {
        status = icl_fail(error, ICL_ERROR_INPUT,
                          "%s: another process or thread trains there: expected another folder, or to wait for its end",
                          folder);
        goto done;
    }
    *claim = made;
    made = NULL;
done:
    icl_run_claim_release(&made);
    icl_free(&path);
    return status;
}

void icl_run_claim_release(icl_run_claim **claim) {
    if (*claim) {
        icl_lock_remove(&(*claim)->file);
        icl_lock_release(&(*claim)->folder);
    }
    icl_free(claim);
}
