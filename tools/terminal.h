/* Terminals: colours, progress on one line that is written again, and a clean end on Ctrl-C. */
#ifndef ICLAB_TOOLS_TERMINAL_H
#define ICLAB_TOOLS_TERMINAL_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "iclab/session.h"

/* Terminals take colours and lines that are written again; pipes do not. */

/* Columns that are assumed where the terminal does not say. */
#define DEFAULT_COLUMNS 80

/* Whether the stream is a terminal that understands escape sequences: TERM is set, and not to "dumb". */
bool is_smart_terminal(FILE *stream);

/* Columns of the terminal behind the stream. */
size_t terminal_columns(FILE *stream);

/* A verdict as it is to be printed to stdout: green for good and red for bad on a smart terminal, unless the
 * environment variable NO_COLOR is set and not empty (no-color.org); as it stands anywhere else.
 * Valid until `text` goes. */
const char *paint_verdict(const char *verdict, bool good, char text[64]);

/* ---- Progress of long work ---- */

/* Progress of long work on stderr: one line with a bar, a rate and the time left, written again and again on a
 * terminal; nothing anywhere else. */

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

/* ---- A clean end on Ctrl-C ---- */

/* A clean end on Ctrl-C: long work looks at a flag. */

/* The signal that asked for an end; 0 before. Signal handlers can reach nothing but a global. */
extern volatile sig_atomic_t stop_signal;

/* First of all: a hang-up ends the command, whatever a library made of it, unless the command was begun to outlive one
 * (nohup). */
void settle_hangup(void);

/* Readers of stdout and stderr that go away do not end the command: writing fails instead, and main looks at stdout at
 * the end. */
void outlive_readers(void);

/* Makes SIGINT, SIGTERM and SIGHUP requests. The handler then steps aside, so that a second one ends the process at
 * once. So it does of what batch systems send (SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM), where nobody else handles or
 * ignores that, but these come again and again, and are heard until the process ends. */
void catch_stop_signals(void);

/* Lets signals end the process again, except those of batch systems once one has asked for an end. */
void release_stop_signals(void);

#endif
