/* A stream of the metrics of a training: `iclab train --metrics`. */
#include "metrics_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iclab/file.h"
#include "iclab/host.h"
#include "iclab/number.h"
#include "iclab/text.h"

/* How often a waiting writer checks whether it is to stop. */
#define LOOK_MILLISECONDS 50

struct metrics_stream {
    int file;      /* -1: the reader is gone */
    bool is_ours;  /* close closes the file */
    icl_text held; /* whole lines since the last flush */
    const volatile sig_atomic_t *stop;
    uint64_t lost;
    /* The rest is for cut_file; the file is unchanged as long as is_to_cut is set. */
    char *file_path;
    bool is_to_cut, resumes;
    uint64_t step;
};

/* Returns the length of the rows up to `step`. */
static size_t kept_length(const char *text, uint64_t step) {
    static const char head[] = "{\"step\":";
    const char *row = text;
    uint64_t at;

    for (const char *end = strchr(row, '\n'); end; end = strchr(row, '\n')) {
        const char *number = row + sizeof head - 1;
        if (strncmp(row, head, sizeof head - 1) != 0 || !icl_parse_count(number, strcspn(number, ",}\n"), &at) ||
            at > step)
            break;
        row = end + 1;
    }
    return (size_t)(row - text);
}

/* Is called just before the first row, so that a training that is refused leaves the file as it was. */
static bool cut_file(metrics_stream *stream) {
    char *text = NULL;
    size_t size = 0, kept = 0;

    if (!stream->is_to_cut)
        return true;
    stream->is_to_cut = false;
    if (stream->resumes && icl_file_read(stream->file_path, 0, &text, &size, NULL) == ICL_OK)
        kept = kept_length(text, stream->step);
    icl_free(&text);
    return ftruncate(stream->file, (off_t)kept) == 0;
}

static icl_status open_path(metrics_stream *stream, const char *path, bool resumes, uint64_t step, icl_error *error) {
    struct stat found;

    stream->is_ours = true;
    stream->is_to_cut = stat(path, &found) != 0 || S_ISREG(found.st_mode);
    if (stream->is_to_cut)
        ICL_CHECK(icl_duplicate(path, &stream->file_path, error));
    stream->resumes = resumes;
    stream->step = step;
    stream->file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    return stream->file >= 0 ? ICL_OK : icl_file_fail(error, "write", path, errno);
}

static icl_status open_descriptor(metrics_stream *stream, const char *target, icl_error *error) {
    uint64_t number = STDOUT_FILENO;

    if (strcmp(target, "-") != 0 && (!icl_parse_count(target + 3, strlen(target + 3), &number) || number > INT_MAX))
        return icl_fail(error, ICL_ERROR_INPUT, "%s: expected fd: and the number of an open descriptor", target);
    const int flags = fcntl((int)number, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: expected a descriptor that is open for writing", target);
    stream->file = (int)number;
    return ICL_OK;
}

icl_status metrics_stream_open(const char *target, bool resumes, uint64_t step, const volatile sig_atomic_t *stop,
                               metrics_stream **stream, icl_error *error) {
    const bool is_descriptor = strcmp(target, "-") == 0 || strncmp(target, "fd:", 3) == 0;
    metrics_stream *created = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(1, sizeof *created, "stream of metrics", &created, error));
    created->file = -1;
    created->stop = stop;
    ICL_TRY(is_descriptor ? open_descriptor(created, target, error) : open_path(created, target, resumes, step, error));
    *stream = created;
    created = NULL;
done:
    (void)metrics_stream_close(&created);
    return status;
}

/* Adds a number as metrics.csv has it. */
static icl_status add_number(icl_text *line, const char *name, double value, icl_error *error) {
    char text[ICL_NUMBER_CAPACITY];

    return icl_text_print(line, error, ",\"%s\":%s", name, isfinite(value) ? icl_format_value(value, text) : "null");
}

static icl_status add_line(icl_text *line, const icl_session_row *row, icl_error *error) {
    ICL_CHECK(icl_text_print(line, error, "{\"step\":%" PRIu64, row->step));
    ICL_CHECK(add_number(line, "loss", row->loss, error));
    ICL_CHECK(add_number(line, "gradient_norm", row->gradient_norm, error));
    ICL_CHECK(add_number(line, "learning_rate", row->learning_rate, error));
    if (!isnan(row->eval_half_adjusted))
        ICL_CHECK(add_number(line, "eval_half_adjusted", row->eval_half_adjusted, error));
    return icl_text_print(line, error, "}\n");
}

void metrics_stream_row(metrics_stream *stream, const icl_session_row *row) {
    const size_t before = stream->held.length;

    if (add_line(&stream->held, row, NULL) != ICL_OK) {
        stream->held.length = before;
        stream->lost++;
    }
}

/* Writes without raising SIGPIPE, whatever the process does with it: blocks the signal here, and consumes it if this
 * write raised it. */
static ssize_t write_quietly(int file, const char *bytes, size_t size) {
    sigset_t pipe_signal, before, pending;
    ssize_t count;
    int failure, taken;

    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
    count = write(file, bytes, size);
    failure = errno;
    if (count < 0 && failure == EPIPE && !sigismember(&pending, SIGPIPE)) {
        sigpending(&pending);
        if (sigismember(&pending, SIGPIPE))
            (void)sigwait(&pipe_signal, &taken);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = failure;
    return count;
}

/* Writes everything and waits for a slow reader. Writes only pieces that fit at once, so that no write blocks. Returns
 * false if the reader is gone or the wait is to end. */
static bool write_all(metrics_stream *stream, size_t *written) {
    while (*written < stream->held.length) {
        struct pollfd looked = {.fd = stream->file, .events = POLLOUT};
        const size_t left = stream->held.length - *written;
        const bool is_ready = poll(&looked, 1, LOOK_MILLISECONDS) > 0;
        ssize_t count = 0;
        if (is_ready)
            count = write_quietly(stream->file, stream->held.bytes + *written, left < PIPE_BUF ? left : PIPE_BUF);
        else if (stream->stop && *stream->stop)
            return false;
        if (count < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        *written += count > 0 ? (size_t)count : 0;
    }
    return true;
}

/* Counts the rows of which some part did not arrive. */
static uint64_t count_lost(const metrics_stream *stream, size_t written) {
    uint64_t lost = 0;

    for (size_t i = written; i < stream->held.length; i++)
        lost += stream->held.bytes[i] == '\n';
    return lost;
}

static void give_up_reader(metrics_stream *stream) {
    if (stream->is_ours && stream->file >= 0)
        close(stream->file);
    stream->file = -1;
}

void metrics_stream_flush(metrics_stream *stream) {
    size_t written = 0;

    if (stream->held.length == 0)
        return;
    if (stream->file >= 0 && (!cut_file(stream) || !write_all(stream, &written)))
        give_up_reader(stream);
    stream->lost += count_lost(stream, written);
    stream->held.length = 0;
}

uint64_t metrics_stream_close(metrics_stream **stream) {
    metrics_stream *closed = *stream;
    uint64_t lost;

    if (!closed)
        return 0;
    metrics_stream_flush(closed);
    lost = closed->lost;
    give_up_reader(closed);
    icl_text_release(&closed->held);
    icl_free(&closed->file_path);
    icl_free(stream);
    return lost;
}
