/* The command of tools/bundle's archive: starts libexec/iclab, or says in one line that the machine's C library is too
 * old for it; the loader would write a line for each missing version. tools/bundle links this program without versions
 * of symbols, so that every glibc loads it. */
#include <gnu/libc-version.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_DEVICE_OR_FILE = 3 }; /* as in command.h */

/* Returns "2.36" as 2036. */
static long ordered(const char *version) {
    char *end;
    const long major = strtol(version, &end, 10);

    return 1000 * major + (*end == '.' ? strtol(end + 1, NULL, 10) : 0);
}

int main(int count, char **arguments) {
    static const char command[] = "/libexec/iclab";
    char path[PATH_MAX + sizeof command];
    const ssize_t length = readlink("/proc/self/exe", path, PATH_MAX);

    if (ordered(gnu_get_libc_version()) < ordered(NEEDED_GLIBC)) {
        dprintf(STDERR_FILENO, "iclab: this machine's C library is glibc %s: expected %s or newer\n",
                gnu_get_libc_version(), NEEDED_GLIBC);
        return EXIT_DEVICE_OR_FILE;
    }
    path[length < 0 ? 0 : length] = '\0';
    for (int level = 0; level < 2; level++) { /* cuts off the file's name, then bin */
        char *slash = strrchr(path, '/');
        if (slash)
            *slash = '\0';
    }
    strcat(path, command);
    if (count > 0)
        arguments[0] = path;
    execv(path, arguments);
    dprintf(STDERR_FILENO, "iclab: cannot start %s: expected it in the archive, and /proc in the system\n", path);
    return EXIT_DEVICE_OR_FILE;
}
