#include "fuzz.h"

#include <unistd.h>

/* Replaces the C library's: thousands of small files need not wait for a disk. */
int fsync(int file) {
    (void)file;
    return 0;
}

static const char *file_name(void) {
    static char name[256];
    if (name[0] == '\0') {
        const char *folder = getenv("TMPDIR");
        snprintf(name, sizeof name, "%s/iclab-fuzz-%ld", folder && *folder ? folder : "/tmp", (long)getpid());
    }
    return name;
}

static void remove_file(void) {
    (void)remove(file_name());
}

const char *fuzz_file(const uint8_t *data, size_t size) {
    static bool registered;
    /* The file is new, not an emptied one, because some file systems flush those to the disk when they are closed. */
    FILE *file = fopen(fuzz_no_file(), "wb");

    if (!registered)
        registered = atexit(remove_file) == 0;
    fuzz_promise(file && fwrite(data, 1, size, file) == size, "the input fits in a file");
    fuzz_promise(fclose(file) == 0, "the input's file closes");
    return file_name();
}

const char *fuzz_no_file(void) {
    remove_file();
    return file_name();
}
