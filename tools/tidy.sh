#!/usr/bin/env bash
# usage: tools/tidy.sh [REGEX...]      clang-tidy over the files whose path matches, then the other linters over all;
#                                      all files without a REGEX
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

command -v run-clang-tidy-14 >/dev/null || {
  echo "tidy: clang-tidy 14 is needed (tools/setup.sh lint)" >&2
  exit 1
}

configure() { # folder cmake_argument...
  # GCC's precompiled header means nothing to clang.
  cmake --preset dev -B "$1" -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON "${@:2}" >/dev/null
  cmake --build "$1" --target mlbench_git_describe mlbench_image_example mlbench_tensorboard_event >/dev/null
}

status=0
check() { # run_clang_tidy_argument...
  run-clang-tidy-14 -quiet "$@" 2>/dev/null || status=1
}

configure build/tidy
if [[ $# != 0 ]]; then
  check -p build/tidy "$@"
else
  # Most of the time goes into headers, so that up to twelve files are read as one. Unused using-declarations are found
  # only in a file that is read alone.
  configure build/tidy-unity -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=12
  check -p build/tidy-unity -header-filter="$PWD/(src|tests|bench|examples)/"
  mapfile -t with_using < <(git grep --files-with-matches -E '^\s*using (::)?\w+(::\w+)+;' -- '*.cpp')
  check -p build/tidy -checks='-*,misc-unused-using-decls' "${with_using[@]/#/$PWD/}"
fi
tools/format.sh --check || status=1
shellcheck ./*.sh tools/*.sh dashboard/test/*.sh deploy/docker/*.sh .ci/run || status=1
exit "$status"
