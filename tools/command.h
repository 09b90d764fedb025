/* Declarations that the subcommands share. Each subcommand is a constant of its file, a row of help.c: its table of
 * options and the function that runs it. */
#ifndef ICLAB_TOOLS_COMMAND_H
#define ICLAB_TOOLS_COMMAND_H

#include "iclab/backend.h"
#include "iclab/evaluate.h"
#include "iclab/json.h"
#include "iclab/result.h"
#include "options.h"

/* ---- Results of commands ---- */

/* The results of a command, its rows and its summary, are printed as JSON lines if that is asked for, and kept as
 * result.json and CSV in a folder (iclab/result.h). */

typedef struct result_writer {
    const char *folder; /* receives the result; NULL: none */
    bool is_default;    /* nobody asked for the folder: failing to write it is no error */
    bool json, quiet;   /* print the rows and the summary; print only warnings on stderr */
    bool is_wrapped;    /* print the summary as {"summary":{...}} */
    icl_result_facts facts;
    icl_result *result; /* made by results_begin */
} result_writer;

/* Makes the result; results_end releases it, and may be called without it. */
icl_status results_begin(result_writer *keep, icl_error *error);
void results_end(result_writer *keep);

/* Adds a row to the main table, and clears it. */
icl_status results_add(result_writer *keep, icl_json *row, icl_error *error);

/* As above, for a table of another name, and for rows that are already lines of text. */
icl_status results_add_to(result_writer *keep, const char *table, icl_json *row, icl_error *error);
icl_status results_add_lines(result_writer *keep, const char *table, const char *lines, icl_error *error);

/* Makes the folder. A default folder that cannot be written, as that of another user's run, is left out, with a message
 * on stderr. */
icl_status results_open_folder(result_writer *keep, icl_error *error);

/* Writes the files, then prints the summary with "folder" as its last member if there is one. Says on stderr where the
 * files are. The summary is cleared in any case. */
icl_status results_write(result_writer *keep, icl_json *summary, icl_error *error);

/* Exit codes of every command. An interrupted run ends with 128 + the signal's number, as in shells. */
enum {
    EXIT_DONE = 0,
    EXIT_CHECK_FAILED = 1,  /* the work was done, but its result is bad: training diverged */
    EXIT_BAD_INPUT = 2,     /* wrong usage, recipe or file contents */
    EXIT_DEVICE_OR_FILE = 3 /* a device, the memory or a file failed */
};

/* The longest time for which a driver may be silent while it is tried in a child process: the slowest compilers take
 * half a minute. */
#define DRIVER_TRIAL_SECONDS 120

int exit_code_of(icl_status status);

/* Prints "iclab: message" to stderr and returns the exit code of the status. */
int report_failure(icl_status status, const icl_error *error);

/* ---- Options that several commands have ---- */

#define GEMM_WORDS      "auto|clblast|native"
#define PRECISION_WORDS "full|bf16"

typedef struct device_options {
    const char *spec;
    size_t gemm; /* icl_gemm */
    bool fast_math;
    size_t precision; /* icl_precision */
    bool quiet;
    bool accept_failed_self_test;
    bool profile;
    bool is_another; /* a device was open in this process: drivers can no longer be tried in a child */
} device_options;

/* Rows of a table of options for the member `device`, a device_options, of the command's struct of options `type`. */
#define DEVICE_OPTION_ROWS(type, device)                                                                               \
    {"--device", OPTION_TEXT, "SPEC",                                                                                  \
     "auto, cpu, cpu:threads=N, cpu:isa=SET, ref (double precision), opencl, opencl:P.D, "                             \
     "opencl:TEXT (part of a name); default: $ICLAB_DEVICE, else auto",                                                \
     offsetof(type, device.spec)},                                                                                     \
        {"--gemm", OPTION_WORD, GEMM_WORDS, "matrix products on OpenCL (default auto)", offsetof(type, device.gemm)},  \
        {"--precision", OPTION_WORD, PRECISION_WORDS,                                                                  \
         "of the operands of matrix products: bf16 rounds them (cpu, ref; default full)",                              \
         offsetof(type, device.precision)},                                                                            \
    {                                                                                                                  \
        "--fast-math", OPTION_FLAG, NULL, "let the device relax its arithmetic; recorded in the run",                  \
            offsetof(type, device.fast_math)                                                                           \
    }

/* The same for "--quiet". */
#define QUIET_OPTION_ROW(type, device)                                                                                 \
    { "--quiet", OPTION_FLAG, NULL, "say nothing on stderr but warnings and errors", offsetof(type, device.quiet) }

/* Opens the requested device and says on stderr which one it is, why, and how to choose another. */
icl_status open_device(const device_options *options, icl_backend **backend, icl_error *error);

/* Says on stderr if ops fell back to the host. */
void report_fallbacks(const icl_backend *backend);

/* Applies --set overrides in order. */
icl_status apply_overrides(icl_recipe *recipe, const option_list *overrides, icl_error *error);

/* Prints an evaluation's table, or JSON lines, to stdout, and keeps its rows. ICL_ERROR_IO if stdout cannot be
 * written. */
icl_status print_evaluation(const icl_evaluation *evaluation, result_writer *keep, icl_error *error);

/* Prints how far from a stationary point a training ended, if that was measured. */
icl_status print_polish(const icl_polish_result *polished, icl_error *error);

/* Writes "iclab --with FILE COMMAND ARGUMENTS", for the record; freed with icl_free. */
icl_status join_command_line(const icl_families *families, const char *command, int count, char *const *arguments,
                             char **text, icl_error *error);

/* Finishes a JSON object and prints it as one line. */
icl_status print_json_line(icl_json *json, icl_error *error);

/* ICL_ERROR_DIVERGED if the model's error is NaN or infinite. */
icl_status check_error_of_model(const icl_evaluation *evaluation, icl_error *error);

/* Warns on stderr if a run has no list of files, so that changes to them cannot be detected. */
void warn_of_missing_list(const char *folder);

/* Writes folder/name; nothing if the table is empty. */
icl_status write_table(const char *folder, const char *name, const char *table, icl_error *error);

/* Flushes stdout. ICL_ERROR_IO if the output could not be written. */
icl_status finish_output(icl_error *error);

/* ---- The table of subcommands (help.c) ---- */

extern const subcommand command_devices, command_train, command_eval, command_inspect, command_predict,
    command_generate, command_reproduce, command_sweep, command_compare, command_bench;

/* Commands in no list: the writer of man pages, for builds, and the completion of command lines, for shells. */
extern const subcommand command_documents, command_complete;

/* Returns the commands that users see, in the order of their lists: static storage, *count rows. */
const subcommand *const *all_commands(size_t *count);

/* Returns the one of them that has the name, or NULL. */
const subcommand *find_command(const char *name);

/* Prints a line for each name of a reproduction, with the prefix `before`. */
icl_status put_reproductions(const char *before, icl_error *error);

/* ---- OpenCL drivers of this machine of which the loader does not know (drivers.c) ---- */

/* Makes the loader read the folder of NVIDIA's containers (OCL_ICD_VENDORS) if that lists drivers, the system's folder
 * lists none, and no variable names others. Sets PATH to the system's own if it is not set or empty, because PoCL runs
 * ld, and without a PATH it aborts the process. Both change the environment: call it before any thread starts. */
void prepare_drivers(void);

/* Prints a line to stderr for each driver on this machine that cannot be used: if no .icd file names it, with the
 * command that writes such a file; or if it is switched off. ICL_ERROR_MEMORY if memory runs out. */
icl_status say_idle_drivers(icl_error *error);

/* ---- Pictures by gnuplot, if it is installed (picture.c) ---- */

/* Is the draw function of an icl_drawing: runs a gnuplot script in the folder, with the folder as its working
 * directory. `user` is a bool, which becomes true if there is no gnuplot. If gnuplot fails or leaves an incomplete
 * picture, only the pictures are lost, with a message on stderr; its warnings are not shown. */
icl_status draw_figure(void *user, const char *folder, const char *script, icl_error *error);

#endif
