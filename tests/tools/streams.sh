#!/usr/bin/env bash
# What surrounds the command: hang-ups, standard streams that are full or closed, and what would steer a terminal.
# Arguments: the command, the folder of the recipes.
set -uo pipefail
ICLAB=$(realpath "$1")
ICLAB_RECIPES=$(realpath "$2")
export ICLAB_RECIPES ICLAB_DEVICE=cpu:threads=1
# shellcheck source=tests/tools/tap.sh
source "${BASH_SOURCE[0]%/*}/tap.sh"
cd "$work" || exit 1
small=(--set train.batch=8 --set train.warmup=0 --set eval.sequences=16 --set eval.fit_sequences=16 --set eval.every=0
    --set model.layers=1 --set train.growth=0 --set train.schedule=constant)

# ---- Hang-ups ----
# signal_run SIGNAL NAME COMMAND...: begins a run by the command, sends the signal once it trains; its process in
# $process.
signal_run() {
    local i signal=$1 folder=$2
    shift 2
    "$@" "$ICLAB" train quickstart "${small[@]}" --set train.steps=100000000 --out "$folder" \
        >/dev/null 2>err </dev/null &
    process=$!
    for ((i = 0; i < 600; i++)); do
        [[ ! -s $folder/metrics.csv || $(wc -l <"$folder/metrics.csv") -lt 2 ]] || break
        sleep 0.1
    done
    kill "-$signal" "$process"
}
# These tests may themselves run under nohup, and a shell cannot take back that a signal is ignored.
default=(env)
env --default-signal=HUP true 2>/dev/null && default=(env --default-signal=HUP)
signal_run HUP hung "${default[@]}"
code=0
wait "$process" || code=$?
expect 129 "SIGHUP ends a run"
says 'the checkpoint is written: iclab train --resume hung' "which it saves"
signal_run HUP outlived nohup
kill -TERM "$process"
code=0
wait "$process" || code=$?
expect 143 "nohup lets a run outlive it, up to SIGTERM"

# ---- Before the first step ----
"$ICLAB" train quickstart --set train.steps=100000000 --set train.starts=4 --set train.growth=0 --out begun \
    >/dev/null 2>err </dev/null &
process=$!
for ((i = 0; i < 600; i++)); do
    ! grep -q 'before step 1, 4 starts of 25000000 steps each are tried' err || break
    sleep 0.1
done
kill -TERM "$process"
code=0
wait "$process" || code=$?
expect 143 "SIGTERM among the starts of a run"
[[ $(grep -cF "iclab: before step 1, 4 starts of 25000000 steps each are tried (train.starts)" err) -eq 1 ]]
ok $? "one line tells of them"
says 'before step 1; there is no checkpoint yet: iclab train --resume begun begins again' "names no checkpoint"
[[ ! -e begun/checkpoint ]]
ok $? "  where there is none"

# ---- Batch systems ----
for signal in USR1 USR2 XCPU ALRM; do
    signal_run "$signal" "by_$signal" env
    kill "-$signal" "$process" 2>/dev/null # they repeat it
    code=0
    wait "$process" || code=$?
    expect "$((128 + $(kill -l "$signal")))" "SIG$signal ends a run"
    says "the checkpoint is written: iclab train --resume by_$signal" "which it saves"
    grep -q '"status":.*"interrupted"' "by_$signal/run.json"
    ok $? "and says so in run.json"
done
if env --ignore-signal=USR1 true 2>/dev/null; then
    signal_run USR1 ignored env --ignore-signal=USR1
    kill -TERM "$process"
    code=0
    wait "$process" || code=$?
    expect 143 "a signal that whoever starts the run ignores does not end it"
fi

# ---- Processes of its own, where whoever starts it ignores how children end ----
if env --ignore-signal=CHLD true 2>/dev/null; then
    code=0
    timeout 300 env --ignore-signal=CHLD "$ICLAB" devices >out 2>err || code=$?
    expect 0 "devices with SIGCHLD ignored"
    ! grep -q 'the process that' err
    ok $? "and it knows how its process ended"
fi

# ---- Streams ----
for words in --help --version help 'train --help' devices; do
    for where in full closed; do
        code=0
        # shellcheck disable=SC2086 # words
        case $where in
        full) "$ICLAB" $words >/dev/full 2>err || code=$? ;;
        closed) "$ICLAB" $words >&- 2>err || code=$? ;;
        esac
        [[ $code -eq 3 ]] && grep -q 'cannot write standard output' err
        ok $? "$words to a standard output that is $where: exit code 3"
    done
done
"$ICLAB" train quickstart "${small[@]}" --steps 3 --out silent >out 2>&- </dev/null
ok $? "a run without standard error"
! grep -rlq 'iclab: ' silent
ok $? "writes no message into one of its files"
"$ICLAB" train quickstart "${small[@]}" --steps 3 --out alone <&- >&- 2>&-
[[ $? -eq 3 && -s alone/model.safetensors ]] && ! grep -rlq 'iclab: ' alone
ok $? "nor one without any stream, whose table is lost: exit code 3"

# Readers that go away before the first line: both commands of a pipe run at once, so the first waits for the second.
mkfifo gate
{
    read -r <gate
    "$ICLAB" train quickstart "${small[@]}" --steps 3 --out unread 2>err </dev/null
    echo $? >code
} | true &
reader=$!
echo gone >gate
wait "$reader"
for ((i = 0; i < 600; i++)); do
    [[ ! -s code ]] || break
    sleep 0.1
done
code=$(<code)
expect 3 "a run whose reader of the table goes away"
says 'cannot write standard output' "says so at its end"
[[ -s unread/model.safetensors && -s unread/result.json && -s unread/report.html ]] &&
    grep -q '"status":.*"finished"' unread/run.json
ok $? "and keeps model, result and report"
{
    read -r <gate
    "$ICLAB" train quickstart "${small[@]}" --steps 3 --out unheard 2>&1 >out </dev/null
    echo $? >heard
} | true &
reader=$!
echo gone >gate
wait "$reader"
for ((i = 0; i < 600; i++)); do
    [[ ! -s heard ]] || break
    sleep 0.1
done
[[ $(<heard) -eq 0 && -s unheard/report.html ]] && grep -q '^model ' out
ok $? "a run whose messages nobody reads trains to its end"

# ---- A home that cannot be written ----
if grep -q 'Portable Computing Language' < <("$ICLAB" devices --json 2>/dev/null); then
    env -u POCL_CACHE_DIR -u XDG_CACHE_HOME HOME=/proc/nowhere "$ICLAB" devices --json >out 2>err
    grep -q 'opencl' out || grep -q 'home /proc/nowhere cannot be written.*POCL_CACHE_DIR' err
    ok $? "PoCL does not vanish without a reason"
fi

# ---- Terminals ----
steering=$'\e]0;title\a\xc2\x9b31m\x9b31m\x7f'
for arguments in "train $steering" "eval $steering" "train quickstart --set $steering" "sweep $steering" \
    "predict $steering --data x --target y" "train quickstart --device $steering"; do
    # shellcheck disable=SC2086 # words
    run $arguments
    [[ $code -ge 2 && $(wc -l <"$work/err") -eq 1 ]] &&
        ! LC_ALL=C grep -q $'[\x01-\x09\x0b-\x1f\x7f]\|\xc2[\x80-\x9f]\|m\x9b' "$work/err"
    ok $? "no control character of a name reaches the terminal: ${arguments%% $'\e'*}"
done

# ---- Pipes, and folders in the way ----
mkfifo pipe
code=0
timeout 20 "$ICLAB" train pipe --out piped >"$work/out" 2>"$work/err" || code=$?
refused 2 'a pipe that nobody writes to: expected a file' "a pipe as recipe does not wait"
"$ICLAB" train <(cat "$ICLAB_RECIPES/quickstart.ini") "${small[@]}" --steps 2 --out piped >"$work/out" 2>"$work/err"
ok $? "one that a command writes is read"
mkdir quickstart
run train quickstart "${small[@]}" --steps 2 --out beside --quiet
expect 0 "a folder named like a recipe does not stand for it"
finish
