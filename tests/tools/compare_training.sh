#!/usr/bin/env bash
# `iclab compare --train` on the host's own devices: tables, JSON, pictures, exit codes. Arguments: iclab, python3, the
# folder of recipes.
set -u
subcommand=compare
# shellcheck source=tests/tools/rows.sh
source "${BASH_SOURCE[0]%/*}/rows.sh"
pair=(--device cpu --against ref)

train=(--train quickstart --set train.batch=16 --set train.growth=0 --steps 12)
run "${pair[@]}" "${train[@]}" --out "$work/files"
[[ $code -eq 0 ]] && grep -q '^forced: ' "$work/out" && grep -q '^free-running: ' "$work/out" &&
    grep -q '^0 steps failed' "$work/out"
ok $? "training steps are compared in both modes"
shown() { # the steps of which both modes have a row
    sed -nE 's/^ +([0-9]+) +[-0-9].*/\1/p' "$work/out" | tr '\n' ' '
}
[[ $(shown) == "1 2 5 10 12 1 2 5 10 12 " ]]
ok $? "rows of 1, 2, 5, 10 and the last step of each"
[[ $(wc -l <"$work/files/forced.csv") -eq 13 && $(wc -l <"$work/files/free.csv") -eq 13 ]]
ok $? "a table of every step is written for each mode"
if command -v gnuplot >/dev/null; then
    grep -q '<svg' "$work/files/training.svg"
    ok $? "and the picture"
fi
env PATH="$work" "$iclab" compare "${pair[@]}" "${train[@]}" --out "$work/bare" >"$work/out" 2>"$work/err" &&
    [[ -s $work/bare/training.gp && ! -e $work/bare/training.svg ]] && grep -q 'no gnuplot here' "$work/err"
ok $? "without gnuplot the script is written, and a line says so"

run "${pair[@]}" "${train[@]}" --json --quiet --out "$work/read"
json "CSV files have the numbers of JSON, by their names" "folder = '$work/read'" <<'EOT'
import csv, struct
def is_same(field, value):  # a float is written as one
    return float(field) == value or struct.unpack("f", struct.pack("f", float(field)))[0] == value
for mode, name in (("forced", "forced.csv"), ("free", "free.csv")):
    steps = [r for r in rows if r.get("mode") == mode]
    lines = list(csv.DictReader(open(f"{folder}/{name}")))
    assert len(lines) == len(steps) == 12
    for line, step in zip(lines, steps):
        for column, field in line.items():
            assert is_same(field, step[column]), (name, column, field, step[column])
    assert len({line["loss"] for line in lines} | {line["against_loss"] for line in lines}) == 24, "no two are equal"
EOT
json "each curve of the picture is the column that its name says, of its device" "folder = '$work/read'" <<'EOT'
import csv, re
script = open(f"{folder}/training.gp").read()
header = {name: next(csv.reader(open(f"{folder}/{name}"))) for name in ("forced.csv", "free.csv")}
quantity = {"loss": "loss_difference", "gradient": "gradient_difference", "parameters": "parameter_difference"}
side = {rows[0]["device"]: "", rows[0]["against"]: "against_"}
titles = {"forced.csv": "forced: the error of one step", "free.csv": "free-running: the drift since the first step"}
for name, last in (("forced.csv", "gradient"), ("free.csv", "parameters")):
    panel = script[script.index(titles[name]):].split("set title")[0].split("unset multiplot")[0]
    assert f"plot '{name}'" in panel and "set logscale y" in script
    curves = re.findall(r"using 1:(\d+) [^,]*? title '(\S+) (\w+)'", panel)
    assert [(device, what) for _, device, what in curves] == [(d, w) for d in side for w in ("loss", last)]
    for column, device, what in curves:
        assert header[name][int(column) - 1] == side[device] + quantity[what], (name, column, device, what)
EOT
json "JSON: an object per step and mode; float differs from double by rounding, double not at all" <<'EOT'
*steps, last = rows
assert [(r["mode"], r["step"]) for r in steps] == [(m, s) for m in ("forced", "free") for s in range(1, 13)]
assert all(r["verdict"] == "PASS" for r in steps) and last["summary"]["failed"] == 0
assert last["summary"]["forced_steps"] == last["summary"]["free_steps"] == 12
names = ["loss_difference", "gradient_difference", "parameter_difference"]
assert all(r["against_" + n] == 0 for n in names for r in steps if r["mode"] == "free"), "ref differs from itself"
assert all(0 < r["gradient_difference"] < 2.0**-12 for r in steps if r["mode"] == "forced")
assert steps[11]["step"] == 12 and steps[11]["reference_loss"] != steps[0]["reference_loss"]
EOT

# What overflows in single precision ends the free run alone; what the reference loses, too, says nothing.
run "${pair[@]}" "${train[@]}" --set train.warmup=0 --set train.learning_rate=10 --json --quiet
[[ $code -eq 1 ]]
ok $? "a device that diverges alone: exit code 1"
json "each forced step fails, and the free run ends with its second" <<'EOT'
s = rows[-1]["summary"]
assert (s["forced_steps"], s["free_steps"], s["failed"], s["reference_diverged"]) == (12, 2, 12, 0), s
free = [r for r in rows[:-1] if r["mode"] == "free"]
assert [r["verdict"] for r in free] == ["PASS", "FAIL"] and "cpu diverged" in free[1]["reason"], free
EOT
run "${pair[@]}" "${train[@]}" --set train.warmup=0 --set train.learning_rate=1000 --json --quiet
json "a reference that diverges ends both" <<'EOT'
s = rows[-1]["summary"]
assert (s["forced_steps"], s["free_steps"], s["failed"], s["reference_diverged"]) == (1, 1, 0, 2), s
EOT

run "${pair[@]}" "${train[@]}" --steps 4 --all
[[ $(shown) == "1 2 3 4 1 2 3 4 " ]]
ok $? "or of every step"

refused 2 'quickstrat' "an unknown recipe is bad input" "${pair[@]}" --train quickstrat
refused 2 'train.bacth' "an unknown key is bad input" "${pair[@]}" "${train[@]}" --set train.bacth=1
refused 2 '--steps 0' "no steps are bad input" "${pair[@]}" --train quickstart --steps 0
touch "$work/file"
refused 3 "$work/file" "a folder that cannot be made is an I/O failure" "${pair[@]}" "${train[@]}" \
    --out "$work/file/below"

finish
