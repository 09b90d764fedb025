#include "backend/host_spec.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_THREADS 4096

const char *icl_isa_name(icl_isa isa) {
    static const char *const names[] = {"base", "avx2", "avx512", "amx"};
    return names[isa];
}

static const char *const host_names[] = {"cpu", "ref"};

/* Returns the position after `prefix` if the text at `at` begins with it, else NULL. */
static const char *behind(const char *at, const char *prefix) {
    const size_t length = strlen(prefix);
    return strncmp(at, prefix, length) == 0 ? at + length : NULL;
}

static bool read_threads(const char **at, size_t *threads) {
    char *end;
    if (!isdigit((unsigned char)**at))
        return false;
    *threads = strtoul(*at, &end, 10);
    *at = end;
    return *threads >= 1 && *threads <= MOST_THREADS;
}

static bool read_isa(const char **at, icl_isa *isa) {
    for (int i = ICL_ISA_BASE; i <= ICL_ISA_AMX; i++) {
        const char *end = behind(*at, icl_isa_name((icl_isa)i));
        if (end && (*end == '\0' || *end == ':')) {
            *isa = (icl_isa)i;
            *at = end;
            return true;
        }
    }
    return false;
}

bool icl_host_spec_read(const char *spec, const char *name, icl_host_spec *read) {
    const char *at = behind(spec, name);

    *read = (icl_host_spec){0};
    while (at && *at != '\0') {
        const char *threads = behind(at, ":threads="), *isa = behind(at, ":isa=");
        at = threads ? threads : isa;
        if (threads && (read->threads > 0 || !read_threads(&at, &read->threads)))
            return false;
        if (isa && (read->has_isa || !read_isa(&at, &read->isa)))
            return false;
        read->has_isa = read->has_isa || isa;
    }
    return at != NULL;
}

void icl_host_spec_write(const icl_host_spec *spec, const char *name, char *text, size_t capacity) {
    char threads[32] = "", isa[32] = "";

    if (spec->threads > 0)
        snprintf(threads, sizeof threads, ":threads=%zu", spec->threads);
    if (spec->has_isa)
        snprintf(isa, sizeof isa, ":isa=%s", icl_isa_name(spec->isa));
    snprintf(text, capacity, "%s%s%s", name, threads, isa);
}

/* Reads a host backend's spec and returns its NAME; NULL if it is another device's. */
static const char *read_any(const char *spec, icl_host_spec *read) {
    for (size_t i = 0; i < sizeof host_names / sizeof *host_names; i++)
        if (icl_host_spec_read(spec, host_names[i], read))
            return host_names[i];
    return NULL;
}

bool icl_host_spec_is_divisible(const char *spec) {
    icl_host_spec read;
    return read_any(spec, &read) && read.threads == 0;
}

void icl_host_spec_take_threads(const char *spec, size_t threads, char *text, size_t capacity) {
    icl_host_spec read;
    const char *name = read_any(spec, &read);

    if (!name)
        return;
    read.threads = threads > 0 ? threads : 1;
    icl_host_spec_write(&read, name, text, capacity);
}
