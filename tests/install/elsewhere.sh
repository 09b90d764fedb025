#!/usr/bin/env bash
# Compiles every C file for systems that are not here, without a warning, and links the library and the command. zig's C
# compiler brings their headers and C libraries. Arguments: a folder for builds, a Python that has ziglang, if not
# all of them the systems, as zig names them. Prints TAP.
#
# The other libraries are stubs: this machine's headers, and every name that its shared library has. For macOS those of
# OpenCL make a framework as Apple's.
set -uo pipefail
work=$1
python=$2
cd "${BASH_SOURCE[0]%/*}/../.." || exit 1
# shellcheck source=tests/tap.sh
source tests/tap.sh
root=$PWD

targets=("${@:3}")
[[ $# -gt 2 ]] || targets=(aarch64-macos x86_64-macos aarch64-linux-gnu x86_64-linux-musl)
libraries=(inih libcjson lapacke liblbfgs OpenCL clblast) # by pkg-config's names
headers=(ini.h cjson/cJSON.h lapacke.h lapacke_config.h lapacke_mangling.h lapack.h lbfgs.h clblast_c.h clblast_half.h
    CL)
apart='tools/(ranks_mpi|bundle_start)\.c' # need the MPI of the machine; are a part of Linux's archive

# compiler TARGET: writes the compiler that Meson calls. Meson 1.0 does not know zig's linker, and is told the one that
# understands the same options. Nothing runs, so that loops need no -O3.
compiler() {
    local linker='LLD (compatible with GNU linkers)'
    [[ $1 != *macos ]] || linker='LLD ld64.lld'
    cat >"$1/cc" <<EOF
#!/usr/bin/env bash
case " \$* " in *" -Wl,--version "* | *" -Wl,-v "*) echo '$linker' | tee /dev/stderr && exit ;; esac
arguments=("\${@/#-O3/-O0}")
exec '$zig' cc -target $1 -fno-sanitize=undefined -Wno-unused-command-line-argument \
    -isystem '$work/$1/include' -iframework '$work/$1' -F'$work/$1' -L'$work/$1/lib' \
    "\${arguments[@]/#-Wl,-force_load/-force_load}"
EOF
    chmod +x "$1/cc"
}

# stubs TARGET: writes headers, libraries, and their descriptions for pkg-config.
stubs() {
    local library name end=so
    [[ $1 != *macos ]] || end=dylib
    ln -sfn "${headers[@]/#//usr/include/}" "$1/include/" || return 1
    for library in "${libraries[@]}"; do
        name=$(pkg-config --libs-only-l "$library" | sed 's/^-l//; s/ *$//')
        printf '%s\n' "Name: $library" 'Description: stub' "Version: $(pkg-config --modversion "$library")" \
            "Libs: -l$name" >"$1/lib/$library.pc"
        nm -D --defined-only "$(cc "-print-file-name=lib$name.so")" |
            sed -nE 's/^[0-9a-f]+ T ([A-Za-z_0-9]+)(@.*)?$/void \1(void) {}/p' >"$1/lib/$name.c"
        "$1/cc" -w -shared -o "$1/lib/lib$name.$end" "$1/lib/$name.c" || return 1
    done
    echo '#include <CL/cl.h>' >"$1/OpenCL.framework/Headers/opencl.h"
    ln -sf "../lib/libOpenCL.$end" "$1/OpenCL.framework/OpenCL"
}

# machine TARGET: writes Meson's description of it.
machine() {
    local system=${1#*-}
    system=${system%-*}
    cat >"$1/machine" <<EOF
[binaries]
c = '$work/$1/cc'
ar = ['$zig', 'ar']
pkgconfig = 'pkg-config'
[properties]
needs_exe_wrapper = true
pkg_config_libdir = '$work/$1/lib'
[host_machine]
system = '${system/macos/darwin}'
cpu_family = '${1%%-*}'
cpu = '${1%%-*}'
endian = 'little'
EOF
}

# compile TARGET: what Meson builds there, and the files that it only builds otherwise or installs.
compile() {
    local build=$work/$1/build setup=(setup --cross-file "$work/$1/machine") file objects linked
    (
        cd "$work" && mkdir -p "$1"/{include,lib,OpenCL.framework/Headers} &&
            compiler "$1" && stubs "$1" && machine "$1"
    ) || return 1
    [[ ! -f $build/build.ninja ]] || setup+=(--reconfigure)
    meson "${setup[@]}" -Dbuildtype=plain -Dwerror=true -Dmpi=disabled -Dperturbed=true -Dfaulty_kernels=false \
        "$build" . || return 1
    ninja -C "$build" -t targets all >"$work/$1/targets"
    mapfile -t objects < <(sed -n 's/\.o: .*/.o/p' "$work/$1/targets")
    mapfile -t linked < <(sed -nE 's/^(tools.iclab|libiclab\.[^:]*): c_LINKER$/\1/p' "$work/$1/targets")
    ninja -C "$build" -k 0 "${objects[@]}" && ninja -C "$build" "${linked[@]}" && [[ ${#linked[@]} -eq 2 ]] || return 1
    for file in "${others[@]}"; do
        "$work/$1/cc" -std=c11 -Wall -Wextra -Werror -D_POSIX_C_SOURCE=200809L -Iinclude -Isrc -c "$file" \
            -o "$work/$1/other.o" || return 1
    done
}

compiled() { # TARGET: names of source files
    printf '%s\n' "${others[@]}"
    sed -nE 's/^ *"file": "(.*)".*/\1/p' "$work/$1/build/compile_commands.json" |
        (cd "$work/$1/build" && xargs realpath --relative-to "$root")
}

mkdir -p "$work"
work=$(cd "$work" && pwd)
export ZIG_GLOBAL_CACHE_DIR=$work/zig ZIG_LOCAL_CACHE_DIR=$work/zig
zig=$("$python" -c 'import ziglang; print(ziglang.__path__[0] + "/zig")' 2>/dev/null)
if ! "$zig" version >"$work/log" 2>&1; then
    skip "other systems" "ziglang is not installed"
    finish
fi
others=(src/backend/opencl/stub.c tests/install/external.c tools/examples/*.c)
for target in "${targets[@]}"; do
    compile "$target" >"$work/$target.log" 2>&1
    ok $? "the library and the command for $target (all of the output: $work/$target.log)"
    left=$(find src tools -name '*.c' | grep -vxE "$apart" | grep -vxFf <(compiled "$target"))
    [[ -z $left ]]
    ok $? "every C file of src and tools for $target ${left//$'\n'/ }"
done
finish
