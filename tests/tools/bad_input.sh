#!/usr/bin/env bash
# Bad input gets one line that says what, where and what was expected, the right exit code, and leaves nothing behind.
# Arguments: the command, the folder of the recipes.
set -uo pipefail
ICLAB=$1
export ICLAB_RECIPES=$2 ICLAB_DEVICE=cpu
# shellcheck source=tests/tools/tap.sh
source "${BASH_SOURCE[0]%/*}/tap.sh"
small=(--set train.batch=8 --set train.steps=3 --set train.warmup=0 --set eval.sequences=16 --set eval.fit_sequences=16
    --set eval.every_sequences=16 --set model.layers=1 --set train.growth=0)

# refuse CODE PATTERN NAME ARGUMENTS...: training is refused and there is no run folder afterwards.
refuse() {
    local code_expected=$1 pattern=$2 name=$3
    shift 3
    run train "$@" --out "$work/none"
    refused "$code_expected" "$pattern" "$name"
    [[ ! -e $work/none ]]
    ok $? "  and leaves no folder"
}

set_refused() { # ASSIGNMENT PATTERN [CODE]
    refuse "${3:-2}" "$2" "--set $1" versatile --set "$1"
}

# ---- Keys and values ----
set_refused task.dd=3 'unknown key task.dd; the nearest known one is task.d'
set_refused train.layers=3 'the nearest known one is model.layers'
set_refused task.d=0 'task.d = 0: expected a whole number from 1'
set_refused task.n=0 'task.n = 0: expected a whole number from 1'
set_refused model.layers=0 'model.layers = 0: expected a whole number from 1'
set_refused model.heads=0 'model.heads = 0: expected'
set_refused train.batch=0 'train.batch = 0: expected'
set_refused task.d=-1 'task.d = -1: expected'
set_refused task.d=ten 'task.d = ten: expected'
set_refused train.learning_rate=-1 'train.learning_rate = -1: expected'
set_refused train.learning_rate=nan 'train.learning_rate = nan: expected'
set_refused train.beta2=1 'train.beta2 = 1: expected'
set_refused train.seed=4294967296 'train.seed = 4294967296: expected'
set_refused model.parameterization=diagonal 'expected one of full\|diag'
set_refused task.rotate=maybe 'expected true or false'
set_refused task.noise=fixed:-1 'task.noise = fixed:-1: expected'
set_refused task.noise=uniform:-2 'task.noise = uniform:-2: expected'
set_refused task.noise=choice:1,-3 'task.noise = choice:1,-3: expected'
set_refused task.noise=choice: 'task.noise = choice:: expected'
set_refused task.noise=fixed:nan 'task.noise = fixed:nan: expected'
set_refused task.noise=loud 'task.noise = loud: expected'
set_refused task.covariance=spectrum:1,2 'task.covariance = spectrum:1,2: expected'
set_refused task.covariance=spectrum:1,1,1,1,1,1,1,1,1,0 'positive'
set_refused task.covariance=spectrum:1,1,1,1,1,1,1,1,1,-1 'positive'
set_refused task.sampler=wishart 'task.sampler'
set_refused eval.predictors=orakel 'oracle'
set_refused eval.predictors=gd:0 'gd:0'
set_refused task 'expected section.key=value$'
set_refused layers=4 'expected section.key=value, here model.layers=4$'
set_refused layers 'here model.layers=value$'

refuse 2 'eval.predictors = ols: expected all or some of zero,mean,nearest,kernel' \
    'functions have reference predictors of their own' \
    window --set eval.predictors=ols
refuse 2 'model.layers = 2: expected 1' 'softmax attention has one layer' window --set model.layers=2
refuse 2 'train.sequence_clip = 0.01: expected 0: .*model.family = linear' 'no clipping by sequence there' \
    window --set train.sequence_clip=0.01
refuse 2 'model.heads = 2: model.family = softmax does not read it: expected 1, its default, or model.family = linear' \
    'softmax attention has one head' window --set model.heads=2
refuse 2 'model.scale = raw: model.family = softmax does not read it' 'its scores have no other scale' \
    window --set model.scale=raw
refuse 2 'model.attention = linear: model.family = linear does not read it: .* or model.family = softmax' \
    'nor have linear transformers such attention' quickstart --set model.attention=linear
refuse 2 'model.rank = 2: model.parameterization = diag does not read it: .* or model.parameterization = diag.lowrank' \
    'diagonals have no rank' quickstart --set model.rank=2
refuse 2 'model.coupling_std = 0.1: model.parameterization = diag does not read it' 'nor couplings' \
    quickstart --set model.coupling_std=0.1
refuse 2 'task.sampler = gram: task.family = functions does not read it' 'functions have no Gram matrices' \
    window --set task.sampler=gram
refuse 2 'task.covariance = spectrum:1,2: task.family = functions does not read it' 'functions have no covariance' \
    window --set task.covariance=spectrum:1,2
refuse 2 'task.lipschitz = 2: task.family = linear-regression does not read it: .* or task.family = functions' \
    'linear targets have no Lipschitz constant to set' quickstart --set task.lipschitz=2
refuse 2 'train.beta1 = 0.8: train.optimizer = sgd does not read it: .* or train.optimizer = adam' \
    'gradient descent has no beta' quickstart --set train.optimizer=sgd --set train.beta1=0.8
refuse 2 'train.optimizer = muon: expected adam or sgd: this model marks no hidden matrices' \
    'Muon has nothing to orthogonalise' quickstart --set train.optimizer=muon
refuse 2 'train.decay_share = 0.5: train.schedule = cosine does not read it: .* train.schedule = warmup-stable-decay' \
    'a cosine has no last part' quickstart --set train.decay_share=0.5
refuse 2 'train.momentum = 0.8: train.optimizer = adam does not read it' 'nor Adam a momentum' \
    quickstart --set train.momentum=0.8
refuse 2 'train.step_factor = 0.1: train.schedule = cosine does not read it: .* or train.schedule = step' \
    'a cosine has no steps' quickstart --set train.step_factor=0.1
refuse 2 'task.nuisance = 2: task.subspace = 0 does not read it: expected 1, its default, or another task.subspace' \
    'all of x has nothing outside' window --set task.subspace=0 --set task.nuisance=2
refuse 2 'task.rotation_seed = 2: task.subspace = 0 does not read it: expected 1, .* or another task.subspace' \
    'nor a rotation' window --set task.subspace=0 --set task.rotation_seed=2
refuse 2 'task.rotation_seed = 2: task.rotate = false does not read it: expected 1, .* or another task.rotate' \
    'axes that stay have none' quickstart --set task.d=2 --set task.covariance=spectrum:1,2 --set task.rotation_seed=2
refuse 2 'task.rotate = true: task.covariance = identity does not read it: expected false, .* or another task.covar' \
    'which the identity cannot show' quickstart --set task.rotate=true
refuse 2 'task.sampler = gram: expected tokens' 'nor Gram matrices' window --set task.family=linear-regression \
    --set task.inputs=normal --set task.sampler=gram

# ---- Sizes ----
refuse 3 'memory|larger|limit|allocat' "a batch that no memory holds" versatile \
    --set task.d=20000 --set task.n=100000 --set model.parameterization=diag
refuse 3 'memory|larger|limit|allocat' "a batch of a thousand million" versatile --set train.batch=1073741824 \
    --set task.n=1048576

# ---- Recipes ----
printf '[task]\nd = 10\nn = 20\n[modle]\nlayers = 2\n' >"$work/section.ini"
refuse 2 'section.ini:5: unknown key modle.layers; the nearest known one is model.layers' "a misspelt section" \
    "$work/section.ini"
printf '[task]\nd = 10\nd = 11\n' >"$work/twice.ini"
refuse 2 'twice.ini:3: task.d again' "a key twice" "$work/twice.ini"
printf '[task]\nnoise = fixed:-1\n' >"$work/noise.ini"
refuse 2 'noise.ini:2: task.noise = fixed:-1: expected' "a negative sigma names its line" "$work/noise.ini"
head -c 5000 /dev/urandom >"$work/random.ini"
refuse 2 'random.ini' "a file of random bytes" "$work/random.ini"
refuse 2 'no recipe of that name; the nearest is quickstart' "an unknown recipe" quikstart
refuse 3 'cannot read' "a folder for a recipe" "$work"

# ---- Devices ----
refuse 2 'device "gpu": expected auto, .*; the nearest is cpu' "an unknown device" versatile --device gpu
refuse 2 'device "opncl:0.0": expected auto, .*; the nearest is opencl' "a misspelt one" versatile --device opncl:0.0
refuse 2 'threads' "no threads" versatile --device cpu:threads=0
refuse 2 'cpu:isa=SET' "no such instruction set" versatile --device cpu:isa=sse9
refuse 3 'OpenCL|no such device' "an OpenCL device that is not here" versatile --device opencl:no-such-device
code=0
OCL_ICD_VENDORS=$work "$ICLAB" train versatile --device opencl --out "$work/none" >"$work/out" 2>"$work/err" || code=$?
refused 3 'OpenCL' "no OpenCL driver"

# ---- Folders ----
run train versatile "${small[@]}" --out /dev/null/run
refused 3 'cannot make the folder' "a run folder that cannot be made"
mkdir "$work/file-in-the-way" && : >"$work/file-in-the-way/checkpoint"
run train versatile "${small[@]}" --out "$work/file-in-the-way"
refused 3 'cannot make the folder' "a file where a folder should be"
run train --resume "$work/nothing"
refused 2 'not a run' "nothing to resume"
run eval "$work/nothing"
refused 2 'not a run' "nothing to evaluate"
run train versatile --out "$work/a" --resume "$work/b"
refused 2 'no --out beside --resume' "--out beside --resume"

# ---- Damaged runs ----
run train versatile "${small[@]}" --out "$work/run"
expect 0 "a small run"
run train versatile "${small[@]}" --out "$work/run"
refused 2 'already holds a run' "a folder that holds a run"
damage() { # FILE COMMAND...: a copy of the run in which the command has changed the file
    rm -rf "$work/damaged"
    cp -r "$work/run" "$work/damaged"
    local file=$work/damaged/$1
    shift
    "$@" "$file"
}
# shellcheck disable=SC2317 # called by damage
cut_short() {
    truncate -s 100 "$1"
}
# shellcheck disable=SC2317
flip() {
    printf '\xff\xff\xff\x7f' | dd of="$1" bs=1 seek=3 conv=notrunc status=none
}
# shellcheck disable=SC2317
not_a_number() {
    printf '\xff\xff\xff\x7f' | dd of="$1" bs=1 seek=$(($(stat -c %s "$1") - 4)) conv=notrunc status=none
}
# shellcheck disable=SC2317
lose_line() {
    sed -i '3d' "$1"
}
# shellcheck disable=SC2317
lose_lines() {
    local lines
    lines=$(head -n -4 "$1")
    echo "$lines" >"$1"
}
# shellcheck disable=SC2317
flip_bit() {
    local at byte
    at=$(($(stat -c %s "$1") - 2))
    byte=$(od -An -tu1 -j "$at" -N 1 "$1")
    printf '%b' "\\x$(printf %02x $((byte ^ 1)))" | dd of="$1" bs=1 seek="$at" conv=notrunc status=none
}
for case in 'metrics.csv lose_line' 'recipe.ini lose_lines' 'model.safetensors flip_bit' \
    'checkpoint/state.safetensors flip_bit' 'run.json lose_line' 'files.txt lose_line'; do
    read -r file how <<<"$case"
    damage "$file" "$how"
    for words in eval 'train --steps 9 --resume'; do
        # shellcheck disable=SC2086 # words
        run $words "$work/damaged"
        if [[ $file == files.txt ]]; then
            expect 0 "a file that the list lost is not checked: $words"
            continue
        fi
        refused 2 "damaged/$file: not as it was written, by files.txt: .*remove $work/damaged/files.txt" \
            "$words: $file after $how"
    done
done
damage files.txt cut_short
run eval "$work/damaged"
refused 2 'files.txt:[0-9]*: expected a hash, a size and the name' "a list that was cut"
damage recipe.ini lose_line
rm "$work/damaged/files.txt"
run eval "$work/damaged"
expect 0 "a recipe that was changed on purpose"
grep -q 'damaged: no files.txt, as in runs of older versions: its files are not checked' "$work/err"
ok $? "  and a line says that nothing was checked"
damage recipe.ini cut_short
rm "$work/damaged/files.txt"
run eval "$work/damaged"
refused 2 'recipe.ini: does not end with a line feed' "a recipe that was cut within a line"
for file in checkpoint/state.safetensors model.safetensors; do
    for how in rm cut_short flip; do
        damage "$file" "$how"
        rm "$work/damaged/files.txt"
        words=(train --resume "$work/damaged" --steps 9)
        [[ $file != model.safetensors ]] || words=(eval "$work/damaged")
        run "${words[@]}"
        refused 2 'safetensors' "$file after $how"
    done
done
damage model.safetensors not_a_number
rm "$work/damaged/files.txt"
run eval "$work/damaged"
refused 2 'NaN' "a model that holds NaN"
run eval "$work/run" --set model.layers=2
refused 2 'no tensor layer.1' "a model of another recipe"
run eval "$work/run" --set task.d=5
refused 2 'is a model for .*11 coordinates.*: expected one for .*6 coordinates' "a model of another dimension"
run train --resume "$work/run" --steps 9 --set train.learning_rate=0.5
refused 2 'override: train.learning_rate = 0.5: expected [0-9.]+, with which .*/run/checkpoint/.* was trained' \
    "resuming with another learning rate"
run train --resume "$work/run" --steps 9 --seed 2
refused 2 'override: train.seed = 2: expected 1, with which' "resuming with another seed"
run train --resume "$work/run" --steps 2
refused 2 'already at step 3' "resuming to an earlier step"

# ---- A full disk, played by a limit on the size of files ----
limited() { # BLOCKS ARGUMENTS...
    code=0
    (ulimit -f "$1" && exec "$ICLAB" "${@:2}") >"$work/out" 2>"$work/err" </dev/null || code=$?
}
limited 1 train versatile "${small[@]}" --out "$work/full"
refused 3 'cannot write .*recipe.ini: File too large' "no room for the recipe"
[[ $(find "$work/full" -type f | wc -l) -eq 0 ]]
ok $? "no half-written file stays"
limited 8 train versatile "${small[@]}" --set train.steps=400 --set train.checkpoint_every=50 --set train.horizon=400 \
    --out "$work/full2"
refused 3 'cannot write .*metrics.csv: File too large' "no room for the metrics"
[[ $(tail -c 1 "$work/full2/metrics.csv" | od -An -c | tr -d ' ') == '\n' ]]
ok $? "the table ends with a whole row"
[[ -z $(find "$work/full2" -name '*.tmp') ]]
ok $? "no temporary file stays"
run train --resume "$work/full2"
expect 0 "with room again, the run goes on"
run train versatile "${small[@]}" --set train.steps=400 --set train.checkpoint_every=50 --set train.horizon=400 \
    --out "$work/roomy"
same "$work/full2/model.safetensors" "$work/roomy/model.safetensors" "to the bits of a run that always had room"
same "$work/full2/metrics.csv" "$work/roomy/metrics.csv" "and the same metrics"

# ---- Divergence ----
run train versatile "${small[@]}" --set model.layers=4 --set train.steps=200 --set train.optimizer=sgd \
    --set train.schedule=constant \
    --set train.learning_rate=1e6 --set train.clip=0 --set train.checkpoint_every=1 --out "$work/diverged"
expect 1 "a run that diverges"
says 'diverged at step [0-9]+.*checkpoint/state.safetensors keeps step [0-9]+' "it says at which step, and what is left"
[[ -s $work/diverged/checkpoint/state.safetensors ]] && grep -q '"diverged"' "$work/diverged/run.json"
ok $? "the last good checkpoint stands"
finish
