/* TFRecord framing around the protocol buffers Event and Summary, as far as scalars need them. */
#include "iclab/event_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/allocate.h"
#include "core/crc32c.h"
#include "iclab/file.h"
#include "iclab/text.h"

struct icl_event_file {
    char *path;
    int file;
    icl_text held; /* whole records */
    icl_status status;
    icl_error failure; /* the first */
};

/* ---- Protocol buffers ---- */

/* Field numbers and wire types in one byte: number << 3 | type. */
enum {
    EVENT_WALL_TIME = 1 << 3 | 1,
    EVENT_STEP = 2 << 3,
    EVENT_FILE_VERSION = 3 << 3 | 2,
    EVENT_SUMMARY = 5 << 3 | 2,
    EVENT_SESSION_LOG = 7 << 3 | 2,
    SUMMARY_VALUE = 1 << 3 | 2,
    VALUE_TAG = 1 << 3 | 2,
    VALUE_SIMPLE = 2 << 3 | 5,
    SESSION_STATUS = 1 << 3,
    SESSION_START = 1,
};

static icl_status add_byte(icl_text *to, unsigned byte, icl_error *error) {
    const char character = (char)byte;
    return icl_text_append(to, &character, 1, error);
}

/* The lowest byte first. */
static icl_status add_fixed(icl_text *to, uint64_t bits, int bytes, icl_error *error) {
    for (int i = 0; i < bytes; i++)
        ICL_CHECK(add_byte(to, (unsigned)(bits >> (8 * i)) & 0xffU, error));
    return ICL_OK;
}

static icl_status add_varint(icl_text *to, uint64_t value, icl_error *error) {
    for (; value >= 0x80; value >>= 7)
        ICL_CHECK(add_byte(to, (unsigned)(value & 0x7f) | 0x80U, error));
    return add_byte(to, (unsigned)value, error);
}

static icl_status add_bytes(icl_text *to, unsigned field, const char *bytes, size_t size, icl_error *error) {
    ICL_CHECK(add_byte(to, field, error));
    ICL_CHECK(add_varint(to, size, error));
    return icl_text_append(to, bytes, size, error);
}

static icl_status add_scalar(icl_text *summary, const char *tag, double number, icl_error *error) {
    const float value = (float)number;
    icl_text message = {0};
    icl_status status = ICL_OK;
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    ICL_TRY(add_bytes(&message, VALUE_TAG, tag, strlen(tag), error));
    ICL_TRY(add_byte(&message, VALUE_SIMPLE, error));
    ICL_TRY(add_fixed(&message, bits, 4, error));
    ICL_TRY(add_bytes(summary, SUMMARY_VALUE, message.bytes, message.length, error));
done:
    icl_text_release(&message);
    return status;
}

/* ---- Records ---- */

static uint32_t masked_crc(const char *bytes, size_t size) {
    const uint32_t crc = icl_crc32c(bytes, size);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

static icl_status add_record(icl_text *to, const icl_text *event, icl_error *error) {
    const size_t start = to->length;

    ICL_CHECK(add_fixed(to, event->length, 8, error));
    ICL_CHECK(add_fixed(to, masked_crc(to->bytes + start, 8), 4, error));
    ICL_CHECK(icl_text_append(to, event->bytes, event->length, error));
    return add_fixed(to, masked_crc(event->bytes, event->length), 4, error);
}

static double wall_time(void) {
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* An event of now with one field behind its step. */
static icl_status add_event(icl_text *to, uint64_t step, unsigned field, const char *bytes, size_t size,
                            icl_error *error) {
    const double seconds = wall_time();
    const size_t before = to->length;
    icl_text event = {0};
    icl_status status = ICL_OK;
    uint64_t bits;

    memcpy(&bits, &seconds, sizeof bits);
    ICL_TRY(add_byte(&event, EVENT_WALL_TIME, error));
    ICL_TRY(add_fixed(&event, bits, 8, error));
    ICL_TRY(add_byte(&event, EVENT_STEP, error));
    ICL_TRY(add_varint(&event, step, error));
    ICL_TRY(add_bytes(&event, field, bytes, size, error));
    ICL_TRY(add_record(to, &event, error));
done:
    if (status != ICL_OK)
        to->length = before;
    icl_text_release(&event);
    return status;
}

/* ---- The file ---- */

static icl_status open_file(icl_event_file *file, const char *folder, icl_error *error) {
    enum { MOST_NUMBERS = 1000 };
    char host[128] = "", name[256];
    icl_status status = ICL_OK;

    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0')
        snprintf(host, sizeof host, "localhost");
    for (int number = 0; number < MOST_NUMBERS && file->file < 0; number++) {
        snprintf(name, sizeof name, "events.out.tfevents.%010lld.%s.%ld.%d", (long long)time(NULL), host,
                 (long)getpid(), number);
        icl_free(&file->path);
        ICL_TRY(icl_path_join(folder, name, &file->path, error));
        file->file = open(file->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
        if (file->file < 0 && errno != EEXIST)
            break;
    }
    if (file->file < 0)
        status = icl_file_fail(error, "write", file->path, errno);
done:
    return status;
}

icl_status icl_event_file_create(const char *folder, bool resumes, uint64_t step, icl_event_file **file,
                                 icl_error *error) {
    static const char version[] = "brain.Event:2", start[] = {SESSION_STATUS, SESSION_START};
    icl_event_file *made = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_folder_create(folder, error));
    ICL_TRY(icl_allocate(1, sizeof *made, "event file", &made, error));
    made->file = -1;
    ICL_TRY(open_file(made, folder, error));
    ICL_TRY(add_event(&made->held, 0, EVENT_FILE_VERSION, version, sizeof version - 1, error));
    if (resumes)
        ICL_TRY(add_event(&made->held, step + 1, EVENT_SESSION_LOG, start, sizeof start, error));
    icl_event_file_flush(made);
    *file = made;
    made = NULL;
done:
    (void)icl_event_file_close(&made, NULL);
    return status;
}

void icl_event_file_row(icl_event_file *file, const icl_session_row *row) {
    icl_error *error = &file->failure;
    icl_text summary = {0};
    icl_status status = file->status;

    if (status != ICL_OK)
        return;
    ICL_TRY(add_scalar(&summary, "loss", row->loss, error));
    ICL_TRY(add_scalar(&summary, "gradient_norm", row->gradient_norm, error));
    ICL_TRY(add_scalar(&summary, "learning_rate", row->learning_rate, error));
    if (!isnan(row->eval_half_adjusted))
        ICL_TRY(add_scalar(&summary, "eval_half_adjusted", row->eval_half_adjusted, error));
    ICL_TRY(add_event(&file->held, row->step, EVENT_SUMMARY, summary.bytes, summary.length, error));
done:
    file->status = status;
    icl_text_release(&summary);
}

void icl_event_file_flush(icl_event_file *file) {
    size_t written = 0;

    while (file->status == ICL_OK && written < file->held.length) {
        const ssize_t count = write(file->file, file->held.bytes + written, file->held.length - written);
        if (count >= 0)
            written += (size_t)count;
        else if (errno != EINTR)
            file->status = icl_file_fail(&file->failure, "write", file->path, errno);
    }
    file->held.length = 0;
}

icl_status icl_event_file_close(icl_event_file **file, icl_error *error) {
    icl_status status = ICL_OK;

    if (!*file)
        return ICL_OK;
    icl_event_file_flush(*file);
    if ((*file)->file >= 0)
        close((*file)->file);
    if ((*file)->status != ICL_OK)
        status = icl_fail(error, (*file)->status, "%s", (*file)->failure.message);
    icl_text_release(&(*file)->held);
    icl_free(&(*file)->path);
    icl_free(file);
    return status;
}
