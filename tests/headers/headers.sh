#!/usr/bin/env bash
# Each public header compiles alone and twice, as pedantic C11 without warnings, and iclab.h includes it.
# Arguments: the folder that holds iclab/, then the compiler's command.
set -uo pipefail
include=$1
shift
# shellcheck source=tests/tap.sh
source "${BASH_SOURCE[0]%/*}/../tap.sh"

for path in "$include"/iclab/*.h; do
    header=$(basename "$path")
    source=$(printf '#include "iclab/%s"\n#include "iclab/%s"\nextern int unit_is_not_empty;' "$header" "$header")
    output=$("$@" -std=c11 -pedantic -Wall -Wextra -Werror -fsyntax-only -I "$include" -x c - <<<"$source" 2>&1)
    compiled=$?
    [[ -z $output ]] || printf '# %s\n' "${output//$'\n'/$'\n'# }"
    ok "$compiled" "iclab/$header compiles alone"
    if [[ $header != iclab.h ]]; then
        grep -q "^#include \"iclab/$header\"" "$include/iclab/iclab.h"
        ok $? "iclab.h includes iclab/$header"
    fi
done
finish
