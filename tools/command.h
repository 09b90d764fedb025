/* What the subcommands share. Each is a constant of its file, a row of commands.c: its table of options and the
 * function that runs it. */
#ifndef ICLAB_TOOLS_COMMAND_H
#define ICLAB_TOOLS_COMMAND_H

#include "commands.h"
#include "iclab/backend.h"
#include "iclab/evaluate.h"
#include "iclab/json.h"
#include "kept.h"

/* Exit codes of every command. An interrupted run ends with 128 + the signal's number, as the shells have it. */
enum {
    EXIT_DONE = 0,
    EXIT_CHECK_FAILED = 1,  /* the work was done and its result is bad: training diverged */
    EXIT_BAD_INPUT = 2,     /* wrong usage, recipe or file contents */
    EXIT_DEVICE_OR_FILE = 3 /* a device, the memory or a file failed */
};

/* For so long a driver may say nothing while it is tried apart: the slowest compilers take half a minute. */
#define DRIVER_TRIAL_SECONDS 120

int exit_code_of(icl_status status);

/* Prints "iclab: message" to stderr and returns the exit code of the status. */
int report_failure(icl_status status, const icl_error *error);

/* ---- Options that several commands have ---- */

#define GEMM_WORDS "auto|clblast|native"

typedef struct device_options {
    const char *spec;
    size_t gemm; /* icl_gemm */
    bool fast_math;
    bool quiet;
    bool accept_failed_self_test;
    bool profile;
    bool is_another; /* a device was open in this process before: drivers can no longer be tried in a process apart */
} device_options;

/* Rows of a table of options for the member `device`, a device_options, of the command's struct of options `type`. */
#define DEVICE_OPTION_ROWS(type, device)                                                                               \
    {"--device", OPTION_TEXT, "SPEC",                                                                                  \
     "auto, cpu, cpu:threads=N, cpu:isa=SET, ref (double precision), opencl, opencl:P.D, "                             \
     "opencl:TEXT (part of a name); default: $ICLAB_DEVICE, else auto",                                                \
     offsetof(type, device.spec)},                                                                                     \
        {"--gemm", OPTION_WORD, GEMM_WORDS, "matrix products on OpenCL (default auto)", offsetof(type, device.gemm)},  \
    {                                                                                                                  \
        "--fast-math", OPTION_FLAG, NULL, "let the device relax its arithmetic; recorded in the run",                  \
            offsetof(type, device.fast_math)                                                                           \
    }

/* The same for "--quiet". */
#define QUIET_OPTION_ROW(type, device)                                                                                 \
    { "--quiet", OPTION_FLAG, NULL, "say nothing on stderr but warnings and errors", offsetof(type, device.quiet) }

/* Opens the device asked for and says on stderr which one it is, why, and how to choose another. */
icl_status open_device(const device_options *options, icl_backend **backend, icl_error *error);

/* Says on stderr if ops fell back to the host. */
void report_fallbacks(const icl_backend *backend);

/* Applies --set overrides in order. */
icl_status apply_overrides(icl_recipe *recipe, const option_list *overrides, icl_error *error);

/* Prints an evaluation's table, or JSON lines, to stdout, and keeps its rows. ICL_ERROR_IO if stdout cannot be
 * written. */
icl_status print_evaluation(const icl_evaluation *evaluation, kept *keep, icl_error *error);

/* Prints how far from a stationary point a training ended, where that was measured. */
icl_status print_polish(const icl_polish_result *polished, icl_error *error);

/* "iclab COMMAND ARGUMENTS", for the record; freed with icl_free. */
icl_status join_command_line(const char *command, int count, char *const *arguments, char **text, icl_error *error);

/* Finishes a JSON object and prints it as one line. */
icl_status print_json_line(icl_json *json, icl_error *error);

/* ICL_ERROR_DIVERGED where the model's error is NaN or infinite. */
icl_status check_error_of_model(const icl_evaluation *evaluation, icl_error *error);

/* Says on stderr that nothing tells whether a run's files are as they were written. */
void warn_of_missing_list(const char *folder);

/* Flushes stdout. ICL_ERROR_IO if what was printed could not be written. */
icl_status finish_output(icl_error *error);

#endif
