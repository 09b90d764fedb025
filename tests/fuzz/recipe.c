/* Fuzzes the recipe reader, and the readers of values that a recipe holds as text. What is accepted is written and read
 * back to the same. */
#include "iclab/recipe.h"
#include "core/allocate.h"
#include "fuzz.h"
#include "iclab/task.h"

#define MAX_DIMENSION 16 /* of the tasks created here: larger ones are slow, not different */

static char *write_recipe(const icl_recipe *recipe) {
    char *text = NULL;
    fuzz_promise(icl_recipe_write(recipe, &text, NULL) == ICL_OK, "a recipe can be written");
    return text;
}

static void check_round_trip(const icl_recipe *recipe) {
    icl_recipe *again = NULL;
    char *text = write_recipe(recipe), *second;

    fuzz_promise(icl_recipe_create_complete(&again, NULL) == ICL_OK &&
                     icl_recipe_parse(again, text, "written", NULL) == ICL_OK,
                 "a written recipe can be read");
    second = write_recipe(again);
    fuzz_promise(strcmp(text, second) == 0, "a recipe that is read back is the same");
    icl_free(&second);
    icl_free(&text);
    icl_recipe_destroy(&again);
}

static void make_task(const icl_recipe *recipe) {
    icl_task *task = NULL;
    icl_error error = {0};

    if (icl_recipe_count(recipe, "task", "d") > MAX_DIMENSION)
        return;
    const icl_status status = icl_task_create(recipe, &task, &error);
    if (status != ICL_OK)
        fuzz_check_refusal(status, &error);
    icl_task_destroy(&task);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    icl_recipe *recipe = NULL;
    char *text = malloc(size + 1), *before, *after;
    icl_error error = {0};

    fuzz_promise(text && icl_recipe_create_complete(&recipe, NULL) == ICL_OK, "there is memory");
    memcpy(text, data, size);
    text[size] = '\0';
    before = write_recipe(recipe);
    const icl_status status = icl_recipe_parse(recipe, text, "input", &error);
    if (status != ICL_OK) {
        fuzz_check_refusal(status, &error);
        after = write_recipe(recipe);
        fuzz_promise(strcmp(before, after) == 0, "a recipe that is refused leaves the old one");
        icl_free(&after);
    } else {
        check_round_trip(recipe);
        make_task(recipe);
    }
    text[strcspn(text, "\n")] = '\0';
    if (icl_recipe_override(recipe, text, &error) == ICL_OK)
        check_round_trip(recipe);
    icl_free(&before);
    free(text);
    icl_recipe_destroy(&recipe);
    return 0;
}
