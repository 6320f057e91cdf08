#!/usr/bin/env bash
# usage: dashboard/test/run.sh unit|dist|browser      what needs Node; ctest starts it (set browser of test.sh)
# A missing capability is told as GoogleTest tells a skip, so that the list of skips has it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
what=${1:?unit, dist or browser}

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

case $what in
  unit) node --test test/unit_test.mjs ;;
  dist)
    node_modules/.bin/tsc --noEmit
    node test/verify_dist.mjs
    ;;
  browser)
    CHROMIUM=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
    [[ $CHROMIUM ]] || skip "Chromium"
    export CHROMIUM
    node --test --test-reporter=spec test/browser_test.mjs
    ;;
  *)
    echo "run.sh: unknown \"$what\"" >&2
    exit 2
    ;;
esac
