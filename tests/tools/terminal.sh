#!/usr/bin/env bash
# What the command writes to a terminal that it does not write to a pipe: a progress bar, colours, lines of the
# terminal's width. Arguments: the command, on_terminal, the folder of the recipes.
set -uo pipefail
ICLAB=$1
terminal=$2
export ICLAB_RECIPES=$3 ICLAB_DEVICE=cpu TERM=xterm
unset NO_COLOR
# shellcheck source=tests/tools/tap.sh
source "${BASH_SOURCE[0]%/*}/tap.sh"
export OCL_ICD_VENDORS=$work # no driver: the host's devices are enough
escape=$'\x1b'
small=(--set train.batch=8 --set train.steps=300 --set eval.sequences=16 --set eval.fit_sequences=16
    --set eval.every_sequences=16
    --set train.growth=0 --set model.layers=1 --set eval.every=100)

# on COLUMNS ARGUMENTS...: the command on a terminal; its output in $work/out.
on() {
    local columns=$1
    shift
    code=0
    "$terminal" "$columns" "$ICLAB" "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
}

# The states of the line that is written again and again, one a line.
bars() {
    tr '\r' '\n' <"$work/out" | grep 'steps/s' | sed "s/$escape\\[K//"
}

# ---- Progress ----
on 100 train quickstart "${small[@]}" --out "$work/wide"
expect 0 "training on a terminal"
[[ $(bars | grep -c .) -ge 3 ]]
ok $? "the line is written again and again"
grep -qE '^\[#+\] 100 %  step 300/300  [0-9.e+]+ steps/s  0 s left  loss ' < <(bars | tail -n 1)
ok $? "it ends full, with step, rate and time left"
bars | tail -n 1 | note
bars | awk 'length > 99 { exit 1 }'
ok $? "it stays within the terminal"
grep -q "$escape\\[K" "$work/out"
ok $? "and takes away what was there"
on 40 train quickstart "${small[@]}" --out "$work/narrow"
[[ -n $(bars) ]] && bars | awk 'length > 39 { exit 1 }'
ok $? "a narrow terminal gets a shorter line"
on 100 train quickstart "${small[@]}" --out "$work/quiet" --quiet
[[ $code -eq 0 && -z $(bars) ]]
ok $? "--quiet: none"
TERM=dumb on 100 train quickstart "${small[@]}" --out "$work/dumb"
[[ $code -eq 0 && -z $(bars) ]] && ! grep -q "$escape" "$work/out"
ok $? "TERM=dumb: none, and no escape sequence"
run train quickstart "${small[@]}" --out "$work/pipe"
[[ $code -eq 0 ]] && ! grep -q 'steps/s' "$work/err" && ! grep -q "$escape" "$work/out" "$work/err"
ok $? "none in a pipe"
on 100 reproduce versatile-table1 --scale ci --only L1-gd++ --device cpu --out "$work/reproduce"
expect 0 "a reproduction on a terminal"
grep -q ' step ' < <(bars) && grep -q "$escape\\[KL1-gd++-uniform5 .*$escape\\[32mmet$escape\\[0m" "$work/out"
ok $? "it shows each training, takes the line away, and paints what was met"

# ---- Colours ----
on 100 devices
[[ $code -eq 0 ]] && grep -q "$escape\\[32musable$escape\\[0m: always works" "$work/out"
ok $? "a verdict is green on a terminal"
NO_COLOR=1 on 100 devices
[[ $code -eq 0 ]] && ! grep -q "$escape" "$work/out"
ok $? "NO_COLOR: it is not"
NO_COLOR='' on 100 devices
grep -q "$escape\\[32m" "$work/out"
ok $? "an empty NO_COLOR says nothing"
TERM=dumb on 100 devices
[[ $code -eq 0 ]] && ! grep -q "$escape" "$work/out"
ok $? "TERM=dumb: it is not"
run devices
[[ $code -eq 0 ]] && ! grep -q "$escape" "$work/out"
ok $? "nor in a pipe"
on 100 compare --device cpu --op square
[[ $code -eq 0 ]] && grep -q "$escape\\[32mPASS$escape\\[0m" "$work/out"
ok $? "PASS is green"

# ---- Width ----
for command in train eval inspect predict reproduce sweep compare bench devices; do
    on 80 "$command" --help
    awk 'length > 80 && !/^usage/ { exit 1 }' "$work/out"
    ok $? "$command --help fits 80 columns"
    run "$command" --help
    awk 'length > 100 && !/^usage/ { exit 1 }' "$work/out"
    ok $? "and 100 in a pipe"
done
finish
