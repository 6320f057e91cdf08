#!/usr/bin/env python3
"""Does a made network (--netem) give the times of a shaped one? All-reduce of float32 by the reference ring over two
hosts that are network namespaces, joined by a link that tbf holds at RATE, beside the same ring on this host over
--netem with the bandwidth that the shaped link has for payload: 1448 of 1514 bytes of each frame. Prints a line per
size; exits with 1 where they differ by more than 10 %. Root.

    made_network.py [--bin build/release/bin] [--rate 200] [--sizes 256K,4M]
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from hosts import Hosts, missing

PAYLOAD = 1448 / 1514
MOST = 0.10


def words(given, netem):
    return [given.bin / "mlbench", "bench", "collectives", "all_reduce", "-k", "2", "--backend", "gloo", "--form",
            "in_place", "-b", given.sizes.split(",")[0], "-e", given.sizes.split(",")[-1], "-f", "4", "-n", "15", "-w", "3",
            "--netem", netem, "--local", "--json"]


def times(document):
    """{bytes: median, microseconds}."""
    return {row["size"]: row["in_place"]["iterations"]["p50"] for row in document["results"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--rate", type=float, default=200, help="Mbit/s")
    parser.add_argument("--sizes", default="256K,4M", help="smallest and largest")
    given = parser.parse_args()
    if missing():
        sys.exit(f"made_network.py needs {missing()}")
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "MLBENCH_HOME": home, "MLBENCH_CORE_LOCK": home + "/lock"}

        def output(command):
            return json.loads(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE,
                                             stderr=subprocess.DEVNULL).stdout)

        made = output(words(given, f"bandwidth={given.rate * PAYLOAD}Mbit"))
        # No limit of its own: the ring over what the hosts have between them.
        spec = output([*words(given, "latency=0s"), "--dry-run"])[0]["spec"]
        with Hosts(2) as hosts:
            hosts.shape(0, 1, f"{given.rate}mbit")
            shaped = hosts.ranks(given.bin / "mlbench-worker", spec, pathlib.Path(home, "shaped"))
    ours, theirs = times(made[0]), times(shaped["collectives"])
    worst = 0
    for size, made_us in ours.items():
        worst = max(worst, abs(made_us / theirs[size] - 1))
        print(json.dumps({"bytes": size, "rate_mbit_s": given.rate, "made_us": made_us, "shaped_us": theirs[size],
                          "ratio": made_us / theirs[size]}))
    sys.exit(0 if worst <= MOST else 1)


if __name__ == "__main__":
    main()
