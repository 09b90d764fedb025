#!/usr/bin/env bash
# The mean that the command prints; never one below 1.
set -euo pipefail

[[ $("$1" 1 2 6) == "more than 1: 3" ]] || printf 'not '
echo "ok 1 - a mean"
echo "1..1"
