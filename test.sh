#!/usr/bin/env bash
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

usage="usage: ./test.sh [SET...] [-- CTEST_ARGUMENT...]

  default   release preset, every test without one of the labels below
  asan      the default set under the address and undefined behaviour sanitizers
  tsan      the default set of the modules without LibTorch under the thread sanitizer
  tidy      clang-format and clang-tidy over the tree, shellcheck over the scripts
  long      tests labelled long: minutes each
  algorithms  each rule, coder and pattern on 1 to 5 ranks, and beside oracles; the default set has them on up to 3
  clients   tests labelled clients: of other projects, fetched from the package registry (over 3 GB)
  ctranslate2  decoding beside CTranslate2 (60 MB to fetch; Python 3.11); wants an idle machine
  fuzz      tests labelled fuzz: thousands of bad requests; prints its seed; then libFuzzer on every parser, a minute each
  same      the same weights and the same speed as another build: MLBENCH_OTHER_BUILD=FOLDER of its programs, or else
            that of MLBENCH_OTHER_COMMIT (the one before), which it builds; wants an idle machine, an hour
  speed     tests labelled speed: limits on time; wants an idle machine
  nccl      the back end nccl, compiled against NVIDIA's wheels (252 MB to fetch); what needs no GPU of it is run
  engines   executors with real engines: hosts as network namespaces, sshd, Slurm, podman, and, after
            tools/setup.sh kube, Kubernetes with the Helm chart; as root
  packages  Debian packages, their installation on a bare Debian, an installation without the source tree, images, the
            Python client as a wheel; as root
  browser   the dashboard in Chromium, and that its dist/ comes out the same; a timeline in Perfetto and in Catapult's
            viewer (16 MB to fetch); needs Node 20.19 or later
  --all     all of these

  ./test.sh -- -R comm        the tests of the default set whose name holds \"comm\""

sets=()
while [[ $# != 0 ]]; do
  case $1 in
    default | asan | tsan | tidy | long | algorithms | speed | same | fuzz | clients | ctranslate2 | nccl | engines | packages | browser) sets+=("$1") ;;
    --all) sets=(default asan tsan tidy long algorithms clients ctranslate2 nccl fuzz same speed engines packages browser) ;;
    -h | --help)
      echo "$usage"
      exit
      ;;
    --)
      shift
      break
      ;;
    *)
      printf 'test: unknown set "%s"\n%s\n' "$1" "$usage" >&2
      exit 2
      ;;
  esac
  shift
done
if [[ ${#sets[@]} == 0 ]]; then
  sets=(default)
fi

run_ctest() { # preset ctest_argument...
  local preset=$1 status=0
  shift
  ctest --no-tests=error -j "$(nproc)" "$@" || status=$?
  python3 tools/list_skips.py "build/$preset" || status=1
  return "$status"
}

run_labelled() { # label ctest_argument...
  local label=$1
  shift
  # One at a time: these measure.
  tools/build.sh release &&
    run_ctest release --test-dir build/release --output-on-failure -L "^$label\$" "$@" -j 1
}

other_build() {
  if [[ -z ${MLBENCH_OTHER_BUILD:-} ]]; then
    local tree=build/other commit
    commit=$(git rev-parse "${MLBENCH_OTHER_COMMIT:-HEAD~1}")
    [[ -d $tree ]] || git worktree add --detach "$tree" "$commit"
    git -C "$tree" checkout --quiet --detach "$commit"
    "$tree/tools/build.sh" release mlbench mlbench-worker
    MLBENCH_OTHER_BUILD=$PWD/$tree/build/release/bin
  fi
  export MLBENCH_OTHER_BUILD
}

run_set() { # set ctest_argument...
  local set=$1
  shift
  case $set in
    default) tools/build.sh release && run_ctest release --preset release "$@" ;;
    asan | tsan) tools/build.sh "$set" && run_ctest "$set" --preset "$set" "$@" ;;
    fuzz)
      run_labelled fuzz "$@" && tools/build.sh fuzz fuzz_parsers &&
        ctest --test-dir build/fuzz --output-on-failure -L '^parsers$' "$@" -j "$(nproc)"
      ;;
    nccl)
      tools/build.sh nccl comm_nccl_test &&
        ctest --no-tests=error --test-dir build/nccl --output-on-failure -L '^nccl$' "$@" &&
        python3 tools/list_skips.py build/nccl
      ;;
    same) other_build && run_labelled same "$@" ;;
    long | algorithms | speed | clients | ctranslate2 | engines | packages | browser) run_labelled "$set" "$@" ;;
    tidy) tools/tidy.sh ;;
  esac
}

sections=(build run test)
if [[ " ${sets[*]} " == *" tidy "* ]]; then
  sections+=(lint)
fi
if [[ " ${sets[*]} " == *" fuzz "* ]]; then
  sections+=(fuzz)
fi
if [[ " ${sets[*]} " == *" nccl "* ]]; then
  sections+=(nccl)
fi
if [[ " ${sets[*]} " == *" engines "* ]]; then
  sections+=(engines)
fi
if [[ " ${sets[*]} " == *" packages "* ]]; then
  sections+=(package packages)
fi
if [[ " ${sets[*]} " == *" browser "* ]]; then
  sections+=(browser)
fi
tools/setup.sh "${sections[@]}"

failed=()
for set in "${sets[@]}"; do
  echo "test: $set"
  run_set "$set" "$@" || failed+=("$set")
done
if [[ ${#failed[@]} != 0 ]]; then
  echo "test: failed: ${failed[*]}" >&2
  exit 1
fi
