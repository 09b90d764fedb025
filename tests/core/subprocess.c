/* Work in a child process: its messages arrive whole and in order, and the ways that it can end are told apart. */
#include "core/subprocess.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "tap.h"

enum { MESSAGES = 300, WORDS = 3000 }; /* a message is longer than a pipe is sure to hold at once */

typedef struct message {
    int number;
    int words[WORDS];
} message;

typedef struct heard {
    int count, out_of_order, damaged;
    message last;
} heard;

static void hear(void *context, const void *said) {
    heard *h = context;

    memcpy(&h->last, said, sizeof h->last);
    h->out_of_order += h->last.number != h->count++;
    for (int i = 0; i < WORDS; i++)
        h->damaged += h->last.words[i] != h->last.number + i;
}

static void say(icl_subprocess *child, int number) {
    message m = {.number = number};

    for (int i = 0; i < WORDS; i++)
        m.words[i] = number + i;
    icl_subprocess_send(child, &m);
}

static icl_status run(void (*work)(icl_subprocess *, void *), double seconds, heard *h, icl_subprocess_outcome *outcome,
                      icl_error *error) {
    *h = (heard){0};
    *outcome = (icl_subprocess_outcome){0};
    return icl_subprocess_run(
        &(icl_subprocess_params){
            .title = "a test", .size = sizeof(message), .seconds = seconds, .work = work, .hear = hear, .context = h},
        outcome, error);
}

/* ---- Work ---- */

static void say_all(icl_subprocess *child, void *context) {
    (void)context;
    for (int i = 0; i < MESSAGES; i++)
        say(child, i);
}

static void leave(icl_subprocess *child, void *context) {
    (void)context;
    say(child, 0);
    _exit(0);
}

static void abort_after_two(icl_subprocess *child, void *context) {
    (void)context;
    say(child, 0);
    say(child, 1);
    abort();
}

static void wait_for_ever(icl_subprocess *child, void *context) {
    (void)context;
    say(child, 0);
    for (;;)
        pause();
}

/* Takes longer than the limit in all, but is never silent for that long. */
static void speak_slowly(icl_subprocess *child, void *context) {
    (void)context;
    for (int i = 0; i < 4; i++) {
        say(child, i);
        sleep(1);
    }
}

/* Leaves a process running that holds the pipe. */
static void leave_a_child(icl_subprocess *child, void *context) {
    (void)context;
    const pid_t grandchild = fork();

    if (grandchild == 0) {
        (void)close(STDOUT_FILENO); /* the test's runner waits for the end of its output, not for this process */
        (void)close(STDERR_FILENO);
        sleep(20);
        _exit(0);
    }
    say(child, 0);
}

static void stop_as_by_keys(icl_subprocess *child, void *context) {
    (void)child;
    (void)context;
    (void)raise(SIGINT);
}

static void be_terminated(icl_subprocess *child, void *context) {
    (void)child;
    (void)context;
    (void)raise(SIGTERM);
}

static void be_killed(icl_subprocess *child, void *context) {
    (void)child;
    (void)context;
    (void)raise(SIGKILL);
}

int main(void) {
    tap_run tap = {0};
    icl_error error = {0};
    icl_subprocess_outcome outcome;
    heard h;

    tap_status(&tap, run(say_all, 60, &h, &outcome, &error), &error, "work that returns");
    tap_ok(&tap, outcome.end == ICL_SUBPROCESS_DONE && h.count == MESSAGES && h.out_of_order == 0 && h.damaged == 0,
           "its messages arrive whole and in order: %d, %d out of order, %d words damaged", h.count, h.out_of_order,
           h.damaged);
    run(say_all, 0, &h, &outcome, &error);
    tap_ok(&tap, outcome.end == ICL_SUBPROCESS_DONE && h.count == MESSAGES, "likewise without a limit: %d", h.count);
    tap_status(&tap, run(leave, 60, &h, &outcome, &error), &error, "work that calls exit");
    tap_ok(&tap,
           outcome.end == ICL_SUBPROCESS_EXITED && strcmp(outcome.words, "exited with code 0") == 0 && h.count == 1,
           "is told from work that returns: it %s", outcome.words);
    tap_status(&tap, run(abort_after_two, 60, &h, &outcome, &error), &error, "work that crashes");
    tap_ok(&tap,
           outcome.end == ICL_SUBPROCESS_SIGNALLED && strstr(outcome.words, "was ended by signal 6 (") &&
               h.count == 2 && h.last.number == 1,
           "after two messages it %s", outcome.words);
    tap_status(&tap, run(be_killed, 60, &h, &outcome, &error), &error, "work that another process kills");
    tap_ok(&tap, outcome.end == ICL_SUBPROCESS_SIGNALLED && strstr(outcome.words, "signal 9 ("), "it %s",
           outcome.words);
    tap_status(&tap, run(wait_for_ever, 1, &h, &outcome, &error), &error, "work that waits for ever");
    tap_ok(&tap,
           outcome.end == ICL_SUBPROCESS_SILENT && strcmp(outcome.words, "said nothing for 1 seconds") == 0 &&
               h.count == 1,
           "after one message it %s", outcome.words);
    run(speak_slowly, 3, &h, &outcome, &error);
    tap_ok(&tap, outcome.end == ICL_SUBPROCESS_DONE && h.count == 4,
           "the limit counts from message to message: it %s, %d", outcome.words, h.count);
    run(leave_a_child, 15, &h, &outcome, &error);
    tap_ok(&tap, outcome.end == ICL_SUBPROCESS_DONE && h.count == 1,
           "a process that holds the pipe is not waited for: it %s", outcome.words);
    (void)signal(SIGCHLD, SIG_IGN);
    run(say_all, 0, &h, &outcome, &error);
    tap_ok(&tap, outcome.end == ICL_SUBPROCESS_EXITED && h.count == MESSAGES,
           "with SIGCHLD ignored nothing is waited for, and all is heard: it %s, %d", outcome.words, h.count);
    (void)signal(SIGCHLD, SIG_DFL);
    (void)signal(SIGINT, SIG_IGN); /* the child does not inherit how this process handles it */
    tap_ok(&tap,
           run(stop_as_by_keys, 60, &h, &outcome, &error) == ICL_ERROR_INTERRUPTED && strstr(error.message, "a test"),
           "SIGINT stops: %s", error.message);
    tap_ok(&tap, run(be_terminated, 60, &h, &outcome, &error) == ICL_ERROR_INTERRUPTED, "SIGTERM likewise");
    return tap_done(&tap);
}
