#!/usr/bin/env bash
# Builds the programs of Kubernetes, helm and CoreDNS that the tests with a real cluster start (tests/engines/
# kube_cluster.py): from Go modules, into FOLDER/bin. What is there in the right version stays.
#
# usage: tools/kube.sh [FOLDER]        default: $MLBENCH_KUBE_DIR, else mlbench/kube-v1.34.4 below $XDG_CACHE_HOME
set -euo pipefail

readonly kubernetes=v1.34.4 helm=v3.19.5 coredns=v1.14.5
readonly least_go=1.25

folder=${1:-${MLBENCH_KUBE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/mlbench/kube-$kubernetes}}
mkdir -p "$folder/bin" "$folder/build"
folder=$(cd "$folder" && pwd)
bin=$folder/bin
work=$folder/build
export CGO_ENABLED=0 GOFLAGS="-mod=mod -buildvcs=false" GOTOOLCHAIN=local GOWORK=off

say() { printf 'kube: %s\n' "$*"; }
fail() {
  printf 'kube: %s\n' "$*" >&2
  exit 1
}

needs_building() { # program version
  [[ ! -x $bin/$1 || $(cat "$bin/.$1" 2>/dev/null) != "$2" ]]
}

check_go() {
  local version
  version=$(go env GOVERSION 2>/dev/null) || fail "no go: Kubernetes is built by Go $least_go or later (Debian 12's is too old)"
  [[ $(printf '%s\n' "$least_go" "${version#go}" | sort -V | head -n 1) == "$least_go" ]] ||
    fail "go is ${version#go}: Kubernetes $kubernetes is built by Go $least_go or later"
}

# The main packages of a module, within a module of their own: that of Kubernetes points its staging modules at folders
# that it does not hold, while they are tagged as v0.X.Y.
build_module() { # module version linker_flags main_package...
  local module=$1 version=$2 flags=$3 package file module_folder
  local -a todo=()
  shift 3
  for package in "$@"; do
    if needs_building "${package##*/}" "$version"; then
      todo+=("$package")
    fi
  done
  if [[ ${#todo[@]} == 0 ]]; then
    return
  fi
  check_go
  say "building ${todo[*]##*/} $version"
  module_folder=$work/${module//\//_}
  rm -rf "$module_folder"
  mkdir -p "$module_folder"
  file=$(cd / && go mod download -json "$module@$version" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
  {
    echo "module mlbench.test/kube"
    grep '^go ' "$file"
    echo "require $module $version"
    sed -n "s#^\s*\(k8s.io/[a-z-]*\) => ./staging/src/.*#replace \1 => \1 v0${version#v1}#p" "$file"
  } >"$module_folder/go.mod"
  (cd "$module_folder" && nice -n 10 go build -trimpath -ldflags "-s -w $flags" -o "$bin/" "${todo[@]}")
  for package in "${todo[@]}"; do
    echo "$version" >"$bin/.${package##*/}"
  done
}

# Otherwise the server calls itself v0.0.0-master, and helm takes charts to be for v1.20.
minor=${kubernetes#v1.}
minor=${minor%%.*}
flags=
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  flags+=" -X $package.gitVersion=$kubernetes -X $package.gitMajor=1 -X $package.gitMinor=$minor"
  flags+=" -X $package.gitTreeState=clean"
done
commands=k8s.io/kubernetes/cmd
build_module k8s.io/kubernetes "$kubernetes" "$flags" "$commands/kube-apiserver" "$commands/kube-controller-manager" \
  "$commands/kube-scheduler" "$commands/kubectl" "$commands/kubelet" "$commands/kube-proxy"

flags="-X helm.sh/helm/v3/internal/version.version=$helm -X helm.sh/helm/v3/internal/version.gitTreeState=clean"
for package in chartutil lint/rules; do
  flags+=" -X helm.sh/helm/v3/pkg/$package.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/$package.k8sVersionMinor=$minor"
done
build_module helm.sh/helm/v3 "$helm" "$flags" helm.sh/helm/v3/cmd/helm

# The plugins that are needed alone: the stock program compiles the SDKs of three clouds.
if needs_building coredns "$coredns"; then
  check_go
  say "building coredns $coredns"
  rm -rf "$work/coredns"
  mkdir -p "$work/coredns"
  {
    echo "package main"
    echo 'import "github.com/coredns/coredns/coremain"'
    for plugin in errors kubernetes ready bind reload; do
      echo "import _ \"github.com/coredns/coredns/plugin/$plugin\""
    done
    echo "func main() { coremain.Run() }"
  } >"$work/coredns/main.go"
  (cd "$work/coredns" && go mod init mlbench.test/coredns &&
    go mod edit -require "github.com/coredns/coredns@$coredns" && nice -n 10 go build -trimpath -ldflags "-s -w" -o "$bin/coredns" .)
  echo "$coredns" >"$bin/.coredns"
fi

# Unpacked, not installed: it would take the place of busybox-static, whose wget breaks on names.
if [[ ! -x $work/busybox/bin/busybox ]]; then
  say "fetching busybox"
  mkdir -p "$work/busybox"
  (cd "$work/busybox" && apt-get -q download busybox && dpkg-deb -x busybox_*.deb . && rm busybox_*.deb)
fi
say "$bin"
