/* Batches that the host draws: on a device of its own the next one is drawn by another thread while a step runs, each
 * once, none after the last step; its bits are those of batches that are drawn when they are needed, and its failure is
 * that of its own step. A host device draws when a step begins. */
#include <pthread.h>
#include <string.h>

#include "../core/scratch.h"
#include "fixture.h"
#include "task/draws.h"
#include "task/task.h"
#include "train/trainer.h"

enum { MOST = 64, STEPS = 8, NO_FAILURE = MOST };

/* The draws that the task below was asked for. */
typedef struct record {
    pthread_t caller;
    uint64_t fails_at, numbers[MOST];
    bool is_elsewhere[MOST]; /* by another thread than the caller's */
    size_t count;
} record;

static icl_status draw_recorded(const icl_task *task, icl_task_purpose purpose, uint32_t seed, uint64_t step,
                                const icl_batch_values *values, icl_error *error) {
    record *seen = *(record *const *)task->family->settings;

    if (seen->count < MOST) {
        seen->is_elsewhere[seen->count] = !pthread_equal(pthread_self(), seen->caller);
        seen->numbers[seen->count++] = step;
    }
    if (step == seen->fails_at)
        return icl_fail(error, ICL_ERROR_INPUT, "batch %d cannot be drawn", (int)step);
    return icl_associative.draw(task, purpose, seed, step, values, error);
}

/* Draws when a step begins, whatever the device. */
static icl_status sample_at_once(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                                 uint64_t step, icl_batch *batch, icl_error *error) {
    icl_host_batch host = {{0}};
    icl_status status = ICL_OK;

    (void)backend;
    ICL_TRY(icl_host_batch_create(batch, &host, error));
    ICL_TRY(icl_associative.draw(task, purpose, seed, step, &host.values, error));
    ICL_TRY(icl_host_batch_write(&host, batch, error));
done:
    icl_host_batch_destroy(&host);
    return status;
}

/* A trainer with its task, which must stay where it is. */
typedef struct fixture {
    record seen, *where;
    icl_task_family family;
    icl_recipe *recipe;
    icl_trainer *trainer;
} fixture;

static void open_fixture(fixture *f, icl_backend *backend, const char *more, bool at_once) {
    static const char *const all[] = {"task.keys=4",    "task.writes=4", "model.family=fast-weights",
                                      "model.layers=1", "model.width=4", "model.feature_map=elu+1",
                                      "train.batch=8",  "train.steps=8", "train.warmup=0"};
    const icl_trainer_parts parts = {.task = &f->family};

    *f = (fixture){.seen = {.caller = pthread_self(), .fails_at = NO_FAILURE}, .where = &f->seen};
    f->family = icl_associative;
    f->family.settings = &f->where;
    f->family.keys = icl_associative_keys;
    f->family.draw = at_once ? NULL : draw_recorded;
    f->family.sample = at_once ? sample_at_once : NULL;
    tap_need(icl_recipe_create_complete(&f->recipe, tap_error()));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tap_need(icl_recipe_override(f->recipe, all[i], tap_error()));
    tap_need(icl_recipe_override(f->recipe, more, tap_error()));
    tap_need(icl_trainer_create_with(backend, &parts, f->recipe, &f->trainer, tap_error()));
}

static void close_fixture(fixture *f) {
    icl_trainer_destroy(&f->trainer); /* waits for the thread, so that the record is whole */
    icl_recipe_destroy(&f->recipe);
}

/* ---- Which batches are drawn, and where ---- */

static void check_numbers(tap_run *tap, icl_backend *backend, const char *more, size_t steps, size_t needed) {
    const bool is_host = icl_backend_capabilities(backend)->kind == ICL_DEVICE_HOST;
    const size_t expected = needed + (!is_host && steps < STEPS);
    fixture f;
    size_t wrong = 0;

    open_fixture(&f, backend, more, false);
    tap_need(icl_trainer_run(f.trainer, steps, tap_error()));
    close_fixture(&f);
    for (size_t i = 0; i < f.seen.count; i++)
        wrong += f.seen.numbers[i] != i || f.seen.is_elsewhere[i] != (!is_host && i > 0);
    tap_ok(tap, f.seen.count == expected && wrong == 0,
           "%s, %zu steps of %d: %zu batches are drawn, expected %zu, %zu not in their turn or by the wrong thread",
           more, steps, STEPS, f.seen.count, expected, wrong);
}

static void check_failure(tap_run *tap, icl_backend *backend) {
    icl_error error = {0};
    fixture f;

    open_fixture(&f, backend, "train.seed=1", false);
    f.seen.fails_at = 3;
    for (int attempt = 1; attempt <= 2; attempt++) {
        const icl_status status = icl_trainer_run(f.trainer, STEPS, &error);
        tap_ok(tap,
               status == ICL_ERROR_INPUT && strcmp(error.message, "batch 3 cannot be drawn") == 0 &&
                   icl_trainer_progress(f.trainer).step == 3,
               "attempt %d: a batch that fails is the failure of its own step: %s", attempt, error.message);
    }
    f.seen.fails_at = NO_FAILURE;
    tap_status(tap, icl_trainer_run(f.trainer, STEPS, &error), &error, "and the training goes on when it can be drawn");
    close_fixture(&f);
}

/* ---- Bits ---- */

static void train(icl_backend *backend, const char *more, bool at_once, float *values) {
    fixture f;

    open_fixture(&f, backend, more, at_once);
    tap_need(icl_trainer_run(f.trainer, 5, tap_error()));
    tap_need(icl_trainer_run(f.trainer, STEPS, tap_error()));
    tap_need(icl_trainer_get_parameters(f.trainer, values, tap_error()));
    close_fixture(&f);
}

static void check_bits(tap_run *tap, icl_backend *backend, const char *more) {
    static float ahead[MAX_PARAMETERS], at_once[MAX_PARAMETERS];

    train(backend, more, false, ahead);
    train(backend, more, true, at_once);
    tap_ok(tap, memcmp(ahead, at_once, sizeof ahead) == 0 && ahead[0] != 0, "%s: the same bits as drawn at once", more);
}

/* A step that goes back, as a restored one may, has its own batch, and not the one that was drawn ahead. */
static void check_return(tap_run *tap, icl_backend *backend) {
    static float expected[MAX_PARAMETERS], seen[MAX_PARAMETERS];
    scratch_folder scratch;
    fixture f;

    scratch_open(&scratch);
    open_fixture(&f, backend, "train.seed=2", false);
    tap_need(icl_trainer_run(f.trainer, 2, tap_error()));
    tap_need(icl_trainer_save(f.trainer, scratch_path(&scratch, "checkpoint"), tap_error()));
    tap_need(icl_trainer_run(f.trainer, 3, tap_error()));
    tap_need(icl_trainer_get_parameters(f.trainer, expected, tap_error()));
    tap_need(icl_trainer_restore(f.trainer, scratch.path, tap_error()));
    tap_need(icl_trainer_run(f.trainer, 3, tap_error()));
    tap_need(icl_trainer_get_parameters(f.trainer, seen, tap_error()));
    tap_ok(tap, memcmp(expected, seen, sizeof seen) == 0, "a restored step draws its own batch");
    close_fixture(&f);
    scratch_close(&scratch);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "cpu");

    if (!backend)
        return tap_done(&tap);
    check_numbers(&tap, backend, "train.refresh=1", 5, 5);
    check_numbers(&tap, backend, "train.refresh=1", STEPS, STEPS);
    check_numbers(&tap, backend, "train.refresh=2", STEPS, STEPS / 2);
    check_numbers(&tap, backend, "train.slices=2", 3, 6);
    check_numbers(&tap, backend, "train.slices=2", STEPS, 2 * STEPS);
    check_failure(&tap, backend);
    check_bits(&tap, backend, "train.refresh=1");
    check_bits(&tap, backend, "train.slices=4");
    check_return(&tap, backend);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
