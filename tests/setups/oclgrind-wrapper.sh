#!/usr/bin/env bash
# Runs a test in Oclgrind's simulator and fails when it had anything to report: Oclgrind itself exits 0 even then.
# Arguments: the oclgrind program, then the test and its arguments.
set -uo pipefail
oclgrind=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Oclgrind 21.10 crashes on vectors that are made of parts of two when it looks for uninitialised values. Without
# optimisation no kernel holds one that its source does not, and ICL_PLAIN_VECTORS leaves out those that a source has.
# It takes the second owner of a piece of memory for the first in what it calls uninitialised, so the backend uses each
# piece once, and needs more of them. On a device of one unit every gradient of attention would be taken in one pass.
"$oclgrind" --global-mem-size 1900000000 --compute-units 4 --build-options "-cl-opt-disable -DICL_PLAIN_VECTORS" \
    --data-races --uninitialized --check-api --log "$log" "$@"
status=$?
if [[ -s $log ]]; then
    echo "# Oclgrind reports:"
    head -n 200 "$log" | sed 's/^/# /'
    exit 1
fi
exit "$status"
