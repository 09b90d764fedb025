/* Progress of a training run on stderr: one line that is rewritten on a terminal, a line now and then anywhere else. */
#ifndef ICLAB_TOOLS_PROGRESS_H
#define ICLAB_TOOLS_PROGRESS_H

#include <stdbool.h>

#include "lab/session.h"

typedef struct progress_printer {
    bool terminal;
    bool line_open;      /* a rewritten line waits for its end */
    double last_printed; /* seconds; 0: never */
} progress_printer;

void progress_start(progress_printer *printer);

/* An icl_session_params.report; user is the printer. */
void progress_report(void *user, const icl_session_progress *progress);

/* Ends a line that is being rewritten; call it before anything else is printed. */
void progress_end(progress_printer *printer);

#endif
