#include <math.h>
#include <signal.h>
#include <stdio.h>

#include "command.h"
#include "iclab/file.h"
#include "iclab/host.h"
#include "iclab/json.h"
#include "iclab/recipe.h"
#include "iclab/run.h"
#include "probe/inspect.h"
#include "terminal.h"

typedef struct inspect_options {
    const char *run, *out;
    option_count sequences;
    device_options device;
    bool json;
    char *command_line;
    const icl_families *families; /* of --with */
} inspect_options;

typedef struct printer {
    bool missing_gnuplot;
    icl_status status; /* the first failure to take a number */
    result_writer keep;
    progress_printer progress;
} printer;

/* ---- Findings ---- */

static void report(void *user, const icl_inspected *found) {
    printer *p = user;
    icl_json json = {0};

    if (p->status != ICL_OK)
        return;
    if (p->keep.json)
        progress_clear(&p->progress);
    icl_json_count(&json, "layer", found->layer);
    icl_json_text(&json, "what", found->what);
    icl_json_text(&json, "quantity", found->quantity);
    icl_json_number(&json, "value", found->value);
    icl_json_number(&json, "standard_error", found->standard_error > 0 ? found->standard_error : (double)NAN);
    icl_json_text(&json, "note", found->note ? found->note : "");
    p->status = results_add(&p->keep, &json, NULL);
}

static void progress(void *user, const char *doing, double share) {
    printer *p = user;
    progress_share(&p->progress, doing, share);
}

static icl_status draw(void *user, const char *folder, const char *script, icl_error *error) {
    printer *p = user;

    progress_clear(&p->progress);
    return draw_figure(&p->missing_gnuplot, folder, script, error);
}

/* ---- Running ---- */

/* Reads the seed of the sequences on which everything is measured. */
static icl_status read_seed(const char *run, const icl_families *families, uint64_t *seed, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_with(families, &recipe, error));
    ICL_TRY(icl_run_read_recipe(run, recipe, error));
    warn_of_missing_list(run);
    *seed = icl_recipe_count(recipe, "eval", "seed");
done:
    icl_recipe_destroy(&recipe);
    return status;
}

static icl_status name_folder(const inspect_options *options, char **folder, icl_error *error) {
    return options->out ? icl_duplicate(options->out, folder, error)
                        : icl_path_join(options->run, "inspect", folder, error);
}

static void print_summary(const printer *p, const char *summary) {
    printf("%s\n\n%s/inspect.md, result.json and report.html: what stands behind it, in tables and pictures%s\n",
           summary, p->keep.folder,
           p->missing_gnuplot ? " (no gnuplot here: gnuplot NAME.gp in that folder draws NAME.svg)" : "");
}

static icl_status inspect(const inspect_options *options, icl_error *error) {
    printer p = {
        .keep = {.json = options->json,
                 .quiet = true,
                 .facts = {.command = "inspect", .command_line = options->command_line, .csv = "inspect.csv"}}};
    icl_backend *backend = NULL;
    icl_json whole = {0};
    uint64_t seed = 0;
    char *folder = NULL, *summary = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(name_folder(options, &folder, error));
    ICL_TRY(open_device(&options->device, &backend, error));
    ICL_TRY(read_seed(options->run, options->families, &seed, error));
    p.keep.folder = folder;
    p.keep.facts.seed = &seed;
    p.keep.facts.backend = backend;
    ICL_TRY(results_begin(&p.keep, error));
    catch_stop_signals();
    progress_start(&p.progress, options->device.quiet);
    ICL_TRY(icl_inspect(&(icl_inspect_params){.backend = backend,
                                              .run = options->run,
                                              .families = options->families,
                                              .folder = folder,
                                              .sequences = (size_t)options->sequences.value,
                                              .stop = &stop_signal,
                                              .report = report,
                                              .progress = progress,
                                              .draw = draw,
                                              .user = &p},
                        &summary, error));
    ICL_TRY(p.status);
    if (!options->json)
        print_summary(&p, summary);
    icl_json_text(&whole, "run", options->run);
    icl_json_count(&whole, "seed", seed);
    ICL_TRY(results_write(&p.keep, &whole, error));
    if (!options->device.quiet)
        report_fallbacks(backend);
done:
    progress_clear(&p.progress);
    icl_json_discard(&whole);
    results_end(&p.keep);
    icl_free(&summary);
    icl_free(&folder);
    icl_backend_close(&backend);
    return status;
}

/* ---- The command ---- */

static icl_status check_usage(const inspect_options *options, icl_error *error) {
    enum { LEAST = 100, MOST = 10000000 };

    if (!options->sequences.given || (options->sequences.value >= LEAST && options->sequences.value <= MOST))
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT, "inspect: --sequences %llu: expected %d to %d",
                    (unsigned long long)options->sequences.value, LEAST, MOST);
}

static int run(const icl_families *families, int count, char *const *arguments) {
    inspect_options options = {.families = families};
    icl_error error = {0};
    icl_status status;

    ICL_TRY(read_command_line(&command_inspect, count, arguments, &options, &error));
    ICL_TRY(check_usage(&options, &error));
    ICL_TRY(join_command_line(families, "inspect", count, arguments, &options.command_line, &error));
    status = inspect(&options, &error);
done:
    icl_free(&options.command_line);
    if (status == ICL_ERROR_INTERRUPTED) {
        fprintf(stderr, "iclab: %s\n", error.message);
        return 128 + (int)stop_signal;
    }
    return status == ICL_OK ? EXIT_DONE : report_failure(status, &error);
}

static const positional positionals[] = {{"RUN", "the folder of a training run", true, offsetof(inspect_options, run)}};

static const option table[] = {
    {"--out", OPTION_TEXT, "DIR", "where the report and its pictures go (default RUN/inspect)",
     offsetof(inspect_options, out)},
    {"--sequences", OPTION_COUNT, "N",
     "fresh sequences to measure on (default " TEXT_OF(ICL_INSPECT_SEQUENCES) ", fewer for large or sequence models)",
     offsetof(inspect_options, sequences)},
    DEVICE_OPTION_ROWS(inspect_options, device),
    {"--json", OPTION_FLAG, NULL, "one JSON object per number, and one about the whole, instead of the summary",
     offsetof(inspect_options, json)},
    QUIET_OPTION_ROW(inspect_options, device),
};

const subcommand command_inspect = {
    .name = "inspect",
    .about = "what a trained model computes: weights, terms and their cost, states, nearest algorithm",
    .summary = "Says what a trained model computes: its weights, what each term of a layer does and costs, and the "
               "nearest algorithm; of sequence models, what their mixers write, keep and forget.",
    .positionals = positionals,
    .positional_count = sizeof positionals / sizeof *positionals,
    .options = table,
    .option_count = sizeof table / sizeof *table,
    .notes = "DIR holds inspect.md, report.html, result.json and inspect.csv with every number, and the pictures (CSV, "
             "gnuplot script, SVG and PNG). The cost of a term is how much the loss rises without it, "
             "measured on fresh sequences one by one, with a standard error. The constants of classical "
             "algorithms are fitted to the model's own predictions. Of sequence models: attention maps, gates, "
             "strengths of writing, eigenvalues of the transitions, ranks of the states, linearity of the layers, and "
             "losses by position beside every reference predictor of the task. JSON fields: layer (0: the whole "
             "model), what, quantity, value, "
             "standard_error, note.",
    .takes_families = true,
    .run = run,
};
