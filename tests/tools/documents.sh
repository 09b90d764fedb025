#!/usr/bin/env bash
# Man pages and completions hold every command, option and recipe key that --help has, and the tools that read them find
# no fault. Arguments: the command, then the names of the commands that have pages.
set -uo pipefail
ICLAB=$(realpath "$1")
shift
# shellcheck source=tests/tools/tap.sh
source "${BASH_SOURCE[0]%/*}/tap.sh"
pages=$work/pages

run documents
refused 2 'DIR is missing' "no folder"
run documents "$pages"
expect 0 "the documents are written"
[[ $code -eq 0 ]] || finish
same <(printf '%s\n' "${@/#/iclab-}" iclab iclab-recipe | sort) <(basename -a "$pages"/*.[15] | sed 's/\..$//' | sort) \
    "a page for every command, and those alone that are installed"
run --help
same <(printf '%s\n' "$@") <(sed -nE 's/^  ([a-z]+) .*/\1/p' "$work/out" | grep -vx iclab) \
    "--help lists the same commands"

# options COMMAND: those of its --help
options() {
    "$ICLAB" "$1" --help | sed -nE 's/^  (--[a-z-]+).*/\1/p'
}

# ---- Man pages ----
for command in "$@"; do
    missing=$(options "$command" | while read -r option; do
        grep -qF -- "\\fB${option//-/\\-}\\fR" "$pages/iclab-$command.1" || echo "$option"
    done)
    [[ -z $missing && $(options "$command" | grep -c .) -ge 2 ]]
    ok $? "iclab-$command(1) has every option${missing:+ but $missing}"
    grep -qF -- "\\fB$command\\fR" "$pages/iclab.1"
    ok $? "iclab(1) has $command"
done
# terms HEADING: those of iclab(1) below it, in order.
terms() {
    sed -n "/^\.SH $1\$/,/^\.SH /s/^.fB\([^ ]*\).fR\$/\1/p" "$pages/iclab.1" | tr -d '\134'
}
same <(printf '%s\n' ICLAB_DEVICE ICLAB_RECIPES ICLAB_CACHE_DIR ICLAB_OPENCL_KERNELS OMP_NUM_THREADS NO_COLOR TERM) \
    <(terms ENVIRONMENT) "iclab(1) has every variable of the environment"
same <(printf '%s\n' runs/NAME-seedN/ reproductions/NAME-SCALE/) <(terms FILES | head -2) "and the folders"
keys=$("$ICLAB" train --help | sed -nE 's/^  ([a-z]+\.[a-z0-9_]+) = .*/\1/p')
missing=$(for key in $keys; do grep -qF "\\fB${key#*.}\\fR = " "$pages/iclab-recipe.5" || echo "$key"; done)
[[ -z $missing && $(grep -c . <<<"$keys") -gt 40 ]]
ok $? "iclab-recipe(5) has every key${missing:+ but $missing}"
if command -v mandoc >/dev/null; then
    for page in "$pages"/*.[15]; do
        mandoc -T lint -W warning "$page" >"$work/lint" 2>&1
        note <"$work/lint"
        [[ ! -s $work/lint ]]
        ok $? "mandoc finds no fault in $(basename "$page")"
    done
else
    skip "mandoc finds no fault in the pages" "mandoc is not installed"
fi

# ---- Bash ----
# shellcheck source=/dev/null
source "$pages/iclab"

# completed LINE: the whole words that completion offers for the end of it, one a line. Without the words at which bash
# splits, they are whole.
completed() {
    # shellcheck disable=SC2034 # read by the completion
    COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDBREAKS=${2- }
    COMPREPLY=()
    _iclab
    printf '%s\n' "${COMPREPLY[@]}"
}

offers() { # LINE WORD...
    local line=$1 found word status=0
    shift
    found=$(completed "$line")
    for word; do
        grep -qxF -- "$word" <<<"$found" || status=1
    done
    ok $status "bash: '$line' offers $*"
    [[ $status -eq 0 ]] || note <<<"$found"
}

same <(completed 'iclab ' | sort) <(printf '%s\n' --help --version "$@" | sort) "bash: the commands"
for command in "$@"; do
    same <(completed "iclab $command --" | sort) <(options "$command" | sort) "bash: every option of $command"
done
mkdir -p "$work/here/runs/one" "$work/here/recipes"
touch "$work/here/own.ini" "$work/here/own.csv" "$work/here/recipes/named.ini"
cd "$work/here" || exit 1
export ICLAB_RECIPES=$work/here/recipes
offers 'iclab tr' train
offers 'iclab train ' named own.ini runs
offers 'iclab train nam' named
offers 'iclab eval ru' runs
offers 'iclab eval runs/' runs/one
offers 'iclab train named --resume ' runs
offers 'iclab train named --gemm ' auto clblast native
offers 'iclab train named --gemm=n' --gemm=native
offers 'iclab train named --device o' opencl opencl:
offers 'iclab compare --train na' named
offers 'iclab reproduce ver' versatile-table1 versatile-weights
offers 'iclab reproduce a' all
offers 'iclab reproduce all --scale s' short
offers 'iclab train named --set mod' model.layers= model.family=
offers 'iclab train named --set model.family=' model.family=linear model.family=softmax
offers 'iclab train named --set=model.family=s' --set=model.family=softmax
offers 'iclab train named --set task.rotate=t' task.rotate=true
offers 'iclab devices ' --json
[[ -z $(completed 'iclab train named --steps ') && -z $(completed 'iclab train named --set task.d=') ]]
ok $? "bash: nothing where a number is to stand"
[[ $(completed 'iclab train x --set model.family=so' $' \t\n=:') == softmax ]]
ok $? "bash: only what stands behind the character at which it splits words"
[[ $(completed 'iclab train x --device=opencl' $' \t\n=:') == opencl$'\n'opencl: ]]
ok $? "bash: the same behind an option's equals sign"

# ---- Zsh ----
if command -v zsh >/dev/null; then
    zsh -n "$pages/_iclab" 2>"$work/lint"
    note <"$work/lint"
    [[ ! -s $work/lint ]]
    ok $? "zsh reads its completion"
    # What the script hands to zsh's own functions, for a command's arguments and for the commands themselves.
    handed() { # STATE WORD...
        zsh -f -c 'given=$1; shift; words=("$@")
            _arguments() { if [[ $1 == -C ]]; then state=$given; else print -rl -- "$@"; fi }
            _describe() { print -rl -- $commands }
            source "$PAGES/_iclab"' zsh "$@"
    }
    export PAGES=$pages
    same <(handed command | cut -d: -f1) <(printf '%s\n' "$@") "zsh: the commands"
    for command in "$@"; do
        same <(handed argument "$command" | sed -nE "s/^(\(- \*\)|\*)?(--[a-z-]+)=?\[.*/\2/p" | sort) \
            <(options "$command" | sort) \
            "zsh: every option of $command"
    done
    grep -qF ':_iclab_settings' < <(handed argument train) && grep -qE '^1:RUN:_files -/' < <(handed argument eval)
    ok $? "zsh: recipe keys and run folders"
    settings() { # WHAT IS TYPED UP TO =
        zsh -f -c '_arguments() { :; }
            _describe() { :; }
            source "$PAGES/_iclab"
            compset() { return 0; }
            compadd() { print -rl -- "$@"; }
            IPREFIX=$1
            _iclab_settings' zsh "$1"
    }
    grep -qx softmax < <(settings model.family=) && grep -qx true < <(settings --set=task.rotate=)
    ok $? "zsh: the words of a key, and of a flag"
    [[ -z $(settings task.d=) ]]
    ok $? "zsh: nothing where a number is to stand"
    answers=$(for command in predict train reproduce; do handed argument "$command"; done)
    for answer in N: DIR:_files\ -/ FILE:_files SPEC:_iclab_devices RECIPE:_iclab_recipes NAME:_iclab_reproductions \
        "word:( auto clblast native)"; do
        grep -q -- ":${answer//[()]/.}\$" <<<"$answers"
        ok $? "zsh: what answers for $answer"
    done
else
    skip "zsh reads its completion" "zsh is not installed"
fi
finish
