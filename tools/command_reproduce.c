#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "core/allocate.h"
#include "core/recipe_store.h"
#include "iclab/file.h"
#include "iclab/host.h"
#include "iclab/json.h"
#include "iclab/nearest.h"
#include "papers/study_file.h"
#include "papers/study_list.h"
#include "run/sweep/work.h"
#include "terminal.h"
#include "workers.h"

/* ---- Names of cells, as --cells lists them and --only chooses among them ---- */

/* Zero is an empty list. */
typedef struct cell_list {
    char **names; /* [count], each once, in the order in which they run */
    size_t count, capacity;
} cell_list;

static void release_cells(cell_list *cells) {
    for (size_t i = 0; i < cells->count; i++)
        icl_free(&cells->names[i]);
    icl_free(&cells->names);
    *cells = (cell_list){0};
}

static icl_status hear_cell(void *user, const char *group, icl_error *error) {
    cell_list *cells = user;

    ICL_CHECK(icl_grow(&cells->names, cells->count, &cells->capacity, sizeof *cells->names, "names of cells", error));
    ICL_CHECK(icl_duplicate(group, &cells->names[cells->count], error));
    cells->count++;
    return ICL_OK;
}

static icl_status plan_cells(const icl_reproduction *reproduction, const icl_reproduce_params *params, cell_list *cells,
                             icl_error *error) {
    return icl_study_list(reproduction, params, &(icl_study_listener){.cell = hear_cell, .user = cells}, error);
}

/* Counts the names that contain the text, as `--only` does. ICL_ERROR_INPUT, with the nearest name, if none does. */
static icl_status count_matching(const cell_list *cells, const icl_reproduction *reproduction, const char *only,
                                 size_t *matched, icl_error *error) {
    *matched = 0;
    for (size_t i = 0; i < cells->count; i++)
        *matched += strstr(cells->names[i], only) != NULL;
    if (*matched > 0)
        return ICL_OK;
    if (cells->count == 0)
        return icl_fail(error, ICL_ERROR_INPUT, "reproduce: --only %s: %s has no cells to choose among", only,
                        reproduction->name);
    return icl_fail(error, ICL_ERROR_INPUT,
                    "reproduce: --only %s: no cell's name contains that; the nearest known one is %s "
                    "(iclab reproduce %s --cells lists them)",
                    only, icl_nearest(only, (const char *const *)cells->names, cells->count),
                    reproduction->file ? reproduction->file : reproduction->name);
}

/* ---- Lists of reproductions, of cells and of trainings ---- */

static icl_status print_reproduction(const icl_reproduction *reproduction, const char *paper, icl_error *error) {
    icl_json json = {0};

    icl_json_text(&json, "name", reproduction->name);
    icl_json_text(&json, "paper", paper);
    icl_json_text(&json, "source", reproduction->source);
    icl_json_text(&json, "about", reproduction->about);
    for (int scale = 0; scale < ICL_SCALES; scale++) {
        char member[32];
        snprintf(member, sizeof member, "cost_%s", icl_scale_name((icl_scale)scale));
        icl_json_text(&json, member, reproduction->cost[scale] ? reproduction->cost[scale] : "");
    }
    return print_json_line(&json, error);
}

static icl_status list_reproductions(const icl_catalogue *catalogue, bool json, icl_error *error) {
    const icl_catalogue_row *rows = catalogue->rows;
    size_t width = 0;

    for (size_t i = 0; i < catalogue->count; i++)
        width = strlen(rows[i].reproduction->name) > width ? strlen(rows[i].reproduction->name) : width;
    const int columns = (int)width;
    if (!json)
        printf("  %-*s %8s %8s %8s  %s\n", columns, "name", "ci", "short", "full", "what it shows");
    for (size_t i = 0; i < catalogue->count; i++) {
        const icl_reproduction *r = rows[i].reproduction;
        const char *paper = rows[i].paper;
        if (json) {
            ICL_CHECK(print_reproduction(r, paper, error));
            continue;
        }
        if (i == 0 || strcmp(paper, rows[i - 1].paper) != 0)
            printf("\n%s\n", paper);
        printf("  %-*s %8s %8s %8s  %s\n", columns, r->name, r->cost[ICL_SCALE_CI], r->cost[ICL_SCALE_SHORT],
               r->cost[ICL_SCALE_FULL] ? r->cost[ICL_SCALE_FULL] : "-", r->about);
    }
    if (!json)
        printf("\nTimes are of two cores. iclab reproduce NAME --scale ci|short|full; the name all runs "
               "every one.\n");
    return finish_output(error);
}

typedef struct listing {
    const icl_reproduction *reproduction;
    const icl_reproduce_params *params;
    bool json;
    size_t count;
} listing;

static icl_json row_of(const listing *list, const char *member, const char *name) {
    icl_json json = {0};

    icl_json_text(&json, "reproduction", list->reproduction->name);
    icl_json_text(&json, "scale", icl_scale_name(list->params->scale));
    icl_json_text(&json, member, name);
    return json;
}

static icl_status print_cell(const listing *list, const char *cell, icl_error *error) {
    if (!list->json) {
        printf("%s\n", cell);
        return ICL_OK;
    }
    icl_json json = row_of(list, "cell", cell);
    return print_json_line(&json, error);
}

static icl_status find_cells(const icl_reproduction *reproduction, const icl_reproduce_params *params, cell_list *cells,
                             icl_error *error) {
    size_t matched;

    ICL_CHECK(plan_cells(reproduction, params, cells, error));
    return params->only ? count_matching(cells, reproduction, params->only, &matched, error) : ICL_OK;
}

static icl_status list_cells(const icl_reproduction *reproduction, const icl_reproduce_params *params, bool json,
                             icl_error *error) {
    const listing list = {reproduction, params, json, 0};
    cell_list cells = {0};
    icl_status status = ICL_OK;

    ICL_TRY(find_cells(reproduction, params, &cells, error));
    for (size_t i = 0; i < cells.count; i++)
        if (!params->only || strstr(cells.names[i], params->only))
            ICL_TRY(print_cell(&list, cells.names[i], error));
    if (cells.count == 0 && !json)
        printf("%s runs as a whole: it has no cells to choose among\n", reproduction->name);
    status = finish_output(error);
done:
    release_cells(&cells);
    return status;
}

/* Writes the name of the recipe's file: the origin of a value from a file is "FOLDERS/NAME:LINE". */
static void file_of(const icl_recipe *recipe, char *name, size_t size) {
    name[0] = '\0';
    for (size_t i = 0; i < recipe->key_count && name[0] == '\0'; i++) {
        const char *file = icl_path_name(recipe->values[i].origin), *line = strrchr(file, ':');
        if (line)
            snprintf(name, size, "%.*s", (int)(line - file), file);
    }
}

/* Appends the values that come from overrides, as "section.key=value", in the order of the table and separated by
 * blanks. */
static icl_status print_overrides(const icl_recipe *recipe, icl_text *text, icl_error *error) {
    const char *before = "";

    for (size_t i = 0; i < recipe->key_count; i++) {
        if (strcmp(recipe->values[i].origin, ICL_RECIPE_OVERRIDE) != 0)
            continue;
        ICL_CHECK(icl_text_print(text, error, "%s%s.%s=%s", before, recipe->keys[i].section, recipe->keys[i].name,
                                 recipe->values[i].text));
        before = " ";
    }
    return ICL_OK;
}

/* Describes a recipe: the name of its file ("versatile.ini"; "" if none was read), and the settings that differ from
 * the file, "train.seed=2 model.layers=4", which the caller releases. */
static icl_status describe_training(const icl_recipe *recipe, char *file, size_t size, icl_text *settings,
                                    icl_error *error) {
    file_of(recipe, file, size);
    return print_overrides(recipe, settings, error);
}

static icl_status print_training(void *user, const char *name, const icl_recipe *recipe, icl_error *error) {
    listing *list = user;
    icl_text settings = {0};
    char file[128];
    icl_status status = ICL_OK;

    list->count++;
    ICL_TRY(describe_training(recipe, file, sizeof file, &settings, error));
    const char *text = settings.bytes ? settings.bytes : "";
    if (list->json) {
        icl_json json = row_of(list, "training", name);
        icl_json_text(&json, "recipe", file);
        icl_json_text(&json, "settings", text);
        ICL_TRY(print_json_line(&json, error));
    } else
        printf("%s  %s  %s\n", name, file, text);
done:
    icl_text_release(&settings);
    return status;
}

static icl_status list_trainings(const icl_reproduction *reproduction, const icl_reproduce_params *params, bool json,
                                 icl_error *error) {
    listing list = {reproduction, params, json, 0};

    cell_list cells = {0};
    icl_status status = ICL_OK;

    ICL_TRY(find_cells(reproduction, params, &cells, error));
    ICL_TRY(
        icl_study_list(reproduction, params, &(icl_study_listener){.training = print_training, .user = &list}, error));
    if (list.count == 0 && !json)
        printf("%s has no trainings in folders\n", reproduction->name);
    status = finish_output(error);
done:
    release_cells(&cells);
    return status;
}

/* ---- Options ---- */

#define DEFAULT_SEED   1
#define DEFAULT_FOLDER "reproductions"

/* Room for the whole table. */
enum { MOST_REPRODUCTIONS = 128 };

typedef struct reproduce_options {
    const char *name, *out, *only;
    size_t scale; /* icl_scale */
    option_count seed, workers;
    device_options device;
    bool json, list, cells, trainings;
    char *command_line;
    icl_catalogue catalogue; /* what is shipped; empty if `name` is a path */
    icl_study_file *file;    /* the file whose path is `name`; NULL if `name` is shipped */
} reproduce_options;

typedef struct printer {
    const reproduce_options *options;
    bool missing_gnuplot;
    size_t trainings;  /* those behind missed findings, so far */
    icl_status status; /* the first failure to print a finding */
    result_writer keep;
    progress_printer progress;
} printer;

/* ---- Findings ---- */

static icl_status print_row(const icl_finding *finding, icl_error *error) {
    const icl_judgement judgement = icl_finding_judge(finding);
    icl_text row = {0};
    char miss[32], verdict[64];
    icl_status status = ICL_OK;

    ICL_TRY(icl_finding_row(finding, &row, error));
    printf("%s  %s", row.bytes,
           judgement == ICL_MISSED ? paint_verdict("MISSED", false, verdict)
           : judgement == ICL_MET  ? paint_verdict(icl_judgement_name(judgement), true, verdict)
                                   : icl_judgement_name(judgement));
    if (judgement == ICL_MISSED)
        printf(" by %s", icl_finding_number(icl_finding_miss(finding), miss));
    if (finding->evidence != ICL_EVIDENCE_NONE)
        printf(" [%s%s%s]", icl_evidence_name(finding->evidence), finding->source ? ": " : "",
               finding->source ? finding->source : "");
    printf("%s%s\n", finding->note ? "  " : "", finding->note ? finding->note : "");
    fflush(stdout);
done:
    icl_text_release(&row);
    return status;
}

static icl_status keep_row(printer *p, const icl_reproduction *reproduction, const icl_finding *finding,
                           icl_error *error) {
    icl_json json = {0};
    const bool has_target = finding->evidence != ICL_EVIDENCE_NONE;

    icl_json_text(&json, "reproduction", reproduction->name);
    icl_json_text(&json, "what", finding->what);
    icl_json_text(&json, "quantity", finding->quantity);
    icl_json_number(&json, "ours", finding->ours);
    icl_json_number(&json, "standard_error", finding->standard_error > 0 ? finding->standard_error : (double)NAN);
    icl_json_number(&json, "target", has_target ? finding->target : (double)NAN);
    icl_json_number(&json, "tolerance", has_target ? finding->tolerance : (double)NAN);
    icl_json_text(&json, "criterion", has_target ? icl_criterion_name(finding->criterion) : "");
    icl_json_text(&json, "judgement", icl_judgement_name(icl_finding_judge(finding)));
    icl_json_number(&json, "missed_by", icl_finding_miss(finding));
    icl_json_text(&json, "evidence", icl_evidence_name(finding->evidence));
    icl_json_text(&json, "source", finding->source ? finding->source : "");
    icl_json_text(&json, "note", finding->note ? finding->note : "");
    return results_add(&p->keep, &json, error);
}

static void report(void *user, const icl_reproduction *reproduction, const icl_finding *finding) {
    printer *p = user;

    progress_clear(&p->progress);
    if (p->status == ICL_OK && !p->options->json)
        p->status = print_row(finding, NULL);
    if (p->status == ICL_OK)
        p->status = keep_row(p, reproduction, finding, NULL);
}

static void print_losses(const icl_training_row *training, bool is_first) {
    char first[32], last[32];

    if (is_first)
        printf("\nTrainings behind what is missed, by the mean losses of their first steps and of the last tenth:\n");
    printf("  %s, seed %" PRIu32 ": from %s to %s\n", training->what, training->seed,
           icl_finding_number(training->first, first),
           training->has_diverged ? "divergence" : icl_finding_number(training->last, last));
    fflush(stdout);
}

static void trained(void *user, const icl_reproduction *reproduction, const icl_training_row *training) {
    printer *p = user;
    icl_json json = {0};

    progress_clear(&p->progress);
    if (!p->options->json)
        print_losses(training, p->trainings == 0);
    p->trainings++;
    icl_json_text(&json, "reproduction", reproduction->name);
    icl_json_text(&json, "training", training->what);
    icl_json_count(&json, "seed", training->seed);
    icl_json_number(&json, "first_loss", training->first);
    icl_json_number(&json, "last_loss", training->last);
    icl_json_flag(&json, "diverged", training->has_diverged);
    if (p->status == ICL_OK)
        p->status = results_add_to(&p->keep, "trainings", &json, NULL);
}

static void say(void *user, const char *text) {
    printer *p = user;

    progress_clear(&p->progress);
    fprintf(stderr, "iclab: %s\n", text);
}

/* Prints for several processes, which share a terminal; no progress is shown meanwhile. */
static void say_from_worker(void *user, const char *text) {
    (void)user;
    fprintf(stderr, "iclab: %s\n", text);
}

static void show_progress(void *user, const icl_session_progress *progress) {
    printer *p = user;
    progress_report(&p->progress, progress);
}

static icl_status draw(void *user, const char *folder, const char *script, icl_error *error) {
    printer *p = user;
    return draw_figure(&p->missing_gnuplot, folder, script, error);
}

/* ---- Running ---- */

static icl_status print_summary(printer *p, const icl_reproduction *reproduction, const icl_reproduce_summary *summary,
                                const char *folder, icl_error *error) {
    icl_json json = {0};
    icl_text verdict = {0};

    ICL_CHECK(icl_reproduce_verdict((icl_scale)p->options->scale, summary, &verdict, error));
    if (!p->options->json)
        printf("%s%s\n", p->trainings > 0 ? "\n" : "", verdict.bytes);
    if (!p->options->json && reproduction->scope)
        printf("Its scope: %s\n", reproduction->scope);
    if (!p->options->json)
        printf("%s: %zu findings, %zu missed, %.3g s; report.html in %s%s\n\n", reproduction->name, summary->findings,
               summary->missed, summary->seconds, folder,
               p->missing_gnuplot ? " (no gnuplot here: gnuplot NAME.gp in that folder draws NAME.svg)" : "");
    icl_json_text(&json, "reproduction", reproduction->name);
    icl_json_text(&json, "scale", icl_scale_name((icl_scale)p->options->scale));
    icl_json_count(&json, "seed", *p->keep.facts.seed);
    icl_json_count(&json, "findings", summary->findings);
    icl_json_count(&json, "missed", summary->missed);
    icl_json_count(&json, "judged", summary->judged);
    icl_json_flag(&json, "claim_judged", summary->of_claim > 0);
    icl_json_text(&json, "verdict", verdict.bytes);
    icl_json_number(&json, "seconds", summary->seconds);
    icl_text_release(&verdict);
    return results_write(&p->keep, &json, error);
}

/* Returns the parameters of a reproduction, without its callbacks. */
static icl_reproduce_params params_of(const reproduce_options *options, const char *folder) {
    return (icl_reproduce_params){
        .scale = (icl_scale)options->scale,
        .seed = options->seed.given ? (uint32_t)options->seed.value : DEFAULT_SEED,
        .folder = folder,
        .only = options->only,
        .command_line = options->command_line,
        .stop = &stop_signal,
        .say = options->device.quiet ? NULL : say,
    };
}

static void print_heading(const icl_reproduction *reproduction, const icl_reproduce_params *params) {
    printf("%s: %s (%s), scale %s, seed %" PRIu32 ", device %s\n", reproduction->name, reproduction->about,
           reproduction->source, icl_scale_name(params->scale), params->seed,
           icl_backend_capabilities(params->backend)->spec);
    if (reproduction->claim)
        printf("The claim: %s\n", reproduction->claim);
    printf("\n%-28s %-28s %23s %26s  %s\n", "what", "quantity", "ours", "target", "verdict [where the target is from]");
}

static icl_status reproduce_one(const icl_reproduction *reproduction, icl_backend *backend, const char *folder,
                                double seconds_before, const reproduce_options *options, size_t *missed,
                                icl_error *error) {
    icl_reproduce_params params = params_of(options, folder);
    const uint64_t seed = params.seed;
    printer p = {.options = options,
                 .keep = {.folder = folder,
                          .json = options->json,
                          .quiet = true,
                          .facts = {.command = "reproduce",
                                    .command_line = options->command_line,
                                    .backend = backend,
                                    .seed = &seed,
                                    .csv = "findings.csv"}}};
    icl_status status = ICL_OK;
    icl_reproduce_summary summary;

    params.backend = backend;
    params.seconds_before = seconds_before;
    params.report = report;
    params.trained = trained;
    params.progress = show_progress;
    params.draw = draw;
    params.user = &p;
    progress_start(&p.progress, options->device.quiet);
    if (!options->json)
        print_heading(reproduction, &params);
    ICL_TRY(results_begin(&p.keep, error));
    ICL_TRY(icl_reproduce(reproduction, &params, &summary, error));
    ICL_TRY(p.status);
    ICL_TRY(print_summary(&p, reproduction, &summary, folder, error));
    *missed += summary.missed;
done:
    progress_clear(&p.progress);
    results_end(&p.keep);
    return status;
}

/* ---- Which ---- */

/* Returns whether the name is a study's own file: a path, or a name that ends in .ini. */
static bool is_path(const char *name) {
    const size_t length = strlen(name);
    return strchr(name, '/') || (length > 4 && strcmp(name + length - 4, ".ini") == 0);
}

/* Reads what is shipped; or the study's file, if it is one, which it plans, so that errors are reported before a folder
 * is made. */
static icl_status open_studies(reproduce_options *options, icl_error *error) {
    const icl_reproduce_params params = params_of(options, "");
    cell_list cells = {0};
    icl_status status = ICL_OK;

    if (!options->name || !is_path(options->name))
        return icl_catalogue_open(&options->catalogue, error);
    ICL_TRY(icl_study_file_load(options->name, NULL, &options->file, error));
    ICL_TRY(plan_cells(icl_study_file_reproduction(options->file), &params, &cells, error));
done:
    release_cells(&cells);
    return status;
}

static icl_status find(const reproduce_options *options, const icl_reproduction **reproduction, icl_error *error) {
    if (!options->file)
        return icl_catalogue_find(&options->catalogue, options->name, reproduction, error);
    *reproduction = icl_study_file_reproduction(options->file);
    return ICL_OK;
}

/* ---- Cells ---- */

static icl_status list_parts(const reproduce_options *options, icl_error *error) {
    const icl_reproduce_params params = params_of(options, "");
    const icl_reproduction *reproduction = NULL;

    ICL_CHECK(find(options, &reproduction, error));
    return options->cells ? list_cells(reproduction, &params, options->json, error)
                          : list_trainings(reproduction, &params, options->json, error);
}

/* Refuses, before any training, a text that no cell's name contains, and lists the cells if several contain it. */
static icl_status check_only(const reproduce_options *options, bool is_quiet, icl_error *error) {
    const icl_reproduce_params params = params_of(options, "");
    const icl_reproduction *reproduction = NULL;
    cell_list cells = {0};
    size_t matched = 0;
    icl_status status = ICL_OK;

    if (!options->only)
        return ICL_OK;
    ICL_TRY(find(options, &reproduction, error));
    ICL_TRY(plan_cells(reproduction, &params, &cells, error));
    ICL_TRY(count_matching(&cells, reproduction, options->only, &matched, error));
    if (matched == 1 || is_quiet)
        goto done;
    fprintf(stderr, "iclab: --only %s stands in the names of %zu of %zu cells:", options->only, matched, cells.count);
    for (size_t i = 0; i < cells.count; i++)
        if (strstr(cells.names[i], options->only))
            fprintf(stderr, " %s", cells.names[i]);
    fputc('\n', stderr);
done:
    release_cells(&cells);
    return status;
}

/* ---- Trainings, shared by workers ---- */

/* The reproductions that were asked for, with their folders. */
typedef struct chosen {
    size_t count;
    const icl_reproduction *reproductions[MOST_REPRODUCTIONS];
    char folders[MOST_REPRODUCTIONS][512];
    icl_reproduce_params params[MOST_REPRODUCTIONS]; /* for the workers */
    double seconds_before;                           /* that workers took, if there is one reproduction; else unknown */
} chosen;

static void add_chosen(const reproduce_options *options, const icl_reproduction *reproduction, chosen *choice) {
    char *folder = choice->folders[choice->count];

    snprintf(folder, sizeof choice->folders[0], "%s/%s-%s", options->out ? options->out : DEFAULT_FOLDER,
             reproduction->name, icl_scale_name((icl_scale)options->scale));
    choice->params[choice->count] = params_of(options, folder);
    choice->params[choice->count].say = options->device.quiet ? NULL : say_from_worker;
    choice->reproductions[choice->count++] = reproduction;
}

static icl_status choose(const reproduce_options *options, chosen *choice, icl_error *error) {
    const icl_catalogue *all = &options->catalogue;
    const icl_reproduction *one = NULL;

    if (strcmp(options->name, "all") != 0)
        ICL_CHECK(find(options, &one, error));
    if (all->count > MOST_REPRODUCTIONS)
        return icl_fail(error, ICL_ERROR_INPUT, "reproduce: %zu studies: expected at most %d", all->count,
                        MOST_REPRODUCTIONS);
    for (size_t i = 0; !one && i < all->count; i++)
        add_chosen(options, all->rows[i].reproduction, choice);
    if (one)
        add_chosen(options, one, choice);
    return ICL_OK;
}

static icl_status work(const void *context, icl_backend *backend, long parent, icl_error *error) {
    return icl_study_train_all(context, backend, parent, error);
}

/* Trains what is unfinished in several processes, each on its own device or core. A single process would do no better
 * than the reproductions themselves, which use all cores. */
static icl_status train_side_by_side(const reproduce_options *options, const chosen *choice, const icl_ranks *ranks,
                                     icl_error *error) {
    const icl_reproduce_shared shared = {choice->reproductions, choice->params, choice->count};
    worker_plan plan = {0};
    size_t unfinished = 0;
    icl_status status = ICL_OK;

    ICL_TRY(icl_study_count_unfinished(&shared, &unfinished, error));
    if (ranks->count == 1 && unfinished <= 1)
        goto done;
    ICL_TRY(worker_plan_make(&(worker_wishes){"reproduce", &options->device, &options->workers, unfinished, ranks},
                             &plan, error));
    if (ranks->count == 1 && plan.count == 1)
        goto done;
    if (icl_ranks_is_first(ranks) && !options->device.quiet)
        fprintf(stderr, "iclab: %zu trainings to do by %zu %s\n", unfinished,
                ranks->count > 1 ? ranks->count : plan.count, ranks->count > 1 ? "ranks" : "workers");
    ICL_TRY(icl_workers_run(&(icl_workers){.device = worker_device(&options->device),
                                           .count = plan.count,
                                           .specs = (const char(*)[ICL_NAME_CAPACITY])plan.specs,
                                           .stop = &stop_signal,
                                           .fail = say_from_worker,
                                           .work = work,
                                           .context = &shared},
                            error));
done:
    worker_plan_release(&plan);
    return status;
}

/* ---- All of it ---- */

/* Judges on the first of the requested devices. has_trained: a rank has trained in this process before. */
static icl_status judge_all(const reproduce_options *options, const chosen *choice, bool has_trained, size_t *missed,
                            icl_error *error) {
    device_options device = options->device;
    char spec[ICL_NAME_CAPACITY];
    icl_backend *backend = NULL;
    icl_status status = ICL_OK;

    if (device.spec) {
        snprintf(spec, sizeof spec, "%.*s", (int)strcspn(device.spec, ","), device.spec);
        device.spec = spec;
    }
    device.is_another = has_trained;
    ICL_TRY(open_device(&device, &backend, error));
    for (size_t i = 0; i < choice->count; i++)
        ICL_TRY(reproduce_one(choice->reproductions[i], backend, choice->folders[i], choice->seconds_before, options,
                              missed, error));
    if (!options->device.quiet)
        report_fallbacks(backend);
done:
    icl_backend_close(&backend);
    return status;
}

static icl_status reproduce(const reproduce_options *options, const icl_ranks *ranks, size_t *missed,
                            icl_error *error) {
    chosen *choice = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(1, sizeof *choice, "reproductions", &choice, error));
    ICL_TRY(
        icl_ranks_agree(ranks, check_only(options, options->device.quiet || !icl_ranks_is_first(ranks), error), error));
    ICL_TRY(icl_ranks_agree(ranks, choose(options, choice, error), error));
    const double start = icl_clock_seconds();
    if (ranks->count > 1 || !options->workers.given || options->workers.value > 1)
        ICL_TRY(icl_ranks_agree(ranks, train_side_by_side(options, choice, ranks, error), error));
    if (choice->count == 1)
        choice->seconds_before = icl_clock_seconds() - start;
    if (icl_ranks_is_first(ranks))
        ICL_TRY(judge_all(options, choice, ranks->count > 1, missed, error));
done:
    icl_free(&choice);
    return status;
}

/* ---- The command ---- */

static icl_status check_usage(const reproduce_options *options, icl_error *error) {
    if (!options->name && !options->list)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "reproduce: NAME is missing (iclab reproduce --list has them; all runs every one)");
    if (options->only && options->name && strcmp(options->name, "all") == 0)
        return icl_fail(error, ICL_ERROR_INPUT, "reproduce: --only %s: expected one NAME, not all", options->only);
    if ((options->cells || options->trainings) && (!options->name || strcmp(options->name, "all") == 0))
        return icl_fail(error, ICL_ERROR_INPUT, "reproduce: --%s: expected one NAME beside it, not all",
                        options->cells ? "cells" : "trainings");
    if (options->seed.given && (options->seed.value == 0 || options->seed.value > UINT32_MAX / 2))
        return icl_fail(error, ICL_ERROR_INPUT, "reproduce: --seed %" PRIu64 ": expected 1 to %" PRIu32,
                        options->seed.value, UINT32_MAX / 2);
    return check_workers("reproduce", &options->workers, error);
}

static int run(const icl_families *families, int count, char *const *arguments) {
    reproduce_options options = {.scale = ICL_SCALE_SHORT};
    icl_ranks ranks = icl_ranks_alone();
    size_t missed = 0;
    icl_error error = {0};
    icl_status status;

    outlive_readers();
    ICL_TRY(read_command_line(&command_reproduce, count, arguments, &options, &error));
    ICL_TRY(check_usage(&options, &error));
    ICL_TRY(open_studies(&options, &error));
    ICL_TRY(join_command_line(families, "reproduce", count, arguments, &options.command_line, &error));
    ICL_TRY(ranks_join(&ranks, &error));
    catch_stop_signals();
    if (options.list)
        status = list_reproductions(&options.catalogue, options.json, &error);
    else if (options.cells || options.trainings)
        status = list_parts(&options, &error);
    else
        status = reproduce(&options, &ranks, &missed, &error);
done:
    icl_free(&options.command_line);
    icl_study_file_destroy(&options.file);
    icl_catalogue_close(&options.catalogue);
    return end_shared_work(&ranks, status, &error, missed > 0 ? EXIT_CHECK_FAILED : EXIT_DONE);
}

icl_status put_reproductions(const char *before, icl_error *error) {
    icl_catalogue catalogue;
    const icl_status status = icl_catalogue_open(&catalogue, error);

    printf("%sall\n", before);
    for (size_t i = 0; i < catalogue.count; i++)
        printf("%s%s\n", before, catalogue.rows[i].reproduction->name);
    icl_catalogue_close(&catalogue);
    return status;
}

static const positional positionals[] = {
    {"NAME", "a reproduction of --list, all, or the path of a study of your own, FILE.ini", false,
     offsetof(reproduce_options, name)},
};

static const option table[] = {
    {"--list", OPTION_FLAG, NULL, "what there is, with its source and cost", offsetof(reproduce_options, list)},
    {"--scale", OPTION_WORD, "ci|short|full", "seconds; minutes on two cores (default); or all that the paper shows",
     offsetof(reproduce_options, scale)},
    {"--only", OPTION_TEXT, "TEXT", "only the cells whose name contains it, such as L4-diag",
     offsetof(reproduce_options, only)},
    {"--cells", OPTION_FLAG, NULL, "list the cells of NAME at this scale, which --only chooses among, and run nothing",
     offsetof(reproduce_options, cells)},
    {"--trainings", OPTION_FLAG, NULL, "list the trainings of NAME at this scale and their settings, and run nothing",
     offsetof(reproduce_options, trainings)},
    {"--seed", OPTION_COUNT, "N", "first seed of training and evaluation (default " TEXT_OF(DEFAULT_SEED) ")",
     offsetof(reproduce_options, seed)},
    {"--out", OPTION_TEXT, "DIR", "where the folder NAME-SCALE goes (default " DEFAULT_FOLDER ")",
     offsetof(reproduce_options, out)},
    {"--workers", OPTION_COUNT, "N",
     "processes that train (default: one for each device; on the host one for each core)",
     offsetof(reproduce_options, workers)},
    DEVICE_OPTION_ROWS(reproduce_options, device),
    {"--json", OPTION_FLAG, NULL, "one JSON object per finding, and one per reproduction",
     offsetof(reproduce_options, json)},
    QUIET_OPTION_ROW(reproduce_options, device),
};

const subcommand command_reproduce = {
    .name = "reproduce",
    .about = "a paper's table or figure, computed afresh beside the published one",
    .summary = "Computes a published table or figure afresh and judges each number beside the published one.",
    .positionals = positionals,
    .positional_count = 1,
    .options = table,
    .option_count = sizeof table / sizeof *table,
    .notes = "Each row has what, quantity, our number with its standard error, the target with its tolerance, "
             "and whether it was met. [read]: a number printed in the paper or its code; [stated]: the paper's claim, "
             "judged by a number of ours; [computed]: in closed form or independently; [inferred]: from what the paper "
             "says; [recalled]: from memory, and never judged. Where a scale has only [computed] "
             "ones of a claim that another scale judges by others, they are self-checks, and the verdict says so. The "
             "exit code is 1 when a target is missed.\n\n"
             "DIR/NAME-SCALE holds report.html, result.json, findings.csv, the figures (CSV, gnuplot script, SVG and "
             "PNG) and "
             "a run folder for every training. The same command again trains only what is not finished there, from "
             "its last checkpoint; every number is evaluated anew. Trainings that do not depend on each other are "
             "shared by all cores, all devices given (--device SPEC,SPEC), the ranks of mpirun, and commands on other "
             "machines that see DIR; numbers are the same, no matter which process trained what.",
    .run = run,
};
