#!/usr/bin/env python3
"""Does the matrix of pairs find a slow link? Four hosts that are network namespaces, each pair joined by a link of
RATE; one link, chosen anew each time, is shaped to half of it. Prints what was named, one JSON object per trial, and
exits with 1 where it was anything else. Root.

    slow_link.py [--bin build/release/bin] [--trials 20] [--rate 200] [--seed 1]
"""
import argparse
import itertools
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

from hosts import Hosts, missing

HOSTS = 4


def spec_of(mlbench, home):
    frozen = subprocess.run(
        [mlbench, "bench", "collectives", "latency", "-k", str(HOSTS), "--backend", "gloo", "-b", "8", "-e", "8", "-n", "5",
         "--pairs", "--pair-bytes", "64K", "--pair-iters", "7", "--dry-run", "--json"],
        env={**os.environ, "MLBENCH_HOME": str(home)}, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return json.loads(frozen)[0]["spec"]


def found_is(found, link):
    return [(part["measure"], part["kind"], tuple(part["ranks"])) for part in found] == [("bandwidth", "link", link)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--rate", type=int, default=200, help="Mbit/s")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if missing():
        sys.exit(f"slow_link.py needs {missing()}")
    links = list(itertools.combinations(range(HOSTS), 2))
    chance = random.Random(given.seed)
    named = 0
    with tempfile.TemporaryDirectory() as home, Hosts(HOSTS) as hosts:
        spec = spec_of(given.bin / "mlbench", home)
        for trial in range(given.trials):
            link = chance.choice(links)
            hosts.shape_all(f"{given.rate}mbit")
            hosts.shape(*link, f"{given.rate / 2}mbit")
            record = hosts.ranks(given.bin / "mlbench-worker", spec, pathlib.Path(home, f"trial-{trial}"))
            pairs = record["collectives"]["pairs"]
            found = pairs["slow"]
            print(json.dumps({"trial": trial, "link": link, "found": found}), flush=True)
            named += found_is(found, link)
    print(f"{named} of {given.trials} named")
    sys.exit(0 if named == given.trials else 1)


if __name__ == "__main__":
    main()
