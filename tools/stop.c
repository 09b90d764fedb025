#include "stop.h"

#include <stdbool.h>
#include <stddef.h>

volatile sig_atomic_t stop_signal;

/* ---- Hang-ups ---- */

/* How SIGHUP stood when the process began: -1 while nobody has looked. */
static volatile sig_atomic_t outlives_hangup = -1;

static void look_at_hangup(void) {
    struct sigaction action;

    if (outlives_hangup < 0 && sigaction(SIGHUP, NULL, &action) == 0)
        outlives_hangup = action.sa_handler == SIG_IGN;
}

/* Libraries of MPI (UCX) take SIGHUP for themselves while they are loaded, nohup or not. Only what ELF runs before the
 * initializers of libraries still sees what nohup said; a sanitizer cannot run so early. */
#if defined(__ELF__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__)
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) || __has_feature(thread_sanitizer)
#define ICL_IS_SANITIZED
#endif
#endif
#ifndef ICL_IS_SANITIZED
__attribute__((section(".preinit_array"), used)) static void (*const look_first)(void) = look_at_hangup;
#endif
#endif

void settle_hangup(void) {
    look_at_hangup();
    (void)signal(SIGHUP, outlives_hangup > 0 ? SIG_IGN : SIG_DFL);
}

/* ---- Readers ---- */

void outlive_readers(void) {
    (void)signal(SIGPIPE, SIG_IGN);
}

/* ---- Requests ---- */

static const int batch_signals[] = {SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM};

enum { BATCH_SIGNALS = sizeof batch_signals / sizeof *batch_signals };

static void request_stop(int signal_number) {
    stop_signal = signal_number;
}

/* Puts one handler in the place of another. */
static void replace_handler(int signal_number, void (*from)(int), void (*to)(int)) {
    struct sigaction action;

    if (sigaction(signal_number, NULL, &action) != 0 || action.sa_handler != from)
        return;
    action = (struct sigaction){.sa_handler = to};
    sigemptyset(&action.sa_mask);
    (void)sigaction(signal_number, &action, NULL);
}

void catch_stop_signals(void) {
    struct sigaction action = {.sa_handler = request_stop, .sa_flags = SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < BATCH_SIGNALS; i++)
        replace_handler(batch_signals[i], SIG_DFL, request_stop);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    if (outlives_hangup <= 0)
        (void)sigaction(SIGHUP, &action, NULL);
}

void release_stop_signals(void) {
    for (size_t i = 0; i < BATCH_SIGNALS && stop_signal == 0; i++)
        replace_handler(batch_signals[i], request_stop, SIG_DFL);
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGTERM, SIG_DFL);
    settle_hangup();
}
