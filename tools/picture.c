/* Pictures by gnuplot, if it is installed. */
#include "command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "iclab/file.h"
#include "iclab/text.h"

enum { MOST_COMPLAINT = 200 };

/* ---- The program ---- */

static bool is_program(const char *path) {
    struct stat found;

    return stat(path, &found) == 0 && S_ISREG(found.st_mode) && access(path, X_OK) == 0;
}

/* Finds the gnuplot of PATH, NULL if there is none. Ignores elements that are empty or relative, because in the folder
 * of a picture they would name a program there. */
static icl_status find_gnuplot(char **program, icl_error *error) {
    const char *element = getenv("PATH");
    icl_text path = {0};
    icl_status status = ICL_OK;

    *program = NULL;
    for (; element && *element != '\0'; element += strcspn(element, ":"), element += *element == ':') {
        if (*element != '/')
            continue;
        path.length = 0;
        ICL_TRY(icl_text_print(&path, error, "%.*s/gnuplot", (int)strcspn(element, ":"), element));
        if (is_program(path.bytes)) {
            *program = path.bytes;
            return ICL_OK;
        }
    }
done:
    icl_text_release(&path);
    return status;
}

/* Runs gnuplot without the settings of the user, or of a file in the folder. */
static int run_gnuplot(const char *program, const char *folder, const char *script, int complaints) {
    if (chdir(folder) == 0 && dup2(complaints, STDERR_FILENO) >= 0)
        execl(program, "gnuplot", "-d", script, (char *)NULL);
    return 1;
}

/* Reads the line with the message: before it gnuplot repeats the command and points at a place in it. */
static void read_complaint(FILE *complaints, char line[MOST_COMPLAINT]) {
    rewind(complaints);
    while (fgets(line, MOST_COMPLAINT, complaints)) {
        line[strcspn(line, "\n")] = '\0';
        if (strstr(line, "line ") && strstr(line, ": "))
            return;
    }
    line[0] = '\0';
}

static icl_status run_apart(const char *program, const char *folder, const char *script, FILE *complaints,
                            icl_error *error) {
    char complaint[MOST_COMPLAINT];
    int state = 0;
    const pid_t child = fork();

    if (child == 0)
        _exit(run_gnuplot(program, folder, script, fileno(complaints)));
    if (child < 0)
        return icl_file_fail(error, "start gnuplot for", script, errno);
    while (waitpid(child, &state, 0) < 0)
        if (errno != EINTR)
            return icl_file_fail(error, "wait for gnuplot of", script, errno);
    if (WIFEXITED(state) && WEXITSTATUS(state) == 0)
        return ICL_OK;
    read_complaint(complaints, complaint);
    return icl_fail(error, ICL_ERROR_IO, "gnuplot failed on %s/%s: %s%sexpected a picture", folder, script, complaint,
                    complaint[0] ? ": " : "");
}

/* Draws without printing gnuplot's warnings, which are for the author of a script: here that is not the user. */
static icl_status draw_apart(const char *program, const char *folder, const char *script, icl_error *error) {
    FILE *complaints = tmpfile();
    icl_status status;

    if (!complaints)
        return icl_file_fail(error, "make a temporary file for gnuplot of", script, errno);
    fflush(stdout);
    fflush(stderr);
    status = run_apart(program, folder, script, complaints, error);
    (void)fclose(complaints);
    return status;
}

/* ---- What it drew ---- */

typedef struct picture_kind {
    const char *suffix, *end; /* part of the last bytes of a complete picture */
    size_t length;
} picture_kind;

static const picture_kind kinds[] = {{".svg", "</svg>", 6}, {".png", "IEND", 4}};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Checks the end of a picture, because gnuplot ignores failed writes: on a full disk it reports success. */
static bool is_whole(const char *path, const picture_kind *kind) {
    enum { LAST = 16 };
    char last[LAST] = {0};
    FILE *file = fopen(path, "rb");
    size_t length = 0;

    if (file && fseek(file, -LAST, SEEK_END) == 0)
        length = fread(last, 1, sizeof last, file);
    if (file)
        (void)fclose(file);
    for (size_t i = 0; i + kind->length <= length; i++)
        if (memcmp(last + i, kind->end, kind->length) == 0)
            return true;
    return false;
}

/* Writes folder/STEM.SUFFIX for the script STEM.gp. */
static icl_status picture_path(const char *folder, const char *script, const char *suffix, char **path,
                               icl_error *error) {
    const char *dot = strrchr(script, '.');
    icl_text name = {0};
    icl_status status = ICL_OK;

    ICL_TRY(
        icl_text_print(&name, error, "%.*s%s", (int)(dot ? (size_t)(dot - script) : strlen(script)), script, suffix));
    ICL_TRY(icl_path_join(folder, name.bytes, path, error));
done:
    icl_text_release(&name);
    return status;
}

/* Checks the pictures, and removes incomplete ones. */
static icl_status check_pictures(const char *folder, const char *script, icl_error *error) {
    icl_status status = ICL_OK;
    char *path = NULL;

    for (size_t i = 0; i < KINDS; i++) {
        ICL_CHECK(picture_path(folder, script, kinds[i].suffix, &path, error));
        if (!is_whole(path, &kinds[i])) {
            (void)remove(path);
            if (status == ICL_OK)
                status = icl_fail(error, ICL_ERROR_IO, "%s was not drawn whole: expected room on its disk", path);
        }
        icl_text_free(&path);
    }
    return status;
}

icl_status draw_figure(void *user, const char *folder, const char *script, icl_error *error) {
    icl_error failure = {0};
    bool *missing = user;
    char *program = NULL;
    icl_status status = find_gnuplot(&program, error);

    if (status != ICL_OK)
        return status;
    *missing = *missing || !program;
    if (program)
        status = draw_apart(program, folder, script, &failure);
    if (program && status == ICL_OK)
        status = check_pictures(folder, script, &failure);
    if (status != ICL_OK)
        fprintf(stderr, "iclab: %s\n", failure.message);
    icl_text_free(&program);
    return ICL_OK;
}
