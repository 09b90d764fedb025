#!/usr/bin/env bash
# tools/bundle makes its archive. Argument: a folder, in which it becomes a file called "made". Prints TAP.
set -uo pipefail
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "${BASH_SOURCE[0]%/*}/../.." || exit 1
# shellcheck source=tests/tap.sh
source tests/tap.sh
(cd "$folder" && "$OLDPWD/tools/bundle" --build .) >"$folder/log" 2>&1
status=$?
if [[ $status -eq 3 ]]; then # some of its tools come from PyPI
    skip "tools/bundle" "$(tail -n 1 "$folder/log")"
else
    ok $status "tools/bundle (all of its output: $folder/log)"
    archive=$(find "$folder" -name 'iclab-*.tar.xz')
    [[ -z $archive ]] || ln -sf "$archive" "$folder/made"
fi
finish
