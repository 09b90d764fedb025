#!/usr/bin/env bash
# iclab predict without a run: what it prints and writes, rows without targets, and tables that are bad, odd or large:
# each gives an answer of numbers or one line. Arguments: the command, the folders of recipes and data.
set -uo pipefail
ICLAB=$1
data=$3
export ICLAB_RECIPES=$2 ICLAB_DEVICE=cpu
export OCL_ICD_VENDORS=/nowhere # no driver: none is needed
# shellcheck source=tests/tools/tap.sh
source "${BASH_SOURCE[0]%/*}/tap.sh"

# objects KEY: the JSON objects of the last run that begin with this key.
objects() {
    grep "^{\"$1\":" "$work/out"
}

# number PREDICTOR KEY: of that predictor's object.
number() {
    sed -n "s/^{\"predictor\":\"$1\".*\"$2\":\\([^,}]*\\).*/\\1/p" "$work/out"
}

# predict DATA ARGUMENTS...
predict() {
    run predict --quiet --data "$@"
}

refuse() { # PATTERN NAME TEXT ARGUMENTS...
    local pattern=$1 name=$2
    printf '%b' "$3" >"$work/bad.csv"
    shift 3
    predict "$work/bad.csv" --target y "$@"
    refused 2 "$pattern" "$name"
    [[ $(grep -c . "$work/err") -eq 1 ]]
    ok $? "  in one line"
}

# answers NAME TEXT ARGUMENTS...: the table is predicted, and every number of every predictor is one.
answers() {
    local name=$1
    printf '%b' "$2" >"$work/odd.csv"
    shift 2
    predict "$work/odd.csv" --target y --json "$@"
    expect 0 "$name"
    [[ $(objects predictor | grep -c .) -eq ${predictors:-6} ]] && ! grep -qE 'null|nan|inf' < <(objects predictor)
    ok $? "  with numbers of all predictors"
}

# ---- What is printed ----
predict "$data/swiss.csv" --target Fertility
expect 0 "swiss"
grep -q 'swiss.csv: 47 rows with the target Fertility, 5 features$' "$work/out"
ok $? "the first line says what was read"
for predictor in mean ridge neighbours gaussian_process model mixture; do
    grep -qE "^$predictor +47 +[0-9]" "$work/out"
    ok $? "the table has the row $predictor"
done
grep -qE '^best: [a-z_]+' "$work/out" && [[ $(sed -n '/^feature /,/^$/p' "$work/out" | grep -c .) -eq 6 ]]
ok $? "and the best, and a row for each feature"
grep -qE '^mixture: 0\.[0-9]+ ridge, 0\.[0-9]+ neighbours, 0\.[0-9]+ gaussian_process, 0\.[0-9]+ model$' "$work/out"
ok $? "and the weights of the mixture"
predict "$data/swiss.csv" --target Fertility --folds 47 --repeats 1 --json
# The mean's error, computed apart from this program in rational arithmetic; the interval's share lies about 80 %: four
# standard errors of 47 rows are .23.
awk -v mean="$(number mean mse)" -v share="$(number ridge coverage_80)" 'BEGIN {
    exit !(mean / 159.4347258979206 - 1 < 1e-10 && 1 - mean / 159.4347258979206 < 1e-10 && share > .57 && share < 1) }'
ok $? "each row from the others: the error of the mean is $(number mean mse)"
awk -v relative="$(number ridge relative_mse)" -v mse="$(number ridge mse)" -v mean="$(number mean mse)" 'BEGIN {
    exit !(relative - mse / mean < 1e-12 && mse / mean - relative < 1e-12) }'
ok $? "relative_mse is a quotient"
OMP_NUM_THREADS=1 "$ICLAB" predict --quiet --data "$data/swiss.csv" --target Fertility --json >"$work/one"
predict "$data/swiss.csv" --target Fertility --json
same "$work/one" "$work/out" "one thread gives the same bits"
code=0
"$ICLAB" predict --quiet --data "$data/swiss.csv" --target Fertility >/dev/full 2>"$work/err" || code=$?
expect 3 "results that cannot be written"

# ---- What is written ----
sed '3s/^[^,]*//; 7s/^[^,]*/NA/' "$data/swiss.csv" >"$work/gaps.csv"
predict "$work/gaps.csv" --target Fertility
refused 2 'gaps.csv:3: column 1 \(Fertility\): a missing value' "an empty target is an error"
predict "$work/gaps.csv" --target Fertility --predict --json --out "$work/gaps"
expect 0 "unless it is to be predicted"
cp "$work/out" "$work/gaps.json"
[[ $(objects file | grep -c .) -eq 2 ]] && grep -q '"line":3,"prediction":' < <(objects file | head -n 1)
ok $? "one object for each, with its line"
[[ $(grep -c . "$work/gaps/predictions.csv") -eq 3 && $(grep -c . "$work/gaps/heldout.csv") -eq 46 &&
    -s $work/gaps/result.json && -s $work/gaps/report.html && -s $work/gaps/predicted.csv ]]
ok $? "the folder has them, the held-out rows, the report and the picture's data"
awk -F, 'NR > 1 && !($3 < $4 && $4 < $2 && $2 < $5 && $5 < $6) { exit 1 }' "$work/gaps/predictions.csv"
ok $? "the intervals lie in each other about the prediction"
grep -q 'error of predictions by mixture is' "$work/gaps/report.html" &&
    grep -q 'Features that matter' "$work/gaps/report.html"
ok $? "the report names what predicts and the features"
grep -q '>mixture<' < <(grep -A1 '<tr class="strong">' "$work/gaps/report.html") &&
    [[ $(grep -c 'data-label="weight">0\.' "$work/gaps/report.html") -eq 4 ]] &&
    grep -q "data-label=\"weight\">$(printf '%.4g' "$(sed -n 's/^{"predictor":"model".*"weight":\([^,}]*\).*/\1/p' \
        "$work/gaps.json")")<" "$work/gaps/report.html"
ok $? "its row stands out, and the others have their weights"
# Weights by the errors, and a prediction by the weights, up to the digits of the numbers.
for predictor in ridge neighbours gaussian_process model; do
    echo "$(number $predictor mse) $(number $predictor weight) $(
        sed -n "s/^{\"file\":.*\"$predictor\":\([^,}]*\).*/\1/p" "$work/gaps.json" | head -n 1)"
done | awk -v found="$(sed -n 's/^{"file":.*"prediction":\([^,}]*\).*/\1/p' "$work/gaps.json" | head -n 1)" '
    { mse[NR] = $1; weight[NR] = $2; sum += 1 / $1 ^ 2; mean += $2 * $3 }
    END { for (i in mse) { off = weight[i] * mse[i] ^ 2 * sum - 1; if (off ^ 2 > 1e-10) exit 1 }
        exit !((mean / found - 1) ^ 2 < 1e-10) }'
ok $? "weights are one over the square of errors, and predictions are mixed by them"
if command -v gnuplot >/dev/null; then
    [[ -s $work/gaps/predicted.svg && -s $work/gaps/predicted.png ]] && grep -q yerrorbars "$work/gaps/predicted.gp"
    ok $? "gnuplot drew predictions with bars over targets"
else
    echo "# gnuplot is not installed: its pictures are not tested"
fi
(head -n 1 "$data/swiss.csv" && sed -n '3p;7p' "$data/swiss.csv") | cut -d , -f 2- >"$work/new.csv"
grep -v -e '^,' -e '^NA,' "$work/gaps.csv" >"$work/full.csv"
predict "$work/full.csv" --target Fertility --new "$work/new.csv" --json
expect 0 "rows of another file, without the target's column"
same <(sed -n 's/^{"file":.*"prediction"/prediction/p' "$work/gaps.json") \
    <(sed -n 's/^{"file":.*"prediction"/prediction/p' "$work/out") "are predicted the same"
mkdir -p "$work/blocked/heldout.csv"
predict "$data/swiss.csv" --target Fertility --out "$work/blocked"
expect 3 "heldout.csv cannot be written"

# ---- Bad tables ----
refuse 'the target is the same in every row' "a constant target" 'a,y\n1,2\n2,2\n3,2\n4,2\n5,2\n'
refuse 'the target is text \("u"\): expected a column of numbers' "a target of text" 'a,y\n1,u\n2,v\n3,u\n4,w\n5,u\n'
refuse '0 rows with a target: expected at least 4' "a target that is missing everywhere" \
    'a,y\n1,\n2,\n3,\n4,\n5,\n' --predict
refuse 'column 2 \(y\): a missing value' "the same without --predict" 'a,y\n1,\n2,\n3,\n4,\n5,\n'
refuse '1 row with a target: expected at least 4' "one row" 'a,y\n1,2\n'
refuse 'no column beside the target' "no feature" 'y\n1\n2\n3\n4\n5\n'
refuse '"inf".*expected' "an infinite feature" 'a,y\n1,2\n2,3\ninf,5\n4,4\n5,7\n'
refuse '"-Infinity".*expected' "an infinite target" 'a,y\n1,2\n2,3\n3,-Infinity\n4,4\n5,7\n'
refuse '1e400.*expected' "a number that no double holds" 'a,y\n1,2\n2,3\n1e400,5\n4,4\n5,7\n'
refuse 'too large a number "1e101": expected magnitudes up to 1e100' "a number whose square could not be summed" \
    'a,y\n1,2\n2,3\n1e101,5\n4,4\n5,7\n'
refuse '5 rows with a target for 6 folds.*--folds 5' "more folds than rows" 'a,y\n1,2\n2,3\n3,5\n4,4\n5,7\n' --folds 6
refuse '--prompts without a model of linear regression' "prompts without a model" 'a,y\n1,2\n' --prompts 3
refuse '--inputs without a model of linear regression' "inputs without a model" 'a,y\n1,2\n' --inputs whitened
{
    seq -s , -f 'x%.0f' 501 | sed 's/$/,y/'
    for row in 1 2 3 4 5; do
        seq -s , "$row" "$row" $((501 * row)) | sed "s/\$/,$((row * row % 4))/"
    done
} >"$work/wide.csv"
predict "$work/wide.csv" --target y
refused 2 '501 features: expected at most 500; --columns and --exclude' "501 features"

# ---- Odd tables ----
answers "more features than rows" \
    'a,b,c,d,e,f,y\n1,5,2,7,3,1,4\n2,3,9,1,4,4,6\n8,1,3,2,2,5,3\n4,4,1,8,7,3,9\n5,9,6,3,1,2,2\n'
answers "rows that are all the same, but for one" 'a,y\n1,2\n1,2\n1,2\n1,2\n1,2\n1,2\n2,3\n'
answers "the same features in every row, as asked for" 'a,y\n1,2\n1,4\n1,3\n1,7\n1,5\n1,1\n' --columns a
answers "a column of huge numbers" 'a,b,y\n1e99,1,2\n-9e99,2,4\n3e98,3,5\n1e97,4,7\n2e99,5,9\n-1e99,6,13\n'
answers "a column of tiny differences" \
    'a,b,y\n1,1,2\n1.000000000000001,2,4\n1,3,5\n1,4,7\n1,5,9\n1.000000000000002,6,13\n'
answers "huge targets" 'a,y\n1,1e99\n2,3e99\n3,4e99\n4,8e99\n5,9e99\n6,7e99\n'
answers "columns that say the same" 'a,b,y\n1,2,2\n2,4,4\n3,6,5\n4,8,7\n5,10,9\n6,12,13\n'
answers "semicolons, decimal commas and a missing feature" \
    'a;b;y\n1,5;2;2\n2,5;;4\n3,5;6;5\n4,5;8;7\n5,5;9;9\n6,5;2;13\n' --impute median
printf 'a\n1e50\n' >"$work/far.csv"
printf 'a,y\n1,2\n2,3\n3,5\n4,6\n5,7\n6,9\n' >"$work/line.csv"
predict "$work/line.csv" --target y --new "$work/far.csv" --json
grep -qx '{"note":"1 of 1 predictions for new rows lie far outside the labels, 2 to 9: .*"}' < <(objects note)
ok $? "a row far away is said to be one"

# ---- A series ----
# Rows of a season of six, which repeats itself: 1 4 3 6 5 8.
{
    echo year,note,x,y
    for t in $(seq 60); do
        case $((t % 6)) in 0) y=8 ;; 1) y=1 ;; 2) y=4 ;; 3) y=3 ;; 4) y=6 ;; 5) y=5 ;; esac
        echo "$((1900 + t)),n$((t % 3)),$((t * t % 7)),$y"
    done
} >"$work/series.csv"
predict "$work/series.csv" --target y --lags 2 --season 6 --json
expect 0 "a series"
# Of 60 rows the first 6 lack it; of the other 54 the first of 11 parts, 4 rows, is only learned from.
[[ $(objects predictor | grep -c .) -eq 9 && $(objects column | grep -c .) -eq 4 ]] &&
    grep -q '"lags":2,"ahead":1,"season":6,"held_out":50' < <(objects data)
ok $? "its values before and that of a season are the features, and three more methods forecast it"
awk -v season="$(number last_season mse)" -v last="$(number last_value mse)" 'BEGIN {
    exit !(season < 1e-20 && last > 1) }'
ok $? "a season repeats itself: $(number last_season mse)"
grep -q '"line":62,"prediction":' < <(objects file) &&
    grep -q '"note":"errors of a series are correlated' < <(objects note)
ok $? "the row after the last one is forecast, and errors are said to be correlated"
cp "$work/out" "$work/whole"
predict "$work/series.csv" --target y --lags 2 --columns x --out "$work/lagged"
expect 0 "a series with a feature"
grep -q '^held out: 53 rows in the order of time, in 10 folds' "$work/out" && grep -q '^x\[t-1\] ' "$work/out" &&
    grep -q '^ols ' "$work/out"
ok $? "the feature is that of the row before"
awk -F, 'NR == 1 { exit !/^line,target,prediction.*,last_value,ols,mixture$/ }' "$work/lagged/heldout.csv" &&
    [[ $(grep -c . "$work/lagged/heldout.csv") -eq 54 && $(grep -c . "$work/lagged/predictions.csv") -eq 2 ]]
ok $? "heldout.csv has the rows forecast, predictions.csv the one that follows"
# Other values from line 52 on change no forecast before it.
awk -F, -v OFS=, 'NR >= 52 { $4 = 1000 - $4; $3 = -$3 } 1' "$work/series.csv" >"$work/later.csv"
predict "$work/later.csv" --target y --lags 2 --columns x --out "$work/bent"
awk -F, -v OFS=, '$1 < 52 { $2 = ""; print }' "$work/bent/heldout.csv" >"$work/bent.early"
awk -F, -v OFS=, '$1 < 52 { $2 = ""; print }' "$work/lagged/heldout.csv" >"$work/lagged.early"
[[ $(cut -d , -f 1 "$work/lagged.early" | grep -c .) -gt 35 ]]
ok $? "rows before the change"
cut -d , -f 8- "$work/lagged.early" >"$work/lagged.forecasts"
cut -d , -f 8- "$work/bent.early" >"$work/bent.forecasts"
same "$work/lagged.forecasts" "$work/bent.forecasts" "keep their forecasts when the future is another"
series='y\n1\n3\n2\n5\n4\n7\n6\n9\n8\n1\n3\n2\n5\n4\n7\n6\n9\n8\n'
refuse '--lags 0: expected 1 to 500' "no lags" "$series" --lags 0
refuse '--lags' "lags below 0" "$series" --lags -3
refuse '--lags two' "lags that are no number" "$series" --lags two
refuse '--lags 501: expected 1 to 500' "too many lags" "$series" --lags 501
refuse '18 rows, and a forecast needs the 18 before it' "more lags than rows allow" "$series" --lags 18
refuse '7 rows with their lags for 2 folds' "more lags than folds allow" "$series" --lags 11
refuse '12 rows with their lags for 6 folds.*at least 28.*or folds' "more folds than rows allow" "$series" \
    --lags 6 --folds 6
refuse 'bad.csv:4: column 1 \(y\): a missing value: expected a number in every row' "a gap" \
    'y\n1\n3\nNA\n5\n4\n7\n6\n9\n8\n1\n3\n2\n5\n4\n7\n6\n' --lags 1
refuse 'the target is text' "a series of text" 'y\nu\nv\nu\nw\nu\nv\n' --lags 1
refuse 'text "u": expected numbers' "a feature of text" 'a,y\nu,1\nv,2\nu,4\nv,3\nu,5\n' --lags 1 --columns a
refuse 'season of 2 rows for forecasts 3 rows ahead' "a season that is over" "$series" --lags 1 --season 2 --ahead 3
refuse '--ahead without --lags' "rows ahead without lags" "$series" --ahead 2
refuse '--season without --lags' "a season without lags" "$series" --season 2
for option in '--new series.csv' --predict --drop-missing '--repeats 2'; do
    # shellcheck disable=SC2086 # an option and its value
    refuse "--lags and ${option%% *}: expected one of them" "lags and ${option%% *}" "$series" --lags 2 $option
done

# ---- The model of tables that ships, and another one ----
predict "$data/swiss.csv" --target Fertility --repeats 1 --json
host=$(number model mse)
predict "$data/swiss.csv" --target Fertility --repeats 1 --json --device ref
double=$(number model mse)
[[ $host != "$double" ]] && awk -v a="$host" -v b="$double" 'BEGIN { exit !((a - b) ^ 2 < (1e-3 * b) ^ 2) }'
ok $? "the model that ships runs on the device that is asked for: $host, $double"
awk 'BEGIN { for (j = 1; j <= 21; j++) printf "f%d,", j; print "y"
    for (i = 1; i <= 30; i++) { for (j = 1; j <= 21; j++) printf "%d,", i * j * j % 23; print i * i % 13 } }' \
    >"$work/broad.csv"
predict "$work/broad.csv" --target y
grep -qx 'the model is left out: it takes at most 20 features, not 21' "$work/out" && ! grep -q '^model ' "$work/out"
ok $? "it is left out where a table has too many features"
run train tables-quick --set task.d=5 --set task.n=12 --set model.layers=1 --set model.width=16 \
    --set model.key_width=7 --set model.value_width=8 \
    --set model.heads=2 --set train.batch=2 --set train.warmup=0 --set eval.every=0 \
    --set eval.sequences=4 --steps 2 --quiet --out "$work/tables"
expect 0 "a model of tables, barely trained"
run predict "$work/tables" --quiet --data "$data/swiss.csv" --target Fertility --repeats 1 --json
expect 0 "predicts beside the others"
[[ $(objects predictor | grep -c .) -eq 6 ]] && ! grep -qE 'null|nan|inf' < <(objects predictor) &&
    grep -q '^{"predictor":"model","rows":47,' "$work/out"
ok $? "  with a row of its own"
run predict "$work/tables" --quiet --data "$data/swiss.csv" --target Fertility --out "$work/modelled"
expect 0 "  in a report, too"
grep -q '^model  *47 ' "$work/out" && grep -q '>model<' "$work/modelled/report.html"
ok $? "  where it has its row"
run predict "$work/tables" --quiet --data "$data/states.csv" --target 'Life Exp'
grep -qx 'the model is left out: it takes at most 5 features, not 7' "$work/out" && ! grep -q '^model ' "$work/out"
ok $? "a table of too many features does without it, and says so"
run predict "$work/tables" --data "$data/swiss.csv" --target Fertility --prompts 3
refused 2 '--prompts without a model of linear regression' "it has no prompts"

# ---- A large table ----
awk 'BEGIN { print "a,b,y"; for (i = 1; i <= 100000; i++) { a = i * 7919 % 1009 / 1009; b = i * 104729 % 997 / 997
    print a "," b "," 3 * a + (i * 15485863 % 991) / 991 } }' >"$work/large.csv"
predict "$work/large.csv" --target y --folds 2 --context 60
expect 0 "100,000 rows"
grep -qE '^ridge +100000 ' "$work/out" && grep -qE '^gaussian_process +60 ' "$work/out" &&
    grep -qx 'neighbours, gaussian_process, model learned from 60 random rows of 100000' "$work/out"
ok $? "the table says who learned from how many"
finish
