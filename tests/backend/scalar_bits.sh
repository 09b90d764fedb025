#!/usr/bin/env bash
# Scalar code is the reference of vector code: every op has the same bits in both, where neither fuses products with
# sums. Arguments: a build folder, that of a build with -Dscalar=true. Prints TAP.
set -uo pipefail
build=$1
scalar=$2
# shellcheck source=tests/tap.sh
source "${BASH_SOURCE[0]%/*}/../tap.sh"
grep -q '"[^"]*, scalar"' "$scalar/config.h" && ! grep -q '"[^"]*, scalar"' "$build/config.h"
ok $? "one of the builds is scalar"
for host in cpu ref; do
    "$build/tests/backend/test-host-bits" "$host" print >"$scalar/vector-bits-$host" &&
        "$scalar/tests/backend/test-host-bits" "$host" print >"$scalar/bits-$host"
    ok $? "every op runs on $host"
    [[ $(wc -l <"$scalar/bits-$host") -gt 100 ]]
    ok $? "more than 100 results on $host"
    differences=$(diff "$scalar/vector-bits-$host" "$scalar/bits-$host")
    ok $? "scalar and vector code give the same bits on $host"
    [[ -z $differences ]] || note <<<"$differences"
done
finish
