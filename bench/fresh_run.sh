#!/usr/bin/env bash
# usage: bench/fresh_run.sh K OPTION...      One run of K workers in a home of its own that is removed
# afterwards; prints its record as JSON. For bench/ratio.py.
set -euo pipefail
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
MLBENCH=${MLBENCH:-$(dirname "${BASH_SOURCE[0]}")/../build/release/bin/mlbench}
"$MLBENCH" run r "$@" --home "$home" --local --json
