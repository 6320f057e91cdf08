#!/usr/bin/env python3
"""All-reduce over hosts beside the closed form: float32 over hosts that are network namespaces of this machine, joined by
a switch, over links of a RATE and, one way, a DELAY, started by the executor mpirun over ssh. A ring takes
2 (k - 1) a + 2 (k - 1) / k S / B, where a is the delay and B what a link has for payload: 1448 of 1514 bytes of each frame.
Root, sshd, Open MPI; for delays iptables and build/release/bin/packet_delay (tools/setup.sh engines).

    hosts_collectives.py [--bin build/release/bin] [--hosts 4] [--links 100mbit,1gbit,7.5gbit,1gbit+500us,1gbit+5000us]
                         [--ways gloo-ring,gloo-auto,mpi-ring,mpi-auto] [--output docs/results/hosts]
    hosts_collectives.py --table        what is kept, as Markdown

Writes OUTPUT/LINK/WAY.json (`mlbench charts` and `--compare` read them), the figures of each link and OUTPUT/table.csv.
Judged is the ring over Gloo of 1.1 MB at 1 Gbit/s and below, without a delay: exit code 1 where its median is more than
10 % above the closed form. All hosts share the cores of this machine: what they take stands in every time.
"""
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import ratio

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "engines"))
import netns  # noqa: E402

PAYLOAD = 1448 / 1514
SIZES = [8, 1_024, 16_384, 131_072, 1_100_000, 4_194_304]
JUDGED_SIZE, JUDGED_WAY, JUDGED_RATE, MOST = 1_100_000, "gloo-ring", 1e9, 1.10
COLUMNS = ["link", "way", "ranks", "bytes", "closed_form_us", "least_us", "median_us", "ratio", "nwrong", "link_bytes"]
QUEUE = "7"


def rate_and_delay(link):
    """("1gbit", microseconds one way)"""
    rate, _, delay = link.partition("+")
    if delay and not delay.endswith("us"):
        raise ValueError(f"link '{link}': expected RATE or RATE+MICROSECONDSus")
    return rate, int(delay[:-2] or 0) if delay else 0


def closed_form_us(ranks, size, link):
    rate, delay_us = rate_and_delay(link)
    return 2 * (ranks - 1) * delay_us + 2 * (ranks - 1) / ranks * size * 8 / (netns.bits_per_second(rate) * PAYLOAD) * 1e6


def delay_all(network, program, delay_us):
    """What each host receives comes so much later; the processes that see to it."""
    processes = []
    for name in network.names:
        hook = ["PREROUTING", "-t", "mangle", "-i", "eth0", "-j", "NFQUEUE", "--queue-num", QUEUE, "--queue-bypass"]
        network.run(name, ["iptables", "-D", *hook], check=False)
        if delay_us:
            processes.append(network.start(name, [program, "--queue", QUEUE, "--delay", delay_us]))
            network.run(name, ["iptables", "-A", *hook])
    return processes


def measure(network, given, way, file, home):
    backend, algorithm = way.split("-")
    words = [given.bin / "mlbench", "bench", "collectives", "all_reduce", "--ranks", str(given.hosts), "--backend", backend,
             "--algorithm", algorithm, "--form", "in_place", "--counts", ",".join(str(size // 4) for size in SIZES), "-n",
             str(given.iterations), "-w", "3", "--executor", "mpirun", "--hosts", ",".join(network.names), "--ssh-config",
             network.ssh_config, "--scratch", str(network.scratch), "--local", "--name", way, "-J", file, "--csv"]
    # Several ranks spin on each core where the hosts are one machine, which no placement shows.
    environment = {**os.environ, "MLBENCH_HOME": str(home), "MLBENCH_CORE_LOCK": f"{home}.lock",
                   "OMPI_MCA_mpi_yield_when_idle": "1"}
    before = network.bytes("h2")[0]
    try:
        network.run("h1", words, timeout=1200, env=environment)
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"{way}: {error.stderr}")
    document = json.loads(file.read_text())
    document["args"] = []  # what is kept names no folder
    file.write_text(json.dumps(document, indent=2) + "\n")
    return network.bytes("h2")[0] - before


def rows_of(folder, link, way, link_bytes):
    document = json.loads((folder / link / f"{way}.json").read_text())
    for row in document["results"]:
        form = row["in_place"]
        bound = closed_form_us(document["workers"], row["size"], link)
        yield {"link": link, "way": way, "ranks": document["workers"], "bytes": row["size"],
               "closed_form_us": round(bound, 1), "least_us": round(form["iterations"]["min"], 1),
               "median_us": round(form["iterations"]["p50"], 1), "ratio": round(form["iterations"]["p50"] / bound, 3),
               "nwrong": form["nwrong"], "link_bytes": link_bytes}


def too_slow(row):
    rate, delay_us = rate_and_delay(row["link"])
    return (row["way"] == JUDGED_WAY and row["bytes"] == JUDGED_SIZE and netns.bits_per_second(rate) <= JUDGED_RATE
            and delay_us == 0 and row["ratio"] > MOST)


def write_table(folder):
    """Medians in microseconds, the closed form of the ring beside them."""
    with open(folder / "table.csv") as file:
        rows = list(csv.DictReader(file))
    ways = list(dict.fromkeys(row["way"] for row in rows))
    print(f"| link | bytes | closed form | {' | '.join(ways)} |\n|---|---|---|{'---|' * len(ways)}")
    for link, size in dict.fromkeys((row["link"], row["bytes"]) for row in rows):
        here = {row["way"]: row for row in rows if (row["link"], row["bytes"]) == (link, size)}
        bound = float(next(iter(here.values()))["closed_form_us"])
        cells = [f"{float(here[way]['median_us']):,.0f}" if way in here else "" for way in ways]
        print(f"| {link} | {int(size):,} | {bound:,.0f} | {' | '.join(cells)} |")


def main():
    parser = ratio.parser_of(__doc__, "hosts")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--links", default="100mbit,1gbit,7.5gbit,1gbit+500us,1gbit+5000us")
    parser.add_argument("--ways", default="gloo-ring,gloo-auto,mpi-ring,mpi-auto")
    parser.add_argument("--iterations", type=int, default=30)
    given = parser.parse_args()
    if given.table:
        return write_table(given.output)
    given.bin = given.bin.resolve()
    if reason := netns.missing(sshd=True):
        sys.exit(f"hosts_collectives.py needs {reason}")
    given.output.mkdir(parents=True, exist_ok=True)
    slow = False
    with open(given.output / "table.csv", "w") as file, tempfile.TemporaryDirectory(prefix="mlm", dir="/tmp") as folder, \
            netns.Network(given.hosts, pathlib.Path(folder, "net"), sshd=True) as network:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        for link in given.links.split(","):
            rate, delay_us = rate_and_delay(link)
            network.shape_all(rate)
            delaying = delay_all(network, given.bin / "packet_delay", delay_us)
            (given.output / link).mkdir(exist_ok=True)
            for way in given.ways.split(","):
                kept = given.output / link / f"{way}.json"
                sent = measure(network, given, way, kept, pathlib.Path(folder, f"{way}-{link}"))
                for row in rows_of(given.output, link, way, sent):
                    table.writerow(row)
                    slow |= too_slow(row)
                file.flush()
            for process in delaying:
                process.terminate()
            kept = sorted(str(one) for one in (given.output / link).glob("*.json"))
            subprocess.run([given.bin / "mlbench", "charts", *kept, "--output", given.output / link, "--format", "svg"],
                           check=True, stdout=subprocess.DEVNULL)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
