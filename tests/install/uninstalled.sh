#!/usr/bin/env bash
# What is built but not installed is used from another folder: the command finds its recipes, alone and in `meson
# devenv`, and a program is built and run there with the uninstalled pkg-config file.
# Arguments: the build folder, the source folder, then the compiler's command.
set -uo pipefail
build=$1
source=$2
shift 2
compiler=("$@")
ICLAB=$build/tools/iclab
# shellcheck source=tests/tools/tap.sh
source "$source/tests/tools/tap.sh"
unset ICLAB_RECIPES ICLAB_DEVICE
cd "$work" || exit 1
small=(--device cpu --quiet --set train.batch=8 --set train.steps=2 --set train.warmup=0 --set train.growth=0
    --set model.layers=1 --set eval.sequences=16 --set eval.fit_sequences=16 --set eval.every=0)

run train quickstart "${small[@]}" --out run
expect 0 "the command by its path finds a recipe from another folder"
PATH=$build/tools:$PATH iclab train quickstart "${small[@]}" --out found-in-path >"$work/out" 2>"$work/err"
ok $? "and so does the command in PATH"
ln -s "$build/tools/iclab" "$work/link"
"$work/link" train quickstart "${small[@]}" --out linked >"$work/out" 2>"$work/err"
ok $? "and a link to it"
mkdir -p tools/recipes
echo '[nothing]' >tools/recipes/quickstart.ini
run train quickstart "${small[@]}" --out elsewhere
expect 0 "tools/recipes of the current folder is another project's"
run train quickstrat "${small[@]}"
refused 2 'the nearest is quickstart$' "the nearest recipe is named"
ICLAB_RECIPES=$work run train quickstart "${small[@]}" --set train.seed=2 --out other
expect 0 "a folder in ICLAB_RECIPES that lacks the recipe is not the last"

if command -v meson >/dev/null; then
    in_devenv() {
        (cd "$work" && meson devenv -C "$build" -w "$work" "$@") >"$work/out" 2>"$work/err"
    }
    in_devenv iclab train quickstart "${small[@]}" --out developed
    ok $? "meson devenv: the command"
    # shellcheck disable=SC2016 # expanded there
    in_devenv sh -c 'cd /; printf "%s\n" "$ICLAB_RECIPES" "$(command -v iclab)"'
    same "$work/out" <(printf '%s\n' "$source/tools/recipes" "$build/tools/iclab") \
        "meson devenv: ICLAB_RECIPES and PATH"
    if command -v python3 >/dev/null; then
        in_devenv python3 -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("iclab_model") is None)'
        ok $? "meson devenv: the Python module"
    fi
    if command -v pkg-config >/dev/null; then
        # shellcheck disable=SC2016 # expanded there
        in_devenv sh -c 'source=$1; shift
            "$@" -std=c11 -Wall -Wextra -Werror "$source" -o program $(pkg-config --cflags --libs iclab)' \
            sh "$source/tests/install/external.c" "${compiler[@]}"
        ok $? "meson devenv: a program builds with the uninstalled pkg-config file"
        note <"$work/err"
        in_devenv ./program quickstart
        ok $? "and runs, and finds a recipe"
        note <"$work/err"
        LD_LIBRARY_PATH=$build DYLD_LIBRARY_PATH=$build ./program quickstart >"$work/out" 2>"$work/err"
        ok $? "and without the environment, by the folder of the library"
        note <"$work/err"
        # The program of README, with fewer steps.
        # shellcheck disable=SC2016 # no expansion is meant
        sed -n '/^```c$/,/^```$/p' "$source/README.md" | sed '/^```/d; s/3000/20/g' >readme.c
        # shellcheck disable=SC2016 # expanded there
        in_devenv sh -c '"$@" -std=c11 -Wall -Wextra -Werror readme.c -o readme $(pkg-config --cflags --libs iclab)' \
            sh "${compiler[@]}"
        ok $? "the program of README builds"
        note <"$work/err"
        LD_LIBRARY_PATH=$build DYLD_LIBRARY_PATH=$build ./readme >"$work/out" 2>"$work/err" &&
            grep -q '^bayes ' "$work/out"
        ok $? "and prints the table"
        note <"$work/err"
    else
        skip "a program builds with the uninstalled pkg-config file" "pkg-config is not installed"
    fi
else
    skip "meson devenv" "meson is not in PATH"
fi
finish
