#!/usr/bin/env bash
# Checks the kernels' syntax and warnings with clang, for every lane count, without any device.
# Arguments: clang or "none", then the kernel files. TAP.
set -uo pipefail
clang=$1
shift
number=0
failed=0
for file in "$@"; do
    for lanes in 1 4 8 16; do
        number=$((number + 1))
        name="$number - $(basename "$file") with $lanes lanes"
        if [[ $clang == none ]]; then
            echo "ok $name # SKIP clang is not installed"
        elif "$clang" -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -fsyntax-only -Werror -Wall \
            -Wno-unused-function -DLANES="$lanes" "$file" 2>&1 | sed 's/^/# /'; then
            echo "ok $name"
        else
            echo "not ok $name"
            failed=1
        fi
    done
done
echo "1..$number"
exit "$failed"
