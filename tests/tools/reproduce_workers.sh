#!/usr/bin/env bash
# Trainings of a reproduction shared by workers: the same files, bit for bit, as of one process; also where workers are
# killed, where two commands share a folder, and on ranks. Arguments: iclab, the folder of recipes, mpirun or nothing
# where the command has no MPI.
set -u
ICLAB=$1
export ICLAB_RECIPES=$2
mpirun=${3:-}
unset ICLAB_DEVICE
# shellcheck source=tests/tools/tap.sh
source "${BASH_SOURCE[0]%/*}/tap.sh"

name=fastweight-capacity # two trainings, and curves
common=(reproduce "$name" --scale ci --device cpu)
cells=(softmax-identity-S20 sum-dpfp-1-S20)

# alike FOLDER WHAT: results and models are those of one process.
alike() {
    local file
    for file in findings.csv curves.csv "${cells[@]/%//model.safetensors}" "${cells[@]/%//metrics.csv}"; do
        same "$work/one/$name-ci/$file" "$work/$1/$name-ci/$file" "$2: $file"
    done
}

run "${common[@]}" --workers 1 --out "$work/one"
expect 0 "one process"
[[ $(grep -c 'workers' "$work/err") -eq 0 ]]
ok $? "is no worker"

run "${common[@]}" --workers 2 --out "$work/two"
expect 0 "two workers"
grep -q '2 trainings to do by 2 workers' "$work/err"
ok $? "are said to work"
[[ $(grep -c ': training .* steps' "$work/err") -eq 2 ]]
ok $? "each training is done once"
alike two "two workers"
run "${common[@]}" --workers 2 --out "$work/two"
[[ $code -eq 0 && $(grep -c 'training' "$work/err") -eq 0 ]]
ok $? "what is finished is not trained again"
alike two "and once more"

# Nobody says how many: a worker for each core, or for each training where there are fewer; none on one core.
for threads in 2 3; do
    rm -r "$work/two/$name-ci/${cells[0]}" "$work/two/$name-ci/${cells[1]}"
    OMP_NUM_THREADS=$threads run "${common[@]}" --out "$work/two"
    [[ $code -eq 0 ]] && grep -q '2 trainings to do by 2 workers' "$work/err"
    ok $? "$threads cores and two trainings: two workers"
done
rm -r "$work/two/$name-ci/${cells[0]}" "$work/two/$name-ci/${cells[1]}"
OMP_NUM_THREADS=1 run "${common[@]}" --out "$work/two"
[[ $code -eq 0 && $(grep -c 'workers' "$work/err") -eq 0 ]]
ok $? "one core: no worker"
alike two "that too"

# A training that is gone again is the only one to do: no worker is needed.
rm -r "$work/two/$name-ci/${cells[0]}"
run "${common[@]}" --workers 2 --out "$work/two"
[[ $code -eq 0 && $(grep -c "training ${cells[0]}" "$work/err") -eq 1 && $(grep -c 'workers' "$work/err") -eq 0 ]]
ok $? "one that is gone is trained again, and no other"
alike two "with it"

# ---- Two commands, one folder ----

"$ICLAB" "${common[@]}" --workers 2 --out "$work/shared" >/dev/null 2>"$work/first" </dev/null &
process=$!
run "${common[@]}" --workers 2 --out "$work/shared"
wait "$process"
[[ $? -eq 0 && $code -eq 0 ]]
ok $? "two commands share a folder"
[[ $(cat "$work/first" "$work/err" | grep -c ': training .* steps') -eq 2 ]]
ok $? "each training is done once, by either"
alike shared "both"

# Without workers, too: the second waits for what the first holds.
"$ICLAB" "${common[@]}" --workers 1 --out "$work/alone" >/dev/null 2>"$work/first" </dev/null &
process=$!
run "${common[@]}" --workers 1 --out "$work/alone"
wait "$process"
[[ $? -eq 0 && $code -eq 0 && $(cat "$work/first" "$work/err" | grep -c ': training .* steps') -eq 2 ]]
ok $? "two commands without workers share a folder"
alike alone "both"

# ---- Killed ----

# Whole groups of processes, or the first of them alone, whose workers then have to notice. Seeded, but where it hits is
# up to the machine.
set -m
RANDOM=2026
kills=0
for attempt in {1..12}; do
    "$ICLAB" "${common[@]}" --workers 2 --out "$work/killed" --quiet >/dev/null 2>&1 </dev/null &
    process=$!
    sleep "0.$(printf '%03d' $((50 + RANDOM % 250)))"
    if [[ $((attempt % 3)) -eq 0 ]]; then target=$process; else target=-$process; fi
    kill -KILL -- "$target" 2>/dev/null || true
    wait "$process" 2>/dev/null
    if [[ $? -eq 137 ]]; then kills=$((kills + 1)); fi
    [[ $kills -lt 4 ]] || break
done
ok $((kills < 1)) "killed $kills times"

# Workers in the midst of trainings without an end, whose command is gone, or is asked to stop.
cat >"$work/endless.ini" <<'END'
[study]
claim = Two trainings do not end.
recipe = versatile
[set]
train.steps = 100000000
train.growth = 0
train.starts = 1
train.metrics_every = 10
[grid]
train.seed = 1, 2
[check never]
number = mse
END
for signal in KILL INT; do
    "$ICLAB" reproduce "$work/endless.ini" --scale ci --device cpu --workers 2 --out "$work/endless-$signal" --quiet \
        >"$work/out" 2>"$work/err" </dev/null &
    process=$!
    for _ in {1..600}; do
        [[ $(find "$work/endless-$signal" -name metrics.csv -size +100c 2>/dev/null | wc -l) -lt 2 ]] || break
        sleep 0.1
    done
    kill -"$signal" "$process"
    wait "$process" 2>/dev/null
    for _ in {1..600}; do
        kill -0 -- "-$process" 2>/dev/null || break
        sleep 0.1
    done
    [[ $(find "$work/endless-$signal" -name metrics.csv -size +100c | wc -l) -eq 2 ]] &&
        ! kill -0 -- "-$process" 2>/dev/null
    ok $? "two workers end when their command is ended by SIG$signal"
    kill -KILL -- "-$process" 2>/dev/null || true
done
set +m
run "${common[@]}" --workers 2 --out "$work/killed"
expect 0 "the last one is left to end"
alike killed "killed and gone on with"

# ---- Ranks ----

if [[ -n $mpirun ]]; then
    code=0
    timeout 120 "$mpirun" -n 2 "$ICLAB" "${common[@]}" --workers 1 --out "$work/ranks" >"$work/out" 2>"$work/err" \
        </dev/null || code=$?
    expect 0 "two ranks"
    grep -q '2 trainings to do by 2 ranks' "$work/err"
    ok $? "are said to work, each by itself"
    [[ $(grep -c ': training .* steps' "$work/err") -eq 2 && $(grep -c 'findings, ' "$work/out") -eq 1 ]]
    ok $? "each training is done once, and one rank judges"
    alike ranks "two ranks"
fi

# ---- Refusals ----

run "${common[@]}" --workers 0 --out "$work/r"
refused 2 "workers 0: expected 1 to" "no workers"
run "${common[@]}" --workers 2 --device cpu,nothing --out "$work/r"
refused 2 "nothing" "a device that there is not"
sed -i 's/^width = .*/width = 7/; s/^steps = .*/steps = 7/' "$work/two/$name-ci/${cells[0]}/recipe.ini"
run "${common[@]}" --workers 2 --out "$work/two"
refused 2 "holds a run of another recipe" "a folder of another recipe"
finish
