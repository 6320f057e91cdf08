#!/usr/bin/env bash
# usage: tools/build.sh PRESET [TARGET...]      configures and builds, with progress
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=$1
shift
build=build/$preset
mkdir -p "$build"

cmake --preset "$preset" ${MLBENCH_TORCH_DIR:+-DMLBENCH_TORCH_DIR="$MLBENCH_TORCH_DIR"} >"$build/configure.log" 2>&1 || {
  cat "$build/configure.log" >&2
  exit 1
}
grep -o 'LibTorch [0-9.]*: .*' "$build/configure.log" || true

if [[ ! -f $build/.built ]]; then
  echo "build: the first build takes some 10 min on 2 cores, on old ones up to 40"
fi
started=$SECONDS
NINJA_STATUS='[%f/%t, %es] ' cmake --build --preset "$preset" ${1:+--target "$@"}
touch "$build/.built"
echo "build: $build/bin in $((SECONDS - started)) s"
