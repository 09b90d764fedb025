#!/usr/bin/env bash
# Text from training to writing: the run's record of its file, evaluation on another one, resuming, generating.
# Argument: iclab.
set -uo pipefail
ICLAB=$(realpath "$1")
# shellcheck source=tests/tools/tap.sh
source "${BASH_SOURCE[0]%/*}/tap.sh"
cd "$work" || exit 1

for ((i = 0; i < 300; i++)); do echo "line $i: the köln euro € is $((i * i % 97))"; done >mine.txt
sed 's/euro/mark/' mine.txt >other.txt
cat >small.ini <<'INI'
[task]
family = text
file = mine.txt
length = 16
[model]
family = sequence
layers = 1
mixer = gated-delta
width = 16
heads = 2
[train]
batch = 8
steps = 8
horizon = 8
[eval]
sequences = 20
every = 2
every_sequences = 8
predictors = uniform,ngram:3
INI
run train small.ini --device cpu --quiet --out whole --json
expect 0 "a training on text"
grep -q '"predictor":"model".*"bits_per_byte":[0-9.]*,"bits_per_byte_se":[0-9.]*,.*"positions":.*"bits_per_byte"' out
ok $? "JSON has bits per byte, their standard error, and both by position"
grep -q '"text_file":.*"mine.txt"' whole/run.json && grep -q "\"text_bytes\":.*$(wc -c <mine.txt)," whole/run.json &&
    grep -q '"text_hash":.*"[0-9a-f]\{16\}"' whole/run.json && grep -q '"text_is_utf8":.*true' whole/run.json
ok $? "run.json has the file's name, size, hash and encoding"

# ---- Resuming ----
run train small.ini --device cpu --quiet --steps 4 --out part
run train --resume part --device cpu --quiet --steps 8
expect 0 "resumed"
same whole/model.safetensors part/model.safetensors "resumed equals uninterrupted"
run train small.ini --device cpu --quiet --steps 4 --out half
cp mine.txt kept.txt
cp other.txt mine.txt
run train --resume half --device cpu --quiet --steps 8
refused 2 'mine.txt, [0-9]+ bytes of hash .* is not the text that the run was trained on' \
    "another text is not resumed on"

# ---- Evaluation on another file ----
run eval whole --device cpu --quiet
says 'mine.txt, [0-9]+ bytes of hash .* is not the text that the run was trained on: [0-9]+ bytes of hash' \
    "evaluation says that the file is another"
run eval whole --device cpu --quiet --json
grep -q '"text_of_run":false' out
ok $? "in JSON, too"
cp kept.txt mine.txt
run eval whole --device cpu --quiet --json
[[ ! -s err ]] && grep -q '"text_of_run":true' out
ok $? "and nothing of its own file"
run eval whole --device cpu --quiet --set task.evaluation=carried
grep -q 'as one sequence, the state carried on' out && grep -q '^predictor *bits_per_byte *se' out
ok $? "the table names how the text was cut"
run eval whole --device cpu --quiet --set task.evaluation=stride:4
grep -q 'in windows of 16 that score their last 4' out
ok $? "with a stride, too"

# ---- Generating ----
rm mine.txt
run generate whole --device cpu --quiet --prompt 'line' --bytes 400
expect 0 "generate, without the file of the training"
[[ $(wc -c <out) -eq 400 ]] && iconv -f UTF-8 -t UTF-8 out >/dev/null
ok $? "400 bytes of UTF-8"
cp out first
run generate whole --device cpu --quiet --prompt 'line' --bytes 400
same first out "the same seed writes the same text"
head -c 100 first >begun
run generate whole --device cpu --quiet --prompt 'line' --bytes 400 --seed 2
! cmp -s first out
ok $? "another seed another"
printf line >prompt
run generate whole --device cpu --quiet --prompt-file prompt --bytes 400
same first out "a prompt from a file"
"$ICLAB" generate whole --device cpu --quiet --prompt-file - --bytes 400 <prompt >out
same first out "and from standard input"
run generate whole --device cpu --quiet --bytes 0
[[ $code -eq 0 && ! -s out ]]
ok $? "no bytes"

# ---- Bad input ----
run generate whole --device cpu --prompt a --prompt-file prompt
refused 2 'prompt-file: expected no --prompt' "two prompts"
run generate whole --device cpu --prompt ''
refused 2 '--prompt: empty: expected at least one byte' "an empty prompt"
run generate whole --device cpu --top-p 0
refused 2 '--top-p: 0: expected more than 0 and at most 1' "--top-p 0"
run generate whole --device cpu --top-p 1.1
refused 2 '--top-p: 1.1: expected' "--top-p 1.1"
run generate whole --device cpu --top-k 0
refused 2 '--top-k: 0: expected 1 or more' "--top-k 0"
run generate whole --device cpu --seed 4294967296
refused 2 '--seed: 4294967296: expected at most 4294967295' "a seed too large"
run generate nowhere --device cpu
refused 2 'not a run' "no run"
sed -i 's/^family = text/family = recall/; /^file/d' small.ini
run train small.ini --device cpu --quiet --steps 1 --out recall --set task.pairs=3 --set task.vocabulary=16 \
    --set eval.predictors=uniform
run generate recall --device cpu
refused 2 'task.family = recall: expected text' "a run of another task"
finish
