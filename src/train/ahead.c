#include "train/ahead.h"

#include "core/allocate.h"
#include "core/threads.h"
#include "task/task.h"

struct icl_ahead {
    const icl_task *task;
    uint32_t seed;
    icl_threads *team;
    icl_host_batch host;
    bool is_drawing; /* the thread may still write to the members below */
    bool is_drawn;   /* batch `number` was drawn, or failed */
    uint64_t number;
    icl_status status;
    icl_error error;
};

icl_status icl_ahead_create(const icl_task *task, uint32_t seed, const icl_batch *batch, icl_ahead **ahead,
                            icl_error *error) {
    icl_ahead *made = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(1, sizeof *made, "batch that is drawn ahead", &made, error));
    made->task = task;
    made->seed = seed;
    ICL_TRY(icl_threads_create(2, &made->team, error));
    ICL_TRY(icl_host_batch_create(batch, &made->host, error));
    *ahead = made;
    made = NULL;
done:
    icl_ahead_destroy(&made);
    return status;
}

/* Waits until the thread has drawn. */
static void finish(icl_ahead *ahead) {
    if (ahead->is_drawing)
        icl_threads_wait(ahead->team);
    ahead->is_drawing = false;
}

void icl_ahead_destroy(icl_ahead **ahead) {
    icl_ahead *gone = *ahead;

    if (!gone)
        return;
    finish(gone);
    icl_threads_destroy(&gone->team);
    icl_host_batch_destroy(&gone->host);
    icl_free(ahead);
}

static void draw(void *context, size_t thread, size_t count) {
    icl_ahead *ahead = context;

    (void)thread;
    (void)count;
    ahead->status =
        icl_host_batch_draw(ahead->task, ICL_FOR_TRAINING, ahead->seed, ahead->number, &ahead->host, &ahead->error);
    ahead->is_drawn = true;
}

icl_status icl_ahead_take(icl_ahead *ahead, uint64_t number, uint64_t next, const icl_batch *batch, icl_error *error) {
    finish(ahead);
    if (!ahead->is_drawn || ahead->number != number) {
        ahead->number = number;
        draw(ahead, 0, 1);
    }
    ahead->is_drawn = false;
    if (ahead->status != ICL_OK && error)
        *error = ahead->error;
    ICL_CHECK(ahead->status);
    ICL_CHECK(icl_host_batch_write(&ahead->host, batch, error));
    if (next == ICL_NO_BATCH)
        return ICL_OK;
    ahead->number = next;
    ahead->is_drawing = true;
    icl_threads_start(ahead->team, draw, ahead);
    return ICL_OK;
}
