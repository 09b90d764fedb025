/* The end of a stream of metrics: a reader that takes nothing is waited for, but not forever, and what it did not get
 * is counted. How readers come and go while a run trains is in tests/tools/stream.py. */
#include "iclab/metrics_stream.h"

#include <stdio.h>
#include <unistd.h>

#include "tap.h"

enum { ROWS = 4000 }; /* several times what a pipe holds */

/* Lines that wait in the pipe. */
static uint64_t count_lines(int reader) {
    char text[4096];
    uint64_t lines = 0;
    ssize_t got;

    while ((got = read(reader, text, sizeof text)) > 0)
        for (ssize_t i = 0; i < got; i++)
            lines += text[i] == '\n';
    return lines;
}

int main(void) {
    tap_run tap = {0};
    icl_metrics_stream *stream = NULL;
    icl_error error = {0};
    char target[32];
    int ends[2];

    if (pipe(ends) != 0) {
        tap_ok(&tap, false, "no pipe");
        return tap_done(&tap);
    }
    snprintf(target, sizeof target, "fd:%d", ends[1]);
    if (tap_status(&tap, icl_metrics_stream_open(target, false, 0, &stream, &error), &error, "a pipe is opened")) {
        for (uint64_t step = 1; step <= ROWS; step++)
            icl_metrics_stream_row(stream, &(icl_session_row){.step = step, .loss = 1});
        const uint64_t lost = icl_metrics_stream_close(&stream);
        close(ends[1]);
        const uint64_t arrived = count_lines(ends[0]);
        tap_ok(&tap, arrived > 0 && lost > 0 && arrived + lost == ROWS,
               "a reader that takes nothing is left after a while: %d rows arrived, %d lost", (int)arrived, (int)lost);
    }
    close(ends[0]);
    return tap_done(&tap);
}
