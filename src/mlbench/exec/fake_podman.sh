#!/bin/sh
# podman for tests (test_fake_podman.h): says in FAKE_PODMAN/said what it was asked, a line per call. Images are the files
# of FAKE_PODMAN/images; "missing" cannot be pulled. What runs in an image runs on this host, with the variables alone
# that the container would have.
set -eu
printf '%s\n' "$*" >> "$FAKE_PODMAN/said"
case $1 in
image)  # inspect --format {{.Id}} IMAGE
  [ -e "$FAKE_PODMAN/images/$5" ] || exit 1
  echo "sha256:$5" ;;
pull)
  if [ "$2" = missing ]; then
    echo "Error: $2: image not known" >&2
    exit 125
  fi
  sleep 0.3
  : > "$FAKE_PODMAN/images/$2" ;;
rm) ;;
run)
  shift
  variables= entry=
  while :; do
    case $1 in
    --rm) shift ;;
    --env) variables="$variables $2"; shift 2 ;;
    --entrypoint) entry=$2; shift 2 ;;
    --workdir) cd "$2"; shift 2 ;;
    --*) shift 2 ;;
    *) break ;;
    esac
  done
  shift
  set -- "$entry" "$@"
  set -f
  for name in $variables; do
    case $name in
    *'*')
      for each in $(env | sed -n "s/^\\(${name%?}[A-Za-z0-9_]*\\)=.*/\\1/p"); do set -- "$each=$(printenv "$each")" "$@"; done
      continue ;;
    esac
    if value=$(printenv "$name"); then set -- "$name=$value" "$@"; fi
  done
  exec env -i "PATH=$PATH" "$@" ;;
*)
  echo "Error: unknown command $1" >&2
  exit 125 ;;
esac
