#!/usr/bin/env bash
# Each public header compiles alone and twice, as pedantic C11 without warnings, and iclab.h includes it.
# Arguments: the folder that holds iclab/, then the compiler's command.
set -uo pipefail
include=$1
shift
count=0
failed=0

check() { # NAME COMMAND...
    local name=$1 output
    shift
    count=$((count + 1))
    if output=$("$@" 2>&1); then
        echo "ok $count - $name"
    else
        failed=1
        [[ -z $output ]] || printf '%s\n' "$output" | sed 's/^/# /'
        echo "not ok $count - $name"
    fi
}

compiles() { # HEADER COMMAND...
    local header=$1
    shift
    printf '#include "iclab/%s"\n#include "iclab/%s"\nextern int translation_unit_is_not_empty;\n' \
        "$header" "$header" |
        "$@" -std=c11 -pedantic -Wall -Wextra -Werror -fsyntax-only -I "$include" -x c -
}

for path in "$include"/iclab/*.h; do
    header=$(basename "$path")
    check "iclab/$header compiles alone" compiles "$header" "$@"
    [[ $header == iclab.h ]] ||
        check "iclab.h includes iclab/$header" grep -q "^#include \"iclab/$header\"" "$include/iclab/iclab.h"
done
echo "1..$count"
exit "$failed"
