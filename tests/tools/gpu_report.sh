#!/usr/bin/env bash
# tools/gpu-report: a short run on a device, and what becomes of the report when iclab fails, crashes, hangs or talks
# nonsense. Arguments: iclab in its build folder, tools/gpu-report, the device.
set -u
iclab=$1
script=$2
device=${ICLAB_TEST_OPENCL:-$3}
unset ICLAB_DEVICE
# shellcheck source=tests/tap.sh
source "${BASH_SOURCE[0]%/*}/../tap.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
report=$work/report.md
all=(devices self-test conformance mutation 'training compared' repeatability 'steps by batch size' training bench
    peers)
export ICLAB_PEERS=$work/no-peers
explain() {
    note <"$work/err"
    sed -n '/^## Summary/,/^## Machine/p' "$report" 2>/dev/null | note
}

run() {
    rm -f "$report"
    "$script" --out "$report" "$@" >"$work/out" 2>"$work/err"
    code=$?
}
refused() { # CODE WORDS NAME ARGUMENT...: one line, and no report
    local expected=$1 words=$2 name=$3
    shift 3
    run "$@"
    [[ $code -eq $expected && $(wc -l <"$work/err") -eq 1 && ! -s $work/out && ! -e $report ]] &&
        grep -qF -e "$words" "$work/err"
    ok $? "refused: $name"
}
verdict() { # PART VERDICT [WORDS]: its row of the summary
    grep -qE "^\| $1 \| (\*\*)?$2(\*\*)? \| .*${3:-}.* \| [0-9]+ \|$" "$report"
    ok $? "$1: $2${3:+, $3}"
}
has_all_parts() {
    local part missing=0
    for part in "${all[@]}"; do
        grep -q "^| $part | " "$report" && grep -qi "^## $part$" "$report" || missing=1
    done
    [[ $(grep -c '^## ' "$report") -eq $((${#all[@]} + 2)) ]] || missing=1 # beside them: the summary and the machine
    ok $missing "every part has its row and its section"
}

run --help
[[ $code -eq 0 ]] && grep -q -e '--device SPEC' "$work/out" && grep -q 'Exit codes' "$work/out" && [[ ! -s $work/err ]]
ok $? "--help speaks of options and exit codes"
refused 2 "unknown argument '--devise': expected" "an unknown argument" --devise opencl
refused 2 '--device: expected a value' "an option without its value" --device
refused 2 "--device 'cpu': expected opencl" "a device that is none of OpenCL" --device cpu
refused 2 "--minutes '0': expected a whole number" "no time at all" --minutes 0
refused 2 "--iclab '$work/nothing': expected a program" "an iclab that is not there" --iclab "$work/nothing"
refused 2 "--out '$work/nowhere/r.md': expected a folder" "a report in a folder that is not there" \
    --out "$work/nowhere/r.md"

# ---- An iclab of our own: it answers as the file `answers` says, "WORDS OF THE COMMAND LINE: shell",
# the first that matches. ----

mkdir -p "$work/tools" "$work/tests/mutation" "$work/home"
cat >"$work/tools/iclab" <<'END'
#!/usr/bin/env bash
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[[ -e $folder/answers ]] || folder=$(dirname "$folder")
while IFS= read -r line; do
    if [[ " $* " == *"${line%%: *}"* ]]; then
        eval "${line#*: }"
        exit
    fi
done <"$folder/answers"
exit 99
END
chmod +x "$work/tools/iclab"
for fault in sum_in_plain_order output_left_unwritten; do
    cp "$work/tools/iclab" "$work/tests/mutation/iclab-$fault"
done
row='"kind":"gpu","platform":"P","driver":"1","usable":true,"verdict":"self-test passed"'
row+=',"compute_units":2,"max_work_group":64'
row+=',"local_memory":32768,"global_memory":1e9,"max_allocation":1e8,"fp64":false,"unified_memory":false'
passed='"verdict":"PASS","error_over_bound":0.5,"bit_equal":1'
measured='"median_s":0.001,"cpu_median_s":0.002,"times_cpu":2,"gflops":1,"gbytes_per_s":1,"peak_share":0.5'
measured+=',"kernels_s":null,"launches":4'
trained='"mse":1,"se":0.1,"half_adjusted":0.1,"half_adjusted_se":0.01'
compared='"forced_steps":20,"failed":0,"forced_loss_difference":1e-8,"forced_gradient_difference":1e-8'
compared+=',"drift_loss":1e-8'
compared+=',"drift_parameters":1e-8,"against_drift_parameters":1e-8'
good=(
    "--version: echo 'iclab 9.9.9 (tested, with CLBlast)'"
    "devices: echo '{\"spec\":\"opencl:0.0\",\"name\":\"A <b>GPU</b>\",$row}'"
    "adam: echo 'iclab: device opencl:0.0: A GPU' >&2"
    "--op sum (: echo '{\"op\":\"reduce\",\"verdict\":\"FAIL\"}'; exit 1"
    "--op linear forward: echo '{\"op\":\"attention_forward\",\"verdict\":\"FAIL\"}'; exit 1"
    "--train: echo '{\"summary\":{$compared}}'"
    "compare: echo '{\"op\":\"copy\",$passed}'; echo '{\"summary\":{\"skipped\":0,\"worst\":0.5}}'"
    "--recipe: echo '{\"case\":\"step of versatile\",\"compile_s\":0,$measured}'"
    "bench: echo '{\"case\":\"matmul (1024x1024)(1024x1024)\",\"compile_s\":0,$measured}'"
    "train: while [[ \$1 != --out ]]; do shift; done; mkdir -p \"\$2\"; \
        echo same >\"\$2/model.safetensors\"; \
        echo '{\"steps\":2000,\"training_seconds\":9,\"startup_seconds\":1,\"skipped_steps\":0}' >\"\$2/run.json\"; \
        echo '{\"predictor\":\"model\",\"adjusted\":0.1,$trained}'; \
        echo '{\"predictor\":\"constrr\",\"adjusted\":0.2,$trained}'; echo '{\"folder\":\"r\"}'"
)
answer() { # ANSWER...: before the good ones
    printf '%s\n' "$@" "${good[@]}" >"$work/answers"
}
imitated() { # not in --quick, which leaves out what is judged
    run --iclab "$work/tools/iclab" --minutes 1
}

answer
imitated
[[ $code -eq 0 ]]
ok $? "exit code 0 when every part passes"
has_all_parts
verdict training passed '2000 steps in 9.00 s'
verdict 'steps by batch size' passed '20 settings'
grep -q '^| matmul (1024x1024)(1024x1024), clblast | ' "$report"
ok $? "products are measured by each implementation"
verdict mutation passed '2 of 2 planted faults noticed'
verdict peers 'not run' 'tools/peers/setup'
grep -qF 'A &lt;b&gt;GPU&lt;/b&gt;' "$report" && ! grep -q '<b>' "$report"
ok $? "a device's name is text, not markup"

answer "bench: echo \"iclab: wrong in \$HOME/secret on \$(hostname), says somebody-else\" >&2; exit 1" \
    "--set train.steps: kill -SEGV \$\$" \
    "--op linear forward: exec sleep 1000" \
    "devices: trap '' TERM; echo \$\$ >\"\$folder/pid\"; sleep 1000"
HOME=$work/home LOGNAME=somebody-else imitated
[[ $code -eq 1 ]]
ok $? "exit code 1 when a part fails"
has_all_parts
verdict devices 'timed out' 'no end after'
! kill -0 "$(<"$work/pid")" 2>/dev/null
ok $? "what hangs is killed, also where it does not listen"
rm "$work/pid"
verdict self-test FAILED 'exit code 1: wrong in'
verdict training FAILED 'crashed: Segmentation fault'
verdict mutation 'timed out' 'no end after'
verdict repeatability FAILED 'crashed'
verdict bench FAILED 'exit code 1'
verdict conformance passed '1 cases'
verdict 'training compared' passed
grep -q 'Failed: self-test, .*bench' "$report" && grep -q 'Timed out: devices' "$report"
ok $? "the first lines name what failed"
hosts=$(hostname)
! grep -qF -e "$work/home" -e somebody-else -e "on $hosts," -e "$work" "$report" &&
    grep -qF 'wrong in ~/secret on NAME, says NAME' "$report"
ok $? "the report holds neither the home folder nor the names of user and host"

answer "--op sum (: echo '{\"op\":\"reduce\",$passed}'" \
    "--op linear forward: echo '{\"op\":\"attention_forward\",\"verdict\":\"FAIL\"}'; \
        echo '{\"op\":\"copy\",\"verdict\":\"FAIL\"}'; exit 1" \
    "--train: echo '{\"summary\":{$compared}}'; exit 1" \
    "compare: echo '{\"op\":\"copy\",\"verdict\":\"FAIL\",\"error_over_bound\":null,\"bit_equal\":null,'\
        '\"reason\":\"is 1, truth 2\",\"repro\":\"iclab compare --op this\"}'; exit 1" \
    "--recipe: echo '{\"case\":\"step\",\"median_s\":\"soon\"}'" \
    "--out: while [[ \$1 != --out ]]; do shift; done; mkdir -p \"\$2\"; \
        echo \"\$2\" >\"\$2/model.safetensors\"; \
        echo '{\"steps\":20,\"training_seconds\":9,\"startup_seconds\":1,\"skipped_steps\":0}' >\"\$2/run.json\"; \
        echo '{\"predictor\":\"model\",\"adjusted\":0.2,$trained}'; \
        echo '{\"predictor\":\"constrr\",\"adjusted\":0.2,$trained}'; echo '{\"folder\":\"r\"}'"
imitated
[[ $code -eq 1 ]]
ok $? "exit code 1 when checks fail"
has_all_parts
verdict conformance FAILED '1 of 1 cases failed: copy'
grep -q '^is 1, truth 2$' "$report" && grep -q 'iclab compare --op this' "$report"
ok $? "a failed case is there with its reason and how to repeat it"
verdict mutation FAILED 'iclab-sum.*expected failures of reduce alone, found none'
grep -q 'attention_forward, copy | \*\*not noticed' "$report"
ok $? "a fault for which another op is blamed too counts as not noticed"
verdict training FAILED 'no better than ridge'
verdict repeatability FAILED 'different bits'
verdict 'training compared' FAILED 'every token drawn'
verdict 'steps by batch size' FAILED 'could not be read'
verdict bench passed
rm -r "$work/tests"
answer "devices: echo '{\"spec\":\"opencl:0.0\",\"name\":\"A\",${row/true/false}}'" \
    "--set train.batch=256 --set train.steps: while [[ \$1 != --out ]]; do shift; done; mkdir -p \"\$2\"; \
        echo \"\$2\" >\"\$2/model.safetensors\"; exec sleep 1000" \
    "--recipe: echo '{\"case\":\"step\",\"compile_s\":0,${measured/0.001/9}}'"
imitated
verdict devices FAILED 'opencl:0.0 is refused'
verdict mutation 'not run' 'no faulty kernels'
verdict repeatability 'timed out' 'no end after'
verdict 'steps by batch size' 'timed out' 'batches of 1024 and more'
verdict training 'timed out' 'not judged: 2000 steps would not have ended'

answer "devices: echo \$\$ >\"\$folder/pid\"; exec sleep 1000"
"$script" --out "$report" --iclab "$work/tools/iclab" 2>"$work/err" &
script_id=$!
until [[ -s $work/pid ]]; do sleep 0.1; done
kill "$script_id"
wait "$script_id"
code=$?
[[ $code -eq 130 ]] && grep -q 'interrupted; .* holds what was done' "$work/err" &&
    ! kill -0 "$(<"$work/pid")" 2>/dev/null
ok $? "interrupted: exit code 130, and what ran is ended"
has_all_parts
verdict devices 'not run' interrupted

# ---- The real one ----

if ! grep -q '"opencl:' < <("$iclab" devices --json 2>/dev/null); then
    skip "a short run on $device" "no OpenCL device on this machine"
    finish
fi
refused 3 'device opencl:no-such-device: no such device' "a device that is not there" --iclab "$iclab" \
    --device opencl:no-such-device
HOME=$work/home LOGNAME=somebody-else run --quick --minutes 60 --iclab "$iclab" --device "$device"
[[ $code -eq 0 ]]
ok $? "exit code 0 on $device"
has_all_parts
for part in "${all[@]:0:9}"; do
    verdict "$part" passed
done
verdict mutation passed '2 of 2'
[[ $(grep -c '^| [12]0 | [a-z]* | [0-9,]* | [0-9.]* | ' "$report") -eq 8 ]]
ok $? "a row for each batch size"
! grep -qF -e "$work" -e somebody-else -e "$HOME/" -e "${script%/tools/gpu-report}" "$report"
ok $? "no folder of this machine is named"
finish
