/*
 * iclab documents DIR: man pages from the tables of the commands. The build runs it, and installs what it writes.
 *
 * The command writes its own pages, where another way would be a generator built for the machine that builds: it would
 * need the library a second time, since the tables name recipe keys and reproductions. When cross-compiling the pages
 * can be made on the other machine.
 */
#include <errno.h>
#include <stdio.h>

#include "command.h"
#include "iclab/file.h"
#include "iclab/host.h"
#include "manual.h"

typedef struct documents_options {
    const char *folder;
} documents_options;

/* `line`: the command whose page it is; else write() writes it. */
static icl_status write_file(const char *folder, const char *name, void (*write)(FILE *out), const subcommand *line,
                             icl_error *error) {
    icl_status status = ICL_OK;
    char *path = NULL;
    FILE *file = NULL;

    ICL_TRY(icl_path_join(folder, name, &path, error));
    file = fopen(path, "w");
    if (!file) {
        status = icl_file_fail(error, "write", path, errno);
        goto done;
    }
    if (line)
        write_command_page(file, line);
    else
        write(file);
    const bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed)
        status = icl_file_fail(error, "write", path, errno);
done:
    icl_free(&path);
    return status;
}

static icl_status write_documents(const char *folder, icl_error *error) {
    size_t count;
    const subcommand *const *commands = all_commands(&count);

    ICL_CHECK(icl_folder_create(folder, error));
    ICL_CHECK(write_file(folder, "iclab.1", write_general_page, NULL, error));
    ICL_CHECK(write_file(folder, "iclab-recipe.5", write_recipe_page, NULL, error));
    for (size_t i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof name, "iclab-%s.1", commands[i]->name);
        ICL_CHECK(write_file(folder, name, NULL, commands[i], error));
    }
    return ICL_OK;
}

static int run(int count, char *const *arguments) {
    documents_options options = {0};
    icl_error error = {0};
    icl_status status = read_command_line(&command_documents, count, arguments, &options, &error);

    if (status == ICL_OK)
        status = write_documents(options.folder, &error);
    return status == ICL_OK ? EXIT_DONE : report_failure(status, &error);
}

static const positional positionals[] = {
    {"DIR", "where they go; made where it is missing", true, offsetof(documents_options, folder)},
};

const subcommand command_documents = {
    .name = "documents",
    .about = "write the man pages",
    .summary = "Writes the man pages of every command and of recipes.",
    .positionals = positionals,
    .positional_count = 1,
    .run = run,
};
