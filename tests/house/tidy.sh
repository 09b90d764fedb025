#!/usr/bin/env bash
# clang-tidy finds nothing in any C file. Arguments: a build folder, then options of run-clang-tidy. Prints TAP.
set -uo pipefail
build=$1
shift
cd "${BASH_SOURCE[0]%/*}/../.." || exit 1
# shellcheck source=tests/tap.sh
source tests/tap.sh
log=$build/tidy.log
mapfile -t files < <(git ls-files -- '*.c')
run-clang-tidy-14 -quiet -j "$(getconf _NPROCESSORS_ONLN)" -p "$build" "$@" "${files[@]}" >"$log" 2>&1
status=$?
ok $status "clang-tidy on ${#files[@]} files (all of its output: $log)"
[[ $status -eq 0 ]] || { grep -E 'error: .*\[' "$log" || tail -n 5 "$log"; } | note
finish
