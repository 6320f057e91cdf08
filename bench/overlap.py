#!/usr/bin/env python3
"""How much communication does overlap hide? Task 1a-ddp on two hosts (network namespaces, one link of RATE), one thread
each, buckets of 0.25 MiB, with and without --overlap in turn. Root. Writes one JSON object per rate and framework.

    overlap.py --data-dir DIR [--bin build/release/bin] [--rates 100,50] [--frameworks torch,native] [--pairs 5] [--steps 40]
    overlap.py --one-host ...      is a step slower with overlap where there is no network? Needs no root; the limit of set `same`

What arithmetic says can hide: with two ranks each sends its whole gradient once, so a bucket of S bytes takes
S / (rate x 1448 / 1514) (payload of an Ethernet frame of TCP). The last bucket is complete when the backward pass ends and
cannot hide; the others can, as far as the backward pass lasts: hideable = min(their sum, time of backward). What was hidden
is the difference of the mean step times of the two runs of a pair; beside it stands what the run itself says
(`exchange.hidden_s` of its record, which counts waiting for the other rank's gradient, too).
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from hosts import Hosts, missing
from pairs import interval, verdict

PAYLOAD = 1448 / 1514
SAME_LIMIT = 0.97  # of the speed, as tests/same has it


def run(given, name, framework, overlap, home, *options):
    """What it prints."""
    return subprocess.run(
        [given.bin / "mlbench", "run", name, "2", "--task", "1a-ddp", "--framework", framework, "--backend", "gloo",
         "--threads-per-worker", "1", "--data-dir", given.data_dir, "--fixed-batch", "--max-steps", str(given.steps),
         "--set", "optimizer.bucket_mb=0.25", "--set", f"optimizer.overlap={str(overlap).lower()}", "--json", *options],
        env={**os.environ, "MLBENCH_HOME": str(home)}, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


def one_host(given, framework, home):
    steps = {False: [], True: []}
    for pair in range(given.pairs):
        for overlap in (pair % 2 == 0, pair % 2 != 0):
            name = f"{framework}-{pair}-{'with' if overlap else 'without'}"
            run(given, name, framework, overlap, home, "--local")
            record = json.loads(pathlib.Path(home, "runs", f"{name}-2", "run.json").read_text())
            steps[overlap].append(figures(record)["step"])
    speeds = [without / with_it for without, with_it in zip(steps[False], steps[True])]
    low, high = interval(speeds)
    return {"framework": framework, "hosts": 1, "step_s": {"without": steps[False], "with": steps[True]},
            "speed": statistics.median(speeds), "interval": [low, high], "limit": SAME_LIMIT,
            "verdict": verdict(low, high, SAME_LIMIT)}


def figures(record):
    """Seconds per step, of rank 0 where ranks differ."""
    steps = record["segments"][0]["steps"]
    exchange = record["exchange"]
    return {"step": record["clocks"]["train_s"] / steps,
            "backward": record["steps_s"]["backprop"] / steps,
            "hidden": exchange["hidden_s"][0] / steps,
            "exposed": exchange["exposed_s"][0] / steps,
            "buckets": record["effective"]["buckets"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--rates", default="100,50", help="Mbit/s")
    parser.add_argument("--frameworks", default="torch,native")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--one-host", action="store_true")
    given = parser.parse_args()
    if given.one_host:
        with tempfile.TemporaryDirectory() as home:
            for framework in given.frameworks.split(","):
                print(json.dumps(one_host(given, framework, home)), flush=True)
        return
    if missing():
        sys.exit(f"overlap.py needs {missing()}")
    with tempfile.TemporaryDirectory() as home, Hosts(2) as hosts:
        for framework in given.frameworks.split(","):
            specs = {overlap: json.loads(run(given, "overlap", framework, overlap, home, "--dry-run"))[0]["spec"]
                     for overlap in (False, True)}
            for rate in (float(text) for text in given.rates.split(",")):
                hosts.shape(0, 1, f"{rate}mbit")
                runs = {False: [], True: []}
                for pair in range(given.pairs):
                    for overlap in (pair % 2 == 0, pair % 2 != 0):
                        folder = pathlib.Path(home, f"{framework}-{rate}-{pair}-{overlap}")
                        runs[overlap].append(figures(hosts.ranks(given.bin / "mlbench-worker", specs[overlap], folder)))
                print(json.dumps(judged(framework, rate, runs)), flush=True)


def judged(framework, rate, runs):
    def median(overlap, name):
        return statistics.median(run[name] for run in runs[overlap])

    sizes = bucket_bytes()
    assert len(sizes) == runs[True][0]["buckets"], (sizes, runs[True][0]["buckets"])
    transfers = [size / (rate * 1e6 / 8 * PAYLOAD) for size in sizes]
    hideable = min(sum(transfers[:-1]), median(False, "backward"))
    shares = [(without["step"] - with_it["step"]) / hideable for without, with_it in zip(runs[False], runs[True])]
    return {"framework": framework, "rate_mbit_s": rate, "bucket_bytes": sizes, "transfer_s": sum(transfers),
            "hideable_s": hideable, "step_s": {"without": median(False, "step"), "with": median(True, "step")},
            "backward_s": {"without": median(False, "backward"), "with": median(True, "backward")},
            "exchange_s": median(False, "exposed"),
            "exposed_s": median(True, "exposed"), "hidden_s": median(True, "hidden"),
            "hidden_share": statistics.median(shares), "interval": interval(shares), "runs": {
                "without": runs[False], "with": runs[True]}}


def bucket_bytes(limit=0.25 * 2**20):
    """Of ResNet-20 as task 1a has it: tensors from the last layer to the first, a bucket closed by the one with which it
    reaches the limit."""
    tensors = [10, 640]  # dense: bias, weight
    for width, before in ((64, 32), (32, 16), (16, 16)):
        for block in (2, 1, 0):
            entry = before if block == 0 else width
            shortcut = [width, width, width * entry] if entry != width else []
            tensors += shortcut + [width, width, width * width * 9, width, width, width * entry * 9]
    tensors += [16, 16, 16 * 3 * 9]
    buckets, filled = [], 0
    for count in tensors:
        filled += count * 4
        if filled >= limit:
            buckets.append(filled)
            filled = 0
    return buckets + [filled] * (filled > 0)


if __name__ == "__main__":
    main()
