#!/bin/bash
# For tests: sbatch, scancel, scontrol, sinfo and srun of a Slurm whose nodes are all this host. Which one it is, its name
# says. FAKE_SLURM is its folder:
#   plan      what happens: "run" at once, "queue N": after N looks, "refuse", "hang" (scontrol), "forget", "down" (sinfo)
#   per_node  ranks on each node (default: all on one)
#   calls     what was asked for
#   nodes     what scontrol says of the nodes
#   job.ID/   script, state, reason, restarts, code: a test may write them
# FAKE_SLURM_HOSTILE_GUARD: a program in place of the guard of task 1, in jobs with HOSTILE_FAULT in their environment.
set -u
home=$FAKE_SLURM
self=${0##*/}
plan=$(cat "$home/plan" 2>/dev/null || echo run)
echo "$self $*" >>"$home/calls"

option() { # name: as the script has it
  sed -n "s/^#SBATCH --$1=//p" "$job/script" | tail -n 1 | tr -d '"'
}

begin() {
  echo RUNNING >"$job/state"
  echo None >"$job/reason"
  cd "$(option chdir)" 2>/dev/null || cd /tmp || exit 1
  # shellcheck disable=SC2016
  SLURM_JOB_ID=$id setsid bash -c '
    echo $$ >"$1/pid"
    bash "$1/script"
    code=$?
    [ "$(cat "$1/state")" = RUNNING ] || exit
    echo "$code:0" >"$1/code"
    state=COMPLETED
    if [ "$code" != 0 ]; then state=FAILED; echo NonZeroExitCode >"$1/reason"; fi
    # Whoever is ended within a write leaves an empty file.
    echo "$state" >"$1/state.new" && mv "$1/state.new" "$1/state"
  ' fake "$job" >>"$(option output)" 2>&1 </dev/null &
  # In a session of its own: what ends with sbatch is ended.
  until [ -s "$job/pid" ]; do sleep 0.01; done
}

show() {
  local state reason nodes restarts code
  state=$(cat "$job/state") reason=$(cat "$job/reason") nodes=
  restarts=$(cat "$job/restarts" 2>/dev/null || echo 0) code=$(cat "$job/code" 2>/dev/null || echo 0:0)
  [ "$state" = PENDING ] || nodes=n1
  echo "JobId=$id JobName=$(option job-name) UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=4294901759 Nice=0" \
    "Account=(null) QOS=(null) JobState=$state Reason=$reason Dependency=(null) Requeue=0 Restarts=$restarts BatchFlag=1" \
    "Reboot=0 ExitCode=$code RunTime=00:00:01 TimeLimit=01:00:00 TimeMin=N/A Partition=test AllocNode:Sid=localhost:4711" \
    "ReqNodeList=(null) ExcNodeList=(null) NodeList=$nodes BatchHost=n1 NumNodes=1 NumCPUs=$(option ntasks)" \
    "NumTasks=$(option ntasks) CPUs/Task=1 ReqB:S:C:T=0:0:*:* TRES=cpu=$(option ntasks),mem=4000M,node=1,billing=2" \
    "Features=(null) Command=$job/script WorkDir=/tmp"
}

case $self in
  sbatch)
    if [ "$plan" = refuse ]; then
      echo 'sbatch: error: invalid partition specified: nosuch' >&2
      echo 'sbatch: error: Batch job submission failed: Invalid partition name specified' >&2
      exit 1
    fi
    id=$(($(cat "$home/last" 2>/dev/null || echo 11) + 1))
    echo "$id" >"$home/last"
    job=$home/job.$id
    mkdir "$job"
    cp "${!#}" "$job/script"
    env >"$job/environment"
    echo PENDING >"$job/state"
    echo Resources >"$job/reason"
    [ "$plan" = run ] && begin
    echo "$id"
    ;;
  scontrol)
    id=${!#}
    job=$home/job.$id
    [ "$plan" = hang ] && exec sleep 600
    if [ "${1-} ${2-}" = 'show nodes' ]; then
      [ "$plan" = refuse ] && echo 'slurm_load_node error: Unable to contact slurm controller (connect failure)' >&2 && exit 1
      exec cat "$home/nodes"
    fi
    if [ "$plan" = forget ] || [ ! -d "$job" ]; then
      echo 'slurm_load_jobs error: Invalid job id specified' >&2
      exit 1
    fi
    looks=$(($(cat "$job/looks" 2>/dev/null || echo 0) + 1))
    echo "$looks" >"$job/looks"
    # The environment of the job is the one in which it was submitted.
    if [ "$(cat "$job/state")" = PENDING ] && [[ $plan == queue* ]] && [ "$looks" -gt "${plan#queue }" ]; then
      while IFS= read -r line; do [[ $line == MLBENCH* || $line == EXTRA=* ]] && export "${line?}"; done <"$job/environment"
      begin
    fi
    show
    ;;
  scancel)
    id=${!#}
    job=$home/job.$id
    case $(cat "$job/state") in
      PENDING | RUNNING) echo CANCELLED >"$job/state" ;;
    esac
    if [ -s "$job/pid" ]; then
      group=$(cat "$job/pid")
      kill -TERM -- "-$group" 2>/dev/null
      sleep 0.2
      kill -KILL -- "-$group" 2>/dev/null
    fi
    exit 0
    ;;
  sinfo)
    if [ "$plan" = down ]; then
      echo 'slurm_load_partitions: Unable to contact slurm controller (connect failure)' >&2
      exit 1
    fi
    echo 127.0.0.1
    ;;
  srun)
    while [[ ${1:-} == --* ]]; do
      [[ $1 == --ntasks=* ]] && tasks=${1#--ntasks=}
      shift
    done
    each=$(cat "$home/per_node" 2>/dev/null || echo "$tasks")
    counts=
    for ((left = tasks; left > 0; left -= each)); do counts+=${counts:+,}$((left < each ? left : each)); done
    pids=()
    for ((task = 0; task < tasks; task++)); do
      words=("$@")
      [[ $task == 1 && -n ${HOSTILE_FAULT:-} ]] && words[0]=$FAKE_SLURM_HOSTILE_GUARD
      SLURM_PROCID=$task SLURM_NTASKS=$tasks SLURM_STEP_NUM_TASKS=$tasks SLURM_LOCALID=$((task % each)) \
        SLURM_NODEID=$((task / each)) SLURM_STEP_TASKS_PER_NODE=$counts SLURMD_NODENAME=n$((task / each + 1)) "${words[@]}" &
      pids+=($!)
    done
    code=0
    for pid in "${pids[@]}"; do wait "$pid" || code=$?; done
    exit "$code"
    ;;
esac
