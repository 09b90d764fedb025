#!/usr/bin/env bash
# The scripts for Slurm, on a machine without it: sbatch, srun and scontrol stand in, as far as the scripts use them.
# sbatch reads the #SBATCH lines and sets Slurm's variables; srun starts its command with mpirun. Arguments: iclab, the
# folder of the scripts, mpirun or nothing where the build has no MPI.
set -u
ICLAB=$(realpath "$1")
scripts=$(realpath "$2")
mpirun=${3:-}
unset ICLAB_DEVICE
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# shellcheck source=tests/tools/tap.sh
source "${BASH_SOURCE[0]%/*}/tap.sh"
mkdir "$work/bin" "$work/submit"

# ---- Slurm, as far as the scripts use it ----

# sbatch [--array=A-B] [--ntasks=N] [--cpus-per-task=N] SCRIPT ARGUMENTS...: runs it here, an array's tasks side by
# side; options of the command line come before those in the script.
cat >"$work/bin/sbatch" <<'END'
#!/usr/bin/env bash
set -u
declare -A given=()
while [[ $1 == --*=* ]]; do
    [[ -v given[${1%%=*}] ]] || given[${1%%=*}]=${1#*=}
    shift
done
while read -r option; do
    [[ -v given[${option%%=*}] ]] || given[${option%%=*}]=${option#*=}
done < <(sed -n 's/^#SBATCH //p' "$1")
cp "$1" "$SLURM_SPOOL/job" # Slurm runs a copy
shift
export SLURM_JOB_ID=77 SLURM_CPUS_PER_TASK=${given[--cpus-per-task]:-1} SLURM_NTASKS=${given[--ntasks]:-1}
export SLURM_SUBMIT_DIR=$PWD
array=${given[--array]:-}
[[ -n $array ]] || exec bash "$SLURM_SPOOL/job" "$@"
export SLURM_ARRAY_JOB_ID=77 SLURM_ARRAY_TASK_COUNT=$((${array#*-} - ${array%-*} + 1))
jobs=()
for ((task = ${array%-*}; task <= ${array#*-}; task++)); do
    SLURM_ARRAY_TASK_ID=$task bash "$SLURM_SPOOL/job" "$@" >"$SLURM_SPOOL/log-$task" 2>&1 </dev/null &
    jobs+=($!)
done
code=0
for job in "${jobs[@]}"; do wait "$job" || code=$?; done
exit "$code"
END
# srun --OPTION=VALUE... COMMAND...: with WATCHED, Slurm interrupts all tasks once that file has grown.
cat >"$work/bin/srun" <<'END'
#!/usr/bin/env bash
set -u
tasks=1
while [[ $1 == --* ]]; do
    echo "$1" >>"$SLURM_SPOOL/srun"
    [[ $1 != --ntasks=* ]] || tasks=${1#*=}
    shift
done
[[ -n ${WATCHED:-} ]] || exec "$MPIRUN" -n "$tasks" "$@"
lines() {
    cat "$WATCHED" 2>/dev/null | wc -l
}
before=$(lines)
rm -f "$SLURM_SPOOL/tasks"
"$MPIRUN" -n "$tasks" bash -c 'echo $$ >>"$SLURM_SPOOL/tasks"; exec "$@"' task "$@" &
for _ in {1..600}; do
    [[ $(lines) -le $((before + 1)) ]] || break # more than the heading
    sleep 0.1
done
mapfile -t processes <"$SLURM_SPOOL/tasks"
kill -INT "${processes[@]}"
wait $!
END
cat >"$work/bin/scontrol" <<'END'
#!/usr/bin/env bash
echo "$*" >>"$SLURM_SPOOL/scontrol"
END
chmod +x "$work"/bin/*
export PATH=$work/bin:$PATH SLURM_SPOOL=$work ICLAB MPIRUN=$mpirun

cat >"$work/submit/tiny.ini" <<'END'
[task]
d = 3
n = 5
[model]
layers = 1
parameterization = diag
[train]
batch = 16
steps = 60
warmup = 5
checkpoint_every = 10
[eval]
sequences = 64
every = 0
predictors = oracle
END
printf '[sweep]\nrecipe = tiny.ini\n[grid]\nmodel.layers = 1, 2\ntrain.seed = 1..3\n' >"$work/submit/grid.ini"
cd "$work/submit" || exit 1

# submit OPTIONS... SCRIPT ARGUMENTS...
submit() {
    code=0
    sbatch "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
}

# ---- A sweep ----

submit --array=0-2 --cpus-per-task=1 "$scripts/sweep.sbatch" grid.ini "$work/shared"
expect 0 "three tasks of an array"
[[ $(cat "$work"/log-* | grep -c '^iclab: training\|: training') -eq 6 ]]
ok $? "train each of six cells once"
run sweep grid.ini --out "$work/alone" --workers 1 --device cpu:threads=1 --quiet
same <(sed 's/,[^,]*$//' "$work/alone/table.csv") <(sed 's/,[^,]*$//' "$work/shared/table.csv") \
    "and leave the table of one process"
submit --array=0-1 --cpus-per-task=1 "$scripts/sweep.sbatch" grid.ini "$work/shared"
[[ $code -eq 0 && $(cat "$work"/log-[01] | grep -c ': training') -eq 0 ]]
ok $? "submitted again, nothing is trained"
submit --array=0-0 "$scripts/sweep.sbatch" absent.ini "$work/none"
[[ $code -ne 0 ]] && grep -q "absent.ini" "$work/log-0"
ok $? "a sweep that does not exist"
submit --array=0-0 "$scripts/sweep.sbatch" grid.ini
[[ $code -ne 0 ]] && grep -q 'expected FILE.ini FOLDER' "$work/log-0"
ok $? "a folder that was forgotten"

# Interrupted by Slurm: the script hands the signal on, and ends as iclab does.
sed 's/^steps = .*/steps = 100000000\nstarts = 1/' tiny.ini >long.ini
sed 's/tiny/long/' grid.ini >long-grid.ini
SLURM_CPUS_PER_TASK=1 bash "$scripts/sweep.sbatch" long-grid.ini "$work/long" >"$work/out" 2>"$work/err" </dev/null &
job=$!
for _ in {1..600}; do
    [[ -z $(find "$work/long" -name metrics.csv -size +0 2>/dev/null) ]] || break
    sleep 0.1
done
kill -TERM "$job"
code=0
wait "$job" || code=$?
[[ $code -eq 143 && -n $(find "$work/long" -name state.safetensors) ]]
ok $? "a sweep that is interrupted leaves a checkpoint (exit code $code)"

# ---- One model ----

if [[ -z $mpirun ]]; then
    echo "# not tested here, because there is no MPI: train.sbatch"
    finish
fi
submit --ntasks=2 --cpus-per-task=1 "$scripts/train.sbatch" tiny.ini "$work/two" --set train.slices=4
expect 0 "one model on two tasks"
run train tiny.ini --set train.slices=4 --out "$work/one" --device cpu --quiet
same "$work/one/model.safetensors" "$work/two/model.safetensors" "has the bits of one process"
grep -q '"ranks":.*2' "$work/two/run.json"
ok $? "and its record says two ranks"
[[ $(sort -u "$work/srun" | tr '\n' ' ') == "--cpus-per-task=1 --mpi=pmi2 --ntasks=2 " ]]
ok $? "srun was told tasks, cores and MPI"
export WATCHED=$work/limited/metrics.csv
steps=()
for attempt in first second; do
    submit --ntasks=2 --cpus-per-task=1 "$scripts/train.sbatch" long.ini "$work/limited" --set train.slices=2
    [[ $code -eq 0 && $(tail -n 1 "$work/scontrol") == "requeue 77" ]]
    ok $? "the $attempt time limit: the job is queued again"
    steps[${#steps[@]}]=$(tail -n 1 "$work/limited/metrics.csv" | cut -d, -f1)
done
[[ ${steps[1]} -gt ${steps[0]} && $(wc -l <"$work/scontrol") -eq 2 ]]
ok $? "and goes on where it stopped: step ${steps[0]}, then ${steps[1]}"
unset WATCHED
submit --ntasks=3 --cpus-per-task=1 "$scripts/train.sbatch" tiny.ini "$work/none" --set train.slices=2
[[ $code -eq 2 && $(wc -l <"$work/scontrol") -eq 2 ]]
ok $? "fewer slices than tasks: an end, and no other attempt"
finish
