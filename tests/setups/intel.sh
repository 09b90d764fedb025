#!/usr/bin/env bash
# Fetches Intel's runtime for CPUs from PyPI, a wheel with libraries, and writes the .icd file that names it to the
# loader. Argument: a folder, which gets the runtime and vendors/. Prints TAP.
set -uo pipefail
folder=$1
# shellcheck source=tests/tap.sh
source "${BASH_SOURCE[0]%/*}/../tap.sh"
mkdir -p "$folder/vendors"
[[ -e $folder/complete ]] || { python3 -m venv "$folder" &&
    "$folder/bin/pip" install -q intel-opencl-rt intel-cmplr-lib-rt && touch "$folder/complete"; } >"$folder/log" 2>&1
find "$folder/lib" -name libintelocl.so -print -quit >"$folder/vendors/intel.icd"
[[ -s $folder/vendors/intel.icd ]]
ok $? "intel-opencl-rt from PyPI ($folder/log has all of its output)"
finish
