#!/usr/bin/env bash
# What a user gets from `meson install`: the files, a program of theirs built against them with pkg-config, and a
# library that shows its documented functions and no other symbol.
# Arguments: the build folder, the source folder, the install prefix, below it the folders of data and of man pages,
# then the command of the C compiler, "--", and that of the C++ compiler, which may be missing.
set -uo pipefail
build=$1
source=$2
prefix=$3
datadir=$4
mandir=$5
shift 5
compiler=()
while [[ $# -gt 0 && $1 != -- ]]; do
    compiler+=("$1")
    shift
done
shift
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
# shellcheck source=tests/tap.sh
source "${BASH_SOURCE[0]%/*}/../tap.sh"

meson install -C "$build" --no-rebuild --quiet --destdir "$root" >"$root.log" 2>&1
installed=$?
note <"$root.log"
rm -f "$root.log"
ok "$installed" "meson install"
[[ $installed -eq 0 ]] || finish

shared=$(find "$root$prefix" -name 'libiclab.so' -o -name 'libiclab.dylib' | head -n 1)
[[ -n $shared ]]
ok $? "the shared library is installed"
[[ -n $shared ]] || finish
libraries=$(dirname "$shared")

missing=$(comm -23 <(cd "$source/include/iclab" && ls) <(cd "$root$prefix/include/iclab" && ls))
stray=$(find "$root$prefix/include" -type f ! -name '*.h')
[[ -z $missing$stray ]] || printf 'missing: %s\nstray: %s\n' "$missing" "$stray" | note
[[ -z $missing$stray ]]
ok $? "every header and nothing else is below include/"

if command -v pkg-config >/dev/null; then
    export PKG_CONFIG_PATH=$libraries/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
    read -r -a flags <<<"$(pkg-config --cflags --libs iclab)"
    unset PKG_CONFIG_SYSROOT_DIR
    "${compiler[@]}" -std=c11 -Wall -Wextra -Werror "$source/tests/install/external.c" \
        -o "$root/external" "${flags[@]}" >"$root/compile" 2>&1
    compiled=$?
    note <"$root/compile"
    ok "$compiled" "an outside program builds with pkg-config"
    if [[ $compiled -eq 0 ]]; then
        LD_LIBRARY_PATH=$libraries DYLD_LIBRARY_PATH=$libraries "$root/external" >"$root/run" 2>&1
        ran=$?
        note <"$root/run"
        ok "$ran" "and runs"
    fi
    # The examples as they are installed, each on two devices.
    examples=$root$prefix/$datadir/iclab/examples
    pairs=("cpu ref")
    [[ $("$build/tools/iclab" devices --json 2>/dev/null) != *'"opencl:'* ]] || pairs+=("opencl cpu")
    for name in own_task own_model; do
        "${compiler[@]}" -std=c11 -Wall -Wextra -Werror "$examples/$name.c" "$examples/experiment.c" \
            -o "$root/$name" "${flags[@]}" -lm >"$root/compile" 2>&1
        ok $? "the example $name builds"
        note <"$root/compile"
        for pair in "${pairs[@]}"; do
            # shellcheck disable=SC2086 # two devices
            (cd "$root" && LD_LIBRARY_PATH=$libraries DYLD_LIBRARY_PATH=$libraries "./$name" $pair) >"$root/run" 2>&1 &&
                grep -qx 'resumed at step [1-9][0-9]*' "$root/run"
            ok $? "$name trains, resumes, beats its reference and agrees on $pair"
            note <"$root/run"
        done
    done
    # Families in a file, built by the line in it.
    read -r -a flags <<<"$(PKG_CONFIG_SYSROOT_DIR=$root pkg-config --cflags iclab)"
    loadable=("${compiler[@]}" -shared -fPIC)
    [[ $(uname) != Darwin ]] || loadable+=(-undefined dynamic_lookup)
    "${loadable[@]}" -std=c11 -Wall -Wextra -Werror "$examples/chain.c" \
        -o "$root/chain.so" "${flags[@]}" >"$root/compile" 2>&1 &&
        (cd "$root" && "$build/tools/iclab" --with ./chain.so train "$examples/chain.ini" --device cpu --out chain \
            --set train.steps=5 --set train.warmup=0 --set eval.every=0 --set eval.sequences=50) >"$root/run" 2>&1 &&
        grep -q '^counts ' "$root/run"
    ok $? "the example chain builds, and iclab trains on it"
    note <"$root/compile"
else
    skip "an outside program builds with pkg-config" "pkg-config is not installed"
fi

# Exactly the functions that the public headers mark are visible, so nothing internal becomes an interface by accident.
if [[ $shared == *.dylib ]]; then
    nm -gU "$shared" | awk '{ print $3 }' | sed 's/^_//' | sort -u >"$root/shown"
else
    nm -D --defined-only "$shared" | awk '{ print $3 }' | sort -u >"$root/shown"
fi
# Declarations may wrap: join each header into one line first, without its comments.
for header in "$source"/include/iclab/*.h; do
    sed 's/^#define.*//' "$header" | tr '\n' ' ' | sed 's,/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/,,g'
done | grep -oE 'ICL_API [^;(]*[ *]icl_[a-z0-9_]+\(' | grep -oE 'icl_[a-z0-9_]+\($' | tr -d '(' |
    sort -u >"$root/declared"
comm -23 "$root/shown" "$root/declared" | sed 's/^/visible but not declared: /' >"$root/difference"
comm -13 "$root/shown" "$root/declared" | sed 's/^/declared but not there: /' >>"$root/difference"
note <"$root/difference"
[[ -s $root/declared && ! -s $root/difference ]]
ok $? "the library shows the $(wc -l <"$root/declared" | tr -d ' ') declared functions and no other symbol"

# By the names of C: a declaration outside of ICL_C_BEGIN would ask for another symbol.
if [[ $# -gt 0 ]]; then
    {
        echo '#include <iclab/iclab.h>'
        sed 's/.*/auto *const use_& = \&&;/' "$root/declared"
        echo 'int main() { return'
        sed 's/.*/ use_& == nullptr ||/' "$root/declared"
        echo 'false; }'
    } >"$root/all.cpp"
    "$@" -std=c++11 -I "$root$prefix/include" "$root/all.cpp" -o "$root/all" -L "$libraries" -liclab \
        -Wl,-rpath,"$libraries" >"$root/compile" 2>&1 && "$root/all"
    ok $? "a program in C++ links with every declared function"
    head -n 5 "$root/compile" | note
else
    skip "a program in C++ links with every declared function" "there is no C++ compiler"
fi

[[ -x $root$prefix/bin/iclab ]]
ok $? "the command is installed"
same_files() { # NAME FOLDER EXPECTED-FOLDER
    local different
    different=$(diff <(cd "$2" 2>/dev/null && find . -type f | sort) <(cd "$3" && find . -type f | sort))
    ok $? "$1"
    [[ -z $different ]] || note <<<"$different"
}
same_files "every example is installed" "$root$prefix/$datadir/iclab/examples" "$source/tools/examples"
same_files "every recipe is installed" "$root$prefix/$datadir/iclab/recipes" "$source/tools/recipes"
same_files "every study is installed" "$root$prefix/$datadir/iclab/studies" "$source/tools/studies"
for file in "$mandir/man1/iclab.1" "$mandir/man1/iclab-train.1" "$mandir/man5/iclab-recipe.5" \
    "$datadir/bash-completion/completions/iclab" "$datadir/zsh/site-functions/_iclab"; do
    [[ -s $root$prefix/$file ]]
    ok $? "$file is installed"
done
if [[ -x $root$prefix/bin/iclab ]]; then
    LD_LIBRARY_PATH=$libraries DYLD_LIBRARY_PATH=$libraries "$root$prefix/bin/iclab" --version >"$root/run" 2>&1
    ran=$?
    note <"$root/run"
    ok "$ran" "iclab --version"
    # It lies in another folder than it was built for.
    said=$(cd / && unset ICLAB_RECIPES && LD_LIBRARY_PATH=$libraries DYLD_LIBRARY_PATH=$libraries \
        "$root$prefix/bin/iclab" train quickstrat 2>&1)
    [[ $said == *'the nearest is quickstart' ]]
    ok $? "the command finds the recipes of an installation that was moved"
fi
finish
