#!/usr/bin/env bash
# Each public header compiles alone and twice, as pedantic C11 and as C++ without warnings, has C linkage, and iclab.h
# includes it. Every function that returns a text says how it is freed.
# Arguments: the folder that holds iclab/, then the command of the C compiler, "--", and that of the
# C++ compiler, which may be missing.
set -uo pipefail
include=$1
shift
c_compiler=()
while [[ $# -gt 0 && $1 != -- ]]; do
    c_compiler+=("$1")
    shift
done
shift
# shellcheck source=tests/tap.sh
source "${BASH_SOURCE[0]%/*}/../tap.sh"

compiles() { # NAME SOURCE COMPILER...
    local name=$1 source=$2 output compiled
    shift 2
    output=$("$@" -Wall -Wextra -Werror -fsyntax-only -I "$include" - <<<"$source" 2>&1)
    compiled=$?
    [[ -z $output ]] || note <<<"$output"
    ok "$compiled" "$name"
}

# The declarations of a header, one a line, each behind the comment above it.
declarations() {
    awk '/^\/\*/ { comment = ""; inside = 1 }
        inside { comment = comment " " $0 }
        /\*\/$/ { inside = 0; next }
        inside { next }
        /^$/ { comment = "" }
        /^ICL_API/ { declaring = 1; declaration = "" }
        declaring { declaration = declaration " " $0 }
        declaring && /;$/ { print comment declaration; declaring = 0 }' "$1"
}

for path in "$include"/iclab/*.h; do
    header=$(basename "$path")
    source=$(printf '#include "iclab/%s"\n#include "iclab/%s"\nextern int unit_is_not_empty;' "$header" "$header")
    compiles "iclab/$header compiles alone" "$source" "${c_compiler[@]}" -std=c11 -pedantic -x c
    if [[ $# -gt 0 ]]; then
        compiles "iclab/$header compiles alone as C++" "$source" "$@" -std=c++11 -pedantic -x c++
    fi
    # The first three declare no function.
    [[ $header =~ ^(export|iclab|kinds)\.h$ || $(grep -cx 'ICL_C_BEGIN\|ICL_C_END' "$path") -eq 2 ]]
    ok $? "iclab/$header declares with C linkage"
    unsaid=$(declarations "$path" | grep -E '\bchar \*\*[a-z_]+[,)]' | grep -v 'icl_text_free')
    [[ -z $unsaid ]] || note <<<"$unsaid"
    [[ -z $unsaid ]]
    ok $? "iclab/$header says how each text is freed"
    if [[ $header != iclab.h ]]; then
        grep -q "^#include \"iclab/$header\"" "$include/iclab/iclab.h"
        ok $? "iclab.h includes iclab/$header"
    fi
done
[[ $# -gt 0 ]] || skip "the headers compile as C++" "there is no C++ compiler"
finish
