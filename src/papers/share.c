#include "papers/share.h"

#include <time.h>
#include <unistd.h>

#include "core/allocate.h"
#include "core/lock.h"
#include "iclab/file.h"
#include "papers/record.h"

/* How long to wait for trainings that others hold. */
#define WAIT_NANOSECONDS 200000000

icl_status icl_reproduce_leave(icl_reproducing *run, icl_error *error) {
    run->share->left = true;
    return icl_fail(error, ICL_ERROR_INTERRUPTED, "%s: a training is left to another run", run->reproduction->name);
}

static void wait_a_moment(void) {
    (void)nanosleep(&(struct timespec){.tv_nsec = WAIT_NANOSECONDS}, NULL);
}

icl_status icl_reproduce_next(icl_reproducing *run, icl_status status) {
    if (!run->share || !run->share->left)
        return status;
    run->share->left = false;
    return ICL_OK;
}

bool icl_reproduce_judges(const icl_reproducing *run) {
    return !run->share;
}

/* ---- Work ---- */

static icl_status claim(const icl_reproducing *run, const char *name, icl_lock **lock, icl_error *error) {
    return icl_lock_claim(run->params->folder, name, lock, error);
}

/* Does what nobody has finished or does now. The lock comes first: only its holder knows that what is not finished is
 * not being done. */
static icl_status work_beside_others(icl_reproducing *run, const icl_shared_work *work, icl_error *error) {
    icl_lock *lock = NULL;
    bool finished = false, is_given = false;
    icl_status status = ICL_OK;

    if (run->cells) /* no cell needs it: a list of their names trains nothing and looks into no folder */
        return icl_reproduce_leave(run, error);
    if (run->share->list)
        return work->is_needed || !run->reproduction->is_shared ? ICL_OK : icl_reproduce_leave(run, error);
    ICL_TRY(work->find(work->context, &finished, error));
    if (!finished && !run->share->counts)
        ICL_TRY(claim(run, work->name, &lock, error));
    if (lock)
        ICL_TRY(work->find(work->context, &finished, error));
    if (run->share->counts)
        is_given = work->is_needed;
    else if (finished ? work->is_needed : lock != NULL) {
        status = work->work(work->context, error);
        finished = status == ICL_OK || status == ICL_ERROR_DIVERGED; /* the reproduction itself is told */
        if (!finished)
            goto done;
        is_given = work->is_needed && status == ICL_OK;
    }
    run->share->unfinished += !finished;
    status = is_given ? ICL_OK : icl_reproduce_leave(run, error);
done:
    icl_lock_release(&lock);
    return status;
}

static icl_status work_alone(icl_reproducing *run, const icl_shared_work *work, icl_error *error) {
    icl_lock *lock = NULL;
    icl_status status = ICL_OK;

    for (;;) {
        ICL_TRY(claim(run, work->name, &lock, error));
        if (lock)
            break;
        ICL_TRY(icl_reproduce_poll(run, error));
        wait_a_moment();
    }
    status = work->work(work->context, error);
done:
    icl_lock_release(&lock);
    return status;
}

icl_status icl_reproduce_share(icl_reproducing *run, const icl_shared_work *work, icl_error *error) {
    return run->share ? work_beside_others(run, work, error) : work_alone(run, work, error);
}

/* ---- Lists ---- */

icl_status icl_reproduce_look(icl_reproducing *run, icl_error *error) {
    icl_reproduce_params own = *run->params;
    icl_status status = ICL_OK;

    run->params = &own;
    own.backend = NULL;
    own.say = NULL;
    own.seed = own.seed == 0 ? 1 : own.seed;
    /* One thread: what trains ahead on several cores asks for cells, too. */
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &own.backend, error));
    ICL_TRY(icl_reproduce_next(run, run->reproduction->run(run, error)));
done:
    icl_record_release(run);
    icl_backend_close(&own.backend);
    return status;
}

/* ---- One run ---- */

static icl_status run_shared(const icl_reproduction *reproduction, const icl_reproduce_params *params,
                             icl_training_share *share, icl_error *error) {
    icl_reproduce_params own = *params;
    icl_reproducing run = {.params = &own, .reproduction = reproduction, .share = share};
    icl_status status;

    if (own.seed == 0)
        own.seed = 1;
    ICL_CHECK(icl_folder_create(own.folder, error));
    status = icl_reproduce_next(&run, reproduction->run(&run, error));
    icl_record_release(&run);
    return status;
}

static icl_status run_all(const icl_reproduce_shared *all, const icl_reproduce_params *with, icl_training_share *share,
                          icl_error *error) {
    for (size_t i = 0; i < all->count; i++) {
        icl_reproduce_params params = all->params[i];
        params.backend = with->backend;
        params.stop = with->stop;
        params.progress = with->progress;
        params.user = with->user;
        params.say = with->say;
        if (all->reproductions[i]->is_shared && all->reproductions[i]->run)
            ICL_CHECK(run_shared(all->reproductions[i], &params, share, error));
    }
    return ICL_OK;
}

icl_status icl_reproduce_count_unfinished(const icl_reproduce_shared *all, size_t *unfinished, icl_error *error) {
    icl_training_share share = {.counts = true};
    icl_reproduce_params params = {0};
    icl_status status = ICL_OK;

    ICL_CHECK(icl_study_count_unfinished(all, unfinished, error));
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &params.backend, error));
    ICL_TRY(run_all(all, &params, &share, error));
    *unfinished += share.unfinished;
done:
    icl_backend_close(&params.backend);
    return status;
}

/* ---- A worker ---- */

typedef struct worker {
    const icl_reproduce_params *params; /* of the command: who hears what is said, and its stop */
    long parent;
    volatile sig_atomic_t stop;
} worker;

/* A worker whose parent is gone stops like one that is told to, or it would go on unseen. */
static void look_for_stop(worker *w) {
    const volatile sig_atomic_t *stop = w->params->stop;

    if ((stop && *stop) || (w->parent != 0 && (long)getppid() != w->parent))
        w->stop = 1;
}

static void look_in_session(void *user, const icl_session_progress *progress) {
    (void)progress;
    look_for_stop(user);
}

static void pass_on(void *user, const char *text) {
    const worker *w = user;
    w->params->say(w->params->user, text);
}

icl_status icl_reproduce_work(const icl_reproduce_shared *all, icl_backend *backend, long parent, icl_error *error) {
    worker w = {.params = &all->params[0], .parent = parent};
    const icl_reproduce_params params = {.backend = backend,
                                         .stop = &w.stop,
                                         .progress = look_in_session,
                                         .say = w.params->say ? pass_on : NULL,
                                         .user = &w};

    ICL_CHECK(icl_study_train_all(all, backend, parent, error));
    for (;;) {
        icl_training_share share = {0};
        ICL_CHECK(run_all(all, &params, &share, error));
        if (share.unfinished == 0)
            return ICL_OK;
        look_for_stop(&w);
        if (w.stop)
            return icl_fail(error, ICL_ERROR_INTERRUPTED, "stopped before all trainings were finished");
        wait_a_moment();
    }
}
