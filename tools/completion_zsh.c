/* Completion for zsh: a function for compinit, to be installed in a folder of $fpath. */
#include <string.h>

#include "commands.h"
#include "completion.h"
#include "iclab/recipe.h"
#include "iclab/version.h"
#include "prose.h"

/* Argument: the folder of the installed recipes. */
static const char recipes_format[] =
    "#compdef iclab\n"
    "# zsh completion of iclab, written by iclab documents from the tables of the command.\n"
    "\n"
    "_iclab_recipes() {\n"
    "  local folder\n"
    "  local -a names\n"
    "  for folder in $ICLAB_RECIPES '%s'; do\n"
    "    names+=($folder/*.ini(N:t:r))\n"
    "  done\n"
    "  _alternative 'recipes:recipe:compadd -a names' 'files:recipe file:_files -g \"*.ini\"'\n"
    "}\n"
    "\n";

static void put_list(FILE *out, const char *function, void (*put)(FILE *out, const char *before)) {
    fprintf(out, "%s() {\n  compadd --", function);
    put(out, " ");
    fputs("\n}\n\n", out);
}

static void put_settings(FILE *out) {
    const icl_recipe_key *key;

    fputs("_iclab_settings() {\n  if ! compset -P '*='; then\n    compadd -S = --", out);
    put_recipe_keys(out, " ");
    fputs("\n    return\n  fi\n  case ${${IPREFIX%=}##*=} in\n", out);
    for (size_t i = 0; (key = icl_recipe_known_key(i)); i++) {
        if (key->type != ICL_KEY_WORD && key->type != ICL_KEY_FLAG)
            continue;
        fprintf(out, "    %s.%s) compadd --", key->section, key->name);
        put_key_values(out, key, " ");
        fputs(" ;;\n", out);
    }
    fputs("  esac\n}\n\n", out);
}

/* Text inside a single-quoted specification: quotes end it, and brackets and colons part its pieces. */
static void put_quoted(FILE *out, const char *text) {
    prose_word word;

    for (bool first = true; next_word(&text, &word); first = false) {
        if (!first)
            fputc(' ', out);
        for (size_t i = 0; i < word.length; i++) {
            const char c = word.start[i];
            if (c == '\'')
                fputs("'\\''", out);
            else if (strchr("[]:\\", c))
                fprintf(out, "\\%c", c);
            else
                fputc(c, out);
        }
    }
}

/* What answers for a value; the words of COMPLETE_WORDS answer for themselves. */
static void put_action(FILE *out, completion kind, const char *words) {
    static const char *const actions[] = {
        [COMPLETE_NOTHING] = "",
        [COMPLETE_WORDS] = "(",
        [COMPLETE_FOLDERS] = "_files -/",
        [COMPLETE_FILES] = "_files",
        [COMPLETE_RECIPES] = "_iclab_recipes",
        [COMPLETE_REPRODUCTIONS] = "_iclab_reproductions",
        [COMPLETE_DEVICES] = "_iclab_devices",
        [COMPLETE_SETTINGS] = "_iclab_settings",
    };

    fputs(actions[kind], out);
    if (kind == COMPLETE_WORDS) {
        put_words(out, words, " ");
        fputs(")", out);
    }
}

static void put_option(FILE *out, const option *shown) {
    fprintf(out, " \\\n        '%s%s%s[", shown->type == OPTION_LIST ? "*" : "", shown->name,
            shown->type == OPTION_FLAG ? "" : "=");
    put_quoted(out, shown->help);
    fputc(']', out);
    if (shown->type != OPTION_FLAG) {
        fputc(':', out);
        put_quoted(out, shown->type == OPTION_WORD ? "word" : shown->value);
        fputc(':', out);
        put_action(out, completion_of_option(shown), shown->value);
    }
    fputc('\'', out);
}

static void put_command(FILE *out, const subcommand *line) {
    fprintf(out, "    %s)\n      _arguments '(- *)--help[everything about this command]'", line->name);
    for (size_t i = 0; i < line->option_count; i++)
        put_option(out, &line->options[i]);
    for (size_t i = 0; i < line->positional_count; i++) {
        fprintf(out, " \\\n        '%zu:%s:", i + 1, line->positionals[i].name);
        put_action(out, completion_of_positional(&line->positionals[i]), "");
        fputc('\'', out);
    }
    fputs("\n      ;;\n", out);
}

void write_zsh_completion(FILE *out) {
    size_t count;
    const subcommand *const *commands = all_commands(&count);

    fprintf(out, recipes_format, icl_build_facts().recipe_folder);
    put_list(out, "_iclab_reproductions", put_reproductions);
    put_list(out, "_iclab_devices", put_devices);
    put_settings(out);
    fputs("_iclab() {\n  local context state line\n  typeset -A opt_args\n  local -a commands\n  commands=(\n", out);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "    '%s:", commands[i]->name);
        put_quoted(out, commands[i]->about);
        fputs("'\n", out);
    }
    fputs("  )\n"
          "  _arguments -C '(- *)--help[what iclab does]' '(- *)--version[version, commit and libraries]' \\\n"
          "    '1:command:->command' '*::argument:->argument'\n"
          "  if [[ $state == command ]]; then\n    _describe command commands\n    return\n  fi\n"
          "  [[ $state == argument ]] || return\n  case $words[1] in\n",
          out);
    for (size_t i = 0; i < count; i++)
        put_command(out, commands[i]);
    fputs("  esac\n}\n\n_iclab \"$@\"\n", out);
}
