/* Tests that a training, evaluations included, holds the memory that was announced: the linker's --wrap counts every
 * allocation, those of tensors too. */
#include <malloc.h>
#include <math.h>
#include <stdatomic.h>

#include "iclab/evaluate.h"
#include "iclab/run.h"
#include "iclab/session.h"
#include "tap.h"

#include "../core/scratch.h"

static atomic_size_t held, most;

int __real_posix_memalign(void **memory, size_t alignment, size_t size);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t size);
void __real_free(void *memory);
void __wrap_free(void *memory);

int __wrap_posix_memalign(void **memory, size_t alignment, size_t size) {
    const int failure = __real_posix_memalign(memory, alignment, size);

    if (failure == 0) {
        const size_t now = atomic_fetch_add(&held, malloc_usable_size(*memory)) + malloc_usable_size(*memory);
        size_t before = most;
        while (now > before && !atomic_compare_exchange_weak(&most, &before, now))
            ;
    }
    return failure;
}

size_t __real_icl_machine_memory(void);
size_t __wrap_icl_machine_memory(void);

static size_t machine_memory; /* 0: what the machine has */

size_t __wrap_icl_machine_memory(void) {
    return machine_memory > 0 ? machine_memory : __real_icl_machine_memory();
}

/* Counts what is freed. Memory of malloc, such as texts of cJSON, is subtracted too, but there is little of it. */
void __wrap_free(void *memory) {
    if (memory)
        atomic_fetch_sub(&held, malloc_usable_size(memory));
    __real_free(memory);
}

static icl_status train(icl_backend *backend, const icl_recipe *recipe, const char *folder, double *said,
                        icl_error *error) {
    const icl_session_params params = {.backend = backend, .recipe = recipe, .folder = folder};
    icl_trainer *trainer = NULL;
    icl_evaluation *evaluation = NULL;
    icl_session_memory memory;
    icl_status status;

    ICL_TRY(icl_session_prepare(&params, &trainer, error));
    ICL_TRY(icl_session_measure_memory(trainer, recipe, &memory, error));
    *said = icl_session_memory_of(&memory);
    ICL_TRY(icl_run_create(folder, recipe, error));
    most = held;
    ICL_TRY(icl_session_train(&params, trainer, error));
    ICL_TRY(icl_evaluate(backend, trainer, recipe, &evaluation, error));
done:
    icl_evaluation_destroy(&evaluation);
    icl_trainer_destroy(&trainer);
    return status;
}

static void check(tap_run *tap, const char *folder, const char *const *settings) {
    icl_backend *backend = NULL;
    icl_recipe *recipe = NULL;
    icl_error error = {0};
    double said = 0;
    const size_t before = held;
    icl_status status;

    ICL_TRY(icl_recipe_create_complete(&recipe, &error));
    for (size_t i = 0; settings[i]; i++)
        ICL_TRY(icl_recipe_override(recipe, settings[i], &error));
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &backend, &error));
    ICL_TRY(train(backend, recipe, folder, &said, &error));
done:
    icl_backend_close(&backend);
    icl_recipe_destroy(&recipe);
    tap_status(tap, status, &error, settings[0]);
    const double seen = (double)(most - before);
    tap_ok(tap, said > .8 * seen && said < 1.2 * seen, "%s: %.0f bytes said, %.0f seen", settings[0], said, seen);
}

#define SHORT "train.steps=2", "train.warmup=0", "eval.fit_sequences=1000", "eval.every=1"

static const char *const fused[] = {"task.family=linear-regression",
                                    "task.d=5",
                                    "train.batch=512",
                                    "model.layers=1",
                                    "eval.sequences=20000",
                                    SHORT,
                                    NULL};
static const char *const fitted[] = {"task.d=8",
                                     "task.noise=choice:1,3",
                                     "model.layers=1",
                                     "train.steps=1",
                                     "train.warmup=0",
                                     "eval.fit_sequences=100000",
                                     "eval.sequences=2000",
                                     "train.batch=64",
                                     NULL};
/* Scratch memory of the model's own ops takes more than the batch does. */
static const char *const lengthy[] = {"task.n=20000",
                                      "model.layers=1",
                                      "train.batch=8",
                                      "train.steps=1",
                                      "train.warmup=0",
                                      "eval.sequences=8",
                                      "train.starts=1",
                                      "eval.fit_sequences=8",
                                      "eval.every=0",
                                      "train.polish=off",
                                      NULL};
static const char *const several[] = {
    "train.starts=3",    "task.d=4",      "model.layers=1", "eval.sequences=1000",     "train.polish=off",
    "train.batch=65536", "train.steps=8", "train.warmup=0", "eval.fit_sequences=1000", NULL};
static const char *const polished[] = {
    "train.polish=on", "task.d=4", "model.layers=1", "eval.sequences=1000", "train.batch=64", SHORT, NULL};
static const char *const composed[] = {"model.family=sequence",
                                       "task.d=4",
                                       "model.layers=1",
                                       "model.mixer=softmax",
                                       "model.width=16",
                                       "train.batch=32",
                                       "eval.sequences=4096",
                                       SHORT,
                                       NULL};
static const char *const classes[] = {"task.family=classification",
                                      "model.family=sequence",
                                      "model.layers=1",
                                      "model.mixer=softmax",
                                      "model.width=16",
                                      "train.batch=16",
                                      "eval.sequences=4096",
                                      SHORT,
                                      NULL};
static const char *const systems[] = {"task.family=dynamical-system",
                                      "model.family=sequence",
                                      "model.layers=1",
                                      "model.mixer=linear",
                                      "model.width=16",
                                      "train.batch=16",
                                      "eval.sequences=2000",
                                      SHORT,
                                      NULL};
static const char *const graphs[] = {
    "task.family=graphs", "model.family=graph", "train.batch=16", "eval.sequences=2000", SHORT, NULL};

static icl_status measure(const char *const *settings, icl_session_memory *memory, icl_error *error) {
    icl_backend *backend = NULL;
    icl_trainer *trainer = NULL;
    icl_recipe *recipe = NULL;
    icl_status status;

    ICL_TRY(icl_recipe_create_complete(&recipe, error));
    for (size_t i = 0; settings[i]; i++)
        ICL_TRY(icl_recipe_override(recipe, settings[i], error));
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &backend, error));
    ICL_TRY(icl_trainer_create(backend, recipe, &trainer, error));
    ICL_TRY(icl_session_measure_memory(trainer, recipe, memory, error));
done:
    icl_trainer_destroy(&trainer);
    icl_backend_close(&backend);
    icl_recipe_destroy(&recipe);
    return status;
}

/* Tests a machine that has as many bytes as the training holds, and one that has a byte less. */
static void check_refusal(tap_run *tap) {
    icl_session_memory memory;
    icl_error error = {0};

    tap_status(tap, measure(fused, &memory, &error), &error, "on a machine with room for it");
    machine_memory = (size_t)ceil(icl_session_memory_of(&memory));
    tap_status(tap, measure(fused, &memory, &error), &error, "on one with as much as it holds");
    machine_memory--;
    tap_ok(tap, measure(fused, &memory, &error) == ICL_ERROR_INPUT && strstr(error.message, "fewer eval.sequences"),
           "refused with a byte less: %s", error.message);
    machine_memory = 1 << 17;
    tap_ok(tap, measure(fused, &memory, &error) == ICL_ERROR_MEMORY && strstr(error.message, "more train.slices"),
           "a batch that does not fit by itself: %s", error.message);
    machine_memory = 0;
}

int main(void) {
    static const char *const *const cases[] = {fused,    fitted,  lengthy, several, polished,
                                               composed, classes, systems, graphs};
    tap_run tap = {0};
    scratch_folder scratch = {0};
    char name[16];

    scratch_open(&scratch);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(name, sizeof name, "run%zu", i);
        check(&tap, scratch_path(&scratch, name), cases[i]);
    }
    check_refusal(&tap);
    scratch_remove(scratch.folder);
    return tap_done(&tap);
}
