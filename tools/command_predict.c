#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "iclab/file.h"
#include "iclab/host.h"
#include "iclab/recipe.h"
#include "iclab/run.h"
#include "iclab/table_model.h"
#include "options.h"
#include "prediction.h"
#include "regression.h"
#include "task/task.h"
#include "terminal.h"

#define DEFAULT_SEED  1
#define HEADER_WORDS  "auto|yes|no"
#define DECIMAL_WORDS "auto|point|comma"
#define IMPUTE_WORDS  "none|mean|median"
#define INPUTS_WORDS  "auto|standardized|whitened"

typedef struct predict_options {
    const char *folder, *data, *target, *columns, *excluded, *fresh, *out, *separator;
    size_t header, decimal, impute, inputs; /* icl_table_header, icl_decimal, icl_impute, icl_predict_inputs */
    option_count lags, ahead, season, folds, repeats, context, prompts, seed;
    bool predicts_empty, drops_missing, one_hot, json;
    device_options device;
    char *command_line;
} predict_options;

/* ---- Tables ---- */

/* Reads a word or a character; 0 if the separator is to be recognised. */
static icl_status read_separator(const predict_options *options, char *separator, icl_error *error) {
    static const char known[] = {',', ';', '\t', '|'};
    const char *given = options->separator;

    *separator = 0;
    if (!given)
        return ICL_OK;
    for (size_t i = 0; i < sizeof known; i++)
        if (strcmp(icl_separator_word(known[i]), given) == 0)
            *separator = known[i];
    if (*separator == 0 && strlen(given) == 1 && !strchr("\"\n\r", *given) && (unsigned char)*given < 0x80)
        *separator = *given;
    if (*separator == 0)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "predict: --separator %s: expected comma, semicolon, tab, pipe or one character", given);
    return ICL_OK;
}

/* Sets how both tables are read. */
static icl_status table_params(const predict_options *options, icl_table_params *params, icl_error *error) {
    *params = (icl_table_params){
        .decimal = (icl_decimal)options->decimal,
        .header = (icl_table_header)options->header,
        .missing = options->drops_missing ? ICL_MISSING_DROPPED
                   : options->impute > 0  ? ICL_MISSING_KEPT
                                          : ICL_MISSING_REFUSED,
    };
    return read_separator(options, &params->source.separator, error);
}

/* Makes the rows of a series, in place of the table. */
static icl_status lag_table(const predict_options *options, icl_table **table, icl_error *error) {
    const icl_time_series series = {.lags = (size_t)options->lags.value,
                                    .ahead = (size_t)options->ahead.value,
                                    .season = (size_t)options->season.value};
    icl_table *lagged = NULL;

    ICL_CHECK(icl_table_lag(*table, &series, &lagged, error));
    icl_table_destroy(table);
    *table = lagged;
    return ICL_OK;
}

static icl_status read_data(const predict_options *options, icl_table **table, icl_error *error) {
    icl_table_params params;
    char **columns = NULL, **excluded = NULL;
    icl_status status;

    ICL_TRY(table_params(options, &params, error));
    params.source.path = options->data;
    params.target = options->target;
    params.target_alone = options->lags.given;
    params.missing_targets = options->predicts_empty || options->lags.given; /* icl_table_lag refuses them */
    params.one_hot = options->one_hot;
    if (options->columns)
        ICL_TRY(icl_csv_split(options->columns, "--columns", &columns, &params.column_count, error));
    if (options->excluded)
        ICL_TRY(icl_csv_split(options->excluded, "--exclude", &excluded, &params.excluded_count, error));
    params.columns = (const char *const *)columns;
    params.excluded = (const char *const *)excluded;
    ICL_TRY(icl_table_read(&params, table, error));
    if (options->lags.given)
        ICL_TRY(lag_table(options, table, error));
done:
    icl_free(&columns);
    icl_free(&excluded);
    return status;
}

/* Reads the rows to predict: the data's features by name, or by number if the data have no names. */
static icl_status read_fresh(const predict_options *options, const icl_table *data, icl_table **table,
                             icl_error *error) {
    icl_table_params params;

    ICL_CHECK(table_params(options, &params, error));
    params.source.path = options->fresh;
    params.like = data;
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

/* Refuses the options of models of lines: one of tables is shown all rows, standardized. */
static icl_status check_without_line(const predict_options *options, icl_error *error) {
    const char *const given = options->prompts.given ? "--prompts" : options->inputs > 0 ? "--inputs" : NULL;

    if (given)
        return icl_fail(
            error, ICL_ERROR_INPUT,
            "predict: %s without a model of linear regression: expected such a RUN, whose model it concerns", given);
    return ICL_OK;
}

/* Refuses what a series cannot have beside --lags, and what needs them. */
static icl_status check_series(const predict_options *options, icl_error *error) {
    const struct {
        const char *name, *why;
        bool is_given;
    } others[] = {{"--new", "the row that follows the last one is predicted", options->fresh != NULL},
                  {"--predict", "the row that follows the last one is predicted", options->predicts_empty},
                  {"--drop-missing", "rows of a series stand at equal distances", options->drops_missing},
                  {"--repeats", "rows of a series are held out in the order of time, once", options->repeats.given},
                  {"--prompts", "the model is shown the last rows, once", options->prompts.given}};
    const char *const needy = options->ahead.given ? "--ahead" : options->season.given ? "--season" : NULL;

    ICL_CHECK(check_count("--lags", &options->lags, 1, ICL_REGRESSION_MAX_FEATURES, error));
    ICL_CHECK(check_count("--ahead", &options->ahead, 1, ICL_TABLE_MAX_ROWS, error));
    ICL_CHECK(check_count("--season", &options->season, 1, ICL_TABLE_MAX_ROWS, error));
    if (needy && !options->lags.given)
        return icl_fail(error, ICL_ERROR_INPUT, "predict: %s without --lags: expected --lags N, which makes a series",
                        needy);
    for (size_t i = 0; options->lags.given && i < sizeof others / sizeof *others; i++)
        if (others[i].is_given)
            return icl_fail(error, ICL_ERROR_INPUT, "predict: --lags and %s: expected one of them: %s", others[i].name,
                            others[i].why);
    return ICL_OK;
}

static icl_status check_usage(const predict_options *options, icl_error *error) {
    if (!options->folder)
        ICL_CHECK(check_without_line(options, error));
    if (!options->data || !options->target)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "predict: %s is missing: expected --data FILE.csv (- for standard input) and --target "
                        "COLUMN",
                        options->data ? "--target" : "--data");
    if (options->fresh && options->predicts_empty)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "predict: --new and --predict: expected one of them: rows of another file, or those "
                        "whose target is empty");
    if (options->drops_missing && options->impute > 0)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "predict: --drop-missing and --impute: expected one of them: rows with a missing value are "
                        "left out, or it is filled in");
    if (options->fresh && strcmp(options->fresh, "-") == 0 && strcmp(options->data, "-") == 0)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "predict: --data - and --new -: expected at most one of them from standard input");
    ICL_CHECK(check_series(options, error));
    ICL_CHECK(check_count("--folds", &options->folds, 2, ICL_TABLE_MAX_ROWS, error));
    ICL_CHECK(check_count("--repeats", &options->repeats, 1, 10000, error));
    ICL_CHECK(check_count("--context", &options->context, 1, ICL_TABLE_MAX_ROWS, error));
    ICL_CHECK(check_count("--prompts", &options->prompts, 1, 10000, error));
    return check_count("--seed", &options->seed, 0, UINT32_MAX, error);
}

static void report(void *user, double share) {
    progress_share(user, "predicting", share);
}

/* Sets the folder to RUN/predict/DATA-TARGET, unless --out names another. */
static icl_status choose_folder(const predict_options *options, const icl_table *table, char **folder,
                                icl_error *error) {
    const char *file = strcmp(options->data, "-") == 0 ? "stdin" : icl_path_name(options->data);
    const char *dot = strrchr(file, '.');
    icl_text stem = {0}, name = {0};
    char *above = NULL;
    icl_status status = ICL_OK;

    if (options->out)
        return icl_duplicate(options->out, folder, error);
    ICL_TRY(icl_text_append(&stem, file, dot && dot > file ? (size_t)(dot - file) : strlen(file), error));
    ICL_TRY(add_plain_name(&name, stem.bytes, error));
    ICL_TRY(icl_text_print(&name, error, "-"));
    ICL_TRY(add_plain_name(&name, table->names[table->columns - 1], error));
    ICL_TRY(icl_path_join(options->folder, "predict", &above, error));
    ICL_TRY(icl_path_join(above, name.bytes, folder, error));
done:
    icl_text_release(&stem);
    icl_text_release(&name);
    icl_free(&above);
    return status;
}

/* Prints tables for people, or the rows; keeps the result; writes the files for --out. */
static icl_status show(const predict_options *options, const prediction_print *print, const icl_backend *backend,
                       icl_error *error) {
    const uint64_t seed = print->seed;
    bool is_undrawn = false;
    char *folder = NULL;
    icl_status status = ICL_OK;
    result_writer keep = {
        .is_default = !options->out,
        .json = options->json,
        .quiet = options->device.quiet,
        .facts = {.command = "predict", .command_line = options->command_line, .backend = backend, .seed = &seed}};

    ICL_TRY(choose_folder(options, print->table, &folder, error));
    keep.folder = folder;
    if (!options->json)
        ICL_TRY(print_prediction(print, error));
    ICL_TRY(results_begin(&keep, error));
    /* The requested results come first, so that a full disk or a failing gnuplot cannot spoil them. */
    ICL_TRY(keep_prediction_result(print, &keep, error));
    if (options->out)
        ICL_TRY(write_prediction(print, options->out, options->folder, icl_backend_capabilities(backend), &is_undrawn,
                                 error));
    if (is_undrawn && !options->device.quiet)
        fprintf(stderr, "iclab: no gnuplot here: gnuplot predicted.gp in %s draws the picture\n", options->out);
done:
    results_end(&keep);
    icl_free(&folder);
    return status;
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
        .seed = options->seed.given ? (uint32_t)options->seed.value : DEFAULT_SEED,
        .inputs = (icl_predict_inputs)options->inputs,
        .impute = (icl_impute)options->impute,
        .report = report,
        .user = &progress,
    };
    icl_predict_outcome *outcome = NULL;
    icl_status status;

    progress_start(&progress, options->device.quiet);
    status = icl_predict(&params, &outcome, error);
    progress_clear(&progress);
    if (status != ICL_OK)
        return status;
    if (options->predicts_empty && outcome->predicted == 0 && !options->device.quiet)
        fprintf(stderr, "iclab: every row has a target: there is none to predict\n");
    const prediction_print print = {outcome,     table, fresh ? fresh->name : NULL,
                                    params.seed, fresh, options->impute == ICL_IMPUTE_MEAN ? "mean" : "median"};
    status = show(options, &print, backend, error);
    icl_predict_outcome_destroy(&outcome);
    return status;
}

/* ---- Methods that need no training, and a model of tables ---- */

/* Prints tables for people, or the rows; with --out keeps the result and writes the files. */
static icl_status show_regression(const predict_options *options, const regression_print *print,
                                  const icl_backend *backend, icl_error *error) {
    const uint64_t seed = print->seed;
    bool is_undrawn = false;
    icl_status status = ICL_OK;
    result_writer keep = {
        .folder = options->out,
        .json = options->json,
        .quiet = options->device.quiet,
        .facts = {.command = "predict", .command_line = options->command_line, .backend = backend, .seed = &seed}};

    if (!options->json)
        ICL_TRY(print_regression(print, error));
    ICL_TRY(results_begin(&keep, error));
    /* The requested results come first, as with a run. */
    ICL_TRY(keep_regression_result(print, &keep, error));
    if (options->out)
        ICL_TRY(write_regression(print, options->out, &is_undrawn, error));
    if (is_undrawn && !options->device.quiet)
        fprintf(stderr, "iclab: no gnuplot here: gnuplot predicted.gp in %s draws the picture\n", options->out);
    ICL_TRY(finish_output(error));
done:
    results_end(&keep);
    return status;
}

/* Predicts by the methods that need no training and by a model of tables; model NULL: without one. */
static icl_status regress_tables(const predict_options *options, const char *model, const icl_table *table,
                                 const icl_table *fresh, icl_backend *backend, icl_error *error) {
    progress_printer progress;
    const icl_regression_params params = {
        .table = table,
        .fresh = fresh,
        .model = model,
        .backend = backend,
        .folds = (size_t)options->folds.value,
        .repeats = (size_t)options->repeats.value,
        .context = (size_t)options->context.value,
        .seed = options->seed.given ? (uint32_t)options->seed.value : DEFAULT_SEED,
        .impute = (icl_impute)options->impute,
        .report = report,
        .user = &progress,
    };
    icl_regression_outcome *outcome = NULL;
    icl_status status;

    progress_start(&progress, options->device.quiet);
    status = icl_regress(&params, &outcome, error);
    progress_clear(&progress);
    if (status != ICL_OK)
        return status;
    if (options->predicts_empty && outcome->predicted == 0 && !options->device.quiet)
        fprintf(stderr, "iclab: every row has a target: there is none to predict\n");
    const char *const fill = !outcome->fills ? NULL : options->impute == ICL_IMPUTE_MEAN ? "mean" : "median";
    const regression_print print = {outcome, {table, fresh, fill}, params.seed};
    status = show_regression(options, &print, backend, error);
    icl_regression_outcome_destroy(&outcome);
    return status;
}

/* Predicts by the methods that need no training and by the model that ships, on the host unless another device is asked
 * for: a prediction takes less time than a driver's start. */
static icl_status predict_without_run(const predict_options *options, const icl_table *table, const icl_table *fresh,
                                      icl_error *error) {
    const bool is_asked_for = options->device.spec || getenv("ICLAB_DEVICE");
    device_options device = options->device;
    icl_backend *backend = NULL;
    char *model = NULL;
    icl_status status;

    if (!is_asked_for) {
        device.spec = "cpu";
        device.quiet = true;
    }
    ICL_TRY(icl_table_model_locate(&model, error));
    ICL_TRY(open_device(&device, &backend, error));
    ICL_TRY(regress_tables(options, model, table, fresh, backend, error));
    if (!options->device.quiet)
        report_fallbacks(backend);
done:
    icl_backend_close(&backend);
    icl_free(&model);
    return status;
}

/* ---- Either way ---- */

static bool is_of_tables(const icl_recipe *recipe) {
    return icl_task_keys_read(recipe).family == ICL_AT_icl_tables_family;
}

static icl_status predict_by_run(const predict_options *options, const icl_table *table, const icl_table *fresh,
                                 const icl_recipe *recipe, icl_error *error) {
    icl_backend *backend = NULL;
    icl_status status;

    ICL_TRY(open_device(&options->device, &backend, error));
    if (is_of_tables(recipe))
        ICL_TRY(regress_tables(options, options->folder, table, fresh, backend, error));
    else
        ICL_TRY(predict_tables(options, table, fresh, recipe, backend, error));
    if (!options->device.quiet)
        report_fallbacks(backend);
done:
    icl_backend_close(&backend);
    return status;
}

static icl_status predict(const predict_options *options, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_table *table = NULL, *fresh = NULL;
    icl_status status;

    ICL_TRY(check_usage(options, error));
    if (options->folder) {
        ICL_TRY(icl_recipe_create_complete(&recipe, error));
        ICL_TRY(icl_run_read_recipe(options->folder, recipe, error));
        warn_of_missing_list(options->folder);
        if (is_of_tables(recipe))
            ICL_TRY(check_without_line(options, error));
    }
    /* Tables are read before a device is opened, which may take a while, so that a bad table is reported at once. */
    ICL_TRY(read_data(options, &table, error));
    if (options->fresh && table->columns > 1)
        ICL_TRY(read_fresh(options, table, &fresh, error));
    if (options->folder)
        ICL_TRY(predict_by_run(options, table, fresh, recipe, error));
    else
        ICL_TRY(predict_without_run(options, table, fresh, error));
done:
    icl_table_destroy(&fresh);
    icl_table_destroy(&table);
    icl_recipe_destroy(&recipe);
    return status;
}

static int run(const icl_families *families, int count, char *const *arguments) {
    predict_options options = {0};
    icl_error error = {0};
    icl_status status;

    ICL_TRY(read_command_line(&command_predict, count, arguments, &options, &error));
    ICL_TRY(join_command_line(families, "predict", count, arguments, &options.command_line, &error));
    status = predict(&options, &error);
done:
    icl_free(&options.command_line);
    return status == ICL_OK ? EXIT_DONE : report_failure(status, &error);
}

static const positional positionals[] = {
    {"RUN", "the folder of a training run, whose model predicts; without it the model of tables that ships", false,
     offsetof(predict_options, folder)}};

static const option table[] = {
    {"--data", OPTION_TEXT, "FILE", "a table as a CSV file (UTF-8), or - for standard input",
     offsetof(predict_options, data)},
    {"--target", OPTION_TEXT, "COLUMN", "what is predicted: a column's name, or its number from 1",
     offsetof(predict_options, target)},
    {"--columns", OPTION_TEXT, "A,B,...",
     "the features, by name or number, quoted where a name has a comma (default: every column but the "
     "target and those that are no features)",
     offsetof(predict_options, columns)},
    {"--exclude", OPTION_TEXT, "A,B,...", "columns that are no features, likewise",
     offsetof(predict_options, excluded)},
    {"--one-hot", OPTION_FLAG, NULL,
     "make a column of 0 and 1 for each category of a column of text, up to " TEXT_OF(
         ICL_TABLE_MAX_CATEGORIES) ", instead of leaving it out",
     offsetof(predict_options, one_hot)},
    {"--drop-missing", OPTION_FLAG, NULL, "leave rows out in which a value is missing",
     offsetof(predict_options, drops_missing)},
    {"--impute", OPTION_WORD, IMPUTE_WORDS,
     "fill missing features in, by the rows that are learned from alone (default none: they are refused)",
     offsetof(predict_options, impute)},
    {"--header", OPTION_WORD, HEADER_WORDS,
     "whether the first line has names (default auto: yes where none of it is a number)",
     offsetof(predict_options, header)},
    {"--separator", OPTION_TEXT, "SEP",
     "between fields: comma, semicolon, tab, pipe or a character (default: recognised)",
     offsetof(predict_options, separator)},
    {"--decimal", OPTION_WORD, DECIMAL_WORDS,
     "before a number's fraction (default auto: what the numbers show; a point where commas separate fields)",
     offsetof(predict_options, decimal)},
    {"--predict", OPTION_FLAG, NULL, "predict the rows whose target is empty, from all the others",
     offsetof(predict_options, predicts_empty)},
    {"--new", OPTION_TEXT, "FILE",
     "predict the rows of another file from all rows of the data; it needs the features' columns alone",
     offsetof(predict_options, fresh)},
    {"--lags", OPTION_COUNT, "N",
     "the rows are a series, in the order of time: predict each target from the N targets before it, and from the "
     "features that --columns names, as they were then",
     offsetof(predict_options, lags)},
    {"--ahead", OPTION_COUNT, "N", "rows from what a forecast of a series knows to its own row (default 1)",
     offsetof(predict_options, ahead)},
    {"--season", OPTION_COUNT, "N", "rows of a season, whose value before is a feature and a forecast, too",
     offsetof(predict_options, season)},
    {"--folds", OPTION_COUNT, "N",
     "parts that are held out in turn (default " TEXT_OF(ICL_PREDICT_FOLDS) ", of a series 10)",
     offsetof(predict_options, folds)},
    {"--repeats", OPTION_COUNT, "N",
     "times, each in another order (default " TEXT_OF(ICL_PREDICT_REPEATS) "; without RUN " TEXT_OF(
         ICL_REGRESSION_REPEATS) "; fewer for thousands "
                                 "of rows)",
     offsetof(predict_options, repeats)},
    {"--context", OPTION_COUNT, "N",
     "most rows that the model is shown at once (default " TEXT_OF(
         ICL_PREDICT_CONTEXT) "; the number it was trained on for a model that sums, model.scale = raw); without RUN "
                              "that "
                              "neighbours and gaussian_process learn from (default " TEXT_OF(
                                  ICL_REGRESSION_CONTEXT) ")",
     offsetof(predict_options, context)},
    {"--prompts", OPTION_COUNT, "N",
     "random choices of that many rows to average over, where there are more rows (default " TEXT_OF(
         ICL_PREDICT_PROMPTS) ")",
     offsetof(predict_options, prompts)},
    {"--inputs", OPTION_WORD, INPUTS_WORDS,
     "what the model sees of the features (default auto: whitened where it was trained on the identity "
     "covariance)",
     offsetof(predict_options, inputs)},
    {"--seed", OPTION_COUNT, "N", "of folds and prompts (default " TEXT_OF(DEFAULT_SEED) ")",
     offsetof(predict_options, seed)},
    {"--out", OPTION_TEXT, "DIR",
     "folder of the result (default: RUN/predict/DATA-TARGET, and none without RUN); given, it takes heldout.csv, "
     "predictions.csv, figures and report.html, too, and with RUN standardization.csv",
     offsetof(predict_options, out)},
    DEVICE_OPTION_ROWS(predict_options, device),
    {"--json", OPTION_FLAG, NULL, "one JSON object a line instead of the tables", offsetof(predict_options, json)},
    QUIET_OPTION_ROW(predict_options, device),
};

const subcommand command_predict = {
    .name = "predict",
    .about = "your own table predicted, with intervals; or by a trained model in context",
    .summary =
        "Predicts a column of your own table, with intervals, by a model of tables that ships and by methods that need "
        "no training; with RUN by its model in context, beside classical regressions.",
    .positionals = positionals,
    .positional_count = sizeof positionals / sizeof *positionals,
    .options = table,
    .option_count = sizeof table / sizeof *table,
    .notes =
        "Every row is predicted from rows outside its fold, and means, deviations, components and penalties "
        "come from these alone.\n\n"
        "Without RUN: the mean; ridge with the penalty by leave-one-out; neighbours, the mean of the k nearest rows "
        "with k by leave-one-out; and gaussian_process, with one length and noise of the largest likelihood. What "
        "predicts is their mixture, all but the mean, weighted by one over the square of each one's mse on rows held "
        "out; its own error there takes weights from other folds. Predictions have intervals of 50 and 80 %, and "
        "features an importance: what permuting them among held-out rows adds to relative_mse, the mse over "
        "that of the mean. The best is the one of the least mse. Neighbours and the Gaussian process learn from at "
        "most --context rows, drawn at random; "
        "mean and ridge from all. The model of tables that ships is one more method, of at most 20 features, on "
        "--device (default cpu); a RUN of task.family = tables takes its place.\n\n"
        "With a RUN of linear regression: the model sees features as it saw inputs in training: standardized,"
        " whitened, and 0 for those of its inputs that the table lacks; targets are scaled to the deviation "
        "that its labels had. Beside it: the mean, least squares (ols), ridge with the penalty by leave-one-"
        "out, and adarr, ridge with the residual variance as its penalty.\n\n"
        "Separators and decimal commas are recognised. Text, columns that say nothing (one value, or none) "
        "and identifiers are left out, unless --columns names them. What was done is said, line by line. A "
        "value that is missing (empty, NA, N/A, NaN, null, none, ?, -), a text among numbers, or an empty "
        "target without --predict is an error of one line that names the option that helps. So are dates, %, "
        "currencies and thousands that stand apart: iclab.read_table in Python makes numbers of them. With "
        "--impute a missing feature becomes the mean or median of the rows that a prediction is learned from;"
        " rows held out tell it nothing. In DIR, predictions.csv and heldout.csv have the table's own "
        "separator and decimal mark, preparation.csv what was done to the table, omitted.csv the rows left "
        "out.\n\n"
        "With --lags the table is a series. Its features are the target's last values (and those that --columns names, "
        "as they stood --ahead rows before), and its rows are held out in the order of time: in folds + 1 parts, each "
        "but the first forecast from what was known before it; the default is 10 folds. Beside the other predictors "
        "stand last_value, last_season and least squares (ols), an autoregression. Standard errors allow for errors "
        "that are correlated. The row after the last one, or --ahead rows after it, is predicted.\n\n"
        "The recipe predict trains a suitable model in seconds: iclab train predict --out RUN; for more than "
        "8 features --set task.d=N, and --set task.n=N for a table of N rows.\n\n"
        "JSON with a RUN of linear regression: an object per predictor (predictor, mse, se, rmse, r_squared, "
        "minus_model, minus_model_se), "
        "per column (column, number, role, mean, deviation, source, fill), per step "
        "taken with a table (step, "
        "file, number, count, detail), per row left out (omitted, file, has_target), "
        "per predicted row (file, "
        "line, and each predictor), per warning (note), and one about the whole "
        "(data, rows, features, dimension, "
        "inputs, label_scale, "
        "context, trained_context, prompts, folds, repeats, seed, ridge_penalty, "
        "not_finite, predicted, "
        "separator, decimal, rows_omitted, impute, and of a series lags, ahead, season, held_out; folder). Otherwise: "
        "per "
        "predictor (predictor, rows, mse, se, "
        "relative_mse, minus_best, minus_best_se, coverage_50, coverage_80, weight), per "
        "column also importance and "
        "importance_se, per predicted row (file, line, prediction, low_80, low_50, "
        "high_50, high_80, and each "
        "predictor), and one about the whole (data, rows, features, best, answer, context, "
        "folds, repeats, seed, predicted, "
        "separator, decimal, rows_omitted, impute, and of a series lags, ahead, season, held_out; folder). The folder "
        "keeps all of "
        "them in result.json, and the "
        "predictors in result.csv.",
    .run = run,
};
