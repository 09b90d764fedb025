#!/usr/bin/env bash
# The Python package as pip makes it from a clone, and as tools/wheel makes it, which is installed into a fresh
# environment without a compiler and used from elsewhere. Run by tools/check install. Arguments: a build folder, whose
# objects serve the wheels and which is configured again as it was afterwards; the source folder; a folder for the
# environment, which is made anew.
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
        tools/recipes tools/studies tools/data tools/models tools/sweeps |
        sed 's,^tools/python/,,; s,^include,iclab/_native/&,; s,^tools/,iclab/_native/share/iclab/,'
    printf 'iclab/_native/%s\n' bin/iclab lib/libiclab.so.VERSION
    printf 'iclab-VERSION.dist-info/%s\n' METADATA WHEEL RECORD entry_points.txt licenses/LICENSE
}
holds() { # FILE: what a wheel holds, but for the libraries that auditwheel adds
    "$environment/bin/python" -m zipfile -l "$1" |
        sed -E '1d; s/ .*//; s/[0-9]+(\.[0-9]+){2}/VERSION/; /\/$/d; /^iclab\.libs/d; /\/sboms\//d' | sort
}
holds "$work"/iclab-*.whl | diff - <(expected | sort) >"$work/log"
ok $? "which holds the package, the library, the command, what they read, and nothing else"
rm -f "$work"/iclab-*.whl

"$source/tools/wheel" --build "$build" --out "$work" -- -Dtests=auto -Dmpi=auto >"$work/log" 2>&1
status=$?
if [[ $status -eq 3 ]]; then
    skip "tools/wheel" "PyPI has no auditwheel for us"
    finish
fi
ok $status "tools/wheel makes a wheel that travels, and an archive of the sources"
wheel=$(echo "$work"/iclab-*-py3-none-manylinux*.whl)
echo "$wheel" >"$work/log"
[[ -f $wheel ]]
ok $? "for any Python 3 on Linux: ${wheel##*/}"
holds "$wheel" | diff - <(expected | sort) >"$work/log"
ok $? "which holds the same, and the libraries that it needs"
# git archive leaves out what meson dist does; pip's own file comes along.
tar -tzf "$work"/iclab-*.tar.gz | sed -E 's,^[^/]+/,,; /^$/d; /\/$/d; /^PKG-INFO$/d' | sort |
    diff - <(cd "$source" && git ls-tree -r --name-only HEAD | sort) >"$work/log"
ok $? "the archive holds the sources of the last commit"

# A PATH with the environment alone: neither a compiler nor a tool of the system.
alone() {
    env -i PATH="$environment/bin" HOME="$work" LC_ALL=C.UTF-8 ICLAB_CACHE_DIR= "$@"
}
alone "$environment/bin/pip" install --no-deps --no-cache-dir "$wheel" >"$work/log" 2>&1
ok $? "pip installs it where there is no compiler"
cat >"$work/small.py" <<'END'
import sys
import iclab
keys = {"task.d": 2, "task.n": 5, "train.batch": 8, "eval.sequences": 50, "eval.fit_sequences": 10, "eval.every": 0}
run = iclab.train({**keys, "model.layers": 1}, steps=5, device="cpu", out=sys.argv[1])
rows = [[1, 2], [3, 4], [5, 7], [6, 1], [2, 8]]
found = run.predict(rows, [1, 2, 4, 3, float("nan")], device="cpu", held_out=False)
print(run.evaluation["mse"][0] > 0, len(found["model"]))
END
[[ $(alone "$environment/bin/python" "$work/small.py" "$work/run" 2>"$work/log") == "True 1" ]]
ok $? "and there it trains a model and predicts with it"
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
