#include "train/optimizer.h"

#include "core/status.h"

icl_status icl_optimizer_read(const icl_recipe *recipe, icl_optimizer *optimizer, icl_error *error) {
    static const char *const fractions[] = {"beta1", "beta2", "momentum"};

    for (int i = 0; i < 3; i++) {
        const double value = icl_recipe_number(recipe, "train", fractions[i]);
        if (!(value >= 0.0 && value < 1.0))
            return icl_recipe_reject(recipe, "train", fractions[i], error, "a number in [0, 1)");
    }
    *optimizer = (icl_optimizer){
        .kind = (icl_optimizer_kind)icl_recipe_word(recipe, "train", "optimizer"),
        .beta1 = icl_recipe_number(recipe, "train", "beta1"),
        .beta2 = icl_recipe_number(recipe, "train", "beta2"),
        .epsilon = icl_recipe_number(recipe, "train", "epsilon"),
        .weight_decay = icl_recipe_number(recipe, "train", "weight_decay"),
        .momentum = icl_recipe_number(recipe, "train", "momentum"),
        .clip = icl_recipe_number(recipe, "train", "clip"),
    };
    if (!(optimizer->clip >= 0.0))
        return icl_recipe_reject(recipe, "train", "clip", error, "0 (off) or a positive norm");
    return ICL_OK;
}

icl_status icl_optimizer_step(const icl_optimizer *optimizer, icl_backend *backend, double learning_rate,
                              uint64_t step, icl_tensor parameters, icl_tensor gradient, icl_tensor norm,
                              const icl_tensor states[2], icl_error *error) {
    if (optimizer->clip > 0.0) {
        const icl_status status = icl_clip(backend, gradient, norm, optimizer->clip, error);
        if (status != ICL_OK)
            return status;
    }
    if (optimizer->kind == ICL_OPTIMIZER_SGD) {
        const icl_sgd_params params = {learning_rate, optimizer->momentum};
        return icl_sgd_step(backend, &params, parameters, states[0], gradient, norm, error);
    }
    const icl_adam_params params = {.learning_rate = learning_rate,
                                    .beta1 = optimizer->beta1,
                                    .beta2 = optimizer->beta2,
                                    .epsilon = optimizer->epsilon,
                                    .weight_decay = optimizer->weight_decay,
                                    .step = step};
    return icl_adam_step(backend, &params, parameters, states[0], states[1], gradient, norm, error);
}
