#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "iclab/json.h"
#include "iclab/number.h"
#include "iclab/recipe.h"
#include "run/bench.h"

#define DEFAULT_SECONDS 1
#define MAX_SECONDS     86400

typedef struct bench_options {
    device_options device;
    const char *pattern, *recipe_name, *out;
    option_list overrides;
    option_number seconds;
    bool json, on_request, by_op;
    char *command_line;
    const icl_families *families; /* of --with */
} bench_options;

typedef struct printer {
    result_writer keep;
    bool has_header;
} printer;

/* ---- Output ---- */

/* Writes "12.3 us", right-aligned to nine characters; "-" for a time that was not measured. */
static const char *format_seconds(double seconds, char text[16]) {
    static const struct {
        double unit;
        const char *name;
    } units[] = {{1, "s "}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}};
    size_t i = 0;

    if (isnan(seconds)) {
        snprintf(text, 16, "%9s", "-");
        return text;
    }
    while (i < 3 && seconds < units[i].unit)
        i++;
    snprintf(text, 16, "%6.4g %s", seconds / units[i].unit, units[i].name);
    return text;
}

/* Writes a number with a suffix, or "-". */
static const char *format_value(double value, int width, int digits, const char *suffix, char text[24]) {
    if (isnan(value))
        snprintf(text, 24, "%*s", width + (int)strlen(suffix), "-");
    else
        snprintf(text, 24, "%*.*f%s", width, digits, value, suffix);
    return text;
}

static void print_table_row(printer *p, const icl_bench_row *row) {
    char median[16], min[16], max[16], compile[16], on_device[16];
    char gflops[24], gbytes[24], share[24], launches[24], ratio[24];

    if (!p->has_header)
        printf("%-54s %9s %9s %9s %8s %7s %7s %9s %9s %7s %7s\n", row->device, "median", "min", "max", "GFLOP/s",
               "GB/s", "of peak", "compile", "kernels", "queued", "vs cpu");
    p->has_header = true;
    printf("%-54s %s %s %s %s %s %s %s %s %s %s\n", row->name, format_seconds(row->times.median, median),
           format_seconds(row->times.min, min), format_seconds(row->times.max, max),
           format_value(row->gflops, 8, 2, "", gflops), format_value(row->gbytes_per_s, 7, 2, "", gbytes),
           format_value(100 * row->peak_share, 5, 1, " %", share), format_seconds(row->compile, compile),
           format_seconds(row->on_device, on_device), format_value(row->launches, 7, 0, "", launches),
           format_value(row->cpu_median / row->times.median, 6, 2, "x", ratio));
}

static void print_ops(const icl_bench_row *row) {
    char seconds[16], launches[24], share[24];

    printf("\n%-54s %9s %9s %7s %9s\n", "one step, by op", "time", "calls", "kernels", "of these");
    for (size_t i = 0; i < row->of_ops_count; i++) {
        const icl_bench_op *op = &row->of_ops[i];
        printf("%-54s %s %9.4g %s %s\n", op->name, format_seconds(op->seconds, seconds), op->calls,
               format_value(op->launches > 0 ? op->launches : (double)NAN, 7, 0, "", launches),
               format_value(100 * op->share, 7, 1, " %", share));
    }
}

static icl_status keep_ops(printer *p, const icl_bench_row *row, icl_error *error) {
    for (size_t i = 0; i < row->of_ops_count; i++) {
        const icl_bench_op *op = &row->of_ops[i];
        icl_json json = {0};
        icl_json_text(&json, "case", row->name);
        icl_json_text(&json, "device", row->device);
        icl_json_text(&json, "op", op->name);
        icl_json_number(&json, "seconds", op->seconds);
        icl_json_number(&json, "calls", op->calls);
        icl_json_number(&json, "launches", op->launches);
        icl_json_number(&json, "share", op->share);
        ICL_CHECK(results_add_to(&p->keep, "ops", &json, error));
    }
    return ICL_OK;
}

static icl_status keep_row(printer *p, const icl_bench_row *row, icl_error *error) {
    icl_json json = {0};

    icl_json_text(&json, "case", row->name);
    icl_json_text(&json, "device", row->device);
    icl_json_number(&json, "median_s", row->times.median);
    icl_json_number(&json, "min_s", row->times.min);
    icl_json_number(&json, "max_s", row->times.max);
    icl_json_number(&json, "gflops", row->gflops);
    icl_json_number(&json, "gbytes_per_s", row->gbytes_per_s);
    icl_json_number(&json, "peak_share", row->peak_share);
    icl_json_number(&json, "compile_s", row->compile);
    icl_json_number(&json, "kernels_s", row->on_device);
    icl_json_number(&json, "launches", row->launches);
    icl_json_number(&json, "ops", row->ops);
    icl_json_number(&json, "cpu_median_s", row->cpu_median);
    icl_json_number(&json, "times_cpu", row->cpu_median / row->times.median);
    icl_json_count(&json, "turns", row->times.turns);
    icl_json_count(&json, "calls_a_turn", row->times.calls_a_turn);
    return results_add(&p->keep, &json, error);
}

/* Prints each row as soon as it is measured, so that a long bench shows its progress. */
static icl_status print_row(void *user, const icl_bench_row *row, icl_error *error) {
    printer *p = user;

    if (!p->keep.json)
        print_table_row(p, row);
    ICL_CHECK(keep_row(p, row, error));
    if (!p->keep.json && row->of_ops_count > 0)
        print_ops(row);
    ICL_CHECK(keep_ops(p, row, error));
    return finish_output(error);
}

/* Prints a line "ready" or with the seconds of the last turn, then reads the next line of stdin: a number of calls. */
static icl_status next_turn(void *user, double seconds, size_t *calls, icl_error *error) {
    char line[64];
    uint64_t count;
    (void)user;

    if (isnan(seconds))
        printf("{\"ready\": true}\n");
    else
        printf("{\"seconds\": %.9g}\n", seconds);
    const icl_status status = finish_output(error);
    if (status != ICL_OK || !fgets(line, sizeof line, stdin))
        return status;
    line[strcspn(line, "\n")] = '\0';
    if (!icl_parse_count(line, strlen(line), &count) || count > 1000000)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "bench: standard input: expected a number of calls, up to 1000000, on each line");
    *calls = (size_t)count;
    return ICL_OK;
}

/* ---- The command ---- */

static icl_status read_recipe(const bench_options *options, icl_recipe **recipe, icl_error *error) {
    ICL_CHECK(icl_recipe_create_named(options->families, options->recipe_name, recipe, error));
    return apply_overrides(*recipe, &options->overrides, error);
}

/* Opens the device once more with a profiling queue, and the plain C backend to compare with. */
static icl_status open_others(const bench_options *options, icl_bench_params *params, icl_error *error) {
    const icl_capabilities *device = icl_backend_capabilities(params->device);
    device_options profiled = options->device, cpu = {.spec = "cpu", .quiet = true};

    profiled.spec = device->spec;
    profiled.profile = profiled.quiet = true;
    if (device->kind != ICL_DEVICE_HOST || options->by_op)
        ICL_CHECK(open_device(&profiled, &params->profiled, error));
    if (strcmp(device->spec, "cpu") != 0)
        ICL_CHECK(open_device(&cpu, &params->cpu, error));
    return ICL_OK;
}

static result_writer keep_of(const bench_options *options) {
    return (result_writer){
        .folder = options->out,
        .json = options->json,
        .quiet = options->device.quiet,
        .facts = {.command = "bench", .command_line = options->command_line, .recipe_name = options->recipe_name}};
}

/* With --json and no folder, only rows are printed. */
static icl_status finish_kept(result_writer *keep, const icl_backend *device, icl_error *error) {
    keep->facts.backend = device;
    return keep->folder ? results_write(keep, &(icl_json){0}, error) : ICL_OK;
}

static icl_status bench(const bench_options *options, icl_error *error) {
    printer p = {.keep = keep_of(options)};
    icl_recipe *recipe = NULL;
    icl_bench_params params = {
        .pattern = options->pattern,
        .recipe_name = options->recipe_name,
        .by_op = options->by_op,
        .seconds = options->seconds.given ? options->seconds.value : DEFAULT_SECONDS,
        .callback = print_row,
        .user = &p,
    };
    icl_status status = ICL_OK;

    if (options->recipe_name)
        ICL_TRY(read_recipe(options, &recipe, error));
    else
        ICL_TRY(icl_bench_check_pattern(options->pattern, error));
    params.recipe = recipe;
    ICL_TRY(open_device(&options->device, &params.device, error));
    if (options->on_request) {
        ICL_TRY(icl_bench_on_request(&params, next_turn, NULL, error));
    } else {
        ICL_TRY(open_others(options, &params, error));
        ICL_TRY(results_begin(&p.keep, error));
        ICL_TRY(icl_bench(&params, error));
        ICL_TRY(finish_kept(&p.keep, params.device, error));
    }
done:
    results_end(&p.keep);
    icl_recipe_destroy(&recipe);
    icl_backend_close(&params.profiled);
    icl_backend_close(&params.cpu);
    icl_backend_close(&params.device);
    return status;
}

static icl_status check_usage(const bench_options *options, icl_error *error) {
    if (options->recipe_name && options->pattern)
        return icl_fail(error, ICL_ERROR_INPUT, "bench: --op: expected no such option beside --recipe");
    if (!options->recipe_name && options->overrides.count > 0)
        return icl_fail(error, ICL_ERROR_INPUT, "bench: --set: expected --recipe RECIPE beside it");
    if (options->by_op && (!options->recipe_name || options->on_request))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "bench: --by-op: expected --recipe RECIPE beside it, and no --on-request");
    if (options->on_request && (options->json || options->seconds.given || options->out))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "bench: --on-request: expected neither --json nor --seconds nor --out beside it");
    if (options->seconds.value > MAX_SECONDS)
        return icl_fail(error, ICL_ERROR_INPUT, "bench: --seconds %g: expected at most %d", options->seconds.value,
                        MAX_SECONDS);
    return ICL_OK;
}

static int run(const icl_families *families, int count, char *const *arguments) {
    bench_options options = {.families = families};
    icl_error error = {0};
    icl_status status;

    ICL_TRY(read_command_line(&command_bench, count, arguments, &options, &error));
    ICL_TRY(check_usage(&options, &error));
    ICL_TRY(join_command_line(families, "bench", count, arguments, &options.command_line, &error));
    status = bench(&options, &error);
done:
    icl_text_free(&options.command_line);
    return status == ICL_OK ? EXIT_DONE : report_failure(status, &error);
}

static const option table[] = {
    DEVICE_OPTION_ROWS(bench_options, device),
    {"--op", OPTION_TEXT, "PATTERN", "only cases whose name holds this text, such as matmul or \"n 4096\"",
     offsetof(bench_options, pattern)},
    {"--recipe", OPTION_TEXT, "RECIPE", "time whole training steps instead of ops: a name or the path of an INI file",
     offsetof(bench_options, recipe_name)},
    {"--set", OPTION_LIST, "SECTION.KEY=VALUE", "with --recipe: change one key of the recipe; may be given again",
     offsetof(bench_options, overrides)},
    {"--by-op", OPTION_FLAG, NULL, "with --recipe: what each op takes of a step", offsetof(bench_options, by_op)},
    {"--seconds", OPTION_NUMBER, "N",
     "time for each case (default " TEXT_OF(DEFAULT_SECONDS) "; at least three turns; 0: no more than that)",
     offsetof(bench_options, seconds)},
    {"--out", OPTION_TEXT, "DIR", "keep the table in this folder, as result.json and result.csv",
     offsetof(bench_options, out)},
    {"--json", OPTION_FLAG, NULL, "one JSON object per case", offsetof(bench_options, json)},
    {"--on-request", OPTION_FLAG, NULL,
     "print {\"ready\": true}, then {\"seconds\": ...} for each number of calls on stdin: for programs that "
     "let several contenders take turns",
     offsetof(bench_options, on_request)},
    QUIET_OPTION_ROW(bench_options, device),
};

const subcommand command_bench = {
    .name = "bench",
    .about = "how fast a device runs each op, or whole training steps",
    .summary = "Measures how fast a device runs each op, or whole training steps.",
    .options = table,
    .option_count = sizeof table / sizeof *table,
    .notes = "bench first measures the device's peaks: multiply-adds in registers (on the host for each "
             "instruction set, on one thread and on all), and a = b + s c in memory. Then device and cpu take "
             "turns at each case; median, min and max are over the turns, each a batch of calls with one wait. "
             "\"compile\" is what the first call took beyond the median, \"kernels\" the time by the driver's "
             "own clock, \"queued\" the kernels that a call queues, \"vs cpu\" how many times as fast as plain C "
             "on all cores. The textbook gives the number of operations (src/run/bench.c), and each "
             "operand's bytes count once; \"of peak\" is the larger share.\n\n"
             "--by-op divides a step among its ops: the time of their kernels by the driver's clock, or of their "
             "calls where the device is the host, all threads added up. What a step takes beyond the sum is "
             "queueing and waiting.\n\n"
             "A recipe's steps run with all layers in use, and with a learning rate of almost 0, so that nothing "
             "diverges. Long cases (softmax attention over 1024 and 4096 tokens) run only where --op names them. "
             "Timings need a machine with nothing else to do.",
    .takes_families = true,
    .run = run,
};
