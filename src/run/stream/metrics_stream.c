#include "iclab/metrics_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/host.h"
#include "iclab/number.h"
#include "iclab/text.h"

/* Rows that wait may take so many bytes. */
#define MOST_HELD ((size_t)4 << 20)

/* How long the end of a training waits for a reader that takes nothing, and how often it looks. */
#define PATIENCE_SECONDS  5
#define LOOK_MILLISECONDS 50

struct icl_metrics_stream {
    char *path;   /* of a named pipe, which can be opened again; else NULL */
    int file;     /* -1: nobody reads */
    bool is_ours; /* to be closed */
    bool is_regular;
    bool was_read; /* somebody had opened it */
    icl_text held; /* whole lines */
    uint64_t lost;
    /* Of a file that is still as it was: */
    char *file_path;
    bool is_to_cut, resumes;
    uint64_t step;
};

/* ---- Opening ---- */

/* The length of the rows up to `step`. */
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

/* Before the first row, and no sooner: a training that is refused leaves the file as it was. */
static bool cut_file(icl_metrics_stream *stream) {
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

/* A named pipe without a reader opens later. */
static void look_for_reader(icl_metrics_stream *stream) {
    if (stream->file >= 0 || !stream->path)
        return;
    stream->file = open(stream->path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    stream->was_read = stream->was_read || stream->file >= 0;
}

static icl_status open_path(icl_metrics_stream *stream, const char *path, bool resumes, uint64_t step,
                            icl_error *error) {
    struct stat is;
    const bool exists = stat(path, &is) == 0;

    stream->is_ours = true;
    if (exists && S_ISFIFO(is.st_mode)) {
        ICL_CHECK(icl_duplicate(path, &stream->path, error));
        look_for_reader(stream);
        return stream->file >= 0 || errno == ENXIO ? ICL_OK : icl_file_fail(error, "write", path, errno);
    }
    stream->is_regular = !exists || S_ISREG(is.st_mode);
    if (stream->is_regular)
        ICL_CHECK(icl_duplicate(path, &stream->file_path, error));
    stream->is_to_cut = stream->is_regular;
    stream->resumes = resumes;
    stream->step = step;
    stream->file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    return stream->file >= 0 ? ICL_OK : icl_file_fail(error, "write", path, errno);
}

static icl_status open_descriptor(icl_metrics_stream *stream, const char *target, icl_error *error) {
    uint64_t number = STDOUT_FILENO;
    struct stat is;

    if (strcmp(target, "-") != 0 && (!icl_parse_count(target + 3, strlen(target + 3), &number) || number > INT_MAX))
        return icl_fail(error, ICL_ERROR_INPUT, "%s: expected fd: and the number of an open descriptor", target);
    if (fstat((int)number, &is) != 0 || (fcntl((int)number, F_GETFL) & O_ACCMODE) == O_RDONLY)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: expected a descriptor that is open for writing", target);
    stream->file = (int)number;
    stream->is_regular = S_ISREG(is.st_mode);
    stream->was_read = true;
    return ICL_OK;
}

icl_status icl_metrics_stream_open(const char *target, bool resumes, uint64_t step, icl_metrics_stream **stream,
                                   icl_error *error) {
    const bool is_descriptor = strcmp(target, "-") == 0 || strncmp(target, "fd:", 3) == 0;
    icl_metrics_stream *made = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(1, sizeof *made, "stream of metrics", &made, error));
    made->file = -1;
    ICL_TRY(is_descriptor ? open_descriptor(made, target, error) : open_path(made, target, resumes, step, error));
    *stream = made;
    made = NULL;
done:
    (void)icl_metrics_stream_close(&made);
    return status;
}

/* ---- Rows ---- */

static void lose_first_line(icl_metrics_stream *stream) {
    const char *end = memchr(stream->held.bytes, '\n', stream->held.length);
    const size_t length = (size_t)(end - stream->held.bytes) + 1;

    memmove(stream->held.bytes, end + 1, stream->held.length - length);
    stream->held.length -= length;
    stream->lost++;
}

/* A number as metrics.csv has it. */
static icl_status add_number(icl_text *line, const char *name, double value, icl_error *error) {
    char text[ICL_NUMBER_CAPACITY];

    return icl_text_print(line, error, ",\"%s\":%s", name, isfinite(value) ? icl_format_value(value, text) : "null");
}

static icl_status add_row(icl_text *line, const icl_session_row *row, icl_error *error) {
    ICL_CHECK(icl_text_print(line, error, "{\"step\":%" PRIu64, row->step));
    ICL_CHECK(add_number(line, "loss", row->loss, error));
    ICL_CHECK(add_number(line, "gradient_norm", row->gradient_norm, error));
    ICL_CHECK(add_number(line, "learning_rate", row->learning_rate, error));
    if (!isnan(row->eval_half_adjusted))
        ICL_CHECK(add_number(line, "eval_half_adjusted", row->eval_half_adjusted, error));
    return icl_text_print(line, error, "}\n");
}

void icl_metrics_stream_row(icl_metrics_stream *stream, const icl_session_row *row) {
    const size_t before = stream->held.length;

    if (add_row(&stream->held, row, NULL) != ICL_OK) {
        stream->held.length = before;
        stream->lost++;
    }
    if (stream->held.length > MOST_HELD)
        icl_metrics_stream_flush(stream);
    while (stream->held.length > MOST_HELD)
        lose_first_line(stream);
}

/* ---- Writing ---- */

/* Writes without SIGPIPE, whatever the process makes of it: blocked here, and taken away if this raised it. */
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

/* As many whole lines as a pipe takes in one piece: it takes all of them or none. */
static size_t piece_of(const icl_metrics_stream *stream) {
    size_t length = 0;

    if (stream->is_regular)
        return stream->held.length;
    for (size_t i = 0; i < stream->held.length && i < PIPE_BUF; i++)
        if (stream->held.bytes[i] == '\n')
            length = i + 1;
    return length;
}

/* Whether a write of a piece returns at once. */
static bool has_room(const icl_metrics_stream *stream) {
    struct pollfd looked = {.fd = stream->file, .events = POLLOUT};

    return stream->is_regular || (poll(&looked, 1, 0) > 0 && (looked.revents & (POLLOUT | POLLERR | POLLHUP)));
}

/* The reader is gone: of a named pipe another one may come. */
static void give_up_reader(icl_metrics_stream *stream) {
    if (stream->is_ours)
        close(stream->file);
    stream->file = -1;
}

/* Writes a piece. False: not now, or nobody reads. */
static bool write_piece(icl_metrics_stream *stream) {
    ssize_t count;

    look_for_reader(stream);
    if (stream->file < 0 || stream->held.length == 0 || !has_room(stream))
        return false;
    if (!cut_file(stream)) {
        give_up_reader(stream);
        return false;
    }
    count = write_quietly(stream->file, stream->held.bytes, piece_of(stream));
    if (count < 0 && errno == EINTR)
        return true;
    if (count < 0 && errno != EAGAIN)
        give_up_reader(stream);
    if (count < 0)
        return false;
    memmove(stream->held.bytes, stream->held.bytes + count, stream->held.length - (size_t)count);
    stream->held.length -= (size_t)count;
    return true;
}

void icl_metrics_stream_flush(icl_metrics_stream *stream) {
    while (write_piece(stream))
        continue;
}

/* Of a pipe that a reader may still take rows from, or that nobody has opened yet. */
static bool is_worth_waiting(const icl_metrics_stream *stream) {
    return stream->held.length > 0 && (stream->file >= 0 || (stream->path && !stream->was_read));
}

uint64_t icl_metrics_stream_close(icl_metrics_stream **stream) {
    icl_metrics_stream *closed = *stream;
    double last = icl_clock_seconds();
    uint64_t lost;

    if (!closed)
        return 0;
    icl_metrics_stream_flush(closed);
    while (is_worth_waiting(closed) && icl_clock_seconds() - last < PATIENCE_SECONDS) {
        (void)poll(NULL, 0, LOOK_MILLISECONDS);
        if (write_piece(closed))
            last = icl_clock_seconds();
    }
    while (closed->held.length > 0)
        lose_first_line(closed);
    lost = closed->lost;
    if (closed->file >= 0 && closed->is_ours)
        close(closed->file);
    icl_text_release(&closed->held);
    icl_free(&closed->path);
    icl_free(&closed->file_path);
    icl_free(stream);
    return lost;
}
