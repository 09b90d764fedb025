/* Tests a stream of metrics whose reader is slow, or goes away. Readers that come and go while a run trains are tested
 * in tests/tools/stream.py. */
#include "metrics_stream.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "tap.h"

enum { ROWS = 4000 }; /* several times the capacity of a pipe */

typedef struct reader {
    int file;
    uint64_t wanted, lines; /* wanted: the bytes after which it leaves; 0: it stays to the end */
} reader;

static void *count_lines(void *context) {
    reader *r = context;
    char text[512];
    uint64_t taken = 0;
    ssize_t got;

    while ((r->wanted == 0 || taken < r->wanted) && (got = read(r->file, text, sizeof text)) > 0) {
        taken += (uint64_t)got;
        for (ssize_t i = 0; i < got; i++)
            r->lines += text[i] == '\n';
    }
    close(r->file);
    return NULL;
}

/* Sends ROWS rows to a reader that leaves after `wanted` bytes, and checks the count of lost ones. SIGPIPE would end
 * this program. */
static void send_rows(tap_run *tap, uint64_t wanted, const char *name) {
    metrics_stream *stream = NULL;
    icl_error error = {0};
    char target[32];
    reader r = {.wanted = wanted};
    pthread_t thread;
    int ends[2];

    if (pipe(ends) != 0 || pthread_create(&thread, NULL, count_lines, (r.file = ends[0], &r)) != 0) {
        tap_ok(tap, false, "no pipe and no reader");
        return;
    }
    snprintf(target, sizeof target, "fd:%d", ends[1]);
    if (tap_status(tap, metrics_stream_open(target, false, 0, NULL, &stream, &error), &error, name)) {
        for (uint64_t step = 1; step <= ROWS; step++) {
            metrics_stream_row(stream, &(icl_session_row){.step = step, .loss = 1});
            if (step % 100 == 0)
                metrics_stream_flush(stream);
        }
        const uint64_t lost = metrics_stream_close(&stream);
        close(ends[1]);
        pthread_join(thread, NULL);
        tap_ok(tap, wanted == 0 ? lost == 0 && r.lines == ROWS : lost > 0 && lost + r.lines <= ROWS,
               "%s: %d rows arrived, %d were lost", name, (int)r.lines, (int)lost);
    }
}

int main(void) {
    tap_run tap = {0};

    (void)signal(SIGPIPE, SIG_DFL);
    send_rows(&tap, 0, "a reader that takes all");
    send_rows(&tap, 512, "a reader that goes away");
    return tap_done(&tap);
}
