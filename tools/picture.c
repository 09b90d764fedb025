#include "picture.h"

#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "iclab/file.h"

/* What a shell answers for a command that it does not find. */
#define NOT_FOUND 127

static int run_gnuplot(const char *folder, const char *script) {
    if (chdir(folder) != 0)
        return 1;
    execlp("gnuplot", "gnuplot", script, (char *)NULL);
    return errno == ENOENT ? NOT_FOUND : 1;
}

icl_status draw_picture(const char *folder, const char *script, bool *drawn, icl_error *error) {
    int state = 0;
    pid_t child;

    *drawn = false;
    fflush(stdout);
    fflush(stderr);
    child = fork();
    if (child == 0)
        _exit(run_gnuplot(folder, script));
    if (child < 0)
        return icl_file_fail(error, "start gnuplot for", script, errno);
    while (waitpid(child, &state, 0) < 0)
        if (errno != EINTR)
            return icl_file_fail(error, "wait for gnuplot of", script, errno);
    if (WIFEXITED(state) && WEXITSTATUS(state) == NOT_FOUND)
        return ICL_OK;
    *drawn = WIFEXITED(state) && WEXITSTATUS(state) == 0;
    return *drawn ? ICL_OK
                  : icl_fail(error, ICL_ERROR_IO, "gnuplot failed on %s/%s: expected a picture", folder, script);
}

icl_status draw_figure(void *user, const char *folder, const char *script, icl_error *error) {
    bool *missing = user, drawn = false;
    const icl_status status = draw_picture(folder, script, &drawn, error);

    *missing = *missing || (status == ICL_OK && !drawn);
    return status;
}

icl_status draw_or_say(void *user, const char *folder, const char *script, icl_error *error) {
    icl_error failure = {0};
    const icl_status status = draw_figure(user, folder, script, &failure);

    if (status == ICL_ERROR_IO) {
        fprintf(stderr, "iclab: %s\n", failure.message);
        return ICL_OK;
    }
    return status == ICL_OK ? ICL_OK : icl_fail(error, status, "%s", failure.message);
}
