#!/usr/bin/env bash
# usage: tools/tidy.sh [REGEX...]      clang-tidy over the files whose path matches, then the other linters over all;
#                                      all files without a REGEX
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

command -v run-clang-tidy-14 >/dev/null || {
  echo "tidy: clang-tidy 14 is needed (tools/setup.sh lint)" >&2
  exit 1
}
# GCC's precompiled header means nothing to clang.
build=build/tidy
cmake --preset dev -B "$build" -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >/dev/null
cmake --build "$build" --target mlbench_git_describe mlbench_tensorboard_event >/dev/null

status=0
if [[ $# == 0 ]]; then
  set -- "$PWD/(src|tests|bench|examples)/.*"
fi
run-clang-tidy-14 -quiet -p "$build" "$@" 2>/dev/null || status=1
tools/format.sh --check || status=1
shellcheck ./*.sh tools/*.sh dashboard/test/*.sh deploy/docker/*.sh .ci/run || status=1
exit "$status"
