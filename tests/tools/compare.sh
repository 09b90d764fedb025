#!/usr/bin/env bash
# `iclab compare` on the host's own devices: tables, JSON, CSV, repro lines, exit codes. Exit code 1 has its tests in
# tests/mutation, --train in compare_training.sh. Arguments: iclab, python3, the folder of recipes.
set -u
subcommand=compare
# shellcheck source=tests/tools/rows.sh
source "${BASH_SOURCE[0]%/*}/rows.sh"
pair=(--device cpu --against ref)

run "${pair[@]}" --op 'sum ('
[[ $code -eq 0 ]] && grep -q '^sum .* PASS$' "$work/out" && grep -q 'cases: .* 0 failed, 0 skipped' "$work/out" &&
    grep -q '^closest to its bound: sum ' "$work/out"
ok $? "a table with one line for the op, and a summary"
[[ $(sed -n 1p "$work/out") == 'cpu against ref, each judged by the exact result' &&
    $(sed -n 3p "$work/out" | tr -s ' ') == 'op cases device against device '* ]]
ok $? "below what is compared, and names of the columns"

# A third of all cases, of every op; the tests of conformance have all of them.
run "${pair[@]}" --op padded --json --quiet
[[ $code -eq 0 && ! -s $work/err ]]
ok $? "every case of padded operands passes on cpu and ref"
json "one object per case, at least 2000, within their bounds, every op among them, and a summary that counts them" \
    "import re; table = open('${BASH_SOURCE[0]%/*}/../../src/backend/op_table.h').read()" <<'EOT'
*cases, last = rows
s = last["summary"]
ops = set(re.findall(r"\bOP\((\w+), \d", table))
assert s["cases"] == len(cases) >= 2000, s
assert s["failed"] == s["skipped"] == 0 and 0 < s["worst"] <= 1, s
assert {c["op"] for c in cases} == ops
assert len({c["case"] for c in cases}) == len(cases), "two cases of one name"
assert all(c["error_over_bound"] <= 1 and c["against_error_over_bound"] <= 1 for c in cases)
assert all(c["bit_equal"] == 1 for c in cases if c["op"] == "random_fill"), "data differ between devices"
assert s["worst_case"] in {c["case"] for c in cases}
assert all((c["worst_value"] is None) == (c["worst_truth"] is None) == (c["worst_against"] is None) for c in cases
           if c["worst"]), "a result of NaN alone has no value"
assert all(abs(c["worst_value"] - c["worst_truth"]) <= c["worst_bound"] for c in cases
           if c["worst_value"] is not None and c["case"].endswith(" random")), "beyond its bound"
assert all(c["worst_value"] is None for c in cases if not c["worst"]), "the value of no element"
flat = {c["op"] for c in cases if c["verdict"] == "MISTRUSTED"}
assert "reduce" in flat and "fill" not in flat, "results that are all alike say little, but where they should be"
EOT

cp "$work/out" "$work/all"
"$python" -c "
import json
row = [json.loads(line) for line in open('$work/all')][1000]
open('$work/row', 'w').write(json.dumps(row))
print(row['repro'].replace('iclab', '\"\$iclab\"', 1))" >"$work/repro.sh"
iclab=$iclab bash "$work/repro.sh" >"$work/out" 2>"$work/err" &&
    grep -q '^1 cases: ' "$work/out" && [[ $(grep -c ' PASS$' "$work/out") -eq 1 ]]
ok $? "a repro line runs one case"
echo "$(cat "$work/repro.sh") --json --quiet" >"$work/repro.sh"
iclab=$iclab bash "$work/repro.sh" >"$work/out" 2>"$work/err"
json "and gives the same object" <<EOT
assert len(rows) == 2 and rows[0] == json.load(open("$work/row"))
EOT

run "${pair[@]}" --op 'update adam (' --json --quiet
cp "$work/out" "$work/seed0"
run "${pair[@]}" --op 'update adam (' --json --quiet --seed 1
json "another seed gives other values within the same bounds" <<EOT
before = [json.loads(line) for line in open("$work/seed0")]
assert len(before) == len(rows) and rows[-1]["summary"]["failed"] == 0
assert any(a["worst_truth"] != b["worst_truth"] for a, b in zip(rows[:-1], before[:-1]))
EOT

run "${pair[@]}" --op 'fill (' --csv --quiet
"$python" - <<EOT 2>"$work/err"
import csv
rows = list(csv.DictReader(open("$work/out")))
assert rows and all(None not in r and r["op"] == "fill" and float(r["error_over_bound"]) <= 1 for r in rows)
EOT
ok $? "CSV has a header and a row for each case"

run "${pair[@]}" --op 'fill (' --all --quiet
[[ $code -eq 0 && $(grep -c '^PASS .*fill (' "$work/out") -eq 31 ]] && ! grep -q copy "$work/out"
ok $? "--all prints each case"

run "${pair[@]}" --op 'fill (' --seconds 0.000001 --json --quiet
json "--seconds ends the comparison after the first case, and says how many it left out" <<'EOT'
assert len(rows) == 2 and rows[0]["op"] == "fill" and rows[0]["verdict"] == "PASS", rows
assert (rows[1]["summary"]["cases"], rows[1]["summary"]["left_out"]) == (1, 30), rows[1]
EOT
run "${pair[@]}" --op 'fill (' --seconds 0.000001 --quiet
[[ $code -eq 0 && $(grep -c '^PASS .*fill (' "$work/out") -eq 1 ]] &&
    grep -q '^left out, because the time was over: 30 cases$' "$work/out"
ok $? "and the table says it, too"

refused 2 '--seconds 0: expected more than 0' "no time at all" "${pair[@]}" --seconds 0
refused 2 'expected a number, 0 or more' "a time that is negative" "${pair[@]}" --seconds -1
refused 2 '--seconds' "--seconds is refused beside --train" "${pair[@]}" --train quickstart --seconds 1
refused 2 '"no-such-op"' "a pattern without a case is bad input" "${pair[@]}" --op no-such-op
refused 2 'gpux' "a malformed device is bad input" --device gpux
refused 3 'no-such-device' "a device that is not here is a device failure" --device opencl:no-such-device
refused 2 '--against' "an option without its value is bad usage" --against
refused 2 '--train' "--steps is refused without --train" "${pair[@]}" --steps 3
refused 2 '--op' "--op is refused beside --train" "${pair[@]}" --train quickstart --op sum

finish
