#!/usr/bin/env bash
# Builds the images of Dockerfile beside it; says each command before it runs.
set -euo pipefail

usage="usage: deploy/docker/build.sh [OPTION...] [master] [worker] [worker-pytorch] [worker-cuda]      (default: master worker)

  --engine ENGINE     docker, podman or buildah; default: the first of podman, buildah, docker that is there
  --base IMAGE        what the images stand on, a Debian 12; default: debian:12
  --packages DIR      Debian packages that are built already (cpack --preset release), one of each; default: compiles them
  --repository NAME   the images are called NAME-master, NAME-worker, ...; default: localhost/mlbench
  --tag TAG           default: the version of the packages, or what git says; the tag latest is set, too
  --dry-run           only say the commands"

fail() {
  printf 'build.sh: %s\n' "$*" >&2
  exit 2
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
engine='' base=debian:12 packages='' repository=localhost/mlbench tag='' dry_run=''
targets=()
while [[ $# != 0 ]]; do
  case $1 in
    --engine | --base | --packages | --repository | --tag)
      [[ $# != 1 && -n $2 ]] || fail "$1 wants a value
$usage"
      declare "${1#--}=$2"
      shift
      ;;
    --dry-run) dry_run=1 ;;
    -h | --help)
      printf '%s\n' "$usage"
      exit
      ;;
    master | worker | worker-pytorch | worker-cuda) targets+=("$1") ;;
    *) fail "unknown argument \"$1\"
$usage" ;;
  esac
  shift
done
if [[ ${#targets[@]} == 0 ]]; then
  targets=(master worker)
fi

if [[ -z $engine ]]; then
  for engine in podman buildah docker ''; do
    if [[ -z $engine ]]; then
      fail "none of podman, buildah and docker is here: install one, or name one with --engine"
    fi
    if command -v "$engine" >/dev/null; then
      break
    fi
  done
fi
case $engine in
  docker) export DOCKER_BUILDKIT=1 ;;
  podman | buildah) ;;
  *) fail "--engine is \"$engine\": expected docker, podman or buildah" ;;
esac

describe=$(git -C "$root" describe --always --dirty --tags --abbrev=12 2>/dev/null || echo unknown)
revision=$(git -C "$root" rev-parse HEAD 2>/dev/null || echo unknown)
epoch=$(git -C "$root" log -1 --format=%ct 2>/dev/null || date +%s)
version=$describe
if [[ -n $packages ]]; then
  [[ -d $packages ]] || fail "--packages: there is no folder $packages"
  packages=$(cd "$packages" && pwd)
  wanted=(mlbench)
  if [[ " ${targets[*]} " == *" worker"* ]]; then
    wanted+=(mlbench-worker mlbench-libtorch)
  fi
  for name in "${wanted[@]}"; do
    mapfile -t found < <(compgen -G "$packages/${name}_*.deb" || true)
    [[ ${#found[@]} == 1 ]] ||
      fail "--packages: $packages holds ${#found[@]} packages of $name, and one is wanted: make them with
cpack --preset release, and remove older ones"
    if [[ $name == mlbench ]]; then
      version=${found[0]##*/mlbench_}
      version=${version%_*.deb}
      # As cmake/package_version.cmake makes it: a snapshot's version holds its commit, a release's is its tag.
      revision=v$version
      if [[ $version =~ ^[^~+]*(~git[0-9]+\.|\+[0-9]+\.g)([0-9a-f]+) ]]; then
        revision=${BASH_REMATCH[2]}
      fi
    fi
  done
fi
if [[ -z $tag ]]; then
  tag=${version//[^A-Za-z0-9_.-]/-}  # what a tag may hold
fi

for target in "${targets[@]}"; do
  command=("$engine" build --file "$here/Dockerfile" --target "$target"
    --build-arg "BASE=$base" --build-arg "VERSION=$version" --build-arg "REVISION=$revision")
  if [[ $engine != docker ]]; then
    command+=(--format docker)  # OCI's has no HEALTHCHECK
  fi
  if [[ -n $packages ]]; then
    command+=(--build-context "packages=$packages")
  else
    command+=(--build-arg "MLBENCH_GIT_DESCRIBE=$describe" --build-arg "SOURCE_DATE_EPOCH=$epoch")
    if [[ $target == *-cuda ]]; then
      command+=(--build-arg CUDA=ON)
    fi
  fi
  command+=(--tag "$repository-$target:$tag" --tag "$repository-$target:latest" "$root")
  printf 'build.sh:'
  printf ' %q' "${command[@]}"
  printf '\n'
  if [[ -z $dry_run ]]; then
    "${command[@]}"
  fi
done
