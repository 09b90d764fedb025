#!/usr/bin/env bash
# iclab predict on tables: files and pipes, the shipped data, rows without targets, and bad ones,
# each refused with one line. Arguments: the command, the folder of recipes, the folder of data.
set -uo pipefail
ICLAB=$1
export ICLAB_RECIPES=$2 ICLAB_DEVICE=cpu
data=$3
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
    run predict "$work/run" --quiet --data "$@"
}

# A pattern as the message has it, of a table given on standard input.
refuse() { # PATTERN NAME TEXT ARGUMENTS...
    local pattern=$1 name=$2
    printf '%b' "$3" >"$work/bad.csv"
    shift 3
    predict "$work/bad.csv" --target y "$@"
    refused 2 "$pattern" "$name"
    [[ $(grep -c . "$work/err") -eq 1 ]]
    ok $? "  in one line"
}

run train predict --set train.steps=200 --set train.batch=64 --set train.growth=50 --set train.warmup=20 \
    --set eval.sequences=50 \
    --set eval.fit_sequences=50 --set eval.every=0 --quiet --out "$work/run"
expect 0 "a model for tables, barely trained"

# ---- Warnings ----
printf 'a,b,y\n1,10,3\n2,20.00001,5\n3,30,8\n4,40.00001,9\n5,50,12\n6,60,13\n' >"$work/same.csv"
printf 'a,b\n1e39,1e39\n2,20\n' >"$work/far.csv"
predict "$work/same.csv" --target y --folds 2 --new "$work/far.csv" --json
expect 0 "columns that are nearly the same, and a row far away"
grep -qx '{"note":"columns a, b nearly determine each other: what they differ by is left out of what is learned"}' \
    < <(objects note)
ok $? "JSON has what is said of the columns"
grep -qx "{\"note\":\"1 of the model's predictions are not finite: .*\"}" < <(objects note)
ok $? "and of the row"
grep -q '"not_finite":1,' < <(objects data)
ok $? "which is counted"

# ---- The shipped data ----
predict "$data/swiss.csv" --target Fertility
expect 0 "swiss"
for predictor in model mean ols ridge adarr; do
    grep -qE "^$predictor +[0-9]" "$work/out"
    ok $? "the table has the row $predictor"
done
grep -q 'swiss.csv: 47 rows with the target Fertility, 5 features of the model.s 8 inputs' "$work/out"
ok $? "and says what was shown to the model"
predict "$data/swiss.csv" --target Fertility --json --out "$work/swiss"
expect 0 "as JSON, and into a folder"
cp "$work/out" "$work/swiss.json"
[[ $(objects predictor | grep -c .) -eq 5 && $(objects column | grep -c .) -eq 6 && $(objects data | grep -c .) -eq 1 ]]
ok $? "an object for each predictor and column, and one for all"
facts='"rows":47,"features":5,"dimension":8,"inputs":"whitened",.*"trained_context":40,"prompts":1,"folds":5,"repeats":10'
grep -q "$facts,\"seed\":1," < <(objects data)
ok $? "that one says how it was done"
grep -q '"column":"Infant Mortality","number":6,"role":"feature","mean":19.942553191489' < <(objects column)
ok $? "standardization is recorded"
grep -q '<tr class="strong">' "$work/swiss/report.html" && [[ -s $work/swiss/residuals.csv ]] &&
    grep -q "It is better than mean; not clearly different from ols, ridge, adarr\." "$work/swiss/report.html"
ok $? "the report has the errors, the residuals and the verdict of the screen"
grep -q "5 of the model&#39;s 8 inputs, standardized and whitened<" "$work/swiss/report.html"
ok $? "and how inputs were scaled"
[[ $(grep -c . "$work/swiss/heldout.csv") -eq 48 && $(grep -c . "$work/swiss/standardization.csv") -eq 7 &&
    ! -e $work/swiss/predictions.csv ]]
ok $? "the folder has a held-out prediction of every row and the standardization of every column"
grep -q '^"Infant Mortality",6,feature,19.94' "$work/swiss/standardization.csv"
ok $? "by name"
if command -v gnuplot >/dev/null; then
    [[ -s $work/swiss/predicted.svg && -s $work/swiss/predicted.png ]]
    ok $? "gnuplot drew predictions over targets"
else
    echo "# gnuplot is not installed: its pictures are not tested"
fi
awk -F, -v seen="$(number mean minus_model)" 'BEGIN { exit !(seen > 0) }'
ok $? "even this model is better than the mean"
predict "$data/swiss.csv" --target Fertility --folds 47 --repeats 1 --json
# Computed apart from this program, in rational arithmetic.
awk -v ols="$(number ols mse)" -v mean="$(number mean mse)" 'function far(a, b) { return a < b ? b / a - 1 : a / b - 1 }
    BEGIN { exit !(far(ols, 59.88621322401251) < 1e-10 && far(mean, 159.4347258979206) < 1e-10) }'
ok $? "each row from the others: the errors of ols and mean are $(number ols mse) and $(number mean mse)"

# ---- A series ----
predict "$data/swiss.csv" --target Fertility --lags 3 --ahead 2 --season 6 --json --out "$work/series"
expect 0 "a series"
# Of 47 rows the first 6 lack a past; of the other 41 the first of 8 parts, 5 rows, is only learned from.
grep -q '"rows":41,"features":4,.*"folds":7,"repeats":1,.*"lags":3,"ahead":2,"season":6,"held_out":36' < <(objects data)
ok $? "its lags and its season are features"
awk -v last="$(number last_value mse)" -v season="$(number last_season mse)" 'NR > 1 {
        target[NR] = $1; if (NR > 12) {
            a += (target[NR] - target[NR - 2]) ^ 2; b += (target[NR] - target[NR - 6]) ^ 2 } }
    END { exit !(a / 36 / last - 1 < 1e-9 && last / a * 36 - 1 < 1e-9 && b / 36 / season - 1 < 1e-9 &&
        season / b * 36 - 1 < 1e-9) }' FS=, "$data/swiss.csv"
ok $? "the errors of the last value and of a season before: $(number last_value mse), $(number last_season mse)"
[[ $(head -n 1 "$work/series/heldout.csv") == line,target,model,mean,ols,ridge,adarr,last_value,last_season &&
    $(grep -c . "$work/series/heldout.csv") -eq 37 && $(tail -n 1 "$work/series/predictions.csv") == 50,* ]]
ok $? "stand in heldout.csv, too, and predictions.csv has the row 2 rows after the last"
predict "$data/swiss.csv" --target Fertility --lags 3 --prompts 2
refused 2 '--lags and --prompts: expected one of them' "prompts of a series"

# shellcheck disable=SC2094
"$ICLAB" predict "$work/run" --quiet --data - --target 1 --json <"$data/swiss.csv" >"$work/piped" 2>"$work/err"
same <(grep '^{"predictor"' "$work/swiss.json") <(grep '^{"predictor"' "$work/piped") \
    "from a pipe the same, the target by its number"
OMP_NUM_THREADS=1 "$ICLAB" predict "$work/run" --quiet --data "$data/swiss.csv" --target Fertility \
    --json >"$work/one" 2>"$work/err"
same <(sed 's/,"folder":.*//' "$work/swiss.json") <(sed 's/,"folder":.*//' "$work/one") \
    "one thread gives the same bits"
for arguments in "" --json; do
    code=0
    # shellcheck disable=SC2086 # none, or one
    "$ICLAB" predict "$work/run" --quiet --data "$data/swiss.csv" --target Fertility \
        $arguments >/dev/full 2>"$work/err" || code=$?
    expect 3 "results that cannot be written ($arguments)"
done

predict "$data/states.csv" --target "Life Exp"
expect 0 "states"
grep -q 'column 1 (State): another text in every row: left out' "$work/out"
ok $? "names are no features, which is said"
predict "$data/states.csv" --target "Life Exp" --columns State,Murder
refused 2 'states.csv:2: column 1 \(State\): text "Alabama": expected numbers; --one-hot' "unless they are asked for"
predict "$data/states.csv" --target "Life Exp" --columns 'Murder,"HS Grad",9,Frost,Income'
expect 0 "with a choice of columns"
predict "$data/states.csv" --target "Life Exp" --columns 2,3,4,6,7,8,9 --inputs standardized --folds 50 --repeats 1 \
    --json --out "$work/states"
expect 0 "each row from the others, standardized"
grep -q "7 of the model&#39;s 8 inputs, standardized<" "$work/states/report.html"
ok $? "which the report says"
grep -q '"inputs":"standardized"' "$work/out"
ok $? "and it says so"
grep -q '"context":50,.*"prompts":1,' "$work/out"
ok $? "a model of means takes all rows"
predict "$data/swiss.csv" --target Fertility --context 12 --prompts 3 --json
grep -q '"context":12,.*"prompts":3,' "$work/out"
ok $? "or as many as asked for, more than once"

# ---- Rows without targets ----
sed '3s/^[^,]*//; 7s/^[^,]*/NA/' "$data/swiss.csv" >"$work/gaps.csv"
predict "$work/gaps.csv" --target Fertility
refused 2 'gaps.csv:3: column 1 \(Fertility\): a missing value' "an empty target is an error"
predict "$work/gaps.csv" --target Fertility --predict --json --out "$work/gaps"
expect 0 "unless it is to be predicted"
[[ $(objects file | grep -c .) -eq 2 ]] && grep -q '"line":3,"model":' < <(objects file | head -n 1)
ok $? "one object for each, with its line"
cp "$work/out" "$work/gaps.json"
[[ $(grep -c . "$work/gaps/predictions.csv") -eq 3 && $(grep -c . "$work/gaps/heldout.csv") -eq 46 ]]
ok $? "predictions.csv has them, heldout.csv the others"
# A folder stands where a file would go: each of them in turn.
for file in predictions.csv heldout.csv standardization.csv; do
    mkdir -p "$work/blocked-$file/$file"
    predict "$work/gaps.csv" --target Fertility --predict --out "$work/blocked-$file"
    expect 3 "$file cannot be written"
    [[ $(grep -c "/$file: Is a directory" "$work/err") -eq 1 ]] && grep -q '^ols ' "$work/out"
    ok $? "one line says so, behind the results"
done
(head -n 1 "$data/swiss.csv" && sed -n '3p;7p' "$data/swiss.csv") | cut -d , -f 2- >"$work/new.csv"
grep -v -e '^,' -e '^NA,' "$work/gaps.csv" >"$work/full.csv"
predict "$work/full.csv" --target Fertility --new "$work/new.csv" --json
expect 0 "rows of another file, without the target's column"
same <(sed -n 's/^{"file":.*"model"/model/p' "$work/gaps.json") <(sed -n 's/^{"file":.*"model"/model/p' "$work/out") \
    "are predicted the same"
predict "$work/full.csv" --target Fertility --new "$work/new.csv"
[[ $(sed -n '/^line /,$p' "$work/out" | grep -c .) -eq 3 ]]
ok $? "the table for people ends with them"
sed 's/Education/Schooling/' "$work/new.csv" >"$work/other.csv"
predict "$work/full.csv" --target Fertility --new "$work/other.csv"
refused 2 'other.csv:1: no column "Education"' "a feature that the other file lacks"

# ---- What is refused ----
refuse 'bad.csv:1: empty' "an empty file" ''
refuse 'a header and no rows' "a header alone" 'a,y\n'
refuse '1 row with a target: expected at least 4' "one row" 'a,y\n1,2\n'
refuse 'no column beside the target: .* feature; --separator says what' "one column" 'y\n1\n2\n3\n4\n5\n'
refuse 'no column beside the target: .*; --columns takes one that was left' "one beside a constant" \
    'y,x\n1,3\n2,3\n3,3\n4,3\n5,3\n'
refuse 'no column beside the target: .*; --one-hot makes columns of text' "one beside categories" \
    'y,x,z\n1,3,a\n2,3,b\n3,3,a\n4,3,b\n5,3,a\n'
refuse 'the target is the same in every row' "a constant target" 'a,y\n1,2\n2,2\n3,2\n4,2\n5,2\n'
refuse 'bad.csv:3: a line of 3 columns: expected 2' "ragged lines" 'a,y\n1,2\n1,2,3\n'
refuse 'bad.csv:2: column 1 \(a\): a missing value "NaN".*--drop-missing' "NaN" 'a,y\nNaN,2\n1,2\n2,1\n'
refuse 'bad.csv:2: column 2: a quote that is never closed' "a quote left open" 'a,y\r\n1,"2\r\n'
refuse '9 features: expected at most 8, the d of the model in .*--exclude.*task.d=9' "more features than a model has" \
    'a,b,c,d,e,f,g,h,k,y\n1,2,3,4,5,6,7,8,9,0\n'
refuse '5 rows with a target for 6 folds.*--folds 5' "more folds than rows" 'a,y\n1,2\n2,3\n3,5\n4,4\n5,7\n' --folds 6
refuse '1 row with a target: expected at least 4 in --data' "a short table of semicolons" 'a;y\n1;2\n'
refuse 'of one column .*: expected .* --separator comma, .* or a character; iclab.read_table in Python' "colons" \
    'a:y\n1:2\n'
refuse 'separator xy: expected comma, semicolon, tab, pipe or one character' "a separator of two characters" \
    'a,y\n1,2\n' --separator xy
refuse '--drop-missing and --impute: expected one of them' "two rules for what is missing" 'a,y\n1,2\n' \
    --drop-missing --impute mean
refuse 'no column "z"' "a column that is not there" 'a,y\n1,2\n' --columns z
refuse 'expected one of auto\|yes\|no' "an unknown word" 'a,y\n1,2\n' --header maybe
refuse '--folds 1: expected 2 to' "one fold" 'a,y\n1,2\n' --folds 1
refuse '--new and --predict: expected one of them' "two sorts of rows to predict" 'a,y\n1,2\n' --predict --new x.csv
predict "$work/none.csv" --target y
refused 2 'none.csv: no such file' "no such file"
predict "$data/swiss.csv"
refused 2 '--target is missing: expected --data' "no target"
run predict "$work/run"
refused 2 '--data is missing: expected --data' "no data"
run predict "$work/nowhere" --data "$data/swiss.csv" --target 1 --quiet
refused 2 'nowhere' "no run"

# What is too large is refused as it comes: the writer is cut off long before its end.
(head -c 2147483648 /dev/zero | tr '\0' 7 && : >"$work/whole") 2>/dev/null |
    "$ICLAB" predict "$work/run" --quiet --data - --target y >"$work/out" 2>"$work/err"
codes=("${PIPESTATUS[@]}")
[[ ${codes[1]} -eq 2 && ! -s $work/out && ! -e $work/whole ]] &&
    grep -q 'standard input:1: a record that goes on for more than' "$work/err"
ok $? "a line of 2 GB is refused in its first megabyte"
note <"$work/err"
(seq -s , 100000 && seq -s , 100000) 2>/dev/null |
    "$ICLAB" predict "$work/run" --quiet --data - --target 1 >"$work/out" 2>"$work/err"
codes=("${PIPESTATUS[@]}")
[[ ${codes[1]} -eq 2 ]] && grep -q 'standard input:1: more than 10000 columns' "$work/err"
ok $? "100,000 columns are refused"
finish
