/* Progress of long work on stderr: one line with a bar, a rate and the time left, written again and again on a
 * terminal; nothing anywhere else. */
#ifndef ICLAB_TOOLS_PROGRESS_H
#define ICLAB_TOOLS_PROGRESS_H

#include <stdbool.h>

#include "iclab/session.h"

typedef struct progress_printer {
    bool shown;          /* stderr is a terminal that can write a line again */
    bool line_open;      /* such a line waits for its end */
    double last_printed; /* seconds; 0: never */
    double started;
} progress_printer;

/* Nothing is printed where `quiet`. */
void progress_start(progress_printer *printer, bool quiet);

/* An icl_session_params.report; user is the printer. */
void progress_report(void *user, const icl_session_progress *progress);

/* The same of work of which a share in [0, 1] is done: "predicting  12 s left". */
void progress_share(progress_printer *printer, const char *what, double share);

/* Ends a line that is being rewritten; call it before anything else is printed. */
void progress_end(progress_printer *printer);

/* Takes such a line away instead: for work of which only the result is worth a line. */
void progress_clear(progress_printer *printer);

/* Writes into `line` a bar for the done share in [0, 1] and the text behind it, at most `columns` columns in all: first
 * the bar gives way, then the end of the text. line holds at least columns + 1 bytes. */
void progress_line(double share, const char *text, size_t columns, char *line);

#endif
