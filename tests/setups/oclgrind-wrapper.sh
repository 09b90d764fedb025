#!/usr/bin/env bash
# Runs a test in Oclgrind's simulator and fails when it had anything to report: Oclgrind itself exits 0 even then.
# Arguments: the oclgrind program, then the test and its arguments.
set -uo pipefail
oclgrind=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT

"$oclgrind" --data-races --uninitialized --check-api --log "$log" "$@"
status=$?
if [[ -s $log ]]; then
    echo "# Oclgrind reports:"
    head -n 200 "$log" | sed 's/^/# /'
    exit 1
fi
exit "$status"
