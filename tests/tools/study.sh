#!/usr/bin/env bash
# A study of one's own, as a person runs it: the example of the reference, what it leaves, how it goes on, and what is
# refused before anything is done. Arguments: iclab, the folder of recipes, the page with the example.
set -u
ICLAB=$1
export ICLAB_RECIPES=$2
page=$3
unset ICLAB_DEVICE
# shellcheck source=tests/tools/tap.sh
source "${BASH_SOURCE[0]%/*}/tap.sh"

mkdir "$work/studies"
study=$work/studies/depth-adapts.ini
awk '/^## / { here = $0 == "## A study of your own" } here && /^```$/ { exit } text { print }
    here && /^```ini$/ { text = 1 }' "$page" >"$study"
[[ $(grep -c . "$study") -gt 12 ]]
ok $? "the page has an example"
sed -i "s/| ci: 60/| ci: 12/" "$study" # it need not learn here

# reproduce ARGUMENTS...: the example at scale ci.
reproduce() {
    run reproduce "$study" --scale ci --device cpu:threads=1 --out "$work/r" "$@"
}

reproduce --cells
same "$work/out" <(printf 'layers-%s\n' 1 2 3) "its cells"
reproduce --trainings
[[ $(sed -n 1p "$work/out") == "runs/layers-1-seed1  versatile.ini  model.layers=1 train.steps=12 train.seed=1 "* ]]
ok $? "its trainings with their settings"
! [[ -e $work/r ]]
ok $? "lists leave nothing"

reproduce --workers 2
expect 1 "a model that has not learned misses its target"
grep -qE '^layers-3 +adapts .* MISSED by [0-9.]+ \[computed: constrr.half_adjusted\]$' "$work/out"
ok $? "the finding, and where its target comes from"
grep -q '2 workers' "$work/err"
ok $? "two workers train"
cp "$work/r/depth-adapts-ci/findings.csv" "$work/two.csv"
[[ -s $work/r/depth-adapts-ci/report.html && $(grep -c . "$work/r/depth-adapts-ci/depth.csv") -eq 4 ]]
ok $? "a report, and a figure of three points"
grep -q "iclab reproduce $study --scale ci" "$work/r/depth-adapts-ci/depth.gp"
ok $? "the command that draws it again"

reproduce --json
! grep -q training "$work/err" && [[ $(grep -c '"reproduction":"depth-adapts"' "$work/out") -eq 3 ]] &&
    grep -q '"training":"layers-3","seed":1,"first_loss":' "$work/out"
ok $? "the same command trains nothing again, and JSON has the finding, the training behind it and the sum"
rm -r "$work/r"
reproduce --workers 1
same "$work/r/depth-adapts-ci/findings.csv" "$work/two.csv" "one worker finds the same"
reproduce --only layers-2 --quiet
expect 2 "a cell that nothing judges"
says "layers-2: no cell's name contains that, or no check is about it" "is told"

sed -i 's/^number = half_adjusted/number = half_ajusted/' "$study"
rm -r "$work/r"
reproduce
refused 2 "depth-adapts.ini:10: check adapts.number = half_ajusted: expected .*; the nearest known number is half_adj" \
    "a mistake, with its place"
! [[ -e $work/r ]]
ok $? "and nothing is begun then"
run reproduce "$work/studies/none.ini"
expect 3 "a file that is not there"
run reproduce "$work/studies"
[[ $code -ne 0 && $(wc -l <"$work/err") -eq 1 ]]
ok $? "a folder"
finish
