#!/usr/bin/env bash
# Builds, tests and measures on a machine with an NVIDIA GPU.
#
#   usage: tools/gpu.sh [PYTHON]
#
# PYTHON (default: python3) imports a PyTorch 2.11 or later with CUDA, to build against and to compare with. Prints
# one line per measurement: samples/s of mlbench and of PyTorch on one fixed batch, and their ratio.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=${1:-python3}
MLBENCH_TORCH_DIR=$("$python" -c '
import os, sys, torch
if not torch.cuda.is_available():
    sys.exit("tools/gpu.sh: PyTorch %s sees no GPU here" % torch.__version__)
print(os.path.dirname(torch.__file__))')
"$python" -c 'import torch; print("gpu: PyTorch", torch.__version__, "on", torch.cuda.get_device_name(0))'

export MLBENCH_TORCH_DIR
tools/setup.sh build run test
tools/build.sh cuda mlbench mlbench-worker framework_torch_test optim_test

for tests in framework_torch_test optim_test; do
  "build/cuda/tests/$tests" --gtest_filter='*cuda*'
done | tee build/cuda/gpu-tests.log
if grep -q SKIPPED build/cuda/gpu-tests.log; then
  echo "tools/gpu.sh: the tests on the GPU were skipped" >&2
  exit 1
fi

export MLBENCH=build/cuda/bin/mlbench
measure() { # task ours peer...
  local task=$1 ours=$2
  shift 2
  local peers=()
  for peer in "$@"; do
    peers+=(--peer "$python bench/torch_peer.py --task $task --device cuda --steps 200 $peer")
  done
  echo "gpu: $task $ours"
  "$python" bench/ratio.py --ours "bench/fresh_run.sh 1 --task $task --gpu --fixed-batch --max-steps 200 --synthetic $ours" \
    "${peers[@]}" || echo "gpu: not met, see the verdict"
}
measure 1a "" "--layout nchw" "--layout nhwc" "--layout nhwc --fused"
measure 1a "--set precision=bf16" "--layout nhwc --amp" "--layout nhwc --amp --fused"
measure fashion-mnist "" "--layout nchw" "--layout nhwc --fused"
