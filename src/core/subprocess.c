#include "core/subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/allocate.h"
#include "core/print.h"
#include "iclab/file.h"
#include "iclab/host.h"

struct icl_subprocess {
    int pipe_end;
    size_t size;
};

enum {
    RETURNED = 113, /* exit code if the work returned; a library that calls exit has another */
    PAUSE = 10,     /* milliseconds between two checks of a silent process */
    PATIENCE = 200, /* checks of a killed process before it is left alone */
};

/* ---- The child process ---- */

void icl_subprocess_send(icl_subprocess *child, const void *message) {
    const char *from = message;

    /* A message may be larger than what a pipe takes at once, and then needs several writes. */
    for (size_t left = child->size; left > 0;) {
        const ssize_t count = write(child->pipe_end, from, left);
        if (count < 0 && errno != EINTR)
            return;
        from += count > 0 ? count : 0;
        left -= count > 0 ? (size_t)count : 0;
    }
}

static void work_in_child(const icl_subprocess_params *params, int pipe_end) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    icl_subprocess child = {pipe_end, params->size};

    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        (void)signal(signals[i], SIG_DFL);
    params->work(&child, params->context);
}

/* ---- The parent process ---- */

/* Reads what has arrived. False at the end of the pipe. */
static bool read_some(int pipe_end, char *message, size_t size, size_t *filled) {
    const ssize_t count = read(pipe_end, message + *filled, size - *filled);

    *filled += count > 0 ? (size_t)count : 0;
    return count > 0 || (count < 0 && errno == EINTR);
}

/* Receives messages until the process has ended; *state is as waitpid sets it. False if it was silent for too long. */
static bool hear_all(const icl_subprocess_params *params, pid_t process, int pipe_end, char *message, int *state) {
    double heard = icl_clock_seconds();
    size_t filled = 0;
    bool open = true, ended = false;

    while (ended || !(params->seconds > 0) || icl_clock_seconds() - heard < params->seconds) {
        struct pollfd news = {.fd = open ? pipe_end : -1, .events = POLLIN};
        const bool ready = poll(&news, 1, PAUSE) > 0;
        if (ready)
            open = read_some(pipe_end, message, params->size, &filled);
        if (ended && (!ready || !open))
            return true;
        /* The end of the pipe is not the only sign of the end, because a process that the child started may hold the
         * pipe for longer. If this process ignores SIGCHLD, waitpid fails and gives no state. */
        if (!ended && (!ready || !open))
            ended = waitpid(process, state, WNOHANG) != 0;
        if (filled == params->size) {
            params->hear(params->context, message);
            heard = icl_clock_seconds();
            filled = 0;
        }
    }
    return false;
}

/* Kills a process and waits for a while. One that waits inside the kernel does not die of it. */
static void end_by_force(pid_t process) {
    int state = 0;

    (void)kill(process, SIGKILL);
    for (int looks = 0; looks < PATIENCE && waitpid(process, &state, WNOHANG) == 0; looks++)
        (void)poll(NULL, 0, PAUSE);
}

static icl_status judge(const icl_subprocess_params *params, bool silent, int state, icl_subprocess_outcome *outcome,
                        icl_error *error) {
    const int by = !silent && WIFSIGNALED(state) ? WTERMSIG(state) : 0;

    *outcome = (icl_subprocess_outcome){ICL_SUBPROCESS_DONE, "ended"};
    if (by == SIGINT || by == SIGTERM || by == SIGHUP)
        return icl_fail(error, ICL_ERROR_INTERRUPTED, "stopped during %s", params->title);
    if (silent) {
        outcome->end = ICL_SUBPROCESS_SILENT;
        icl_print(outcome->words, sizeof outcome->words, "said nothing for %g seconds", params->seconds);
    } else if (by) {
        outcome->end = ICL_SUBPROCESS_SIGNALLED;
        snprintf(outcome->words, sizeof outcome->words, "was ended by signal %d (%s)", by, strsignal(by));
    } else if (WEXITSTATUS(state) != RETURNED) {
        outcome->end = ICL_SUBPROCESS_EXITED;
        snprintf(outcome->words, sizeof outcome->words, "exited with code %d", WEXITSTATUS(state));
    }
    return ICL_OK;
}

icl_status icl_subprocess_run(const icl_subprocess_params *params, icl_subprocess_outcome *outcome, icl_error *error) {
    int ends[2] = {-1, -1}, state = 0;
    char *message = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(params->size, 1, params->title, &message, error));
    if (pipe(ends) != 0)
        ICL_TRY(icl_file_fail(error, "make a pipe for", params->title, errno));
    (void)fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    (void)fflush(NULL); /* else the child would write buffered output again */
    const pid_t process = fork();
    if (process == 0) {
        work_in_child(params, ends[1]);
        _exit(RETURNED);
    }
    if (process < 0)
        ICL_TRY(icl_file_fail(error, "start a process for", params->title, errno));
    (void)close(ends[1]);
    ends[1] = -1;
    const bool silent = !hear_all(params, process, ends[0], message, &state);
    if (silent)
        end_by_force(process);
    ICL_TRY(judge(params, silent, state, outcome, error));
done:
    for (size_t i = 0; i < 2; i++)
        if (ends[i] >= 0)
            (void)close(ends[i]);
    icl_free(&message);
    return status;
}
