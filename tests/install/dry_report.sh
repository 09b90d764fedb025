#!/usr/bin/env bash
# gpu-report of the archive, dry: in a root that holds a C library, Python and one OpenCL driver for CPUs, with the
# kernels of GPUs. Run by tools/check. Arguments: the archive, the source folder, pocl or rusticl, minutes, and a folder
# that gets the report. In fewer than four minutes PoCL does not optimize its kernels: what times them may not end.
set -uo pipefail
archive=$1
source=$2
driver=$3
minutes=$4
reports=$5
# shellcheck source=tests/tap.sh
source "$source/tests/tap.sh"

if ! bwrap --ro-bind / / true 2>/dev/null; then
    skip "gpu-report in a bare root" "bwrap makes no sandbox here"
    finish
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/vendors" "$reports"
tar -xf "$archive" -C "$work" && mv "$work"/iclab-* "$work/iclab"

# ---- The root ----

# The driver's packages as Debian has them, without what they depend on; then what all of it is linked with.
case $driver in
pocl)
    packages=(libpocl2 libpocl2-common libc6-dev libgcc-12-dev) # it links its kernels
    echo libabsent.so >"$work/vendors/absent.icd" # gpu-report names PoCL
    setting=(--setenv ICLAB_OPENCL_KERNELS gpu)
    [[ $minutes -ge 4 ]] || setting+=(--setenv POCL_EXTRA_BUILD_FLAGS -cl-opt-disable)
    ;;
rusticl)
    packages=(mesa-opencl-icd libclc-15)
    echo libRusticlOpenCL.so.1 >"$work/vendors/rusticl.icd"
    setting=(--setenv RUSTICL_ENABLE llvmpipe)
    ;;
esac
mapfile -t files < <(python3 - "${packages[@]}" <<'END'
import glob, os, re, subprocess, sys, sysconfig
library = sysconfig.get_path("stdlib", vars={"installed_base": "/usr"})
listed = subprocess.run(["dpkg", "-L", "libc6", *sys.argv[1:]], stdout=subprocess.PIPE, text=True, check=True).stdout
other = re.compile("/usr/(share/(doc|man)|include)|/etc")
files = {path for path in listed.splitlines() if os.path.isfile(path) and not other.match(path)}
programs = ["/usr/bin/python3", "/usr/bin/ld", *glob.glob(library + "/lib-dynload/*.so")]
linked = [os.path.realpath(path) for path in {*files, *programs} if re.search(r"\.so(\.|$)|/bin/", path)]
listed = subprocess.run(["ldd", *linked], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
headers = glob.glob("/usr/lib/llvm-15/lib/clang")
needed = re.findall(r"=> (/\S+)", listed)
found = {*files, *programs[:2], library, *headers, *needed}
print(*sorted({re.sub("^/lib", "/usr/lib", path) for path in found}), sep="\n")
END
)
root=(--unshare-all --die-with-parent --clearenv --proc /proc --dev /dev --ro-bind /sys /sys --tmpfs /tmp
    --setenv PATH /usr/bin
    --symlink usr/lib /lib --symlink usr/lib64 /lib64
    --ro-bind "$work/vendors" /etc/OpenCL/vendors --ro-bind "$work/iclab" /iclab --bind "$reports" /reports)
for file in "${files[@]}"; do root+=(--ro-bind "$file" "$file"); done

# ---- The report ----

report=$reports/$driver.md
rm -f "$report"
bwrap "${root[@]}" "${setting[@]}" --chdir /reports -- /usr/bin/python3 /iclab/bin/gpu-report --minutes "$minutes" \
    --out "$driver.md" >"$work/out" 2>"$work/err" </dev/null
code=$?
[[ $code -eq 0 && -s $report ]]
ok $? "gpu-report on $driver, $minutes minutes: exit code $code"
note <"$work/err"
seconds=$(sed -nE 's/.*, after ([0-9]+) min ([0-9]+) s\..*/\1 \2/p' "$report")
[[ $((60 * ${seconds% *} + ${seconds#* })) -le $((60 * minutes + 15)) ]]
ok $? "it ended within its minutes: ${seconds/ / min } s"
verdict() { # PART VERDICT...: its row of the summary has one of these
    local part=$1 pattern
    shift
    pattern=$(printf '|%s' "$@")
    grep -qE "^\| $part \| (\*\*)?(${pattern#|})(\*\*)? \|" "$report"
    ok $? "$part: $(sed -nE "s/^\| $part \| ([^|]*) \| ([^|]*) .*/\1, \2/p" "$report")"
}
named=$(grep -c '^No .icd file names /usr/lib/.*/libpocl.so.2: from here on ' "$report")
[[ $named -eq $([[ $driver == pocl ]] && echo 1 || echo 0) ]]
ok $? "drivers that no .icd file names: $named"
for part in devices self-test conformance planted-fault; do verdict "$part" passed; done
if [[ $minutes -ge 4 ]]; then verdict peaks passed; else verdict peaks passed 'timed out'; fi
# The parts that take long may find no time, but must not fail.
for part in ops choices steps training; do verdict "$part" passed 'timed out' 'not run'; done
sampled=$(awk '$1 == "PASS" { print $2 }' "$report" | sort -u | wc -l)
[[ $sampled -ge 20 ]]
ok $? "the sample of conformance has $sampled ops"
! grep -qF "$work" "$report" && ! grep -qwF "$(hostname)" "$report"
ok $? "no folder of this machine and no name of it is in the report"
finish
