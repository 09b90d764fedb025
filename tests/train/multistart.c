/* train.starts: of several runs the best one continues, whichever it is. What scouts add is tested in basins.c. */
#include "train/multistart.h"
#include "fixture.h"
#include "numeric/statistics.h"
#include "train/objective.h"

enum { STARTS = 3, STEPS = 400, SHARE = 4, SIZE = 27, TESTED = 16384 };

/* Makes a trainer of three layers from random numbers: the results of seeds differ. The form sparse, with SIZE numbers,
 * has no scouts. */
static icl_status make(icl_backend *backend, const char *form, size_t seed, size_t steps, size_t starts,
                       icl_trainer **trainer, icl_error *error) {
    char texts[5][64];
    const char *const overrides[] = {"task.d=3",
                                     "task.n=6",
                                     "task.sampler=gram",
                                     "model.layers=3",
                                     texts[4],
                                     "model.initialization=normal",
                                     "model.init_std=0.3",
                                     "train.batch=256",
                                     texts[0],
                                     texts[1],
                                     texts[2],
                                     texts[3],
                                     NULL};

    snprintf(texts[0], 64, "train.seed=%zu", seed);
    snprintf(texts[1], 64, "train.steps=%zu", steps);
    snprintf(texts[2], 64, "train.warmup=%zu", steps / 4);
    snprintf(texts[3], 64, "train.starts=%zu", starts);
    snprintf(texts[4], 64, "model.parameterization=%s", form);
    return make_trainer(backend, overrides, trainer, error);
}

/* Runs a quarter of the steps of one start, and measures the mean loss, without the largest thousandth, on sequences
 * that the choice of starts does not use. */
static icl_status run_alone(icl_backend *backend, const char *form, size_t seed, size_t number, float values[SIZE],
                            double *loss, icl_error *error) {
    const uint32_t own = icl_start_seed((uint32_t)seed, number);
    icl_trainer *trainer = NULL;
    icl_objective *objective = NULL;
    double at[SIZE] = {0}, each[TESTED];
    icl_status status = ICL_OK;

    ICL_TRY(make(backend, form, own, STEPS / SHARE, 1, &trainer, error));
    ICL_TRY(icl_trainer_run(trainer, STEPS, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, values, error));
    const icl_objective_params of = {.task = icl_trainer_task(trainer),
                                     .model = icl_trainer_model(trainer),
                                     .purpose = ICL_FOR_EVALUATION,
                                     .sequences = TESTED,
                                     .beside = backend};
    ICL_TRY(icl_objective_create(&of, &objective, error));
    ICL_TRY(icl_objective_draw(objective, 7, 0, error));
    for (size_t i = 0; i < icl_model_size(icl_trainer_model(trainer)); i++)
        at[i] = (double)values[i];
    ICL_TRY(icl_objective_losses(objective, at, each, error));
    *loss = icl_trimmed_mean(each, TESTED, .001);
done:
    icl_objective_destroy(&objective);
    icl_trainer_destroy(&trainer);
    return status;
}

static icl_status choose(icl_backend *backend, const char *form, size_t seed, size_t starts, float values[SIZE],
                         uint64_t *start, icl_error *error) {
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(make(backend, form, seed, STEPS, starts, &trainer, error));
    ICL_TRY(icl_trainer_choose_start(trainer, &(icl_starts_watch){0}, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, values, error));
    *start = icl_trainer_progress(trainer).start;
done:
    icl_trainer_destroy(&trainer);
    return status;
}

static void test_choice(tap_run *tap, icl_backend *backend, const char *form, size_t seed, bool *seen) {
    float alone[STARTS][SIZE] = {{0}}, chosen[SIZE] = {0};
    double losses[STARTS] = {0};
    size_t best = 0;
    uint64_t start = 0;
    icl_error error = {0};

    for (size_t i = 0; i < STARTS; i++) {
        if (!tap_status(tap, run_alone(backend, form, seed, i, alone[i], &losses[i], &error), &error,
                        "a run by itself"))
            return;
        if (losses[i] < losses[best])
            best = i;
    }
    if (!tap_status(tap, choose(backend, form, seed, STARTS, chosen, &start, &error), &error, "several starts"))
        return;
    tap_ok(tap, start == best + 1 && memcmp(chosen, alone[best], sizeof chosen) == 0,
           "%s, seed %zu: start %llu of losses %.4f %.4f %.4f goes on, with its bits", form, seed,
           (unsigned long long)start, losses[0], losses[1], losses[2]);
    seen[best] = true;
}

/* Twelve seeds have four starts each: no two are equal, and the first is the training's own seed. */
static void test_seeds(tap_run *tap) {
    enum { SEEDS = 12, OF_EACH = 4, ALL = SEEDS * OF_EACH };
    uint32_t seeds[ALL];
    size_t same = 0, own = 0;

    for (size_t i = 0; i < ALL; i++) {
        seeds[i] = icl_start_seed((uint32_t)(1 + i / OF_EACH), i % OF_EACH);
        own += i % OF_EACH == 0 && seeds[i] == 1 + i / OF_EACH;
        for (size_t k = 0; k < i; k++)
            same += seeds[k] == seeds[i];
    }
    tap_ok(tap, same == 0 && own == SEEDS, "seeds 1 to 12 share no start: %zu pairs are equal", same);
}

/* With scouts the best start is at least as good as the first one alone. */
static void test_scouts(tap_run *tap, icl_backend *backend) {
    float alone[SIZE] = {0}, chosen[SIZE] = {0};
    double loss = 0;
    uint64_t start = 0;
    icl_error error = {0};

    if (!tap_status(tap, run_alone(backend, "gd++", 20, 0, alone, &loss, &error), &error, "a run by itself") ||
        !tap_status(tap, choose(backend, "gd++", 20, STARTS, chosen, &start, &error), &error, "several starts"))
        return;
    tap_ok(tap, (start == 1) == (memcmp(chosen, alone, sizeof chosen) == 0), "start %llu goes on",
           (unsigned long long)start);
}

static void test_stop(tap_run *tap, icl_backend *backend) {
    const volatile sig_atomic_t stop = 1;
    icl_trainer *trainer = NULL;
    icl_error error = {0};
    float before[SIZE] = {0}, after[SIZE] = {0};

    if (!tap_status(tap, make(backend, "gd++", 1, STEPS, 2, &trainer, &error), &error, "a trainer"))
        return;
    (void)icl_trainer_get_parameters(trainer, before, &error);
    const icl_status status = icl_trainer_choose_start(trainer, &(icl_starts_watch){.stop = &stop}, &error);
    (void)icl_trainer_get_parameters(trainer, after, &error);
    tap_ok(tap, status == ICL_ERROR_INTERRUPTED && memcmp(before, after, sizeof before) == 0, "stopped: %s",
           error.message);
    icl_trainer_destroy(&trainer);
}

int main(void) {
    icl_backend *backend = NULL;
    icl_error error = {0};
    tap_run tap = {0};
    bool seen[STARTS] = {false};

    if (tap_status(&tap, icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &backend, &error), &error,
                   "cpu opens")) {
        for (size_t seed = 1; seed <= 3; seed++)
            test_choice(&tap, backend, "sparse", 20 * seed, seen);
        tap_ok(&tap, seen[0] + seen[1] + seen[2] > 1, "it is not always the same number that goes on");
        test_scouts(&tap, backend);
        test_seeds(&tap);
        test_stop(&tap, backend);
    }
    icl_backend_close(&backend);
    return tap_done(&tap);
}
