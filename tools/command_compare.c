#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "compare_training.h"
#include "iclab/compare.h"
#include "iclab/json.h"
#include "iclab/recipe.h"
#include "iclab/text.h"
#include "terminal.h"

#define DEFAULT_AGAINST "cpu"

typedef enum format { FORMAT_TABLE = 0, FORMAT_ALL, FORMAT_JSON, FORMAT_CSV } format;

/* What the printing of rows needs to know and to remember. */
typedef struct printer {
    format format;
    const char *device_spec, *against_spec;
    uint32_t seed;
    /* FORMAT_TABLE: the op whose cases are being gathered into one line. */
    char title[64];
    size_t cases, failed;
    double device_worst, against_worst, device_ulp, bit_equal;
    bool has_header;
    kept keep;
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

/* One line per op, once all its cases are in; failures and skips in full. */
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
    return kept_row(&p->keep, &json, error);
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

/* Above the first row, so that nothing is printed when no case matches. */
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

/* The op cases. *failed: some case did. */
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
    p->keep.facts.device = icl_backend_capabilities(device);
    last = summary_of(&summary);
    return kept_finish(&p->keep, &last, error);
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

/* Options that belong to the other of the two comparisons, and seeds beyond the largest. */
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

static int run(int count, char *const *arguments) {
    /* A wrong device is what this is for. */
    compare_options options = {.device = {.accept_failed_self_test = true}};
    char *command_line = NULL;
    printer p = {0};
    bool failed = false;
    icl_error error = {0};
    icl_status status;

    ICL_TRY(read_command_line(&command_compare, count, arguments, &options, &error));
    ICL_TRY(check_usage(&options, &error));
    ICL_TRY(join_command_line("compare", count, arguments, &command_line, &error));
    options.training.command_line = command_line;
    p.format = options.training.json         ? FORMAT_JSON
               : options.csv                 ? FORMAT_CSV
               : options.training.every_step ? FORMAT_ALL
               : options.seconds.given       ? FORMAT_ALL /* cases of an op do not follow each other */
                                             : FORMAT_TABLE;
    p.seed = (uint32_t)options.training.seed.value;
    p.keep =
        (kept){.folder = options.training.out,
               .json = options.training.json,
               .quiet = options.device.quiet,
               .is_wrapped = true,
               .facts = {.command = "compare", .command_line = command_line, .seed = &options.training.seed.value}};
    ICL_TRY(kept_begin(&p.keep, &error));
    ICL_TRY(compare(&options, &p, &failed, &error));
done:
    kept_end(&p.keep);
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
    .run = run,
};
