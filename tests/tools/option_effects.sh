#!/usr/bin/env bash
# Every option of a command has its effect: two command lines, of which the second alone leads to what the option is
# for. An option of --help without a row here fails. Arguments: iclab, the folder of recipes, the folder of data, and
# the name of the command: the rows of others are passed over.
set -uo pipefail
ICLAB=$(realpath "$1")
ICLAB_RECIPES=$(realpath "$2")
data=$(realpath "$3")
tested=$4
export ICLAB_RECIPES ICLAB_DEVICE=cpu
# shellcheck source=tests/tools/tap.sh
source "${BASH_SOURCE[0]%/*}/tap.sh"
export OCL_ICD_VENDORS=$work # no driver: the host's devices are enough

# ---- What command lines work on: each gets a copy ----
mkdir "$work/start" "$work/bin" "$work/results"
cd "$work/start" || exit 1
small=(--set train.batch=8 --set train.growth=0 --set train.warmup=0 --set model.layers=1 --set eval.every=0
    --set eval.sequences=16 --set eval.fit_sequences=16 --set train.polish=off --set train.starts=1)
run train quickstart "${small[@]}" --set task.d=3 --set task.n=4 --set train.horizon=9 --steps 4 --quiet --out run
expect 0 "a run"
run train predict "${small[@]}" --steps 4 --quiet --out tables
expect 0 "a model for tables"
seq 300 >text.txt
run train text-quick --set task.file=text.txt --set task.length=8 --set model.layers=1 --set model.width=12 \
    --set model.mixer=softmax --set eval.every=0 --steps 1 --set eval.sequences=4 --quiet --out text
expect 0 "a model of text"
cp run/recipe.ini small.ini
printf '[sweep]\nrecipe = small.ini\n[grid]\ntrain.seed = 1, 2\n' >grid.ini
printf 'x,y\n1,2\n2,4\n3,5\n4,9\n5,9\n' >plain.csv
printf 'x,y\n1,2\n2,4\n3,5\n4,9\n5,9\n6,\n' >open.csv
printf '1,2\n2,4\n3,5\n4,9\n5,9\n' >nameless.csv
printf 'x:y\n1:2\n2:4\n3:5\n4:9\n5:9\n' >colons.csv
printf 'x;y\n1,5;2\n2,5;4\n3,5;5\n4,5;9\n5,5;9\n' >commas.csv
printf 'x,z,y\n1,1,2\n2,,4\n3,2,5\n4,7,9\n5,1,9\n6,2,3\n' >missing.csv
printf 'x,kind,y\n1,a,2\n2,b,4\n3,a,5\n4,b,9\n5,a,9\n6,b,3\n' >kinds.csv
printf 'x\n7\n8\n' >new.csv
cd "$work" || exit 1

# result COMMAND LINE: runs it once, in a folder of its own, with PATH free of gnuplot; prints the folder with out, err
# and files.
declare -A results=()
result() {
    [[ -n ${results[$1]:-} ]] && return
    local folder=$work/results/${#results[@]}
    results[$1]=$folder
    cp -r "$work/start" "$folder"
    # shellcheck disable=SC2086 # several arguments
    (cd "$folder" && PATH=$work/bin "$ICLAB" $1 >../out 2>../err </dev/null)
    (cd "$folder" && find . -type f | sort >../files)
    mv "$work/results/out" "$work/results/err" "$work/results/files" "$folder"
}

# effect "COMMAND --OPTION" WHERE PATTERN WITHOUT WITH: WHERE is out, err, files or a file of the folder. The pattern
# "differs": what is there is another text.
declare -A rows=()
effect() {
    local command=${1%% *} found=()
    [[ $command == "$tested" ]] || return 0
    rows[$1]=1
    for arguments in "$4" "$5"; do
        result "$command $arguments"
        found+=("$(grep -cE -- "$3" "${results[$command $arguments]}/$2" 2>/dev/null)")
    done
    [[ ${found[0]:-0} -eq 0 && ${found[1]:-0} -gt 0 ]]
    local status=$?
    if [[ $3 == differs ]]; then
        cmp -s "${results[$command $4]}/$2" "${results[$command $5]}/$2"
        [[ $? -eq 1 ]]
        status=$?
    fi
    ok $status "iclab $1: $2 has $3"
    [[ $status -eq 0 ]] || { echo "# without: $4; with: $5"; head -n 5 "${results[$command $5]}/err" | note; }
}

# The rows that DEVICE_OPTION_ROWS and QUIET_OPTION_ROW add to a command. QUIET: what is said without --quiet.
device_effects() { # COMMAND ARGUMENTS QUIET
    effect "$1 --device" "${4:-err}" 'ref\b' "$2 --device cpu" "$2 --device ref"
    effect "$1 --quiet" err "$3" "$2 --quiet --device cpu" "$2 --device cpu"
}

# The rows that --fast-math and --precision add to a command.
arithmetic() { # COMMAND ARGUMENTS
    effect "$1 --fast-math" err 'fast math: the device may relax' "$2 --device cpu" "$2 --device cpu --fast-math"
    effect "$1 --precision" err 'bf16: matrix products and softmax attention round' "$2 --device cpu" \
        "$2 --device cpu --precision bf16"
}

# ---- devices ----
effect "devices --json" out '^\{"' '' --json
OCL_ICD_VENDORS=$work effect "devices --gemm" err 'no OpenCL device has ways' '' --gemm
effect "devices --out" files '^./o/result.json' '' '--out o'

# ---- train ----
effect "train --set" o/recipe.ini '^refresh = 2' 'small.ini --out o' 'small.ini --out o --set train.refresh=2'
effect "train --steps" o/metrics.csv '^5,' 'small.ini --out o' 'small.ini --out o --steps 5'
effect "train --seed" out 'seed 7' 'small.ini --out o' 'small.ini --out o --seed 7'
effect "train --init" o/recipe.ini '^init = run/model' 'small.ini --out o' \
    'small.ini --out o --init run/model.safetensors'
effect "train --out" files '^./elsewhere/run.json' 'small.ini --out o' 'small.ini --out elsewhere'
effect "train --resume" run/metrics.csv '^6,' 'small.ini --steps 6 --out o' '--resume run --steps 6'
effect "train --metrics" files '^./m.jsonl' 'small.ini --out o' 'small.ini --out o --metrics m.jsonl'
effect "train --json" out '^\{"predictor":"model"' 'small.ini --out o' 'small.ini --out o --json'
effect "train --gemm" o/run.json '"gemm":.*native' 'small.ini --out o' 'small.ini --out o --gemm native'
device_effects train 'small.ini --out o' 'device cpu'
arithmetic train 'small.ini --out o'

# ---- eval ----
effect "eval --set" out '^gd:1' run 'run --set eval.predictors=gd:1'
effect "eval --over" files '^./run/over/.*\.csv' run 'run --over task.n=5,6'
effect "eval --out" files '^./o/.*\.csv' 'run --over task.n=5,6' 'run --over task.n=5,6 --out o'
effect "eval --predictions" files '^./p.safetensors' run 'run --predictions p.safetensors'
effect "eval --json" out '^\{"predictor":"model"' run 'run --json'
device_effects eval run 'device cpu'
arithmetic eval run

# ---- generate ----
effect "generate --prompt" out differs 'text --bytes 40' 'text --bytes 40 --prompt abc'
effect "generate --prompt-file" out differs 'text --bytes 40' 'text --bytes 40 --prompt-file text.txt'
effect "generate --bytes" err ': 7 bytes' 'text' 'text --bytes 7'
effect "generate --temperature" out differs 'text --bytes 40' 'text --bytes 40 --temperature 0'
effect "generate --top-k" out differs 'text --bytes 40' 'text --bytes 40 --top-k 1'
effect "generate --top-p" out differs 'text --bytes 40' 'text --bytes 40 --top-p 0.1'
effect "generate --seed" out differs 'text --bytes 40' 'text --bytes 40 --seed 2'
device_effects generate 'text --bytes 40' 'device cpu'
arithmetic generate 'text --bytes 40'

# ---- inspect ----
effect "inspect --out" files '^./o/report.html' 'run --sequences 128' 'run --sequences 128 --out o'
effect "inspect --sequences" out differs 'run --sequences 256' 'run --sequences 128'
effect "inspect --json" out '^\{"' 'run --sequences 128' 'run --sequences 128 --json'
effect "inspect --gemm" run/inspect/report.html '<dd>native' 'run --sequences 128' 'run --sequences 128 --gemm native'
device_effects inspect 'run --sequences 128' 'device cpu'
arithmetic inspect 'run --sequences 128'

# ---- predict ----
swiss="tables --data $data/swiss.csv --target Fertility --repeats 1 --folds 2"
plain='tables --data plain.csv --target y --repeats 1 --folds 2'
of() { echo "tables --data $1 --target ${2:-y} --repeats 1 --folds 2"; }
effect "predict --data" out 'open.csv' "$plain" "$(of open.csv) --predict"
effect "predict --target" out 'the target Catholic' "$swiss" "$(of "$data/swiss.csv" Catholic)"
effect "predict --columns" out ', 2 features' "$swiss" "$swiss --columns Agriculture,Education"
effect "predict --exclude" out ', 3 features' "$swiss" "$swiss --exclude Agriculture,Education"
effect "predict --one-hot" out ', 3 features' "$(of kinds.csv)" "$(of kinds.csv) --one-hot"
effect "predict --drop-missing" out ': 5 rows' "$(of missing.csv)" "$(of missing.csv) --drop-missing"
effect "predict --impute" out ': 6 rows' "$(of missing.csv)" "$(of missing.csv) --impute mean"
effect "predict --header" out ': 4 rows' "$(of nameless.csv 2)" "$(of nameless.csv 2) --header yes"
effect "predict --separator" out ': 5 rows' "$(of colons.csv)" "$(of colons.csv) --separator :"
effect "predict --decimal" out ': 5 rows' "$(of commas.csv) --decimal point" "$(of commas.csv) --decimal comma"
effect "predict --predict" out '^7 ' "$(of open.csv)" "$(of open.csv) --predict"
effect "predict --new" out '^3 ' "$plain" "$plain --new new.csv"
effect "predict --folds" out '3 folds' "$plain" "$plain --folds 3"
effect "predict --repeats" out '2 times, seed' "$plain" "$plain --repeats 2"
effect "predict --context" out 'shown 20 rows' "$swiss" "$swiss --context 20"
effect "predict --prompts" out ', 3 times' "$swiss --context 20" "$swiss --context 20 --prompts 3"
effect "predict --inputs" out 'standardized$|standardized[^ ]' "$swiss --inputs whitened" "$swiss --inputs standardized"
effect "predict --seed" out 'seed 7' "$swiss" "$swiss --seed 7"
effect "predict --out" files '^./o/heldout.csv' "$swiss" "$swiss --out o"
effect "predict --json" out '^\{"predictor":"model"' "$swiss" "$swiss --json"
alone="--data $data/swiss.csv --target Fertility --folds 2"
effect "predict --context" out 'learned from 20 random rows of 47' "$alone" "$alone --context 20"
effect "predict --lags" out ', 2 features' "$alone" "$alone --lags 2"
effect "predict --ahead" out 'forecast 3 rows ahead' "$alone --lags 2" "$alone --lags 2 --ahead 3"
effect "predict --season" out '^last_season ' "$alone --lags 2" "$alone --lags 2 --season 5"
device_effects predict "$plain" 'device cpu'
arithmetic predict "$plain"

# ---- reproduce ----
one='garg-curves --scale ci'
effect "reproduce --list" out 'arXiv' "$one --cells" --list
effect "reproduce --scale" out 'uniform1$' 'versatile-table1 --cells --scale ci' \
    'versatile-table1 --cells --scale short'
effect "reproduce --cells" out '^L1-gd' "$one" 'versatile-table1 --scale ci --cells'
effect "reproduce --trainings" out '^runs/L1-gd' "$one" 'versatile-table1 --scale ci --trainings'
effect "reproduce --only" err 'no cell' "$one" "$one --only nothing"
effect "reproduce --seed" out 'seed 7' "$one" "$one --seed 7"
effect "reproduce --out" files '^./o/garg-curves-ci/findings.csv' "$one" "$one --out o"
effect "reproduce --json" out '^\{"' "$one" "$one --json"
effect "reproduce --gemm" reproductions/garg-curves-ci/report.html '<dd>native' "$one" "$one --gemm native"
effect "reproduce --workers" err '2 workers' 'fastweight-capacity --scale ci --workers 1' \
    'fastweight-capacity --scale ci --workers 2'
device_effects reproduce "$one" 'device cpu'
arithmetic reproduce "$one"

# ---- sweep ----
effect "sweep --out" files '^./o/table.csv' 'grid.ini --workers 1' 'grid.ini --workers 1 --out o'
effect "sweep --workers" err '2 workers' 'grid.ini --workers 1' 'grid.ini --workers 2'
effect "sweep --json" out '^\{"cell"' 'grid.ini --workers 1' 'grid.ini --workers 1 --json'
effect "sweep --gemm" sweeps/grid/seed-1/run.json '"gemm":.*native' 'grid.ini --workers 1' \
    'grid.ini --workers 1 --gemm native'
effect "sweep --fast-math" sweeps/grid/seed-1/run.json '"fast_math":.*true' 'grid.ini --workers 1' \
    'grid.ini --workers 1 --fast-math'
effect "sweep --precision" sweeps/grid/seed-1/run.json '"precision":.*bf16' 'grid.ini --workers 1' \
    'grid.ini --workers 1 --precision bf16'
device_effects sweep 'grid.ini --workers 1' 'training 4 steps'

# ---- compare ----
ops='--op sum_of_squares'
train='--train small.ini --steps 2'
effect "compare --against" out 'cpu against ref' "$ops" "$ops --against ref"
effect "compare --op" out '^square_root ' "$ops" '--op square_root'
effect "compare --seed" out 'seed 3"' "$ops --json" "$ops --json --seed 3"
effect "compare --train" out '^forced' "$ops" "$train"
effect "compare --steps" out 'of 3 steps' "$train" '--train small.ini --steps 3'
effect "compare --set" err 'train.batch = 0' "$train" "$train --set train.batch=0"
effect "compare --out" files '^./o/forced.csv' "$train" "$train --out o"
effect "compare --all" out 'plain random' "$ops" "$ops --all"
effect "compare --json" out '^\{"op"' "$ops" "$ops --json"
effect "compare --seconds" out '^left out, because the time was over: [0-9]+ cases' "$ops" "$ops --seconds 0.000001"
effect "compare --csv" out '^sum_of_squares,|^op,' "$ops" "$ops --csv"
device_effects compare "$ops" 'device cpu'
arithmetic compare "$ops"

# ---- bench ----
bench='--op normalize --seconds 0'
step='--recipe small.ini --seconds 0'
effect "bench --op" out 'look_up' "$bench" '--op look_up --seconds 0'
effect "bench --recipe" out 'step' "$bench" "$step"
effect "bench --by-op" out 'update_step ' "$step" "$step --by-op"
effect "bench --set" err 'train.batch = 0' "$step" "$step --set train.batch=0"
effect "bench --out" files '^./o/result.json' "$bench" "$bench --out o"
effect "bench --json" out '^\{"case"' "$bench" "$bench --json"
effect "bench --on-request" out '"ready": ?true' "$step" '--recipe small.ini --on-request'
device_effects bench "$bench" 'device cpu'
arithmetic bench "$bench"
# A second holds turns of many calls; no time, one call in each.
effect "bench --seconds" out 'step of.*"calls_a_turn":[0-9]{2}' "$step --json" '--recipe small.ini --seconds 1 --json'

# The same row of the same table, of commands that keep no record of it: what others do with it is above.
[[ $tested != @(eval|generate|predict|compare|bench) ]] || rows["$tested --gemm"]=1

# ---- Every option ----
while read -r option; do
    [[ -n ${rows["$tested $option"]:-} || $option == --help ]]
    status=$?
    [[ $status -eq 0 ]] || ok 1 "iclab $tested $option has a row in ${BASH_SOURCE[0]##*/}"
    unset "rows[$tested $option]"
done < <("$ICLAB" "$tested" --help | sed -nE 's/^  (--[a-z-]+).*/\1/p')
[[ ${#rows[@]} -eq 0 ]]
ok $? "no row is of an option that there is not${rows[*]:+: ${!rows[*]}}"
finish
