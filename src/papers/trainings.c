#include "papers/trainings.h"

#include <stdio.h>
#include <string.h>

#include "core/recipe_store.h"
#include "iclab/file.h"
#include "papers/share.h"
#include "papers/study.h"

/* Values of a file come from "FOLDERS/NAME:LINE". */
static void file_of(const icl_recipe *recipe, char *name, size_t size) {
    name[0] = '\0';
    for (size_t i = 0; i < recipe->key_count && name[0] == '\0'; i++) {
        const char *file = icl_path_name(recipe->values[i].origin), *line = strrchr(file, ':');
        if (line)
            snprintf(name, size, "%.*s", (int)(line - file), file);
    }
}

icl_status icl_trainings_note(const icl_trainings *trainings, const char *name, const icl_recipe *recipe,
                              icl_error *error) {
    icl_text settings = {0};
    char file[128];
    icl_status status = ICL_OK;

    file_of(recipe, file, sizeof file);
    ICL_TRY(icl_recipe_print_overrides(recipe, &settings, error));
    ICL_TRY(trainings->hear(trainings->user, name, file, settings.bytes ? settings.bytes : "", error));
done:
    icl_text_release(&settings);
    return status;
}

static icl_status hear_training(void *user, const char *folder, const icl_recipe *recipe, icl_error *error) {
    return icl_trainings_note(user, folder, recipe, error);
}

icl_status icl_trainings_list(const icl_reproduction *reproduction, const icl_reproduce_params *params,
                              icl_trainings *trainings, icl_error *error) {
    icl_training_share share = {.counts = true, .list = trainings};

    if (reproduction->plan)
        return icl_study_list(reproduction, params, &(icl_study_listener){.training = hear_training, .user = trainings},
                              error);
    return icl_reproduce_look(&(icl_reproducing){params, reproduction, .share = &share}, error);
}
