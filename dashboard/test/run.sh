#!/usr/bin/env bash
# usage: dashboard/test/run.sh unit|dist|browser|trace      what needs Node; ctest starts it (set browser of test.sh)
# A missing capability is told as GoogleTest tells a skip, so that the list of skips has it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
what=${1:?unit, dist, browser or trace}

skip() {
  printf '%s: Skipped\nmissing capability: %s\n\n[  SKIPPED ] Dashboard.%s (0 ms)\n' "$0" "$1" "$what"
  exit 0
}

for program in node npm; do
  command -v "$program" >/dev/null || skip "Node 20.19 or later, with npm"
done
node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' ||
  skip "Node 20.19 or later (this is $(node --version))"
if [[ ! node_modules/.package-lock.json -nt package-lock.json ]]; then
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  npm ci --no-update-notifier >"$log" 2>&1 || skip "the packages of dashboard/package-lock.json (npm ci: $(grep -m 1 'npm error' "$log" || tail -n 1 "$log"))"
  touch node_modules/.package-lock.json
fi

find_chromium() {
  CHROMIUM=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
  [[ $CHROMIUM ]] || skip "Chromium"
  export CHROMIUM
}

# Perfetto and Catapult's viewer, once per build tree.
find_trace_readers() {
  local wheels log python
  export MLBENCH_TEST_TRACE_READERS=$MLBENCH_TEST_BINARY_DIR/trace_readers
  if cmp --silent test/trace_readers.txt "$MLBENCH_TEST_TRACE_READERS/trace_readers.txt"; then
    return
  fi
  for python in python3 /usr/bin/python3; do
    if "$python" -m pip --version >/dev/null 2>&1; then
      break
    fi
  done
  wheels=$(mktemp -d)
  log=$(mktemp)
  # The platform is named, so that any Python 3 fetches the same file: only its pages are used.
  "$python" -m pip --disable-pip-version-check download --quiet --no-deps --require-hashes --only-binary=:all: \
    --python-version 3.11 --implementation cp --abi cp311 --platform manylinux_2_28_x86_64 \
    --dest "$wheels" -r test/trace_readers.txt >"$log" 2>&1 ||
    skip "the wheel of dashboard/test/trace_readers.txt ($(tail -n 1 "$log"))"
  rm -rf "$MLBENCH_TEST_TRACE_READERS"
  "$python" -m zipfile --extract "$wheels"/*.whl "$MLBENCH_TEST_TRACE_READERS"
  cp test/trace_readers.txt "$MLBENCH_TEST_TRACE_READERS"
  rm -rf "$wheels" "$log"
}

case $what in
  unit)
    node --test test/unit_test.mjs
    node test/texts.mjs | "${MLBENCH_TEST_PYTHON:-python3}" -B ../tools/check_sentences.py --only-texts --texts -
    ;;
  dist)
    node_modules/.bin/tsc --noEmit
    node test/verify_dist.mjs
    ;;
  browser)
    find_chromium
    node --test --test-reporter=spec test/browser_test.mjs
    ;;
  trace)
    find_chromium
    find_trace_readers
    node --test --test-reporter=spec test/trace_test.mjs
    ;;
  *)
    echo "run.sh: unknown \"$what\"" >&2
    exit 2
    ;;
esac
