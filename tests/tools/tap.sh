# shellcheck shell=bash
# TAP for tests of the command, to be sourced. ICLAB is the command under test; `work` is a folder that goes away at the
# end. shellcheck source=tests/tap.sh
source "${BASH_SOURCE[0]%/*}/../tap.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

explain() {
    [[ ! -s $work/err ]] || head -n 5 "$work/err" | note
}

# run ARGUMENTS...: the command; its exit code in $code, its output in $work/out and $work/err.
run() {
    code=0
    "$ICLAB" "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
}

# expect CODE NAME: the last run's exit code; shows its messages when it was another.
expect() {
    [[ $code -eq $1 ]]
    local status=$?
    ok $status "$2: exit code $1"
    if [[ $status -ne 0 ]]; then
        echo "# the exit code was $code"
        tail -n 5 "$work/err" | note
    fi
}

# says PATTERN NAME: stderr ends with one line that holds the (extended, regular) pattern.
says() {
    grep -qE -- "$1" < <(tail -n 1 "$work/err")
    local status=$?
    ok $status "$2"
    tail -n 1 "$work/err" | note
}

# refused CODE PATTERN NAME: the run failed with the code, printed no result, and explained itself in one line.
refused() {
    local status=0
    [[ $code -eq $1 ]] || status=1
    [[ ! -s $work/out ]] || status=1
    grep -qE -- "$2" < <(tail -n 1 "$work/err") || status=1
    # Lines of the log may come before; the failure itself is one line.
    [[ $(grep -c 'expected\|unknown\|cannot\|no memory' "$work/err") -le 1 ]] || status=1
    ok $status "$3"
    echo "# exit $code: $(tail -n 1 "$work/err")"
}

same() { # FILE FILE NAME
    local status=0
    cmp "$1" "$2" >"$work/cmp" 2>&1 || status=1
    ok $status "$3"
    [[ $status -eq 0 ]] || note <"$work/cmp"
}
