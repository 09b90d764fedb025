#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "iclab/file.h"
#include "iclab/host.h"
#include "iclab/recipe.h"
#include "iclab/run.h"
#include "iclab/run_report.h"
#include "iclab/session.h"
#include "iclab/text.h"
#include "metrics_stream.h"
#include "terminal.h"
#include "workers.h"

/* ---- Followers of a training, by --metrics ---- */

typedef struct followers {
    const char *metrics; /* the value of the option; NULL: not given */
    metrics_stream *stream;
    icl_session_follower follower; /* the session's view of it */
} followers;

static void take_row(void *user, const icl_session_row *row) {
    followers *list = user;

    if (list->stream)
        metrics_stream_row(list->stream, row);
}

static void flush_rows(void *user) {
    followers *list = user;

    if (list->stream)
        metrics_stream_flush(list->stream);
}

/* Opens the stream for --metrics without changing an existing file, before the folder of the run is taken. A resumed
 * training goes on after `step`. */
static icl_status followers_open(followers *list, bool resumes, uint64_t step, icl_error *error) {
    list->follower = (icl_session_follower){.row = take_row, .flush = flush_rows, .user = list};
    return list->metrics ? metrics_stream_open(list->metrics, resumes, step, &stop_signal, &list->stream, error)
                         : ICL_OK;
}

/* Closes the stream, and says on stderr how many rows did not arrive: the training did not fail. */
static void followers_end(followers *list) {
    const uint64_t lost = metrics_stream_close(&list->stream);

    if (lost > 0)
        fprintf(stderr, "iclab: --metrics %s: %" PRIu64 " rows did not arrive; metrics.csv has them\n", list->metrics,
                lost);
}

/* ---- Options ---- */

typedef struct train_options {
    const char *recipe_name, *out, *resume, *init, *metrics;
    option_list overrides;
    option_count steps, seed;
    device_options device;
    bool json;
    const icl_families *families; /* of --with */
} train_options;

typedef struct training {
    const train_options *options;
    icl_ranks ranks; /* train the model together; the first has the files and prints */
    bool is_first, quiet;
    bool names_starts; /* the line about starts is printed */
    icl_recipe *recipe;
    icl_backend *backend;
    icl_trainer *trainer;
    char *folder;
    icl_run_claim *claim; /* of the folder, until the command ends */
    char *recipe_name;    /* the name under which the run began */
    char *command_line;
    progress_printer progress;
    icl_session_memory memory;
    double start, first_step, end; /* on icl_clock_seconds */
} training;

/* ---- The recipe and the folder ---- */

/* Applies --seed and --steps. --steps sets the end and leaves the schedule of the recipe: 1,000 steps and then 1,000
 * more equal 2,000. `held` is the number of steps of the resumed folder, or 0; a run that keeps that number keeps its
 * recipe, so that a reproduction, or whoever else made the folder, still recognises it. */
static icl_status apply_counts(icl_recipe *recipe, const train_options *options, uint64_t held, icl_error *error) {
    uint64_t end;

    if (options->seed.given)
        ICL_CHECK(icl_recipe_set_count(recipe, "train", "seed", options->seed.value, error));
    end = held > 0 ? held : icl_recipe_count(recipe, "train", "steps");
    if (options->steps.given)
        ICL_CHECK(icl_recipe_set_count(recipe, "train", "steps", options->steps.value, error));
    if (icl_recipe_count(recipe, "train", "horizon") == 0 && icl_recipe_count(recipe, "train", "steps") != held)
        ICL_CHECK(icl_recipe_set_count(recipe, "train", "horizon", end, error));
    return ICL_OK;
}

static icl_status read_recipe(training *run, icl_error *error) {
    const train_options *options = run->options;
    icl_status status = ICL_OK;
    uint64_t held = 0;
    char *path = NULL;

    ICL_TRY(icl_recipe_create_with(run->options->families, &run->recipe, error));
    if (options->recipe_name)
        ICL_TRY(icl_recipe_locate(options->recipe_name, &path, error));
    if (options->resume) {
        ICL_TRY(icl_run_read_recipe(options->resume, run->recipe, error));
        warn_of_missing_list(options->resume);
        ICL_TRY(icl_run_read_recipe_name(options->resume, &run->recipe_name, error));
        held = icl_recipe_count(run->recipe, "train", "steps");
        if (path)
            fprintf(stderr, "iclab: resuming with the recipe of %s; %s is not read\n", options->resume, path);
    } else {
        ICL_TRY(icl_recipe_load(run->recipe, path, error));
        ICL_TRY(icl_duplicate(options->recipe_name, &run->recipe_name, error));
    }
    ICL_TRY(apply_overrides(run->recipe, &options->overrides, error));
    if (options->init)
        ICL_TRY(icl_recipe_set_text(run->recipe, "train", "init", options->init, error));
    ICL_TRY(apply_counts(run->recipe, options, held, error));
done:
    icl_free(&path);
    return status;
}

/* Shares rank 0's recipe with all ranks, which need not see its files. */
static icl_status share_recipe(training *run, icl_error *error) {
    icl_status status = ICL_OK;
    char *text = NULL;

    if (run->ranks.count == 1)
        return ICL_OK;
    if (run->is_first)
        status = icl_recipe_write(run->recipe, &text, error);
    ICL_TRY(icl_ranks_agree(&run->ranks, status, error));
    ICL_TRY(icl_ranks_share_text(&run->ranks, &text, error));
    if (!run->is_first)
        status = icl_recipe_create_with(run->options->families, &run->recipe, error);
    if (!run->is_first && status == ICL_OK)
        status = icl_recipe_parse(run->recipe, text, "the recipe of rank 0", error);
    ICL_TRY(icl_ranks_agree(&run->ranks, status, error));
done:
    icl_free(&text);
    return status;
}

/* Writes the recipe's name without folder and suffix. */
static void short_name(const char *recipe_name, char name[128]) {
    const char *start = icl_path_name(recipe_name), *dot = strrchr(start, '.');
    const size_t length = dot && dot > start ? (size_t)(dot - start) : strlen(start);
    snprintf(name, 128, "%.*s", (int)(length < 127 ? length : 127), start);
}

/* Sets the folder to runs/NAME-seedN, or to the first of runs/NAME-seedN-2, -3, … that does not exist. */
static icl_status choose_folder(training *run, icl_error *error) {
    const uint64_t seed = icl_recipe_count(run->recipe, "train", "seed");
    char name[128], folder[256];

    if (run->options->resume)
        return icl_duplicate(run->options->resume, &run->folder, error);
    if (run->options->out)
        return icl_duplicate(run->options->out, &run->folder, error);
    short_name(run->options->recipe_name, name);
    snprintf(folder, sizeof folder, "runs/%s-seed%" PRIu64, name, seed);
    for (unsigned copy = 2; icl_path_exists(folder); copy++)
        snprintf(folder, sizeof folder, "runs/%s-seed%" PRIu64 "-%u", name, seed, copy);
    return icl_duplicate(folder, &run->folder, error);
}

/* ---- The record ---- */

/* Returns the seconds since the first step; never below 0, whatever the clock does. */
static double training_seconds(const training *run) {
    return fmax(0, run->end - run->first_step);
}

static icl_run_facts facts_of(const training *run, const char *state) {
    icl_run_facts facts = icl_run_facts_collect(run->backend, run->recipe, run->trainer);

    facts.recipe_name = run->recipe_name;
    facts.command_line = run->command_line;
    facts.ranks = run->ranks.count;
    facts.step_memory = icl_step_memory_of(&run->memory.step, run->memory.step.slices);
    facts.memory = icl_session_memory_of(&run->memory);
    facts.startup_seconds = run->first_step - run->start;
    facts.training_seconds = training_seconds(run);
    facts.status = state;
    return facts;
}

static icl_status write_facts(const training *run, const char *state, icl_error *error) {
    const icl_run_facts facts = facts_of(run, state);
    return icl_run_write_facts(run->folder, &facts, error);
}

static icl_status write_report(const training *run, const icl_evaluation *evaluation, icl_error *error) {
    const icl_run_facts facts = facts_of(run, "finished");
    bool missing_gnuplot = false;
    const icl_run_report report = {
        .folder = run->folder,
        .recipe = run->recipe,
        .facts = &facts,
        .evaluation = evaluation,
        .trainer = run->trainer,
        .draw = draw_figure,
        .user = &missing_gnuplot,
    };
    const icl_status status = icl_run_report_write(&report, error);

    if (status == ICL_OK && !run->options->device.quiet)
        fprintf(stderr, "iclab: report %s/" ICL_REPORT_FILE "%s\n", run->folder,
                missing_gnuplot ? ", without pictures: no gnuplot here; gnuplot loss.gp in that folder draws them"
                                : "");
    return status;
}

/* ---- Training ---- */

/* Opens the device. Ranks on one machine divide its cores, if these are the device. */
static icl_status open_share_of_device(training *run, icl_error *error) {
    device_options device = run->options->device;
    char spec[ICL_NAME_CAPACITY];

    device.quiet = run->quiet;
    ICL_CHECK(open_device(&device, &run->backend, error));
    const icl_capabilities *whole = icl_backend_capabilities(run->backend);
    if (run->ranks.local_count == 1 || !icl_host_spec_is_divisible(whole->spec))
        return ICL_OK;
    icl_host_spec_take_threads(whole->spec, whole->compute_units / run->ranks.local_count, spec, sizeof spec);
    icl_backend_close(&run->backend);
    device.spec = spec;
    device.quiet = true;
    return open_device(&device, &run->backend, error);
}

static icl_status claim_and_create(training *run, icl_error *error) {
    ICL_CHECK(icl_run_claim_take(run->folder, &run->claim, error));
    return icl_run_create(run->folder, run->recipe, error);
}

/* Refuses a folder that holds a run, or where one begins at this moment, and names the options to use instead. If the
 * command chose the folder itself, it takes the next one. */
static icl_status create_folder(training *run, icl_error *error) {
    icl_error refused = {0};
    icl_status status = claim_and_create(run, &refused);

    while (status == ICL_ERROR_INPUT && !run->options->out) {
        icl_run_claim_release(&run->claim);
        icl_free(&run->folder);
        ICL_CHECK(choose_folder(run, error));
        status = claim_and_create(run, &refused);
    }
    if (status == ICL_ERROR_INPUT)
        return icl_fail(error, status, "%s (--out names another, --resume %s goes on with it)", refused.message,
                        run->folder);
    return status == ICL_OK ? status : icl_fail(error, status, "%s", refused.message);
}

static icl_status open_folder(training *run, icl_error *error) {
    const uint64_t total = icl_recipe_count(run->recipe, "train", "steps");
    char difference[ICL_TEXT_DIFFERENCE];
    bool same = true;

    if (run->options->resume)
        ICL_CHECK(icl_run_compare_text(run->folder, run->trainer, &same, difference, error));
    if (!same)
        return icl_fail(error, ICL_ERROR_INPUT, "--resume: %s", difference);
    if (icl_trainer_progress(run->trainer).step > total)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: already at step %" PRIu64 ": expected at least as many --steps",
                        run->folder, icl_trainer_progress(run->trainer).step);
    if (run->options->resume)
        ICL_CHECK(icl_run_write_recipe(run->folder, run->recipe, error));
    else
        ICL_CHECK(create_folder(run, error));
    run->first_step = run->end = icl_clock_seconds();
    return write_facts(run, "running", error);
}

/* Prints the memory that the training will hold. */
static void say_memory(const training *run) {
    const double mebibyte = 1048576;
    const icl_step_memory *step = &run->memory.step;
    const double bytes = icl_step_memory_of(step, step->slices);
    const size_t more = icl_step_memory_slices(step, bytes / 2);

    if (run->quiet)
        return;
    fprintf(stderr, "iclab: the training holds %.1f MiB; a step holds %.1f of them (batch of %zu in %zu slice%s)",
            icl_session_memory_of(&run->memory) / mebibyte, bytes / mebibyte, step->batch, step->slices,
            step->slices == 1 ? "" : "s");
    if (more > 0)
        fprintf(stderr, "; train.slices = %zu would hold %.1f", more, icl_step_memory_of(step, more) / mebibyte);
    fputc('\n', stderr);
}

/* Measures the memory that the training will hold, before the first step, and fails if the device has too little. */
static icl_status check_memory(training *run, icl_error *error) {
    ICL_CHECK(icl_session_measure_memory(run->trainer, run->recipe, &run->memory, error));
    say_memory(run);
    return ICL_OK;
}

/* Opens the followers of the training and the folder, on the first rank. */
static icl_status open_files(training *run, followers *list, icl_error *error) {
    const uint64_t step = icl_trainer_progress(run->trainer).step;
    const bool resumes = run->options->resume != NULL;

    if (!run->is_first)
        return ICL_OK;
    ICL_CHECK(followers_open(list, resumes, step, error));
    return open_folder(run, error);
}

static icl_status open_run(training *run, const icl_session_params *session, followers *list, icl_error *error) {
    ICL_CHECK(icl_ranks_agree(&run->ranks, icl_session_prepare(session, &run->trainer, error), error));
    ICL_CHECK(icl_ranks_agree(&run->ranks, check_memory(run, error), error));
    return icl_ranks_agree(&run->ranks, open_files(run, list, error), error);
}

/* Records how the run ended. Returns its status. */
static icl_status close_run(const training *run, icl_status ended, icl_error *error) {
    if (!run->is_first)
        return ended;
    if (ended == ICL_OK)
        return write_facts(run, "finished", error);
    if (ended == ICL_ERROR_INTERRUPTED || ended == ICL_ERROR_DIVERGED)
        (void)write_facts(run, ended == ICL_ERROR_INTERRUPTED ? "interrupted" : "diverged", NULL);
    return ended;
}

/* Reports progress. One line, printed not only on terminals, says why the first step takes long. */
static void report_progress(void *user, const icl_session_progress *progress) {
    training *run = user;

    if (progress->starts > 0 && !run->names_starts && !run->quiet)
        fprintf(stderr, "iclab: before step 1, %zu starts of %" PRIu64 " steps each are tried (train.starts)\n",
                progress->starts, progress->total_steps / progress->starts);
    run->names_starts = true;
    progress_report(&run->progress, progress);
}

static icl_status train(training *run, icl_error *error) {
    followers list = {.metrics = run->options->metrics};
    icl_session_params session = {
        .backend = run->backend,
        .recipe = run->recipe,
        .folder = run->folder,
        .resume = run->options->resume != NULL,
        .ranks = &run->ranks,
        .stop = &stop_signal,
        .report = report_progress,
        .user = run,
    };
    icl_status status;

    ICL_TRY(open_run(run, &session, &list, error));
    session.folder = run->folder; /* the next folder, if another run took the first */
    session.follower = run->is_first ? &list.follower : NULL;
    catch_stop_signals();
    if (!run->quiet)
        fprintf(stderr, "iclab: run folder %s, steps %" PRIu64 " to %" PRIu64 "\n", run->folder,
                icl_trainer_progress(run->trainer).step, icl_trainer_progress(run->trainer).total_steps);
    progress_start(&run->progress, run->quiet);
    status = icl_session_train(&session, run->trainer, error);
    run->end = icl_clock_seconds();
    release_stop_signals();
    progress_end(&run->progress);
    status = close_run(run, status, error);
done:
    followers_end(&list);
    return status;
}

/* Prints the mishaps that the losses and the table do not show. */
static void print_mishaps(const icl_trainer *trainer) {
    const icl_train_progress progress = icl_trainer_progress(trainer);

    if (progress.skipped_steps > 0)
        printf("%" PRIu64 " of %" PRIu64 " steps were skipped: their gradients were not finite.\n",
               progress.skipped_steps, progress.step);
    if (progress.dropped_sequences > 0)
        printf("%" PRIu64 " sequences were left out of their steps: their own gradients were not finite.\n",
               progress.dropped_sequences);
    if (progress.skipped_steps > 0 || progress.dropped_sequences > 0)
        printf("\n");
}

/* Says which basins the scouts of train.starts saw. */
static icl_status print_basins(const icl_trainer *trainer, icl_error *error) {
    const icl_basins_seen seen = icl_trainer_basins(trainer);
    char *text = NULL;

    if (seen.scouts == 0)
        return ICL_OK;
    ICL_CHECK(icl_basins_text(&seen, icl_trainer_progress(trainer).start, &text, error));
    printf("%s\n", text);
    icl_text_free(&text);
    return ICL_OK;
}

/* Adds the result of the whole run. */
static void add_summary(const training *run, const icl_evaluation *evaluation, icl_json *json) {
    const icl_train_progress progress = icl_trainer_progress(run->trainer);
    const icl_polish_result polished = icl_trainer_polished(run->trainer);
    const icl_basins_seen basins = icl_trainer_basins(run->trainer);

    icl_json_count(json, "steps", progress.step);
    icl_json_count(json, "seed", icl_recipe_count(run->recipe, "train", "seed"));
    icl_json_count(json, "skipped_steps", progress.skipped_steps);
    icl_json_count(json, "dropped_sequences", progress.dropped_sequences);
    icl_json_number(json, "training_seconds", training_seconds(run));
    icl_json_count(json, "sequences", evaluation->sequences);
    icl_basins_add_json(&basins, json);
    icl_polish_add_json(&polished, json);
}

static icl_status print_heading(const training *run, icl_error *error) {
    const icl_polish_result polished = icl_trainer_polished(run->trainer);
    const icl_capabilities *device = icl_backend_capabilities(run->backend);

    printf("%s: step %" PRIu64 ", seed %" PRIu64 ", trained in %.3g s on %s (%s)\n\n", run->folder,
           icl_trainer_progress(run->trainer).step, icl_recipe_count(run->recipe, "train", "seed"),
           training_seconds(run), device->spec, device->name);
    print_mishaps(run->trainer);
    ICL_CHECK(print_basins(run->trainer, error));
    return print_polish(&polished, error);
}

static icl_status print_result(const training *run, icl_evaluation **evaluation, icl_error *error) {
    const uint64_t seed = icl_recipe_count(run->recipe, "train", "seed");
    result_writer keep = {.folder = run->folder,
                          .json = run->options->json,
                          .quiet = run->quiet,
                          .facts = {.command = "train",
                                    .command_line = run->command_line,
                                    .recipe_name = run->recipe_name,
                                    .backend = run->backend,
                                    .seed = &seed}};
    icl_json summary = {0};
    icl_status status = ICL_OK;

    /* Parameters are rounded, because the table is to describe the model in the file. */
    ICL_TRY(icl_trainer_round_parameters(run->trainer, error));
    if (!run->options->device.quiet)
        fprintf(stderr, "iclab: evaluating on %" PRIu64 " fresh sequences\n",
                icl_recipe_count(run->recipe, "eval", "sequences"));
    if (!run->options->json)
        ICL_TRY(print_heading(run, error));
    ICL_TRY(results_begin(&keep, error));
    ICL_TRY(icl_evaluate(run->backend, run->trainer, run->recipe, evaluation, error));
    ICL_TRY(print_evaluation(*evaluation, &keep, error));
    add_summary(run, *evaluation, &summary);
    ICL_TRY(results_write(&keep, &summary, error));
done:
    icl_json_discard(&summary);
    results_end(&keep);
    return status;
}

static icl_status run_training(training *run, icl_error *error) {
    icl_evaluation *evaluation = NULL;
    icl_status status = ICL_OK;

    if (run->is_first)
        status = read_recipe(run, error);
    if (run->is_first && status == ICL_OK)
        status = choose_folder(run, error);
    if (run->is_first && status == ICL_OK && run->options->resume)
        status = icl_run_claim_take(run->folder, &run->claim, error);
    ICL_TRY(icl_ranks_agree(&run->ranks, status, error));
    ICL_TRY(share_recipe(run, error));
    status = open_share_of_device(run, error);
    ICL_TRY(icl_ranks_agree(&run->ranks, status, error));
    ICL_TRY(train(run, error));
    if (run->is_first)
        ICL_TRY(print_result(run, &evaluation, error));
    if (run->is_first)
        ICL_TRY(write_report(run, evaluation, error));
    if (run->is_first)
        ICL_TRY(check_error_of_model(evaluation, error));
    if (!run->quiet)
        report_fallbacks(run->backend);
done:
    icl_evaluation_destroy(&evaluation);
    return status;
}

/* ---- The command ---- */

static icl_status check_usage(const train_options *options, icl_error *error) {
    if (!options->recipe_name && !options->resume)
        return icl_fail(error, ICL_ERROR_INPUT, "train: RECIPE is missing (iclab train --help)");
    if (options->init && options->resume)
        return icl_fail(error, ICL_ERROR_INPUT, "train: --init %s: expected no --init beside --resume", options->init);
    if (options->out && options->resume && strcmp(options->out, options->resume) != 0)
        return icl_fail(error, ICL_ERROR_INPUT, "train: --out %s: expected no --out beside --resume", options->out);
    return ICL_OK;
}

/* Says that the run was stopped. One that stops while it tries starts has no checkpoint yet. */
static void say_stop(const training *run, const icl_error *error) {
    char *checkpoint = NULL;
    const bool is_kept = run->folder && icl_path_join(run->folder, ICL_RUN_CHECKPOINT, &checkpoint, NULL) == ICL_OK &&
                         icl_path_exists(checkpoint);

    fprintf(stderr, "iclab: %s; %s: iclab", error->message,
            is_kept ? "the checkpoint is written" : "there is no checkpoint yet");
    for (size_t i = 0; icl_families_file(run->options->families, i); i++)
        fprintf(stderr, " --with %s", icl_families_file(run->options->families, i));
    fprintf(stderr, " train --resume %s %s\n", run->folder ? run->folder : "RUN", is_kept ? "goes on" : "begins again");
    icl_text_free(&checkpoint);
}

static int finish(training *run, icl_status status, const icl_error *error) {
    int code = EXIT_DONE;

    if (status == ICL_ERROR_INTERRUPTED) {
        if (run->is_first)
            say_stop(run, error);
        code = 128 + (int)stop_signal;
    } else if (status != ICL_OK) {
        code = run->is_first ? report_failure(status, error) : exit_code_of(status);
    }
    ranks_leave(&run->ranks);
    icl_trainer_destroy(&run->trainer);
    icl_backend_close(&run->backend);
    icl_recipe_destroy(&run->recipe);
    icl_run_claim_release(&run->claim);
    icl_free(&run->folder);
    icl_free(&run->recipe_name);
    icl_free(&run->command_line);
    return code;
}

static int run_train(const icl_families *families, int count, char *const *arguments) {
    train_options options = {.families = families};
    training run = {.options = &options, .ranks = icl_ranks_alone(), .is_first = true, .start = icl_clock_seconds()};
    icl_error error = {0};
    icl_status status;

    outlive_readers();
    ICL_TRY(read_command_line(&command_train, count, arguments, &options, &error));
    ICL_TRY(check_usage(&options, &error));
    ICL_TRY(ranks_join(&run.ranks, &error));
    run.is_first = icl_ranks_is_first(&run.ranks);
    run.quiet = options.device.quiet || !run.is_first;
    ICL_TRY(join_command_line(families, "train", count, arguments, &run.command_line, &error));
    ICL_TRY(run_training(&run, &error));
done:
    return finish(&run, status, &error);
}

static const positional positionals[] = {
    {"RECIPE", "quickstart, versatile, or the path of an INI file", false, offsetof(train_options, recipe_name)},
};

static const option table[] = {
    {"--set", OPTION_LIST, "SECTION.KEY=VALUE", "change one key of the recipe; may be given again",
     offsetof(train_options, overrides)},
    DEVICE_OPTION_ROWS(train_options, device),
    {"--steps", OPTION_COUNT, "N", "train to step N (see below)", offsetof(train_options, steps)},
    {"--seed", OPTION_COUNT, "N", "the same as --set train.seed=N", offsetof(train_options, seed)},
    {"--init", OPTION_TEXT, "FILE", "start from the model.safetensors of another run: --set train.init=FILE",
     offsetof(train_options, init)},
    {"--out", OPTION_TEXT, "DIR", "the run folder; default: runs/RECIPE-seedN, numbered if it exists",
     offsetof(train_options, out)},
    {"--metrics", OPTION_TEXT, "FILE",
     "also write the rows of metrics.csv, as they come, as JSON lines: to a file, a named pipe, - or fd:N",
     offsetof(train_options, metrics)},
    {"--resume", OPTION_TEXT, "DIR", "go on with the run in DIR from its checkpoint, with its recipe",
     offsetof(train_options, resume)},
    {"--json", OPTION_FLAG, NULL,
     "print the result as JSON, one object per predictor, as iclab eval does, and one about the run",
     offsetof(train_options, json)},
    QUIET_OPTION_ROW(train_options, device),
};

const subcommand command_train = {
    .name = "train",
    .about = "train a model in a run folder and compare it with the reference predictors",
    .summary = "Trains a model and compares it with the reference predictors on fresh sequences.",
    .positionals = positionals,
    .positional_count = 1,
    .options = table,
    .option_count = sizeof table / sizeof *table,
    .notes = "A run folder holds recipe.ini (complete), run.json, metrics.csv, model.safetensors and "
             "checkpoint/, and at the end result.json, the table as result.csv, and report.html with its pictures. "
             "Ctrl-C finishes the steps in flight, "
             "writes the checkpoint and says how to resume; the resumed run gives the same bits as one that was "
             "never stopped.\n\n"
             "--steps N trains to step N on the recipe's own schedule; --set train.steps=N also stretches the "
             "schedule.\n\n"
             "--metrics follows a training. A named pipe is waited for until somebody reads it; a reader that goes "
             "away does not end the training, and rows that nobody took are counted at the end. With --resume a file "
             "keeps its rows up to the checkpoint, and a pipe gets those behind it. The Python package writes event "
             "files for TensorBoard: Run.to_tensorboard.\n\n"
             "iclab looks for RECIPE as a file, in the folder $ICLAB_RECIPES, and among the recipes of its build "
             "or installation.\n\n"
             "mpirun -n N iclab train RECIPE trains one model on N ranks, which share the slices of each step's "
             "batch: train.slices has to be N or more. The number of ranks changes no bit; another train.slices "
             "draws other sequences. Rank 0 alone reads and writes files.",
    .takes_recipe_keys = true,
    .takes_families = true,
    .run = run_train,
};
