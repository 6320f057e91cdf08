#!/usr/bin/env bash
# Installs what is missing, builds the two programs and runs the main job: fashion-mnist with
# 1 and then 2 workers, to the light goal. Runs go to $MLBENCH_HOME or the default home.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

tools/setup.sh build run
tools/build.sh release mlbench mlbench-worker

name=demo-$(date +%Y%m%d-%H%M%S)
mlbench=build/release/bin/mlbench
echo "demo: $mlbench run $name 1 2 --task fashion-mnist --light --local (2 to 5 min on 2 cores)"
"$mlbench" run "$name" 1 2 --task fashion-mnist --light --local
# They go on the list that the runs end with.
cat <<END
         $mlbench list tasks    (what else can be run)
         $mlbench run --help    (with which choices)
END
