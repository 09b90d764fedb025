#!/usr/bin/env bash
# `iclab compare` with a fault planted in a kernel must end with exit code 1 and name the op; with the right kernels it
# must pass. Arguments: the faulty iclab, the right one, the device, the op, the cases to run; then, if training steps
# must show it too, the folder of recipes.
set -u
faulty=$1
right=$2
device=$3
op=$4
cases=$5
export ICLAB_RECIPES=${6:-}
[[ $device != opencl* ]] || device=${ICLAB_TEST_OPENCL:-$device}
# shellcheck source=tests/tap.sh
source "${BASH_SOURCE[0]%/*}/../tap.sh"

if [[ $("$right" devices --json | grep -vc '"kind": *"host"') -eq 0 ]]; then
    echo "1..0 # SKIP no OpenCL device on this machine"
    exit 0
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT

"$right" compare --device "$device" --against cpu --op "$cases" --json >"$log" 2>&1
ok $? "the right kernels pass"
grep -h '^iclab: device opencl' "$log" | sed 's/^iclab: /# /'

"$faulty" compare --device "$device" --against cpu --op "$cases" --json >"$log" 2>&1
[[ $? -eq 1 ]]
ok $? "the fault ends the comparison with exit code 1"
grep -q "\"op\":\"$op\".*\"verdict\":\"FAIL\"" "$log"
ok $? "a failing case names the op $op"
! grep -qv "\"op\":\"$op\"" < <(grep '"verdict":"FAIL"' "$log")
ok $? "and no other op is blamed"
grep '"verdict":"FAIL"' "$log" | head -n 3 | note
grep '"summary"' "$log" | note
if [[ -n $ICLAB_RECIPES ]]; then
    "$faulty" compare --device "$device" --against cpu --train versatile --set model.space=composed \
        --set train.batch=16 --steps 2 \
        --json >"$log" 2>&1
    [[ $? -eq 1 ]] && grep -q '"mode":"forced","step":1,.*"verdict":"FAIL"' "$log"
    ok $? "forced training fails at the first step"
fi
finish
