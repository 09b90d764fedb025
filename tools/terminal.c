#include "terminal.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "iclab/host.h"

#define GREEN  "\x1b[32m"
#define RED    "\x1b[31m"
#define NORMAL "\x1b[0m"

bool is_smart_terminal(FILE *stream) {
    const char *term = getenv("TERM");
    return isatty(fileno(stream)) == 1 && term && term[0] != '\0' && strcmp(term, "dumb") != 0;
}

size_t terminal_columns(FILE *stream) {
#ifdef TIOCGWINSZ
    struct winsize size = {0};
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
#endif
    return DEFAULT_COLUMNS;
}

const char *paint_verdict(const char *verdict, bool good, char text[64]) {
    const char *no_color = getenv("NO_COLOR");
    const bool colour = is_smart_terminal(stdout) && !(no_color && no_color[0] != '\0');

    snprintf(text, 64, "%s%s%s", !colour ? "" : good ? GREEN : RED, verdict, colour ? NORMAL : "");
    return text;
}

/* ---- Progress ---- */

#define SECONDS_BETWEEN_UPDATES 0.1

enum { MAX_COLUMNS = 240, WIDEST_BAR = 30, NARROWEST_BAR = 6 };

void progress_start(progress_printer *printer, bool quiet) {
    *printer = (progress_printer){.shown = !quiet && is_smart_terminal(stderr), .started = icl_clock_seconds()};
}

void progress_line(double share, const char *text, size_t columns, char *line) {
    /* "[###---]  42 %  " */
    const size_t around = strlen("[]  42 %  ") + strlen(text);
    const size_t room = columns > around ? columns - around : 0;
    const size_t bar = room > WIDEST_BAR ? WIDEST_BAR : room < NARROWEST_BAR ? 0 : room;
    const double bounded = share > 0 ? fmin(share, 1) : 0;
    const size_t filled = (size_t)(bounded * (double)bar);
    size_t used = 0;

    if (bar > 0) {
        line[used++] = '[';
        memset(line + used, '#', filled);
        memset(line + used + filled, '-', bar - filled);
        used += bar;
        used += (size_t)snprintf(line + used, columns + 1 - used, "] %3d %%  ", (int)(100 * bounded));
    }
    snprintf(line + used, columns + 1 - used, "%s", text);
}

/* Writes "2 h 5 min", "3 min 20 s" or "12 s". */
static const char *duration(double seconds, char text[32]) {
    const double limit = 1e9;
    const unsigned long whole = (unsigned long)(seconds < limit ? seconds : limit);

    if (whole >= 3600)
        snprintf(text, 32, "%lu h %lu min", whole / 3600, whole % 3600 / 60);
    else if (whole >= 60)
        snprintf(text, 32, "%lu min %lu s", whole / 60, whole % 60);
    else
        snprintf(text, 32, "%lu s", whole);
    return text;
}

/* Returns whether a line is to be printed now; on a terminal an `urgent` one always is. */
static bool is_due(progress_printer *printer, bool urgent) {
    const double time = icl_clock_seconds();

    if (!printer->shown ||
        (!urgent && printer->last_printed > 0 && time - printer->last_printed < SECONDS_BETWEEN_UPDATES))
        return false;
    printer->last_printed = time;
    return true;
}

static void show(progress_printer *printer, double share, const char *text) {
    const size_t columns = terminal_columns(stderr), room = columns > MAX_COLUMNS ? MAX_COLUMNS : columns;
    char line[MAX_COLUMNS + 1];

    /* A character in the last column would make some terminals begin the next line. */
    progress_line(share, text, room - 1, line);
    fprintf(stderr, "\r%s\x1b[K", line);
    fflush(stderr);
    printer->line_open = true;
}

void progress_report(void *user, const icl_session_progress *progress) {
    progress_printer *printer = user;
    const bool last = progress->step == progress->total_steps;
    char left[32], start[64] = "", evaluated[48] = "", skipped[48] = "", text[MAX_COLUMNS];

    if (!is_due(printer, progress->evaluated || last))
        return;
    if (progress->starts > 0)
        snprintf(start, sizeof start, "start %zu of %zu  ", progress->start, progress->starts);
    if (!isnan(progress->evaluation))
        snprintf(evaluated, sizeof evaluated, "  %s %.4g", progress->adjusted ? "half_adjusted" : "evaluated",
                 progress->evaluation);
    if (progress->skipped_steps > 0)
        snprintf(skipped, sizeof skipped, "  %" PRIu64 " skipped", progress->skipped_steps);
    snprintf(text, sizeof text, "%sstep %" PRIu64 "/%" PRIu64 "  %.3g steps/s  %s left  loss %.4g%s%s", start,
             progress->step, progress->total_steps, progress->steps_per_second, duration(progress->seconds_left, left),
             progress->loss, evaluated, skipped);
    show(printer, (double)progress->step / (double)progress->total_steps, text);
}

void progress_share(progress_printer *printer, const char *what, double share) {
    const double spent = icl_clock_seconds() - printer->started;
    char left[32], text[MAX_COLUMNS];

    if (share <= 0 || !is_due(printer, false))
        return;
    snprintf(text, sizeof text, "%s  %s left", what, duration(spent * (1 - share) / share, left));
    show(printer, share, text);
}

void progress_end(progress_printer *printer) {
    if (printer->line_open)
        fputc('\n', stderr);
    printer->line_open = false;
}

void progress_clear(progress_printer *printer) {
    if (printer->line_open)
        fputs("\r\x1b[K", stderr);
    printer->line_open = false;
}

/* ---- Signals ---- */

volatile sig_atomic_t stop_signal;

/* The disposition of SIGHUP when the process began: -1 until it is read. */
static volatile sig_atomic_t outlives_hangup = -1;

static void look_at_hangup(void) {
    struct sigaction action;

    if (outlives_hangup < 0 && sigaction(SIGHUP, NULL, &action) == 0)
        outlives_hangup = action.sa_handler == SIG_IGN;
}

/* MPI libraries (UCX) take over SIGHUP while they are loaded, with nohup or without. Only code that ELF runs before the
 * initializers of libraries still sees the setting of nohup; a sanitizer cannot run so early. */
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

void outlive_readers(void) {
    (void)signal(SIGPIPE, SIG_IGN);
}

static const int batch_signals[] = {SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM};

enum { BATCH_SIGNALS = sizeof batch_signals / sizeof *batch_signals };

static void request_stop(int signal_number) {
    stop_signal = signal_number;
}

/* Replaces one handler by another. */
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
