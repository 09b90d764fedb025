#include "train/optimizer.h"

#include "core/recipe_keys.h"
#include "iclab/status.h"

static const icl_recipe_key adam_keys[] = {
    {"train", "beta1", ICL_KEY_NUMBER, "0.9", 0, 0.999999, .help = "decay of the first moment"},
    {"train", "beta2", ICL_KEY_NUMBER, "0.99", 0, 0.999999, .help = "decay of the second moment"},
    {"train", "epsilon", ICL_KEY_NUMBER, "1e-8", 1e-30, 1, .help = "added to the root of the second moment"},
    {"train", "weight_decay", ICL_KEY_NUMBER, "0", 0, 1e6,
     .help = "decoupled weight decay, of all but biases and gains"},
};
static const icl_recipe_key sgd_keys[] = {
    {"train", "momentum", ICL_KEY_NUMBER, "0.9", 0, 0.999999, .help = "share of the last step kept"},
};
static const icl_recipe_group adam_group = ICL_RECIPE_GROUP(adam_keys);
static const icl_recipe_group sgd_group = ICL_RECIPE_GROUP(sgd_keys);
static const icl_recipe_group *const adam_groups[] = {&adam_group, NULL};
static const icl_recipe_group *const sgd_groups[] = {&sgd_group, NULL};

static const icl_choice optimizers[] = {
    {"adam", ICL_UPDATE_ADAM, adam_groups}, {"sgd", ICL_UPDATE_SGD, sgd_groups}, {0}};

static const icl_recipe_key keys[] = {
    {"train", "optimizer", ICL_KEY_WORD, "adam", .choices = optimizers, .help = "how a gradient becomes a step"},
    {"train", "clip", ICL_KEY_NUMBER, "1", 0, 1e30, .help = "largest norm of the whole gradient; 0: no limit"},
    {"train", "sequence_clip", ICL_KEY_NUMBER, "0", 0, 1,
     .help = "share of the sequences whose own gradients are cut, all to one norm that is tracked; 0: none"},
};
const icl_recipe_group icl_optimizer_keys = ICL_RECIPE_GROUP(keys);

icl_status icl_optimizer_read(const icl_recipe *recipe, icl_update_params *params, icl_error *error) {
    static const char *const fractions[] = {"beta1", "beta2", "momentum"};

    for (int i = 0; i < 3; i++) {
        const double value = icl_recipe_number(recipe, "train", fractions[i]);
        if (!(value >= 0.0 && value < 1.0))
            return icl_recipe_reject(recipe, "train", fractions[i], error, "a number in [0, 1)");
    }
    *params = (icl_update_params){
        .kind = (icl_update_kind)icl_recipe_choice(recipe, "train", "optimizer"),
        .adam = {.beta1 = icl_recipe_number(recipe, "train", "beta1"),
                 .beta2 = icl_recipe_number(recipe, "train", "beta2"),
                 .epsilon = icl_recipe_number(recipe, "train", "epsilon"),
                 .weight_decay = icl_recipe_number(recipe, "train", "weight_decay")},
        .sgd = {.momentum = icl_recipe_number(recipe, "train", "momentum")},
        .clip = icl_recipe_number(recipe, "train", "clip"),
        .fraction = icl_recipe_number(recipe, "train", "sequence_clip"),
    };
    if (!(params->clip >= 0.0))
        return icl_recipe_reject(recipe, "train", "clip", error, "0 (off) or a positive norm");
    return ICL_OK;
}
