/*
 * Training of models with loops: their number at each step, the loss over a window of the last ones, resuming, and
 * refusals.
 *
 * At the first step models with any number of loops have the same parameters and the same batch, so that the loss of a
 * window is the mean of the losses of models with so many loops each. A batch of 80 is differentiated in parts on
 * hosts, one of 8 as a whole.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fixture.h"
#include "train/trainer.h"

enum { MOST_OWN = 8, MOST_NUMBERS = 2048 };

static icl_status make(icl_backend *backend, const char *const *own, icl_trainer **trainer, icl_error *error) {
    static const char *const shared[] = {"task.family=function-classes",
                                         "task.d=2",
                                         "task.n=3",
                                         "task.noise=0",
                                         "model.layers=1",
                                         "model.family=sequence",
                                         "model.width=8",
                                         "model.heads=2",
                                         "train.steps=100",
                                         "train.warmup=0",
                                         "train.batch=8",
                                         "train.growth=0",
                                         "model.norm=layer",
                                         "model.loop_norm=true"};
    enum { SHARED = sizeof shared / sizeof *shared };
    const char *all[SHARED + MOST_OWN + 1] = {NULL};
    size_t count = 0;

    for (size_t i = 0; i < SHARED; i++)
        all[count++] = shared[i];
    for (; *own; own++)
        all[count++] = *own;
    return make_trainer(backend, all, trainer, error);
}

/* ---- Loops by the step ---- */

static void check_schedule(tap_run *tap) {
    static const struct {
        icl_loop_schedule schedule;
        uint64_t step;
        size_t loops;
    } rows[] = {
        {{{12, 5}, 0, 2}, 0, 12},     {{{12, 5}, 10, 2}, 0, 5},           {{{12, 5}, 10, 2}, 9, 5},
        {{{12, 5}, 10, 2}, 10, 7},    {{{12, 5}, 10, 2}, 39, 11},         {{{12, 5}, 10, 2}, 40, 12},
        {{{12, 5}, 10, 2}, 1000, 12}, {{{12, 12}, 10, 2}, 0, 12},         {{{6, 1}, 1, 1}, 3, 4},
        {{{9, 1}, 1, 1024}, 1, 9},    {{{9, 1}, 1, 1024}, 1ull << 60, 9}, {{{9, 1}, 7, 4}, 13, 5},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const icl_loop_window seen = icl_loop_window_at(&rows[i].schedule, rows[i].step);
        tap_ok(tap, seen.loops == rows[i].loops && seen.count == rows[i].schedule.last.count,
               "step %llu: the last %zu of %zu loops, expected %zu", (unsigned long long)rows[i].step, seen.count,
               seen.loops, rows[i].loops);
    }
}

/* ---- The loss of the first step ---- */

static icl_status first_loss(icl_backend *backend, const char *const *own, double *loss, icl_error *error) {
    icl_trainer *trainer = NULL;
    double norm;
    icl_status status = ICL_OK;

    ICL_TRY(make(backend, own, &trainer, error));
    ICL_TRY(icl_trainer_run(trainer, 1, error));
    ICL_TRY(icl_trainer_read_measures(trainer, loss, &norm, error));
done:
    icl_trainer_destroy(&trainer);
    return status;
}

/* Checks that the loss of a window is the mean of those with `first` to `last` loops. keys: those of the window. */
static void check_loss(tap_run *tap, icl_backend *backend, const char *batch, const char *const keys[3], size_t first,
                       size_t last) {
    const char *const own[] = {batch, keys[0], keys[1], keys[2], NULL};
    char loops[32];
    const char *const plain[] = {batch, loops, NULL};
    double seen = (double)NAN, mean = 0, loss = 0, spread = 0;
    icl_error error = {0};
    icl_status status = first_loss(backend, own, &seen, &error);

    for (size_t count = first; count <= last && status == ICL_OK; count++) {
        snprintf(loops, sizeof loops, "model.loops=%zu", count);
        status = first_loss(backend, plain, &loss, &error);
        mean += loss / (double)(last - first + 1);
        spread = fmax(spread, fabs(loss - seen));
    }
    if (status != ICL_OK)
        tap_note("%s", error.message);
    tap_ok(tap, status == ICL_OK && fabs(seen - mean) <= 1e-12 * mean && (first == last || spread > 1e-3),
           "%s, %s, %s, %s: loss %.6g, the mean of %zu to %zu loops, off by up to %.2g, is %.6g", batch, keys[0],
           keys[1], keys[2], seen, first, last, spread, mean);
}

/* ---- A run that is resumed while loops rise ---- */

static icl_status train(icl_backend *backend, size_t pause, float *values, icl_error *error) {
    static const char *const own[] = {"model.loops=5", "train.loop_window=2", "train.loop_curriculum=2",
                                      "train.loop_rise=1", NULL};
    static const char *const path = "loops.safetensors";
    icl_trainer *first = NULL, *trainer = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(make(backend, own, &trainer, error));
    if (pause > 0) {
        ICL_TRY(make(backend, own, &first, error));
        ICL_TRY(icl_trainer_run(first, pause, error));
        ICL_TRY(icl_trainer_save(first, path, error));
        ICL_TRY(icl_trainer_restore(trainer, path, error));
    }
    ICL_TRY(icl_trainer_run(trainer, 6 - pause, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, values, error));
done:
    icl_trainer_destroy(&first);
    icl_trainer_destroy(&trainer);
    (void)remove(path);
    return status;
}

static void check_resuming(tap_run *tap, icl_backend *backend) {
    static float values[2][MOST_NUMBERS];
    icl_error error = {0};
    icl_status status = train(backend, 0, values[0], &error);

    if (status == ICL_OK)
        status = train(backend, 3, values[1], &error);
    tap_ok(tap, status == ICL_OK && memcmp(values[0], values[1], sizeof values[0]) == 0,
           "resumed while loops rise: the same bits %s", error.message);
}

static void check_refusal(tap_run *tap, icl_backend *backend, const char *family, const char *const keys[2],
                          const char *expected) {
    const char *const own[] = {family, keys[0], keys[1], NULL};
    icl_trainer *trainer = NULL;
    icl_error error = {0};
    const icl_status status = make_trainer(backend, own, &trainer, &error);

    tap_ok(tap, status == ICL_ERROR_INPUT && strstr(error.message, expected), "%s", error.message);
    icl_trainer_destroy(&trainer);
}

int main(void) {
    tap_run tap = {0};
    icl_backend *ref = tap_open_device(&tap, "ref:threads=1");

    check_schedule(&tap);
    if (ref) {
        check_loss(&tap, ref, "train.batch=8", (const char *[]){"model.loops=4", "train.loop_window=3", "eval.every=0"},
                   2, 4);
        check_loss(&tap, ref, "train.batch=80",
                   (const char *[]){"model.loops=4", "train.loop_window=3", "eval.every=0"}, 2, 4);
        check_loss(&tap, ref, "train.batch=8", (const char *[]){"model.loops=4", "train.loop_window=1", "eval.every=0"},
                   4, 4);
        check_loss(&tap, ref, "train.batch=8",
                   (const char *[]){"model.loops=6", "train.loop_window=2", "train.loop_curriculum=1"}, 1, 2);
        check_loss(&tap, ref, "train.batch=8", (const char *[]){"model.loops=2", "train.loop_window=5", "eval.every=0"},
                   1, 2);
        check_resuming(&tap, ref);
        check_refusal(&tap, ref, "model.family=sequence", (const char *[]){"model.loops=2", "train.loop_rise=5"},
                      "train.loop_window = 0 does not read it");
        check_refusal(&tap, ref, "model.family=linear", (const char *[]){"model.layers=1", "train.loop_window=1"},
                      "expected 0: this model has no loops");
    }
    icl_backend_close(&ref);
    return tap_done(&tap);
}
