/*
 * iclab documents DIR: writes man pages from the tables of the commands. The build runs it and installs the pages.
 *
 * The command writes its own pages, because a separate generator, built for the building machine, would need the
 * library a second time: the tables name recipe keys and reproductions. When cross-compiling, the pages can be made on
 * the target machine.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "help.h"
#include "iclab/file.h"
#include "iclab/host.h"
#include "iclab/recipe.h"
#include "iclab/version.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Columns of the roff source, not of the page. */
enum { LINE_WIDTH = 100 };

typedef struct term {
    const char *name, *help;
} term;

static const term environment[] = {
    {"ICLAB_DEVICE", "the device of commands that are not given --device"},
    {"ICLAB_RECIPES", "the folder in which iclab first looks for recipes by name"},
    {"ICLAB_CACHE_DIR", "where compiled kernels are kept; set and empty: nowhere. Default: $XDG_CACHE_HOME/iclab, else "
                        "~/.cache/iclab"},
    {"ICLAB_OPENCL_KERNELS", "cpu or gpu: the kernels that OpenCL devices get, whatever they are"},
    {"OMP_NUM_THREADS", "threads of the devices cpu and ref that are not given their number; default: all cores"},
    {"NO_COLOR", "set and not empty: no colours on terminals"},
    {"TERM", "unset or dumb: neither colours nor a progress bar"},
};

static const term files[] = {
    {"runs/NAME-seedN/", "a run folder: recipe.ini, run.json, metrics.csv, model.safetensors, report.html "
                         "and checkpoint/; inspect/ in it "
                         "is what iclab inspect wrote"},
    {"reproductions/NAME-SCALE/", "a reproduction: findings.csv, figures and a run folder for every training"},
};

/* ---- Text ---- */

/* Writes text between macros: escapes what roff would take for a command or a typographic sign. */
static void put(FILE *out, const char *text, size_t length, bool starts_line) {
    for (size_t i = 0; i < length; i++) {
        static const char special[] = "\\-^~`'";
        static const char *const written[] = {"\\e", "\\-", "\\(ha", "\\(ti", "\\(ga", "\\(aq"};
        const char *found = strchr(special, text[i]);
        if (i == 0 && starts_line && (text[i] == '.' || text[i] == '\''))
            fputs("\\&", out);
        if (found)
            fputs(written[found - special], out);
        else
            fputc(text[i], out);
    }
}

static void put_text(FILE *out, const char *text) {
    put(out, text, strlen(text), false);
}

/* Writes prose in filled lines; paragraphs and unfilled lines become macros. */
static void put_prose(FILE *out, const char *text) {
    size_t column = 0;
    prose_word word;

    while (next_word(&text, &word)) {
        if (column > 0 && (word.before != PROSE_SPACE || word.verbatim || column + word.length > LINE_WIDTH)) {
            fputc('\n', out);
            column = 0;
        }
        if (word.before == PROSE_PARAGRAPH)
            fputs(".PP\n", out);
        if (word.verbatim) {
            fputs(".nf\n", out);
            put(out, word.start, word.length, true);
            fputs("\n.fi\n", out);
            continue;
        }
        if (column > 0)
            fputc(' ', out);
        put(out, word.start, word.length, column == 0);
        column += word.length + 1;
    }
    if (column > 0)
        fputc('\n', out);
}

/* Writes "name value" in bold and italics, and its explanation. value may be NULL. */
static void put_term(FILE *out, const char *name, const char *between, const char *value, const char *help) {
    fputs(".TP\n\\fB", out);
    put_text(out, name);
    fputs("\\fR", out);
    if (value) {
        fprintf(out, "%s\\fI", between);
        put_text(out, value);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    put_prose(out, help);
}

static void put_terms(FILE *out, const char *heading, size_t count, const term *terms) {
    fprintf(out, ".SH %s\n", heading);
    for (size_t i = 0; i < count; i++)
        put_term(out, terms[i].name, "", NULL, terms[i].help);
}

static void put_recipe_folder(FILE *out) {
    put_term(out, icl_build_facts().recipe_folder, "", NULL, "the installed recipes");
}

/* Writes the title line, with the `name` "iclab", "iclab-train", …, and the line for whatis(1). */
static void put_header(FILE *out, const char *name, int section, const char *about) {
    fprintf(out, ".\\\" Written by iclab documents from the tables of the command.\n.TH ");
    for (const char *c = name; *c != '\0'; c++)
        fputc(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c, out);
    fprintf(out, " %d \"%s\" \"iclab %s\" \"iclab manual\"\n.SH NAME\n", section, icl_build_facts().commit_date,
            icl_version());
    put_text(out, name);
    fputs(" \\- ", out);
    put_text(out, about);
    fputc('\n', out);
}

/* Writes references to the other pages. */
static void put_see_also(FILE *out, const char *here) {
    size_t count;
    const subcommand *const *commands = all_commands(&count);

    fputs(".SH SEE ALSO\n", out);
    if (strcmp(here, "iclab") != 0)
        fputs(".BR iclab (1),\n", out);
    for (size_t i = 0; i < count; i++)
        if (strcmp(here, commands[i]->name) != 0)
            fprintf(out, ".BR iclab\\-%s (1)%s\n", commands[i]->name,
                    strcmp(here, "recipe") == 0 && i + 1 == count ? "" : ",");
    if (strcmp(here, "recipe") != 0)
        fputs(".BR iclab\\-recipe (5)\n", out);
}

/* ---- Pages ---- */

static void write_command_page(FILE *out, const subcommand *line) {
    char name[64];

    snprintf(name, sizeof name, "iclab-%s", line->name);
    put_header(out, name, 1, line->about);
    fprintf(out, ".SH SYNOPSIS\n\\fBiclab %s\\fR", line->name);
    for (size_t i = 0; i < line->positional_count; i++)
        fprintf(out, line->positionals[i].required ? " \\fI%s\\fR" : " [\\fI%s\\fR]", line->positionals[i].name);
    fputs(" [\\fIoptions\\fR]\n.SH DESCRIPTION\n", out);
    put_prose(out, line->summary);
    if (line->notes) {
        fputs(".PP\n", out);
        put_prose(out, line->notes);
    }
    if (line->takes_recipe_keys)
        fputs(".PP\nThe keys of a recipe:\n.BR iclab\\-recipe (5).\n", out);
    fputs(".SH OPTIONS\n", out);
    for (size_t i = 0; i < line->positional_count; i++)
        put_term(out, line->positionals[i].name, "", NULL, line->positionals[i].help);
    for (size_t i = 0; i < line->option_count; i++)
        put_term(out, line->options[i].name, " ", line->options[i].value, line->options[i].help);
    put_term(out, "--help", "", NULL, "what this page says, in short");
    fputs(".PP\n\\fB\\-\\-name value\\fR and \\fB\\-\\-name=value\\fR are the same.\n.SH EXIT STATUS\n", out);
    put_prose(out, exit_codes);
    put_see_also(out, line->name);
}

static void write_general_page(FILE *out) {
    size_t count;
    const subcommand *const *commands = all_commands(&count);

    put_header(out, "iclab", 1, "a laboratory for in-context learning");
    fputs(".SH SYNOPSIS\n\\fBiclab\\fR \\fICOMMAND\\fR [\\fIarguments\\fR]\n.br\n\\fBiclab \\-\\-with\\fR \\fIFILE\\fR "
          "\\fICOMMAND\\fR [\\fIarguments\\fR]\n.br\n\\fBiclab \\-\\-version\\fR\n"
          ".SH DESCRIPTION\n",
          out);
    put_prose(out, general_summary);
    fputs(".PP\n", out);
    put_prose(out,
              "--with FILE, before the command, loads a shared object with tasks, models, mixers or predictors of your "
              "own. It runs the code in FILE; it may be given again.");
    fputs(".SH COMMANDS\nEach has a page of its own.\n", out);
    for (size_t i = 0; i < count; i++) {
        const subcommand *line = commands[i];
        put_term(out, line->name, " ", line->positional_count > 0 ? line->positionals[0].name : NULL, line->about);
    }
    put_terms(out, "ENVIRONMENT", COUNT_OF(environment), environment);
    put_terms(out, "FILES", COUNT_OF(files), files);
    put_recipe_folder(out);
    fputs(".SH EXIT STATUS\n", out);
    put_prose(out, exit_codes);
    fputs(".SH EXAMPLES\n.nf\niclab train quickstart\niclab eval runs/quickstart\\-seed1 \\-\\-set "
          "task.noise=fixed:1\n"
          "iclab reproduce versatile\\-table1 \\-\\-only L4\\-diag\n.fi\n",
          out);
    put_see_also(out, "iclab");
}

/* Writes "task.noise" with its default, its values and its meaning. */
static void put_key(FILE *out, const recipe_keys *keys, const icl_recipe_key *key) {
    const bool bounded = key->minimum != 0 || key->maximum != 0;
    char help[1024], words[256], spread[256], values[512] = "";

    if (key->type == ICL_KEY_WORD) {
        spread_words(icl_recipe_words(key, words, sizeof words), spread, sizeof spread);
        snprintf(values, sizeof values, " Values: %s.", spread);
    }
    if (key->type == ICL_KEY_FLAG)
        snprintf(values, sizeof values, " Values: true | false.");
    if (bounded && key->type == ICL_KEY_COUNT)
        snprintf(values, sizeof values, " A whole number from %.10g to %.10g.", key->minimum, key->maximum);
    else if (bounded)
        snprintf(values, sizeof values, " A number from %g to %g.", key->minimum, key->maximum);
    snprintf(help, sizeof help, "%s%s.%s", describe_readers(keys, key, words, sizeof words), key->help, values);
    put_term(out, key->name, " = ", key->default_value, help);
}

static void write_recipe_page(FILE *out) {
    static const char about[] =
        "A recipe says what iclab train is to train: an INI file of sections, [task], [model], [train] and "
        "[eval], and of lines key = value in them. A semicolon or a number sign begins a comment. A key that "
        "is not there has its default. A key that is not known, or a value that the key does not take, is "
        "refused with the line where it stands and the nearest key there is.\n\n"
        "Some keys belong to one word of another key, such as momentum to optimizer = sgd: with any other word "
        "nothing reads them, and a value that is not their default is refused.\n\n"
        "On the command line --set section.key=value changes one key. The recipe.ini of a run folder holds "
        "every key that the run read, and is a recipe itself.";
    const recipe_keys keys = list_recipe_keys();
    const char *section = "";

    put_header(out, "iclab-recipe", 5, "what to train, and how: the keys of a recipe");
    fputs(".SH DESCRIPTION\n", out);
    put_prose(out, about);
    fputs(".SH KEYS\nEach with its default.\n", out);
    for (size_t i = 0; i < keys.count; i++) {
        if (strcmp(keys.of[i]->section, section) != 0)
            fprintf(out, ".SS [%s]\n", keys.of[i]->section);
        section = keys.of[i]->section;
        put_key(out, &keys, keys.of[i]);
    }
    fputs(".SH EXAMPLES\n.nf\n[task]\nnoise = uniform:5\n\n[model]\nlayers = 4\nparameterization = diag\n.fi\n", out);
    fputs(".SH FILES\n", out);
    put_recipe_folder(out);
    put_see_also(out, "recipe");
}

/* ---- The command ---- */

typedef struct documents_options {
    const char *folder;
} documents_options;

/* `line` is the command whose page it is; if it is NULL, write() writes the page. */
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

static int run(const icl_families *families, int count, char *const *arguments) {
    documents_options options = {0};
    icl_error error = {0};
    icl_status status = read_command_line(&command_documents, count, arguments, &options, &error);

    (void)families;
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
