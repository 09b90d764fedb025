#!/usr/bin/env bash
# `iclab bench`: tables, JSON, help and refusals. No time is judged. Arguments: iclab, python3, the folder
# of recipes, a device.
set -u
device=$4
if [[ $device == opencl* ]]; then
    device=${ICLAB_TEST_OPENCL:-$device}
fi
subcommand=bench
# shellcheck source=tests/tools/rows.sh
source "${BASH_SOURCE[0]%/*}/rows.sh"
split='peaks = [r for r in rows if r.get("case", "").startswith("peak")]
ops = [r for r in rows if r not in peaks]'

if [[ $device == opencl* ]] && ! grep -q '"opencl:' < <("$iclab" devices --json); then
    ok 0 "bench on $device # SKIP no OpenCL device on this machine"
    finish
fi

run --device "$device" --quiet --seconds 0 --op 'matmul (21x43008)'
[[ $code -eq 0 ]] && grep -q 'median .* GFLOP/s .* of peak .* vs cpu' < <(head -n 1 "$work/out") &&
    grep -q '^peak multiply-add' "$work/out" && grep -q '^peak triad' "$work/out" &&
    [[ $(grep -c '^matmul (21x43008)(43008x21) ' "$work/out") -eq 1 ]]
ok $? "a table: a header, peaks, and the case that was named"
! grep -qw nan "$work/out" && grep -qE '^peak triad.* -  ' "$work/out"
ok $? "a dash where there is nothing to tell"

run --device "$device" --quiet --seconds 0 --op 'batch 2048' --json
json "JSON: two cases, each with what it should say" "$split" <<'EOF'
assert len(peaks) >= 2 and len(ops) == 2, (len(peaks), len(ops))
for row in rows:
    for key in ("case", "device", "median_s", "min_s", "max_s", "gflops", "gbytes_per_s", "peak_share"):
        assert key in row, key
    assert 0 < row["min_s"] <= row["median_s"] <= row["max_s"]
    assert row["turns"] >= 3 and row["calls_a_turn"] >= 1
for row in ops:
    flops = 2 * 2048 * 21**3 if "(21x21)" in row["case"] else 2 * 2048 * 400
    assert abs(row["gflops"] * row["median_s"] * 1e9 / flops - 1) < 1e-9
    assert row["ops"] == 1 and row["compile_s"] >= 0 and row["peak_share"] > 0
assert any(r["gflops"] for r in peaks) and any(r["gbytes_per_s"] for r in peaks)
for row in (r for r in peaks if "triad" in r["case"]):
    moved = 3 * (8 if row["device"] == "ref" else 4) * 2**18  # without time few elements are enough
    assert abs(row["gbytes_per_s"] * row["median_s"] * 1e9 / moved - 1) < 1e-9, row
EOF
if [[ $device == opencl* ]]; then
    json "an OpenCL device: kernels are counted and timed, and plain C runs beside" "$split" <<'EOF'
for row in ops:
    assert row["launches"] >= 1 and row["kernels_s"] > 0
    assert abs(row["cpu_median_s"] / row["median_s"] / row["times_cpu"] - 1) < 1e-9
EOF
else
    json "the host: nothing is queued, and cpu is not compared with itself" "$split" <<'EOF'
for row in ops:
    assert row["launches"] == 0 and row["kernels_s"] is None
    assert ("cpu_median_s" in row) and (row["cpu_median_s"] is None) == (row["device"] == "cpu")
EOF
fi

small=(--set task.d=3 --set task.n=5 --set model.layers=2 --set train.batch=32)
run --device "$device" --quiet --seconds 0 --recipe quickstart "${small[@]}" --json
json "JSON: a recipe's training step" "$split" <<'EOF'
assert len(ops) == 1 and ops[0]["case"] == "step of quickstart" and ops[0]["ops"] > 1, ops
assert ops[0]["gflops"] > 0
EOF
run --device "$device" --quiet --seconds 0 --recipe sequence --set train.batch=4 --json
json "JSON: of a family whose operations are not counted" "$split" <<'EOF'
assert len(ops) == 1 and ops[0]["gflops"] is None and ops[0]["median_s"] > 0, ops
EOF

run --device "$device" --quiet --seconds 0 --recipe sequence --set train.batch=4 --by-op --json
json "a step by op: calls, kernels and shares add up" "$split" <<'EOF'
step, *parts = [row for row in rows if "peak" not in row["case"]]
assert abs(sum(row["calls"] for row in parts) - step["ops"]) < 1e-9, rows
assert abs(sum(row["launches"] for row in parts) - step["launches"]) < 1e-9, rows
assert abs(sum(row["share"] for row in parts) - 1) < 1e-9, rows
seconds = [row["seconds"] for row in parts]
assert seconds == sorted(seconds, reverse=True) and seconds[0] > 0, rows
assert {row["op"]: row["calls"] for row in parts}["update_step"] == 1 and len(parts) > 5, rows
EOF
run --device "$device" --quiet --seconds 0 --recipe quickstart "${small[@]}" --by-op
grep -qE '^one step, by op +time +calls +kernels +of these$' "$work/out" &&
    grep -qE '^update_step +[0-9.e+-]+ [num]?s +1 +([1-9]|-) +[0-9.]+ %$' "$work/out"
ok $? "as a table"

printf '2\n1\n' | "$iclab" bench --device "$device" --quiet --on-request --op 'adam (3528, 2048)' >"$work/out" \
    2>"$work/err"
json "on request: ready, then the seconds of each turn" "$split" <<'EOF'
assert rows[0] == {"ready": True} and len(rows) == 3, rows
assert all(row["seconds"] > 0 for row in rows[1:])
EOF
printf '1\n' | "$iclab" bench --device "$device" --quiet --on-request --recipe quickstart "${small[@]}" >"$work/out" \
    2>"$work/err"
json "on request: a recipe's step" "$split" <<'EOF'
assert rows[0] == {"ready": True} and len(rows) == 2 and rows[1]["seconds"] > 0, rows
EOF
[[ $device == cpu ]] || finish

# ---- What the device has no part in ----

run --help
[[ $code -eq 0 ]] && grep -q -e --recipe "$work/out" && grep -q -e '--seconds N .*(default 1;' "$work/out" &&
    grep -q 'of peak' "$work/out"
ok $? "--help speaks of options and columns"

printf 'many\n' | "$iclab" bench --device "$device" --quiet --on-request --op 'adam (3528, 2048)' >"$work/out" \
    2>"$work/err"
[[ $? -eq 2 ]] && grep -q 'standard input' "$work/err"
ok $? "on request: what is no number is refused"
printf 'many\n' | "$iclab" bench --device "$device" --quiet --on-request --recipe quickstart "${small[@]}" \
    >"$work/out" 2>"$work/err"
[[ $? -eq 2 ]] && grep -q 'standard input' "$work/err"
ok $? "on request: nor for a recipe's steps"
refused 2 '--recipe RECIPE' "--by-op without a recipe" --by-op --op adam
refused 2 'no --on-request' "--by-op on request" --by-op --recipe quickstart --on-request
refused 2 '--on-request' "--json beside --on-request" --on-request --json --op adam

# Who chose the device. Without drivers nothing is tried.
one=(--seconds 0 --op 'matmul (21x43008)')
for case in "auto||device cpu: .*chosen by auto" "variable|ref|device ref: .*asked for with ICLAB_DEVICE" \
    "option|ref|device cpu: .*asked for with --device"; do
    IFS='|' read -r chooser variable words <<<"$case"
    chosen=()
    [[ $chooser != option ]] || chosen=(--device cpu)
    ICLAB_DEVICE=$variable OCL_ICD_VENDORS=$work run "${one[@]}" "${chosen[@]}"
    [[ $code -eq 0 ]] && grep -q "$words" "$work/err"
    ok $? "the device, chosen by: $chooser"
done

refused 2 'no case' "a pattern that matches nothing" --device "$device" --op nothing-like-this
refused 2 '--op' "--op beside --recipe" --recipe quickstart --op matmul
refused 2 '--recipe' "--set without --recipe" --set task.d=3
refused 2 'taks.d' "an unknown key" --recipe quickstart --set taks.d=3
refused 2 'quikstart' "an unknown recipe" --recipe quikstart
refused 2 '--seconds' "seconds that are no number" --seconds soon
refused 2 '--seconds' "too many seconds" --seconds 1000000
refused 2 'unknown option --ops' "an unknown option" --ops matmul
refused 2 'expected no further argument' "an argument too many" matmul
refused 2 'no-such' "a malformed device" --device no-such
finish
