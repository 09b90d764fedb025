/* The command: finds the subcommand and hands over. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "config.h"
#include "core/nearest.h"

typedef struct subcommand {
    const char *name, *arguments, *help;
    int (*run)(int count, char *const *arguments);
} subcommand;

static const subcommand subcommands[] = {
    {"devices", "", "what this machine has, its limits, and whether it computes rightly", command_devices},
    {"train", "RECIPE", "train a model in a run folder and compare it with the reference predictors",
     command_train},
    {"eval", "RUN", "the same comparison for a trained model, on fresh sequences", command_eval},
    {"inspect", "RUN", "what a trained model computes: weights, terms and their cost, nearest algorithm",
     command_inspect},
    {"predict", "RUN", "a trained model applied to a table of one's own, beside classical regressions",
     command_predict},
    {"reproduce", "NAME", "a paper's table or figure, computed afresh beside the published one",
     command_reproduce},
    {"compare", "", "how far a device is from another and from exact arithmetic, op by op", command_compare},
    {"bench", "", "how fast a device runs each op, or whole training steps", command_bench},
};

enum { SUBCOMMANDS = sizeof subcommands / sizeof *subcommands };

static void print_help(void) {
    printf("usage: iclab COMMAND [arguments]\n\n"
           "In-context learning lab: trains linear transformers that learn regression in context, on any "
           "OpenCL device "
           "or in\nplain C, and measures them against the best possible predictors.\n\n");
    for (size_t i = 0; i < SUBCOMMANDS; i++)
        printf("  %-9s %-8s %s\n", subcommands[i].name, subcommands[i].arguments, subcommands[i].help);
    printf("\n  iclab COMMAND --help   everything about one command\n"
           "  iclab --version\n\n"
           "First steps: iclab train quickstart\n\n"
           "Exit codes: 0 done; 1 a check failed or training diverged; 2 bad usage or bad input; 3 a device, "
           "the memory "
           "or a file\nfailed; 128 + the signal's number when interrupted (130: Ctrl-C). Results go to "
           "stdout, everything "
           "else to stderr.\n");
}

static int unknown_command(const char *name) {
    const char *names[SUBCOMMANDS];
    for (size_t i = 0; i < SUBCOMMANDS; i++)
        names[i] = subcommands[i].name;
    fprintf(stderr, "iclab: unknown command %s; the nearest known one is %s (iclab --help lists them)\n",
            name, icl_nearest(name, names, SUBCOMMANDS));
    return EXIT_BAD_INPUT;
}

int main(int count, char **arguments) {
#ifdef SIGXFSZ
    /* A file size limit is to be a failed write like a full disk, not the end of the process. */
    (void)signal(SIGXFSZ, SIG_IGN);
#endif
    if (count < 2) {
        fprintf(stderr,
                "iclab: no command: expected devices, train, eval, inspect, predict, reproduce, compare or "
                "bench (iclab --help)\n");
        return EXIT_BAD_INPUT;
    }
    if (strcmp(arguments[1], "--help") == 0 || strcmp(arguments[1], "-h") == 0 ||
        strcmp(arguments[1], "help") == 0) {
        print_help();
        return EXIT_DONE;
    }
    if (strcmp(arguments[1], "--version") == 0) {
        printf("iclab %s (%s, %s)\n", ICL_VERSION, ICL_COMMIT, ICL_COMPILER);
        return EXIT_DONE;
    }
    for (size_t i = 0; i < SUBCOMMANDS; i++)
        if (strcmp(arguments[1], subcommands[i].name) == 0)
            return subcommands[i].run(count - 2, arguments + 2);
    return unknown_command(arguments[1]);
}
