#!/usr/bin/env python3
"""How long until a fault is on record? Kills or stops a rank of a run of two, or cuts the ranks' connection, and
measures from there to the record's `finished_at`. Prints one JSON object per fault; exit code 1 where one took longer
than it may: 5 s for a death, --comm-timeout + 5 s for a stop or a cut.

    fault_times.py [--mlbench build/release/bin/mlbench] [--repeat 3] [--comm-timeout 3]
"""
import argparse
import ctypes
import datetime
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

SYS_PIDFD_GETFD = 438
FAULTS = [("gloo", "kill"), ("gloo", "stop"), ("gloo", "cut"), ("mpi", "kill"), ("mpi", "stop"), ("mpi", "cut"),
          ("shm", "kill"), ("shm", "stop")]
# Where ranks of one host have no connection that could be cut.
MORE = {("mpi", "cut"): ["--interface", "lo"]}


def connections(pid):
    """{file descriptor: (local, remote)} of a process's established TCP connections, as /proc/net/tcp writes them."""
    ends = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(table).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "01":
                ends[f"socket:[{words[9]}]"] = (words[1], words[2])
    found = {}
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        target = os.readlink(link)
        if target in ends:
            found[int(link.name)] = ends[target]
    return found


def cut(one, other):
    theirs = {local for local, _ in connections(other).values()}
    process = os.pidfd_open(one)
    count = 0
    for descriptor, (_, remote) in connections(one).items():
        if remote in theirs:
            copy = ctypes.CDLL(None, use_errno=True).syscall(SYS_PIDFD_GETFD, process, descriptor, 0)
            if copy < 0:
                raise OSError(ctypes.get_errno(), "pidfd_getfd")
            with socket.socket(fileno=copy) as connection:
                connection.shutdown(socket.SHUT_RDWR)
            count += 1
    os.close(process)
    if count == 0:
        raise RuntimeError(f"no connection between processes {one} and {other}")


def wait_for_training(run, process):
    while process.poll() is None:
        spools = [run / "spool" / f"rank-{rank}.seg-1.steps" for rank in (0, 1)]
        if all(spool.exists() and spool.stat().st_size > 1000 for spool in spools):
            time.sleep(1)  # past the first heartbeats
            return [rank["pid"] for rank in json.loads((run / "lease").read_text())["ranks"]]
        time.sleep(0.05)
    raise RuntimeError("the run ended before it trained")


def measure(options, home, backend, fault, number):
    name = f"{backend}-{fault}-{number}"
    command = [options.mlbench, "run", name, "2", "--task", "fashion-mnist", "--synthetic", "--backend", backend,
               "--threads-per-worker", "1", "--comm-timeout", str(options.comm_timeout), "--max-steps", "1000000",
               "--set", "epochs=10000", "--home", home, "--local"] + MORE.get((backend, fault), [])
    environment = dict(os.environ, MLBENCH_CORE_LOCK=home + "/cores.lock")
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    run = pathlib.Path(home) / "runs" / f"{name}-2"
    ranks = wait_for_training(run, process)
    began = time.time()
    if fault == "cut":
        cut(ranks[1], ranks[0])
    else:
        os.kill(ranks[1], signal.SIGKILL if fault == "kill" else signal.SIGSTOP)
    process.wait(timeout=120)
    record = json.loads((run / "run.json").read_text())
    finished = datetime.datetime.fromisoformat(record["finished_at"].replace("Z", "+00:00")).timestamp()
    failure = record["failure"]
    return {"backend": backend, "fault": fault, "seconds": round(finished - began, 2),
            "limit": 5 if fault == "kill" else options.comm_timeout + 5, "state": record["state"],
            "kind": failure["kind"], "rank": failure["rank"], "operation": failure["operation"],
            "sequence": failure["sequence"], "exit_codes": record["exit_codes"], "message": failure["message"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mlbench", default="build/release/bin/mlbench")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--comm-timeout", type=int, default=3, help="seconds")
    options = parser.parse_args()
    late = 0
    with tempfile.TemporaryDirectory() as home:
        for backend, fault in FAULTS:
            for number in range(options.repeat):
                result = measure(options, home, backend, fault, number)
                print(json.dumps(result), flush=True)
                late += result["seconds"] > result["limit"] or not result["operation"]
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
