#!/usr/bin/env bash
# tools/embed.py: the text of kernels as C, its size and hash, and what it refuses. Argument: embed.
set -uo pipefail
# shellcheck disable=SC2034 # read by tap.sh
ICLAB=$1
# shellcheck source=tests/tools/tap.sh
source "${BASH_SOURCE[0]%/*}/tap.sh"

printf 'inline float twice(float x) { return 2 * x; }\n' >"$work/twice.h"
printf '#include "twice.h"\n__kernel void one(__global float *x) { *x = twice(*x); }\n' >"$work/one.cl"
printf '__kernel void two(__global float *x) { *x = 2; }\n' >"$work/two.cl"

run "$work/out.c" "$work/one.cl" "$work/two.cl"
expect 0 "two programs"
for i in 0 1; do
    mapfile -t bytes < <(sed -n "/source_$i\[\]/,/^0};/p" "$work/out.c" | grep -oE '[0-9]+,' | tr -d ,)
    hash=$((0xcbf29ce484222325)) # FNV-1a, in arithmetic of 64 bits
    for byte in "${bytes[@]}"; do
        hash=$(((hash ^ byte) * 1099511628211))
    done
    printf -v row 'source_%d, %d, 0x%016xULL}' "$i" "${#bytes[@]}" "$hash"
    grep -qF "$row" "$work/out.c"
    ok $? "size and hash of program $i: $row"
    # shellcheck disable=SC2059 # octal bytes
    printf "$(printf '\\%03o' "${bytes[@]}")" >"$work/text-$i"
done
same "$work/two.cl" <(grep -v '^#line' "$work/text-1") "a program without includes is the text of its file"
grep -q 'float twice(float x)' "$work/text-0" && grep -q '__kernel void one' "$work/text-0" &&
    ! grep -q '#include' "$work/text-0"
ok $? "what is included stands in its place"
grep -q 'icl_kernel_source_count = 2;' "$work/out.c"
ok $? "there are two"

cat >"$work/again.cl" <<'END'
// __kernel void one(__global float *x)
__kernel __attribute__((reqd_work_group_size(8, 1, 1))) void two(__global float *x) { *x = 3; }
END
run "$work/out.c" "$work/one.cl" "$work/again.cl"
expect 0 "a comment names no kernel"
run "$work/out.c" "$work/two.cl" "$work/again.cl"
[[ $code -ne 0 ]] && grep -q 'kernel two exists already' "$work/err"
ok $? "two kernels of one name are refused, whatever stands before the name"
run "$work/out.c" "$work/missing.cl"
[[ $code -ne 0 ]] && grep -q 'missing.cl' "$work/err"
ok $? "and a file that is not there"
finish
