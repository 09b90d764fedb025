#!/usr/bin/env bash
# The Python package as pip installs it from a clone, into a fresh environment, and used from elsewhere. Run by
# tools/check install. Arguments: a build folder, whose objects serve the wheel and which is configured again as it was
# afterwards; the source folder; a folder for the environment, which is made anew.
set -uo pipefail
build=$1
source=$2
environment=$3
# shellcheck source=tests/tap.sh
source "$source/tests/tap.sh"
unset PYTHONPATH ICLAB_LIBRARY ICLAB_COMMAND ICLAB_RECIPES ICLAB_DEVICE
export ICLAB_CACHE_DIR=
rm -rf "$environment"
python3 -m venv "$environment" || exit 1
work=$environment/work
mkdir "$work"
cd "$work" || exit 1

explain() {
    tail -n 20 "$work/log" | note
}

if ! "$environment/bin/pip" install -q -U pip numpy meson-python >"$work/log" 2>&1; then
    skip "the wheel" "PyPI has no numpy and meson-python for us"
    finish
fi
trap 'meson setup --reconfigure -Dwheel=false "$build" "$source" >/dev/null' EXIT
"$environment/bin/pip" wheel --no-deps --no-build-isolation --wheel-dir "$work" "$source" \
    -C build-dir="$build" -C setup-args=-Dtests=auto -C setup-args=-Dmpi=auto >"$work/log" 2>&1
ok $? "pip makes a wheel of the sources"
expected() {
    cd "$source" || return
    git ls-files --cached --others --exclude-standard tools/python/iclab tools/python/iclab_model.py include/iclab \
        tools/recipes tools/data tools/sweeps |
        sed 's,^tools/python/,,; s,^include,iclab/_native/&,; s,^tools/,iclab/_native/share/iclab/,'
    printf 'iclab/_native/%s\n' bin/iclab lib/libiclab.so.VERSION
    printf 'iclab-VERSION.dist-info/%s\n' METADATA WHEEL RECORD entry_points.txt licenses/LICENSE
}
"$environment/bin/python" -m zipfile -l "$work"/iclab-*.whl | sed -E '1d; s/ .*//; s/[0-9]+(\.[0-9]+){2}/VERSION/' |
    sort | diff - <(expected | sort) >"$work/log"
ok $? "which holds the package, the library, the command, what they read, and nothing else"
"$environment/bin/pip" install --no-deps "$work"/iclab-*.whl >"$work/log" 2>&1
ok $? "pip installs it"
"$environment/bin/iclab" --version >"$work/log" 2>&1 && grep -q '^iclab ' "$work/log"
ok $? "the command came along: $(head -n 1 "$work/log")"
"$environment/bin/python" -c 'import iclab; print(iclab.Recipe("quickstart"), iclab.__file__)' >"$work/log" 2>&1 &&
    grep -q "$environment" "$work/log"
ok $? "it finds its recipes"
for example in "$source"/tools/python/examples/*.py; do
    "$environment/bin/python" "$example" "$work/${example##*/}" >"$work/log" 2>&1
    ok $? "${example##*/}"
done
finish
