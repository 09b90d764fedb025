#!/usr/bin/env bash
# Man pages and completions hold every command, option and recipe key that --help has, and the tools that read them find
# no fault. Arguments: the command, the folder of the completions, then the names of the commands that have pages.
set -uo pipefail
ICLAB=$(realpath "$1")
completions=$(realpath "$2")
shift 2
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
source "$completions/iclab"

# completed LINE: the whole words that completion offers for the end of it, one a line. Without the words at which bash
# splits, they are whole.
completed() {
    # shellcheck disable=SC2034 # read by the completion
    COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDBREAKS=${2- }
    _iclab "$ICLAB"
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

same <(completed 'iclab ' | sort) <(printf '%s\n' --help --version --with "$@" | sort) "bash: the commands"
for command in "$@"; do
    same <(completed "iclab $command --" | sort) <(options "$command" | sort) "bash: every option of $command"
done
mkdir -p "$work/here/runs/one" "$work/here/recipes"
touch "$work/here/own.ini" "$work/here/own.csv" "$work/here/recipes/named.ini"
cd "$work/here" || exit 1
export ICLAB_RECIPES=$work/here/recipes
offers 'iclab tr' train
offers 'iclab --with own.so tr' train
offers 'iclab --with own.so train ' named
offers 'iclab --with ow' own.csv
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

[[ $(completed 'iclab train named --set task.d') == *task.d=* && $(completed 'iclab nothing ') == "" ]]
ok $? "bash: a key goes on; an unknown command has nothing"
offers 'iclab predict runs/one --data ' own.csv
offers 'iclab predict runs/one --data=ow' --data=own.csv

# ---- Zsh ----
if command -v zsh >/dev/null; then
    # It prints what zsh's own functions are asked for, with the cursor behind the last WORD.
    asked() { # WORD...
        zsh -f -c 'words=("$@") CURRENT=$# PREFIX=${@[-1]}
            _describe() { print -rl -- ${(P)argv[-1]}; }
            compadd() { print -rl -- "${(@P)argv[-1]}"; [[ $1 != -S ]] || print "and go on"; }
            compset() { print "behind $2"; }
            _files() { print -r -- files "$@"; }
            source "$SCRIPT"' zsh "$@"
    }
    export SCRIPT=$completions/_iclab
    same <(asked "$ICLAB" '' | cut -d: -f1) <(printf '%s\n' --help --version --with "$@") "zsh: the commands"
    grep -q '^train:train a model' < <(asked "$ICLAB" '')
    ok $? "zsh: and what they do"
    for command in "$@"; do
        same <(asked "$ICLAB" "$command" -- | cut -d: -f1 | sort) <(options "$command" | sort) \
            "zsh: every option of $command"
    done
    expected() { # ANSWER WORD...
        local answer=$1
        shift
        same <(asked "$ICLAB" "$@") <(printf %b "$answer") "zsh: $*"
    }
    expected 'behind --*=\nfiles -/\n' eval ''
    expected 'behind --*=\nfiles\n' predict x --data ''
    [[ $(asked "$ICLAB" train '' | sed -n '1p;$p') == "named"$'\n'"files -g *.ini" ]]
    ok $? "zsh: recipes"
    expected 'auto\nclblast\nnative\n' train named --gemm ''
    expected 'task.rotate=true\ntask.rotate=false\n' train named --set task.rotate=
    expected '' train named --steps ''
else
    skip "zsh asks the command" "zsh is not installed"
fi
finish
