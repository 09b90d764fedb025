#!/usr/bin/env bash
# The recipe recall, made small: it trains, and its tables and curves are those of a task of classes. Arguments: iclab,
# the folder of recipes.
set -uo pipefail
ICLAB=$1
export ICLAB_RECIPES=$2
# shellcheck source=tests/tools/tap.sh
source "${BASH_SOURCE[0]%/*}/tap.sh"

# K = 7 values, P = 4 pairs.
small=(--device cpu --quiet --set task.vocabulary=16 --set task.length=16 --set task.pairs=4 --set model.width=16
    --set train.batch=32 --set train.steps=300 --set train.warmup=30 --set eval.sequences=1000 --set eval.every=100)

# number PREDICTOR KEY: of the last table.
number() {
    sed -n "s/,\"constants.*//; s/^{\"predictor\":\"$1\".*,\"$2\":\([^,]*\).*/\1/p" "$work/out"
}
# near A B: to six digits.
near() {
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && (a - b) ^ 2 < (1e-6 * b) ^ 2) }'
}

run train recall "${small[@]}" --json --out "$work/run"
expect 0 "a small model of recall"
near "$(number uniform loss)" "$(awk 'BEGIN { printf "%.12g", log(16) }')" && near "$(number uniform accuracy)" 0.0625
ok $? "uniform: $(number uniform loss), $(number uniform accuracy)"
sed -n 's/^{"predictor":"uniform"//p' "$work/out" | grep -o '"position":[0-9]*,"loss":[^}]*' >"$work/positions"
[[ -s $work/positions ]] && ! grep -vq '"loss":2.772588[0-9]*,"se":0,' "$work/positions"
ok $? "uniform: log 16 at every position, whatever it weighs, without an error"
near "$(number values loss)" "$(awk 'BEGIN { printf "%.12g", log(7) }')"
ok $? "values: $(number values loss)"
near "$(number context loss)" "$(awk 'BEGIN { printf "%.12g", log(4) }')" && near "$(number context accuracy)" 0.25
ok $? "context: $(number context loss), $(number context accuracy)"
awk -v a="$(number model loss)" -v b="$(number context loss)" 'BEGIN { exit !(a > 0 && a < 0.8 * b) }'
ok $? "the model recalls, instead of knowing the context's values: $(number model loss)"
awk -F, 'NR > 1 && $5 != "" { if (count++ == 0) first = $5; last = $5 }
    END { exit !(count == 3 && last < 0.7 * first) }' "$work/run/metrics.csv"
ok $? "its loss on the evaluation's sequences falls"
grep -q '>cross-entropy<' "$work/run/report.html" && ! grep -q 'half adjusted' "$work/run/report.html"
ok $? "the report is about cross-entropy"

run eval "$work/run" --device cpu --quiet --set eval.predictors=context,uniform
expect 0 "two predictors"
[[ $(sed -n 's/^position *//p' "$work/out" | tr -s ' ') == 'model context uniform' ]]
ok $? "stand in the order asked for"
grep -q 'better than: context ([0-9.]* +- [^)]*), uniform (' "$work/out"
ok $? "the model is better than both, with the differences"
run eval "$work/run" --device cpu --quiet --set eval.predictors=oracle
refused 2 'eval.predictors = oracle: expected all or some of uniform,values,context' "recall has no oracle"
finish
