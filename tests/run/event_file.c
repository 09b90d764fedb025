/* Event files: the bytes of their records, and the sums that guard them. */
#include "iclab/event_file.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "../core/scratch.h"
#include "core/crc32c.h"
#include "iclab/file.h"
#include "tap.h"

/* RFC 3720, B.4, and the check value of the catalogue of CRCs. */
static void test_sums(tap_run *tap) {
    unsigned char bytes[32];

    tap_ok(tap, icl_crc32c("123456789", 9) == 0xe3069283U, "the check value");
    tap_ok(tap, icl_crc32c("", 0) == 0, "of nothing");
    memset(bytes, 0, sizeof bytes);
    tap_ok(tap, icl_crc32c(bytes, sizeof bytes) == 0x8a9136aaU, "32 zeros");
    memset(bytes, 0xff, sizeof bytes);
    tap_ok(tap, icl_crc32c(bytes, sizeof bytes) == 0x62a8ab43U, "32 ones");
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    tap_ok(tap, icl_crc32c(bytes, sizeof bytes) == 0x46dd794eU, "0 to 31");
}

static uint64_t number_at(const char *bytes, int size) {
    uint64_t number = 0;

    for (int i = size - 1; i >= 0; i--)
        number = number << 8 | (unsigned char)bytes[i];
    return number;
}

static uint32_t masked(const char *bytes, size_t size) {
    const uint32_t crc = icl_crc32c(bytes, size);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

/* Goes through the records; *events gets the first few with their lengths. False: a sum or a length is wrong. */
static bool read_records(const char *bytes, size_t size, const char *events[4], size_t lengths[4], size_t *count) {
    size_t at = 0;

    *count = 0;
    while (at < size) {
        const size_t length = size - at >= 12 ? (size_t)number_at(bytes + at, 8) : size;
        if (length > size - at - 16 || number_at(bytes + at + 8, 4) != masked(bytes + at, 8) ||
            number_at(bytes + at + 12 + length, 4) != masked(bytes + at + 12, length))
            return false;
        if (*count < 4) {
            events[*count] = bytes + at + 12;
            lengths[*count] = length;
        }
        ++*count;
        at += 16 + length;
    }
    return true;
}

static double now(void) {
    struct timespec time = {0};
    (void)clock_gettime(CLOCK_REALTIME, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* The time of an event, behind a byte of tag. */
static double time_of(const char *event) {
    double seconds;
    memcpy(&seconds, event + 1, sizeof seconds);
    return seconds;
}

/* Behind the time: one byte of tag and eight. */
static bool is_event(const char *event, size_t length, const char *expected, size_t size) {
    return length == 9 + size && event[0] == 0x09 && memcmp(event + 9, expected, size) == 0;
}

static void test_records(tap_run *tap, const char *folder, bool resumes) {
    static const char version[] = "\x10\x00\x1a\x0d"
                                  "brain.Event:2";
    static const char start[] = "\x10\xad\x02\x3a\x02\x08\x01"; /* step 301 */
    static const char row[] = "\x10\xad\x02\x2a\x39"
                              "\x0a\x0b\x0a\x04"
                              "loss\x15\x00\x00\x00\x3f"
                              "\x0a\x14\x0a\x0d"
                              "gradient_norm\x15\x00\x00\x80\x3f"
                              "\x0a\x14\x0a\x0d"
                              "learning_rate\x15\x00\x00\x00\x40";
    icl_event_file *file = NULL;
    icl_error error = {0};
    const char *events[4];
    char pattern[512], *bytes = NULL;
    size_t size = 0, lengths[4], count = 0;
    glob_t found = {0};
    const double before = now();

    if (!tap_status(tap, icl_event_file_create(folder, resumes, 300, &file, &error), &error, "an event file"))
        return;
    icl_event_file_row(file, &(icl_session_row){301, 0.5, 1, 2, (double)NAN});
    icl_event_file_row(file, &(icl_session_row){302, 0.5, 1, 2, 0.25});
    tap_status(tap, icl_event_file_close(&file, &error), &error, "is written");
    snprintf(pattern, sizeof pattern, "%s/events.out.tfevents.*", folder);
    if (glob(pattern, 0, NULL, &found) == 0 && icl_file_read(found.gl_pathv[0], 0, &bytes, &size, &error) == ICL_OK) {
        const size_t first = resumes ? 2 : 1;
        tap_ok(tap, read_records(bytes, size, events, lengths, &count) && count == first + 2, "lengths and sums");
        if (count == first + 2) {
            tap_ok(tap, is_event(events[0], lengths[0], version, sizeof version - 1), "the version");
            tap_ok(tap, !resumes || is_event(events[1], lengths[1], start, sizeof start - 1), "where it goes on");
            tap_ok(tap, is_event(events[first], lengths[first], row, sizeof row - 1), "a row");
            tap_ok(tap, lengths[first + 1] > lengths[first], "one with an evaluation has a scalar more");
            tap_ok(tap,
                   time_of(events[0]) >= before && time_of(events[first]) >= time_of(events[0]) &&
                       time_of(events[first]) <= now(),
                   "the time of the one, then that of the other");
        }
        bytes[size - 5] ^= 1;
        tap_ok(tap, !read_records(bytes, size, events, lengths, &count), "a bit that flips is noticed");
    }
    icl_text_free(&bytes);
    globfree(&found);
}

int main(void) {
    tap_run tap = {0};
    scratch_folder scratch;
    icl_event_file *file = NULL;
    icl_error error = {0};

    test_sums(&tap);
    scratch_open(&scratch);
    test_records(&tap, scratch_path(&scratch, "new"), false);
    test_records(&tap, scratch_path(&scratch, "more"), true);
    scratch_write(&scratch, "file", "", 0);
    tap_ok(&tap, icl_event_file_create(scratch_path(&scratch, "file"), false, 0, &file, &error) == ICL_ERROR_IO,
           "no folder: %s", error.message);
    scratch_close(&scratch);
    return tap_done(&tap);
}
