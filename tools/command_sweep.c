#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "iclab/file.h"
#include "iclab/host.h"
#include "report/report.h"
#include "run/sweep/sweep.h"
#include "terminal.h"
#include "workers.h"

/* The table of cells; the means over seeds are in means.csv. */
#define CELLS_CSV "table.csv"

typedef struct sweep_options {
    const char *file, *out;
    option_count workers;
    device_options device;
    bool json;
    const icl_families *families; /* of --with */
} sweep_options;

typedef struct sweeping {
    const sweep_options *options;
    icl_ranks ranks;
    icl_sweep *sweep;
    char *folder;
    char *command_line;
    size_t finished; /* finished cells when the command began */
    worker_plan workers;
    bool diverged;   /* some cell diverged */
    bool only_looks; /* the sweep is finished and its folder cannot be written */
} sweeping;

/* ---- The sweep and its folder ---- */

/* Sets the folder to sweeps/NAME for NAME.ini. */
static icl_status choose_folder(sweeping *run, icl_error *error) {
    const char *name = icl_path_name(run->options->file), *dot = strrchr(name, '.');
    const size_t length = dot && dot > name ? (size_t)(dot - name) : strlen(name);
    char folder[512];

    if (run->options->out)
        return icl_duplicate(run->options->out, &run->folder, error);
    snprintf(folder, sizeof folder, "sweeps/%.*s", (int)(length < 256 ? length : 256), name);
    return icl_duplicate(folder, &run->folder, error);
}

/* Copies the sweep's file into the folder, beside its results. */
static icl_status keep_file(const sweeping *run, icl_error *error) {
    icl_status status = ICL_OK;
    char *text = NULL;
    size_t size;

    ICL_TRY(icl_folder_create(run->folder, error));
    ICL_TRY(icl_file_read(run->options->file, 0, &text, &size, error));
    ICL_TRY(icl_file_write_in(run->folder, "sweep.ini", text, size, error));
done:
    icl_free(&text);
    return status;
}

/* Checks that this rank sees the folder, because ranks work together through its files. */
static icl_status check_folder(const sweeping *run, icl_error *error) {
    icl_status status = ICL_OK;
    char *path = NULL;

    ICL_TRY(icl_path_join(run->folder, "sweep.ini", &path, error));
    if (!icl_path_exists(path))
        status = icl_fail(error, ICL_ERROR_INPUT,
                          "%s: rank %zu does not see what rank 0 wrote there: expected --out on a file system "
                          "that all ranks share",
                          run->folder, run->ranks.index);
done:
    icl_free(&path);
    return status;
}

static icl_status open_sweep(sweeping *run, icl_error *error) {
    const bool is_first = icl_ranks_is_first(&run->ranks);

    ICL_CHECK(icl_sweep_load(run->options->file, run->options->families, &run->sweep, error));
    ICL_CHECK(choose_folder(run, error));
    return icl_sweep_survey(run->sweep, run->folder, is_first, &run->finished, error);
}

static icl_status plan_workers(sweeping *run, icl_error *error) {
    return worker_plan_make(&(worker_wishes){.command = "sweep",
                                             .device = &run->options->device,
                                             .workers = &run->options->workers,
                                             .left = icl_sweep_cells(run->sweep) - run->finished,
                                             .ranks = &run->ranks},
                            &run->workers, error);
}

/* ---- Results ---- */

static icl_status keep_results(const sweeping *run, const icl_sweep_texts *texts, icl_error *error) {
    result_writer keep = {.folder = run->only_looks ? NULL : run->folder,
                          .json = run->options->json,
                          .quiet = run->options->device.quiet,
                          .facts = {.command = "sweep",
                                    .command_line = run->command_line,
                                    .recipe_name = icl_sweep_recipe_name(run->sweep),
                                    .csv = CELLS_CSV}};
    icl_json summary = {0};
    icl_status status = ICL_OK;

    ICL_TRY(results_begin(&keep, error));
    ICL_TRY(results_add_lines(&keep, ICL_RESULT_ROWS, texts->json, error));
    ICL_TRY(results_add_lines(&keep, "means", texts->means_json, error));
    icl_json_count(&summary, "cells", icl_sweep_cells(run->sweep));
    icl_json_count(&summary, "seeds", icl_sweep_seeds(run->sweep));
    icl_json_flag(&summary, "diverged", run->diverged);
    ICL_TRY(results_write(&keep, &summary, error));
done:
    icl_json_discard(&summary);
    results_end(&keep);
    return status;
}

/* ---- Reports ---- */

static icl_sweep_report report_of(const sweeping *run, bool *is_undrawn) {
    return (icl_sweep_report){.folder = run->folder,
                              .sweep = run->sweep,
                              .command_line = run->command_line,
                              .draw = draw_figure,
                              .user = is_undrawn};
}

/* Prints "best: model.layers = 3, task.noise = fixed:1: half_adjusted 0.012 +- 0.001, mean over 3 seeds", and how many
 * others may be as good. */
static void print_best_point(const sweeping *run, const icl_sweep_points *points) {
    const icl_sweep_point *best = &points->of[points->best];
    const icl_sweep *sweep = run->sweep;
    const size_t axes = icl_sweep_axes(sweep) - (icl_sweep_seeds(sweep) > 1);

    printf("\nbest: ");
    for (size_t axis = 0; axis < axes; axis++)
        printf("%s%s = %s", axis > 0 ? ", " : "", icl_sweep_axis(sweep, axis),
               icl_sweep_value(sweep, best->cell, axis));
    printf(": %s %.4g +- %.2g", points->is_adjusted ? "half_adjusted" : "error", best->error, best->se);
    if (best->seeds > 1)
        printf(", mean over %zu seeds", best->seeds);
    printf("\n");
    if (points->close > 0)
        printf("%zu other%s not clearly worse: by 2 standard errors at most\n", points->close,
               points->close == 1 ? " is" : "s are");
}

static icl_status print_best(const sweeping *run, const icl_sweep_result *results, icl_error *error) {
    icl_sweep_points points = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_sweep_find_points(run->sweep, results, &points, error));
    if (points.best < points.count && points.count > 1 && !run->options->json)
        print_best_point(run, &points);
done:
    icl_sweep_free_points(&points);
    return status;
}

static icl_status report_results(const sweeping *run, const icl_sweep_result *results, icl_error *error) {
    bool is_undrawn = false;
    const icl_sweep_report report = report_of(run, &is_undrawn);

    ICL_CHECK(icl_sweep_report_write(&report, results, error));
    if (!run->options->device.quiet)
        fprintf(stderr, "iclab: %s/" ICL_REPORT_FILE "%s\n", run->folder,
                is_undrawn ? ", without pictures: no gnuplot here; gnuplot errors.gp in that folder draws its own"
                           : "");
    return ICL_OK;
}

/* Writes the report of one cell, in the worker that finished it. */
static icl_status report_cell(void *user, const icl_backend *backend, size_t cell, const char *folder,
                              const icl_sweep_result *result, icl_error *error) {
    bool is_undrawn = false;
    const icl_sweep_report report = report_of(user, &is_undrawn);

    return icl_sweep_cell_report_write(&report, backend, cell, folder, result, error);
}

/* ---- The results ---- */

static icl_status read_results(sweeping *run, size_t cells, icl_sweep_result *results, icl_error *error) {
    for (size_t cell = 0; cell < cells; cell++) {
        ICL_CHECK(icl_sweep_read_result(run->sweep, run->folder, cell, &results[cell], error));
        if (!results[cell].finished)
            return icl_fail(error, ICL_ERROR_IO, "%s: a result is gone again: expected all cells finished",
                            run->folder);
        run->diverged = run->diverged || results[cell].diverged;
    }
    return ICL_OK;
}

static icl_status print_results(sweeping *run, icl_error *error) {
    const size_t cells = icl_sweep_cells(run->sweep);
    icl_sweep_result *results = NULL;
    icl_sweep_texts texts = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(cells, sizeof *results, "results of a sweep", &results, error));
    ICL_TRY(read_results(run, cells, results, error));
    ICL_TRY(icl_sweep_write_texts(run->sweep, results, &texts, error));
    if (!run->only_looks)
        ICL_TRY(write_table(run->folder, CELLS_CSV, texts.cells_csv, error));
    if (!run->only_looks)
        ICL_TRY(write_table(run->folder, "means.csv", texts.means_csv, error));
    if (!run->options->json)
        fputs(texts.table, stdout);
    ICL_TRY(print_best(run, results, error));
    ICL_TRY(keep_results(run, &texts, error));
    ICL_TRY(report_results(run, results, error));
done:
    icl_sweep_free_texts(&texts);
    icl_free(&results);
    return status;
}

/* ---- Running ---- */

static void say(void *user, const char *text) {
    (void)user;
    fprintf(stderr, "iclab: %s\n", text);
}

static icl_status work(const sweeping *run, icl_error *error) {
    const sweep_options *options = run->options;
    const icl_sweep_workers_params params = {
        .work = {.sweep = run->sweep,
                 .folder = run->folder,
                 .command_line = run->command_line,
                 .stop = &stop_signal,
                 .say = options->device.quiet ? NULL : say,
                 .finish = report_cell,
                 .user = (void *)run},
        .device = worker_device(&options->device),
        .count = run->workers.count,
        .specs = run->workers.specs,
        .fail = say,
    };
    return icl_sweep_run_workers(&params, error);
}

static void announce(const sweeping *run) {
    fprintf(stderr, "iclab: %s: %zu cells, %zu of them finished; ", run->folder, icl_sweep_cells(run->sweep),
            run->finished);
    if (run->ranks.count > 1)
        fprintf(stderr, "%zu ranks, the first ", run->ranks.count);
    else if (run->workers.count > 1)
        fprintf(stderr, "%zu workers ", run->workers.count);
    for (size_t i = 0; i < run->workers.count; i++)
        fprintf(stderr, "%s%s", i == 0 ? "on " : ", ", run->workers.specs[i]);
    fprintf(stderr, "\n");
}

/* Copies the sweep's file, or else only looks: the folder of a finished sweep may not be writable, as another
 * user's. */
static icl_status keep_file_or_look(sweeping *run, icl_error *error) {
    icl_error failure = {0};
    const icl_status status = keep_file(run, &failure);

    run->only_looks = status == ICL_ERROR_IO && run->finished == icl_sweep_cells(run->sweep);
    if (status != ICL_OK && !run->only_looks)
        return icl_fail(error, status, "%s", failure.message);
    if (run->only_looks)
        fprintf(stderr, "iclab: %s: nothing is written there\n", failure.message);
    return ICL_OK;
}

/* Runs the sweep. Every rank does each part for itself, and all agree on its outcome. */
static icl_status sweep(sweeping *run, icl_error *error) {
    const bool is_first = icl_ranks_is_first(&run->ranks);
    icl_status status;

    ICL_CHECK(icl_ranks_agree(&run->ranks, open_sweep(run, error), error));
    status = plan_workers(run, error);
    if (status == ICL_OK && is_first)
        status = keep_file_or_look(run, error);
    ICL_CHECK(icl_ranks_agree(&run->ranks, status, error));
    ICL_CHECK(icl_ranks_agree(&run->ranks, check_folder(run, error), error));
    if (is_first && !run->options->device.quiet)
        announce(run);
    status = run->finished < icl_sweep_cells(run->sweep) ? work(run, error) : ICL_OK;
    ICL_CHECK(icl_ranks_agree(&run->ranks, status, error));
    return is_first ? print_results(run, error) : ICL_OK;
}

/* ---- The command ---- */

static int finish(sweeping *run, icl_status status, const icl_error *error) {
    const int code = end_shared_work(&run->ranks, status, error, run->diverged ? EXIT_CHECK_FAILED : EXIT_DONE);

    icl_sweep_destroy(&run->sweep);
    icl_free(&run->folder);
    icl_free(&run->command_line);
    worker_plan_release(&run->workers);
    return code;
}

static int run_sweep(const icl_families *families, int count, char *const *arguments) {
    sweep_options options = {.families = families};
    sweeping run = {.options = &options, .ranks = icl_ranks_alone()};
    icl_error error = {0};
    icl_status status;

    outlive_readers();
    ICL_TRY(read_command_line(&command_sweep, count, arguments, &options, &error));
    ICL_TRY(check_workers("sweep", &options.workers, &error));
    ICL_TRY(join_command_line(families, "sweep", count, arguments, &run.command_line, &error));
    ICL_TRY(ranks_join(&run.ranks, &error));
    catch_stop_signals();
    ICL_TRY(sweep(&run, &error));
done:
    return finish(&run, status, &error);
}

static const positional positionals[] = {
    {"FILE", "the recipe and the grid (see below)", true, offsetof(sweep_options, file)},
};

static const option table[] = {
    {"--out", OPTION_TEXT, "DIR", "folder of the cells and tables (default: sweeps/FILE without suffix)",
     offsetof(sweep_options, out)},
    {"--workers", OPTION_COUNT, "N",
     "processes on this machine (default: one for each device; on the host one for each core, on one thread)",
     offsetof(sweep_options, workers)},
    DEVICE_OPTION_ROWS(sweep_options, device),
    {"--json", OPTION_FLAG, NULL, "one JSON object per cell, one per mean over seeds, and one about the whole",
     offsetof(sweep_options, json)},
    QUIET_OPTION_ROW(sweep_options, device),
};

const subcommand command_sweep = {
    .name = "sweep",
    .about = "a grid of recipe values and seeds, on all devices or machines, in one table",
    .summary = "Trains a recipe on a grid of values and seeds, on all devices given (--device SPEC,SPEC), and "
               "makes one table.",
    .positionals = positionals,
    .positional_count = 1,
    .options = table,
    .option_count = sizeof table / sizeof *table,
    .notes = "FILE is an INI file:\n\n"
             "  [sweep]\n"
             "  recipe = versatile-table1             ; by name, or a file, also beside FILE\n"
             "  [set]\n"
             "  train.steps = 500                     ; the same for all cells\n"
             "  [grid]\n"
             "  model.layers = 1, 2, 3                ; values; FIRST..LAST or FIRST:LAST:STEP\n"
             "  task.noise = \"choice:1,3\", uniform:5 ; quotes where a value holds a comma\n"
             "  train.seed = 1..3                     ; repetitions: their mean is shown too\n\n"
             "Every cell is a run folder in DIR, named after its values, with result.json once it is "
             "finished. The same command again trains only what is not finished, from its last checkpoint "
             "(train.checkpoint_every); you may extend the grid meanwhile. Any number of processes and "
             "machines that share DIR may work on it at once; under mpirun every rank does. table.csv has "
             "the cells, means.csv the means over seeds, result.json both. On devices of one kind both come out the "
             "same, but "
             "for seconds, no matter which process trained which cell. Exit code 1: a cell diverged.",
    .takes_families = true,
    .run = run_sweep,
};
