#!/usr/bin/env bash
# A kernel without its barriers races: Oclgrind must say so and name the kernel; with the barriers it must be silent.
# Arguments: the faulty iclab, the right one, oclgrind, the kernel, the case to run.
set -u
faulty=$1
right=$2
oclgrind=$3
kernel=$4
cases=$5
# shellcheck source=tests/tap.sh
source "${BASH_SOURCE[0]%/*}/../tap.sh"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
simulate() { # ICLAB; the report goes to $log
    : >"$log"
    ICLAB_OPENCL_KERNELS=gpu "$oclgrind" --data-races --log "$log" \
        "$1" compare --device opencl:oclgrind --against cpu --op "$cases" --quiet >/dev/null 2>&1
}

simulate "$right"
ok $? "the right kernels pass in Oclgrind"
[[ ! -s $log ]]
ok $? "without a finding"
simulate "$faulty"
grep -q 'data race' "$log"
ok $? "the missing barrier is reported as a data race"
grep -q "Kernel: $kernel" "$log"
ok $? "in kernel $kernel"
head -n 12 "$log" | note
finish
