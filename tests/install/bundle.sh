#!/usr/bin/env bash
# The archive of tools/bundle is used in a root that holds a C library and nothing else, not even a shell: the command,
# and Python with the wheel. Run by tools/check bundle. Arguments: the archive, the source folder, a C compiler.
set -uo pipefail
archive=$1
source=$2
compiler=$3
# shellcheck source=tests/tools/tap.sh
source "$source/tests/tools/tap.sh"

if ! bwrap --ro-bind / / true 2>/dev/null; then
    skip "the archive in a bare root" "bwrap makes no sandbox here"
    finish
fi
[[ $(stat -c %s "$archive") -le 40000000 ]]
ok $? "it has at most 40 MB: $(stat -c %s "$archive") bytes"
mkdir "$work/unpacked" "$work/vendors" "$work/packages"
tar -xJf "$archive" -C "$work/unpacked"
ok $? "it unpacks"
name=$(basename "$archive" .tar.xz)
[[ $(ls "$work/unpacked") == "$name" ]]
ok $? "into one folder of its name"
folder=$work/unpacked/$name

# ---- The root ----

root=(--unshare-all --die-with-parent --clearenv --proc /proc --dev /dev --tmpfs /tmp --size 16384 --tmpfs /full)
while read -r file; do
    [[ ! -f $file || $file != *.so* ]] || root+=(--ro-bind "$file" "$file")
done < <(dpkg -L libc6)
more=() # what a test adds to it
run() { # PROGRAM ARGUMENT...: in the root, where the archive's folder is /iclab
    code=0
    bwrap "${root[@]}" --ro-bind "$folder" "${place:-/iclab}" --chdir /tmp "${more[@]}" -- "$@" >"$work/out" \
        2>"$work/err" </dev/null || code=$?
}
run /bin/sh -c true
[[ $code -ne 0 ]]
ok $? "the root has no shell"

# ---- What the folder holds ----

elf=(libexec/iclab libexec/iclab-output_left_unwritten)
for path in "$folder"/lib/*; do elf+=("lib/${path##*/}"); done
for file in bin/iclab "${elf[@]}"; do
    run /lib64/ld-linux-x86-64.so.2 --list "/iclab/$file"
    [[ $code -eq 0 ]] && ! grep -q 'not found' "$work/out"
    ok $? "$file finds its libraries"
done
# A process has one library of that name, and a driver may have been made with a newer one.
[[ ! -e $folder/lib/libstdc++.so.6 ]]
ok $? "the library of C++ is the machine's"
unlicensed=
for path in "$folder"/lib/*; do
    package=$(sed -n "s/^${path##*/} \([^ ]*\) .*/\1/p" "$folder/licences/list")
    [[ -n $package && -s $folder/licences/$package ]] || unlicensed+=" ${path##*/}"
done
[[ -z $unlicensed && -s $folder/licences/iclab ]]
ok $? "every library comes with its licence${unlicensed:+, but for$unlicensed}"
newest=$(objdump -T "${elf[@]/#/$folder/}" | sed -n 's/.*GLIBC_\([0-9.]*\).*/\1/p' | sort -Vu | tail -n 1)
grep -qF "glibc $newest or newer" "$folder/README.txt"
ok $? "README.txt names the C library that it needs, $newest"

[[ -s $folder/bin/iclab ]] && ! objdump -T "$folder/bin/iclab" | grep GLIBC_ >/dev/null
ok $? "and bin/iclab itself runs with any"

# ---- The command ----

small=(--device cpu --quiet --set train.batch=8 --set train.steps=3 --set train.warmup=0 --set train.growth=0
    --set model.layers=1 --set eval.sequences=16 --set eval.fit_sequences=16 --set eval.every=0)
commands() {
    run "${place:-/iclab}/bin/iclab" devices
    expect 0 "devices, without a driver"
    grep -q '^cpu ' "$work/out" && says 'no OpenCL driver' "and it says that there is none"
    run "${place:-/iclab}/bin/iclab" train quickstart "${small[@]}"
    expect 0 "train, a recipe by its name"
    run "${place:-/iclab}/bin/iclab" compare --op 'sum (' --device cpu
    expect 0 "compare"
}
commands
mkdir "$work/runs"
more=(--bind "$work/runs" /runs)
run /iclab/bin/iclab train predict "${small[@]}" --out /runs/p
expect 0 "train predict"
run /iclab/bin/iclab predict /runs/p --data /iclab/share/iclab/data/swiss.csv --target Fertility
expect 0 "predict, on the table that came along"
# Another library of that name comes first for whoever asks LD_LIBRARY_PATH.
mkdir "$work/other"
touch "$work/other/libOpenCL.so.1"
mv "$folder" "$work/moved here"
folder="$work/moved here" place="/any where"
more=(--ro-bind "$work/other" /other --setenv LD_LIBRARY_PATH /other --setenv HOME /nowhere)
commands
place=/iclab more=()

# ---- What goes wrong ----

one_line() { # CODE PATTERN NAME
    [[ $code -eq $1 && $(wc -l <"$work/err") -eq 1 ]] && grep -qE -- "$2" "$work/err"
    ok $? "$3"
    tail -n 1 "$work/err" | note
}
run /iclab/bin/iclab train quickstart "${small[@]}" --out /iclab/run
one_line 3 '^iclab: cannot .*/iclab/run' "a folder that cannot be written"
run /iclab/bin/iclab train quickstart "${small[@]}" --out /full/run
one_line 3 '^iclab: cannot .*No space left' "a full disk"
echo 'void *clGetExtensionFunctionAddress(const char *name) { __builtin_trap(); return (void *)name; }' \
    >"$work/crash.c"
"$compiler" -shared -fPIC "$work/crash.c" -o "$work/vendors/libcrash.so"
echo /etc/OpenCL/vendors/libcrash.so >"$work/vendors/crash.icd"
more=(--ro-bind "$work/vendors" /etc/OpenCL/vendors)
run /iclab/bin/iclab devices
one_line 0 'the process that listed the OpenCL devices .*OCL_ICD_VENDORS' "a driver that crashes as it is listed"
grep -q '^cpu ' "$work/out"
ok $? "costs OpenCL, and the host's devices serve"
for version in 2.2.5 "2.$((${newest#*.} - 1))" "$newest" "${newest%%.*}.100" 3.0; do
    echo "const char *gnu_get_libc_version(void) { return \"$version\"; }" |
        "$compiler" -shared -fPIC -x c - -o "$work/vendors/libc_$version.so"
    more=(--ro-bind "$work/vendors" /vendors --setenv LD_PRELOAD "/vendors/libc_$version.so")
    run /iclab/bin/iclab --version
    if [[ $(printf '%s\n' "$version" "$newest" | sort -V | head -n 1) == "$newest" ]]; then
        expect 0 "glibc $version"
    else
        one_line 3 "C library is glibc $version: expected $newest or newer" "glibc $version is refused"
    fi
done
more=()

# ---- Python ----

# The interpreter with its own library, and what these and NumPy need of the system, a path a line.
python_files() {
    python3 - "$work/packages" <<'END'
import glob, os, re, shutil, subprocess, sys, sysconfig
import numpy
packages, library = sys.argv[1], sysconfig.get_path("stdlib")
for folder in (numpy.__path__[0], numpy.__path__[0] + ".libs"):
    shutil.copytree(folder, os.path.join(packages, os.path.basename(folder)))
programs = [os.path.realpath(sys.executable), *glob.glob(library + "/lib-dynload/*.so")]
programs += glob.glob(packages + "/**/*.so", recursive=True)
listed = subprocess.run(["ldd", *programs], stdout=subprocess.PIPE, text=True, check=True).stdout
needed = set(re.findall(r"=> (/\S+)", listed))
print(programs[0], library, *sorted(path for path in needed if not path.startswith(packages)), sep="\n")
END
}
if ! python3 -c 'import os, numpy; os.stat(numpy.__path__[0] + ".libs")' 2>/dev/null; then
    skip "the wheel" "numpy is not installed"
    finish
fi
mapfile -t files < <(python_files)
[[ $(echo "$folder"/iclab-*.whl) == *-py3-none-manylinux*.whl ]]
ok $? "the wheel is for any Python"
python3 -m zipfile -e "$folder"/iclab-*.whl "$work/packages"
outside=$(find "$work/packages/iclab" "$work/packages/iclab.libs" -type f -exec objdump -p {} + 2>/dev/null |
    sed -n 's/^ *NEEDED *//p' | sort -u | grep -vE '^(libc|libm|ld-linux-x86-64|libgcc_s|libstdc\+\+)\.so\.' |
    while read -r library; do [[ -e $work/packages/iclab.libs/$library ]] || echo "$library"; done)
compgen -G "$work/packages/iclab/_native/lib/libiclab.so*" >/dev/null && [[ -z $outside ]]
ok $? "the wheel needs of a system what NumPy does${outside:+, and $outside}"
more=(--ro-bind "$work/packages" /packages --setenv PYTHONPATH /packages --setenv PYTHONDONTWRITEBYTECODE 1)
for file in "${files[@]}"; do more+=(--ro-bind "$file" "$file"); done
run "${files[0]}" -c '
import iclab
print(iclab.sample("quickstart", 4))
run = iclab.train("quickstart", device="cpu", layers=1, steps=3, batch=8, out="/tmp/run", **
                  {"eval.sequences": 16, "eval.fit_sequences": 16, "train.growth": 0, "train.warmup": 0})
print(run.evaluation)'
expect 0 "Python samples and trains with the wheel"
grep -q '^bayes ' "$work/out"
ok $? "and prints the table"
more+=(--ro-bind "$work/vendors" /usr/local/nvidia/etc/OpenCL/vendors)
run "${files[0]}" -c 'import os, iclab; print(os.environ["OCL_ICD_VENDORS"])'
[[ $(<"$work/out") == /usr/local/nvidia/etc/OpenCL/vendors ]]
ok $? "and finds the .icd files of NVIDIA's containers"
finish
