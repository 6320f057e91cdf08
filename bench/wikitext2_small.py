#!/usr/bin/env python3
"""A small AWD-LSTM (two layers of 200, all dropouts) on WikiText-2: ours on 2 ranks beside PyTorch, 4 epochs, 3 seeds.

    wikitext2_small.py --home FOLDER [--data-dir DIR] [--seeds 42,43,44] [--only ours|peer]
    wikitext2_small.py --table         what is kept, as Markdown

Both train by bench/tasks/3a-small.toml on the same prepared tokens: data, steps, dropouts, penalties, clipping and rates.
Averaging needs 5 evaluations without a new best, which 4 epochs don't have. The peer is bench/text_peer.py train, with the
Python that bench/setup_peer.sh prints: 2 ranks are one batch of 40 columns there. Every seed's run of ours is a run with a
record, kept with its spools (tools/keep_result.py), and what was done is not done again: a second call goes on where the
first one ended. docs/results/3a-wikitext2/ gets ours-SEED/, peer-SEED.json, curve.csv and summary.json: per side the
median over the seeds of the validation perplexity after each epoch; met where ours, after the last, is within 3 % of the
peer's. Exit code 0: met; 1: missed; 3: seeds are missing yet; 2: could not be measured.
"""
import argparse
import csv
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import ratio

ROOT = pathlib.Path(__file__).resolve().parents[1]
TASK = ROOT / "bench/tasks/3a-small.toml"
RESULTS = ROOT / "docs/results/3a-wikitext2"
EPOCHS, RANKS, LIMIT = 4, 2, 1.03
SIDES = ("ours", "peer")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=pathlib.Path, help="home of mlbench for the runs; kept between calls")
    parser.add_argument("--data-dir", help="where WikiText-2 lies (default: MLBENCH_DATA_DIR)")
    parser.add_argument("--seeds", default="42,43,44")
    parser.add_argument("--only", choices=SIDES)
    parser.add_argument("--mlbench", type=pathlib.Path, default=ROOT / "build/release/bin/mlbench")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    options.seeds = [int(seed) for seed in options.seeds.split(",")]
    if not options.table and options.home is None:
        parser.error("--home is missing: give a folder for the runs, the same one at each call")
    return options


def fail(text):
    print(f"wikitext2_small.py: {text}", file=sys.stderr)
    sys.exit(2)


def kept(side, seed):
    return RESULTS / (f"ours-{seed}/run.json" if side == "ours" else f"peer-{seed}.json")


# ---- ours ----

def find_run(home, seed):
    """(name, folder) of the first run that is finished or not begun yet: one that was cut off stays as it is."""
    for attempt in itertools.count(1):
        name = f"wikitext2-seed{seed}-try{attempt}"
        folder = home / "runs" / f"{name}-{RANKS}"  # of RANKS workers
        if not folder.exists() or is_finished(folder):
            return name, folder


def is_finished(folder):
    record = folder / "run.json"
    return record.exists() and json.loads(record.read_text())["state"] == "finished"


def train_ours(options, seed):
    name, folder = find_run(options.home, seed)
    if not folder.exists():
        ratio.say(f"ours, seed {seed}: run {name}")
        command = [options.mlbench, "run", name, str(RANKS), "--task", TASK, "--seed", str(seed), "--max-epochs", str(EPOCHS),
                   "--to-the-end", "--threads-per-worker", "1", "--local"]
        if options.data_dir:
            command += ["--data-dir", options.data_dir]
        done = subprocess.run(list(map(str, command)), env={**os.environ, "MLBENCH_HOME": str(options.home)}, check=False)
        if done.returncode != 0:
            fail(f"run {name} ended with exit code {done.returncode}; the next call begins another")
    done = subprocess.run([sys.executable, ROOT / "tools/keep_result.py", folder, kept("ours", seed).parent], check=False)
    if done.returncode != 0:
        fail(f"run {name} is not kept")


# ---- the peer ----

def cache_of(options):
    found = [path for path in (options.home / "cache").glob("wikitext2-text-*") if path.is_dir() and path.suffix != ".tmp"]
    if not found:
        environment = {**os.environ, "MLBENCH_HOME": str(options.home)}
        more = ["--data-dir", options.data_dir] if options.data_dir else []
        command = [options.mlbench, "data", "prepare", "wikitext2", *more]
        if subprocess.run(command, env=environment, check=False).returncode != 0:
            fail("WikiText-2 could not be prepared")
        return cache_of(options)
    if len(found) > 1:
        fail(f"{len(found)} preparations of WikiText-2 in {options.home}/cache: remove all, or take another home")
    return found[0]


def train_peer(options, seed):
    python = subprocess.run([ROOT / "bench/setup_peer.sh"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    ratio.say(f"peer, seed {seed}")
    with tempfile.TemporaryDirectory(prefix="mlbench-wikitext2-") as folder:
        command = [python, "-B", ROOT / "bench/text_peer.py", "train", TASK, "--cache", cache_of(options), "--seed", str(seed),
                   "--ranks", str(RANKS), "--epochs", str(EPOCHS), "--threads", "2", "--output",
                   pathlib.Path(folder) / "model.safetensors"]
        epochs = []
        with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True) as child:
            for line in child.stdout:
                epochs.append(json.loads(line))
                ratio.say(f"  epoch {epochs[-1]['epoch']}: perplexity {epochs[-1]['perplexity']:.2f}")
    if child.returncode != 0 or len(epochs) != EPOCHS:
        fail(f"the peer ended with exit code {child.returncode} after {len(epochs)} of {EPOCHS} epochs")
    ratio.write(kept("peer", seed), {"epochs": epochs, "machine": ratio.machine(), "measured_at": ratio.now()})


# ---- what is kept ----

def rows_of(side, seed):
    """(side, seed, epoch, steps, seconds of training, training loss, validation perplexity)"""
    document = json.loads(kept(side, seed).read_text())
    if side == "peer":
        return [(side, seed, one["epoch"], one["steps"], one["train_s"], one["train_loss"], one["perplexity"])
                for one in document["epochs"]]
    if document["seed"] != seed or document["task"] != "3a-small" or document["workers"] != RANKS:
        fail(f"{kept(side, seed)}: not the run of seed {seed}")
    losses = {one["epoch"]: one["train_loss"] for one in document["epochs"]}
    return [(side, seed, round(one["epoch"]), one["step"], one["train_s"], losses.get(round(one["epoch"])),
             one["metrics"]["Perplexity"])
            for one in document["evaluations"] if one["split"] == "test" and one["epoch"] == round(one["epoch"])]


def summarise(seeds):
    """(rows, summary), or (rows, None) while something is missing."""
    there = [(side, seed) for side in SIDES for seed in seeds if kept(side, seed).exists()]
    rows = [row for side, seed in there for row in rows_of(side, seed)]
    if len(there) != len(SIDES) * len(seeds):
        return rows, None
    medians = {side: [statistics.median(row[6] for row in rows if row[0] == side and row[2] == epoch)
                      for epoch in range(1, EPOCHS + 1)] for side in SIDES}
    seconds = {side: statistics.median(row[4] for row in rows if row[0] == side and row[2] == EPOCHS) for side in SIDES}
    excess = medians["ours"][-1] / medians["peer"][-1]
    return rows, {"task": "3a-small", "epochs": EPOCHS, "ranks": RANKS, "seeds": seeds, "median_perplexity": medians,
                  "median_train_s": seconds, "ratio": excess, "limit": LIMIT, "met": excess <= LIMIT}


def write_results(rows, summary):
    RESULTS.mkdir(parents=True, exist_ok=True)
    partial = RESULTS / "curve.csv.partial"
    with open(partial, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("side", "seed", "epoch", "steps", "train_s", "train_loss", "perplexity"))
        writer.writerows(rows)
    partial.rename(RESULTS / "curve.csv")
    if summary:
        ratio.write(RESULTS / "summary.json", summary)


def print_table(rows, summary):
    print("| epoch | " + " | ".join(f"{side} {seed}" for side, seed in sorted({row[:2] for row in rows})) + " |")
    print("|---|" + "---|" * len({row[:2] for row in rows}))
    for epoch in range(1, EPOCHS + 1):
        cells = {row[:2]: f"{row[6]:.2f}" for row in rows if row[2] == epoch}
        print(f"| {epoch} | " + " | ".join(cells.get(key, "") for key in sorted({row[:2] for row in rows})) + " |")
    if summary:
        ours, peer = (summary["median_perplexity"][side][-1] for side in SIDES)
        print(f"\nMedians after {EPOCHS} epochs: {ours:.2f} and {peer:.2f}, ratio {summary['ratio']:.4f}; "
              f"at most {LIMIT}: {'met' if summary['met'] else 'missed'}.")


def main():
    options = parse()
    if not options.table:
        options.home = options.home.resolve()
        train = {"ours": train_ours, "peer": train_peer}
        for seed in options.seeds:
            for side in SIDES:
                if options.only in (None, side) and not kept(side, seed).exists():
                    train[side](options, seed)
                    write_results(*summarise(options.seeds))
    rows, summary = summarise(options.seeds)
    print_table(rows, summary)
    sys.exit(3 if summary is None else 0 if summary["met"] else 1)


if __name__ == "__main__":
    main()
