#!/usr/bin/env bash
# The Python package as pip installs it, from a clone's sources and a build that is there: into a fresh environment,
# used from elsewhere. From an sdist the same wheel's files come. Run by tools/check install.
# Arguments: a build folder, the source folder, a folder for the environment, which is made anew.
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
    tail -n 20 "$work/log" | sed 's/^/# /'
}

if ! "$environment/bin/pip" install -q numpy >"$work/log" 2>&1; then
    skip "the wheel" "numpy is not installed"
    finish
fi
"$environment/bin/pip" install --no-deps --config-settings build-dir="$build" "$source/tools/python" >"$work/log" 2>&1
ok $? "pip installs the package from the sources"
"$environment/bin/iclab" --version >"$work/log" 2>&1 && grep -q '^iclab ' "$work/log"
ok $? "the command came along: $(head -n 1 "$work/log")"
"$environment/bin/python" -c 'import iclab; print(iclab.Recipe("quickstart"), iclab.__file__)' >"$work/log" 2>&1 &&
    grep -q "$environment" "$work/log"
ok $? "it finds its recipes"
for example in "$source"/tools/python/examples/*.py; do
    "$environment/bin/python" "$example" "$work/${example##*/}" >"$work/log" 2>&1
    ok $? "${example##*/}"
done

backend() { # FOLDER, THE BACKEND'S FOLDER, CALL
    (cd "$1" && PYTHONPATH=$2 python3 -c "import meson_backend; print(meson_backend.$3)") >"$work/log" 2>&1
}
backend "$source" "$source/tools/python" "build_sdist('$work')" && tar -xzf "$work"/iclab-*.tar.gz
ok $? "an sdist"
unpacked=$(echo "$work"/iclab-*/)
grep -q 'backend-path = \["tools/python"\]' "$unpacked/pyproject.toml" && [[ ! -e $unpacked/tests ]]
ok $? "says where its backend lies, and holds no tests"
CC=cc meson setup -Dtests=disabled -Dmpi=disabled "$work/configured" "$unpacked" >"$work/log" 2>&1
ok $? "it configures"
ninja -C "$work/configured" -n >"$work/log" 2>&1
ok $? "no file of the build is missing"
backend "$unpacked" "$unpacked/tools/python" \
    "build_wheel('$work', {'build-dir': '$build'})" && [[ -f $(echo "$work"/iclab-*.whl) ]]
ok $? "its backend makes a wheel"
"$environment/bin/python" - "$work"/iclab-*.whl >"$work/log" 2>&1 <<'END'
import base64, csv, hashlib, io, sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
record = next(name for name in archive.namelist() if name.endswith("/RECORD"))
rows = list(csv.reader(io.TextIOWrapper(archive.open(record))))
assert {row[0] for row in rows} == set(archive.namelist()), "names"
for name, digest, size in rows[:-1]:
    data = archive.read(name)
    seen = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    assert (digest, int(size)) == ("sha256=" + seen, len(data)), name
END
ok $? "whose record holds every file"
finish
