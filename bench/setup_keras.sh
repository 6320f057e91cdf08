#!/bin/sh
# TensorFlow with Keras of the versions in keras.txt, in a virtual environment of its own below the user's cache: 400 MB to
# fetch, 1.8 GB on disk. Idempotent. Prints the environment's Python. The hashes are of the wheels for Python 3.11 on x86-64.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's/^tensorflow-cpu==\([^ ]*\).*/\1/p' "$here/keras.txt")
peer=${XDG_CACHE_HOME:-$HOME/.cache}/mlbench/peer-keras-$(sha256sum "$here/keras.txt" | cut -c1-12)
python=$peer/bin/python

if ! [ -e "$peer/complete" ]; then
  echo "setup_keras.sh: fetching TensorFlow $version (400 MB) into $peer" >&2
  rm -rf "$peer"
  base=python3.11
  [ -x /usr/bin/python3.11 ] && base=/usr/bin/python3.11
  "$base" -m venv "$peer"
  "$python" -m pip install --quiet --disable-pip-version-check --only-binary=:all: --require-hashes \
    --requirement "$here/keras.txt" >&2
  "$python" -c "import tensorflow; assert tensorflow.__version__ == '$version'" >&2
  : >"$peer/complete"
fi
echo "$python"
