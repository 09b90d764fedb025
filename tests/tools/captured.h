/* Captures the text that a function writes to standard output or error, for the tests of the command's parts. */
#ifndef ICLAB_TESTS_TOOLS_CAPTURED_H
#define ICLAB_TESTS_TOOLS_CAPTURED_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct captured {
    FILE *stream, *file;
    int kept; /* a copy of the stream's descriptor */
} captured;

static inline captured capture_begin(FILE *stream) {
    captured to = {.stream = stream, .file = tmpfile()};

    fflush(stream);
    to.kept = dup(fileno(stream));
    if (!to.file || to.kept < 0 || dup2(fileno(to.file), fileno(stream)) < 0)
        exit(1);
    return to;
}

/* Ends the capture. text [size] receives the text, cut off at the size. */
static inline void capture_end(captured *to, char *text, size_t size) {
    fflush(to->stream);
    rewind(to->file);
    text[fread(text, 1, size - 1, to->file)] = '\0';
    if (dup2(to->kept, fileno(to->stream)) < 0)
        exit(1);
    close(to->kept);
    fclose(to->file);
}

#endif
