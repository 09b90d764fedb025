#include "train/optimizer.h"

#include "core/status.h"

icl_status icl_optimizer_read(const icl_recipe *recipe, icl_update_params *params, icl_error *error) {
    static const char *const fractions[] = {"beta1", "beta2", "momentum"};

    for (int i = 0; i < 3; i++) {
        const double value = icl_recipe_number(recipe, "train", fractions[i]);
        if (!(value >= 0.0 && value < 1.0))
            return icl_recipe_reject(recipe, "train", fractions[i], error, "a number in [0, 1)");
    }
    *params = (icl_update_params){
        .kind =
            (icl_update_kind)icl_recipe_word(recipe, "train", "optimizer"), /* the words are in this order */
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
