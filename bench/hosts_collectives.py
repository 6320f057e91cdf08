#!/usr/bin/env python3
"""All-reduce over hosts beside the closed form: float32 over hosts that are network namespaces of this machine, joined by
a switch, with links of RATE, started by the executor mpirun over ssh. A ring moves 2 (k - 1) / k of the buffer through
each link in each direction, so no all-reduce is faster than 2 (k - 1) / k S / B, where B is what a link has for payload:
1448 of 1514 bytes of each frame. Writes CSV; exits with 1 where a time is more than --most above the closed form at a rate
up to --judge. Root, sshd, Open MPI.

    hosts_collectives.py [--bin build/release/bin] [--hosts 4] [--rates 100mbit,1gbit,7.5gbit] [--bytes 1100000]
                         [--backends gloo,mpi] [--output FILE.csv]
"""
import argparse
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "engines"))
import netns  # noqa: E402

PAYLOAD = 1448 / 1514
COLUMNS = ["backend", "ranks", "rate_mbit_s", "bytes", "closed_form_us", "least_us", "median_us", "ratio", "link_bytes"]


def closed_form_us(ranks, size, bits_per_second):
    return 2 * (ranks - 1) / ranks * size * 8 / (bits_per_second * PAYLOAD) * 1e6


def measure(network, given, backend, folder):
    """(least, median) of the times in microseconds, and the bytes that left h2 meanwhile."""
    count = len(network.names)
    words = [given.bin / "mlbench", "bench", "collectives", "all_reduce", "--ranks", str(count), "--backend", backend,
             "--algorithm", "ring", "--form", "in_place", "--counts", str(given.bytes // 4), "-n", str(given.iterations),
             "-w", "5", "--executor", "mpirun", "--hosts", ",".join(network.names), "--ssh-config", network.ssh_config,
             "--scratch", str(network.scratch), "--local", "--json"]
    environment = {**os.environ, "MLBENCH_HOME": str(folder), "MLBENCH_CORE_LOCK": str(folder) + ".lock"}
    before = network.bytes("h2")[0]
    try:
        said = network.run("h1", words, timeout=600, env=environment)
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"{backend}: {error.stderr}")
    row, = json.loads(said.stdout)[0]["results"]
    times = row["in_place"]["iterations"]
    return times["min"], times["p50"], network.bytes("h2")[0] - before


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rates", default="100mbit,1gbit,7.5gbit")
    parser.add_argument("--bytes", type=int, default=1_100_000)
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--backends", default="gloo,mpi")
    parser.add_argument("--most", type=float, default=0.10, help="above the closed form")
    parser.add_argument("--judge", default="1gbit", help="highest rate that is judged: above it this machine is the limit")
    parser.add_argument("--output", type=argparse.FileType("w"), default=sys.stdout)
    given = parser.parse_args()
    given.bin = given.bin.resolve()
    if reason := netns.missing(sshd=True):
        sys.exit(f"hosts_collectives.py needs {reason}")
    table = csv.DictWriter(given.output, COLUMNS, lineterminator="\n")
    table.writeheader()
    slow = 0
    with tempfile.TemporaryDirectory(prefix="mlm", dir="/tmp") as folder, \
            netns.Network(given.hosts, pathlib.Path(folder, "net"), sshd=True) as network:
        for rate in given.rates.split(","):
            network.shape_all(rate)
            for backend in given.backends.split(","):
                least, median, link = measure(network, given, backend, pathlib.Path(folder, f"{backend}-{rate}"))
                bound = closed_form_us(given.hosts, given.bytes, netns.bits_per_second(rate))
                table.writerow({"backend": backend, "ranks": given.hosts,
                                "rate_mbit_s": netns.bits_per_second(rate) / 1e6, "bytes": given.bytes,
                                "closed_form_us": round(bound, 1), "least_us": least, "median_us": median,
                                "ratio": round(median / bound, 3), "link_bytes": link})
                given.output.flush()
                judged = netns.bits_per_second(rate) <= netns.bits_per_second(given.judge)
                slow += judged and median > bound * (1 + given.most)
    sys.exit(1 if slow else 0)


if __name__ == "__main__":
    main()
