/* Tests that every field of a landscape's cell arrives in its recipe, and that cells that differ in one have different
 * names. */
#include <string.h>

#include "iclab/recipe.h"
#include "papers/landscape/landscape.h"
#include "tap.h"

static const icl_landscape_cell usual = {.layers = 3, .steps = 500};

/* The usual cell, and others that differ from it in one field, each with a key of its recipe and the expected value. */
static const struct {
    icl_landscape_cell cell;
    const char *key, *value;
} cells[] = {
    {{.setting = ICL_LANDSCAPE_S1, .layers = 3, .steps = 500}, "inputs", "normal"},
    {{.setting = ICL_LANDSCAPE_S2, .layers = 3, .steps = 500}, "n", "5"},
    {{.setting = ICL_LANDSCAPE_S3, .layers = 3, .steps = 500}, "inputs", "gamma:0.1,10"},
    {{.setting = ICL_LANDSCAPE_SPHERE, .layers = 3, .steps = 500}, "clip", "0.1"},
    {{.optimizer = ICL_LANDSCAPE_SGD, .layers = 3, .steps = 500}, "optimizer", "sgd"},
    {{.layers = 4, .steps = 500}, "layers", "4"},
    {{.layers = 3, .steps = 750}, "steps", "750"},
    {{.layers = 3, .steps = 500, .rate = 0.5}, "learning_rate", "0.5"},
    {{.layers = 3, .steps = 500, .softmax = true}, "scale", "softmax"},
};
enum { CELLS = sizeof cells / sizeof *cells };

static void check_recipe(tap_run *tap, size_t i) {
    icl_recipe *recipe = NULL;
    icl_error error = {0};
    char *text = NULL, line[64];

    snprintf(line, sizeof line, "\n%s = %s\n", cells[i].key, cells[i].value);
    if (tap_status(tap, icl_reproduce_recipe("landscape", &recipe, &error), &error, "the recipe") &&
        tap_status(tap, icl_reproduce_override_all(recipe, icl_landscape_changes(&cells[i].cell).text, &error), &error,
                   cells[i].key) &&
        tap_status(tap, icl_recipe_write(recipe, &text, &error), &error, "as text"))
        tap_ok(tap, strstr(text, line) != NULL, "%s = %s", cells[i].key, cells[i].value);
    icl_text_free(&text);
    icl_recipe_destroy(&recipe);
}

static void check_names(tap_run *tap) {
    icl_landscape_cell own_rate = usual;
    icl_phrase names[CELLS];
    bool distinct = true;

    for (size_t i = 0; i < CELLS; i++) {
        names[i] = icl_landscape_name(&cells[i].cell);
        for (size_t j = 0; j < i; j++)
            distinct = distinct && strcmp(names[i].text, names[j].text) != 0;
    }
    tap_ok(tap, distinct, "every cell has a name of its own");
    own_rate.rate = icl_landscape_settings[usual.setting].rates[usual.optimizer];
    tap_ok(tap, strcmp(names[0].text, icl_landscape_name(&own_rate).text) == 0,
           "the setting's own rate needs no mention (%s)", names[0].text);
}

int main(void) {
    tap_run tap = {0};

    for (size_t i = 0; i < CELLS; i++)
        check_recipe(&tap, i);
    check_names(&tap);
    return tap_done(&tap);
}
