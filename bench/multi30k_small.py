#!/usr/bin/env python3
"""A tiny Transformer and a small GNMT on Multi30k: ours on 2 ranks beside PyTorch, a fixed number of epochs, 3 seeds.

    multi30k_small.py --home FOLDER [--task 4a|4b] [--data-dir DIR] [--seeds 42,43,44] [--only ours|peer] [--gpu]
                      [--epochs N]
    multi30k_small.py --table [--task 4a|4b] [--gpu] [--epochs N]       what is kept, as Markdown

Both train by bench/tasks/4b-multi30k.toml (10 epochs) or 4a-multi30k.toml (6) on the same prepared tokens: data, steps,
dropouts, smoothing, clipping and rates; two ranks are one batch at the peer. Ours is scored by its run after the last
epoch, the peer by `mlbench evaluate` of its parameters: the same beam search, the same BLEU. What was done is not done
again (text_seeds.py): a second call goes on where the first one ended.

With --epochs both end later or sooner, and results lie in a folder that says so.
docs/results/4b-multi30k/ and 4a-multi30k/ get ours-SEED/, peer-SEED.json, curve.csv and summary.json: per side the median
over the seeds of BLEU; met where ours is not more than 1 below the peer's. Exit code 0: met; 1: missed; 3: seeds are
missing yet; 2: could not be measured.
"""
import json
import pathlib
import statistics
import subprocess
import sys

import ratio
import text_seeds

EPOCHS = {"4b": 10, "4a": 6}
LIMIT = 1.0  # BLEU
COLUMNS = ("side", "seed", "epoch", "steps", "train_s", "train_loss", "perplexity", "bleu")


def study_of(task, results=text_seeds.ROOT / "docs/results", epochs=None):
    name, epochs = f"{task}-multi30k", epochs or EPOCHS[task]
    folder = results / (name if epochs == EPOCHS[task] else f"{name}-{epochs}-epochs")
    return text_seeds.Study(f"multi30k-{task}", text_seeds.ROOT / f"bench/tasks/{name}.toml", "multi30k", folder, epochs)


def train(study, side, options, seed):
    if side == "ours":
        text_seeds.train_ours(study, options, seed)
        return
    # Both stay until the peer is scored: a call that is cut off there does not train again.
    folder = options.home / "peers" / f"{study.name}-epochs{study.epochs}-seed{seed}"
    model, said = folder / "model.safetensors", folder / "trained.json"
    if not said.exists():
        folder.mkdir(parents=True, exist_ok=True)
        ratio.write(said, text_seeds.train_peer(study, options, seed, model))
    text_seeds.keep_peer(study, seed, json.loads(said.read_text()), evaluation=score(study, options, model))


def score(study, options, model):
    done = text_seeds.mlbench(options, "evaluate", model, "--task", study.task, "--json", "--threads-per-worker",
                              options.peer_threads, *text_seeds.waiting(options), stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        text_seeds.fail(f"{model} could not be evaluated")
    answer = json.loads(done.stdout)
    return {name: answer[name] for name in ("task", "task_hash", "data", "split", "samples", "metrics", "weights_sha256")}


def rows_of(study, side, seed):
    """COLUMNS; BLEU of the peer after the last epoch alone."""
    if side == "peer":
        document = json.loads(study.kept(side, seed).read_text())
        blank = [""] * (len(document["epochs"]) - 1)
        rows = [(side, seed, one["epoch"], one["steps"], one["train_s"], one["train_loss"], one["perplexity"], bleu)
                for one, bleu in zip(document["epochs"], [*blank, document["evaluation"]["metrics"]["BLEU"]], strict=True)]
    else:
        rows = [(side, seed, epoch, one["step"], one["train_s"], loss, one["metrics"]["Perplexity"], one["metrics"]["BLEU"])
                for epoch, loss, one in text_seeds.evaluations_of(text_seeds.record_of(study, seed))]
    if rows[-1][2] != study.epochs:
        text_seeds.fail(f"{study.kept(side, seed)}: {rows[-1][2]} epochs instead of {study.epochs}")
    return rows


def summarise(study, seeds):
    """(rows, summary), or (rows, None) while something is missing."""
    there = [(side, seed) for side in text_seeds.SIDES for seed in seeds if study.kept(side, seed).exists()]
    rows = [row for side, seed in there for row in rows_of(study, side, seed)]
    if len(there) != len(text_seeds.SIDES) * len(seeds):
        return rows, None
    last = {side: [row for row in rows if row[0] == side and row[2] == study.epochs] for side in text_seeds.SIDES}
    bleu, perplexity, seconds = ({side: statistics.median(row[column] for row in last[side]) for side in text_seeds.SIDES}
                                 for column in (7, 6, 4))
    behind = bleu["peer"] - bleu["ours"]
    return rows, {"task": study.task.stem, "epochs": study.epochs, "ranks": study.ranks, "seeds": seeds,
                  "median_bleu": bleu, "median_perplexity": perplexity, "median_train_s": seconds, "behind": behind,
                  "limit": LIMIT, "met": behind <= LIMIT}


def print_table(study, rows, summary):
    print(f"{study.task.stem}, {study.epochs} epochs\n")
    print("| side | seed | steps | seconds of training | training loss | perplexity | BLEU |\n|---|---|---|---|---|---|---|")
    for side, seed, epoch, steps, train_s, loss, perplexity, bleu in rows:
        if epoch == study.epochs:
            print(f"| {side} | {seed} | {steps} | {train_s:.0f} | {loss:.3f} | {perplexity:.2f} | {bleu:.2f} |")
    if summary:
        bleu = summary["median_bleu"]
        print(f"\nMedians of BLEU: {bleu['ours']:.2f} and {bleu['peer']:.2f}; ours at most {LIMIT:g} below: "
              f"{'met' if summary['met'] else 'missed'}.")
    print()


def main():
    parser = text_seeds.parser(__doc__)
    parser.add_argument("--task", choices=EPOCHS, help="default: both")
    parser.add_argument("--epochs", type=int, metavar="N", help="default: 10 of 4b, 6 of 4a")
    parser.add_argument("--try-out", type=pathlib.Path, metavar="FOLDER", help="one epoch; results to that folder")
    options = text_seeds.checked(parser)
    chosen = [options.task] if options.task else list(EPOCHS)
    studies = [study_of(task, options.try_out.resolve(), 1) if options.try_out else study_of(task, epochs=options.epochs)
               for task in chosen]
    sys.exit(text_seeds.run(studies, options, COLUMNS, train, summarise, print_table))


if __name__ == "__main__":
    main()
