#!/usr/bin/env bash
# A run from beginning to end on one device: the folder, the table, resuming, Ctrl-C. Arguments: the command, the
# recipes, the device. What does not depend on the device is left to "cpu": a driver may take seconds to compile its
# kernels in every process.
set -uo pipefail
ICLAB=$1
export ICLAB_RECIPES=$2
device=$3
# shellcheck source=tests/tools/tap.sh
source "${BASH_SOURCE[0]%/*}/tap.sh"

if [[ $device == opencl* ]]; then
    device=${ICLAB_TEST_OPENCL:-$device}
    if ! grep -q '"spec":"opencl' < <("$ICLAB" devices --json 2>/dev/null); then
        echo "ok 1 - $device # SKIP no OpenCL device on this machine"
        echo "1..1"
        exit 0
    fi
fi
small=(--device "$device" --set train.batch=32 --set train.warmup=5 --set train.growth=0 --set model.layers=2
    --set eval.sequences=500
    --set eval.fit_sequences=200 --set eval.every=10 --set eval.every_sequences=64 --set train.checkpoint_every=7)

# ---- The folder ----
begin=$EPOCHREALTIME
run train quickstart "${small[@]}" --steps 40 --out "$work/straight"
end=$EPOCHREALTIME
expect 0 "train"
took() {
    sed -nE "s/.*\"$1\":[[:space:]]*([0-9.e+-]+).*/\1/p" "$work/straight/run.json"
}
awk -v startup="$(took startup_seconds)" -v training="$(took training_seconds)" -v begin="$begin" -v end="$end" \
    'BEGIN { exit !(startup > 0 && training > 0 && startup + training < end - begin) }'
ok $? "start-up and training took parts of its time"
grep -E 'device ' "$work/err" | head -n 1 | note
grep -qE '^iclab: evaluating on [0-9]+ fresh sequences$' "$work/err"
ok $? "it says what takes long at the end"
for file in recipe.ini metrics.csv model.safetensors checkpoint/state.safetensors run.json; do
    [[ -s $work/straight/$file ]]
    ok $? "the run folder holds $file"
done
grep -q 'iclab: device .*--device' "$work/err"
ok $? "the device is named, and how to choose it"
[[ $(wc -l <"$work/straight/metrics.csv") -eq 41 ]]
ok $? "metrics.csv has a row for each step"
[[ $(grep -cE '^[0-9]+0,[^,]+,[^,]+,[^,]+,[0-9.e-]+$' "$work/straight/metrics.csv") -eq 4 ]]
ok $? "every tenth has an evaluation"
for fact in version commit device driver seed recipe command_line startup_seconds training_seconds \
    '"step_memory_bytes":.*[1-9]' '"memory_bytes":.*[1-9]' '"status":.*"finished"' '"steps":.*40'; do
    grep -q "$fact" "$work/straight/run.json"
    ok $? "run.json has $fact"
done
for predictor in predictor model oracle bayes ols constrr adarr tunedrr; do
    grep -qE "^$predictor " "$work/out"
    ok $? "the table has the row $predictor"
done
! grep -qE 'were (skipped|left out)' "$work/out"
ok $? "no step was skipped, no sequence left out"
if [[ $device == cpu ]]; then # in single precision gradients overflow
    run train quickstart "${small[@]}" --set train.warmup=0 --set train.learning_rate=100 --steps 5 --out "$work/lost"
    grep -qE '^4 of 5 steps were skipped: ' "$work/out" && ! grep -q 'were left out' "$work/out"
    ok $? "steps that were skipped are told, and nothing of sequences"
    run train graphs --device "$device" --set model.layers=6 --set train.batch=4 --steps 5 --out "$work/none"
    refused 1 'none of 5 steps was taken: no gradient was finite, .* of graphs model.value_std' \
        "a training that took no step is none"
    grep -q '"status":.*"diverged"' "$work/none/run.json"
    ok $? "and run.json says that it diverged"
    run eval "$work/none" --device "$device" --set eval.sequences=100
    expect 1 "nor has its model an error"
    says "the model's error is no number" "which is said"
    run train graphs --device "$device" --set model.layers=6 --set train.batch=4 --steps 5 --out "$work/some" \
        --set model.value_std=0.02 --set train.learning_rate=1e-4 --set eval.sequences=100 --set eval.fit_sequences=50
    expect 0 "a smaller start, which the line names, is one that trains"
fi

# ---- The same again, in pieces ----
run train quickstart "${small[@]}" --steps 40 --out "$work/again" --quiet
[[ ! -s $work/err ]]
ok $? "--quiet says nothing"
same "$work/straight/model.safetensors" "$work/again/model.safetensors" "same seed and device: the same model"
same "$work/straight/metrics.csv" "$work/again/metrics.csv" "and the same metrics"
run train quickstart "${small[@]}" --steps 13 --out "$work/pieces"
if [[ $device == cpu ]]; then
    run train --resume "$work/pieces" --device "$device" --steps 29
    expect 0 "resumed"
fi
# A folder of a version that wrote every key, took values that nothing read, and listed no files.
for key in '[train]' 'momentum = 0.5' '[task]' 'nuisance = 2' '[model]' 'attention = linear'; do
    echo "$key" >>"$work/pieces/recipe.ini"
done
rm "$work/pieces/files.txt"
run train quickstart --resume "$work/pieces" --out "$work/pieces" --device "$device" --steps 40
expect 0 "resumed to the end, where --out names the same folder"
[[ $(grep -c 'pieces: no files.txt, as in runs of older versions' "$work/err") -eq 1 ]]
ok $? "one line says that its files were not checked"
run train --resume "$work/pieces" --out "$work/piece" --device "$device"
refused 2 "expected no --out beside --resume" "another --out"
run train --resume "$work/pieces" --out "$work/pieces2" --device "$device"
refused 2 "expected no --out beside --resume" "one that it begins with"
for file in model.safetensors metrics.csv recipe.ini checkpoint/state.safetensors; do
    grep -qE "^[0-9a-f]{16} $(wc -c <"$work/pieces/$file") $file\$" "$work/pieces/files.txt"
    ok $? "$file is listed again"
    same "$work/straight/$file" "$work/pieces/$file" "in pieces: the same $file"
done
grep -q '"recipe":.*"quickstart"' "$work/pieces/run.json"
ok $? "run.json still has the recipe's name"
if [[ $device == cpu ]]; then
    run train quickstart "${small[@]}" --steps 40 --seed 2 --out "$work/other"
    ! cmp -s "$work/straight/model.safetensors" "$work/other/model.safetensors"
    ok $? "another seed: another model"
    run train "$work/straight/recipe.ini" --device "$device" --out "$work/rerun"
    same "$work/straight/model.safetensors" "$work/rerun/model.safetensors" \
        "the folder's recipe.ini runs again to the same model"
fi

# ---- Gram matrices, sequences cut one by one ----
if [[ $device == cpu ]]; then
    clipped=("${small[@]}" --set model.space=auto --set task.sampler=gram --set train.sequence_clip=0.1)
    run train quickstart "${clipped[@]}" --steps 40 --out "$work/clipped"
    expect 0 "train on Gram matrices, with train.sequence_clip"
    run train quickstart "${clipped[@]}" --steps 13 --out "$work/clipped-pieces"
    run train --resume "$work/clipped-pieces" --device "$device" --steps 40
    for file in model.safetensors metrics.csv checkpoint/state.safetensors; do
        same "$work/clipped/$file" "$work/clipped-pieces/$file" "in pieces: the same $file"
    done
    grep -q '"skipped_steps":.*0' "$work/clipped/run.json" && grep -q '"dropped_sequences":.*0' "$work/clipped/run.json"
    ok $? "run.json counts skipped steps and dropped sequences"
fi

# ---- Evaluation ----
run eval "$work/straight" --device "$device" --json
expect 0 "eval --json"
pattern='^\{"predictor":"[a-z]+","mse":N,"se":N,"minus_model":(N|null),"minus_model_se":(N|null),"adjusted":N,'
pattern+='"adjusted_se":N,"half_adjusted":N,"half_adjusted_se":N,.*\}$'
[[ $(grep -cE "${pattern//N/[0-9.e-]+}" "$work/out") -eq 7 ]]
ok $? "one object for the model and each predictor"
[[ $(tail -n 1 "$work/out") =~ ^\{\"run\":.*\"folder\":\"$work/straight/eval\"\}$ ]]
ok $? "and one that names the folder"
predictors() { # of the last run
    grep '^{"predictor":' "$work/out"
}
predictors >"$work/first"
run train --resume "$work/straight" --device "$device" --json --quiet
same "$work/first" <(predictors) "and the numbers that training ended with"
if [[ $device == cpu ]]; then
    run eval "$work/straight" --device "$device" --json
    same "$work/first" <(predictors) "evaluated again: the same numbers"
    run eval "$work/straight" --device "$device" --set eval.predictors=ols,gd:2 --set task.noise=fixed:1 --json
    expect 0 "eval with other predictors and another noise"
    [[ $(grep -cE '"predictor":"(model|ols|gd:2)"' "$work/out") -eq 3 && $(predictors | wc -l) -eq 3 ]]
    ok $? "prints those predictors alone"
fi

# ---- Ctrl-C ----
stop() { # SIGNAL CODE
    local folder=$work/stopped-$1 process code step
    "$ICLAB" train quickstart "${small[@]}" --set train.steps=100000000 --set train.schedule=constant \
        --set train.horizon=1000 --set eval.every=0 --set train.checkpoint_every=100 --out "$folder" \
        >"$work/out-$1" 2>"$work/err-$1" </dev/null &
    process=$!
    for ((i = 0; i < 600; i++)); do
        [[ ! -s $folder/metrics.csv || $(wc -l <"$folder/metrics.csv") -lt 2 ]] || break
        sleep 0.1
    done
    kill "-$1" "$process"
    code=0
    wait "$process" || code=$?
    [[ $code -eq $2 ]]
    ok $? "SIG$1 ends training with exit code $2"
    grep -q -- "--resume $folder" "$work/err-$1"
    ok $? "it says how to resume"
    tail -n 1 "$work/err-$1" | note
    step=$(sed -n 's/.*stopped after step \([0-9]*\) of.*/\1/p' "$work/err-$1")
    [[ -n $step && $(tail -n 1 "$folder/metrics.csv" | cut -d, -f1) == "$step" ]]
    ok $? "the metrics end with the step at which it stopped"
    run train --resume "$folder" --device "$device" --steps $((step + 20))
    expect 0 "resumed"
    run train "$folder/recipe.ini" --device "$device" --out "$folder-straight"
    same "$folder/model.safetensors" "$folder-straight/model.safetensors" "the model of a run never stopped"
    same "$folder/metrics.csv" "$folder-straight/metrics.csv" "and its metrics"
}
stop INT 130
if [[ $device == cpu ]]; then
    stop TERM 143
fi
finish
