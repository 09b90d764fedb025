#!/usr/bin/env bash
# One reproduction at scale ci on the host: every target met. With "list" in place of a name: what --list has is what is
# tested, and what the command refuses. Arguments: iclab, the folder of recipes, name, and with "list"
# the names that are tested.
set -u
ICLAB=$1
export ICLAB_RECIPES=$2
unset ICLAB_DEVICE
name=$3
shift 3
# shellcheck source=tests/tools/tap.sh
source "${BASH_SOURCE[0]%/*}/tap.sh"

# value KEY: of the JSON objects in $work/out, one a line.
value() {
    sed -n "s/.*\"$1\":\"\\{0,1\\}\\([^\",}]*\\)\"\\{0,1\\}.*/\\1/p" "$work/out"
}

check_list() {
    run reproduce --list --json
    expect 0 "the list as JSON"
    [[ "$(value name | sort)" == "$(printf '%s\n' "$@" | sort)" ]]
    ok $? "every reproduction is tested, and nothing else"
    [[ $(value source | grep -c .) -eq $# && $(value cost_ci | grep -c .) -eq $# ]]
    ok $? "each has a source and a cost"
    run reproduce --list
    [[ $code -eq 0 && $(grep -cE '^  [a-z][a-z0-9-]+ +[0-9]+ (s|min) ' "$work/out") -eq $# ]]
    ok $? "the list for people has them all"
    [[ $(grep -B 1 '^  newton-descent ' "$work/out" | head -n 1) == 'Giannou, '*'(arXiv 2403.03183)'* ]]
    ok $? "below their papers"
    run reproduce versatile-table --scale ci --out "$work/r"
    refused 2 "unknown; the nearest known one is versatile-table1" "an unknown name"
    run reproduce
    refused 2 "NAME is missing" "no name"
    run reproduce all --only L1 --out "$work/r"
    refused 2 "expected one NAME" "--only with all"
    run reproduce versatile-table1 --scale night --out "$work/r"
    refused 2 "ci" "an unknown scale"
    run reproduce versatile-table1 --seed 0 --out "$work/r"
    refused 2 "seed 0: expected 1" "seed 0"
    run reproduce versatile-table1 --scale ci --only L9 --device cpu --quiet --json --out "$work/r"
    refused 2 "no cell's name contains that; the nearest known one is L1-gd\+\+" "--only that matches nothing"
    ! [[ -e $work/r ]]
    ok $? "and nothing is begun then"
    check_cells
    check_trainings
    check_verdict
    check_resumption
    check_side_by_side
}

# Cells are listed as they run; a text that several contain is told, one that a single one contains is not.
check_cells() {
    run reproduce versatile-table1 --cells --scale ci
    expect 0 "--cells"
    printf '%s\n' predictors-uniform5 L{1,2}-{gd++,diag,full}-uniform5 | cmp -s - "$work/out"
    ok $? "lists each cell of the scale once, in its order"
    run reproduce versatile-table1 --cells --scale full --only choice1-3 --json
    [[ $code -eq 0 && $(wc -l <"$work/out") -gt 1 && $(grep -c '"cell":"[^"]*choice1-3' "$work/out") -eq \
        $(wc -l <"$work/out") ]]
    ok $? "of another scale, by --only, as JSON"
    run reproduce versatile-table1 --cells --only nonsense
    refused 2 "nearest known one is " "--cells with nonsense"
    run reproduce all --cells
    refused 2 "expected one NAME" "--cells of all"
    run reproduce looped-exact --scale ci --only -L2 --device cpu --out "$work/several"
    grep -q -- '--only -L2 stands in the names of 4 of 8 cells: untied-d5-n20-L2 ' "$work/err"
    ok $? "a text of several names is told"
    grep -q '  met \[computed: exact optimum\]  optimum' "$work/out" && grep -q '  shown  a I is a minimum$' "$work/out"
    ok $? "a target's source stands behind the verdict, and nothing where there is none"
    run reproduce looped-exact --scale ci --only untied-d5-n20-L1 --device cpu --out "$work/single"
    expect 0 "one cell by its name"
    ! grep -q 'stands in the names' "$work/err"
    ok $? "which is not told"
    # Of every reproduction at every scale, in seconds: nothing is trained, and every cell of ci has a name.
    local name scale without=0
    for name in $("$ICLAB" reproduce --list --json | sed 's/.*"name":"\([^"]*\)".*/\1/'); do
        for scale in ci short full; do
            run reproduce "$name" --cells --scale "$scale"
            [[ $code -eq 0 && -s $work/out ]] || { without=$((without + 1)); echo "# $name $scale"; }
        done
    done
    [[ $without -eq 0 ]]
    ok $? "every reproduction lists its cells at every scale"
}

# Trainings are listed with the recipe's file and what is set otherwise than there, --only's alone; nothing is trained
# or written.
check_trainings() {
    run reproduce gradientflow-limit --scale short --trainings --seed 4 --out "$work/none"
    [[ $code -eq 0 && ! -e $work/none &&
        $(awk '{ printf "%s %s;", $1, $2 }' "$work/out") == "$(printf 'runs/%s gradientflow.ini;' \
            {identity,spectrum}-n{20,100})" ]]
    ok $? "--trainings has each by its name and its recipe"
    [[ $(grep -c ' train.steps=20000 train.seed=4 .*eval.seed=4$' "$work/out") -eq 4 ]]
    ok $? "with steps and seeds"
    grep -q '^runs/spectrum-n100  gradientflow.ini  task.n=100 task.covariance=spectrum:2,1.5,1,0.8,0.7 ' "$work/out"
    ok $? "and what else is set"
    run reproduce versatile-table1 --scale ci --trainings --only L2-diag --json
    [[ $code -eq 0 && $(wc -l <"$work/out") -eq 1 ]] &&
        grep -q '"training":"runs/L2-diag-uniform5-seed1","recipe":"versatile-table1.ini","settings":"task.noise=unif' \
            "$work/out"
    ok $? "as JSON, of one cell"
    run reproduce recall-onepass --scale ci --trainings
    [[ $code -eq 0 && $(cat "$work/out") == "recall-onepass has no trainings in folders" ]]
    ok $? "and none where none is kept"
    run reproduce versatile-table1 --trainings --only nonsense
    refused 2 "nearest known one is " "--trainings with nonsense"
    run reproduce all --trainings
    refused 2 "--trainings: expected one NAME" "--trainings of all"
}

# At scale ci garg-classes has a self-check alone: of a predictor.
check_verdict() {
    run reproduce garg-classes --scale ci --only sparse --device cpu --out "$work/self-check"
    expect 0 "a scale with a self-check"
    grep -qx 'The claim is not judged at scale ci: 1 of 1 self-checks are met.' "$work/out" &&
        grep -q '<p class="lead">.*The claim is not judged at scale ci: 1 of 1 self-checks are met.</p>' \
            "$work/self-check/garg-classes-ci/report.html"
    ok $? "does not judge the claim, say terminal and report"
}

# A run that is there is evaluated anew and not trained again; another recipe in its folder is refused.
check_resumption() {
    local cell=(reproduce versatile-table1 --scale ci --only L1-gd++ --device cpu --json --out "$work/again")
    run "${cell[@]}"
    expect 0 "one cell"
    grep -q "training L1-gd++" "$work/err"
    ok $? "it is trained"
    cp "$work/out" "$work/first"
    run "${cell[@]}"
    ! grep -q "training L1-gd++" "$work/err"
    ok $? "the second time it is not"
    same <(grep '"ours"' "$work/first") <(grep '"ours"' "$work/out") "and comes out the same, digit for digit"
    local trained=$work/again/versatile-table1-ci/runs/L1-gd++-uniform5-seed1
    cp "$trained/recipe.ini" "$work/recipe.ini"
    run train --resume "$trained" --device cpu --quiet
    expect 0 "train --resume goes into its folder"
    same "$work/recipe.ini" "$trained/recipe.ini" "and leaves its recipe, horizon and all"
    run "${cell[@]}"
    ! grep -q "training L1-gd++" "$work/err"
    ok $? "so that the reproduction knows it still"
    for arguments in "--list --json" \
        "versatile-table1 --scale ci --only L1-gd++ --device cpu --json --quiet --out $work/again"; do
        code=0
        # shellcheck disable=SC2086 # several arguments
        "$ICLAB" reproduce $arguments >/dev/full 2>"$work/err" || code=$?
        expect 3 "results that cannot be written"
    done
    cp "$work/again/versatile-table1-ci/findings.csv" "$work/findings"
    run "${cell[@]}" --quiet --seed 2 --only L9
    refused 2 "no cell's name contains that" "a cell that does not exist"
    same "$work/findings" "$work/again/versatile-table1-ci/findings.csv" "leaves the findings there were"
    local command; command=$(realpath "$ICLAB")
    mkdir -p "$work/shadow/versatile-table1"
    (cd "$work/shadow" && "$command" "${cell[@]}" --quiet >/dev/null 2>"$work/err")
    ok $? "recipes are not looked for in the current folder"
    sed -i 's/^steps = .*/steps = 3/' "$work"/again/versatile-table1-ci/runs/*/recipe.ini
    run "${cell[@]}" --quiet
    refused 2 "holds a run of another recipe" "a folder of another recipe"
}

# Several cores train several models at once; one core trains one after the other.
check_side_by_side() {
    for threads in 1 2; do
        run reproduce looped-exact --scale ci --only untied-d5-n20 --device "cpu:threads=$threads" --json --quiet \
            --out "$work/on$threads"
        expect 0 "three cells on $threads cores"
    done
    same "$work"/on{1,2}/looped-exact-ci/findings.csv "findings are the same"
    for layers in 1 2 3; do
        same "$work"/on{1,2}/looped-exact-ci/runs/untied-d5-n20-L"$layers"/model.safetensors \
            "and so is the model of $layers layers, in every bit"
    done
}

# found WHAT NOTE: a finding of that name whose note matches.
found() {
    grep -qE "\"note\":\"$2" < <(grep "\"what\":\"$1\"" "$work/out")
    ok $? "$1: $2"
}

# Each gap of the order is between neighbours, whether or not it has a verdict.
check_order() {
    found "softmax attention above delta rules, keys of 8" "softmax less (gated-)?delta"
    found "delta rules above gated linear attention, keys of 8" "(gated-)?delta less (gla|mamba2)"
    found "gated linear attention above plain linear attention, keys of 8" "(gla|mamba2) less linear"
    found "plain linear attention above convolutions, keys of 8" "linear less conv"
}

# The largest of the ratios, and where it is, by the picture's data.
check_scaled() {
    local data cell
    for data in "$work/out.d/$name-ci"/scaled-inputs-*.csv; do
        cell=$(basename "$data" .csv)
        awk -F, 'NR > 1 { apart = log($2 / $5); apart = apart < 0 ? -apart : apart }
            NR > 1 && apart > worst { worst = apart; at = $1 }
            END { printf "%.9g at %g:", worst, at }' "$data" >"$work/expected"
        grep "\"what\":\"${cell#scaled-inputs-}\",\"quantity\":\"inputs scaled" "$work/out" |
            sed -E 's/.*"ours":([^,]*).*"note":"(at [^:]*:).*/\1 \2/' |
            awk '{ printf "%.9g %s %s", $1, $2, $3 }' >"$work/seen"
        same "$work/expected" "$work/seen" "the largest ratio of $cell"
    done
}

if [[ $name == list ]]; then
    check_list "$@"
else
    run reproduce "$name" --scale ci --device cpu --json --out "$work/out.d"
    expect 0 "$name"
    while IFS= read -r finding; do
        [[ $finding != *'"judgement":"missed"'* ]]
        status=$?
        what=${finding#*'"what":"'}
        quantity=${finding#*'"quantity":"'}
        ok $status "${what%%'"'*}: ${quantity%%'"'*}"
        note <<<"$finding"
    done < <(grep '"judgement"' "$work/out")
    [[ $(value judgement | grep -c '^met$') -ge 1 ]]
    ok $? "something was judged"
    [[ $(grep -c . "$work/out.d/$name-ci/findings.csv") -eq $(($(grep -c '"judgement"' "$work/out") + 1)) ]]
    ok $? "findings.csv has a row for each"
    # targets.tsv is of planted numbers, and has what is judged and drawn.
    counted=$(awk -F '\t' -v name="$name" '$1 == "counts" && $2 == name { print $3 }' \
        "${BASH_SOURCE[0]%/*}/../papers/targets.tsv")
    found=$(grep -c '"judgement"' "$work/out")
    # Newton's steps end when they come to rounding, which is later in planted numbers.
    [[ $found -eq $counted || ($name == newton-descent && $found -le $counted) ]]
    ok $? "as many findings as targets.tsv has at scale ci: $found of $counted"
    # The claim is judged here by what is not computed, or, if that is so of no scale, by what is.
    judges=$(awk -F '\t' -v name="$name" '$1 == "targets" && $2 == name && $6 != "computed" { print $3 }' \
        "${BASH_SOURCE[0]%/*}/../papers/targets.tsv" | tr '\n' ' ')
    claimed=true
    [[ -z $judges || " $judges" == *" ci "* ]] || claimed=false
    said="does not hold|holds"
    [[ $claimed == true ]] || said="is not judged"
    grep -qE "\"claim_judged\":$claimed,\"verdict\":\"The claim ($said) at scale ci: " "$work/out"
    ok $? "the claim is judged at scale ci: $claimed"
    [[ $name != recall-mqar ]] || check_order
    [[ $name != gd-trained ]] || check_scaled
    if command -v gnuplot >/dev/null; then
        for script in "$work/out.d/$name-ci"/*.gp; do
            [[ -e $script ]] || continue
            [[ -s ${script%.gp}.svg && -s ${script%.gp}.png ]]
            ok $? "gnuplot drew $(basename "${script%.gp}")"
        done
    fi
fi
finish
