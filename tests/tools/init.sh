#!/usr/bin/env bash
# Training that starts from a model in a file. Arguments: iclab, the folder of recipes.
set -uo pipefail
ICLAB=$1
export ICLAB_RECIPES=$2
# shellcheck source=tests/tools/tap.sh
source "${BASH_SOURCE[0]%/*}/tap.sh"

small=(--device cpu --quiet --set train.batch=16 --set train.warmup=2 --set train.growth=0 --set model.layers=2
    --set eval.sequences=200
    --set eval.fit_sequences=100 --set eval.every=0 --json)
run train quickstart "${small[@]}" --set model.parameterization=diag --steps 20 --out "$work/diag"
expect 0 "a diagonal model"
model=$work/diag/model.safetensors

run train quickstart "${small[@]}" --set model.parameterization=diag --steps 0 --init "$model" --out "$work/same"
expect 0 "--init, and no step"
same "$model" "$work/same/model.safetensors" "the same file comes out"
run eval "$work/diag" --device cpu --quiet --json
head -n 1 "$work/out" >"$work/first"
run eval "$work/same" --device cpu --quiet --json
same "$work/first" <(head -n 1 "$work/out") "and evaluates to the same"

run train quickstart "${small[@]}" --set model.parameterization=full --steps 0 --init "$model" --out "$work/full"
expect 0 "a full model from a diagonal one"
loss() { # RUN: the model's mean squared error
    "$ICLAB" eval "$work/$1" --device ref --quiet --json 2>/dev/null | sed -n '1s/.*"mse":\([^,]*\),.*/\1/p'
}
before=$(loss diag) after=$(loss full)
awk -v a="$before" -v b="$after" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < (1e-5 * a) ^ 2) }'
ok $? "predicts the same: mean squared errors $before and $after"
run train quickstart "${small[@]}" --set model.parameterization=full --steps 5 --init "$model" --out "$work/on"
expect 0 "and trains on"
! cmp -s "$work/full/model.safetensors" "$work/on/model.safetensors"
ok $? "to another model"
grep -q "^init = .*/diag/model.safetensors" "$work/on/recipe.ini"
ok $? "the run's recipe says where it started"
run train "$work/on/recipe.ini" --device cpu --quiet --out "$work/again"
same "$work/on/model.safetensors" "$work/again/model.safetensors" "and trained again gives the same model"
rm "$model"
run train --resume "$work/on" --device cpu --quiet --steps 8
expect 0 "a resumed run does not need the file again"

run train quickstart "${small[@]}" --init "$work/none.safetensors" --out "$work/x"
refused 3 'none.safetensors' "no such file"
run train quickstart "${small[@]}" --init "$work/on/metrics.csv" --out "$work/x"
refused 2 'not a safetensors file' "another kind of file"
run train quickstart "${small[@]}" --set model.parameterization=diag --init "$work/on/model.safetensors" --out "$work/x"
refused 2 'on/model.safetensors: .*full' "a full model in a diagonal one"
run train quickstart "${small[@]}" --set task.d=7 --init "$work/on/model.safetensors" --out "$work/x"
refused 2 'is a model for .* coordinates.*: expected one for .* positions of 8 coordinates' "another dimension"
run train quickstart "${small[@]}" --set train.growth=10 --steps 90 --set model.layers=3 \
    --init "$work/on/model.safetensors" --out "$work/x"
refused 2 'train.growth = 10: expected 0 beside train.init' "with growth"
run train --resume "$work/on" --init "$work/same/model.safetensors"
refused 2 'no --init beside --resume' "--init beside --resume"
[[ ! -e $work/x ]]
ok $? "what is refused leaves no trace"
finish
