#!/usr/bin/env bash
# Help, versions, and mistakes on the command line. Argument: the command.
set -uo pipefail
ICLAB=$1
# shellcheck source=tests/tools/tap.sh
source "${BASH_SOURCE[0]%/*}/tap.sh"

run --help
expect 0 "--help"
for word in devices train eval compare bench --version "Exit codes"; do
    grep -q -e "$word" "$work/out"
    ok $? "--help speaks of $word"
done
run --version
expect 0 "--version"
grep -qE '^iclab [0-9]+\.[0-9]+\.[0-9]+ ' "$work/out"
ok $? "--version prints it"

run train --help
expect 0 "train --help"
for word in RECIPE --set --device --steps --seed --out --resume --gemm --fast-math --precision --json --quiet Ctrl-C \
    task.noise model.layers \
    train.learning_rate eval.predictors; do
    grep -q -e "$word" "$work/out"
    ok $? "train --help speaks of $word"
done
run eval --help
expect 0 "eval --help"
for word in RUN --set --device --json half_adjusted; do
    grep -q -e "$word" "$work/out"
    ok $? "eval --help speaks of $word"
done
run devices --help
expect 0 "devices --help"
grep -q -e --json "$work/out"
ok $? "devices --help speaks of --json"

run
refused 2 'no command' "no command"
run trian
refused 2 'unknown command trian; the nearest known one is train' "an unknown command"
run train
refused 2 'RECIPE is missing' "train without a recipe"
run eval
refused 2 'RUN is missing' "eval without a run"
run train x --sed 3
refused 2 'unknown option --sed; the nearest known one is --se' "an unknown option"
run train x --layers 4
refused 2 "unknown option --layers: a recipe's key; expected --set model.layers=4$" "a recipe's key as an option"
run eval x --learning-rate=0.1
refused 2 'expected --set train.learning_rate=0.1$' "another, with a dash, and its value behind ="
run train x --noise --quiet
refused 2 'expected --set task.noise=VALUE$' "and without its value"
run reproduce x --layers 4
refused 2 'which iclab train RECIPE --set model.layers=4 sets' "of a command without --set"
mkdir "$work/vendors"
OCL_ICD_VENDORS=$work/vendors RUSTICL_ENABLE='' run devices
[[ $code -eq 0 ]] && ! grep -q rusticl "$work/err"
ok $? "no driver that is switched off"
: >"$work/vendors/rusticl.icd"
OCL_ICD_VENDORS=$work/vendors RUSTICL_ENABLE='' run devices
said=$(grep -c 'rusticl is installed .* but switched off: RUSTICL_ENABLE=radeonsi' "$work/err")
run --version
[[ $said -eq $(grep -c '^built with .*OpenCL' "$work/out") ]]
ok $? "rusticl is, and how to switch it on, in a build with OpenCL alone"
OCL_ICD_VENDORS=$work/vendors RUSTICL_ENABLE=swrast run devices
[[ $code -eq 0 ]] && ! grep -q 'switched off' "$work/err"
ok $? "it is switched on"
run devices --jsn
refused 2 'unknown option --jsn; the nearest known one is --json' "an unknown option of devices"
run devices extra
refused 2 'extra: expected no further argument' "an argument too many"
run train x --steps
refused 2 'expected a value behind it' "an option without its value"
run train x --steps=-3
refused 2 'expected a whole number' "a negative number of steps"
run train x --steps 1e3
refused 2 'expected a whole number' "steps that are no plain number"
run train x --gemm=fast
refused 2 'expected one of auto\|clblast\|native' "an unknown matrix product"
run devices --json=yes
refused 2 'takes no value' "a flag with a value"

run devices
expect 0 "devices"
grep -q '^cpu ' "$work/out" && grep -q '^ref ' "$work/out"
ok $? "devices lists cpu and ref"
run devices --json
expect 0 "devices --json"
[[ $(grep -cE '^\{"spec":"(cpu|ref)",.*"usable":true,.*\}$' "$work/out") -eq 2 ]]
ok $? "devices --json prints an object a line"

code=0
"$ICLAB" devices >/dev/full 2>"$work/err" || code=$?
: >"$work/out"
refused 3 'cannot write standard output: No space left' "a result that cannot be printed"

code=0
OCL_ICD_VENDORS=$work "$ICLAB" devices >"$work/out" 2>"$work/err" || code=$?
expect 0 "devices without any OpenCL driver"
grep -q '^cpu ' "$work/out" && ! grep -q '^opencl' "$work/out"
ok $? "only the host is left"
finish
