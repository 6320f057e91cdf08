#!/bin/sh
# The speed peer: complete PyTorch of the version that we link (cmake/libtorch.txt), in a virtual environment of its
# own below the user's cache. About 3 GB to fetch, 8 GB on disk; idempotent. Prints the environment's Python.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's/^torch==\([^ ]*\).*/\1/p' "$here/../cmake/libtorch.txt")
peer=${XDG_CACHE_HOME:-$HOME/.cache}/mlbench/peer-torch-$version
python=$peer/bin/python

if ! [ -e "$peer/complete" ]; then
  echo "setup_peer.sh: fetching PyTorch $version (about 3 GB) into $peer" >&2
  rm -rf "$peer"
  base=python3
  [ -x /usr/bin/python3 ] && base=/usr/bin/python3
  "$base" -m venv "$peer"
  "$python" -m pip install --quiet --only-binary=:all: "torch==$version" "numpy==2.2.6" >&2
  "$python" -c "import torch, torch.distributed as d; assert torch.__version__.split('+')[0] == '$version' and d.is_gloo_available()" >&2
  : >"$peer/complete"
fi
echo "$python"
