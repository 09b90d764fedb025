#!/usr/bin/env bash
# Pictures of hostile names, in hostile folders, by a gnuplot that fails: a picture takes nothing from the work, runs
# nothing but gnuplot, and is whole or not there. Arguments: the command, the folder of the recipes.
set -uo pipefail
ICLAB=$(realpath "$1")
ICLAB_RECIPES=$(realpath "$2")
export ICLAB_RECIPES ICLAB_DEVICE=cpu:threads=1
# shellcheck source=tests/tools/tap.sh
source "${BASH_SOURCE[0]%/*}/tap.sh"
gnuplot=$(command -v gnuplot)

run train versatile --set train.batch=8 --set train.warmup=0 --set eval.sequences=16 --set eval.fit_sequences=16 \
    --set eval.every=0 --set model.layers=1 --set train.growth=0 --set task.d=6 --set task.n=8 --steps 2 \
    --out "$work/run" --quiet
expect 0 "a run"

# table NAME: rows whose target has this name, with quotes doubled.
table() {
    echo "a,b,\"${1//\"/\"\"}\""
    for i in {1..14}; do echo "$i,$((i * i % 7)),$((3 * i + i % 4))"; done
}
predicts() { # NAME: the target's
    table "$1" >"$work/table.csv"
    run predict "$work/run" --data "$work/table.csv" --target 3 --out "$work/drawn" --quiet
}

# ---- Names ----
# shellcheck disable=SC1003,SC2016 # as they are
names=("x''y" "'x" "x'" "''" 'say "x"' 'a\' '\' '`touch OUCH`' '@x' '{' '}' '}{' '#' '%s%n' $'a\nsystem "touch OUCH"\n'
    "'; system('touch OUCH'); '" '"; system("touch OUCH"); "' '$(touch OUCH)' 'größe µ²')
for name in "${names[@]}"; do
    predicts "$name"
    [[ $code -eq 0 && -s $work/out && ! -s $work/err && ! -e $work/drawn/OUCH ]] &&
        { [[ -z $gnuplot ]] || [[ -s $work/drawn/predicted.svg && -s $work/drawn/predicted.png ]]; }
    ok $? "a target called $(printf '%q' "$name") is predicted and drawn"
done
if [[ -n $gnuplot ]]; then
    predicts "x''y \`@{%d}"
    grep -q "x'.*'y \`@{%d}, as it is" <(sed "s/&#39;/'/g" "$work/drawn/predicted.svg")
    ok $? "the picture names it as it is"
fi

# ---- A gnuplot that fails, or leaves half a picture ----
mkdir "$work/stub"
stub() { # LINE...: what it does
    printf '%s\n' '#!/bin/sh' "$@" >"$work/stub/gnuplot"
    chmod +x "$work/stub/gnuplot"
}
stub 'exit 1'
PATH=$work/stub:$PATH predicts y
[[ $code -eq 0 && -s $work/out ]] && grep -q 'gnuplot failed on .*predicted.gp' "$work/err"
ok $? "a gnuplot that fails takes nothing but the picture, and a line says so"
# shellcheck disable=SC2016 # the stub expands them
stub 'for i; do name=${i%.gp}; done' 'printf "<svg><path d=" >"$name.svg"' \
    'printf "\211PNG\r\n half of a picture" >"$name.png"'
PATH=$work/stub:$PATH predicts y
[[ $code -eq 0 && -s $work/out && ! -e $work/drawn/predicted.svg && ! -e $work/drawn/predicted.png ]] &&
    grep -q 'predicted.svg was not drawn whole' "$work/err"
ok $? "a picture that a full disk cut is not left, and a line says so"

# ---- A program in the folder ----
printf '#!/bin/sh\n: >"%s"\n' "$work/OUCH" >"$work/drawn/gnuplot"
chmod +x "$work/drawn/gnuplot"
printf 'system "touch %s"\n' "$work/OUCH" | tee "$work/drawn/.gnuplot" >"$work/drawn/gnuplotrc"
for path in "" "." ":$PATH" ".:$PATH" "$PATH:" "../drawn:$PATH" "drawn"; do
    PATH=$path predicts y
    [[ $code -eq 0 && -s $work/out && ! -e $work/OUCH ]]
    ok $? "PATH='${path//"$PATH"/…}': a gnuplot in the folder is not run"
done
PATH=$work/drawn predicts y
[[ $code -eq 0 && -e $work/OUCH ]]
ok $? "  unless PATH names that folder"
finish
