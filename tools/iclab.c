/* The command: finds the subcommand and runs it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "help.h"
#include "iclab/nearest.h"
#include "iclab/version.h"
#include "terminal.h"

#define MAX_COMMANDS 32

/* Reports a missing command: "devices, train, … or bench". */
static int no_command(void) {
    size_t count;
    const subcommand *const *commands = all_commands(&count);

    fprintf(stderr, "iclab: no command: expected ");
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, "%s%s", i == 0 ? "" : i + 1 < count ? ", " : " or ", commands[i]->name);
    fprintf(stderr, " (iclab --help)\n");
    return EXIT_BAD_INPUT;
}

static int unknown_command(const char *name) {
    const char *names[MAX_COMMANDS];
    size_t count;
    const subcommand *const *commands = all_commands(&count);

    for (size_t i = 0; i < count && i < MAX_COMMANDS; i++)
        names[i] = commands[i]->name;
    fprintf(stderr, "iclab: unknown command %s; the nearest known one is %s (iclab --help lists them)\n", name,
            icl_nearest(name, names, count < MAX_COMMANDS ? count : MAX_COMMANDS));
    return EXIT_BAD_INPUT;
}

/* Ends the output. A failure to print is reported last, so that results are kept first. */
static int end_of_output(int code) {
    icl_error error = {0};
    const icl_status status = finish_output(&error);

    return status == ICL_OK || code > EXIT_CHECK_FAILED ? code : report_failure(status, &error);
}

static int run_command(const subcommand *found, const icl_families *families, int count, char *const *arguments) {
    if (families && !found->takes_families) {
        fprintf(stderr, "iclab: --with: expected no file before %s, which reads no recipe with families\n",
                found->name);
        return EXIT_BAD_INPUT;
    }
    if (!wants_help(count, arguments))
        return end_of_output(found->run(families, count, arguments));
    print_command_help(found, families);
    return end_of_output(EXIT_DONE);
}

/* Loads the file of each --with FILE at the beginning, and sets *used to how many arguments these are. */
static icl_status load_families(int count, char *const *arguments, int *used, icl_families **families,
                                icl_error *error) {
    static const char with[] = "--with";
    const size_t length = sizeof with - 1;

    for (*used = 0; *used < count && strncmp(arguments[*used], with, length) == 0; ++*used) {
        const char *file = arguments[*used] + length;
        if (*file == '=')
            file++;
        else if (*file == '\0' && *used + 1 < count)
            file = arguments[++*used];
        else
            return icl_fail(error, ICL_ERROR_INPUT, "%s: expected --with FILE and a command", arguments[*used]);
        if (!*families)
            ICL_CHECK(icl_families_create(families, error));
        ICL_CHECK(icl_families_load(*families, file, error));
    }
    return ICL_OK;
}

/* Runs the command behind the files of --with. */
static int run_with(int count, char *const *arguments) {
    icl_families *families = NULL;
    icl_error error = {0};
    int used = 0, code;
    const icl_status status = load_families(count, arguments, &used, &families, &error);
    const subcommand *found = status == ICL_OK && used < count ? find_command(arguments[used]) : NULL;

    if (status != ICL_OK)
        code = report_failure(status, &error);
    else if (used == count)
        code = no_command();
    else
        code = found ? run_command(found, families, count - used - 1, arguments + used + 1)
                     : unknown_command(arguments[used]);
    icl_families_destroy(&families);
    return code;
}

/* Opens standard streams that the caller closed, because the next opened file would take their place and messages
 * would go into it. Writing to the replacement of standard output fails, as before, so that results do not vanish
 * unnoticed. */
static void hold_streams(void) {
    for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++)
        if (fcntl(stream, F_GETFD) < 0 && errno == EBADF)
            (void)open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int count, char **arguments) {
    hold_streams();
    settle_hangup();
#ifdef SIGXFSZ
    /* Exceeding a file size limit should fail the write, like a full disk, and not end the process. */
    (void)signal(SIGXFSZ, SIG_IGN);
#endif
    /* The parent process may ignore it, and then nobody could wait for our child processes. */
    (void)signal(SIGCHLD, SIG_DFL);
    prepare_drivers();
    if (count < 2)
        return no_command();
    if (strcmp(arguments[1], "--help") == 0 || strcmp(arguments[1], "-h") == 0 || strcmp(arguments[1], "help") == 0) {
        print_general_help();
        return end_of_output(EXIT_DONE);
    }
    if (strcmp(arguments[1], "--version") == 0) {
        const icl_build build = icl_build_facts();
        printf("iclab %s (%s, %s)\nbuilt with %s\n", icl_version(), build.commit, build.compiler, build.libraries);
        return end_of_output(EXIT_DONE);
    }
    if (strcmp(arguments[1], command_complete.name) == 0) /* --help is an ordinary word there */
        return end_of_output(command_complete.run(NULL, count - 2, arguments + 2));
    if (strcmp(arguments[1], command_documents.name) == 0)
        return run_command(&command_documents, NULL, count - 2, arguments + 2);
    return run_with(count - 1, arguments + 1);
}
