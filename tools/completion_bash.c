/*
 * Completion for bash, 3.2 and later, with or without the bash-completion package.
 *
 * Bash splits words at '=' and ':', which option values hold, and wants only what comes behind the last of them. So the
 * script splits the line itself, completes whole words, and takes off again what bash regards as words before.
 */
#include "commands.h"
#include "completion.h"
#include "iclab/recipe.h"
#include "iclab/version.h"

static const char among[] = "# bash completion of iclab, written by iclab documents from the tables of the command.\n"
                            "\n"
                            "# Those of the words that begin with the prefix are the answer.\n"
                            "_iclab_among() { # PREFIX WORD...\n"
                            "    local prefix=$1 word\n"
                            "    shift\n"
                            "    for word; do\n"
                            "        [[ $word != \"$prefix\"* ]] || COMPREPLY+=(\"$word\")\n"
                            "    done\n"
                            "}\n"
                            "\n"
                            "# Words that go on: no space behind them.\n"
                            "_iclab_open() {\n"
                            "    compopt -o nospace 2>/dev/null\n"
                            "    _iclab_among \"$@\"\n"
                            "}\n"
                            "\n"
                            "_iclab_paths() { # PREFIX -f|-d\n"
                            "    local path\n"
                            "    while IFS= read -r path; do\n"
                            "        COMPREPLY+=(\"$path\")\n"
                            "    done < <(compgen \"$2\" -- \"$1\")\n"
                            "    compopt -o filenames 2>/dev/null\n"
                            "}\n"
                            "\n";

/* Argument: the folder of the installed recipes. */
static const char recipes_format[] = "_iclab_recipes() { # PREFIX\n"
                                     "    local folder file\n"
                                     "    for folder in \"${ICLAB_RECIPES-}\" '%s'; do\n"
                                     "        [[ -n $folder && $1 != */* ]] || continue\n"
                                     "        for file in \"$folder\"/*.ini; do\n"
                                     "            [[ -e $file ]] || continue\n"
                                     "            file=${file##*/}\n"
                                     "            _iclab_among \"$1\" \"${file%%.ini}\"\n"
                                     "        done\n"
                                     "    done\n"
                                     "    while IFS= read -r file; do\n"
                                     "        [[ ! -d $file && $file != *.ini ]] || COMPREPLY+=(\"$file\")\n"
                                     "    done < <(compgen -f -- \"$1\")\n"
                                     "    compopt -o filenames 2>/dev/null\n"
                                     "}\n"
                                     "\n";

static const char completes[] =
    "# Bash replaces only what stands behind the last character at which it splits words.\n"
    "_iclab_trim() { # CURRENT\n"
    "    local breaks= head i\n"
    "    [[ $COMP_WORDBREAKS != *:* ]] || breaks+=:\n"
    "    [[ $COMP_WORDBREAKS != *=* ]] || breaks+==\n"
    "    [[ -n $breaks && $1 == *[$breaks]* ]] || return 0\n"
    "    head=${1%\"${1##*[$breaks]}\"}\n"
    "    for i in \"${!COMPREPLY[@]}\"; do\n"
    "        COMPREPLY[i]=${COMPREPLY[i]#\"$head\"}\n"
    "    done\n"
    "}\n"
    "\n"
    "_iclab() {\n"
    "    local line=${COMP_LINE:0:COMP_POINT} words last current previous i\n"
    "    read -r -a words <<<\"$line\"\n"
    "    [[ $line != *[[:space:]] ]] || words+=(\"\")\n"
    "    last=$((${#words[@]} - 1))\n"
    "    current=${words[last]} previous=${words[last - 1]}\n"
    "    COMPREPLY=()\n"
    "    if ((last < 2)); then\n"
    "        _iclab_commands \"$current\"\n"
    "    elif [[ $current == --*=* ]]; then\n"
    "        _iclab_value \"${words[1]}\" \"${current%%=*}\" \"${current#*=}\"\n"
    "        for i in \"${!COMPREPLY[@]}\"; do\n"
    "            COMPREPLY[i]=${current%%=*}=${COMPREPLY[i]}\n"
    "        done\n"
    "    elif [[ $previous != --* ]] || ! _iclab_value \"${words[1]}\" \"$previous\" \"$current\"; then\n"
    "        if [[ $current == -* ]]; then\n"
    "            _iclab_options \"${words[1]}\" \"$current\"\n"
    "        else\n"
    "            _iclab_argument \"${words[1]}\" \"$current\"\n"
    "        fi\n"
    "    fi\n"
    "    _iclab_trim \"$current\"\n"
    "}\n"
    "\n"
    "complete -F _iclab iclab\n";

static void put_commands(FILE *out) {
    size_t count;
    const subcommand *const *commands = all_commands(&count);

    fputs("_iclab_commands() { # PREFIX\n    _iclab_among \"$1\" --help --version", out);
    for (size_t i = 0; i < count; i++)
        fprintf(out, " %s", commands[i]->name);
    fputs("\n}\n\n_iclab_options() { # COMMAND PREFIX\n    case $1 in\n", out);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "    %s) _iclab_among \"$2\" --help", commands[i]->name);
        for (size_t j = 0; j < commands[i]->option_count; j++)
            fprintf(out, " %s", commands[i]->options[j].name);
        fputs(" ;;\n", out);
    }
    fputs("    esac\n}\n\n", out);
}

static void put_settings(FILE *out) {
    const icl_recipe_key *key;

    fputs("_iclab_settings() { # PREFIX\n    case $1 in\n", out);
    for (size_t i = 0; (key = icl_recipe_known_key(i)); i++) {
        char before[96];
        if (key->type != ICL_KEY_WORD && key->type != ICL_KEY_FLAG)
            continue;
        snprintf(before, sizeof before, " %s.%s=", key->section, key->name);
        fprintf(out, "    %s.%s=*) _iclab_among \"$1\"", key->section, key->name);
        put_key_values(out, key, before);
        fputs(" ;;\n", out);
    }
    fputs("    *=*) ;;\n    *)\n        _iclab_open \"$1\"", out);
    for (size_t i = 0; (key = icl_recipe_known_key(i)); i++)
        fprintf(out, " \\\n            %s.%s=", key->section, key->name);
    fputs("\n        ;;\n    esac\n}\n\n", out);
}

/* What answers for a value; `prefix` is the shell's word for what stands there already. */
static void put_action(FILE *out, completion kind, const char *words, const char *prefix) {
    switch (kind) {
    case COMPLETE_NOTHING:
        fputs(":", out);
        break;
    case COMPLETE_WORDS:
        fprintf(out, "_iclab_among \"%s\"", prefix);
        put_words(out, words, " ");
        break;
    case COMPLETE_FOLDERS:
        fprintf(out, "_iclab_paths \"%s\" -d", prefix);
        break;
    case COMPLETE_FILES:
        fprintf(out, "_iclab_paths \"%s\" -f", prefix);
        break;
    case COMPLETE_RECIPES:
        fprintf(out, "_iclab_recipes \"%s\"", prefix);
        break;
    case COMPLETE_REPRODUCTIONS:
        fprintf(out, "_iclab_among \"%s\"", prefix);
        put_reproductions(out, " ");
        break;
    case COMPLETE_DEVICES:
        fprintf(out, "_iclab_among \"%s\"", prefix);
        put_devices(out, " ");
        break;
    case COMPLETE_SETTINGS:
        fprintf(out, "_iclab_settings \"%s\"", prefix);
        break;
    }
    fputs(" ;;\n", out);
}

/* Fails for an option that takes no value: what follows is something else. */
static void put_values(FILE *out) {
    size_t count;
    const subcommand *const *commands = all_commands(&count);

    fputs("_iclab_value() { # COMMAND OPTION PREFIX\n    case \"$1 $2\" in\n", out);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < commands[i]->option_count; j++) {
            const option *shown = &commands[i]->options[j];
            if (shown->type == OPTION_FLAG)
                continue;
            fprintf(out, "    '%s %s') ", commands[i]->name, shown->name);
            put_action(out, completion_of_option(shown), shown->value, "$3");
        }
    fputs("    *) return 1 ;;\n    esac\n}\n\n", out);
}

/* A command without arguments has options alone. */
static void put_arguments(FILE *out) {
    size_t count;
    const subcommand *const *commands = all_commands(&count);

    fputs("_iclab_argument() { # COMMAND PREFIX\n    case $1 in\n", out);
    for (size_t i = 0; i < count; i++)
        if (commands[i]->positional_count > 0) {
            fprintf(out, "    %s) ", commands[i]->name);
            put_action(out, completion_of_positional(&commands[i]->positionals[0]), "", "$2");
        }
    fputs("    *) _iclab_options \"$1\" \"$2\" ;;\n    esac\n}\n\n", out);
}

void write_bash_completion(FILE *out) {
    fputs(among, out);
    fprintf(out, recipes_format, icl_build_facts().recipe_folder);
    put_commands(out);
    put_settings(out);
    put_values(out);
    put_arguments(out);
    fputs(completes, out);
}
