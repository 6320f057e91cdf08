"""For wikitext2_small.py and multi30k_small.py: trainings by one task file with several seeds, ours and the peer's.

What was done is not done again. Runs of ours stay in the home; each is kept with its record and spools
(tools/keep_result.py). The peer is bench/text_peer.py train, with the Python that bench/setup_peer.sh prints. With --gpu
both are on the GPU, ours with one worker, the peer with --peer-python; results lie beside those of the CPU.
"""
import argparse
import csv
import dataclasses
import json
import os
import pathlib
import subprocess
import sys

import kept_runs
import ratio

ROOT = pathlib.Path(__file__).resolve().parents[1]
SIDES = ("ours", "peer")


def fail(text):
    print(f"{pathlib.Path(sys.argv[0]).name}: {text}", file=sys.stderr)
    sys.exit(2)


@dataclasses.dataclass
class Study:
    name: str  # its runs' begins so
    task: pathlib.Path
    data: str  # the data set, as mlbench calls it
    results: pathlib.Path
    epochs: int
    ranks: int = 2
    device: str = "cpu"

    def on_gpu(self):
        return dataclasses.replace(self, name=f"{self.name}-gpu", results=self.results.with_name(f"{self.results.name}-gpu"),
                                   ranks=1, device="cuda")

    def kept(self, side, seed):
        return self.results / (f"ours-{seed}/run.json" if side == "ours" else f"peer-{seed}.json")


def parser(documentation):
    made = argparse.ArgumentParser(description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--home", type=pathlib.Path, help="home of mlbench for the runs; kept between calls")
    made.add_argument("--data-dir", help="where the data lie (default: MLBENCH_DATA_DIR)")
    made.add_argument("--seeds", default="42,43,44", type=lambda text: [int(seed) for seed in text.split(",")])
    made.add_argument("--only", choices=SIDES)
    made.add_argument("--mlbench", type=pathlib.Path, default=ROOT / "build/release/bin/mlbench")
    made.add_argument("--peer-threads", type=int, default=2)
    made.add_argument("--gpu", action="store_true", help="on the GPU of this host")
    made.add_argument("--peer-python", help="with PyTorch, in place of the one that bench/setup_peer.sh installs")
    made.add_argument("--no-wait", action="store_true",
                      help="others use the machine: start at once, and leave the peer's threads unbound")
    made.add_argument("--table", action="store_true")
    return made


def checked(made):
    """The options that were given."""
    options = made.parse_args()
    if not options.table and options.home is None:
        made.error("--home is missing: give a folder for the runs, the same one at each call")
    if options.home:
        options.home = options.home.resolve()
    return options


def mlbench(options, *words, **more):
    """Runs the program on the home of `options`."""
    command = [options.mlbench, *words, *(["--data-dir", options.data_dir] if options.data_dir else [])]
    return subprocess.run(list(map(str, command)), env={**os.environ, "MLBENCH_HOME": str(options.home)}, check=False, **more)


def waiting(options):
    return ["--no-wait"] if options.no_wait else []


# ---- ours ----

def find_run(study, home, seed):
    return kept_runs.find_run(home, f"{study.name}-epochs{study.epochs}-seed{seed}", study.ranks)


def train_ours(study, options, seed):
    name, folder = find_run(study, options.home, seed)
    if not folder.exists():
        ratio.say(f"ours, seed {seed}: run {name}")
        done = mlbench(options, "run", name, study.ranks, "--task", study.task, "--seed", seed, "--max-epochs", study.epochs,
                       "--to-the-end", "--threads-per-worker", 1, "--local", *waiting(options),
                       *(["--gpu"] if study.device == "cuda" else []))
        if done.returncode != 0:
            fail(f"run {name} ended with exit code {done.returncode}; the next call begins another")
    kept_runs.keep(folder, study.kept("ours", seed).parent)


# ---- the peer ----

def prepared(study, options):
    """The folder of the data set's token files."""
    cache = options.home / "cache"
    found = [path for path in cache.glob(f"{study.data}-text-*") if path.is_dir() and path.suffix != ".tmp"]
    if len(found) > 1:
        fail(f"{len(found)} preparations of {study.data} in {cache}: remove all, or take another home")
    if found:
        return found[0]
    if mlbench(options, "data", "prepare", study.data).returncode != 0:
        fail(f"{study.data} could not be prepared")
    return prepared(study, options)


def train_peer(study, options, seed, model):
    """What it says after each epoch, and where and when that was; the parameters are in the file `model`."""
    python = options.peer_python or subprocess.run([ROOT / "bench/setup_peer.sh"], check=True, stdout=subprocess.PIPE,
                                                   text=True).stdout.strip()
    ratio.say(f"peer, seed {seed}")
    command = [python, "-B", ROOT / "bench/text_peer.py", "train", study.task, "--cache", prepared(study, options),
               "--seed", seed, "--ranks", study.ranks, "--epochs", study.epochs, "--threads", options.peer_threads,
               "--device", study.device, "--output", model, *(["--unbound"] if options.no_wait else [])]
    epochs = []
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True) as child:
        for line in child.stdout:
            epochs.append(json.loads(line))
            ratio.say(f"  epoch {epochs[-1]['epoch']}: perplexity {epochs[-1]['perplexity']:.2f}")
    if child.returncode != 0 or len(epochs) != study.epochs:
        fail(f"the peer ended with exit code {child.returncode} after {len(epochs)} of {study.epochs} epochs")
    return {"epochs": epochs, "device": study.device, "threads": options.peer_threads, "bound": not options.no_wait,
            "machine": ratio.machine(), "measured_at": ratio.now()}


def keep_peer(study, seed, trained, **more):
    ratio.write(study.kept("peer", seed), {**trained, **more})


# ---- what is kept ----

def record_of(study, seed):
    """Ours, of that seed."""
    document = json.loads(study.kept("ours", seed).read_text())
    if document["seed"] != seed or document["task"] != study.task.stem or document["workers"] != study.ranks:
        fail(f"{study.kept('ours', seed)}: not the run of seed {seed}")
    return document


def evaluations_of(document):
    """[(epoch, training loss, evaluation)] at the end of each epoch."""
    losses = {one["epoch"]: one["train_loss"] for one in document["epochs"]}
    return [(round(one["epoch"]), losses.get(round(one["epoch"])), one) for one in document["evaluations"]
            if one["split"] == "test" and one["epoch"] == round(one["epoch"])]


def write_results(study, columns, rows, summary):
    study.results.mkdir(parents=True, exist_ok=True)
    partial = study.results / "curve.csv.partial"
    with open(partial, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    partial.rename(study.results / "curve.csv")
    if summary:
        ratio.write(study.results / "summary.json", summary)


def run(studies, options, columns, train, summarise, print_table):
    """Trains what is missing and prints the tables. Returns the exit code."""
    if options.gpu:
        studies = [study.on_gpu() for study in studies]
    for study in [] if options.table else studies:
        for seed in options.seeds:
            for side in SIDES:
                if options.only in (None, side) and not study.kept(side, seed).exists():
                    train(study, side, options, seed)
                    write_results(study, columns, *summarise(study, options.seeds))
    summaries = []
    for study in studies:
        rows, summary = summarise(study, options.seeds)
        if not options.table:
            write_results(study, columns, rows, summary)  # calls side by side have each written what it knew
        print_table(study, rows, summary)
        summaries.append(summary)
    return exit_code(summaries)


def exit_code(summaries):
    """0: met; 1: missed; 3: something is missing yet."""
    if any(summary is None for summary in summaries):
        return 3
    return 0 if all(summary["met"] for summary in summaries) else 1
