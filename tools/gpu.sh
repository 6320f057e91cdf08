#!/usr/bin/env bash
# Builds, tests and measures on a machine with an NVIDIA GPU.
#
#   usage: tools/gpu.sh [--packed FOLDER] [PYTHON]
#          tools/gpu.sh --pack FOLDER TORCH
#
# PYTHON (default: python3) imports a PyTorch 2.11 or later with CUDA, to build against and to compare with. Prints
# what the tests say, then one line per measurement: samples/s, or tokens/s, of mlbench and of PyTorch on one fixed
# batch, and their ratio; MLBENCH_GPU_PAIRS (default: 21) of each. Results lie in build/cuda/gpu. With MLBENCH_DATA_DIR it
# trains task mnist to its goal, too.
#
# On a machine where nothing can be installed: --pack builds elsewhere, against the folder `torch` of the same PyTorch
# (its wheel; no GPU is needed), and puts programs, tests and their libraries into FOLDER; --packed takes them from there.
# Both machines have the same C library, or the second a later one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

programs=(mlbench mlbench-worker mlbench-guard step_bench)
# Those that a worker starts beside itself.
mapfile -t -O "${#programs[@]}" programs < <(grep -rhoP 'program_beside\("\K[^"]+' src/mlbench | sort -u)
tests=(framework_torch_test optim_test text_models_test comm_nccl_test)

pack() { # FOLDER TORCH
  local folder=$1 place paths=\$ORIGIN/../lib
  for place in torch/lib nvidia/cu13/lib nvidia/nccl/lib; do
    paths+=";\$ORIGIN/../site-packages/$place"
  done
  export MLBENCH_TORCH_DIR=$2
  tools/setup.sh build run test nccl
  # Some libraries of the PyTorch lie only where its other wheels are, too. Ours are found beside the program, the
  # PyTorch's and NVIDIA's in FOLDER/site-packages, a link that --packed makes.
  mkdir -p build/cuda
  cmake --preset cuda -DMLBENCH_TORCH_DIR="$MLBENCH_TORCH_DIR" \
    -DCMAKE_EXE_LINKER_FLAGS="-Wl,--unresolved-symbols=ignore-in-shared-libs -Wl,--disable-new-dtags" \
    -DCMAKE_BUILD_RPATH="$paths" -DCMAKE_INSTALL_RPATH="$paths" >build/cuda/configure.log
  tools/build.sh cuda "${programs[@]}" "${tests[@]}"
  rm -rf "$folder"
  mkdir -p "$folder/bin" "$folder/tests" "$folder/lib"
  for program in "${programs[@]}"; do
    cp "build/cuda/bin/$program" "$folder/bin/"
  done
  for test in "${tests[@]}"; do
    cp "build/cuda/tests/$test" "$folder/tests/"
  done
  # Not those of the PyTorch, of CUDA and of the system itself.
  ldd "$folder"/bin/* "$folder"/tests/* | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -v -E '/torch/lib/|/nvidia/|/lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|gomp|resolv)\.so' |
    xargs -I{} cp -L {} "$folder/lib/"
  strip "$folder"/bin/* "$folder"/tests/*
}

packed=
case ${1:-} in
  --pack)
    pack "$2" "$3"
    exit
    ;;
  --packed)
    packed=$(realpath "$2")
    shift 2
    ;;
esac

python=${1:-python3}
MLBENCH_TORCH_DIR=$("$python" -c '
import os, sys, torch
if not torch.cuda.is_available():
    sys.exit("tools/gpu.sh: PyTorch %s sees no GPU here" % torch.__version__)
print(os.path.dirname(torch.__file__))')
"$python" -c 'import torch; print("gpu: PyTorch", torch.__version__, "on", torch.cuda.get_device_name(0))'

if [[ $packed ]]; then
  build=$packed
  ln -sfn "$(dirname "$MLBENCH_TORCH_DIR")" "$packed/site-packages"
else
  build=build/cuda
  export MLBENCH_TORCH_DIR
  tools/setup.sh build run test nccl
  tools/build.sh cuda "${programs[@]}" "${tests[@]}"
fi
results=build/cuda/gpu
rm -rf "$results"
mkdir -p "$results"

for test in "${tests[@]}"; do
  filter='*cuda*:*OnGpu*:*MemoryOfItsOwn*'
  if [[ $test == comm_nccl_test ]]; then
    filter='*'
  fi
  "$build/tests/$test" --gtest_filter="$filter" || echo "tools/gpu.sh: $test failed" >&2
done 2>&1 | tee "$results/tests.log"
if grep -q '\[  SKIPPED \].*cuda\|tools/gpu.sh: ' "$results/tests.log"; then
  echo "tools/gpu.sh: tests failed, or those on the GPU were skipped: $results/tests.log" >&2
  exit 1
fi

export MLBENCH=$build/bin/mlbench
"$MLBENCH" bench collectives all_reduce broadcast all_gather reduce_scatter all_to_all sendrecv -k 1 --backend nccl \
  --gpu --json >"$results/nccl-1.json"

compare() { # name option...
  local name=$1
  shift
  echo "gpu: $name"
  "$python" bench/ratio.py --pairs "${MLBENCH_GPU_PAIRS:-21}" --output "$results/$name.json" "$@" ||
    echo "gpu: not met, see the verdict"
}
images() { # task precision peer...
  local task=$1 precision=$2
  shift 2
  local peers=()
  for peer in "$@"; do
    peers+=(--peer "$python bench/torch_peer.py --task $task --device cuda --steps 200 $peer")
  done
  compare "$task-$precision" "${peers[@]}" --ours "bench/fresh_run.sh 1 --task $task --gpu --fixed-batch --max-steps 200 \
    --synthetic --set precision=$precision"
}
text() { # model precision peer...
  local model=$1 precision=$2
  shift 2
  local peers=()
  for peer in "$@"; do
    peers+=(--peer "$python bench/text_peer.py speed $model --device cuda --steps 12 $peer")
  done
  compare "$model-$precision" "${peers[@]}" --turns --key median_tokens_per_s \
    --ours "$build/bin/step_bench --device cuda --model $model --precision $precision --steps 12"
}
for model in awd-lstm gnmt transformer; do
  text "$model" float32 "" "--fused"
  text "$model" bf16 "--amp" "--amp --fused"
done
images 1a float32 "--layout nchw" "--layout nhwc" "--layout nhwc --fused"
images 1a bf16 "--layout nhwc --amp" "--layout nhwc --amp --fused"
images fashion-mnist float32 "--layout nchw" "--layout nhwc --fused"

if [[ ${MLBENCH_DATA_DIR:-} ]]; then
  "$MLBENCH" run mnist 1 --task mnist --gpu --home "$results/home" --local --json >"$results/mnist.json"
fi
