#!/usr/bin/env bash
# Reports and pictures of a run and of a reproduction, with gnuplot and without. Arguments: iclab, the folder of
# recipes, python.
set -uo pipefail
ICLAB=$1
export ICLAB_RECIPES=$2
python=$3
# shellcheck source=tests/tools/tap.sh
source "${BASH_SOURCE[0]%/*}/tap.sh"

small=(--device cpu --set train.batch=16 --set train.warmup=2 --set train.growth=0 --set model.layers=2
    --set eval.sequences=200
    --set eval.fit_sequences=100 --set eval.every=5 --set eval.every_sequences=32)
hostile='<script>alert(1)<>' # a name may hold all but a slash
mkdir "$work/bin"            # everything but gnuplot
cp "$ICLAB_RECIPES/quickstart.ini" "$work/$hostile.ini"

check_reports() { # TEXT REPORT...
    "$python" "${BASH_SOURCE[0]%/*}/report_read.py" $((count + 1)) "$@" >"$work/read" 2>"$work/err"
    ok $? "the reports can be read"
    # Its lines are numbered anew here.
    while IFS= read -r line; do
        case $line in
        'ok '*) ok 0 "${line#* - }" ;;
        'not ok '*) ok 1 "${line#* - }" ;;
        *) echo "$line" ;;
        esac
    done <"$work/read"
}

# ---- Without gnuplot ----
PATH=$work/bin run train "$work/$hostile.ini" "${small[@]}" --steps 20 --out "$work/plain"
expect 0 "train without gnuplot"
[[ $(grep -c 'no gnuplot' "$work/err") -eq 1 ]]
ok $? "one line says so"
[[ -s $work/plain/loss.csv && -s $work/plain/loss.gp && -s $work/plain/adjusted.csv && -s $work/plain/adjusted.gp ]]
ok $? "the data and the scripts are there"
[[ $(wc -l <"$work/plain/loss.csv") -eq 21 && $(wc -l <"$work/plain/adjusted.csv") -eq 5 ]]
ok $? "a row for each step, and for each evaluation"
! grep -q 'Spikes up to' "$work/plain/report.html"
ok $? "and no word of spikes where there is none"
tables=$(grep -oE '<table class="[a-z]*"' "$work/plain/report.html" | sort -u | tr -d '\n')
[[ $tables == '<table class="cards"<table class="plain"' ]]
ok $? "tables are of known classes: $tables"
grep -q 'gnuplot loss.gp draws loss.svg' "$work/plain/report.html"
ok $? "the report says how to draw them"
PATH=$work/bin run reproduce garg-curves --scale ci --device cpu --quiet --out "$work/theirs"
expect 0 "reproduce without gnuplot"
check_reports "$hostile" "$work/plain/report.html"
check_reports 'iclab reproduce garg-curves --scale ci' "$work/theirs/garg-curves-ci/report.html"

printf '#!/bin/sh\nexit 1\n' >"$work/bin/gnuplot"
chmod +x "$work/bin/gnuplot"
PATH=$work/bin run train "$work/$hostile.ini" "${small[@]}" --steps 2 --out "$work/broken"
expect 0 "train with a gnuplot that fails"
[[ $(grep -c 'gnuplot failed' "$work/err") -eq 1 && -s $work/broken/report.html ]]
ok $? "it is said, and the report is there"

printf '#!/bin/sh\necho "  \"loss.gp\" line 3: undefined variable: x" >&2\nexit 1\n' >"$work/bin/gnuplot"
PATH=$work/bin run train "$work/$hostile.ini" "${small[@]}" --steps 2 --out "$work/loud-again"
grep -q 'gnuplot failed on .*loss.gp: .*line 3: undefined variable: x: expected a picture' "$work/err"
ok $? "and what it failed of is said"

# ---- What the device was opened with, in every record ----
says() { # GEMM FAST_MATH ARITHMETIC FOLDER
    grep -q "\"gemm\":.*\"$1\"" "$4/run.json" && grep -q "\"fast_math\":.*$2" "$4/run.json" &&
        grep -q '"seed":.*[0-9]' "$4/run.json" && grep -q "<dd>$1</dd>" "$4/report.html" &&
        grep -q "<dd>$3" "$4/report.html"
}
says auto false strict "$work/plain"
ok $? "run.json and the report say how matrices were multiplied, and that arithmetic was strict"
run train "$work/$hostile.ini" "${small[@]}" --gemm native --fast-math --steps 2 --quiet --out "$work/relaxed"
says native true relaxed "$work/relaxed"
ok $? "or another way, and relaxed"
run inspect "$work/relaxed" --device cpu --gemm native --fast-math --quiet --out "$work/inspected"
grep -q '<dd>native</dd>' "$work/inspected/report.html" && grep -q '<dd>relaxed' "$work/inspected/report.html"
ok $? "so does the report of an inspection"

# ---- With it ----
run train --resume "$work/plain" --device cpu --steps 30 --quiet
expect 0 "train on"
[[ ! -s $work/err ]]
ok $? "--quiet says nothing"
if command -v gnuplot >/dev/null; then
    for picture in loss.svg loss.png adjusted.svg adjusted.png; do
        [[ -s $work/plain/$picture ]]
        ok $? "gnuplot drew $picture"
    done
    [[ $(grep -c '<img ' "$work/plain/report.html") -eq 2 ]]
    ok $? "both stand in the report"
    run reproduce garg-curves --scale ci --device cpu --quiet --out "$work/theirs"
    expect 0 "reproduce, now with gnuplot"
    [[ $(grep -c '<img ' "$work/theirs/garg-curves-ci/report.html") -eq \
        $(find "$work/theirs/garg-curves-ci" -maxdepth 1 -name '*.svg' | wc -l) ]]
    ok $? "every picture stands in its report"
    printf '#!/bin/sh\necho "line 1: warning: loud" >&2\nexec %s "$@"\n' "$(command -v gnuplot)" >"$work/bin/gnuplot"
    PATH=$work/bin:$PATH run train "$work/$hostile.ini" "${small[@]}" --steps 2 --quiet --out "$work/loud"
    [[ ! -s $work/err && -s $work/loud/loss.svg ]]
    ok $? "what gnuplot warns of is kept from the screen"
    run train "$work/$hostile.ini" "${small[@]}" --steps 1 --set eval.every=1 --quiet --out "$work/single"
    expect 0 "a run of one step"
    [[ ! -s $work/err && -s $work/single/loss.svg && -s $work/single/adjusted.svg ]]
    ok $? "is drawn without a word"
    for script in "$work/theirs/garg-curves-ci"/*.gp "$work/plain"/*.gp "$work/single"/*.gp; do
        (cd "$(dirname "$script")" && gnuplot "$(basename "$script")") 2>"$work/err"
        [[ ! -s $work/err ]]
        ok $? "gnuplot has no complaint about $(basename "$script")"
    done
    check_reports "$hostile" "$work/plain/report.html"
    check_reports '2208.01066' "$work/theirs/garg-curves-ci/report.html"
else
    skip "pictures" "gnuplot is not installed"
fi
grep -q '30 steps' "$work/plain/report.html"
ok $? "the report is of the run as it is now"
finish
