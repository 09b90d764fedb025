/* Tests a run of a program's own task or model: its folder names them, and says that only the program can resume it. */
#include "../train/own_parts.h"

#include "../core/scratch.h"
#include "iclab/file.h"
#include "iclab/run.h"
#include "iclab/session.h"
#include "recipes.h"

static const icl_recipe_key size_key = {"task", "n", ICL_KEY_COUNT, "20"};
static const icl_recipe_group size_group = {&size_key, 1, NULL};
static const icl_recipe_group *const size_groups[] = {&size_group, NULL};

static icl_recipe *open_recipe(const char *more) {
    icl_recipe *recipe = NULL;

    tap_need(make_recipe("", "train.batch=4 train.steps=3 train.warmup=0 eval.every=0 model.family=softmax", &recipe,
                         tap_error()));
    if (more && icl_recipe_override(recipe, more, NULL) != ICL_OK)
        exit(1);
    return recipe;
}

static icl_status train(icl_backend *backend, const icl_trainer_parts *parts, const char *more, const char *folder,
                        icl_error *error) {
    icl_recipe *recipe = open_recipe(more);
    icl_session_params params = {.backend = backend, .recipe = recipe, .folder = folder};
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_trainer_create_with(backend, parts, recipe, &trainer, error));
    ICL_TRY(icl_run_create(folder, recipe, error));
    ICL_TRY(icl_session_train(&params, trainer, error));
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

/* Returns the lines under [section] in the folder's recipe, without comments; freed with icl_text_free. */
static char *read_section(const char *folder, const char *section) {
    char *path = NULL, *text = NULL, *found = NULL;
    icl_text kept = {0};
    bool is_inside = false;
    size_t size;

    if (icl_path_join(folder, ICL_RUN_RECIPE, &path, NULL) == ICL_OK &&
        icl_file_read(path, 0, &text, &size, NULL) == ICL_OK)
        for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
            if (*line == '[')
                is_inside = strncmp(line + 1, section, strlen(section)) == 0;
            else if (is_inside && *line != ';' && *line != '\n')
                (void)icl_text_append(&kept, line, strcspn(line, "\n") + 1, NULL);
        }
    (void)icl_duplicate(kept.bytes ? kept.bytes : "", &found, NULL);
    icl_text_release(&kept);
    icl_text_free(&text);
    icl_text_free(&path);
    return found;
}

static void expect_section(tap_run *tap, const char *folder, const char *section, const char *expected) {
    char *found = read_section(folder, section);

    tap_ok(tap, found && strcmp(found, expected) == 0, "[%s] in %s", section, icl_path_name(folder));
    if (found && strcmp(found, expected) != 0)
        tap_note("found \"%s\"", found);
    icl_text_free(&found);
}

static void expect_refusal(tap_run *tap, const char *folder, const char *expected) {
    icl_recipe *recipe = open_recipe(NULL);
    icl_error error = {0};

    tap_ok(tap,
           icl_run_read_recipe(folder, recipe, &error) == ICL_ERROR_INPUT && strstr(error.message, expected) &&
               strstr(error.message, "expected that program, which alone can evaluate it or go on with it"),
           "nobody else reads it: %s", error.message);
    icl_recipe_destroy(&recipe);
}

int main(void) {
    icl_task_family sized = causal_task;
    const icl_trainer_parts both = own_parts, task = {.task = &sized, .model = &attention_model};
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, "cpu:threads=1");
    scratch_folder scratch;
    icl_error error = {0};
    char folder[512];

    sized.keys = size_groups;
    scratch_open(&scratch);
    snprintf(folder, sizeof folder, "%s", scratch_path(&scratch, "both"));
    tap_status(&tap, train(backend, &both, NULL, folder, &error), &error, "a run of its own task and model");
    expect_section(&tap, folder, "task", "family = causal-regression\n");
    expect_section(&tap, folder, "model", "family = causal-attention\n");
    expect_refusal(&tap, folder, "own task causal-regression and model causal-attention");
    snprintf(folder, sizeof folder, "%s", scratch_path(&scratch, "read"));
    tap_status(&tap, train(backend, &task, "task.n=7", folder, &error), &error, "a task that reads a key");
    expect_section(&tap, folder, "task", "family = causal-regression\nn = 7\n");
    snprintf(folder, sizeof folder, "%s", scratch_path(&scratch, "refused"));
    tap_ok(&tap,
           train(backend, &both, "task.n=7", folder, &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "task.n = 7: the program's own task causal-regression does not read it: "
                                     "expected 20, its default") &&
               !icl_path_exists(folder),
           "one that does not refuses it: %s", error.message);
    scratch_close(&scratch);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
