#!/bin/sh
# CTranslate2 of the version in ctranslate2.txt, in a virtual environment of its own below the user's cache: 60 MB to
# fetch. Idempotent. Prints the environment's Python. The hashes are of the wheels for Python 3.11 on x86-64.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's/^ctranslate2==\([^ ]*\).*/\1/p' "$here/ctranslate2.txt")
peer=${XDG_CACHE_HOME:-$HOME/.cache}/mlbench/peer-ctranslate2-$version
python=$peer/bin/python

if ! [ -e "$peer/complete" ]; then
  echo "setup_ctranslate2.sh: fetching CTranslate2 $version (60 MB) into $peer" >&2
  rm -rf "$peer"
  base=python3.11
  [ -x /usr/bin/python3.11 ] && base=/usr/bin/python3.11
  "$base" -m venv "$peer"
  "$python" -m pip install --quiet --disable-pip-version-check --only-binary=:all: --require-hashes \
    --requirement "$here/ctranslate2.txt" >&2
  "$python" -c "import ctranslate2; assert ctranslate2.__version__ == '$version'" >&2
  : >"$peer/complete"
fi
echo "$python"
