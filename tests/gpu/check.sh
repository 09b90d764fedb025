#!/usr/bin/env bash
# Every program in every form, compiled for GPUs that are not there. Arguments: a build folder; a folder for compilers
# that cannot be installed here, which come from Debian and PyPI; then options of compile.py. Prints TAP.
set -uo pipefail
build=$1
compilers=$2
shift 2
here=${BASH_SOURCE[0]%/*}
mkdir -p "$compilers"
"$here/compilers.sh" "$compilers" >"$compilers/log" 2>&1 </dev/null ||
    echo "# no compilers for GPUs from Debian or PyPI ($compilers/log says why): what needs them will skip"
rm -rf "$compilers/forms"
"$build/tests/gpu/gpu-forms" "$compilers/forms" >>"$compilers/log" 2>&1 || echo "not ok - writing every form"
python3 "$here/compile.py" "$@" "$compilers/forms" "$compilers" "$compilers/table" || true
python3 "$here/faults.py" "$compilers/forms" "$compilers"
