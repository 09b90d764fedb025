/*
 * Families of a program's own: tasks, models, mixers and reference predictors under names that recipes know.
 *
 * A program registers them, and makes its recipes with the registry: then task.family, model.family, model.mixer and
 * eval.predictors take their names, and their keys are keys of the recipe. All that a recipe leads to takes it from
 * there: sessions and their run folders, evaluations, sweeps, inspections, ranks. The command loads families from a
 * file: iclab --with ./my_family.so train my-recipe.ini
 *
 *     icl_families *families = NULL;
 *     icl_recipe *recipe = NULL;
 *     ICL_TRY(icl_families_create(&families, &error));
 *     ICL_TRY(icl_families_add_task(families, &my_task, &error));
 *     ICL_TRY(icl_recipe_create_with(families, &recipe, &error));
 *     ICL_TRY(icl_recipe_override(recipe, "task.family=my-task", &error));
 *     ... icl_trainer_create, icl_session_prepare, icl_evaluate as with every recipe
 *     icl_recipe_destroy(&recipe);
 *     icl_families_destroy(&families);
 */
#ifndef ICLAB_FAMILIES_H
#define ICLAB_FAMILIES_H

#include "iclab/mixer_family.h"
#include "iclab/model_family.h"
#include "iclab/recipe.h"
#include "iclab/task_family.h"
#include "iclab/version.h"

ICL_C_BEGIN

/* A registry. It must outlive the recipes that are made with it, their clones, and all that is created from these. One
 * thread may add to it while no other uses it; any number may read it. */
typedef struct icl_families icl_families;

/* Creates a registry without any family. */
ICL_API icl_status icl_families_create(icl_families **families, icl_error *error);

/* Frees the registry, and unloads the files that it loaded. */
ICL_API void icl_families_destroy(icl_families **families);

/* Register a family under its own name. It is borrowed, with its keys, and must outlive the registry. ICL_ERROR_INPUT
 * if the name is no word of letters, digits, '-', '_', '+' and '.', or is taken; if a key is of another section than
 * [task] for tasks, [model] for models and mixers, [eval] for predictors; or if a key has the name of one that is known
 * with another type, default or range. A key that is known with the same row is shared, as task.d and task.n may be;
 * limits 0 and 0 and a default that is NULL take those that are known. Another default of a shared key belongs into the
 * `defaults` of the family's group. */
ICL_API icl_status icl_families_add_task(icl_families *families, const icl_task_family *task, icl_error *error);
ICL_API icl_status icl_families_add_model(icl_families *families, const icl_model_family *model, icl_error *error);
ICL_API icl_status icl_families_add_mixer(icl_families *families, const icl_mixer_family *mixer, icl_error *error);
ICL_API icl_status icl_families_add_predictor(icl_families *families, const icl_predictor_family *predictor,
                                              icl_error *error);

/* The values of the words that a registry adds (icl_choice.value) begin here. */
#define ICL_FIRST_BROUGHT 10000

/* Creates a recipe that holds the default of every key, as icl_recipe_create_complete, with the families of the
 * registry and their keys; NULL: none. Families that are added later are not in it. */
ICL_API icl_status icl_recipe_create_with(const icl_families *families, icl_recipe **recipe, icl_error *error);

/* Creates one and reads into it the file that icl_recipe_locate finds: "quickstart", or a path. */
ICL_API icl_status icl_recipe_create_named(const icl_families *families, const char *name, icl_recipe **recipe,
                                           icl_error *error);

/* ---- Families in a file ---- */

/* A file with families describes itself by this, which ICL_PLUGIN fills in. */
typedef struct icl_plugin {
    const char *version; /* of the headers that it was compiled against: "MAJOR.MINOR.PATCH" */
    size_t sizes[4];     /* of the structs that it fills in, which headers between two versions may differ in */
    icl_status (*add)(icl_families *families, icl_error *error); /* registers what the file has */
} icl_plugin;

/* The name of the function that such a file exports: it returns its description, in static storage. */
#define ICL_PLUGIN_FUNCTION "icl_plugin_describe"

/* The members of icl_plugin before `add`, as these headers have them. */
#define ICL_PLUGIN_VERSION                                                                                             \
    ICL_PLUGIN_TEXT(ICL_VERSION_MAJOR) "." ICL_PLUGIN_TEXT(ICL_VERSION_MINOR) "." ICL_PLUGIN_TEXT(ICL_VERSION_PATCH)
#define ICL_PLUGIN_TEXT(number)   ICL_PLUGIN_DIGITS(number)
#define ICL_PLUGIN_DIGITS(number) #number
#define ICL_PLUGIN_SIZES                                                                                               \
    { sizeof(icl_task_family), sizeof(icl_model_family), sizeof(icl_mixer_family), sizeof(icl_predictor_family) }

/* Stands at the end of the source of such a file: ICL_PLUGIN(add), with a function that registers its families.
 *
 *     cc -shared -fPIC my_family.c $(pkg-config --cflags iclab) -o my_family.so
 *
 * It is not linked with the library: its calls go to the library, or the command, that loads it. */
#define ICL_PLUGIN(function)                                                                                           \
    ICL_C_BEGIN                                                                                                        \
    ICL_PLUGIN_API const icl_plugin *icl_plugin_describe(void);                                                        \
    ICL_C_END                                                                                                          \
    const icl_plugin *icl_plugin_describe(void) {                                                                      \
        static const icl_plugin plugin = {ICL_PLUGIN_VERSION, ICL_PLUGIN_SIZES, function};                             \
        return &plugin;                                                                                                \
    }

/* Loads a shared object and registers its families. This runs the file's code, with all rights of the process: load
 * only what you trust. ICL_ERROR_IO if there is no such file, ICL_ERROR_INPUT if it is no shared object, exports no
 * description, was compiled against headers of another version, or brings a name that is taken. The file stays loaded
 * until the registry is destroyed. */
ICL_API icl_status icl_families_load(icl_families *families, const char *path, icl_error *error);

/* Returns the path of a loaded file as it was given, in the order of loading; NULL behind the last. */
ICL_API const char *icl_families_file(const icl_families *families, size_t index);

ICL_C_END

#endif
