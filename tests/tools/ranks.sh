#!/usr/bin/env bash
# Ranks of mpirun: one model trained by several has the bits of one, also when it is stopped and goes on with another
# number of them, and a sweep shared by several has the table of one. Arguments: iclab, mpirun or nothing where the
# build has no MPI.
set -u
ICLAB=$1
mpirun=${2:-}
unset ICLAB_DEVICE
# Open MPI wants to be told that more ranks than cores, and root, are meant.
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
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
batch = 64
slices = 4
steps = 20
warmup = 5
checkpoint_every = 5
[eval]
sequences = 64
every = 10
every_sequences = 64
predictors = oracle
END
printf '[sweep]\nrecipe = tiny.ini\n[grid]\nmodel.layers = 1, 2\ntrain.seed = 1..3\n' >"$work/grid.ini"

if [[ -z $mpirun ]]; then
    echo "# not tested here, because there is no MPI: training and sweeps on several ranks"
    for command in "train $work/tiny.ini" "sweep $work/grid.ini"; do
        # shellcheck disable=SC2086 # several arguments
        PMI_SIZE=2 PMI_RANK=1 run $command --out "$work/r" --device cpu
        refused 2 "one of 2 processes, but built without MPI" "${command%% *} under a launcher"
    done
    finish
fi

# on RANKS ARGUMENTS...: like run, on so many ranks.
on() {
    local ranks=$1
    shift
    code=0
    timeout 120 "$mpirun" -n "$ranks" "$ICLAB" "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
}

# same_run NAME WHAT: its files are those of the run on one rank.
same_run() {
    local file
    for file in model.safetensors metrics.csv checkpoint/state.safetensors; do
        same "$work/one/$file" "$work/$1/$file" "$2: $file"
    done
}

run train "$work/tiny.ini" --out "$work/one" --device cpu --json
expect 0 "without a launcher"
cp "$work/out" "$work/one.json"
for ranks in 1 2; do
    on $ranks train "$work/tiny.ini" --out "$work/on$ranks" --device cpu --json
    expect 0 "$ranks ranks"
    same_run "on$ranks" "$ranks ranks"
    same <(grep predictor "$work/one.json") <(grep predictor "$work/out") "$ranks ranks: one result, and the same"
    grep -q "\"ranks\":.*$ranks" "$work/on$ranks/run.json"
    ok $? "$ranks ranks: the record says so"
done

# Each kind of model, of clipping and of task goes its own way through a step: recall has symbols, and weights of
# positions.
symbols="task.family=recall task.d=10 task.n=20 task.vocabulary=8 task.length=10 task.pairs=3 model.family=sequence"
symbols+=" model.parameterization=full model.layers=1 model.width=8 eval.predictors=context"
for settings in "model.parameterization=full" "model.family=softmax model.parameterization=full model.layers=1" \
    "train.sequence_clip=0.1 task.sampler=gram" "train.optimizer=sgd train.refresh=3 train.learning_rate=0.001" \
    "$symbols" "$symbols train.optimizer=muon train.schedule=warmup-stable-decay"; do
    arguments=()
    for setting in $settings; do arguments+=(--set "$setting"); done
    name=${settings//[^a-z]/-}
    run train "$work/tiny.ini" --out "$work/a$name" --device cpu --quiet "${arguments[@]}"
    on 2 train "$work/tiny.ini" --out "$work/b$name" --device cpu --quiet "${arguments[@]}"
    [[ $code -eq 0 ]] && cmp -s "$work/a$name/checkpoint/state.safetensors" "$work/b$name/checkpoint/state.safetensors"
    ok $? "2 ranks: $settings"
done

OMP_NUM_THREADS=12 on 2 train "$work/tiny.ini" --out "$work/parts" --steps 8 --device cpu --quiet
expect 0 "8 steps on 2 ranks"
grep -qF '"cpu:threads=6"' "$work/parts/run.json"
ok $? "which share twelve threads"
run train --resume "$work/parts" --steps 14 --device cpu --quiet
expect 0 "6 more without a launcher"
on 4 train --resume "$work/parts" --steps 20 --device cpu --quiet
expect 0 "the rest on 4"
same_run parts "in three parts"

# What a checkpoint holds beside parameters goes to every rank: the threshold that sequences are cut at.
clip=(--set train.sequence_clip=0.1 --set task.sampler=gram --device cpu --quiet)
run train "$work/tiny.ini" --out "$work/cut" "${clip[@]}"
run train "$work/tiny.ini" --out "$work/cut-parts" "${clip[@]}" --steps 8
on 2 train --resume "$work/cut-parts" --steps 20 --device cpu --quiet
expect 0 "sequences are cut by 2 ranks that go on"
same "$work/cut/checkpoint/state.safetensors" "$work/cut-parts/checkpoint/state.safetensors" "at the same threshold"

on 2 train "$work/tiny.ini" --set train.slices=1 --out "$work/r" --device cpu
[[ $code -eq 2 && $(grep -c 'train.slices = 1: expected at least one for each of the 2 ranks' "$work/err") -eq 1 &&
    ! -e $work/r ]]
ok $? "fewer slices than ranks are refused, by one line"
on 2 train nothing --out "$work/r" --device cpu
[[ $code -eq 2 && $(grep -c 'recipe nothing: no such file' "$work/err") -eq 1 ]]
ok $? "what rank 0 alone can see is refused by all"
on 2 train "$work/tiny.ini" --set train.optimizer=sgd --set train.clip=0 --set train.learning_rate=1e6 --steps 60 \
    --out "$work/wild" --device cpu --quiet
[[ $code -eq 1 && $(grep -c 'diverged' "$work/err") -eq 1 ]]
ok $? "divergence is everybody's, and said once"

run sweep "$work/grid.ini" --out "$work/alone" --device cpu --workers 1 --quiet
expect 0 "a sweep without a launcher"
on 2 sweep "$work/grid.ini" --out "$work/shared" --device cpu --json
expect 0 "a sweep on 2 ranks"
same <(sed 's/,[^,]*$//' "$work/alone/table.csv") <(sed 's/,[^,]*$//' "$work/shared/table.csv") "the same table"
[[ $(grep -c '"cell"' "$work/out") -eq 6 && $(grep -c 'training' "$work/err") -eq 6 ]]
ok $? "each cell once, one table"
OMP_NUM_THREADS=12 on 2 sweep "$work/grid.ini" --out "$work/shared" --device cpu
grep -qF "2 ranks, the first on cpu:threads=6" "$work/err"
ok $? "2 ranks share twelve threads"
rm -r "$work/shared/layers-2_seed-2" "$work/shared/layers-1_seed-1/result.json"
on 2 sweep "$work/grid.ini" --out "$work/shared" --device cpu
[[ $code -eq 0 && $(grep -c 'training' "$work/err") -eq 1 ]]
ok $? "what dead ranks left is taken over on restart"
same <(sed 's/,[^,]*$//' "$work/alone/table.csv") <(sed 's/,[^,]*$//' "$work/shared/table.csv") "to the same table"
# Killed all at once, at some moment; others take over.
set -m
"$mpirun" -n 2 "$ICLAB" sweep "$work/grid.ini" --out "$work/killed" --device cpu --quiet >/dev/null 2>&1 </dev/null &
process=$!
for _ in {1..100}; do
    [[ $(find "$work/killed" -name result.json 2>/dev/null | grep -c .) -lt 2 ]] || break
    sleep 0.05
done
kill -KILL -- "-$process"
wait "$process" 2>/dev/null
set +m
on 4 sweep "$work/grid.ini" --out "$work/killed" --device cpu --quiet
expect 0 "a sweep on 2 ranks that was killed, on 4"
same <(sed 's/,[^,]*$//' "$work/alone/table.csv") <(sed 's/,[^,]*$//' "$work/killed/table.csv") "to the same table"

# Devices that round differently would drift apart unseen.
code=0
timeout 120 "$mpirun" -n 1 "$ICLAB" train "$work/tiny.ini" --out "$work/mixed" --device cpu --quiet : \
    -n 1 "$ICLAB" train "$work/tiny.ini" --out "$work/mixed" --device ref --quiet >"$work/out" 2>"$work/err" \
    </dev/null || code=$?
[[ $code -eq 3 && $(grep -c 'the parameters of the ranks: rank 1 has other bits than rank 0' "$work/err") -eq 1 ]]
ok $? "ranks on different devices are refused"
finish
