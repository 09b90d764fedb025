#!/usr/bin/env bash
# A step that a device cannot hold is refused before a run folder is made. Arguments: iclab, the folder of recipes. The
# device is PoCL behind tests/driver/layer.c, which says how much memory it has.
set -uo pipefail
ICLAB=$1
export ICLAB_RECIPES=$2
# shellcheck source=tests/tools/tap.sh
source "${BASH_SOURCE[0]%/*}/tap.sh"

train() { # MEMORY SLICES NAME: a step on a device of so many bytes
    ICLAB_TEST_DRIVER=memory=$1 run train sequence --device opencl:pocl --quiet --steps 1 --set "train.slices=$2" \
        --set eval.every=0 --set eval.sequences=8 --set eval.fit_sequences=8 --out "$work/$3"
}

train 6000000 1 refused
refused 2 "train.slices = 1: a step would hold .* 6; expected 2$" "a step that is too large for the device"
[[ ! -e $work/refused ]]
ok $? "leaves no run folder"
train 4000000 1 refused
refused 2 "train.slices = 1: a step would hold .* 4; expected 4$" "on one that has less"
train 6000000 2 slices
expect 0 "the slices that the message names"
[[ -s $work/slices/model.safetensors ]]
ok $? "do train"

# An evaluation has 2,048 sequences at a time, or fewer where these do not fit.
loss() { # MEMORY
    ICLAB_TEST_DRIVER=memory=$1 "$ICLAB" eval "$work/slices" --device opencl:pocl --quiet --json 2>/dev/null |
        sed -n '1s/.*"mse":\([^,]*\),.*/\1/p'
}
whole=$(loss 100000000) pieces=$(loss 4000000)
awk -v a="$whole" -v b="$pieces" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < (1e-6 * a) ^ 2) }'
ok $? "an evaluation that does not fit at once gives the same: mean squared errors $whole and $pieces"
finish
