#!/usr/bin/env bash
# The archive of meson dist is complete: another project, which has it as a subproject, builds from it a program that
# trains. Run by tools/check install. Arguments: a configured build folder, the source folder, a folder to work in.
set -uo pipefail
build=$1
source=$2
parent=$3
# shellcheck source=tests/tap.sh
source "$source/tests/tap.sh"

# Its own tests are those of the tree it was made from, which have just run or are about to.
rm -rf "$build/meson-dist"
meson dist -C "$build" --no-tests --allow-dirty --formats gztar >"$build/dist.log" 2>&1
status=$?
[[ $status -eq 0 ]] || tail -n 20 "$build/dist.log" | note
ok "$status" "meson dist"
archive=$(find "$build/meson-dist" -name 'iclab-*.tar.gz')
[[ $status -eq 0 && -n $archive ]] || finish

# Sources anew; what was compiled from them stays and is compiled again only where they differ.
rm -rf "$parent/subprojects/iclab"
mkdir -p "$parent/subprojects/iclab"
cp "$source/tests/install/parent/meson.build" "$source/tests/install/external.c" "$parent"
tar -xzf "$archive" -C "$parent/subprojects/iclab" --strip-components 1
ok $? "the archive unpacks"
setup=(setup)
[[ ! -f $parent/build/build.ninja ]] || setup=(setup --reconfigure)
# Not optimized, and without OpenCL: this is about what is there, and quickly built.
meson "${setup[@]}" -Dbuildtype=plain -Diclab:opencl=disabled "$parent/build" "$parent" >"$parent/log" 2>&1
status=$?
[[ $status -eq 0 ]] || tail -n 20 "$parent/log" | note
ok "$status" "a project with iclab in subprojects/ configures"
grep -qE '^ *tests *: *NO' "$parent/log"
ok $? "without the tests of iclab"
ninja -C "$parent/build" program >"$parent/log" 2>&1
status=$?
[[ $status -eq 0 ]] || tail -n 20 "$parent/log" | note
ok "$status" "it builds"
"$parent/build/program" >"$parent/out" 2>&1
ok $? "its program trains"
note <"$parent/out"
commit=$(git -C "$source" log -1 --format=%H 2>/dev/null)
grep -qF "ICL_COMMIT \"${commit:0:12}\"" "$parent/build/subprojects/iclab/config.h"
ok $? "what is built from the archive knows its commit"
finish
