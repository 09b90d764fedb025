/* OpenCL drivers of this machine of which the loader does not know. */
#include "command.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "iclab/file.h"
#include "iclab/version.h"

#define SYSTEM_VENDORS "/etc/OpenCL/vendors"

/* A driver's library, and the file that its installer writes to name it. */
typedef struct known_driver {
    const char *library, *icd;
} known_driver;

static const known_driver known_drivers[] = {
    {"libnvidia-opencl.so.1", "nvidia.icd"}, {"libamdocl64.so", "amdocl64.icd"}, {"libigdrcl.so", "intel.icd"},
    {"libintelocl.so", "intel-cpu.icd"},     {"libpocl.so.2", "pocl.icd"},
};

/* Drivers are in these folders and in those of LD_LIBRARY_PATH. */
static const char *const library_folders[] = {
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/x86_64-linux-gnu/intel-opencl",
    "/usr/lib64",
    "/usr/lib64/intel-opencl",
    "/usr/lib",
    "/usr/lib/wsl/lib",
    "/opt/rocm/lib",
    "/usr/local/cuda/lib64",
    "/usr/local/lib",
};

static const char *const nvidia_folders[] = {
    "/usr/local/nvidia/etc/OpenCL/vendors",
    "/usr/local/nvidia/OpenCL/vendors",
    "/usr/local/nvidia/share/OpenCL/vendors",
};

/* ---- What the loader is told ---- */

/* Returns the folder, .icd file or library that the variables name in place of the system's folder; NULL if they name
 * none. */
static const char *named_vendors(void) {
    const char *first = getenv("OCL_ICD_VENDORS"), *second = getenv("OPENCL_VENDOR_PATH");

    return first && first[0] ? first : second && second[0] ? second : NULL;
}

/* Returns whether a path ends in the name of a library, of any version. NULL: any library. */
static bool is_library(const char *path, const char *library) {
    return !library || strncmp(icl_path_name(path), library, (size_t)(strstr(library, ".so") + 3 - library)) == 0;
}

static bool is_icd(const char *path) {
    const char *suffix = strrchr(path, '.');

    return suffix && strcmp(suffix, ".icd") == 0;
}

static bool file_names(const char *path, const char *library) {
    char line[PATH_MAX] = "";
    FILE *file = fopen(path, "r");

    if (!file)
        return false;
    const bool is_read = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    return is_read && is_library(line, library);
}

/* Returns whether an .icd file of the folder names the library. */
static bool folder_names(const char *folder, const char *library) {
    DIR *listing = opendir(folder);
    const struct dirent *entry;
    bool found = false;

    if (!listing)
        return false;
    while (!found && (entry = readdir(listing)) != NULL) {
        char path[PATH_MAX];
        if (snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) < PATH_MAX)
            found = is_icd(path) && file_names(path, library);
    }
    closedir(listing);
    return found;
}

/* Returns whether a driver is named. One that the system's folder names counts: if a variable names another place, it
 * was left out on purpose. */
static bool is_named(const char *library) {
    const char *named = named_vendors();

    if (folder_names(SYSTEM_VENDORS, library))
        return true;
    return named && (folder_names(named, library) || is_library(named, library) ||
                     (is_icd(named) && file_names(named, library)));
}

static void find_drivers(void) {
    if (named_vendors() || folder_names(SYSTEM_VENDORS, NULL))
        return;
    for (size_t i = 0; i < sizeof nvidia_folders / sizeof *nvidia_folders; i++)
        if (folder_names(nvidia_folders[i], NULL)) {
            (void)setenv("OCL_ICD_VENDORS", nvidia_folders[i], 1);
            return;
        }
}

static void set_missing_path(void) {
    const char *named = getenv("PATH");
    char path[PATH_MAX];

    if ((!named || named[0] == '\0') && confstr(_CS_PATH, path, sizeof path) - 1 < sizeof path - 1)
        (void)setenv("PATH", path, 1);
}

void prepare_drivers(void) {
    find_drivers();
    set_missing_path();
}

/* ---- What is on the machine ---- */

static bool is_in(const char *folder, size_t length, const char *library, char path[PATH_MAX]) {
    return length > 0 && snprintf(path, PATH_MAX, "%.*s/%s", (int)length, folder, library) < PATH_MAX &&
           access(path, R_OK) == 0;
}

static bool find_library(const char *library, char path[PATH_MAX]) {
    const char *folder = getenv("LD_LIBRARY_PATH");

    while (folder && folder[0]) {
        const size_t length = strcspn(folder, ":");
        if (is_in(folder, length, library, path))
            return true;
        folder += length + (folder[length] == ':');
    }
    for (size_t i = 0; i < sizeof library_folders / sizeof *library_folders; i++)
        if (is_in(library_folders[i], strlen(library_folders[i]), library, path))
            return true;
    return false;
}

/* Returns whether a file can be made in the folder or, if that is missing, the folder itself. */
static bool can_be_written(const char *folder) {
    char above[PATH_MAX];

    snprintf(above, sizeof above, "%s", folder);
    for (char *slash = strrchr(above, '/'); slash && slash > above && access(above, F_OK) != 0;
         slash = strrchr(above, '/'))
        *slash = '\0';
    return access(above, W_OK | X_OK) == 0;
}

/* Prints a command line for any shell, which allows blanks in paths. If the user may not write into the folder that the
 * loader reads, the line points the loader to a copy of that folder. */
static void say_unnamed(const known_driver *driver, const char *library) {
    const char *named = named_vendors(), *home = getenv("HOME");
    const char *folder = named && !is_icd(named) && !strstr(named, ".so") ? named : SYSTEM_VENDORS;

    fprintf(stderr, "iclab: the OpenCL driver %s is on this machine, but no .icd file names it; this line writes one: ",
            library);
    if (can_be_written(folder)) {
        fprintf(stderr, "mkdir -p '%s' && echo '%s' >'%s/%s'\n", folder, library, folder, driver->icd);
        return;
    }
    fprintf(stderr, "v=%s && mkdir -p \"$v\" && ",
            home && home[0] == '/' && access(home, W_OK | X_OK) == 0 ? "~/.iclab-vendors" : "$(mktemp -d)");
    if (folder_names(folder, NULL))
        fprintf(stderr, "cp '%s'/*.icd \"$v\" && ", folder);
    fprintf(stderr, "echo '%s' >\"$v/%s\" && export OCL_ICD_VENDORS=\"$v\"\n", library, driver->icd);
}

/* Says if Mesa's rusticl is switched off: it is installed like any driver, but needs a variable that names devices. */
static icl_status say_switched_off(icl_error *error) {
    const char *named = named_vendors(), *enabled = getenv("RUSTICL_ENABLE");
    char *path = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_path_join(named ? named : SYSTEM_VENDORS, "rusticl.icd", &path, error));
    if (icl_path_exists(path) && (!enabled || enabled[0] == '\0'))
        fprintf(stderr,
                "iclab: the OpenCL driver rusticl is installed (%s) but switched off: RUSTICL_ENABLE=radeonsi (AMD), "
                "iris (Intel), nouveau (NVIDIA) or llvmpipe (CPU) in front of the command switches it on\n",
                path);
done:
    icl_text_free(&path);
    return status;
}

icl_status say_idle_drivers(icl_error *error) {
    char library[PATH_MAX];

    if (!strstr(icl_build_facts().libraries, "OpenCL"))
        return ICL_OK;
    for (size_t i = 0; i < sizeof known_drivers / sizeof *known_drivers; i++)
        if (!is_named(known_drivers[i].library) && find_library(known_drivers[i].library, library))
            say_unnamed(&known_drivers[i], library);
    return say_switched_off(error);
}
