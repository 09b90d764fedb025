#!/usr/bin/env bash
# Families of one's own that the command loads by --with: the file of tools/examples, trained, resumed, evaluated,
# inspected and swept, on one rank and on two; and files that are refused. Arguments: iclab, the folder of the shared
# objects, the folder of the examples, mpirun or nothing where the build has no MPI.
set -u
ICLAB=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
modules=$2
examples=$3
mpirun=${4:-}
unset ICLAB_DEVICE
export ICLAB_DEVICE=cpu
# shellcheck source=tests/tools/tap.sh
source "${BASH_SOURCE[0]%/*}/tap.sh"

short=(--set train.steps=40 --set train.slices=2 --set train.checkpoint_every=20 --set eval.sequences=500
    --set eval.every=20 --set eval.every_sequences=64)

# with ARGUMENTS...: the command with the families of the example.
with() {
    run --with "$modules/chain.so" "$@"
}

# loss FILE PREDICTOR: the loss of a row of result.json.
loss() {
    python3 -c 'import json, sys
print(next(row["loss"] for row in json.load(open(sys.argv[1]))["rows"] if row["predictor"] == sys.argv[2]))' "$1" "$2"
}

# ---- A run ----

with train "$examples/chain.ini" --out "$work/one" "${short[@]}"
expect 0 "a training of families of one's own"
grep -q '^counts ' "$work/out" && grep -q '^frequencies ' "$work/out"
ok $? "its table has the predictor of the task and the one that was registered"
grep -q '^family = chain$' "$work/one/recipe.ini" && grep -q '^letters = 3$' "$work/one/recipe.ini" &&
    grep -q '^mixer = back, softmax$' "$work/one/recipe.ini" && grep -q '^reach = 1$' "$work/one/recipe.ini" &&
    grep -q '^added = 1$' "$work/one/recipe.ini"
ok $? "recipe.ini holds the names and the keys"
grep -q 'frequencies' "$work/one/report.html" && grep -q 'counts' "$work/one/report.html"
ok $? "the report shows both predictors"
grep -qF -- "--with $modules/chain.so train" "$work/one/run.json"
ok $? "the record names the file"
grep -q '"predictor":.*"frequencies"' "$work/one/result.json"
ok $? "result.json has a row of the predictor"

with train "$examples/chain.ini" --out "$work/two" "${short[@]}" --steps 20
expect 0 "the first half of it"
with train --resume "$work/two" --steps 40
expect 0 "the second half"
same "$work/one/model.safetensors" "$work/two/model.safetensors" "two halves have the bits of the whole"

if [[ -n $mpirun ]]; then
    timeout 120 "$mpirun" -n 2 "$ICLAB" --with "$modules/chain.so" train "$examples/chain.ini" --out "$work/ranks" \
        "${short[@]}" >"$work/out" 2>"$work/err" </dev/null
    code=$?
    expect 0 "on two ranks"
    same "$work/one/model.safetensors" "$work/ranks/model.safetensors" "two ranks have the bits of one"
else
    echo "# not tested here, because there is no MPI: two ranks"
fi

run eval "$work/one"
refused 2 "recipe.ini:[0-9]+: task.family = chain: expected one of" "without the file the run is refused"

"$ICLAB" --with "$modules/chain.so" train "$examples/chain.ini" --out "$work/stopped" --steps 1000000000 \
    >"$work/out" 2>"$work/err" &
stopped=$!
until [[ $(grep -c . "$work/stopped/metrics.csv" 2>/dev/null) -gt 1 ]] || ! kill -0 "$stopped" 2>/dev/null; do
    sleep .1
done
kill -INT "$stopped"
wait "$stopped"
grep -q "iclab --with $modules/chain.so train --resume $work/stopped goes on\$" "$work/err"
ok $? "a training that is stopped says how it goes on: $(tail -n 1 "$work/err")"

# ---- What becomes of it ----

# With two letters and one move the first letter is one behind letter 0, so that it shows that row once: Bayes says 2/3
# behind letter 0 and 1/2 behind letter 1, each of which is there half of the time, as the rows are uniform.
with train "$examples/chain.ini" --out "$work/law" "${short[@]}" --set task.letters=2 --set task.moves=1 \
    --set eval.sequences=20000
expect 0 "chains of one move"
python3 -c 'import json, math, sys
row = next(row for row in json.load(open(sys.argv[1]))["rows"] if row["predictor"] == "counts")
expected = (math.log(3) - 2 / 3 * math.log(2)) / 2 + math.log(2) / 2
print("#", row["loss"], "+-", row["se"], "expected", expected)
sys.exit(abs(row["loss"] - expected) > 5 * row["se"])' "$work/law/result.json"
ok $? "the loss of Bayes is what the law of the chains gives, within 5 standard errors"

with eval "$work/one" --over task.moves=20,40 --out "$work/over"
expect 0 "over a key of the task"
[[ $(head -n 1 "$work/over/table.csv") == '"task.moves",'* && $(grep -c . "$work/over/table.csv") -gt 2 ]]
ok $? "its table has the key"
with eval "$work/one" --set eval.added=1000000 --set eval.predictors=frequencies --out "$work/flat"
expect 0 "with another value of the predictor's key"
# Then k a dominates all counts: probabilities are 1 / 3, to a share of 41 / 1e6.
python3 -c 'import math, sys
sys.exit(abs(float(sys.argv[1]) - math.log(3)) > 1e-4)' "$(loss "$work/flat/result.json" frequencies)"
ok $? "which the predictor reads"

# The letters have the same bits on every device, so what counts them has the same loss.
if grep -q '"spec":"opencl' < <("$ICLAB" devices --json 2>/dev/null); then
    for device in cpu opencl; do
        with eval "$work/one" --device "$device" --set eval.sequences=200 --out "$work/drawn-$device"
        expect 0 "eval on $device"
    done
    [[ $(loss "$work/drawn-cpu/result.json" counts) == $(loss "$work/drawn-opencl/result.json" counts) ]]
    ok $? "a task that is drawn on the device has the bits of the host there"
else
    echo "# not tested here, because there is no OpenCL device: the bits of a task that is drawn there"
fi

with inspect "$work/one" --out "$work/inspect" --sequences 200
expect 0 "inspect"
grep -q 'back, softmax' "$work/inspect/inspect.md" && grep -q 'frequencies' "$work/inspect/inspect.md"
ok $? "it names the mixer and the predictor"

printf '[sweep]\nrecipe = chain.ini\n[set]\ntrain.steps = 4\neval.sequences = 50\n[grid]\nmodel.reach = 1, 2\n' \
    >"$work/grid.ini"
cp "$examples/chain.ini" "$work/chain.ini"
with sweep "$work/grid.ini" --out "$work/sweep" --workers 2
expect 0 "a sweep over a key of the mixer, by two workers"
[[ $(head -n 1 "$work/sweep/table.csv") == model.reach,* && $(grep -c . "$work/sweep/table.csv") -eq 3 ]]
ok $? "has two cells"
[[ $(python3 -c 'import json, struct, sys
data = open(sys.argv[1], "rb").read()
print(sum("block.0.mixer.back_" in name
          for name in json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])))' \
    "$work/sweep/reach-2/model.safetensors") -eq 2 ]]
ok $? "the mixer of the second has two matrices"

with bench --recipe "$examples/chain.ini" --seconds 0.01
expect 0 "bench"
grep -q "step of $examples/chain.ini" "$work/out"
ok $? "times a step"
with train --help
expect 0 "help"
grep -q 'task.letters = 3' "$work/out" && grep -q 'model.mixer = back' "$work/out" &&
    grep -q 'eval.predictors = frequencies' "$work/out"
ok $? "lists names and keys of the file"

# ---- The registered predictor on a task of the library, where iclab has the same one ----

with train markov --out "$work/markov" --set train.steps=2 --set train.warmup=0 --set task.length=20 \
    --set eval.sequences=100 --set eval.every=0
expect 0 "a task of iclab"
python3 -c 'import math, sys
print("#", *sys.argv[1:])
sys.exit(not math.isclose(float(sys.argv[1]), float(sys.argv[2]), rel_tol=1e-12))' \
    "$(loss "$work/markov/result.json" unigram)" "$(loss "$work/markov/result.json" frequencies)"
ok $? "frequencies are iclab's own unigram"
quick=(--set train.steps=2 --set train.growth=0 --set train.warmup=0 --set eval.every=0 --set eval.sequences=100)
with train quickstart --set eval.predictors=all --out "$work/quick" "${quick[@]}"
expect 0 "all predictors of a task that it cannot answer"
grep -q '^oracle ' "$work/out" && ! grep -q '^frequencies ' "$work/out"
ok $? "are without it"
with train quickstart --set eval.predictors=frequencies --out "$work/refused" "${quick[@]}"
refused 2 "eval.predictors = frequencies: expected no frequencies, which cannot answer the task linear-regression" \
    "a predictor that cannot answer the task"
with train "$examples/chain.ini" --set eval.predictors=frequencis --out "$work/refused"
refused 2 'all or some of counts,chance,frequencies, which chain has \(nearest to "frequencis": "frequencies"\)' \
    "a predictor that is misspelt"
with train "$examples/chain.ini" --set model.mixer=bak --out "$work/refused"
refused 2 '"bak" is none; did you mean "back"' "a mixer that is misspelt"
with train "$examples/chain.ini" --set model.mixer=softmax --set model.reach=2 --out "$work/refused"
refused 2 "model.mixer = softmax does not read it: expected 1, its default, or model.mixer = back" \
    "a key of a mixer that no layer has"

# ---- Two files, and a model ----

run --with "$modules/chain.so" --with="$modules/table.so" train "$examples/chain.ini" --out "$work/table" \
    "${short[@]}" --set model.family=table --set model.layers=1 --set model.mixer=softmax --set model.width=64 \
    --set model.norm=rms --set model.feed_forward=gelu
expect 0 "a model of one file on the task of another"
run --with "$modules/chain.so" --with "$modules/table.so" inspect "$work/table" --sequences 100
expect 0 "is inspected"
grep -q 'The model of the family table has 1 parameter of 9 numbers' "$work/table/inspect/inspect.md" &&
    grep -q '^| table | 3 x 3 |' "$work/table/inspect/inspect.md"
ok $? "its parameters are listed"
run --with "$modules/chain.so" --with "$modules/table.so" eval "$work/table" --out "$work/again" \
    --set eval.sequences=100
expect 0 "and evaluated"

# ---- Files that are refused ----

run --with "$work/none.so" train quickstart
refused 3 "none.so: no such file: expected a shared object with families" "no such file"
run --with "$examples/chain.ini" train quickstart
refused 2 "chain.ini: expected a shared object that can be loaded" "a file that is no shared object"
run --with "$modules/no_function.so" train quickstart
refused 2 "exports no icl_plugin_describe: expected ICL_PLUGIN" "a shared object without the function"
run --with "$modules/other_version.so" train quickstart
refused 2 "was compiled for iclab 0.0.7, and this is [0-9.]+: expected it compiled again" "another version"
run --with "$modules/other_sizes.so" train quickstart
refused 2 "was compiled with other headers of iclab [0-9.]+: expected it compiled again" "headers of another day"
run --with "$modules/taken.so" train quickstart
refused 2 "taken.so: task markov: the name is taken: expected another" "a name that is taken"
with --with "$modules/chain.so" train quickstart
refused 2 "chain.so: task chain: the name is taken: expected another" "a file twice"
with devices
refused 2 "with: expected no file before devices" "a command that reads no recipe"
run --with
refused 2 "expected --with FILE and a command" "no file"
with
refused 2 "no command: expected" "no command"
with trian
refused 2 "unknown command trian; the nearest known one is train" "an unknown command"
(cd "$modules" && "$ICLAB" --with chain.so train --help >"$work/out" 2>"$work/err")
ok $? "a file of this folder needs no ./"
finish
