/* Terminals: colours, progress on one line that is rewritten, and a clean end on Ctrl-C. */
#ifndef ICLAB_TOOLS_TERMINAL_H
#define ICLAB_TOOLS_TERMINAL_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "iclab/session.h"

/* Terminals take colours and lines that are rewritten; pipes do not. */

/* The number of columns if the terminal does not report it. */
#define DEFAULT_COLUMNS 80

/* Returns whether the stream is a terminal that understands escape sequences: TERM is set, and not to "dumb". */
bool is_smart_terminal(FILE *stream);

/* Returns the columns of the stream's terminal. */
size_t terminal_columns(FILE *stream);

/* Returns a verdict for stdout: green for good and red for bad on a smart terminal, unless the environment variable
 * NO_COLOR is set and not empty (no-color.org); otherwise unchanged. Valid as long as `text`. */
const char *paint_verdict(const char *verdict, bool good, char text[64]);

/* ---- Progress of long work ---- */

/* Progress of long work on stderr: one line with a bar, a rate and the time left, rewritten repeatedly on a terminal;
 * nothing anywhere else. */

typedef struct progress_printer {
    bool shown;          /* stderr is a terminal that can rewrite a line */
    bool line_open;      /* such a line has not been ended yet */
    double last_printed; /* seconds; 0: never */
    double started;
} progress_printer;

/* Starts the progress; prints nothing if `quiet`. */
void progress_start(progress_printer *printer, bool quiet);

/* Is an icl_session_params.report, with the printer as its user. */
void progress_report(void *user, const icl_session_progress *progress);

/* As above, for work of which a share in [0, 1] is done: "predicting  12 s left". */
void progress_share(progress_printer *printer, const char *what, double share);

/* Ends a line that is being rewritten; call it before anything else is printed. */
void progress_end(progress_printer *printer);

/* Removes such a line instead, if only the result of the work deserves a line. */
void progress_clear(progress_printer *printer);

/* Writes into `line` a bar for the done share in [0, 1] and the text after it, at most `columns` columns in all: the
 * bar is shortened first, then the end of the text. line holds at least columns + 1 bytes. */
void progress_line(double share, const char *text, size_t columns, char *line);

/* ---- A clean end on Ctrl-C ---- */

/* Long work checks a flag, so that it ends cleanly on Ctrl-C. */

/* The signal that asked for an end; 0 before. It is global, because signal handlers can reach nothing else. */
extern volatile sig_atomic_t stop_signal;

/* Is called first: makes a hang-up end the command, whatever a library did about it, unless the command was started to
 * survive one (nohup). */
void settle_hangup(void);

/* Makes writing fail, instead of ending the command, if readers of stdout and stderr go away; main checks stdout at the
 * end. */
void outlive_readers(void);

/* Turns SIGINT, SIGTERM and SIGHUP into requests to stop. The handler then removes itself, so that a second signal ends
 * the process at once. The signals of batch systems (SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM) are requests, too, unless
 * somebody else handles or ignores them; as they are sent repeatedly, they stay handled until the process ends. */
void catch_stop_signals(void);

/* Lets signals end the process again; those of batch systems only if none has asked for an end yet. */
void release_stop_signals(void);

#endif
