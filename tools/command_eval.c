#include <stdio.h>
#include <string.h>

#include "command.h"
#include "iclab/file.h"
#include "iclab/host.h"
#include "iclab/model_file.h"
#include "iclab/recipe.h"
#include "iclab/run.h"
#include "options.h"
#include "report/report.h"
#include "run/evaluation_grid.h"
#include "terminal.h"

/* The table of losses of a grid of tasks. */
#define GRID_CSV "table.csv"

typedef struct eval_options {
    const char *folder, *predictions, *out;
    device_options device;
    option_list overrides, over;
    bool json;
    char *command_line, *recipe_name; /* for the record */
    const icl_families *families;     /* of --with */
} eval_options;

/* Returns the facts that every result of this command has. *seed must outlive them. */
static icl_result_facts facts_of(const eval_options *options, const icl_backend *backend, const uint64_t *seed) {
    return (icl_result_facts){.command = "eval",
                              .command_line = options->command_line,
                              .recipe_name = options->recipe_name,
                              .backend = backend,
                              .seed = seed};
}

/* ---- One task ---- */

/* Prints and keeps the table, and the facts about the whole evaluation. */
static icl_status print_and_keep(const eval_options *options, icl_backend *backend, icl_trainer *trainer,
                                 const icl_recipe *recipe, result_writer *keep, icl_error *error) {
    icl_status status = ICL_OK;
    icl_evaluation *evaluation = NULL;
    icl_polish_result polished;
    icl_json summary = {0};
    char difference[ICL_TEXT_DIFFERENCE];
    bool same;

    ICL_TRY(icl_run_read_polish(options->folder, &polished, error));
    if (!options->json)
        ICL_TRY(print_polish(&polished, error));
    ICL_TRY(icl_run_compare_text(options->folder, trainer, &same, difference, error));
    if (!same)
        fprintf(stderr, "iclab: %s\n", difference);
    ICL_TRY(icl_evaluate(backend, trainer, recipe, &evaluation, error));
    ICL_TRY(print_evaluation(evaluation, keep, error));
    if (options->predictions)
        ICL_TRY(icl_predictions_write(backend, trainer, recipe, options->predictions, error));
    icl_json_text(&summary, "run", options->folder);
    icl_json_count(&summary, "seed", icl_recipe_count(recipe, "eval", "seed"));
    icl_json_count(&summary, "sequences", evaluation->sequences);
    if (evaluation->text[0] != '\0') {
        icl_json_text(&summary, "text", evaluation->text);
        icl_json_flag(&summary, "text_of_run", same);
    }
    icl_polish_add_json(&polished, &summary);
    ICL_TRY(results_write(keep, &summary, error));
    ICL_TRY(check_error_of_model(evaluation, error));
done:
    icl_json_discard(&summary);
    icl_evaluation_destroy(&evaluation);
    return status;
}

static icl_status evaluate_task(const eval_options *options, icl_backend *backend, const icl_recipe *recipe,
                                icl_error *error) {
    const uint64_t seed = icl_recipe_count(recipe, "eval", "seed");
    icl_status status = ICL_OK;
    icl_trainer *trainer = NULL;
    char *folder = NULL;
    result_writer keep = {.is_default = !options->out,
                          .json = options->json,
                          .quiet = options->device.quiet,
                          .facts = facts_of(options, backend, &seed)};

    if (options->out)
        ICL_TRY(icl_duplicate(options->out, &folder, error));
    else
        ICL_TRY(folder_of_overrides(options->folder, "eval", &options->overrides, &folder, error));
    keep.folder = folder;
    ICL_TRY(results_begin(&keep, error));
    ICL_TRY(icl_trained_load(backend, options->folder, recipe, &trainer, error));
    ICL_TRY(print_and_keep(options, backend, trainer, recipe, &keep, error));
done:
    results_end(&keep);
    icl_free(&folder);
    icl_trainer_destroy(&trainer);
    return status;
}

/* ---- Many of them ---- */

/* Sets the folder to RUN/over/n for task.n, unless --out names another. */
static icl_status choose_folder(const eval_options *options, const icl_evaluation_grid *grid, char **folder,
                                icl_error *error) {
    icl_status status = ICL_OK;
    char *above = NULL, *name = NULL;

    if (options->out)
        return icl_duplicate(options->out, folder, error);
    ICL_TRY(icl_evaluation_grid_name(grid, &name, error));
    ICL_TRY(icl_path_join(options->folder, "over", &above, error));
    ICL_TRY(icl_path_join(above, name, folder, error));
done:
    icl_text_free(&above);
    icl_text_free(&name);
    return status;
}

static icl_status write_report(const eval_options *options, const icl_evaluation_grid *grid, const char *folder,
                               const icl_capabilities *device, const icl_recipe *recipe, icl_error *error) {
    bool missing_gnuplot = false;
    const icl_run_facts facts = {.device = device,
                                 .recipe_name = options->recipe_name,
                                 .command_line = options->command_line,
                                 .seed = (uint32_t)icl_recipe_count(recipe, "train", "seed")};
    const icl_grid_report report = {
        .folder = folder, .grid = grid, .facts = &facts, .draw = draw_figure, .user = &missing_gnuplot};

    ICL_CHECK(icl_grid_report_write(&report, error));
    if (!options->device.quiet)
        fprintf(stderr, "iclab: %s/" ICL_RESULT_FILE ", " GRID_CSV " and " ICL_REPORT_FILE "%s\n", folder,
                missing_gnuplot ? ", without pictures: no gnuplot here; gnuplot loss.gp in that folder draws them"
                                : "");
    return ICL_OK;
}

static void show_share(void *user, size_t done, size_t cells) {
    progress_share(user, "evaluating", (double)done / (double)cells);
}

/* Writes the rows, and the tables as CSV beside them, if the folder can be written. */
static icl_status keep_grid(const eval_options *options, const icl_backend *backend, const icl_evaluation_grid *grid,
                            const icl_evaluation_grid_texts *texts, const char *folder, uint64_t seed, bool *is_kept,
                            icl_error *error) {
    result_writer keep = {.folder = folder,
                          .is_default = !options->out,
                          .json = options->json,
                          .quiet = true,
                          .facts = facts_of(options, backend, &seed)};
    icl_json summary = {0};
    icl_status status = ICL_OK;

    keep.facts.csv = GRID_CSV;
    ICL_TRY(results_begin(&keep, error));
    ICL_TRY(results_add_lines(&keep, ICL_RESULT_ROWS, texts->json, error));
    ICL_TRY(results_open_folder(&keep, error));
    *is_kept = keep.folder != NULL;
    if (*is_kept)
        ICL_TRY(write_table(folder, GRID_CSV, texts->csv, error));
    if (*is_kept)
        ICL_TRY(write_table(folder, "positions.csv", texts->positions_csv, error));
    icl_json_text(&summary, "run", options->folder);
    icl_json_count(&summary, "seed", seed);
    icl_json_count(&summary, "cells", icl_evaluation_grid_cells(grid));
    icl_json_count(&summary, "sequences", icl_evaluation_grid_sequences(grid));
    ICL_TRY(results_write(&keep, &summary, error));
done:
    icl_json_discard(&summary);
    results_end(&keep);
    return status;
}

static icl_status evaluate_grid(const eval_options *options, icl_backend *backend, icl_evaluation_grid *grid,
                                const icl_recipe *recipe, icl_error *error) {
    progress_printer progress;
    const icl_evaluation_grid_params params = {
        .backend = backend, .folder = options->folder, .report = show_share, .user = &progress};
    icl_status status = ICL_OK;
    icl_evaluation_grid_texts texts = {0};
    char *folder = NULL;
    bool is_kept;

    ICL_TRY(choose_folder(options, grid, &folder, error));
    progress_start(&progress, options->device.quiet);
    status = icl_evaluation_grid_run(grid, &params, error);
    progress_clear(&progress);
    ICL_TRY(status);
    ICL_TRY(icl_evaluation_grid_write_texts(grid, &texts, error));
    if (!options->json)
        fputs(texts.table, stdout);
    ICL_TRY(
        keep_grid(options, backend, grid, &texts, folder, icl_recipe_count(recipe, "eval", "seed"), &is_kept, error));
    if (is_kept)
        ICL_TRY(write_report(options, grid, folder, icl_backend_capabilities(backend), recipe, error));
done:
    icl_evaluation_grid_free_texts(&texts);
    icl_text_free(&folder);
    return status;
}

/* ---- The command ---- */

static icl_status check_options(const eval_options *options, icl_error *error) {
    if (options->predictions && options->over.count > 0)
        return icl_fail(error, ICL_ERROR_INPUT, "--predictions: expected no --over beside it: it is of one task");
    return ICL_OK;
}

static icl_status evaluate_run(eval_options *options, icl_error *error) {
    icl_status status = ICL_OK;
    icl_recipe *recipe = NULL;
    icl_backend *backend = NULL;
    icl_evaluation_grid *grid = NULL;

    ICL_TRY(check_options(options, error));
    ICL_TRY(icl_recipe_create_with(options->families, &recipe, error));
    ICL_TRY(icl_run_read_recipe(options->folder, recipe, error));
    warn_of_missing_list(options->folder);
    ICL_TRY(icl_run_read_recipe_name(options->folder, &options->recipe_name, error));
    ICL_TRY(apply_overrides(recipe, &options->overrides, error));
    if (options->over.count > 0)
        ICL_TRY(icl_evaluation_grid_create(recipe, options->over.values, options->over.count, &grid, error));
    ICL_TRY(open_device(&options->device, &backend, error));
    ICL_TRY(grid ? evaluate_grid(options, backend, grid, recipe, error)
                 : evaluate_task(options, backend, recipe, error));
    if (!options->device.quiet)
        report_fallbacks(backend);
done:
    icl_evaluation_grid_destroy(&grid);
    icl_backend_close(&backend);
    icl_recipe_destroy(&recipe);
    return status;
}

static int run(const icl_families *families, int count, char *const *arguments) {
    eval_options options = {.families = families};
    icl_error error = {0};
    icl_status status;

    ICL_TRY(read_command_line(&command_eval, count, arguments, &options, &error));
    ICL_TRY(join_command_line(families, "eval", count, arguments, &options.command_line, &error));
    ICL_TRY(evaluate_run(&options, &error));
done:
    icl_text_free(&options.command_line);
    icl_text_free(&options.recipe_name);
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
    {"--over", OPTION_LIST, "SECTION.KEY=VALUES",
     "one table and one picture of losses over one key or two (below): task.n=5:40:5,task.noise=0,0.1,0.5; the second "
     "key may have an --over of its own",
     offsetof(eval_options, over)},
    {"--out", OPTION_TEXT, "DIR",
     "folder of the result (default: RUN/eval and a name made of --set; of --over: RUN/over/ and the keys' names)",
     offsetof(eval_options, out)},
    DEVICE_OPTION_ROWS(eval_options, device),
    {"--predictions", OPTION_TEXT, "FILE",
     "also write the sequences with the model's predictions, as safetensors: tokens, targets, noise and "
     "predictions, for other programs to compare with",
     offsetof(eval_options, predictions)},
    {"--json", OPTION_FLAG, NULL,
     "one JSON object per predictor, and cell, and one about the whole, instead of the table",
     offsetof(eval_options, json)},
    QUIET_OPTION_ROW(eval_options, device),
};

const subcommand command_eval = {
    .name = "eval",
    .about = "the same comparison for a trained model, on fresh sequences, also over a grid of tasks",
    .summary = "Evaluates a trained model beside the reference predictors on fresh sequences, of one task or of many.",
    .positionals = positionals,
    .positional_count = 1,
    .options = table,
    .option_count = sizeof table / sizeof *table,
    .notes =
        "Evaluation sequences follow eval.seed, not train.seed. Predictors of linear regression: oracle, bayes, "
        "ols, constrr, adarr, tunedrr (all of these: \"all\"), ridge, gd:K, gd++:K, pgd:K and pgd++:K (K fitted "
        "steps, preconditioned or not). Other tasks have predictors of their own, of which \"all\" takes all.\n\n"
        "--over takes values as the [grid] of a sweep: 1,2,4; 1..4; FIRST:LAST:STEP (5:40:5, fixed:0:1:0.25); double "
        "quotes around a value that holds a comma. Every cell is what --set with its values gives. Keys are those "
        "of [task] and [eval], and model.loops. The folder holds result.json, table.csv, the pictures with their "
        "data, and report.html; of tasks that score several positions positions.csv, too. A grid is checked "
        "before its first cell and written after its last; it does not resume.\n\n"
        "RUN/eval/result.json keeps the result, and result.csv the table; with --set both stand in a folder below, "
        "RUN/eval/noise-fixed-1, so that they replace nothing but the same evaluation before. JSON fields: (the keys "
        "of --over), predictor, mse (loss, of another loss than the squared error), se, accuracy, minus_model, "
        "minus_model_se, adjusted, adjusted_se, half_adjusted, half_adjusted_se, half_minus_model, "
        "half_minus_model_se, half_above_bayes, half_median, half_trimmed, constants, "
        "positions; each where the task has it, and bits_per_byte and bits_per_byte_se of text; last an object with "
        "run, seed, sequences, polish_..., folder, of text also text (how its end was cut into sequences: "
        "task.evaluation) and text_of_run (whether the run was trained on this file).",
    .takes_families = true,
    .run = run,
};
