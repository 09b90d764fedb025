# shellcheck shell=bash
# TAP for tests that are scripts, to be sourced.
count=0
failed=0

# What else is to be said of a failed check; a script may have its own.
explain() {
    :
}

ok() { # STATUS NAME
    count=$((count + 1))
    if [[ $1 -eq 0 ]]; then
        echo "ok $count - $2"
    else
        failed=1
        echo "not ok $count - $2"
        explain
    fi
}

skip() { # NAME REASON
    count=$((count + 1))
    echo "ok $count - $1 # SKIP $2"
}

# stdin as comments
note() {
    sed 's/^/# /'
}

finish() {
    echo "1..$count"
    exit "$failed"
}
