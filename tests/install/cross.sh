#!/usr/bin/env bash
# Two checks need a configured build: the API reference, and a build for a machine whose programs do not run here.
# Arguments: a build folder, a folder to configure the other in, which is made anew. Prints TAP.
set -uo pipefail
build=$1
cross=$2
cd "${BASH_SOURCE[0]%/*}/../.." || exit 1
# shellcheck source=tests/tap.sh
source tests/tap.sh
log=$build/cross.log
ninja -C "$build" reference >"$log" 2>&1
ok $? "API reference"
rm -rf "$cross"
meson setup --cross-file tests/install/cross.ini -Dtests=disabled "$cross" . >>"$log" 2>&1
ok $? "configuring for a machine whose programs do not run here"
! grep -q tools/documents/ < <(ninja -C "$cross" -t targets all)
ok $? "no man pages are asked for there (all of the output: $log)"
finish
