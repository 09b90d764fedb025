/* The options that the head comments of recipes name: each recipe makes a task and a model, as it is and with every
 * "--set KEY=VALUE" of its comment. Options in a row belong together. Argument: the folder of recipes. */
#include <dirent.h>
#include <stdlib.h>

#include "iclab/file.h"
#include "iclab/iclab.h"
#include "iclab/status.h"
#include "recipes.h"

/* Creates the task and the model of the recipe with these overrides, which are separated by blanks. */
static icl_status try_options(const char *path, const char *overrides, icl_error *error) {
    char folder[1024];
    icl_recipe *recipe = NULL;
    icl_task *task = NULL;
    icl_model *model = NULL;
    char text[1024];
    icl_task_shape shape;
    icl_status status = ICL_OK;

    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    snprintf(text, sizeof text, "%s", overrides);
    ICL_TRY(icl_recipe_create_complete(&recipe, error));
    ICL_TRY(icl_recipe_load(recipe, path, error));
    if (icl_task_read_text_shape(recipe, &shape, NULL) == ICL_OK) /* the folder of the recipes is a text, too */
        ICL_TRY(icl_recipe_set_text(recipe, "task", "file", folder, error));
    for (char *rest = text, *at = strtok_r(text, " ", &rest); at; at = strtok_r(NULL, " ", &rest))
        ICL_TRY(icl_recipe_override(recipe, at, error));
    ICL_TRY(icl_task_create(recipe, &task, error));
    ICL_TRY(icl_model_create(recipe, *icl_task_get_shape(task), &model, error));
done:
    icl_model_destroy(&model);
    icl_task_destroy(&task);
    icl_recipe_destroy(&recipe);
    return status;
}

static void check_options(tap_run *tap, const char *path, const char *overrides) {
    icl_error error = {0};
    const icl_status status = try_options(path, overrides, &error);

    tap_ok(tap, status == ICL_OK, "%s %s%s%s", strrchr(path, '/') + 1, overrides, status == ICL_OK ? "" : ": ",
           error.message);
}

/* Checks the options of a text's first lines, which begin with a semicolon. Changes the text. Returns how many options
 * there are. */
static size_t check_comment(tap_run *tap, const char *path, char *text) {
    char overrides[1024] = "";
    size_t count = 0;

    for (char *line = text; *line == ';'; line = strchr(line, '\n') + 1)
        *line = ' ';
    text[strcspn(text, "[")] = '\0';
    for (char *rest = text, *at = strtok_r(text, " \n(`", &rest); at; at = strtok_r(NULL, " \n(`", &rest)) {
        const bool is_option = strcmp(at, "--set") == 0;
        if (!is_option && *overrides)
            check_options(tap, path, overrides);
        if (!is_option)
            *overrides = '\0';
        if (!is_option || !(at = strtok_r(NULL, " \n(`", &rest)))
            continue;
        for (size_t end = strlen(at); end > 0 && strchr(".,:;)`", at[end - 1]); end--)
            at[end - 1] = '\0';
        snprintf(overrides + strlen(overrides), sizeof overrides - strlen(overrides), "%s ", at);
        count++;
    }
    if (*overrides)
        check_options(tap, path, overrides);
    return count;
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    DIR *folder = argc > 1 ? opendir(argv[1]) : NULL;
    size_t recipes = 0, options = 0;

    for (const struct dirent *file; folder && (file = readdir(folder)) != NULL;) {
        char path[1024], *text = NULL;
        size_t size;
        if (!strstr(file->d_name, ".ini"))
            continue;
        snprintf(path, sizeof path, "%s/%s", argv[1], file->d_name);
        check_options(&tap, path, "");
        tap_need(icl_file_read(path, 0, &text, &size, tap_error()));
        options += check_comment(&tap, path, text);
        recipes++;
        free(text);
    }
    if (folder)
        closedir(folder);
    tap_ok(&tap, recipes > 20 && options > 10, "%zu recipes name %zu options", recipes, options);
    return tap_done(&tap);
}
