/*
 * Trainings of reproductions that several workers share: processes of one command, ranks of mpirun, or commands on
 * several machines that see one folder.
 *
 * Nobody assigns them. A worker runs the reproduction's own function, in which icl_reproduce_train takes the lock of
 * the training's name in claims/ (core/lock.h), trains what is not finished, and leaves the rest of that cell: it
 * fails, and icl_reproduce_next lets the loop over cells go on. What other trainings begin with
 * (icl_reproduce_train_needed, icl_reproduce_keep) it is given once that is finished. So a worker trains whatever
 * nobody else trains, judges nothing and comes back until everything is finished. Then the reproduction itself runs,
 * once, and finds every run folder finished. It takes the locks, too: no two commands ever train in one folder at once.
 */
#ifndef ICLAB_PAPERS_SHARE_H
#define ICLAB_PAPERS_SHARE_H

#include "papers/reproduce.h"

/* What a worker's run of a reproduction does with its trainings. */
typedef struct icl_training_share {
    bool counts;                /* it trains none */
    struct icl_trainings *list; /* they are only listed (trainings.h), and the folder is not looked into */
    bool left;                  /* the last one was left, and its cell with it */
    size_t unfinished;          /* that this run found, and did not finish */
} icl_training_share;

/* The reproductions of one command. */
typedef struct icl_reproduce_shared {
    const icl_reproduction *const *reproductions; /* [count]; those that are not is_shared are passed over */
    const icl_reproduce_params *params;           /* [count]: each one's, but for backend, report, progress and draw */
    size_t count;
} icl_reproduce_shared;

/* How many trainings are not finished. Opens a device of the host, and closes it. */
icl_status icl_reproduce_count_unfinished(const icl_reproduce_shared *all, size_t *unfinished, icl_error *error);

/* What a worker does: trains until all are finished, those of others included. parent as in icl_workers.
 * ICL_ERROR_INTERRUPTED when stopped. */
icl_status icl_reproduce_work(const icl_reproduce_shared *all, icl_backend *backend, long parent, icl_error *error);

/* Of those that are studies: how many trainings are not finished; and a worker's part in them, as above. */
icl_status icl_study_count_unfinished(const icl_reproduce_shared *all, size_t *unfinished, icl_error *error);
icl_status icl_study_train_all(const icl_reproduce_shared *all, icl_backend *backend, long parent, icl_error *error);

/* ---- For lists ---- */

/* Runs run->reproduction, which trains, judges and writes nothing where run->share counts or lists, or run->cells is
 * there. Opens a device of the host, and closes it. */
icl_status icl_reproduce_look(icl_reproducing *run, icl_error *error);

/* ---- For what is shared ---- */

/* Something that is done once, by whoever comes first, and that the folder has then. */
typedef struct icl_shared_work {
    const char *name; /* of its claim */
    bool is_needed;   /* other work begins with what it gives */
    void *context;
    icl_status (*find)(void *context, bool *finished, icl_error *error);
    icl_status (*work)(void *context, icl_error *error); /* does it, or takes what it gave where it is finished */
} icl_shared_work;

/* Does it, or takes what it gave; waits for another command that does the same. A worker leaves it, with
 * icl_reproduce_leave, but for needed work that is finished, by whomever. A worker that only counts is told ICL_OK for
 * needed work, too, and has nothing of it, so that what begins with it counts. */
icl_status icl_reproduce_share(icl_reproducing *run, const icl_shared_work *work, icl_error *error);

/* The status with which a training is left. */
icl_status icl_reproduce_leave(icl_reproducing *run, icl_error *error);

#endif
