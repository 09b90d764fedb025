#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "device/device.h"
#include "iclab/json.h"
#include "iclab/recipe.h"
#include "terminal.h"

static icl_status keep_row(result_writer *keep, const icl_device *device, icl_error *error) {
    const icl_capabilities *capabilities = &device->capabilities;
    icl_json json = {0};

    icl_json_text(&json, "spec", capabilities->spec);
    icl_json_text(&json, "name", capabilities->name);
    icl_json_text(&json, "kind", icl_device_kind_name(capabilities->kind));
    icl_json_text(&json, "platform", capabilities->platform);
    icl_json_text(&json, "driver", capabilities->driver);
    icl_json_flag(&json, "usable", device->usable);
    icl_json_text(&json, "verdict", device->verdict);
    icl_json_count(&json, "element_size", capabilities->element_size);
    icl_json_count(&json, "compute_units", capabilities->compute_units);
    icl_json_count(&json, "max_work_group", capabilities->max_work_group);
    icl_json_count(&json, "vector_width", capabilities->vector_width);
    icl_json_count(&json, "local_memory", capabilities->local_memory);
    icl_json_count(&json, "global_memory", capabilities->global_memory);
    icl_json_count(&json, "max_allocation", capabilities->max_allocation);
    icl_json_flag(&json, "fp64", capabilities->has_fp64);
    icl_json_flag(&json, "unified_memory", capabilities->unified_memory);
    return results_add(keep, &json, error);
}

/* Writes a size in bytes for people; "-" if it is unknown or unlimited. */
static const char *readable_size(size_t bytes, char text[16]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes;
    size_t unit = 0;

    while (size >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        size /= 1024;
        unit++;
    }
    snprintf(text, 16, bytes == 0 ? "-" : "%.4g %s", size, units[unit]);
    return text;
}

static void print_row(const icl_device *device) {
    const icl_capabilities *capabilities = &device->capabilities;
    char global[16], allocation[16], local[16], usable[64];

    printf("%-14s %s\n", capabilities->spec, capabilities->name);
    printf("%-14s %s, %s, driver %s\n", "", icl_device_kind_name(capabilities->kind), capabilities->platform,
           capabilities->driver);
    printf("%-14s %zu compute units, memory %s, largest buffer %s, local memory %s, vectors of %zu, %zu-byte "
           "numbers\n",
           "", capabilities->compute_units, readable_size(capabilities->global_memory, global),
           readable_size(capabilities->max_allocation, allocation), readable_size(capabilities->local_memory, local),
           capabilities->vector_width, capabilities->element_size);
    printf("%-14s %s: %s\n\n", "", paint_verdict(device->usable ? "usable" : "REFUSED", device->usable, usable),
           device->verdict);
}

/* ---- Contests of the ways of ops ---- */

#define CONTEST_TABLE "choices" /* its name in result.json */

typedef struct contest_output {
    const char *spec;
    result_writer *keep;
    char choice[32]; /* of the row before, under whose heading the next one stands */
    icl_status status;
    icl_error *error;
} contest_output;

static void print_contest_row(contest_output *output, const icl_contest_row *row) {
    const size_t *of = row->sizes.of;
    char sizes[64];

    if (strcmp(output->choice, row->choice) != 0) {
        printf("%-14s %-20s %12s %12s", output->spec, row->choice, row->ways[0], row->ways[1]);
        printf(row->variant_name[0] ? " %14s  takes\n" : "%.0s  takes\n", row->variant_name);
    }
    snprintf(output->choice, sizeof output->choice, "%s", row->choice);
    snprintf(sizes, sizeof sizes, "%zux%zux%zux%zu", of[0], of[1], of[2], of[3]);
    printf("%-14s %-20s %9.4f ms %9.4f ms", "", sizes, 1e3 * row->seconds[0], 1e3 * row->seconds[1]);
    if (row->variant_name[0])
        printf(" %11.4f ms", 1e3 * row->variant);
    printf("  %s\n", row->ways[row->is_second]);
}

static void hear_contest(void *user, const icl_contest_row *row) {
    contest_output *output = user;
    icl_json json = {0};

    if (!row || output->status != ICL_OK)
        return;
    if (!output->keep->json)
        print_contest_row(output, row);
    icl_json_text(&json, "spec", output->spec);
    icl_json_text(&json, "choice", row->choice);
    icl_json_count(&json, "a", row->sizes.of[0]);
    icl_json_count(&json, "b", row->sizes.of[1]);
    icl_json_count(&json, "c", row->sizes.of[2]);
    icl_json_count(&json, "count", row->sizes.of[3]);
    icl_json_number(&json, "first_seconds", row->seconds[0]);
    icl_json_number(&json, "second_seconds", row->seconds[1]);
    if (row->variant_name[0])
        icl_json_number(&json, "variant_seconds", row->variant);
    icl_json_text(&json, "takes", row->ways[row->is_second]);
    output->status = results_add_to(output->keep, CONTEST_TABLE, &json, output->error);
}

/* Times the ways of every OpenCL device that is usable, and keeps the choices. A device that fails is named and passed
 * over. */
static icl_status run_contests(const icl_device *devices, size_t count, result_writer *keep, icl_error *error) {
    size_t timed = 0;

    for (size_t i = 0; i < count; i++) {
        const char *spec = devices[i].capabilities.spec;
        contest_output output = {.spec = spec, .keep = keep, .error = error};
        icl_error why = {0};
        if (!devices[i].usable || devices[i].capabilities.kind == ICL_DEVICE_HOST)
            continue;
        fprintf(stderr, "iclab: timing the ways of %s (%s), which takes up to minutes\n", spec,
                devices[i].capabilities.name);
        const icl_status status = icl_contest_sizes(spec, DRIVER_TRIAL_SECONDS, hear_contest, &output, &why);
        ICL_CHECK(output.status);
        if (status == ICL_ERROR_INTERRUPTED)
            return icl_fail(error, status, "%s", why.message);
        if (status != ICL_OK)
            fprintf(stderr, "iclab: %s\n", why.message);
        else if (!keep->json)
            printf("\n");
        timed++;
    }
    if (timed == 0)
        fprintf(stderr, "iclab: no OpenCL device has ways to time\n");
    return ICL_OK;
}

/* ---- The command ---- */

static void print_log(void *user, icl_log_level level, const char *message) {
    (void)user;
    (void)level;
    fprintf(stderr, "iclab: %s\n", message);
}

typedef struct devices_options {
    bool json, gemm;
    const char *out;
} devices_options;

static int run(const icl_families *families, int count, char *const *arguments) {
    devices_options options = {0};
    char *command_line = NULL;
    result_writer keep = {.facts = {.command = "devices"}};
    const icl_log log = {print_log, NULL, ICL_LOG_INFO};
    icl_error error = {0};
    icl_device *devices = NULL;
    size_t device_count = 0;
    icl_status status;

    ICL_TRY(read_command_line(&command_devices, count, arguments, &options, &error));
    ICL_TRY(join_command_line(families, "devices", count, arguments, &command_line, &error));
    keep.facts.command_line = command_line;
    keep.folder = options.out;
    keep.json = options.json;
    ICL_TRY(results_begin(&keep, &error));
    ICL_TRY(icl_devices_list_apart(&log, DRIVER_TRIAL_SECONDS, &devices, &device_count, &error));
    for (size_t i = 0; i < device_count; i++) {
        if (!options.json)
            print_row(&devices[i]);
        ICL_TRY(keep_row(&keep, &devices[i], &error));
    }
    ICL_TRY(say_idle_drivers(&error));
    if (options.gemm)
        ICL_TRY(run_contests(devices, device_count, &keep, &error));
    if (options.out)
        ICL_TRY(results_write(&keep, &(icl_json){0}, &error));
done:
    results_end(&keep);
    icl_text_free(&command_line);
    icl_devices_free(&devices);
    return status == ICL_OK ? EXIT_DONE : report_failure(status, &error);
}

#define TRIAL_SECONDS TEXT_OF(DRIVER_TRIAL_SECONDS)

static const option table[] = {
    {"--gemm", OPTION_FLAG, NULL,
     "time the ways of matrix products and of attention on every OpenCL device, by classes of sizes, and keep the "
     "choices, which trainings then take",
     offsetof(devices_options, gemm)},
    {"--out", OPTION_TEXT, "DIR", "keep the list in this folder, as result.json and result.csv",
     offsetof(devices_options, out)},
    {"--json", OPTION_FLAG, NULL, "one JSON object a line", offsetof(devices_options, json)},
};

const subcommand command_devices = {
    .name = "devices",
    .about = "what this machine has, its limits, and whether it computes correctly",
    .summary = "Lists the devices of this machine with their limits, and tests each.",
    .options = table,
    .option_count = sizeof table / sizeof *table,
    .notes =
        "The first column selects a device: iclab train RECIPE --device SPEC, or ICLAB_DEVICE=SPEC. iclab refuses a "
        "device whose self-test gives a wrong answer, or whose driver crashes or says nothing for " TRIAL_SECONDS
        " seconds. Without a SPEC it takes the fastest of cpu and of the GPUs and accelerators, by a short training "
        "step of each that it measures once. OpenCL devices need a driver (ICD). One that is on the machine but "
        "switched off, or that no .icd file names, is named with what to do; without a driver, everything works on the "
        "plain-C devices cpu and ref (double precision).",
    .run = run,
};
