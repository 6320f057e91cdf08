#!/bin/sh
# setup_wheels.sh keras | ctranslate2 | torchft: the packages of keras.txt (TensorFlow with Keras: 400 MB to fetch, 1.8 GB on
# disk), of ctranslate2.txt (60 MB to fetch) or of torchft.txt (a complete PyTorch, torchft and schedulefree: about 3 GB to
# fetch, 8 GB on disk), in a virtual environment of their own below the user's cache. Idempotent. Prints the environment's
# Python. The hashes are of the wheels for Python 3.11 on x86-64.
set -eu
list=$(cd "$(dirname "$0")" && pwd)/$1.txt
peer=${XDG_CACHE_HOME:-$HOME/.cache}/mlbench/peer-$1-$(sha256sum "$list" | cut -c1-12)
python=$peer/bin/python

if ! [ -e "$peer/complete" ]; then
  echo "setup_wheels.sh: fetching the packages of $list into $peer" >&2
  rm -rf "$peer"
  base=python3.11
  [ -x /usr/bin/python3.11 ] && base=/usr/bin/python3.11
  "$base" -m venv "$peer"
  "$python" -m pip install --quiet --disable-pip-version-check --only-binary=:all: --require-hashes --requirement "$list" >&2
  "$python" -c "import $1" >&2
  : >"$peer/complete"
fi
echo "$python"
