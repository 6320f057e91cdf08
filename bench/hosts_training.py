#!/usr/bin/env python3
"""Training over hosts on real data: tasks over hosts that are network namespaces of this machine, one rank and one thread
each, at link rates, started by the executor mpirun over ssh (Gloo, MPI), or rank by rank with nothing but the variables of a
rendezvous (Gloo). Root, sshd, Open MPI (tools/setup.sh engines).

    hosts_training.py --data-dir DIR [--bin build/release/bin] [--hosts 4] [--links 100mbit,1gbit,7.5gbit]
                      [--tasks 1a:10,fashion-mnist:20] [--ways gloo,mpi,rendezvous] [--output docs/results/hosts-training]
    hosts_training.py --table           what is kept, as Markdown

Writes OUTPUT/table.csv. Judged, exit code 1: weights that differ between the ways of Gloo and those of a local run of as
many ranks; a link that has not carried what the gradients are.
"""
import csv
import json
import os
import pathlib
import secrets
import subprocess
import sys
import tempfile

import ratio
from hosts_collectives import closed_form_us, netns

COLUMNS = ["link", "task", "way", "ranks", "steps", "gradient_bytes", "step_ms", "exchange_ms", "closed_form_ms",
           "samples_per_s", "sent_bytes", "least_bytes", "weights_sha256"]
PORT = 29500


def run_words(given, name, task, steps, backend):
    return [given.bin / "mlbench", "run", name, str(given.hosts), "--task", task, "--backend", backend, "--threads-per-worker",
            "1", "--max-steps", str(steps), "--data-dir", given.data_dir, "--local"]


def environment(home):
    return {**os.environ, "MLBENCH_HOME": str(home), "MLBENCH_CORE_LOCK": f"{home}.lock",
            # Several ranks spin on each core where the hosts are one machine, which no placement shows.
            "OMPI_MCA_mpi_yield_when_idle": "1"}


def record_of(home, name, ranks):
    return json.loads((home / "runs" / f"{name}-{ranks}" / "run.json").read_text())


def by_mpirun(given, network, home, name, task, steps, backend):
    words = [*run_words(given, name, task, steps, backend), "--executor", "mpirun", "--hosts", ",".join(network.names),
             "--ssh-config", network.ssh_config, "--scratch", network.scratch]
    done = network.run("h1", words, check=False, timeout=1800, env=environment(home))
    if done.returncode != 0:
        raise SystemExit(f"{name}: exit code {done.returncode}: {done.stderr}")
    return record_of(home, name, given.hosts)


def by_rendezvous(given, network, home, name, task, steps):
    """Each rank is started by itself, as any launcher would."""
    planned = subprocess.run(list(map(str, [*run_words(given, name, task, steps, "gloo"), "--dry-run", "--json"])), check=True,
                             stdout=subprocess.PIPE, env=environment(home)).stdout
    folder = home / name
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text(json.dumps(json.loads(planned)[0]["spec"]))
    secret, processes = secrets.token_hex(16), []
    for rank, host in enumerate(network.names):
        variables = {**environment(home), "RANK": str(rank), "WORLD_SIZE": str(given.hosts), "MLBENCH_SECRET": secret,
                     "MASTER_ADDR": network.addresses[network.names[0]], "MASTER_PORT": str(PORT),
                     "GLOO_SOCKET_IFNAME": "eth0"}
        with open(folder / f"rank-{rank}.log", "wb") as log:
            processes.append(network.start(host, [given.bin / "mlbench-worker", "--spec", folder / "spec.json", "--run-dir",
                                                  folder], env=variables, stdout=log, stderr=log))
    for rank, process in enumerate(processes):
        if process.wait(1800) != 0:
            raise SystemExit(f"{name}: rank {rank}: " + (folder / f"rank-{rank}.log").read_text()[-2000:])
    return json.loads((folder / "run.json").read_text())


def here(given, home, task, steps):
    """The weights of as many ranks on one host."""
    subprocess.run(list(map(str, [*run_words(given, f"local-{task}", task, steps, "gloo"), "--no-wait"])), check=True,
                   stdout=subprocess.DEVNULL, env=environment(home), timeout=1800)
    return record_of(home, f"local-{task}", given.hosts)["weights_sha256"]


def row_of(link, task, way, record, sent):
    ranks, steps = record["workers"], record["segments"][0]["steps"]
    size = record["parameters"] * 4
    least = 2 * (ranks - 1) / ranks * size * steps  # what a ring sends of it from each host
    return {"link": link, "task": task, "way": way, "ranks": ranks, "steps": steps, "gradient_bytes": size,
            "step_ms": round(record["clocks"]["train_s"] / steps * 1e3, 1),
            "exchange_ms": round(record["steps_s"]["agg"] / steps * 1e3, 1),
            "closed_form_ms": round(closed_form_us(ranks, size, link) / 1e3, 1),
            "samples_per_s": round(record["throughput"]["samples_per_s"], 1), "sent_bytes": sent, "least_bytes": round(least),
            "weights_sha256": record["weights_sha256"]}


def write_table(folder):
    with open(folder / "table.csv") as file:
        rows = list(csv.DictReader(file))
    ways = list(dict.fromkeys(row["way"] for row in rows))
    print(f"| task | gradient, MB | link | ring, ms | {' | '.join(f'{way}: step (exchange), ms' for way in ways)} |")
    print(f"|---|---|---|---|{'---|' * len(ways)}")
    for task, link in dict.fromkeys((row["task"], row["link"]) for row in rows):
        found = {row["way"]: row for row in rows if (row["task"], row["link"]) == (task, link)}
        one = next(iter(found.values()))
        cells = [f"{float(found[way]['step_ms']):,.0f} ({float(found[way]['exchange_ms']):,.0f})" if way in found else ""
                 for way in ways]
        print(f"| {task} | {int(one['gradient_bytes']) / 1e6:.1f} | {link} | {float(one['closed_form_ms']):,.0f} | "
              f"{' | '.join(cells)} |")


def complaints(rows, local):
    for row in rows:
        where = f"{row['task']}, {row['link']}, {row['way']}"
        if row["way"] != "mpi" and row["weights_sha256"] != local[row["task"]]:
            yield f"{where}: other weights than a local run"
        if row["sent_bytes"] < row["least_bytes"]:
            yield f"{where}: sent {row['sent_bytes']} bytes of at least {row['least_bytes']}"


def measure(given, network, home, link, task, steps, way):
    name = f"{task}-{way}-{link}".replace(".", "_")
    before = network.bytes("h2")[0]
    if way == "rendezvous":
        record = by_rendezvous(given, network, home, name, task, steps)
    else:
        record = by_mpirun(given, network, home, name, task, steps, way)
    return row_of(link, task, way, record, network.bytes("h2")[0] - before)


def main():
    parser = ratio.parser_of(__doc__, "hosts-training")
    parser.add_argument("--data-dir", default=os.environ.get("MLBENCH_DATA_DIR"))
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--links", default="100mbit,1gbit,7.5gbit")
    parser.add_argument("--tasks", default="1a:10,fashion-mnist:20", help="TASK:STEPS")
    parser.add_argument("--ways", default="gloo,mpi,rendezvous")
    given = parser.parse_args()
    if given.table:
        return write_table(given.output)
    if given.data_dir is None:
        parser.error("--data-dir is missing: where the real data are")
    given.bin, given.data_dir = given.bin.resolve(), pathlib.Path(given.data_dir).resolve()
    if reason := netns.missing(sshd=True):
        sys.exit(f"hosts_training.py needs {reason}")
    given.output.mkdir(parents=True, exist_ok=True)
    tasks = [(task, int(steps)) for task, _, steps in (one.partition(":") for one in given.tasks.split(","))]
    rows = []
    with open(given.output / "table.csv", "w") as file, tempfile.TemporaryDirectory(prefix="mlm", dir="/tmp") as folder, \
            netns.Network(given.hosts, pathlib.Path(folder, "net"), sshd=True) as network:
        home = pathlib.Path(folder, "home")
        local = {task: here(given, home, task, steps) for task, steps in tasks}
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        for link in given.links.split(","):
            network.shape_all(link)
            for task, steps in tasks:
                for way in given.ways.split(","):
                    rows.append(measure(given, network, home, link, task, steps, way))
                    table.writerow(rows[-1])
                    file.flush()
    found = list(complaints(rows, local))
    print("\n".join(found), file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
