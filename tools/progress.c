#include "progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "iclab/host.h"
#include "terminal.h"

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

/* "2 h 5 min", "3 min 20 s", "12 s" */
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

/* Whether a line is to be printed now; one that is `urgent` is, on a terminal. */
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

    /* A character in the last column would make some terminals go on to the next line. */
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
