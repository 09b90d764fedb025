/* Fuzzes restoring a checkpoint. A refused one leaves the trainer as it was; an accepted one is saved again to the same
 * state. */
#include "core/allocate.h"
#include "fuzz.h"
#include "iclab/file.h"
#include "iclab/recipe.h"
#include "iclab/train.h"

/* The corpus was saved with this recipe. */
static const char recipe_text[] = "[task]\nd = 2\nn = 3\n[model]\nlayers = 1\nparameterization = diag\n"
                                  "[train]\nbatch = 1\nsteps = 4\nwarmup = 1\n";

static icl_trainer *make_trainer(void) {
    icl_backend *backend = NULL;
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;

    fuzz_promise(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &backend, NULL) == ICL_OK &&
                     icl_recipe_create_complete(&recipe, NULL) == ICL_OK &&
                     icl_recipe_parse(recipe, recipe_text, "checkpoint", NULL) == ICL_OK &&
                     icl_trainer_create(backend, recipe, &trainer, NULL) == ICL_OK,
                 "there is a trainer");
    icl_recipe_destroy(&recipe);
    return trainer;
}

/* Returns the state of a trainer, as the bytes of its checkpoint. */
static char *state_of(icl_trainer *trainer, size_t *size) {
    const char *path = fuzz_no_file();
    char *text = NULL;

    fuzz_promise(icl_trainer_save(trainer, path, NULL) == ICL_OK && icl_file_read(path, 0, &text, size, NULL) == ICL_OK,
                 "a trainer can be saved");
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static icl_trainer *trainer; /* lives until the process ends, as does the last `before` */
    static char *before;
    static size_t size_before;
    icl_error error = {0};
    size_t size_after;
    char *after;

    if (!trainer) {
        trainer = make_trainer();
        before = state_of(trainer, &size_before);
    }
    const icl_status status = icl_trainer_restore(trainer, fuzz_file(data, size), &error);
    after = state_of(trainer, &size_after);
    if (status != ICL_OK) {
        fuzz_check_refusal(status, &error);
        fuzz_promise(size_before == size_after && memcmp(before, after, size_before) == 0,
                     "a checkpoint that is refused leaves the trainer");
    } else {
        icl_free(&before);
        fuzz_promise(icl_trainer_restore(trainer, fuzz_file((const uint8_t *)after, size_after), &error) == ICL_OK,
                     "what is saved can be restored");
        before = state_of(trainer, &size_before);
        fuzz_promise(size_before == size_after && memcmp(before, after, size_before) == 0,
                     "what is restored is what was saved");
    }
    icl_free(&after);
    return 0;
}
