#include <stdio.h>
#include <string.h>

#include "command.h"
#include "iclab/host.h"
#include "iclab/recipe.h"
#include "iclab/run.h"
#include "prediction.h"
#include "progress.h"

#define HEADER_WORDS    "auto|yes|no"
#define SEPARATOR_WORDS "comma|semicolon|tab"
#define INPUTS_WORDS    "auto|standardized|whitened"

typedef struct predict_options {
    const char *folder, *data, *target, *columns, *fresh, *out;
    size_t header, separator, inputs; /* icl_table_header, a word, icl_predict_inputs */
    option_count folds, repeats, context, prompts, seed;
    bool predicts_empty, json;
    device_options device;
} predict_options;

/* ---- Tables ---- */

static char separator_of(const predict_options *options) {
    static const char separators[] = {',', ';', '\t'};
    return separators[options->separator];
}

static icl_status read_data(const predict_options *options, icl_table **table, icl_error *error) {
    icl_table_params params = {
        .source = {.path = options->data, .separator = separator_of(options)},
        .header = (icl_table_header)options->header,
        .target = options->target,
        .missing_targets = options->predicts_empty,
    };
    char **columns = NULL;
    icl_status status = ICL_OK;

    if (options->columns)
        ICL_TRY(icl_csv_split(options->columns, "--columns", &columns, &params.column_count, error));
    params.columns = (const char *const *)columns;
    ICL_TRY(icl_table_read(&params, table, error));
done:
    icl_free(&columns);
    return status;
}

/* The rows to predict: the data's features by name, or by number where it has no names. */
static icl_status read_fresh(const predict_options *options, const icl_table *data, icl_table **table,
                             icl_error *error) {
    const icl_table_params params = {
        .source = {.path = options->fresh, .separator = separator_of(options)},
        .header = (icl_table_header)options->header,
        .columns = (const char *const *)data->names,
        .column_count = data->columns - 1,
    };
    return icl_table_read(&params, table, error);
}

/* ---- The command ---- */

static icl_status check_count(const char *name, const option_count *count, uint64_t least, uint64_t most,
                              icl_error *error) {
    if (count->given && (count->value < least || count->value > most))
        return icl_fail(error, ICL_ERROR_INPUT, "predict: %s %llu: expected %llu to %llu", name,
                        (unsigned long long)count->value, (unsigned long long)least, (unsigned long long)most);
    return ICL_OK;
}

static icl_status check_usage(const predict_options *options, icl_error *error) {
    if (!options->data || !options->target)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "predict: %s is missing: expected --data FILE.csv (- for standard input) and --target "
                        "COLUMN",
                        options->data ? "--target" : "--data");
    if (options->fresh && options->predicts_empty)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "predict: --new and --predict: expected one of them: rows of another file, or those "
                        "whose target is empty");
    if (options->fresh && strcmp(options->fresh, "-") == 0 && strcmp(options->data, "-") == 0)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "predict: --data - and --new -: expected at most one of them from standard input");
    ICL_CHECK(check_count("--folds", &options->folds, 2, ICL_TABLE_MAX_ROWS, error));
    ICL_CHECK(check_count("--repeats", &options->repeats, 1, 10000, error));
    ICL_CHECK(check_count("--context", &options->context, 1, ICL_TABLE_MAX_ROWS, error));
    ICL_CHECK(check_count("--prompts", &options->prompts, 1, 10000, error));
    return check_count("--seed", &options->seed, 0, UINT32_MAX, error);
}

static void report(void *user, double share) {
    progress_share(user, "predicting", share);
}

static icl_status predict_tables(const predict_options *options, const icl_table *table, const icl_table *fresh,
                                 const icl_recipe *recipe, icl_backend *backend, icl_error *error) {
    progress_printer progress;
    const icl_predict_params params = {
        .backend = backend,
        .folder = options->folder,
        .recipe = recipe,
        .table = table,
        .fresh = fresh,
        .folds = (size_t)options->folds.value,
        .repeats = (size_t)options->repeats.value,
        .context = (size_t)options->context.value,
        .prompts = (size_t)options->prompts.value,
        .seed = options->seed.given ? (uint32_t)options->seed.value : 1,
        .inputs = (icl_predict_inputs)options->inputs,
        .report = report,
        .user = &progress,
    };
    icl_predict_outcome *outcome = NULL;
    bool is_undrawn = false;
    icl_status status;

    progress_start(&progress, options->device.quiet);
    status = icl_predict(&params, &outcome, error);
    progress_clear(&progress);
    if (status != ICL_OK)
        return status;
    if (options->predicts_empty && outcome->predicted == 0 && !options->device.quiet)
        fprintf(stderr, "iclab: every row has a target: there is none to predict\n");
    const prediction_print print = {outcome, table, fresh ? fresh->name : NULL, params.seed};
    if (options->out)
        ICL_TRY(write_prediction(&print, options->out, &is_undrawn, error));
    if (is_undrawn && !options->device.quiet)
        fprintf(stderr, "iclab: no gnuplot here: gnuplot predicted.gp in %s draws the picture\n", options->out);
    ICL_TRY(options->json ? print_prediction_json(&print, error) : print_prediction(&print, error));
done:
    icl_predict_outcome_destroy(&outcome);
    return status;
}

static icl_status predict(const predict_options *options, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_backend *backend = NULL;
    icl_table *table = NULL, *fresh = NULL;
    icl_status status;

    ICL_TRY(check_usage(options, error));
    ICL_TRY(icl_recipe_create_complete(&recipe, error));
    ICL_TRY(icl_run_read_recipe(options->folder, recipe, error));
    /* Before a device is opened, which may take a while: a bad table is said at once. */
    ICL_TRY(read_data(options, &table, error));
    if (options->fresh && table->columns > 1)
        ICL_TRY(read_fresh(options, table, &fresh, error));
    ICL_TRY(open_device(&options->device, &backend, error));
    ICL_TRY(predict_tables(options, table, fresh, recipe, backend, error));
    if (!options->device.quiet)
        report_fallbacks(backend);
done:
    icl_table_destroy(&fresh);
    icl_table_destroy(&table);
    icl_backend_close(&backend);
    icl_recipe_destroy(&recipe);
    return status;
}

static int run(int count, char *const *arguments) {
    predict_options options = {0};
    icl_error error = {0};
    icl_status status;

    ICL_TRY(read_command_line(&command_predict, count, arguments, &options, &error));
    status = predict(&options, &error);
done:
    return status == ICL_OK ? EXIT_DONE : report_failure(status, &error);
}

static const positional positionals[] = {
    {"RUN", "the folder of a training run", true, offsetof(predict_options, folder)}};

static const option table[] = {
    {"--data", OPTION_TEXT, "FILE", "a CSV file of numbers (UTF-8), or - for standard input",
     offsetof(predict_options, data)},
    {"--target", OPTION_TEXT, "COLUMN", "what is predicted: a column's name, or its number from 1",
     offsetof(predict_options, target)},
    {"--columns", OPTION_TEXT, "A,B,...",
     "the features, by name or number, quoted where a name has a comma (default: every column but the "
     "target)",
     offsetof(predict_options, columns)},
    {"--header", OPTION_WORD, HEADER_WORDS,
     "whether the first line has names (default auto: yes where none of it is a number)",
     offsetof(predict_options, header)},
    {"--separator", OPTION_WORD, SEPARATOR_WORDS, "between fields (default comma)",
     offsetof(predict_options, separator)},
    {"--predict", OPTION_FLAG, NULL, "predict the rows whose target is empty, from all the others",
     offsetof(predict_options, predicts_empty)},
    {"--new", OPTION_TEXT, "FILE",
     "predict the rows of another file from all rows of the data; it needs the features' columns alone",
     offsetof(predict_options, fresh)},
    {"--folds", OPTION_COUNT, "N", "parts that are held out in turn (default 5)", offsetof(predict_options, folds)},
    {"--repeats", OPTION_COUNT, "N", "times, each in another order (default 10; fewer for more than 1,000 rows)",
     offsetof(predict_options, repeats)},
    {"--context", OPTION_COUNT, "N",
     "most rows that the model is shown at once (default 1024; the number it was trained on for a model "
     "that sums, model.scale = raw)",
     offsetof(predict_options, context)},
    {"--prompts", OPTION_COUNT, "N",
     "random choices of that many rows to average over, where there are more rows (default 16)",
     offsetof(predict_options, prompts)},
    {"--inputs", OPTION_WORD, INPUTS_WORDS,
     "what the model sees of the features (default auto: whitened where it was trained on the identity "
     "covariance)",
     offsetof(predict_options, inputs)},
    {"--seed", OPTION_COUNT, "N", "of folds and prompts (default 1)", offsetof(predict_options, seed)},
    {"--out", OPTION_TEXT, "DIR",
     "write heldout.csv, standardization.csv, predictions.csv and the figure predicted there",
     offsetof(predict_options, out)},
    DEVICE_OPTION_ROWS(predict_options, device),
    {"--json", OPTION_FLAG, NULL, "one JSON object a line instead of the tables", offsetof(predict_options, json)},
    QUIET_OPTION_ROW(predict_options, device),
};

const subcommand command_predict = {
    .name = "predict",
    .about = "a trained model applied to your own table, beside classical regressions",
    .summary = "Applies a trained model in context to your own table, beside classical regressions.",
    .positionals = positionals,
    .positional_count = sizeof positionals / sizeof *positionals,
    .options = table,
    .option_count = sizeof table / sizeof *table,
    .notes = "Every row is predicted from rows outside its fold, and means, deviations, components and penalties "
             "come from these alone. The model sees features as it saw inputs in training: standardized, "
             "whitened, and 0 for those of its inputs that the table lacks; targets are scaled to the deviation "
             "that its labels had. Beside it: the mean, least squares (ols), ridge with the penalty by "
             "leave-one-out, and adarr, ridge with the residual variance as its penalty.\n\n"
             "A cell that is empty, NA or no number is an error with its line and column, in every column used; "
             "so is an empty target without --predict. The recipe predict trains a suitable model in seconds: "
             "iclab train predict --out RUN; for more than 8 features --set task.d=N, and --set task.n=N for a "
             "table of N rows.\n\n"
             "JSON: an object per predictor (predictor, mse, se, rmse, r_squared, minus_model, minus_model_se), "
             "per column (column, number, role, mean, deviation), per predicted row (file, line, and each "
             "predictor), and one about the whole (data, rows, features, dimension, inputs, label_scale, "
             "context, trained_context, prompts, folds, repeats, seed, ridge_penalty, not_finite, predicted).",
    .run = run,
};
