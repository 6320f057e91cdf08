#!/usr/bin/env bash
# usage: bench/fresh_run.sh K OPTION...      One run of K workers in a home of its own that is removed
# afterwards; prints its record as JSON. For bench/ratio.py. Prepared data are kept for the next call.
set -euo pipefail
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
prepared=${XDG_CACHE_HOME:-$HOME/.cache}/mlbench/bench-data
mkdir -p "$prepared"
ln -s "$prepared" "$home/cache"
MLBENCH=${MLBENCH:-$(dirname "${BASH_SOURCE[0]}")/../build/release/bin/mlbench}
"$MLBENCH" run r "$@" --home "$home" --local --json
