#!/usr/bin/env python3
"""A small AWD-LSTM (two layers of 200, all dropouts) on WikiText-2: ours on 2 ranks beside PyTorch, 4 epochs, 3 seeds.

    wikitext2_small.py --home FOLDER [--data-dir DIR] [--seeds 42,43,44] [--only ours|peer] [--gpu]
    wikitext2_small.py --table [--gpu] what is kept, as Markdown

Both train by bench/tasks/3a-small.toml on the same prepared tokens: data, steps, dropouts, penalties, clipping and rates.
Averaging needs 5 evaluations without a new best, which 4 epochs don't have. 2 ranks are one batch of 40 columns at the
peer. What was done is not done again (text_seeds.py): a second call goes on where the first one ended.
docs/results/3a-wikitext2/ gets ours-SEED/, peer-SEED.json, curve.csv and summary.json: per side the
median over the seeds of the validation perplexity after each epoch; met where ours, after the last, is within 3 % of the
peer's. Exit code 0: met; 1: missed; 3: seeds are missing yet; 2: could not be measured.
"""
import json
import pathlib
import statistics
import sys
import tempfile

import text_seeds

STUDY = text_seeds.Study("wikitext2", text_seeds.ROOT / "bench/tasks/3a-small.toml", "wikitext2",
                         text_seeds.ROOT / "docs/results/3a-wikitext2", epochs=4)
LIMIT = 1.03
COLUMNS = ("side", "seed", "epoch", "steps", "train_s", "train_loss", "perplexity")


def train(study, side, options, seed):
    if side == "ours":
        text_seeds.train_ours(study, options, seed)
        return
    with tempfile.TemporaryDirectory(prefix="mlbench-wikitext2-") as folder:
        trained = text_seeds.train_peer(study, options, seed, pathlib.Path(folder) / "model.safetensors")
    text_seeds.keep_peer(study, seed, trained)


def rows_of(study, side, seed):
    """COLUMNS"""
    if side == "peer":
        return [(side, seed, one["epoch"], one["steps"], one["train_s"], one["train_loss"], one["perplexity"])
                for one in json.loads(study.kept(side, seed).read_text())["epochs"]]
    return [(side, seed, epoch, one["step"], one["train_s"], loss, one["metrics"]["Perplexity"])
            for epoch, loss, one in text_seeds.evaluations_of(text_seeds.record_of(study, seed))]


def summarise(study, seeds):
    """(rows, summary), or (rows, None) while something is missing."""
    there = [(side, seed) for side in text_seeds.SIDES for seed in seeds if study.kept(side, seed).exists()]
    rows = [row for side, seed in there for row in rows_of(study, side, seed)]
    if len(there) != len(text_seeds.SIDES) * len(seeds):
        return rows, None
    medians = {side: [statistics.median(row[6] for row in rows if row[0] == side and row[2] == epoch)
                      for epoch in range(1, study.epochs + 1)] for side in text_seeds.SIDES}
    seconds = {side: statistics.median(row[4] for row in rows if row[0] == side and row[2] == study.epochs)
               for side in text_seeds.SIDES}
    excess = medians["ours"][-1] / medians["peer"][-1]
    return rows, {"task": "3a-small", "epochs": study.epochs, "ranks": study.ranks, "seeds": seeds,
                  "median_perplexity": medians, "median_train_s": seconds, "ratio": excess, "limit": LIMIT,
                  "met": excess <= LIMIT}


def print_table(study, rows, summary):
    print("| epoch | " + " | ".join(f"{side} {seed}" for side, seed in sorted({row[:2] for row in rows})) + " |")
    print("|---|" + "---|" * len({row[:2] for row in rows}))
    for epoch in range(1, study.epochs + 1):
        cells = {row[:2]: f"{row[6]:.2f}" for row in rows if row[2] == epoch}
        print(f"| {epoch} | " + " | ".join(cells.get(key, "") for key in sorted({row[:2] for row in rows})) + " |")
    if summary:
        ours, peer = (summary["median_perplexity"][side][-1] for side in text_seeds.SIDES)
        print(f"\nMedians after {study.epochs} epochs: {ours:.2f} and {peer:.2f}, ratio {summary['ratio']:.4f}; "
              f"at most {LIMIT}: {'met' if summary['met'] else 'missed'}.")


def main():
    options = text_seeds.checked(text_seeds.parser(__doc__))
    sys.exit(text_seeds.run([STUDY], options, COLUMNS, train, summarise, print_table))


if __name__ == "__main__":
    main()
