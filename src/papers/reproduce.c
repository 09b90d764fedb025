/* The frame of reproductions: the functions that run one. */
#include "papers/reproduce.h"

#include <stdarg.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "iclab/file.h"
#include "iclab/host.h"
#include "iclab/random.h"
#include "iclab/recipe.h"
#include "papers/study_list.h"
#include "run/recipe_keys.h"

/* ---- For what runs ---- */

#define TRAINING_SEEDS 0x72700000u /* the stream of their seeds, see random.h */

uint32_t icl_reproduce_seed(const icl_reproducing *run, size_t number) {
    return icl_random_seed(run->params->seed, TRAINING_SEEDS, number);
}

icl_status icl_reproduce_poll(const icl_reproducing *run, icl_error *error) {
    if (run->params->stop && *run->params->stop)
        return icl_fail(error, ICL_ERROR_INTERRUPTED, "%s: stopped", run->reproduction->name);
    return ICL_OK;
}

void icl_reproduce_say(icl_reproducing *run, const char *format, ...) {
    char text[512];
    va_list arguments;

    if (!run->params->say)
        return;
    va_start(arguments, format);
    icl_print_list(text, sizeof text, format, arguments);
    va_end(arguments);
    run->params->say(run->params->user, text);
}

/* ---- Recipes ---- */

icl_status icl_reproduce_recipe(const char *name, icl_recipe **recipe, icl_error *error) {
    icl_status status = ICL_OK;
    icl_recipe *loaded = NULL;
    char *path = NULL;

    ICL_TRY(icl_recipe_create_complete(&loaded, error));
    ICL_TRY(icl_recipe_find_by_name(name, &path, error));
    ICL_TRY(icl_recipe_load(loaded, path, error));
    *recipe = loaded;
    loaded = NULL;
done:
    icl_free(&path);
    icl_recipe_destroy(&loaded);
    return status;
}

icl_status icl_reproduce_override_all(icl_recipe *recipe, const char *list, icl_error *error) {
    while (*list != '\0') {
        const size_t length = strcspn(list, " ");
        if (length > 0)
            ICL_CHECK(icl_recipe_override(recipe, ICL_PHRASE("%.*s", (int)length, list), error));
        list += length;
        list += strspn(list, " ");
    }
    return ICL_OK;
}
