#!/usr/bin/env bash
# Runs a test in Oclgrind's simulator and fails when it had anything to report: Oclgrind itself exits 0 even then.
# Arguments: the oclgrind program, then the test and its arguments.
set -uo pipefail
oclgrind=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Without optimisation no kernel holds a vector shuffle that its source does not: Oclgrind 21.10 crashes on those when
# it looks for uninitialised values.
# It takes the second owner of a piece of memory for the first in what it calls uninitialised, so the backend uses each
# piece once, and needs more of them.
"$oclgrind" --global-mem-size 1900000000 --build-options -cl-opt-disable --data-races --uninitialized --check-api \
    --log "$log" "$@"
status=$?
if [[ -s $log ]]; then
    echo "# Oclgrind reports:"
    head -n 200 "$log" | sed 's/^/# /'
    exit 1
fi
exit "$status"
