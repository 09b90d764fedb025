#!/usr/bin/env bash
# iclab eval --over: what the folder holds, that cells are what --set gives, and one line for what does not fit.
# Arguments: iclab, the folder of recipes.
set -uo pipefail
ICLAB=$1
export ICLAB_RECIPES=$2
unset ICLAB_DEVICE
# shellcheck source=tests/tools/tap.sh
source "${BASH_SOURCE[0]%/*}/tap.sh"

small=(--device cpu:threads=1 --set eval.sequences=200 --set "eval.predictors=oracle,ols")
run train quickstart "${small[@]}" --steps 2 --set train.batch=32 --set train.growth=0 --set model.layers=1 \
    --set task.d=3 --set eval.every=0 --out "$work/run"
expect 0 "a run"

run eval "$work/run" "${small[@]}" --over task.n=8:12:4
expect 0 "one key"
cp "$work/out" "$work/table"
[[ $(head -n 1 "$work/table") =~ ^task\.n\ +model\ +se\ +oracle\ +ols$ && $(grep -cE '^(8|12) ' "$work/table") -eq 2 ]]
ok $? "the table: a line for each value"
[[ $(wc -l <"$work/run/over/n/table.csv") -eq 7 && $(grep -c '^{"task.n"' "$work/run/over/n/result.json") -eq 6 ]]
ok $? "table.csv and result.json: a row for each value and predictor"
for file in report.html loss.csv loss.gp; do
    [[ -s $work/run/over/n/$file ]]
    ok $? "$file"
done
grep -q '<title>quickstart over task.n</title>' "$work/run/over/n/report.html"
ok $? "the report's title names the key"
[[ ! -e $work/run/over/n/positions.csv && ! -e $work/run/over/n/map.gp ]]
ok $? "and no file of what there is not"
grep -q 'over/n/result.json, table.csv' "$work/err"
ok $? "it says where"

# A file where the results of evaluations are to lie.
touch "$work/run/eval"
run eval "$work/run" "${small[@]}"
[[ $code -eq 0 ]] && grep -q '^iclab: the result is not kept: .*run/eval.* (--out DIR takes it elsewhere)$' "$work/err"
ok $? "a result that cannot be kept is printed, and a line says so"
rm "$work/run/eval"
mv "$work/run/over" "$work/over"
touch "$work/run/over"
run eval "$work/run" "${small[@]}" --over task.n=8,9
[[ $code -eq 0 && $(grep -c '^iclab: the result is not kept: .*run/over.* (--out DIR' "$work/err") -eq 1 ]] &&
    grep -q '^task.n' "$work/out"
ok $? "nor is one of many values, whose table is printed"
rm "$work/run/over"
mv "$work/over" "$work/run/over"
# A file system that is mounted to be read, with results of before.
if unshare -rm true 2>/dev/null; then
    mkdir "$work/run/eval"
    for what in eval over/n; do
        arguments=()
        [[ $what == eval ]] || arguments=(--over 'task.n=8,9')
        code=0
        # shellcheck disable=SC2016 # the inner shell's
        unshare -rm sh -c 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"' sh \
            "$work/run" "$ICLAB" eval "$work/run" "${small[@]}" "${arguments[@]}" >"$work/out" 2>"$work/err" \
            </dev/null || code=$?
        [[ $code -eq 0 && $(grep -c "^iclab: the result is not kept: .*run/$what.*: Read-only" "$work/err") -eq 1 ]] &&
            grep -qE '^(model|task.n) ' "$work/out"
        ok $? "a run that is read-only: the table of $what is printed, and a line says the rest"
    done
    rmdir "$work/run/eval"
fi
run eval "$work/run" "${small[@]}" --set task.n=12 --json
expect 0 "the same cell by --set"
grep '^{"task.n":"12"' "$work/run/over/n/result.json" | sed 's/"task.n":"12",//; s/,$//' >"$work/cell"
same <(grep '^{"predictor"' "$work/out") "$work/cell" "has the same numbers"

run eval "$work/run" "${small[@]}" --quiet --json --out "$work/grid" \
    --over task.n=8:12:4 --over 'task.noise=1,"choice:1,3"'
expect 0 "two keys, JSON, a folder of one's own"
same <(grep '^{"task.n"' "$work/out") <(grep '^{"task.n"' "$work/grid/result.json" | sed 's/,$//') \
    "stdout has the rows of result.json"
[[ $(wc -l <"$work/out") -eq 13 && ! -s $work/err && -s $work/grid/map-1.csv && ! -e $work/run/over/n_noise ]]
ok $? "four cells of three, without a word"
grep -q '<title>quickstart over task.n and task.noise</title>' "$work/grid/report.html"
ok $? "the report's title names both keys"

run eval "$work/run" "${small[@]}" --over 'task.noise=1,"choice:1,2,3,4"' --out "$work/wide"
grep -E '^(task.noise|1|choice:1,2,3,4) ' "$work/out" | awk '{ print length }' | sort -u >"$work/lengths"
[[ $code -eq 0 && $(wc -l <"$work/lengths") -eq 1 ]]
ok $? "values that are longer than their key: the columns stand below each other"
run eval "$work/run" --quiet --device cpu:threads=1 --over model.layers=1,2
refused 2 '^iclab: --over model.layers: .* expected a key of' "a key that was trained with"
run eval "$work/run" --quiet --device cpu:threads=1 --over task.n=8,9,task.noise=1,loud
refused 2 '^iclab: cell task.n=8, task.noise=loud: ' "a value that the task refuses"
run eval "$work/run" --quiet --device cpu:threads=1 --over task.n=8 --over task.longest=20
refused 2 'task.longest: nothing reads it with task.family = linear-regression' "a key that the task does not read"
run eval "$work/run" --quiet --device cpu:threads=1 --over task.n=8 --predictions "$work/p"
refused 2 '^iclab: --predictions: expected no --over' "--predictions beside --over"
[[ ! -e $work/p && ! -e $work/run/over/layers ]]
ok $? "and nothing is written"
finish
