#!/usr/bin/env bash
# Two runs never share a folder: who begins a run, or goes on with one, holds it against others. Races are planted: a
# run holds still where another may overtake it. Arguments: the command, the folder of the recipes.
set -uo pipefail
ICLAB=$(realpath "$1")
ICLAB_RECIPES=$(realpath "$2")
export ICLAB_RECIPES ICLAB_DEVICE=cpu:threads=1
# shellcheck source=tests/tools/tap.sh
source "${BASH_SOURCE[0]%/*}/tap.sh"
small=(--set train.batch=8 --set train.warmup=0 --set eval.sequences=16 --set eval.fit_sequences=16 --set eval.every=0
    --set model.layers=1 --set train.growth=0 --set train.schedule=constant)

wait_for() { # FILE LINES
    local i
    for ((i = 0; i < 600; i++)); do
        [[ ! -s $1 || $(wc -l <"$1") -lt $2 ]] || return 0
        sleep 0.1
    done
    return 1
}

# ---- While a run trains ----
held=$work/held
"$ICLAB" train quickstart "${small[@]}" --set train.steps=100000000 --out "$held" \
    >/dev/null 2>"$work/holder" </dev/null &
holder=$!
wait_for "$held/metrics.csv" 2
ok $? "a run trains"
run train --resume "$held" --steps 1
refused 2 'another process or thread trains there: expected another folder' "nobody else goes on with it"
cp "$held/recipe.ini" "$work/recipe.ini"
rm "$held/recipe.ini" # as it is between the claim and the recipe
run train quickstart "${small[@]}" --steps 3 --out "$held"
refused 2 'another process or thread trains there.*--out names another' \
    "nor begins another there, before its recipe is written"
[[ ! -e $held/recipe.ini ]]
ok $? "  and writes nothing"
cp "$work/recipe.ini" "$held/recipe.ini"
rm "$held/lock"
run train --resume "$held" --steps 1
refused 2 'another process or thread trains there' "nor where someone removed the lock"
: >"$held/lock"
kill -INT "$holder"
code=0
wait "$holder" || code=$?
expect 130 "the run was stopped"
[[ -e $held/lock ]]
ok $? "it leaves the lock that it did not make"
[[ $(cut -d, -f1 "$held/metrics.csv" | tail -n +2 | sort -n | uniq -d | wc -l) -eq 0 ]]
ok $? "no step of it stands twice in metrics.csv"
step=$(tail -n 1 "$held/metrics.csv" | cut -d, -f1)
: >"$held/lock" # as a run that was killed leaves it
run train --resume "$held" --steps $((step + 1))
expect 0 "the lock of a process that was killed is free"
[[ ! -e $held/lock ]]
ok $? "and goes with the next run"
exec 9<"$held"
flock 9
sleep 0.3 & # as a program that a killed run was starting, which still has its open files
exec 9<&-
run train --resume "$held" --steps $((step + 2))
expect 0 "a lock that is held for a moment longer is waited for"
mkdir "$held/lock"
run train --resume "$held" --steps $((step + 3))
refused 3 'held/lock: Is a directory' "a folder in its place is refused"
rmdir "$held/lock"
ln -s elsewhere "$held/lock"
run train --resume "$held" --steps $((step + 3))
refused 3 'cannot open .*/held/lock' "and so is a symbolic link"
[[ ! -e $held/elsewhere ]]
ok $? "  which makes no file"
rm "$held/lock"
: >"$held/checkpoint/state.safetensors.12.tmp" # as a process that was killed leaves it
run train --resume "$held" --steps $((step + 3))
expect 0 "goes on without them"
[[ $(ls "$held/checkpoint") == state.safetensors ]]
ok $? "and removes what a killed process left of a checkpoint"

# ---- A name that another run took meanwhile ----
# The first run holds still at a line on stderr, a full pipe, once it has chosen its name.
cd "$work" || exit 1
mkfifo pipe
exec 3<>pipe
timeout 1 cat /dev/zero >&3
"$ICLAB" train quickstart "${small[@]}" --steps 3 >/dev/null 2>pipe </dev/null &
first=$!
for ((i = 0; i < 30; i++)); do
    ! grep -qs pipe "/proc/$first/wchan" || break
    sleep 0.1
done
run train quickstart "${small[@]}" --steps 3 --quiet
expect 0 "the second run"
[[ -s runs/quickstart-seed1/model.safetensors ]]
ok $? "has the name"
before=$(cksum <runs/quickstart-seed1/run.json)
cat <&3 >/dev/null 3<&- &
drain=$!
code=0
wait "$first" || code=$?
kill "$drain" 2>/dev/null
expect 0 "the first"
[[ -s runs/quickstart-seed1-2/model.safetensors && $(cksum <runs/quickstart-seed1/run.json) == "$before" ]]
ok $? "takes the next"
finish
