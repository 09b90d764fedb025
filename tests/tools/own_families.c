/* Shared objects with families, as the test of iclab --with builds them: each WHICH is one file. */
#include <iclab/iclab.h>

/* A model of two positions' labels: y = g x with one number g, for tasks of one coordinate or more. */
static icl_status create(const icl_recipe *recipe, icl_model *model, icl_error *error) {
    const size_t shape[] = {(size_t)icl_recipe_count(recipe, "model", "rows"), model->shape.outputs};

    if (model->shape.symbols == 0 || model->shape.scored != model->shape.positions)
        return icl_model_refuse(model, "symbols, and outputs at every position", error);
    if (shape[0] != model->shape.symbols)
        return icl_recipe_reject(recipe, "model", "rows", error, "%zu, the symbols of the task", model->shape.symbols);
    return icl_model_add_parameter(model, 2, shape, error, "table");
}

static void initialize(const icl_model *model, uint32_t seed, float *values) {
    for (size_t i = 0; i < model->size; i++)
        values[i] = icl_model_noise(seed, i);
}

static icl_variable predict(const icl_model *model, icl_tape *tape, const icl_variable *parameters, icl_variable inputs,
                            size_t depth) {
    (void)model;
    (void)depth;
    return icl_tape_look_up(tape, parameters[0], inputs);
}

static const icl_recipe_key rows[] = {{.section = "model",
                                       .name = "rows",
                                       .type = ICL_KEY_COUNT,
                                       .default_value = "3",
                                       .minimum = 2,
                                       .maximum = 64,
                                       .help = "rows of the table, one for each symbol"}};
static const icl_recipe_group group = {.rows = rows, .count = 1};
static const icl_recipe_group *const groups[] = {&group, NULL};
static const icl_model_family table = {
    .name = "table", .keys = groups, .create = create, .initialize = initialize, .predict = predict};

static icl_status add(icl_families *families, icl_error *error) {
#ifdef TAKEN
    static const icl_task_family markov = {.name = "markov"};
    ICL_CHECK(icl_families_add_task(families, &markov, error));
#endif
    return icl_families_add_model(families, &table, error);
}

#if defined OTHER_VERSION || defined OTHER_SIZES
ICL_PLUGIN_API const icl_plugin *icl_plugin_describe(void);
const icl_plugin *icl_plugin_describe(void) {
#ifdef OTHER_VERSION
    static const icl_plugin plugin = {"0.0.7", ICL_PLUGIN_SIZES, add};
#else
    static const icl_plugin plugin = {ICL_PLUGIN_VERSION, {1, 2, 3, 4}, add};
#endif
    return &plugin;
}
#elif defined NO_FUNCTION
ICL_PLUGIN_API icl_status (*const icl_families_of_this_file)(icl_families *, icl_error *) = add;
#else
ICL_PLUGIN(add)
#endif
