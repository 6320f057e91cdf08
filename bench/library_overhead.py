#!/usr/bin/env python3
"""What the communicator costs over MPI's and Gloo's own calls, and how shm does beside the faster of both: two ranks,
all_reduce of float32, pairs fixed beforehand, interleaved (bench/library_overhead.cpp). Writes every pair as JSON and
prints a table with verdicts. Limits:

    mpi            at most 1 us more than MPI at 8 bytes, 3 % more at 4 MB and above
    gloo           at most 3 % more than Gloo at 4 MB and above
    shm            of the faster of both: 1.0 at 8 bytes, 0.5 at 64 KB, 0.6 at 4 MB
    shm-in-place   0.25 at 4 MB: buffers that lie in shared memory

    library_overhead.py [--bin build/release/bin] [--pairs 21] [--out FILE]
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

from pairs import at_most, interval

KB, MB = 1 << 10, 1 << 20
MOST_US = {("mpi", 8): 1.0}
MOST_RATIO = {("mpi", 4 * MB): 1.03, ("mpi", 16 * MB): 1.03, ("gloo", 4 * MB): 1.03, ("gloo", 16 * MB): 1.03,
              ("shm", 8): 1.0, ("shm", 64 * KB): 0.5, ("shm", 4 * MB): 0.6, ("shm-in-place", 4 * MB): 0.25}


def measure(given, ours):
    with tempfile.TemporaryDirectory() as folder:
        out = subprocess.run(
            ["mpirun", "-n", "2", "--bind-to", "none", given.bin / "library_overhead", "--ours", ours, "--folder",
             folder, "--pairs", str(given.pairs), "--seconds", str(given.seconds), "--sizes", given.sizes],
            env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}, check=True,
            stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def judge(row):
    ratios = [ours / raw for ours, raw in zip(row["ours_us"], row["raw_us"])]
    more = [ours - raw for ours, raw in zip(row["ours_us"], row["raw_us"])]
    row |= {"ratio": statistics.median(ratios), "ratio_interval": interval(ratios), "more_us": statistics.median(more),
            "more_interval_us": interval(more)}
    key = row["ours"], row["bytes"]
    if key in MOST_US or key in MOST_RATIO:
        low, high = row["more_interval_us"] if key in MOST_US else row["ratio_interval"]
        most = MOST_US.get(key) or MOST_RATIO[key]
        row["limit"] = most
        row["verdict"] = at_most(low, high, most)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--ours", default="mpi,gloo,shm,shm-in-place")
    parser.add_argument("--pairs", type=int, default=21)
    parser.add_argument("--seconds", type=float, default=0.3, help="per side of a pair")
    parser.add_argument("--sizes", default="8,1024,65536,4194304,16777216")
    parser.add_argument("--out", type=pathlib.Path)
    given = parser.parse_args()
    rows = [judge(row) for ours in given.ours.split(",") for row in measure(given, ours)]
    print("ours              bytes     ours us      raw us   ratio (95 %)              more us   verdict")
    for row in rows:
        low, high = row["ratio_interval"]
        print(f"{row['ours']:12} {row['bytes']:10} {statistics.median(row['ours_us']):11.2f} "
              f"{statistics.median(row['raw_us']):11.2f}   {row['ratio']:.3f} ({low:.3f} to {high:.3f})"
              f" {row['more_us']:11.2f}   {row.get('verdict', '')}")
    if given.out:
        given.out.write_text(json.dumps({"pairs": given.pairs, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
