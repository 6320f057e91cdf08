#!/usr/bin/env python3
"""The network table of `mlbench study ddl` in small: efficiency over hosts that are network namespaces of this machine, on
links of a rate, beside what arithmetic says. Task 1a-ddp, emulated steps of --step, buckets of 0.25 MiB; started by the
executor mpirun over ssh, with Gloo. Root, sshd, Open MPI (tools/setup.sh engines).

    ddl_networks.py [--bin build/release/bin] [--workers 1,2,4] [--links 100mbit,1gbit] [--step 200ms]
                    [--output docs/results/ddl-networks.json]
    ddl_networks.py --table [--output FILE]           what is kept, as Markdown

A ring over k hosts takes E = 2 (k - 1) / k S / B for a gradient of S bytes, where B is what a link has for payload. Of a step
of C, the gradient becomes final during the last two thirds, in proportion to elements (docs/rules.md). So with n buckets

    without overlap   C + E
    with overlap      the later of C + E / n, when the last bucket has passed, and C / 3 + 2 C / 3 n + E, when the exchange
                      goes on without a pause from the first bucket on

The rest of a step, what the update and everything else takes, is that of one worker. The efficiency is that of the study.
"""
import json
import os
import pathlib
import sys
import tempfile

import ratio
from hosts_collectives import closed_form_us, netns

TASK, BUCKET_MB, STEPS = "1a-ddp", 0.25, 40


def expected_step_s(compute_s, exchange_s, buckets, overlap):
    """Of a step whose gradient is exchanged, without what is neither."""
    if not overlap or exchange_s == 0:
        return compute_s + exchange_s
    backward_s = compute_s * 2 / 3
    return max(compute_s + exchange_s / buckets, compute_s / 3 + backward_s / buckets + exchange_s)


def expected_efficiency(compute_s, one_worker_step_s, exchange_s, buckets, overlap):
    rest_s = one_worker_step_s - compute_s
    return one_worker_step_s / (expected_step_s(compute_s, exchange_s, buckets, overlap) + rest_s)


def study(given, network, home, link, overlap):
    """The rows of the study at this rate."""
    name = f"{link}-{'overlap' if overlap else 'plain'}".replace(".", "_")
    words = [given.bin / "mlbench", "study", "ddl", name, "--home", home, "--json", "--local", "--task", TASK, "--framework",
             "native", "--backend", "gloo", "-c", "1", "--workers", ",".join(map(str, given.workers)), "--input", "synthetic",
             "--compute", f"emulated={given.step}", "--max-steps", str(STEPS), "--set", f"optimizer.bucket_mb={BUCKET_MB}",
             "--set", f"optimizer.overlap={str(overlap).lower()}", "--executor", "mpirun", "--hosts", ",".join(network.names),
             "--ssh-config", network.ssh_config, "--scratch", network.scratch, "--format", "json", "-o", home / name]
    done = network.run("h1", words, check=False, timeout=1200, env={**os.environ, "MLBENCH_CORE_LOCK": f"{home}.lock"})
    if done.returncode != 0:
        raise SystemExit(f"{name}: exit code {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)["rows"]


def rows_of(home, link, overlap, study_rows):
    records = {row["workers"]: json.loads((home / "runs" / row["runs"][0] / "run.json").read_text()) for row in study_rows}
    one = next(row for row in study_rows if row["workers"] == 1)
    for row in study_rows:
        record, workers = records[row["workers"]], row["workers"]
        size = record["parameters"] * 4
        exchange_s = closed_form_us(workers, size, link) / 1e6
        buckets = record["effective"].get("buckets") or 1
        expected = expected_efficiency(record["emulated_step_s"], one["step_s"], exchange_s, buckets, overlap)
        yield {"link": link, "overlap": overlap, "workers": workers, "gradient_bytes": size, "buckets": buckets,
               "emulated_step_s": record["emulated_step_s"], "ring_s": exchange_s, "step_s": row["step_s"],
               "samples_per_s": row["samples_per_s"], "efficiency": row["efficiency"], "expected_efficiency": expected,
               "bottleneck": row["bottleneck"]}


def table_of(document):
    return ratio.table(
        "| link | overlap | workers | ring, ms | step, ms | samples/s | efficiency | by arithmetic | the study says |", (
            f"{row['link']} | {'yes' if row['overlap'] else 'no'} | {row['workers']} | {row['ring_s'] * 1e3:.0f} | "
            f"{row['step_s'] * 1e3:.0f} | {row['samples_per_s']:.0f} | {row['efficiency'] * 100:.0f} % | "
            f"{row['expected_efficiency'] * 100:.0f} % | {row['bottleneck']['text']}" for row in document["rows"]))


def main():
    parser = ratio.parser_of(__doc__, "ddl-networks.json")
    parser.add_argument("--workers", type=lambda text: [int(one) for one in text.split(",")], default=[1, 2, 4])
    parser.add_argument("--links", default="100mbit,1gbit")
    parser.add_argument("--step", default="200ms", help="time of an emulated step")
    given = parser.parse_args()
    if given.table:
        return print(table_of(json.loads(given.output.read_text())))
    if 1 not in given.workers:
        parser.error(f"--workers {given.workers}: expected 1 among them, which the others are compared with")
    given.bin = given.bin.resolve()
    if reason := netns.missing(sshd=True):
        sys.exit(f"ddl_networks.py needs {reason}")
    document = {"date": ratio.now()[:10], "machine": ratio.machine(), "task": TASK, "rows": []}
    with tempfile.TemporaryDirectory(prefix="mln", dir="/tmp") as folder, \
            netns.Network(max(given.workers), pathlib.Path(folder, "net"), sshd=True) as network:
        home = pathlib.Path(folder, "home")
        for link in given.links.split(","):
            network.shape_all(link)
            for overlap in (False, True):
                document["rows"] += rows_of(home, link, overlap, study(given, network, home, link, overlap))
                ratio.write(given.output, document)
    print(table_of(document))


if __name__ == "__main__":
    sys.exit(main())
