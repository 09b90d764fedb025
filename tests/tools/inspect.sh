#!/usr/bin/env bash
# iclab inspect on small runs: its files, its numbers as JSON, and what it refuses. Arguments: iclab,
# the folder of recipes.
set -u
ICLAB=$1
export ICLAB_RECIPES=$2
unset ICLAB_DEVICE
# shellcheck source=tests/tools/tap.sh
source "${BASH_SOURCE[0]%/*}/tap.sh"

small=(--device cpu --quiet --set train.growth=0 --set train.batch=64 --set train.warmup=2 --set eval.every=0
    --set eval.sequences=100
    --set eval.fit_sequences=100)

# made NAME RECIPE ARGUMENTS...: a run of a few steps.
made() {
    run train "$2" "${small[@]}" --steps 5 --out "$work/$1" "${@:3}"
    expect 0 "a run: $1"
}

# files FOLDER NAME...: pictures, drawn where gnuplot is; without it their data and scripts.
files() {
    local folder=$1 name
    shift
    for name in inspect.md inspect.csv report.html; do
        [[ -s $folder/$name ]]
        ok $? "$(basename "$(dirname "$folder")"): $name"
    done
    awk -F'|' '!/^\|/ { columns = 0; next } columns == 0 { columns = NF } NF != columns { bad = 1 } END { exit bad }' \
        "$folder/inspect.md"
    ok $? "every row of a table has as many cells as its head"
    for name in "$@"; do
        [[ -s $folder/$name.gp ]]
        ok $? "the script of $name"
        if command -v gnuplot >/dev/null; then
            [[ -s $folder/$name.svg && -s $folder/$name.png ]]
            ok $? "gnuplot drew $name"
        fi
    done
    command -v gnuplot >/dev/null || echo "# no gnuplot: that pictures are drawn is not tested"
}

# ---- A linear transformer ----
made linear quickstart --set model.layers=2 --set model.parameterization=full --set task.d=3 --set task.n=6
run inspect "$work/linear" --device cpu --sequences 300 --quiet
expect 0 "inspect"
[[ -s $work/out && ! -s $work/err ]]
ok $? "a summary on stdout, and nothing on stderr with --quiet"
files "$work/linear/inspect" weights prunings nearest
for heading in Weights "What each term does" "The algorithm, layer by layer" "The nearest classical algorithm"; do
    grep -q "^## $heading\$" "$work/linear/inspect/inspect.md"
    ok $? "inspect.md has the section $heading"
done
[[ $(grep -c '^| \*\*' "$work/linear/inspect/inspect.md") -eq 1 ]] &&
    grep -q '^| \*\*' < <(sed -n '/^## The nearest classical algorithm$/,$p' "$work/linear/inspect/inspect.md")
ok $? "of all rows that of the nearest algorithm alone stands out"
run inspect "$work/linear" --device cpu --sequences 300 --quiet --json --out "$work/elsewhere"
expect 0 "inspect --json --out"
files "$work/elsewhere" weights
same "$work/linear/inspect/inspect.csv" "$work/elsewhere/inspect.csv" "the same numbers again"
[[ $(grep -c . "$work/elsewhere/inspect.csv") -eq $(grep -c . "$work/out") && $(grep -c . "$work/out") -gt 50 ]]
ok $? "a row for each line of JSON, and one for the whole"
[[ $(grep -c '"what":"formula"' "$work/out") -eq 2 ]]
ok $? "each layer has its formula"
[[ $(grep -c '"what":"nearest algorithm"' "$work/out") -eq 1 ]]
ok $? "and the model a nearest algorithm"

# ---- Without gnuplot ----
mkdir "$work/none"
PATH=$work/none run inspect "$work/linear" --device cpu --sequences 100 --out "$work/plain"
expect 0 "inspect without gnuplot"
grep -q 'no gnuplot here' "$work/out" && [[ -s $work/plain/weights.gp && -s $work/plain/weights-1.csv &&
    ! -e $work/plain/weights.svg ]]
ok $? "it is said, and data and scripts are there"

# ---- Other models ----
made heads quickstart --set model.layers=2 --set model.heads=2 --set model.parameterization=diag --set model.tied=true \
    --set task.d=3 \
    --set task.n=6 --set task.covariance=spectrum:1,2,4 --set task.weights=inverse-covariance
run inspect "$work/heads" --device cpu --sequences 200 --json
expect 0 "heads, tied layers and a covariance"
grep -q '"what":"pgd:' "$work/out"
ok $? "preconditioned descent is compared"
grep -q 'Dist(R^T A R, I)' "$work/out"
ok $? "A is measured in white inputs"
made scores quickstart --set model.layers=2 --set model.scale=softmax --set task.d=3 --set task.n=6
run inspect "$work/scores" --device cpu --sequences 200 --json
expect 0 "a transformer with softmax"
! grep -q '"what":"formula"' "$work/out"
ok $? "its layers have no formula"
made window window --set task.d=3 --set task.n=6
run inspect "$work/window" --device cpu --sequences 200 --json
expect 0 "a window"
files "$work/window/inspect" weights
grep -q '"quantity":"spectral norm"' "$work/out"
ok $? "the spectral norm of M"

# ---- A sequence model: a state that decays, the delta rule, softmax attention ----
made sequence sequence --set task.d=2 --set task.n=5 --set model.width=8 --set train.batch=8
run inspect "$work/sequence" --device cpu --sequences 100 --json
expect 0 "a sequence model"
files "$work/sequence/inspect" attention gates strengths written eigenvalues ranks
for quantity in 'gate: median' 'eigenvalue: least' 'effective rank at the end' linearity; do
    [[ $(grep -c "\"quantity\":\"$quantity\"" "$work/out") -ge 2 ]]
    ok $? "its heads' $quantity"
done
grep -q '"layer 3, head 1"' "$work/sequence/inspect/attention.gp" &&
    grep -q '"layer 3, head 2"' "$work/sequence/inspect/attention.gp"
ok $? "each map of attention has its head's name"
grep -q '^Layers of softmax: ' "$work/sequence/inspect/inspect.md"
ok $? "why softmax has none is said"
[[ $(grep -c '"what":"\(oracle\|bayes\|ols\)","quantity":"squared error"' "$work/out") -eq 3 ]]
ok $? "all reference predictors are there, though the run lists none"

# ---- What it refuses ----
run inspect
refused 2 "RUN" "no run"
run inspect "$work/nowhere" --device cpu --quiet
refused 2 "not a run: expected a folder that iclab train wrote" "a folder that is none"
run inspect "$work/linear" --device cpu --quiet --sequences 7
refused 2 "sequences 7: expected 100 to" "too few sequences"
cp -r "$work/linear" "$work/untrained"
rm "$work/untrained/model.safetensors"
run inspect "$work/untrained" --device cpu --quiet
refused 2 "missing: expected a trained model" "a run without a model"
cp -r "$work/linear" "$work/unknown"
sed -i 's/^family = linear$/family = recurrent/' "$work/unknown/recipe.ini"
rm "$work/unknown/files.txt"
run inspect "$work/unknown" --device cpu --quiet
refused 2 "family = recurrent: expected" "an unknown model family"
cp -r "$work/linear" "$work/another"
sed -i 's/^layers = 2$/layers = 3/' "$work/another/recipe.ini"
rm "$work/another/files.txt"
run inspect "$work/another" --device cpu --quiet
refused 2 "no tensor layer.2" "a model that is not the recipe's"
touch "$work/file"
run inspect "$work/linear" --device cpu --quiet --sequences 100 --out "$work/file/inside"
refused 3 "cannot" "a folder that cannot be made"
finish
