/* sched_setaffinity is Linux's own. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
#include "attempts.h"

#include <dirent.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/allocate.h"
#include "core/hash.h"
#include "iclab/file.h"
#include "iclab/run.h"
#include "iclab/train.h"

enum { MAX_COMPLAINT = 10, MAX_FILE = 1 << 18 };

static const char *const kinds[FAULT_KINDS] = {"memory", "files", "what OpenCL has", "what OpenCL does", "ops"};

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

uint64_t fault_hash_files(const char *folder) {
    static char text[MAX_FILE];
    DIR *listing = opendir(folder);
    const struct dirent *entry;
    uint64_t sum = 0;

    while (listing && (entry = readdir(listing)) != NULL) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "rb");
        if (!file)
            continue;
        sum += icl_hash(entry->d_name, strlen(entry->d_name)) * (icl_hash(text, fread(text, 1, sizeof text, file)) | 1);
        fclose(file);
    }
    if (listing)
        closedir(listing);
    return sum;
}

/* Returns what is wrong after a call of this kind failed; NULL if nothing is. */
static const char *judge(const fault_work *work, fault_kind kind, icl_status status, const icl_error *error) {
    if (status == ICL_OK)
        return work->as_expected(work->context) ? NULL : "the outcome differs";
    if (!fault_may_end_with(kind, status))
        return "another error than its own";
    const bool is_line = !strchr(error->message, '\n') || strstr(error->message, "build log:");
    return error->status == status && error->message[0] != '\0' && is_line ? NULL : "not one line";
}

static const char *judge_holdings(const fault_work *work, const fault_holdings *before) {
    const fault_holdings now = fault_held();

    if (now.memory != before->memory && !work->keeps_memory)
        return "memory is leaked";
    return now.files != before->files ? "a file is left open" : NULL;
}

void fault_check(tap_run *tap, const fault_work *work, fault_kind kind, bool lasting) {
    const unsigned stride = work->stride > 0 ? work->stride : 1;
    unsigned reported = 0, survived = 0, bad = 0;

    fault_forget_paths();
    for (uint64_t nth = 1;; nth += stride) {
        const fault_holdings before = fault_held();
        icl_error error = {0};
        if (work->each_path)
            fault_arm_path(kind, lasting);
        else
            fault_arm(kind, nth, lasting);
        const icl_status status = work->attempt(work->context, &error);
        const char *struck = fault_struck();
        fault_disarm();
        const char *complaint = struck ? judge(work, kind, status, &error) : NULL;
        if (work->clear)
            work->clear(work->context);
        if (!struck)
            break;
        if (!complaint)
            complaint = judge_holdings(work, &before);
        if (!complaint && work->find_trouble)
            complaint = work->find_trouble(work->context, struck, status);
        if (complaint && bad++ < MAX_COMPLAINT)
            tap_note("fault %llu, %s: %s: %s", (unsigned long long)nth, struck, complaint, error.message);
        reported += status != ICL_OK;
        survived += status == ICL_OK;
    }
    tap_ok(tap, bad == 0 && (reported > 0 || (survived > 0 && work->has_way_around)),
           "%s%s%s%s: %u faults reported, %u survived", work->what ? work->what : "", work->what ? ", " : "",
           kinds[kind], lasting ? ", and all that follow" : "", reported, survived);
}

/* ---- Texts ---- */

typedef struct telling {
    fault_telling *tell;
    void *context;
    char *expected, *seen;
} telling;

static icl_status attempt_text(void *context, icl_error *error) {
    telling *t = context;
    return t->tell(t->context, &t->seen, error);
}

static bool is_same_text(const void *context) {
    const telling *t = context;
    return t->seen && strcmp(t->seen, t->expected) == 0;
}

static void clear_text(void *context) {
    icl_free(&((telling *)context)->seen);
}

/* Judges the outcome in a child process, and ends that process. */
static void end_child(const telling *t, icl_status status, const icl_error *error, fault_kind kind,
                      const fault_holdings *before) {
    const fault_work work = {.as_expected = is_same_text, .context = (void *)t};
    const char *complaint =
        status == ICL_OK && kind == FAULT_OP ? "the failure is lost" : judge(&work, kind, status, error);

    clear_text((void *)t);
    if (!complaint)
        complaint = judge_holdings(&work, before);
    if (complaint)
        tap_note("%s: %s: %s", fault_struck(), complaint, error->message);
    fflush(stdout);
    _exit(complaint ? EXIT_FAILURE : EXIT_SUCCESS);
}

/* Keeps the process on one core, so that the library starts no threads: a child would lack them. */
static void stay_on_one_core(cpu_set_t *before) {
    cpu_set_t one;

    CPU_ZERO(before);
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof *before, before) == 0) {
        int core = 0;
        while (!CPU_ISSET(core, before))
            core++;
        CPU_SET(core, &one);
        (void)sched_setaffinity(0, sizeof one, &one);
    }
}

static void check_branches(tap_run *tap, telling *t, fault_kind kind) {
    const fault_holdings before = fault_held();
    icl_error error = {0};

    fault_branch(kind);
    const icl_status status = attempt_text(t, &error);
    if (fault_struck())
        end_child(t, status, &error, kind, &before);
    const fault_branches branches = fault_branched();
    fault_disarm();
    tap_ok(tap, status == ICL_OK && is_same_text(t), "the same without a fault");
    tap_ok(tap, branches.forked > 0 && branches.bad == 0, "%u faults of %s, %u of them badly met", branches.forked,
           kinds[kind], branches.bad);
    clear_text(t);
}

/* Transfers that are interrupted and done piece by piece are no fault at all. */
static void check_dawdling(tap_run *tap, telling *t) {
    icl_error error = {0};

    fault_dawdle(true);
    const icl_status status = attempt_text(t, &error);
    fault_dawdle(false);
    tap_ok(tap, status == ICL_OK && is_same_text(t), "interrupted and partial reads and writes change nothing%s%s",
           error.message[0] ? ": " : "", error.message);
    clear_text(t);
}

void fault_check_text(tap_run *tap, fault_telling *tell, void *context, fault_kind kind, unsigned how,
                      const char *what) {
    telling t = {.tell = tell, .context = context};
    const fault_work work = {attempt_text, is_same_text, clear_text, .context = &t,
                             .each_path = !(how & FAULT_EACH_CALL)};
    icl_error error = {0};
    cpu_set_t cores;

    if (how & FAULT_FORKED)
        stay_on_one_core(&cores);
    if (tap_status(tap, tell(context, &t.expected, &error), &error, what)) {
        if (how & FAULT_FORKED)
            check_branches(tap, &t, kind);
        else
            fault_check(tap, &work, kind, false);
        if (how & FAULT_LASTING)
            fault_check(tap, &work, kind, true);
        if (kind == FAULT_FILE)
            check_dawdling(tap, &t);
    }
    if (how & FAULT_FORKED)
        (void)sched_setaffinity(0, sizeof cores, &cores);
    icl_free(&t.expected);
}
