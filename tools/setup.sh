#!/usr/bin/env bash
# Installs what mlbench needs and this machine lacks: Debian packages (tools/packages.txt) and
# LibTorch (cmake/libtorch.txt, into $XDG_CACHE_HOME/mlbench, shared by all clones); `nccl`: NVIDIA's NCCL and the headers
# that it needs (cmake/nccl.txt), for the back end nccl; `tensorflow`: TensorFlow's libraries and the headers of its C
# API (cmake/tensorflow.txt), for the framework tensorflow; `kube`: builds a Kubernetes for its tests (tools/kube.sh).
# Needs root or sudo only while a package is missing. Doing it again costs nothing.
set -euo pipefail

usage="usage: tools/setup.sh [--no-torch] [build] [run] [test] [engines] [package] [packages] [lint] [fuzz] [browser] [nccl] [tensorflow] [kube]     (default: build run)
  --no-torch          the control plane alone (cmake --preset control)
  MLBENCH_TORCH_DIR   a PyTorch of your own, 2.11 or later: nothing is fetched"

readonly torch_fetch_mb=555 torch_disk_mb=520 nccl_fetch_mb=260 nccl_disk_mb=330
readonly tensorflow_fetch_mb=274 tensorflow_disk_mb=860
# What an estimate of the duration assumes.
readonly fetch_mb_per_second=10 unpack_mb_per_second=25

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/mlbench
# cmake/FindLibTorch.cmake, FindNccl.cmake and FindTensorFlow.cmake name the folders in the same way.
folder_of() { # libtorch | nccl | tensorflow
  printf '%s/%s-%s\n' "$cache" "$1" "$(sha256sum "$root/cmake/$1.txt" | cut -c1-12)"
}
torch=$(folder_of libtorch)
nccl=$(folder_of nccl)
tensorflow=$(folder_of tensorflow)

say() { printf '%s\n' "$*"; }
fail() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

packages_of() { # section...
  awk -v wanted=" $* " '/^\[/ { on = index(wanted, " " substr($0, 2, length($0) - 2) " "); next }
                        on && NF && !/^#/ { print $1 }' "$root/tools/packages.txt" | sort -u
}

missing_packages() { # package...
  comm -23 <(printf '%s\n' "$@" | sort -u) \
    <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^installed //p' | sort -u)
}

python_with_pip() {
  local python
  for python in python3 /usr/bin/python3; do
    if "$python" -m pip --version >/dev/null 2>&1; then
      say "$python"
      return
    fi
  done
  return 1
}

as_root() {
  if [[ $(id -u) == 0 ]]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    fail "these Debian packages are missing, and this is neither root nor a user with sudo: ${packages[*]}"
  fi
}

apt() {
  as_root env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -q -o DPkg::Lock::Timeout=600 -o APT::Install-Recommends=0 "$@"
}

install_packages() {
  apt install -y "${packages[@]}" >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    fail "apt-get install failed (above)"
  }
}

fetch_wheels() { # libtorch | nccl | tensorflow, folder, what to do where they cannot be had
  local python work
  mkdir -p "$cache"
  # Two clones may set up at once: the second waits, then finds the work done.
  exec {lock}>"$cache/$1.lock"
  flock "$lock"
  if [[ ! -d $2 ]]; then
    python=$(python_with_pip) || fail "no python3 with pip"
    rm -rf "$cache/$1"-*.part
    work=$2.part
    mkdir -p "$work/wheels" "$work/tmp"
    # The platform is named, so that any Python 3 fetches the same files.
    TMPDIR=$work/tmp "$python" -m pip --disable-pip-version-check --no-cache-dir download \
      --no-deps --require-hashes --only-binary=:all: --python-version 3.11 --implementation cp --abi cp311 --abi none \
      --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux_2_25_x86_64 --platform manylinux_2_18_x86_64 \
      --platform manylinux2014_x86_64 --dest "$work/wheels" -r "$root/cmake/$1.txt" ||
      fail "$1 could not be fetched (above); or give $3"
    say "setup: unpacking $1"
    "$python" "$root/tools/unpack_wheels.py" "$1" "$work/wheels" "$work/tree"
    mv -T "$work/tree" "$2"
    rm -rf "$work"
  fi
  exec {lock}>&-
}

want_torch=1
want_nccl=
want_tensorflow=
want_kube=
sections=()
for argument in "$@"; do
  case $argument in
    --no-torch) want_torch= ;;
    nccl) want_nccl=1 ;;
    tensorflow) want_tensorflow=1 ;;
    kube)
      want_kube=1
      sections+=(engines kube packages package)
      ;;
    build | run | test | engines | package | packages | lint | fuzz | browser) sections+=("$argument") ;;
    -h | --help)
      say "$usage"
      exit
      ;;
    *) fail "unknown argument \"$argument\"
$usage" ;;
  esac
done
if [[ ${#sections[@]} == 0 ]]; then
  sections=(build run)
fi
if [[ -d $nccl ]]; then
  want_nccl=
fi
if [[ -d $tensorflow ]]; then
  want_tensorflow=
fi
if [[ " ${sections[*]} " != *" build "* || -n ${MLBENCH_TORCH_DIR:-} || -d $torch ]]; then
  want_torch=
fi
if [[ $want_torch || $want_nccl || $want_tensorflow ]] && ! python_with_pip >/dev/null; then
  sections+=(libtorch)
fi

command -v dpkg-query >/dev/null || fail "this is not Debian: install the packages named in tools/packages.txt by your own means"
mapfile -t packages < <(packages_of "${sections[@]}")
mapfile -t packages < <(missing_packages "${packages[@]}")
build_kube() {
  if [[ $want_kube ]]; then
    say "setup: Kubernetes and helm, from Go modules: 230 MB to fetch, 6 GB on disk while it compiles (600 MB after), about 8 min on 2 cores"
    "$root/tools/kube.sh"
  fi
}

if [[ ${#packages[@]} == 0 && ! $want_torch && ! $want_nccl && ! $want_tensorflow ]]; then
  build_kube
  exit
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
fetch_mb=0
disk_mb=0
if [[ ${#packages[@]} != 0 ]]; then
  say "setup: reading Debian's package lists (about 10 MB)"
  apt update >"$log" 2>&1 || say "setup: apt-get update failed; going on with the lists that are here"
  # apt answers in kB, MB or GB; --assume-no makes it say so and stop.
  need=$(apt install --assume-no "${packages[@]}" 2>&1 || true)
  read -r fetch_mb disk_mb < <(awk '
    function mb(value, unit) { gsub(",", "", value); return value * (unit == "GB" ? 1000 : unit == "MB" ? 1 : 0.001) }
    /^Need to get/ { split($4, part, "/"); fetch = mb(part[1], $5) }
    /disk space will be used/ { disk = mb($4, $5) }
    END { printf "%d %d\n", fetch + 0.5, disk + 0.5 }' <<<"$need")
  say "setup: Debian packages: ${#packages[@]} and what they need, $fetch_mb MB to fetch, $disk_mb MB on disk"
fi
if [[ $want_torch ]]; then
  say "setup: $(sed -n 's/^torch==\([^ ]*\).*/LibTorch \1/p' "$root/cmake/libtorch.txt"): $torch_fetch_mb MB to fetch, $torch_disk_mb MB on disk, in $cache"
  fetch_mb=$((fetch_mb + torch_fetch_mb))
  disk_mb=$((disk_mb + torch_disk_mb))
fi
if [[ $want_nccl ]]; then
  say "setup: NCCL: $nccl_fetch_mb MB to fetch, $nccl_disk_mb MB on disk, in $cache"
  fetch_mb=$((fetch_mb + nccl_fetch_mb))
  disk_mb=$((disk_mb + nccl_disk_mb))
fi
if [[ $want_tensorflow ]]; then
  say "setup: TensorFlow: $tensorflow_fetch_mb MB to fetch, $tensorflow_disk_mb MB on disk, in $cache"
  fetch_mb=$((fetch_mb + tensorflow_fetch_mb))
  disk_mb=$((disk_mb + tensorflow_disk_mb))
fi
say "setup: together $fetch_mb MB, about $(((fetch_mb / fetch_mb_per_second + disk_mb / unpack_mb_per_second) / 60 + 1)) min at $fetch_mb_per_second MB/s"

if [[ ${#packages[@]} != 0 ]]; then
  say "setup: installing ${packages[*]}"
  install_packages
fi
if [[ $want_torch ]]; then
  say "setup: fetching LibTorch"
  fetch_wheels libtorch "$torch" MLBENCH_TORCH_DIR
fi
if [[ $want_nccl ]]; then
  say "setup: fetching NCCL"
  fetch_wheels nccl "$nccl" "a folder with -DMLBENCH_NCCL_DIR"
fi
if [[ $want_tensorflow ]]; then
  say "setup: fetching TensorFlow"
  fetch_wheels tensorflow "$tensorflow" "a folder with -DMLBENCH_TENSORFLOW_DIR"
fi
build_kube
say "setup: done"
