#include "stop.h"

#include <stddef.h>

volatile sig_atomic_t stop_signal;

static void request_stop(int signal_number) {
    stop_signal = signal_number;
}

void catch_stop_signals(void) {
    struct sigaction action = {.sa_handler = request_stop, .sa_flags = SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

void release_stop_signals(void) {
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGTERM, SIG_DFL);
}
