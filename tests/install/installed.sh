#!/usr/bin/env bash
# What was installed for good is used from elsewhere: the command finds its recipes, and a program is built with the
# library, shared and static, and trains. Run by tools/check install.
# Arguments: a build folder, its prefix, the source folder, then the compiler's command.
set -uo pipefail
build=$1
prefix=$2
source=$3
shift 3
compiler=("$@")
ICLAB=$prefix/bin/iclab
# shellcheck source=tests/tools/tap.sh
source "$source/tests/tools/tap.sh"
unset ICLAB_RECIPES ICLAB_DEVICE
cd "$work" || exit 1

rm -rf "$prefix"
meson install -C "$build" --no-rebuild >"$work/err" 2>&1
ok $? "meson install"
run --version
expect 0 "--version"
grep -qE '^iclab .*\([0-9a-f]{12}, ' "$work/out" && grep -q '^built with ' "$work/out"
ok $? "it names the commit and the libraries"
note <"$work/out"
run train quickstart --device cpu --set train.batch=8 --set train.steps=3 --set train.warmup=0 --set eval.sequences=16 \
    --set eval.fit_sequences=16 \
    --set eval.every=0 --set train.growth=0 --set model.layers=1
expect 0 "a recipe by its name, from another folder"
[[ -s $work/runs/quickstart-seed1/model.safetensors ]]
ok $? "and a run folder there"
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name iclab.pc)")
export PKG_CONFIG_PATH
[[ $(pkg-config --modversion iclab) == "$("$ICLAB" --version | sed -n 's/^iclab \([^ ]*\) .*/\1/p')" ]]
ok $? "iclab.pc has the command's version"
for kind in shared static; do
    read -r -a flags <<<"$(pkg-config --cflags --libs iclab)"
    if [[ $kind == static ]]; then
        read -r -a flags <<<"$(pkg-config --cflags --libs --static iclab)"
        flags=("${flags[@]/#-liclab/-l:libiclab.a}")
    fi
    "${compiler[@]}" -std=c11 -Wall -Wextra -Werror "$source/tests/install/external.c" -o "$work/$kind" \
        "${flags[@]}" >"$work/err" 2>&1 &&
        LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH") "$work/$kind" >"$work/out" 2>>"$work/err"
    ok $? "a program with the $kind library trains"
    note <"$work/out"
done
finish
