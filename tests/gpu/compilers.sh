#!/usr/bin/env bash
# Fetches the offline compilers that cannot be installed beside what tests run on: compilers.sh FOLDER
#
# From Debian, unpacked and not installed: libclc-19, which conflicts with Mesa's libclc-15, and intel-opencl-icd, whose
# driver would join the tests, for its ocloc. From PyPI: NVIDIA's assembler and disassembler. Versions from PyPI are
# fixed, because limits are figures of a compiler. What is there is kept.
set -euo pipefail
folder=$1
mkdir -p "$folder/packages"
folder=$(cd "$folder" && pwd)

debian() {
    (cd "$folder/packages" && apt-get download -q libclc-19 intel-opencl-icd) || return 1
    for package in "$folder"/packages/*.deb; do dpkg-deb -x "$package" "$folder/debian" || return 1; done
    touch "$folder/debian/complete"
}

update() { # lists of packages, which a fresh container lacks
    if [[ $(id -u) -eq 0 ]]; then apt-get update -q; else sudo -n apt-get update -q; fi
}

python() {
    python3 -m venv "$folder/python" &&
        "$folder/python/bin/pip" install -q --no-deps nvidia-cuda-nvcc-cu12==12.9.86 nvidia-cuda-nvdisasm==13.2.51 &&
        touch "$folder/python/complete"
}

status=0
[[ -f $folder/debian/complete ]] || debian || { update && debian; } || status=1
[[ -f $folder/python/complete ]] || python || status=1
exit "$status"
