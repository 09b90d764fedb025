#!/usr/bin/env bash
# Sweeps: what the command refuses, resumption, workers side by side, and a sweep that is killed again and again.
# Arguments: iclab, the folder of recipes, the folder of sweeps.
set -u
ICLAB=$1
export ICLAB_RECIPES=$2
sweeps=$3
unset ICLAB_DEVICE
# shellcheck source=tests/tools/tap.sh
source "${BASH_SOURCE[0]%/*}/tap.sh"

cat >"$work/tiny.ini" <<'END'
[task]
d = 3
n = 5
[model]
layers = 2
parameterization = diag
[train]
batch = 16
steps = 120
warmup = 5
checkpoint_every = 30
[eval]
sequences = 64
every = 0
END
cat >"$work/grid.ini" <<'END'
[sweep]
recipe = tiny.ini
[grid]
train.seed = 1..3
task.noise = "choice:1,2", fixed:1
model.layers = 1, 2
END

# sweep NAME ARGUMENTS...: the grid in $work/NAME.
sweep() {
    local name=$1
    shift
    run sweep "$work/grid.ini" --out "$work/$name" "$@"
}

# The table but for the seconds, which are its last column.
numbers() {
    sed 's/,[^,]*$//' "$work/$1/table.csv"
}

# ---- The table ----

sweep one --device cpu --workers 1
expect 0 "a sweep"
[[ $(grep -c . "$work/one/table.csv") -eq 13 && $(grep -c . "$work/one/means.csv") -eq 5 ]]
ok $? "twelve cells, four means over seeds"
[[ $(head -n 1 "$work/one/table.csv") == task.noise,model.layers,train.seed,steps,*,seconds ]]
ok $? "keys in the order of the recipe table, the seed last"
[[ -s "$work/one/noise-choice-1-2_layers-1_seed-3/model.safetensors" && -s "$work/one/sweep.ini" ]]
ok $? "cells are run folders by their values"
grep -q 'means over seeds' "$work/out"
ok $? "the table for people"
grep -qE '^iclab: [0-9]+ of 12 cells finished, about [0-9.]+ (s|min|h) left$' "$work/err"
ok $? "how far it has come, and the time left"

# The best row is that of the least mean; the report has the picture, the row and every cell's own report.
least=$(awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i ~ /^mean_(half_)?adjusted$/) at = i; next }
    least == "" || $at + 0 < least { least = $at + 0; row = $1 " " $2 } END { print row }' \
    <(sed 's/"choice:1,2"/choice/' "$work/one/means.csv"))
best=$(sed -n 's/^best: task.noise = \(.*\), model.layers = \([12]\): half_adjusted .* 3 seeds$/\1 \2/p' "$work/out")
[[ -n $least && ${best/choice:1,2/choice} == "$least" ]]
ok $? "the best row is named: $best"
[[ $(grep -c '<tr class="strong">' "$work/one/report.html") -eq 1 ]]
ok $? "and marked in the report"
[[ -s $work/one/errors.csv && $(grep -c . "$work/one/errors.csv") -eq 3 ]]
ok $? "with the errors over the first key"
mapfile -t links < <(sed -n 's/.*<a href="\.\/\([^"]*\)".*/\1/p' "$work/one/report.html")
missing=0
for link in "${links[@]}"; do [[ -s $work/one/$link ]] || missing=1; done
[[ ${#links[@]} -eq 12 && $missing -eq 0 ]]
ok $? "and a link to each cell's own"
grep -q ', seed 3, 120 steps' "$work/one/noise-fixed-1_layers-2_seed-3/report.html"
ok $? "which is one of its training"

sweep two --device cpu --workers 2 --json
expect 0 "two workers"
same <(numbers one) <(numbers two) "have the table of one"
same "$work/one/means.csv" "$work/two/means.csv" "and its means"
[[ $(grep -c '"cell"' "$work/out") -eq 12 && $(grep -c '"mean_mse"' "$work/out") -eq 4 ]]
ok $? "JSON: an object a cell, and one for each mean"

# A mean is the mean of its cells: by other means.
awk -F, 'FNR == NR { if (FNR > 1 && $1 ~ /fixed/ && $2 == 1) { sum += $8; n++ } next }
    $1 ~ /fixed/ && $2 == 1 { difference = $7 - sum / n; found = n == 3 && difference < 1e-12 && difference > -1e-12 }
    END { exit !found }' <(sed 's/"choice:1,2"/choice/' "$work/one/table.csv") \
    <(sed 's/"choice:1,2"/choice/' "$work/one/means.csv")
ok $? "a mean over seeds is that of its cells"

# ---- Resumption ----

sweep one --device cpu
expect 0 "the same command again"
! grep -q 'training' "$work/err"
ok $? "trains nothing"
rm -r "$work/one/noise-fixed-1_layers-2_seed-2"
sweep one --device cpu
[[ $(grep -c 'training' "$work/err") -eq 1 ]]
ok $? "a cell that is gone is trained again, alone"
same <(numbers one) <(numbers two) "to the same numbers"
sed -i 's/1..3/1..4/' "$work/grid.ini"
sweep one --device cpu --workers 1
[[ $code -eq 0 && $(grep -c 'training' "$work/err") -eq 4 ]]
ok $? "a grid that has grown trains what is new"
sed -i 's/1..4/1..3/' "$work/grid.ini"
sed -i 's/^steps = .*/steps = 121/' "$work/tiny.ini"
sweep one --device cpu
refused 2 "holds a run of another recipe" "a recipe that has changed"
sed -i 's/^steps = .*/steps = 120/' "$work/tiny.ini"

# ---- Killed ----

# Whole groups of processes, or the first of them alone, whose workers then have to notice. Seeded, but where it hits is
# up to the machine.
set -m
RANDOM=2024
kills=0
attempts=0
runs=0
all_same=0
while [[ $kills -lt 10 && $attempts -lt 100 ]]; do
    name=killed$runs
    "$ICLAB" sweep "$work/grid.ini" --out "$work/$name" --device cpu --workers 2 --quiet >/dev/null 2>&1 </dev/null &
    process=$!
    sleep "0.$(printf '%03d' $((30 + RANDOM % 200)))"
    if [[ $((attempts % 3)) -eq 0 ]]; then target=$process; else target=-$process; fi
    kill -KILL -- "$target" 2>/dev/null || true
    wait "$process" 2>/dev/null
    # 137: it was killed, and did not end before.
    if [[ $? -eq 137 ]]; then kills=$((kills + 1)); else runs=$((runs + 1)); fi
    attempts=$((attempts + 1))
done
set +m
ok $((kills < 10)) "killed ten times in $attempts attempts"
sweep "killed$runs" --device cpu --workers 2
expect 0 "the last one is left to end"
for ((i = 0; i <= runs; i++)); do
    cmp -s <(numbers "killed$i") <(numbers two) && cmp -s "$work/killed$i/means.csv" "$work/two/means.csv" || all_same=1
done
ok $all_same "all end with the table of one that nobody touched"

# ---- Divergence ----

printf '[sweep]\nrecipe = tiny.ini\n[set]\ntrain.optimizer = sgd\ntrain.clip = 0\n[grid]\n' >"$work/wild.ini"
printf 'train.learning_rate = 1e-5, 1e6\n' >>"$work/wild.ini"
run sweep "$work/wild.ini" --out "$work/wild" --device cpu --quiet
expect 1 "a cell that diverges"
[[ $(cut -d, -f 4 "$work/wild/table.csv" | paste -sd, -) == diverged,0,1 ]]
ok $? "is marked, and the other one finished"

# ---- A finished sweep of somebody else ----

cp -r "$work/two" "$work/theirs"
rm "$work/theirs/sweep.ini" "$work/theirs/table.csv"
mkdir "$work/theirs/sweep.ini" "$work/theirs/table.csv" # no file can be written in their place
cp "$work/grid.ini" "$work/theirs.ini"
run sweep "$work/theirs.ini" --out "$work/theirs" --device cpu --json
expect 0 "a finished sweep whose folder cannot be written"
[[ $(grep -c '"cell"' "$work/out") -ge 12 ]] && grep -q 'nothing is written there' "$work/err"
ok $? "is shown, and a line says that nothing is kept"
cp -r "$work/two" "$work/nonsense"
cell=$(dirname "$(find "$work/nonsense" -mindepth 2 -name result.json | head -n 1)")
echo '{}' >"$cell/result.json"
run sweep "$work/grid.ini" --out "$work/nonsense" --device cpu --quiet
expect 0 "a result of nothing"
grep -q '"steps"' "$cell/result.json"
ok $? "is none: the cell is evaluated again"

# ---- What is refused ----

# refuse TEXT PATTERN NAME: a sweep's file of this text.
refuse() {
    printf '%b' "$1" >"$work/bad.ini"
    run sweep "$work/bad.ini" --out "$work/bad" --device cpu --quiet
    refused 2 "$2" "$3"
}
begin='[sweep]\nrecipe = tiny.ini\n[grid]\n'
refuse "${begin}model.layer = 1, 2\n" \
    'bad.ini:4: unknown key grid.model.layer; the nearest known one is grid.model.layers' "an unknown key"
refuse "${begin}model.layers =\n" 'bad.ini:4: grid.model.layers = : expected at least one value' "an empty list"
refuse "${begin}model.layers = 1,,2\n" 'bad.ini:4: .*none of them empty' "an empty value"
refuse "${begin}model.layers = 1, 2, 01\n" 'bad.ini:4: grid.model.layers: 01 is listed twice' "a value twice"
refuse "${begin}model.layers = 1\nmodel.layers = 2\n" 'bad.ini:5: grid.model.layers again' "a key twice"
refuse "${begin}model.layers = 1, x\n" 'bad.ini:4: model.layers = x: expected a whole number' \
    "a value of the wrong type"
refuse "${begin}model.layers = 3..1\n" 'bad.ini:4: .*the smaller number first' "a range backwards"
refuse "${begin}task.noise = \"choice:1,2\n" 'bad.ini:4: .*quotes around one that holds a comma' "an open quote"
refuse "${begin}task.noise = choice:1,3\n" 'bad.ini:4: grid.task.noise = choice:1,3: 3 follows choice:1: expected' \
    "a comma without quotes"
refuse "${begin}train.seed = 1..20000\n" 'bad.ini:4: .*at most 10000' "too many values"
refuse "${begin}train.seed = 1..2000\nmodel.layers=1..10\n" 'too many cells: expected at most 10000' "too many cells"
refuse '[sweep]\nrecipe = tiny.ini\n' 'no grid: expected' "no grid"
refuse '[grid]\nmodel.layers = 1\n' 'no sweep.recipe: expected' "no recipe"
refuse '[sweep]\nrecipe = versatil\n[grid]\nmodel.layers = 1\n' 'the nearest is versatile' "an unknown recipe"
refuse '[sweep]\nrecipe = tiny.ini\n[set]\nmodel.layers = 3\n[grid]\nmodel.layers = 1\n' \
    'bad.ini:6: grid.model.layers: expected it here or in \[set\] (.*bad.ini:4)' "a key in [set] and [grid]"
refuse "${begin}train.growth = 0, 1000\n[set]\nmodel.layers = 4\n" 'train.growth = 1000: expected .*cell growth-1000' \
    "a cell that cannot be trained"
[[ ! -e $work/bad ]]
ok $? "nothing of all that left a trace"
run sweep
refused 2 "FILE is missing" "no file"
run sweep "$work/grid.ini" --workers 0
refused 2 "workers 0: expected 1" "no workers"
run sweep "$work/grid.ini" --out "$work/d" --device cpu,,ref
refused 2 "separated by commas" "an empty device"

# ---- Signals ----

# stopped SIGNAL CODE WORKERS: both workers train, are told to stop, and the command ends with the signal's code. A job
# of its own: those in the background of a script ignore interrupts.
stopped() {
    : >"$work/err" # what an earlier command said is no sign of this one
    set -m
    "$ICLAB" sweep "$sweeps/layers.ini" --out "$work/stopped" --device cpu --workers "$3" >/dev/null 2>"$work/err" \
        </dev/null &
    local process=$!
    for _ in {1..1200}; do
        [[ $(grep -c ': training' "$work/err") -lt $3 ]] || break
        sleep 0.05
    done
    kill "-$1" "$process"
    wait "$process"
    code=$?
    set +m
    expect "$2" "$3 workers and SIG$1"
    says "the same command goes on from here" "  and how to go on"
    rm -rf "$work/stopped"
}
stopped INT 130 2
stopped TERM 143 2
stopped INT 130 1

# ---- What is shipped ----

for file in "$sweeps"/*.ini; do
    : >"$work/err"
    "$ICLAB" sweep "$file" --out "$work/shipped" --device cpu --workers 1 >/dev/null 2>"$work/err" &
    process=$!
    for _ in {1..1200}; do
        grep -q 'cells, 0 of them finished' "$work/err" && break
        sleep 0.05
    done
    kill -TERM "$process"
    wait "$process"
    [[ $? -eq 143 ]]
    ok $? "$(basename "$file") begins, and stops when told to"
    says "the same command goes on from here" "and says how to go on"
    rm -rf "$work/shipped"
done
finish
