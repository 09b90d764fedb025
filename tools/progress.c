#include "progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "core/clock.h"

#define SECONDS_BETWEEN_LINES   30.0
#define SECONDS_BETWEEN_UPDATES 0.1

void progress_start(progress_printer *printer) {
    *printer = (progress_printer){.terminal = isatty(STDERR_FILENO) == 1};
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

void progress_report(void *user, const icl_session_progress *progress) {
    progress_printer *printer = user;
    const double time = icl_clock_seconds();
    const double interval = printer->terminal ? SECONDS_BETWEEN_UPDATES : SECONDS_BETWEEN_LINES;
    const bool last = progress->step == progress->total_steps;
    char left[32], evaluated[48] = "", skipped[48] = "";

    if (!progress->evaluated && !last && printer->last_printed > 0 && time - printer->last_printed < interval)
        return;
    printer->last_printed = time;
    if (!isnan(progress->half_adjusted))
        snprintf(evaluated, sizeof evaluated, "  half adj. %.4g", progress->half_adjusted);
    if (progress->skipped_steps > 0)
        snprintf(skipped, sizeof skipped, "  %" PRIu64 " skipped", progress->skipped_steps);
    fprintf(stderr, "%sstep %" PRIu64 "/%" PRIu64 "  loss %.4g%s%s  %.3g steps/s  %s left%s",
            printer->terminal ? "\r" : "", progress->step, progress->total_steps, progress->loss, evaluated,
            skipped, progress->steps_per_second, duration(progress->seconds_left, left),
            printer->terminal ? "\x1b[K" : "\n");
    fflush(stderr);
    printer->line_open = printer->terminal;
}

void progress_end(progress_printer *printer) {
    if (printer->line_open)
        fputc('\n', stderr);
    printer->line_open = false;
}
