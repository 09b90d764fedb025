#!/usr/bin/env bash
# Checks the kernels' syntax and warnings with clang, for every lane count, without any device.
# Arguments: clang or "none", then the kernel files. TAP.
set -uo pipefail
clang=$1
shift
# shellcheck source=tests/tap.sh
source "${BASH_SOURCE[0]%/*}/../tap.sh"
for file in "$@"; do
    for lanes in 1 4 8 16; do
        name="$(basename "$file") with $lanes lanes"
        if [[ $clang == none ]]; then
            skip "$name" "clang is not installed"
            continue
        fi
        "$clang" -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -fsyntax-only -Werror -Wall \
            -Wno-unused-function -DLANES="$lanes" "$file" 2>&1 | note
        ok $? "$name"
    done
done
finish
