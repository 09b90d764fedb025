/* The machine that the host backends run on, and the specs of these backends. */
#define _GNU_SOURCE /* for syscall; NOLINT(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

#include "backend/host_spec.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

#ifndef ICL_CPU_VARIANTS
#define ICL_CPU_VARIANTS 0
#endif
#ifndef ICL_CPU_AMX
#define ICL_CPU_AMX 0
#endif

#if ICL_CPU_AMX
#include <cpuid.h>
#include <sys/syscall.h>

/* Returns whether the processor has tiles of bfloat16, and Linux lets this process use them: it keeps 8 KiB more for a
 * thread that does, and wants to be asked once (its documentation, arch/x86/xstate). */
static bool may_use_tiles(void) {
    const unsigned bf16 = 1U << 22, tiles = 1U << 24; /* leaf 7, in edx */
    const long ask = 0x1023, tile_data = 18;          /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
    unsigned a, b, c, d;

    return __builtin_cpu_supports("avx512bf16") && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & bf16) &&
           (d & tiles) && syscall(SYS_arch_prctl, ask, tile_data) == 0;
}
#endif

/* Returns the widest instruction set of the processor. */
static icl_isa processor_isa(void) {
#if ICL_CPU_VARIANTS
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
#if ICL_CPU_AMX
        return may_use_tiles() ? ICL_ISA_AMX : ICL_ISA_AVX512;
#else
        return ICL_ISA_AVX512;
#endif
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return ICL_ISA_AVX2;
#endif
    return ICL_ISA_BASE;
}

icl_isa icl_machine_isa(void) {
    icl_isa isa = processor_isa();
#if ICL_PERTURBED
    /* A test names the widest instruction set to use, to run as on a lesser processor. */
    const char *most = getenv("ICLAB_PERTURB_ISA");
    for (icl_isa lesser = ICL_ISA_BASE; most && lesser < isa; lesser++)
        if (strcmp(icl_isa_name(lesser), most) == 0)
            isa = lesser;
#endif
    return isa;
}

void icl_machine_name(char *name, size_t capacity) {
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");

    snprintf(name, capacity, "host");
    while (file && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(name, capacity, "%s", colon + 1 + strspn(colon + 1, " "));
        break;
    }
    if (file)
        fclose(file);
}

size_t icl_machine_memory_limit(const char *path) {
    char line[64] = "";
    FILE *file = fopen(path, "r");

    if (!file)
        return 0;
    const bool read = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    const uintmax_t bytes = read ? strtoumax(line, NULL, 10) : 0;
    return bytes > SIZE_MAX ? SIZE_MAX : (size_t)bytes;
}

size_t icl_machine_memory(void) {
    /* The files with the memory limit of a container's control group, in versions 2 and 1 of that interface. */
    static const char *const limits[] = {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    size_t memory = 0;

#ifdef _SC_PHYS_PAGES
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page > 0)
        memory = (size_t)pages > SIZE_MAX / (size_t)page ? SIZE_MAX : (size_t)pages * (size_t)page;
#endif
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        const size_t limit = icl_machine_memory_limit(limits[i]);
        memory = limit > 0 && limit < memory ? limit : memory;
    }
    return memory;
}

/* ---- Specs ---- */

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
