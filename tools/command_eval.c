#include <stdio.h>

#include "command.h"
#include "iclab/lab.h"
#include "lab/predictions.h"
#include "lab/run.h"
#include "lab/trained.h"

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

    ICL_TRY(icl_lab_recipe_create(&recipe, error));
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

int command_eval(int count, char *const *arguments) {
    eval_options options = {0};
    bool wants_help = false;
    const positional positionals[] = {{"RUN", "the folder of a training run", true, &options.folder}};
    const option table[] = {
        {"--set", OPTION_LIST, "SECTION.KEY=VALUE",
         "change one key of the run's recipe: another noise, more eval.sequences,\nother eval.predictors; "
         "may be "
         "given again",
         &options.overrides},
        DEVICE_OPTION_ROWS(options.device),
        {"--predictions", OPTION_TEXT, "FILE",
         "also write the sequences with the model's predictions, as safetensors: tokens, targets,\n"
         "noise and predictions, for other programs to compare with",
         &options.predictions},
        {"--json", OPTION_FLAG, NULL, "one JSON object per predictor instead of the table", &options.json},
        {"--quiet", OPTION_FLAG, NULL, "say nothing on stderr but warnings and errors",
         &options.device.quiet},
    };
    const command_line line = {
        .command = "eval",
        .summary = "Evaluates a trained model beside the reference predictors on fresh sequences.",
        .positionals = positionals,
        .positional_count = 1,
        .options = table,
        .option_count = sizeof table / sizeof *table,
        .notes = "Evaluation sequences follow eval.seed, not train.seed. Predictors: oracle, bayes, ols, "
                 "constrr, adarr, "
                 "tunedrr,\nridge, gd:K, gd++:K, pgd:K and pgd++:K (K fitted steps, preconditioned or not). "
                 "JSON fields: predictor, mse, se, adjusted, "
                 "half_adjusted, "
                 "half_adjusted_se,\nhalf_above_bayes, adjusted_median, adjusted_trimmed, constants.\n"};
    icl_error error = {0};
    icl_status status;

    ICL_TRY(read_command_line(&line, count, arguments, &wants_help, &error));
    if (wants_help)
        print_command_help(&line);
    else
        status = evaluate_run(&options, &error);
done:
    return status == ICL_OK ? EXIT_DONE : report_failure(status, &error);
}
