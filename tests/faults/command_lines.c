/* Allocations and file calls of the command fail, one for each path of calls that leads to one, from the command line
 * to what is printed and kept. Each attempt has a process of its own, which goes on with the failure. It must end with
 * exit code 3 and one line on stderr, or with the output and the files of the undisturbed command, and hold nothing
 * afterwards. */
#include <stdio.h>

#include "../../tools/command.h"
#include "../core/scratch.h"
#include "attempts.h"
#include "core/allocate.h"
#include "faults.h"
#include "iclab/text.h"

enum { MOST_WORDS = 32, MOST_PRINTED = 1 << 18 };

typedef struct invocation {
    const subcommand *command;
    const char *line;      /* words separated by blanks; RUN, TABLE, … stand for paths in the test's folder */
    bool keeps_files_open; /* while it works, so that a forked child would write into its parent's */
} invocation;

static const invocation invocations[] = {
    {&command_eval, "RUN --set task.noise=fixed:0.5 --out OUT"},
    {&command_eval, "RUN --over task.n=3,4 --over task.noise=fixed:0.5,fixed:1 --json --out OUT"},
    {&command_inspect, "RUN --sequences 100 --out OUT"},
    {&command_predict,
     "RUN --data TABLE --target y --exclude a --predict --one-hot --impute median --folds 2 --repeats 1 "
     "--context 4 --prompts 2 --out OUT"},
    {&command_predict, "RUN --data TABLE --target y --exclude s --drop-missing --new ROWS --folds 2 --repeats 1 "
                       "--context 4 --prompts 2 --json --out OUT"},
    {&command_compare, "--against ref --op relu --out OUT"},
    {&command_compare, "--against ref --train RECIPE --steps 2 --json --out OUT", true},
    {&command_bench, "--op matmul_strict --seconds 0 --json --out OUT"},
    {&command_bench, "--recipe RECIPE --seconds 0 --out OUT"},
    {&command_train, "RECIPE --set eval.predictors=ols --out TRAINED", true},
    {&command_sweep, "GRID --out SWEEP"},
    {&command_documents, "OUT"},
    {&command_complete, "train quick"},
    {&command_reproduce, "--list --json"},
};

/* ---- Running ---- */

typedef struct run {
    const invocation *called;
    scratch_folder *scratch;
    icl_status failed; /* the status that exit code 3 stands for */
} run;

/* Splits a line into words. A word in capitals becomes the path of the file or folder of that name. */
static size_t split(const run *job, char *line, char paths[][512], char *words[]) {
    static const char *const names[] = {"RUN", "TABLE", "ROWS", "OUT", "RECIPE", "GRID", "SWEEP", "TRAINED"};
    size_t count = 0;

    for (char *rest = line, *at = strtok_r(line, " ", &rest); at; at = strtok_r(NULL, " ", &rest)) {
        words[count] = at;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (strcmp(at, names[i]) == 0) {
                snprintf(paths[count], sizeof paths[count], "%s", scratch_path(job->scratch, at));
                words[count] = paths[count];
            }
        count++;
    }
    return count;
}

/* Makes an error of the last line that a command wrote to stderr. */
static icl_status read_message(char *said, icl_status status, icl_error *error) {
    const size_t length = strlen(said);
    const char *line;

    if (length == 0 || said[length - 1] != '\n')
        return icl_fail(error, status, "no whole line on stderr: \"%s\"", said);
    said[length - 1] = '\0';
    line = strrchr(said, '\n');
    line = line ? line + 1 : said;
    return strncmp(line, "iclab: ", 7) == 0 ? icl_fail(error, status, "%s", line + 7)
                                            : icl_fail(error, status, "not the command's\n%s", line);
}

/* Runs a command. Standard output and error are memory, because a child would otherwise share its parent's files. */
static icl_status run_command(void *context, char **text, icl_error *error) {
    static char printed[MOST_PRINTED], said[MOST_PRINTED];
    const run *job = context;
    FILE *const out = stdout, *const err = stderr;
    char line[512], paths[MOST_WORDS][512], *words[MOST_WORDS];
    icl_text all = {0};
    icl_status status = ICL_OK;

    memset(printed, 0, sizeof printed);
    memset(said, 0, sizeof said);
    scratch_remove(scratch_path(job->scratch, "TRAINED")); /* a run is not begun twice */
    snprintf(line, sizeof line, "%s", job->called->line);
    const size_t count = split(job, line, paths, words);
    stdout = fmemopen(printed, sizeof printed, "w");
    stderr = fmemopen(said, sizeof said, "w");
    const int code = job->called->command->run(NULL, (int)count, words);
    fclose(stdout);
    fclose(stderr);
    stdout = out;
    stderr = err;
    if (code == EXIT_BAD_INPUT || code == EXIT_DEVICE_OR_FILE)
        return read_message(said, code == EXIT_BAD_INPUT ? ICL_ERROR_INPUT : job->failed, error);
    if (code == EXIT_DONE && strstr(printed, "SKIP ")) /* a case of compare; its reason is in the line below */
        return icl_fail(error, job->failed, "%s", "skipped");
    ICL_TRY(icl_text_print(&all, error, "%d %016llx %016llx %016llx\n%s", code,
                           (unsigned long long)fault_hash_files(scratch_path(job->scratch, "OUT")),
                           (unsigned long long)fault_hash_files(scratch_path(job->scratch, "SWEEP")),
                           (unsigned long long)fault_hash_files(scratch_path(job->scratch, "TRAINED")), printed));
    *text = all.bytes;
    all = (icl_text){0};
done:
    icl_text_release(&all);
    return status;
}

/* ---- What commands work on ---- */

static const char settings[] = "task.d=3 task.n=3 model.layers=1 train.batch=1 eval.sequences=4 eval.fit_sequences=4";
static const char recipe[] = "[task]\nd = 2\nn = 3\n[model]\nlayers = 1\n[train]\nbatch = 2\nsteps = 2\npolish = off\n"
                             "[eval]\nsequences = 2\nevery = 0\nfit_sequences = 4\n";
static const char grid[] = "[sweep]\nrecipe = RECIPE\n[grid]\ntask.noise = fixed:0.5, fixed:1\ntrain.seed = 1..2\n";
static const char table[] = "a;b;s;y\n1;0,5;u;1\n2;3;v;0\n3;1;u;2\n4;1;u;1\n5;NA;v;3\n6;0;v;\n7;1;u;1\n";
static const char rows[] = "a;b\n1;2\n0,5;1\n";

static icl_status prepare(scratch_folder *scratch, icl_error *error) {
    icl_recipe *of_run = NULL;
    char sweep[1024];
    icl_status status;

    ICL_TRY(make_recipe("", settings, &of_run, error));
    ICL_TRY(fault_make_run(scratch_path(scratch, "RUN"), of_run, error));
    scratch_write(scratch, "RECIPE", recipe, sizeof recipe - 1);
    scratch_write(scratch, "TABLE", table, sizeof table - 1);
    scratch_write(scratch, "ROWS", rows, sizeof rows - 1);
    snprintf(sweep, sizeof sweep, "%s", scratch_path(scratch, "RECIPE"));
    const char *at = strstr(grid, "RECIPE");
    icl_text text = {0};
    ICL_TRY(icl_text_print(&text, error, "%.*s%s%s", (int)(at - grid), grid, sweep, at + strlen("RECIPE")));
    scratch_write(scratch, "GRID", text.bytes, text.length);
    icl_text_release(&text);
done:
    icl_recipe_destroy(&of_run);
    return status;
}

static void check(tap_run *tap, const invocation *called, scratch_folder *scratch, fault_kind kind) {
    run job = {called, scratch, kind == FAULT_FILE ? ICL_ERROR_IO : ICL_ERROR_MEMORY};
    char what[256];

    snprintf(what, sizeof what, "%s %.200s", called->command->name, called->line);
    /* File faults are not forked: a child would remove what its parent is writing. */
    fault_check_text(tap, run_command, &job, kind, kind == FAULT_FILE || called->keeps_files_open ? 0 : FAULT_FORKED,
                     what);
}

void fault_command_lines(tap_run *tap, const char *name, const char *part) {
    const fault_kind kinds[] = {FAULT_ALLOCATION, FAULT_FILE};
    scratch_folder scratch;
    icl_error error = {0};

    setenv("ICLAB_DEVICE", "cpu:threads=1", 1);
    setenv("PATH", "/", 1); /* no gnuplot, which would draw for each fault */
    scratch_open(&scratch);
    if (tap_status(tap, prepare(&scratch, &error), &error, "what commands work on"))
        for (size_t i = 0; i < sizeof invocations / sizeof *invocations; i++)
            for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
                if (strcmp(invocations[i].command->name, name) == 0 && strstr(invocations[i].line, part) &&
                    (kinds[kind] != FAULT_FILE || strstr(invocations[i].line, "--out")))
                    check(tap, &invocations[i], &scratch, kinds[kind]);
    scratch_close(&scratch);
}
