#!/usr/bin/env bash
# Sources look as they should: clang-format, shellcheck, pipes of scripts, and the width of lines. Prints TAP.
set -uo pipefail
cd "${BASH_SOURCE[0]%/*}/../.." || exit 1
# shellcheck source=tests/tap.sh
source tests/tap.sh
log=$(mktemp)
trap 'rm -f "$log"' EXIT

check() { # NAME COMMAND...
    "${@:2}" >"$log" 2>&1
    ok $? "$1"
    tail -n 50 "$log" | note
}
mapfile -t scripts < <(git ls-files -- '*.sh' .ci tools | xargs grep -lE '^#!.*\b(bash|sh)$')
check "clang-format" bash -c "git ls-files -z -- '*.c' '*.h' '*.cl' | xargs -0 clang-format-14 --dry-run -Werror"
check "shellcheck" shellcheck "${scripts[@]}"
# It leaves at its first match, and under pipefail the program before it, killed while it writes, fails the pipe.
check "no pipe ends in grep -q" bash -c "! git grep -nE '(^|[^|])[|] *grep -[a-zA-Z]*q' -- '*.sh' .ci tools"
check "lines of at most 120 columns" python3 tests/house/columns.py .
finish
