#!/usr/bin/env bash
# Trainings on an OpenCL device whose products, or attention, take another way: through CLBlast to the table, beside our
# own kernels; and a run that records its choices and goes on with them. Arguments: the command, the recipes, the
# device, "clblast" if the build has it.
set -uo pipefail
ICLAB=$1
export ICLAB_RECIPES=$2
device=${ICLAB_TEST_OPENCL:-$3}
has_clblast=$4
# shellcheck source=tests/tools/tap.sh
source "${BASH_SOURCE[0]%/*}/tap.sh"

if ! grep -q '"spec":"opencl' < <("$ICLAB" devices --json 2>/dev/null); then
    echo "ok 1 - $device # SKIP no OpenCL device on this machine"
    echo "1..1"
    exit 0
fi
# Products of 256 x 32 and more, with biases, and softmax attention over 20 and more tokens.
small=(--device "$device" --set model.mixer=softmax --set model.layers=1 --set train.batch=8 --set train.warmup=5
    --set eval.sequences=512 --set eval.every=0 --set train.checkpoint_every=5 --set task.n=10)

differ() { # FILE FILE NAME
    cmp -s "$1" "$2"
    [[ $? -eq 1 ]]
    ok $? "$3"
}
error_of() { # FILE: of the model, in a table
    awk '$1 == "model" { print $2; exit }' "$1"
}

# ---- Through CLBlast: gradients of weights are sums of 32 times 11 terms, which our own kernels cut at 256 ----
if [[ $has_clblast == clblast ]]; then
    for gemm in native clblast; do
        begin=$EPOCHREALTIME
        run train sequence "${small[@]}" --set train.batch=32 --steps 20 --gemm $gemm --out "$work/$gemm"
        expect 0 "train --gemm $gemm"
        awk -v gemm="$gemm" -v begin="$begin" -v end="$EPOCHREALTIME" \
            'BEGIN { printf "# --gemm %s took %.1f s\n", gemm, end - begin }'
        sed -nE "s/.*(\"training_seconds\":.*)/\1/p" "$work/$gemm/run.json" | note
        cp "$work/out" "$work/$gemm.table"
        note <"$work/out"
        grep -q "\"gemm\":.*\"$gemm\"" "$work/$gemm/run.json"
        ok $? "recorded: gemm $gemm"
    done
    differ "$work/native/model.safetensors" "$work/clblast/model.safetensors" "CLBlast rounds otherwise"
    # Rounding alone: 2^-24 times some thousand operations of 20 steps, and no step is unstable.
    awk -v a="$(error_of "$work/native.table")" -v b="$(error_of "$work/clblast.table")" \
        'BEGIN { exit !(a > 0 && b > 0 && (a - b) ^ 2 <= (1e-3 * a) ^ 2) }'
    ok $? "the same error in the table: $(error_of "$work/native.table") and $(error_of "$work/clblast.table")"
fi

# ---- The record ----
words=attention:16x16x16x16=products,attention_gradient:16x16x16x16=products
run train sequence "${small[@]}" --steps 10 --out "$work/plain"
expect 0 "train"
! grep -q '"choices"' "$work/plain/run.json" "$work/plain/result.json"
ok $? "no choices are recorded where iclab's own serve"
ICLAB_OPENCL_CHOICES=$words run train sequence "${small[@]}" --steps 10 --out "$work/straight"
expect 0 "train with choices"
grep -q "\"choices\":.*\"$words\"" "$work/straight/run.json"
ok $? "run.json has the choices"
grep -q "\"choices\":.*\"$words\"" "$work/straight/result.json"
ok $? "result.json, too"
differ "$work/plain/model.safetensors" "$work/straight/model.safetensors" "attention by products rounds otherwise"
ICLAB_OPENCL_CHOICES=$words run train sequence "${small[@]}" --steps 5 --out "$work/halves"
run train --resume "$work/halves" --device "$device" --steps 10
expect 0 "resume without the variable"
grep -q "\"choices\":.*\"$words\"" "$work/halves/run.json"
ok $? "the record stays"
same "$work/straight/model.safetensors" "$work/halves/model.safetensors" "the run went on with the recorded choices"
run train sequence "${small[@]}" --steps 5 --out "$work/own"
ICLAB_OPENCL_CHOICES=$words run train --resume "$work/own" --device "$device" --steps 10
expect 0 "resume with the variable"
same "$work/plain/model.safetensors" "$work/own/model.safetensors" "a run without choices goes on without them"
finish
