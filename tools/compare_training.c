#include "compare_training.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "iclab/compare_training.h"
#include "iclab/csv.h"
#include "iclab/figure.h"
#include "iclab/file.h"
#include "iclab/host.h"
#include "iclab/json.h"
#include "iclab/recipe.h"
#include "iclab/text.h"
#include "picture.h"

#define FIGURE "training"

static const char *const table_names[ICL_TRAINING_MODES] = {"forced.csv", "free.csv"};

typedef struct report {
    const training_options *options;
    const char *specs[2]; /* device, against */
    uint64_t last_step;
    icl_training_mode mode; /* whose header was printed last */
    bool header;
    icl_csv *tables[ICL_TRAINING_MODES];
    kept keep;
} report;

/* ---- The recipe ---- */

/* As iclab train has it: --steps says how far to go and leaves the schedule where the recipe put it. */
static icl_status read_recipe(const training_options *options, icl_recipe **recipe, uint64_t *steps, icl_error *error) {
    char *path = NULL, assignment[64];
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_complete(recipe, error));
    ICL_TRY(icl_recipe_locate(options->recipe_name, &path, error));
    ICL_TRY(icl_recipe_load(*recipe, path, error));
    ICL_TRY(apply_overrides(*recipe, &options->overrides, error));
    if (options->seed.given) {
        snprintf(assignment, sizeof assignment, "train.seed=%" PRIu64, options->seed.value);
        ICL_TRY(icl_recipe_override(*recipe, assignment, error));
    }
    const uint64_t budget = icl_recipe_count(*recipe, "train", "steps");
    *steps = options->steps.given              ? options->steps.value
             : budget < DEFAULT_COMPARED_STEPS ? budget
                                               : DEFAULT_COMPARED_STEPS;
    if (icl_recipe_count(*recipe, "train", "horizon") == 0) {
        snprintf(assignment, sizeof assignment, "train.horizon=%" PRIu64, budget);
        ICL_TRY(icl_recipe_override(*recipe, assignment, error));
    }
    snprintf(assignment, sizeof assignment, "train.steps=%" PRIu64, *steps);
    ICL_TRY(icl_recipe_override(*recipe, assignment, error));
    if (*steps == 0)
        status = icl_fail(error, ICL_ERROR_INPUT, "--steps 0: expected at least one step to compare");
done:
    icl_free(&path);
    return status;
}

/* ---- The table ---- */

/* 1, 2, 5, 10, 20, 50, …: a difference that grows is seen on such a scale. */
static bool is_sampled(uint64_t step) {
    while (step >= 10 && step % 10 == 0)
        step /= 10;
    return step == 1 || step == 2 || step == 5;
}

static void print_header(report *r, icl_training_mode mode) {
    if (r->header && r->mode == mode)
        return;
    printf("%s%s\n%6s %12s   %-32s   %s\n%6s %12s   %10s %10s %10s   %10s %10s %10s\n", r->header ? "\n" : "",
           mode == ICL_TRAINING_FORCED
               ? "forced: every step starts from the reference's state; relative differences after it"
               : "free-running: all start alike and go on by themselves; relative differences so far",
           "", "reference", r->specs[0], r->specs[1], "step", "loss", "loss", "gradient", "parameters", "loss",
           "gradient", "parameters");
    r->header = true;
    r->mode = mode;
}

static void repro_line(const report *r, uint64_t step, char *text, size_t capacity) {
    size_t used = (size_t)snprintf(text, capacity, "iclab compare --device %s --against %s --train %s", r->specs[0],
                                   r->specs[1], r->options->recipe_name);
    for (size_t i = 0; i < r->options->overrides.count && used < capacity; i++)
        used += (size_t)snprintf(text + used, capacity - used, " --set '%s'", r->options->overrides.values[i]);
    if (r->options->seed.given && used < capacity)
        used += (size_t)snprintf(text + used, capacity - used, " --seed %" PRIu64, r->options->seed.value);
    if (used < capacity)
        snprintf(text + used, capacity - used, " --steps %" PRIu64, step);
}

static void print_step(report *r, const icl_step_comparison *s) {
    char repro[1024];
    const bool passed = s->verdict == ICL_VERDICT_PASS;

    print_header(r, s->mode);
    if (passed && !r->options->every_step && !is_sampled(s->step) && s->step != r->last_step)
        return;
    printf("%6" PRIu64 " %12.6g   %10.2e %10.2e %10.2e   %10.2e %10.2e %10.2e%s%s\n", s->step, s->reference_loss,
           s->device.loss_difference, s->device.gradient_difference, s->device.parameter_difference,
           s->against.loss_difference, s->against.gradient_difference, s->against.parameter_difference,
           passed ? "" : "  ", passed ? "" : icl_verdict_name(s->verdict));
    if (passed)
        return;
    repro_line(r, s->step, repro, sizeof repro);
    printf("       %s\n       %s\n", s->reason, repro);
}

static void print_extremes(const char *spec, const icl_training_side_summary *s) {
    printf("  %-12s loss %.2e at step %" PRIu64 ", gradient %.2e at %" PRIu64 ", parameters %.2e at %" PRIu64 "\n",
           spec, s->loss.value, s->loss.step, s->gradient.value, s->gradient.step, s->parameters.value,
           s->parameters.step);
}

static void print_summary(const report *r, const icl_training_summary *s) {
    static const char *const titles[ICL_TRAINING_MODES] = {"largest in one forced step", "largest drift"};
    for (int mode = 0; mode < ICL_TRAINING_MODES; mode++) {
        if (s->steps[mode] == 0)
            continue;
        printf("\n%s, of %" PRIu64 " steps:\n", titles[mode], s->steps[mode]);
        print_extremes(r->specs[0], &s->device[mode]);
        print_extremes(r->specs[1], &s->against[mode]);
    }
    if (s->reference_diverged)
        printf("\nthe reference itself diverged at step %" PRIu64 ": what follows says nothing of devices\n",
               s->reference_diverged);
    printf("\n%" PRIu64 " steps failed, %" PRIu64 " lost half of their digits on every device\n", s->failed,
           s->mistrusted);
}

/* ---- JSON ---- */

static void add_side(icl_json *json, const char *prefix, const icl_training_side *side) {
    const struct {
        const char *name;
        double value;
    } members[] = {
        {"loss", side->loss},
        {"gradient_norm", side->gradient_norm},
        {"loss_difference", side->loss_difference},
        {"gradient_norm_difference", side->norm_difference},
        {"gradient_difference", side->gradient_difference},
        {"parameter_difference", side->parameter_difference},
    };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", prefix, members[i].name);
        icl_json_number(json, name, members[i].value);
    }
}

static icl_status keep_step(report *r, const icl_step_comparison *s, icl_error *error) {
    icl_json json = {0};
    char repro[1024];

    repro_line(r, s->step, repro, sizeof repro);
    icl_json_text(&json, "mode", icl_training_mode_name(s->mode));
    icl_json_count(&json, "step", s->step);
    icl_json_text(&json, "device", r->specs[0]);
    icl_json_text(&json, "against", r->specs[1]);
    icl_json_number(&json, "reference_loss", s->reference_loss);
    icl_json_number(&json, "reference_gradient_norm", s->reference_gradient_norm);
    add_side(&json, "", &s->device);
    add_side(&json, "against_", &s->against);
    icl_json_text(&json, "verdict", icl_verdict_name(s->verdict));
    icl_json_text(&json, "reason", s->reason);
    icl_json_text(&json, "repro", repro);
    return kept_row(&r->keep, &json, error);
}

static icl_json summary_of(const icl_training_summary *s) {
    icl_json json = {0};
    const icl_training_side_summary *forced = &s->device[ICL_TRAINING_FORCED], *running = &s->device[ICL_TRAINING_FREE];

    icl_json_count(&json, "forced_steps", s->steps[ICL_TRAINING_FORCED]);
    icl_json_count(&json, "free_steps", s->steps[ICL_TRAINING_FREE]);
    icl_json_count(&json, "failed", s->failed);
    icl_json_count(&json, "mistrusted", s->mistrusted);
    icl_json_count(&json, "reference_diverged", s->reference_diverged);
    icl_json_number(&json, "forced_loss_difference", forced->loss.value);
    icl_json_count(&json, "forced_loss_step", forced->loss.step);
    icl_json_number(&json, "forced_gradient_difference", forced->gradient.value);
    icl_json_count(&json, "forced_gradient_step", forced->gradient.step);
    icl_json_number(&json, "drift_loss", running->last_loss);
    icl_json_number(&json, "drift_parameters", running->last_parameters);
    icl_json_number(&json, "against_drift_loss", s->against[ICL_TRAINING_FREE].last_loss);
    icl_json_number(&json, "against_drift_parameters", s->against[ICL_TRAINING_FREE].last_parameters);
    return json;
}

/* ---- Files ---- */

static const char header[] =
    "step,reference_loss,reference_gradient_norm,loss,gradient_norm,loss_difference,gradient_norm_difference,"
    "gradient_difference,parameter_difference,against_loss,against_gradient_norm,against_loss_difference,"
    "against_gradient_norm_difference,against_gradient_difference,against_parameter_difference";

/* Arguments: the devices' specs, one pair for each of the two panels. */
static const char script_format[] = "set multiplot layout 2,1\n"
                                    "set logscale y\n"
                                    "set format y '%%.0e'\n"
                                    "set key below noenhanced\n"
                                    "set grid\n"
                                    "set xlabel 'step'\n"
                                    "set ylabel 'relative difference from the reference'\n"
                                    "set title 'forced: the error of one step'\n"
                                    "plot 'forced.csv' using 1:6 with linespoints pointtype 7 pointsize 0.6 "
                                    "linecolor '#0072b2' title '%1$s loss', \\\n"
                                    "     '' using 1:8 with linespoints pointtype 4 pointsize 0.7 linecolor "
                                    "'#0072b2' title '%1$s gradient', \\\n"
                                    "     '' using 1:12 with linespoints pointtype 7 pointsize 0.6 linecolor "
                                    "'#d55e00' dashtype 2 title '%2$s loss', \\\n"
                                    "     '' using 1:14 with linespoints pointtype 4 pointsize 0.7 linecolor "
                                    "'#d55e00' dashtype 2 title '%2$s gradient'\n"
                                    "set title 'free-running: the drift since the first step'\n"
                                    "plot 'free.csv' using 1:6 with linespoints pointtype 7 pointsize 0.6 "
                                    "linecolor '#0072b2' title '%1$s loss', \\\n"
                                    "     '' using 1:9 with linespoints pointtype 4 pointsize 0.7 linecolor "
                                    "'#0072b2' title '%1$s parameters', \\\n"
                                    "     '' using 1:12 with linespoints pointtype 7 pointsize 0.6 linecolor "
                                    "'#d55e00' dashtype 2 title '%2$s loss', \\\n"
                                    "     '' using 1:15 with linespoints pointtype 4 pointsize 0.7 linecolor "
                                    "'#d55e00' dashtype 2 title '%2$s parameters'\n"
                                    "unset multiplot\n";

static icl_status open_tables(report *r, icl_error *error) {
    icl_status status = ICL_OK;
    char *path = NULL;

    if (!r->options->out)
        return ICL_OK;
    ICL_TRY(icl_folder_create(r->options->out, error));
    for (int mode = 0; mode < ICL_TRAINING_MODES; mode++) {
        ICL_TRY(icl_path_join(r->options->out, table_names[mode], &path, error));
        ICL_TRY(icl_csv_create(path, header, &r->tables[mode], error));
        icl_free(&path);
    }
done:
    icl_free(&path);
    return status;
}

static icl_status write_row(const report *r, const icl_step_comparison *s, icl_error *error) {
    const icl_training_side *a = &s->device, *b = &s->against;
    const double values[] = {
        s->reference_loss,      s->reference_gradient_norm, a->loss,
        a->gradient_norm,       a->loss_difference,         a->norm_difference,
        a->gradient_difference, a->parameter_difference,    b->loss,
        b->gradient_norm,       b->loss_difference,         b->norm_difference,
        b->gradient_difference, b->parameter_difference,
    };
    if (!r->options->out)
        return ICL_OK;
    return icl_csv_row(r->tables[s->mode], s->step, values, sizeof values / sizeof *values, error);
}

static icl_status write_script(const report *r, bool *missing_gnuplot, icl_error *error) {
    enum { WIDTH = 900, HEIGHT = 900 };
    const icl_drawing drawing = {
        .folder = r->options->out, .command = "iclab compare --train", .draw = draw_figure, .user = missing_gnuplot};
    icl_text script = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_text_print(&script, error, script_format, r->specs[0], r->specs[1]));
    ICL_TRY(icl_script_write(&drawing, FIGURE, WIDTH, HEIGHT, script.bytes, error));
done:
    icl_text_release(&script);
    return status;
}

static icl_status write_files(const report *r, icl_error *error) {
    bool missing_gnuplot = false;

    if (!r->options->out)
        return ICL_OK;
    for (int mode = 0; mode < ICL_TRAINING_MODES; mode++)
        ICL_CHECK(icl_csv_flush(r->tables[mode], error));
    ICL_CHECK(write_script(r, &missing_gnuplot, error));
    fprintf(stderr, "iclab: %s: " ICL_RESULT_FILE ", %s, %s, " FIGURE ".gp%s\n", r->options->out, table_names[0],
            table_names[1],
            missing_gnuplot ? "; no gnuplot here: gnuplot " FIGURE ".gp in that folder draws " FIGURE ".svg"
                            : ", " FIGURE ".svg, " FIGURE ".png");
    return ICL_OK;
}

/* ---- The whole ---- */

static icl_status report_step(void *user, const icl_step_comparison *step, icl_error *error) {
    report *r = user;

    ICL_CHECK(write_row(r, step, error));
    if (!r->options->json)
        print_step(r, step);
    return keep_step(r, step, error);
}

icl_status compare_training(const training_options *options, icl_backend *device, icl_backend *against, bool *failed,
                            icl_error *error) {
    const icl_backend_params reference_params = {.spec = "ref"};
    report r = {.options = options,
                .specs = {icl_backend_capabilities(device)->spec, icl_backend_capabilities(against)->spec},
                .keep = {.folder = options->out,
                         .json = options->json,
                         .quiet = true,
                         .is_wrapped = true,
                         .facts = {.command = "compare",
                                   .command_line = options->command_line,
                                   .recipe_name = options->recipe_name,
                                   .device = icl_backend_capabilities(device)}}};
    icl_training_params params = {.device = device, .against = against, .callback = report_step, .user = &r};
    icl_backend *reference = NULL;
    icl_recipe *recipe = NULL;
    icl_training_summary summary;
    icl_json last = {0};
    uint64_t seed;
    icl_status status = ICL_OK;

    ICL_TRY(kept_begin(&r.keep, error));
    ICL_TRY(read_recipe(options, &recipe, &params.steps, error));
    ICL_TRY(icl_backend_open(&reference_params, &reference, error));
    params.recipe = recipe;
    params.reference = reference;
    r.last_step = params.steps;
    ICL_TRY(open_tables(&r, error));
    ICL_TRY(icl_compare_training(&params, &summary, error));
    if (!options->json)
        print_summary(&r, &summary);
    ICL_TRY(write_files(&r, error));
    seed = icl_recipe_count(recipe, "train", "seed");
    r.keep.facts.seed = &seed;
    last = summary_of(&summary);
    ICL_TRY(kept_finish(&r.keep, &last, error));
    *failed = summary.failed > 0;
done:
    icl_json_discard(&last);
    kept_end(&r.keep);
    for (int mode = 0; mode < ICL_TRAINING_MODES; mode++)
        icl_csv_destroy(&r.tables[mode]);
    icl_recipe_destroy(&recipe);
    icl_backend_close(&reference);
    return status;
}
