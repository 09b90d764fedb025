# shellcheck shell=bash disable=SC2154
# For tests of a subcommand that prints tables and lines of JSON, to be sourced; TAP comes with it. Set before:
# `subcommand`. The script's first arguments are the command, python3 and the folder of recipes.
iclab=$1
python=$2
export ICLAB_RECIPES=$3
unset ICLAB_DEVICE
# shellcheck source=tests/tools/tap.sh
source "${BASH_SOURCE[0]%/*}/tap.sh"

run() { # ARGUMENT...: leaves out, err and $code
    code=0
    "$iclab" "$subcommand" "$@" >"$work/out" 2>"$work/err" || code=$?
}

refused() { # CODE TEXT NAME ARGUMENT...: that exit code, one line on stderr that holds the text, nothing on stdout
    local expected=$1 text=$2 name=$3
    shift 3
    run --quiet "$@"
    [[ $code -eq $expected && $(wc -l <"$work/err") -eq 1 && ! -s $work/out ]] && grep -qF -- "$text" "$work/err"
    ok $? "$name"
}

# json NAME [SETUP]: a Python program on stdin judges the lines of JSON in `rows`; SETUP is Python that comes before it.
json() {
    { printf 'import json\nrows = [json.loads(line) for line in open("%s")]\n%s\n' "$work/out" "${2:-}" && cat; } |
        "$python" - 2>"$work/err"
    ok $? "$1"
}
