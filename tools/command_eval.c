#include <stdio.h>

#include "command.h"
#include "iclab/model_file.h"
#include "iclab/recipe.h"
#include "iclab/run.h"

typedef struct eval_options {
    const char *folder, *predictions;
    device_options device;
    option_list overrides;
    bool json;
} eval_options;

static icl_status evaluate_run(const eval_options *options, icl_error *error) {
    const char *folder = options->folder;
    icl_status status = ICL_OK;
    icl_recipe *recipe = NULL;
    icl_backend *backend = NULL;
    icl_trainer *trainer = NULL;

    ICL_TRY(icl_recipe_create_complete(&recipe, error));
    ICL_TRY(icl_run_read_recipe(folder, recipe, error));
    ICL_TRY(apply_overrides(recipe, &options->overrides, error));
    ICL_TRY(open_device(&options->device, &backend, error));
    ICL_TRY(icl_trained_load(backend, folder, recipe, &trainer, error));
    ICL_TRY(print_evaluation(backend, trainer, recipe, options->json, error));
    if (options->predictions)
        ICL_TRY(icl_predictions_write(backend, trainer, recipe, options->predictions, error));
    if (!options->device.quiet)
        report_fallbacks(backend);
done:
    icl_trainer_destroy(&trainer);
    icl_backend_close(&backend);
    icl_recipe_destroy(&recipe);
    return status;
}

static int run(int count, char *const *arguments) {
    eval_options options = {0};
    icl_error error = {0};
    icl_status status = read_command_line(&command_eval, count, arguments, &options, &error);

    if (status == ICL_OK)
        status = evaluate_run(&options, &error);
    return status == ICL_OK ? EXIT_DONE : report_failure(status, &error);
}

static const positional positionals[] = {
    {"RUN", "the folder of a training run", true, offsetof(eval_options, folder)},
};

static const option table[] = {
    {"--set", OPTION_LIST, "SECTION.KEY=VALUE",
     "change one key of the run's recipe: another noise, more eval.sequences, other eval.predictors; may be "
     "given again",
     offsetof(eval_options, overrides)},
    DEVICE_OPTION_ROWS(eval_options, device),
    {"--predictions", OPTION_TEXT, "FILE",
     "also write the sequences with the model's predictions, as safetensors: tokens, targets, noise and "
     "predictions, for other programs to compare with",
     offsetof(eval_options, predictions)},
    {"--json", OPTION_FLAG, NULL, "one JSON object per predictor instead of the table", offsetof(eval_options, json)},
    QUIET_OPTION_ROW(eval_options, device),
};

const subcommand command_eval = {
    .name = "eval",
    .about = "the same comparison for a trained model, on fresh sequences",
    .summary = "Evaluates a trained model beside the reference predictors on fresh sequences.",
    .positionals = positionals,
    .positional_count = 1,
    .options = table,
    .option_count = sizeof table / sizeof *table,
    .notes = "Evaluation sequences follow eval.seed, not train.seed. Predictors of linear regression: oracle, bayes, "
             "ols, constrr, adarr, tunedrr (all of these: \"all\"), ridge, gd:K, gd++:K, pgd:K and pgd++:K (K fitted "
             "steps, preconditioned or not). Other tasks have predictors of their own, of which \"all\" takes all.\n\n"
             "JSON fields: predictor, mse, se, adjusted, half_adjusted, half_adjusted_se, half_above_bayes, "
             "adjusted_median, adjusted_trimmed, constants.",
    .run = run,
};
