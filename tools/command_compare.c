/* iclab compare: compares two devices with the reference, on every op or on a training. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "iclab/compare.h"
#include "iclab/compare_training.h"
#include "iclab/csv.h"
#include "iclab/file.h"
#include "iclab/host.h"
#include "iclab/json.h"
#include "iclab/recipe.h"
#include "iclab/text.h"
#include "report/figure.h"
#include "terminal.h"

/* ---- Trainings ---- */

/* The number of steps if neither --steps nor a shorter recipe sets it. */
#define DEFAULT_COMPARED_STEPS 50

typedef struct training_options {
    const char *recipe_name; /* --train; NULL: compare ops instead */
    const char *out;         /* folder for the result, and for CSV files and a picture of trainings; may be NULL */
    option_list overrides;
    option_count steps, seed;
    bool json, every_step;
    const char *command_line;
    const icl_families *families; /* of --with */
} training_options;

#define FIGURE "training"

static const char *const table_names[ICL_TRAINING_MODES] = {"forced.csv", "free.csv"};

typedef struct report {
    const training_options *options;
    const char *specs[2]; /* device, against */
    uint64_t last_step;
    icl_training_mode mode; /* the mode whose header was printed last */
    bool header;
    icl_csv *tables[ICL_TRAINING_MODES];
    result_writer keep;
} report;

/* Reads the recipe as iclab train does: --steps sets the end and leaves the schedule of the recipe. */
static icl_status read_recipe(const training_options *options, icl_recipe **recipe, uint64_t *steps, icl_error *error) {
    ICL_CHECK(icl_recipe_create_named(options->families, options->recipe_name, recipe, error));
    ICL_CHECK(apply_overrides(*recipe, &options->overrides, error));
    if (options->seed.given)
        ICL_CHECK(icl_recipe_set_count(*recipe, "train", "seed", options->seed.value, error));
    const uint64_t budget = icl_recipe_count(*recipe, "train", "steps");
    *steps = options->steps.given              ? options->steps.value
             : budget < DEFAULT_COMPARED_STEPS ? budget
                                               : DEFAULT_COMPARED_STEPS;
    if (icl_recipe_count(*recipe, "train", "horizon") == 0)
        ICL_CHECK(icl_recipe_set_count(*recipe, "train", "horizon", budget, error));
    ICL_CHECK(icl_recipe_set_count(*recipe, "train", "steps", *steps, error));
    if (*steps == 0)
        return icl_fail(error, ICL_ERROR_INPUT, "--steps 0: expected at least one step to compare");
    return ICL_OK;
}

/* Returns whether a step is 1, 2, 5, 10, 20, 50, …: a growing difference shows on such a scale. */
static bool is_sampled(uint64_t step) {
    while (step >= 10 && step % 10 == 0)
        step /= 10;
    return step == 1 || step == 2 || step == 5;
}

static void print_training_header(report *r, icl_training_mode mode) {
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

static void training_repro_line(const report *r, uint64_t step, char *text, size_t capacity) {
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

    print_training_header(r, s->mode);
    if (passed && !r->options->every_step && !is_sampled(s->step) && s->step != r->last_step)
        return;
    printf("%6" PRIu64 " %12.6g   %10.2e %10.2e %10.2e   %10.2e %10.2e %10.2e%s%s\n", s->step, s->reference_loss,
           s->device.loss_difference, s->device.gradient_difference, s->device.parameter_difference,
           s->against.loss_difference, s->against.gradient_difference, s->against.parameter_difference,
           passed ? "" : "  ", passed ? "" : icl_verdict_name(s->verdict));
    if (passed)
        return;
    training_repro_line(r, s->step, repro, sizeof repro);
    printf("       %s\n       %s\n", s->reason, repro);
}

static void print_extremes(const char *spec, const icl_training_side_summary *s) {
    printf("  %-12s loss %.2e at step %" PRIu64 ", gradient %.2e at %" PRIu64 ", parameters %.2e at %" PRIu64 "\n",
           spec, s->loss.value, s->loss.step, s->gradient.value, s->gradient.step, s->parameters.value,
           s->parameters.step);
}

static void print_training_summary(const report *r, const icl_training_summary *s) {
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

    training_repro_line(r, s->step, repro, sizeof repro);
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
    return results_add(&r->keep, &json, error);
}

static icl_json training_summary_of(const icl_training_summary *s) {
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

static icl_status report_step(void *user, const icl_step_comparison *step, icl_error *error) {
    report *r = user;

    ICL_CHECK(write_row(r, step, error));
    if (!r->options->json)
        print_step(r, step);
    return keep_step(r, step, error);
}

static icl_status compare_training(const training_options *options, icl_backend *device, icl_backend *against,
                                   bool *failed, icl_error *error) {
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
                                   .backend = device}}};
    icl_training_params params = {.device = device, .against = against, .callback = report_step, .user = &r};
    icl_backend *reference = NULL;
    icl_recipe *recipe = NULL;
    icl_training_summary summary;
    icl_json last = {0};
    uint64_t seed;
    icl_status status = ICL_OK;

    ICL_TRY(results_begin(&r.keep, error));
    ICL_TRY(read_recipe(options, &recipe, &params.steps, error));
    ICL_TRY(icl_backend_open(&reference_params, &reference, error));
    params.recipe = recipe;
    params.reference = reference;
    r.last_step = params.steps;
    ICL_TRY(open_tables(&r, error));
    ICL_TRY(icl_compare_training(&params, &summary, error));
    if (!options->json)
        print_training_summary(&r, &summary);
    ICL_TRY(write_files(&r, error));
    seed = icl_recipe_count(recipe, "train", "seed");
    r.keep.facts.seed = &seed;
    last = training_summary_of(&summary);
    ICL_TRY(results_write(&r.keep, &last, error));
    *failed = summary.failed > 0;
done:
    icl_json_discard(&last);
    results_end(&r.keep);
    for (int mode = 0; mode < ICL_TRAINING_MODES; mode++)
        icl_csv_destroy(&r.tables[mode]);
    icl_recipe_destroy(&recipe);
    icl_backend_close(&reference);
    return status;
}

/* ---- Ops ---- */

#define DEFAULT_AGAINST "cpu"

typedef enum format { FORMAT_TABLE = 0, FORMAT_ALL, FORMAT_JSON, FORMAT_CSV } format;

/* The state of the printing of rows. */
typedef struct printer {
    format format;
    const char *device_spec, *against_spec;
    uint32_t seed;
    /* FORMAT_TABLE: the op whose cases are being collected into one line. */
    char title[64];
    size_t cases, failed;
    double device_worst, against_worst, device_ulp, bit_equal;
    bool has_header;
    result_writer keep;
} printer;

static void repro_line(const printer *p, const icl_comparison *row, char *text, size_t capacity) {
    snprintf(text, capacity, "iclab compare --device %s --against %s --op '%s' --seed %" PRIu32, p->device_spec,
             p->against_spec, row->name, p->seed);
}

static void close_title(printer *p) {
    char verdict[64];

    if (p->cases > 0)
        printf("%-34s %5zu %10.3g %10.3g %10.3g %8.1f %%  %s\n", p->title, p->cases, p->device_worst, p->against_worst,
               p->device_ulp, 100 * p->bit_equal / (double)p->cases,
               paint_verdict(p->failed ? "FAIL" : "PASS", p->failed == 0, verdict));
    p->cases = p->failed = 0;
    p->device_worst = p->against_worst = p->device_ulp = p->bit_equal = 0;
}

static void print_failure(const printer *p, const icl_comparison *row) {
    char repro[512];
    repro_line(p, row, repro, sizeof repro);
    printf("%s  %s\n      %s\n      %s\n", icl_verdict_name(row->verdict), row->name, row->reason, repro);
}

/* Prints one line per op, once all its cases are done; failures and skips in full. */
static void print_table_row(printer *p, const icl_comparison *row) {
    const int length = (int)row->title_length;
    if ((int)strlen(p->title) != length || strncmp(p->title, row->name, (size_t)length) != 0) {
        close_title(p);
        snprintf(p->title, sizeof p->title, "%.*s", length, row->name);
    }
    p->cases++;
    p->failed += row->verdict == ICL_VERDICT_FAIL;
    p->device_worst = fmax(p->device_worst, row->device.error_over_bound);
    p->against_worst = fmax(p->against_worst, row->against.error_over_bound);
    p->device_ulp = fmax(p->device_ulp, row->device.max_ulp);
    p->bit_equal += row->bit_equal;
    if (row->verdict == ICL_VERDICT_FAIL || row->verdict == ICL_VERDICT_SKIPPED)
        print_failure(p, row);
}

static void print_full_row(const printer *p, const icl_comparison *row) {
    printf("%-10s %-64s %9.3g %9.3g %9.3g %9.3g %9.3g %6.1f %%  %s\n", icl_verdict_name(row->verdict), row->name,
           row->device.error_over_bound, row->against.error_over_bound, row->device.max_error, row->device.rms_error,
           row->device.max_ulp, 100 * row->bit_equal, row->device.worst_name);
    if (row->verdict == ICL_VERDICT_FAIL || row->verdict == ICL_VERDICT_SKIPPED)
        print_failure(p, row);
}

static double worst_output(const icl_case_result *result) {
    return result->elements > 0 && result->outputs ? result->outputs[result->worst] : (double)NAN;
}

static icl_status keep_row(printer *p, const icl_comparison *row, icl_error *error) {
    icl_json json = {0};
    char repro[512];

    repro_line(p, row, repro, sizeof repro);
    icl_json_text(&json, "op", row->op);
    icl_json_text(&json, "case", row->name);
    icl_json_text(&json, "device", p->device_spec);
    icl_json_text(&json, "against", p->against_spec);
    icl_json_number(&json, "error_over_bound", row->device.error_over_bound);
    icl_json_number(&json, "against_error_over_bound", row->against.error_over_bound);
    icl_json_number(&json, "max_error", row->device.max_error);
    icl_json_number(&json, "rms_error", row->device.rms_error);
    icl_json_number(&json, "against_max_error", row->against.max_error);
    icl_json_number(&json, "against_rms_error", row->against.rms_error);
    icl_json_number(&json, "max_ulp", row->device.max_ulp);
    icl_json_number(&json, "bit_equal", row->bit_equal);
    icl_json_text(&json, "worst", row->device.worst_name);
    icl_json_number(&json, "worst_value", worst_output(&row->device));
    icl_json_number(&json, "worst_against",
                    row->against.elements > row->device.worst && row->against.outputs
                        ? row->against.outputs[row->device.worst]
                        : (double)NAN);
    icl_json_number(&json, "worst_truth", row->device.truth);
    icl_json_number(&json, "worst_bound", row->device.bound);
    icl_json_flag(&json, "specials_agree", row->device.specials_agree && row->against.specials_agree);
    icl_json_flag(&json, "repeatable", row->device.repeatable && row->against.repeatable);
    icl_json_text(&json, "verdict", icl_verdict_name(row->verdict));
    icl_json_text(&json, "reason", row->reason);
    icl_json_text(&json, "repro", repro);
    return results_add(&p->keep, &json, error);
}

static icl_status print_csv_row(const icl_comparison *row, icl_error *error) {
    const icl_case_result *device = &row->device;
    icl_text text = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_text_print(&text, error, "%s,", row->op));
    ICL_TRY(icl_text_field(&text, row->name, ",", error));
    ICL_TRY(icl_text_print(&text, error, "%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,", device->error_over_bound,
                           row->against.error_over_bound, device->max_error, device->rms_error, device->max_ulp,
                           row->bit_equal));
    ICL_TRY(icl_text_field(&text, device->worst_name, ",", error));
    printf("%s%.17g,%.17g,%s\n", text.bytes, worst_output(device), device->truth, icl_verdict_name(row->verdict));
done:
    icl_text_release(&text);
    return status;
}

/* Prints the header just before the first row, so that nothing is printed if no case matches. */
static void print_header(printer *p) {
    if (p->has_header)
        return;
    p->has_header = true;
    if (p->format == FORMAT_TABLE)
        printf("%s against %s, each judged by the exact result\n%-34s %5s %10s %10s %10s %10s\n%-34s %5s "
               "%10s %10s %10s %10s\n",
               p->device_spec, p->against_spec, "", "", "err/bound", "err/bound", "max ulp", "bit-equal", "op", "cases",
               "device", "against", "device", "");
    else if (p->format == FORMAT_ALL)
        printf("%-10s %-64s %9s %9s %9s %9s %9s %8s  %s\n", "verdict", "case", "err/bound", "against", "max error",
               "rms error", "max ulp", "equal", "worst element");
    else if (p->format == FORMAT_CSV)
        printf("op,case,error_over_bound,against_error_over_bound,max_error,rms_error,max_ulp,bit_equal,worst,"
               "worst_value,worst_truth,verdict\n");
}

static icl_status print_row(void *user, const icl_comparison *row, icl_error *error) {
    printer *p = user;
    print_header(p);
    switch (p->format) {
    case FORMAT_TABLE:
        print_table_row(p, row);
        break;
    case FORMAT_ALL:
        print_full_row(p, row);
        break;
    case FORMAT_JSON:
        break;
    case FORMAT_CSV:
        ICL_CHECK(print_csv_row(row, error));
        break;
    }
    return keep_row(p, row, error);
}

static void print_summary(printer *p, const icl_compare_summary *s) {
    const size_t *verdicts = s->verdicts;
    if (p->format == FORMAT_TABLE)
        close_title(p);
    if (p->format == FORMAT_TABLE || p->format == FORMAT_ALL)
        printf("\n%zu cases: %zu passed, %zu failed, %zu skipped, %zu with a constant truth\n"
               "closest to its bound: %s at %.3g\n",
               s->cases, verdicts[ICL_VERDICT_PASS], verdicts[ICL_VERDICT_FAIL], verdicts[ICL_VERDICT_SKIPPED],
               verdicts[ICL_VERDICT_MISTRUSTED], s->worst_name, s->worst);
    if ((p->format == FORMAT_TABLE || p->format == FORMAT_ALL) && s->left_out > 0)
        printf("left out, because the time was over: %zu cases\n", s->left_out);
}

static icl_json summary_of(const icl_compare_summary *s) {
    icl_json json = {0};

    icl_json_count(&json, "cases", s->cases);
    icl_json_count(&json, "left_out", s->left_out);
    icl_json_count(&json, "failed", s->verdicts[ICL_VERDICT_FAIL]);
    icl_json_count(&json, "skipped", s->verdicts[ICL_VERDICT_SKIPPED]);
    icl_json_count(&json, "mistrusted", s->verdicts[ICL_VERDICT_MISTRUSTED]);
    icl_json_number(&json, "worst", isfinite(s->worst) ? s->worst : 1e308);
    icl_json_text(&json, "worst_case", s->worst_name);
    return json;
}

typedef struct compare_options {
    const char *pattern, *against;
    device_options device;
    training_options training;
    option_number seconds;
    bool csv;
} compare_options;

/* Compares the op cases. Sets *failed to whether some case failed. */
static icl_status compare_ops(icl_backend *device, icl_backend *against, printer *p, const compare_options *options,
                              bool *failed, icl_error *error) {
    icl_compare_summary summary;
    icl_json last;

    p->device_spec = icl_backend_capabilities(device)->spec;
    p->against_spec = icl_backend_capabilities(against)->spec;
    const icl_compare_params params = {.device = device,
                                       .against = against,
                                       .pattern = options->pattern,
                                       .seed = p->seed,
                                       .seconds = options->seconds.value,
                                       .callback = print_row,
                                       .user = p};
    ICL_CHECK(icl_compare(&params, &summary, error));
    print_summary(p, &summary);
    *failed = summary.verdicts[ICL_VERDICT_FAIL] > 0;
    p->keep.facts.backend = device;
    last = summary_of(&summary);
    return results_write(&p->keep, &last, error);
}

static icl_status compare(const compare_options *options, printer *p, bool *failed, icl_error *error) {
    icl_backend *first = NULL, *second = NULL;
    icl_status status = ICL_OK;
    const device_options other = {.spec = options->against ? options->against : DEFAULT_AGAINST,
                                  .quiet = options->device.quiet,
                                  .accept_failed_self_test = true,
                                  .is_another = true};

    ICL_TRY(open_device(&options->device, &first, error));
    ICL_TRY(open_device(&other, &second, error));
    status = options->training.recipe_name ? compare_training(&options->training, first, second, failed, error)
                                           : compare_ops(first, second, p, options, failed, error);
done:
    icl_backend_close(&first);
    icl_backend_close(&second);
    return status;
}

/* Refuses options of the other kind of comparison, and seeds that are too large. */
static icl_status check_usage(const compare_options *options, icl_error *error) {
    const training_options *training = &options->training;

    if (training->recipe_name && (options->pattern || options->csv || options->seconds.given))
        return icl_fail(error, ICL_ERROR_INPUT, "compare: %s: expected no such option beside --train%s",
                        options->pattern ? "--op"
                        : options->csv   ? "--csv"
                                         : "--seconds",
                        options->csv ? "; --out DIR writes CSV files" : "");
    if (options->seconds.given && !(options->seconds.value > 0))
        return icl_fail(error, ICL_ERROR_INPUT, "compare: --seconds %g: expected more than 0", options->seconds.value);
    if (!training->recipe_name && (training->steps.given || training->overrides.count > 0))
        return icl_fail(error, ICL_ERROR_INPUT, "compare: --steps and --set: expected --train RECIPE beside them");
    if (training->seed.value > UINT32_MAX)
        return icl_fail(error, ICL_ERROR_INPUT, "--seed %" PRIu64 ": expected at most %" PRIu32, training->seed.value,
                        UINT32_MAX);
    return ICL_OK;
}

static int run(const icl_families *families, int count, char *const *arguments) {
    /* A device that fails its self-test is accepted, because compare exists to examine it. */
    compare_options options = {.device = {.accept_failed_self_test = true}, .training = {.families = families}};
    char *command_line = NULL;
    printer p = {0};
    bool failed = false;
    icl_error error = {0};
    icl_status status;

    ICL_TRY(read_command_line(&command_compare, count, arguments, &options, &error));
    ICL_TRY(check_usage(&options, &error));
    ICL_TRY(join_command_line(families, "compare", count, arguments, &command_line, &error));
    options.training.command_line = command_line;
    p.format = options.training.json         ? FORMAT_JSON
               : options.csv                 ? FORMAT_CSV
               : options.training.every_step ? FORMAT_ALL
               : options.seconds.given       ? FORMAT_ALL /* cases of an op are not consecutive */
                                             : FORMAT_TABLE;
    p.seed = (uint32_t)options.training.seed.value;
    p.keep = (result_writer){
        .folder = options.training.out,
        .json = options.training.json,
        .quiet = options.device.quiet,
        .is_wrapped = true,
        .facts = {.command = "compare", .command_line = command_line, .seed = &options.training.seed.value}};
    ICL_TRY(results_begin(&p.keep, &error));
    ICL_TRY(compare(&options, &p, &failed, &error));
done:
    results_end(&p.keep);
    icl_text_free(&command_line);
    if (status != ICL_OK)
        return report_failure(status, &error);
    return failed ? EXIT_CHECK_FAILED : EXIT_DONE;
}

static const option table[] = {
    DEVICE_OPTION_ROWS(compare_options, device),
    {"--against", OPTION_TEXT, "SPEC", "the device to compare with (default " DEFAULT_AGAINST ")",
     offsetof(compare_options, against)},
    {"--op", OPTION_TEXT, "PATTERN", "only cases whose name holds this text, such as matmul or \"softmax backward\"",
     offsetof(compare_options, pattern)},
    {"--seed", OPTION_COUNT, "N", "other random values (default 0); with --train, train.seed",
     offsetof(compare_options, training.seed)},
    {"--seconds", OPTION_NUMBER, "N",
     "begin no case after N seconds; the cases come in an order that is spread over all ops, one line each",
     offsetof(compare_options, seconds)},
    {"--train", OPTION_TEXT, "RECIPE", "compare training steps instead of ops: a name or the path of an INI file",
     offsetof(compare_options, training.recipe_name)},
    {"--steps", OPTION_COUNT, "N", "with --train: how many (default " TEXT_OF(DEFAULT_COMPARED_STEPS) ")",
     offsetof(compare_options, training.steps)},
    {"--set", OPTION_LIST, "SECTION.KEY=VALUE", "with --train: change one key of the recipe; may be given again",
     offsetof(compare_options, training.overrides)},
    {"--out", OPTION_TEXT, "DIR",
     "keep the table there, as result.json and result.csv; with --train also forced.csv, free.csv and a picture",
     offsetof(compare_options, training.out)},
    {"--all", OPTION_FLAG, NULL, "one line per case instead of one per op; with --train, every step",
     offsetof(compare_options, training.every_step)},
    {"--json", OPTION_FLAG, NULL, "one JSON object per case or step, and a last one with the summary",
     offsetof(compare_options, training.json)},
    {"--csv", OPTION_FLAG, NULL, "one CSV row per case", offsetof(compare_options, csv)},
    QUIET_OPTION_ROW(compare_options, device),
};

const subcommand command_compare = {
    .name = "compare",
    .about = "how far a device is from another and from exact arithmetic, op by op",
    .summary = "Runs every op on two devices and judges both by the exact result and its error bound.",
    .options = table,
    .option_count = sizeof table / sizeof *table,
    .notes = "err/bound is the largest error of an element over the error that arithmetic of this precision may "
             "make there. At most 1 is rounding; above 1 is a bug, in the device, its driver or iclab. The exit "
             "code is 1 when a case fails. Each failure comes with a line that repeats it alone.\n\n"
             "--train runs N training steps on both devices and on ref, in double precision, with the same data. "
             "Forced: each step starts from the reference's state, so that the step itself makes its difference. "
             "Free-running: both start alike and drift apart. A forced step fails when one device loses half of "
             "its digits and the other does not.",
    .takes_families = true,
    .run = run,
};
