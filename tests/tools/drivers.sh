#!/usr/bin/env bash
# Drivers of OpenCL that are on the machine and that the loader is not told of: `iclab devices` names each with a line,
# and the line works. PoCL is the driver, in sandboxes with another /etc/OpenCL. Argument: the command.
set -uo pipefail
ICLAB=$1
# shellcheck source=tests/tools/tap.sh
source "${BASH_SOURCE[0]%/*}/tap.sh"
unset OCL_ICD_VENDORS OPENCL_VENDOR_PATH OPENCL_LAYERS LD_LIBRARY_PATH ICLAB_DEVICE
export HOME=/tmp/home POCL_CACHE_DIR=${POCL_CACHE_DIR:-$work/pocl-cache}
mkdir -p "$POCL_CACHE_DIR"

pocl=/usr/lib/x86_64-linux-gnu/libpocl.so.2
if [[ ! -e $pocl || ! -d /etc/OpenCL ]] || ! "$ICLAB" --version 2>/dev/null | grep OpenCL >/dev/null; then
    skip "drivers that are not named" "no OpenCL driver PoCL here"
    finish
fi

# ---- Without PATH ----
for path in '' PATH=; do
    mkdir "$work/fresh"
    # shellcheck disable=SC2086 # none or one word
    env -i $path HOME="$work" POCL_CACHE_DIR="$work/fresh" ICLAB_CACHE_DIR="$work/fresh" "$ICLAB" \
        compare --device opencl:pocl --op softplus --seconds 1 >"$work/out" 2>"$work/err"
    ok $? "PoCL finds its linker where the environment has ${path:-no PATH}"
    tail -n 1 "$work/err" | note
    rm -r "$work/fresh"
done

if ! bwrap --ro-bind / / true 2>/dev/null; then
    skip "drivers that are not named" "bwrap makes no sandbox here"
    finish
fi

# inside ARGUMENT...: arguments of bwrap beside a system without .icd files and with a home, and behind `--` a command;
# what it says goes to $work/out and $work/err.
inside() {
    code=0
    bwrap --ro-bind / / --dev /dev --tmpfs /tmp --dir /tmp/home --ro-bind "$ICLAB" /tmp/iclab --tmpfs /etc/OpenCL \
        --tmpfs /usr/local --bind "$POCL_CACHE_DIR" "$POCL_CACHE_DIR" "$@" \
        >"$work/out" 2>"$work/err" </dev/null || code=$?
}
lists_pocl() { # NAME
    [[ $code -eq 0 ]] && grep -q 'Portable Computing Language' "$work/out"
    ok $? "$1"
    tail -n 1 "$work/err" | note
}
# shellcheck disable=SC2016 # expanded there: what is said, and then devices in a shell that ran the line
paste=(-- bash -c '/tmp/iclab devices 2>&1 >/tmp/list | tee /tmp/said >&2 && ! grep -q Portable /tmp/list &&
    eval "$(sed -n "s/^.*this line writes one: //p" /tmp/said)" && /tmp/iclab devices && ls "${OCL_ICD_VENDORS:-/}"')
told() { # PATTERN NAME: one driver was named, in one line
    [[ $(grep -c 'no .icd file names it' "$work/err") -eq 1 ]] && grep -qE -- "$1" "$work/err"
    ok $? "$2"
    grep 'no .icd file' "$work/err" | note
}

inside "${paste[@]}"
told "driver $pocl is .*: mkdir -p '/etc/OpenCL/vendors' && echo '$pocl' >'/etc/OpenCL/vendors/pocl.icd'\$" "a driver"
lists_pocl "the line that was printed makes it serve"
inside --remount-ro /etc/OpenCL "${paste[@]}"
told ": v=~/.iclab-vendors && .* export OCL_ICD_VENDORS=\"\\\$v\"\$" "without a right to write there"
lists_pocl "that line works, too"
inside --remount-ro /etc/OpenCL --setenv HOME /nowhere "${paste[@]}"
told ': v=\$\(mktemp -d\) && ' "nor to write into the home"
lists_pocl "and so does that one"
echo libabsent.so >"$work/absent.icd"
inside --ro-bind "$work/absent.icd" /etc/OpenCL/vendors/absent.icd --remount-ro /etc/OpenCL "${paste[@]}"
told "cp '/etc/OpenCL/vendors'/\\*.icd \"\\\$v\" && " "where another driver is named"
lists_pocl "that line works"
grep -qx 'absent.icd' "$work/out"
ok $? "and takes the other driver along"
inside --setenv OCL_ICD_VENDORS '/tmp/of mine' "${paste[@]}"
told ": mkdir -p '/tmp/of mine' && echo .* >'/tmp/of mine/pocl.icd'\$" "a folder of one's own, with a blank"
lists_pocl "is the one that is written to"

for line in libpocl.so.2.10.0 "$pocl"; do
    echo "$line" >"$work/named.icd"
    inside --ro-bind "$work/named.icd" /etc/OpenCL/vendors/any.icd -- /tmp/iclab devices
    [[ $code -eq 0 ]] && ! grep -q 'no .icd file' "$work/err"
    ok $? "a driver that is named as $line is not told of"
done
for value in /tmp/any.icd libpocl.so.2; do
    inside --ro-bind "$work/named.icd" /tmp/any.icd --setenv OCL_ICD_VENDORS "$value" -- /tmp/iclab devices
    [[ $code -eq 0 ]] && ! grep -q 'no .icd file' "$work/err"
    ok $? "nor one that OCL_ICD_VENDORS=$value names"
done
inside --ro-bind "$work/named.icd" /etc/OpenCL/vendors/any.icd --setenv OCL_ICD_VENDORS /tmp/home -- /tmp/iclab devices
[[ $code -eq 0 ]] && ! grep -qE 'no .icd file|Portable' "$work/err" "$work/out"
ok $? "nor one that OCL_ICD_VENDORS leaves out"

mkdir -p "$work/with blanks" "$work/nvidia/OpenCL/vendors"
: >"$work/with blanks/libnvidia-opencl.so.1"
inside --ro-bind "$work/named.icd" /etc/OpenCL/vendors/any.icd --ro-bind "$work/with blanks" "/tmp/with blanks" \
    --setenv LD_LIBRARY_PATH "/tmp::/tmp/with blanks" -- /tmp/iclab devices
told "echo '/tmp/with blanks/libnvidia-opencl.so.1' >'/etc/OpenCL/vendors/nvidia.icd'\$" "a library in LD_LIBRARY_PATH"
: >"$work/nvidia/libnvidia-opencl.so.1"
inside --ro-bind "$work/named.icd" /etc/OpenCL/vendors/any.icd --ro-bind "$work/nvidia" /usr/local/nvidia/lib64 \
    -- /tmp/iclab devices
told "driver /usr/local/nvidia/lib64/libnvidia-opencl.so.1 is" "one in a folder of NVIDIA's containers"

echo "$pocl" >"$work/nvidia/OpenCL/vendors/any.icd"
inside --ro-bind "$work/nvidia" /usr/local/nvidia -- /tmp/iclab devices
lists_pocl ".icd files of NVIDIA's containers serve where the system has none"
[[ ! -s $work/err ]]
ok $? "and nothing is told"
inside --ro-bind "$work/nvidia" /usr/local/nvidia --setenv OCL_ICD_VENDORS /tmp/home -- /tmp/iclab devices
[[ $code -eq 0 ]] && ! grep -q Portable "$work/out"
ok $? "unless OCL_ICD_VENDORS names other ones"
inside --ro-bind "$work/nvidia" /usr/local/nvidia --ro-bind "$work/absent.icd" /etc/OpenCL/vendors/absent.icd \
    -- /tmp/iclab devices
[[ $code -eq 0 ]] && ! grep -q Portable "$work/out"
ok $? "or the system has some"
finish
