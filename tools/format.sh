#!/usr/bin/env bash
# usage: tools/format.sh [--check] [FILE...]      C++ sources; all of the tree without a FILE
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

format=$(command -v clang-format-14) || {
  echo "format: clang-format 14 is needed (tools/setup.sh lint)" >&2
  exit 1
}
mode=(-i)
if [[ ${1:-} == --check ]]; then
  mode=(--dry-run -Werror)
  shift
fi
if [[ $# == 0 ]]; then
  mapfile -t files < <(find src tests bench examples -name '*.h' -o -name '*.inc' -o -name '*.cpp' 2>/dev/null | sort)
  set -- "${files[@]}"
fi
status=0
"$format" "${mode[@]}" "$@" || status=1
# The formatter leaves comments as they are written, also beyond its last column.
if grep -HnP '^(?=.{121})[^"]*//' "$@"; then
  echo "format: comments end at column 120" >&2
  status=1
fi
exit $status
