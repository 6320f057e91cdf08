#!/usr/bin/env python3
"""What do algorithms reach? Task 1a on CIFAR-10 for a few epochs, with 2 and 4 ranks: accuracy after each epoch, beside that of
SGD. Task 2a on made rows to its light goal, with 4 ranks. Rates are those of the settings below, and nothing was tuned; an
algorithm without a rate here has the task's own.

    algorithms.py --home HOME [--data-dir DIR] [--workers 2,4] [--epochs 5] [--only REGEX] [--dry-run]
    algorithms.py --table                               what is kept, as Markdown

What is kept in --output is not made again.
"""
import sys

import kept_runs
import ratio

# In the words of --set. A rule drops the options that a task gives its own rule.
METHODS = {
    "sgd": [],
    "lars": ["rule=lars"],
    "muon": ["rule=muon"],
    "top_k_1": ["compression=top_k", "share=0.01"],
    "power_sgd_4": ["compression=power_sgd", "rank=4"],
    "ef_sign": ["compression=ef_sign"],
    "local_8": ["pattern=local", "every=8"],
    "diloco": ["name=diloco", "every=50", "outer_lr=0.7", "outer_momentum=0.9", "outer_nesterov=true"],
    "gossip_ring": ["pattern=gossip"],
}
# What else a rule wants in each task. The rates of 2a are those of its workers, alpha / sqrt(t).
SETTINGS = {
    "1a": {"lars": ["momentum=0.9", "weight_decay=1e-4", "trust_coefficient=0.02"], "muon": ["lr=0.001"],
           "diloco": ["lr=0.001"]},
    "2a": {"lars": ["momentum=0"]},
}
ALPHAS_2A = {"lars": 100, "muon": 0.5, "diloco": 0.1}
WORKERS_2A = 4
LIMIT_2A = 10  # epochs
ABOUT_S = {"1a": {2: 56, 4: 56}, "2a": {WORKERS_2A: 20}}  # of an epoch, on two cores


def settings_of(task, method, workers):
    settings = [f"optimizer.{setting}" for setting in METHODS[method] + SETTINGS[task].get(method, [])]
    if task == "2a" and method in ALPHAS_2A:
        settings.append(f"schedule.lr_by_workers.{workers}={ALPHAS_2A[method]}")
    return [word for setting in settings for word in ("--set", setting)]


def curve_of(record):
    """The metric of the goal on test samples, after each epoch, and what else a table says of a run."""
    goal, algorithm = record["goal"], record["algorithm"]
    of_workers = algorithm["schedule"].get("lr_by_workers") or {}
    ends = [one for one in record["evaluations"] if one["split"] == "test"]
    return {"metric": goal["metric"], "epochs": [one["epoch"] for one in ends],
            "values": [one["metrics"][goal["metric"]] for one in ends],
            "seconds": [one["train_s"] for one in ends], "target": goal["target"], "reached": goal["reached"],
            "steps_to_goal": goal.get("step"), "rates": algorithm["rates"],
            "lr": of_workers.get(str(record["workers"]), algorithm["lr"]),
            "oversubscribed": record["oversubscribed"], "weights_sha256": record["weights_sha256"]}


def cells_of(given):
    def cell(task, method, workers, words, epochs, timed_with=""):
        about = ABOUT_S[task]
        return kept_runs.run_cell(given, f"{task}.{method}.{workers}", workers,
                                  ["--task", task, "--framework", "native", *words, *settings_of(task, method, workers)],
                                  epochs * about.get(workers, max(about.values())), curve_of, timed_with)

    for workers in given.workers:
        for method in METHODS:
            yield cell("1a", method, workers, ["--max-epochs", f"{given.epochs:g}", "--to-the-end"], given.epochs)
    for method in METHODS:
        yield cell("2a", method, WORKERS_2A,
                   ["--rules", "2018", "--synthetic", "--light", "--max-epochs", str(LIMIT_2A)], LIMIT_2A / 2, "2a")


def rates_of(cell):
    return f"{cell['rates']}, {cell['lr']:g}"


def table_of_curves(cells, workers):
    own = {name.split(".")[1]: cell for name, cell in cells.items() if name.startswith("1a.") and name.endswith(f".{workers}")}
    beside = own.get("sgd")
    most = max(len(cell["values"]) for cell in own.values())
    rows = []
    for method, cell in own.items():
        values = [f"{value:.2f}" for value in cell["values"]] + [""] * (most - len(cell["values"]))
        both = beside and len(beside["values"]) == len(cell["values"])
        values.append(f"{cell['values'][-1] - beside['values'][-1]:+.2f}" if both else "")
        rows.append(" | ".join([method, rates_of(cell), *values]))
    epochs = " | ".join(f"epoch {number + 1}" for number in range(most))
    return [f"\n1a, {workers} ranks{', oversubscribed' if next(iter(own.values()))['oversubscribed'] else ''}: "
            f"{next(iter(own.values()))['metric']} after each epoch\n",
            ratio.table(f"| algorithm | rates | {epochs} | last less SGD's |", rows)]


def table_of_goals(cells):
    own = {name.split(".")[1]: cell for name, cell in cells.items() if name.startswith("2a.")}
    if not own:
        return []
    first = next(iter(own.values()))
    return [f"\n2a, {WORKERS_2A} ranks{', oversubscribed' if first['oversubscribed'] else ''}, made rows: {first['metric']} "
            f"{first['target']:g}\n", ratio.table("| algorithm | rates | steps | seconds | after each epoch |", (
                f"{method} | {rates_of(cell)} | {cell['steps_to_goal'] if cell['reached'] else 'missed'} | "
                f"{cell['seconds'][-1]:.1f} | {' '.join(f'{value:.2f}' for value in cell['values'])}"
                for method, cell in own.items()))]


def table(document):
    cells = document["cells"]
    workers = sorted({int(name.split(".")[2]) for name in cells if name.startswith("1a.")})
    return "\n".join([line for number in workers for line in table_of_curves(cells, number)] + table_of_goals(cells))


def main():
    parser = kept_runs.parser_of(__doc__, "algorithms.json")
    parser.add_argument("--workers", type=lambda text: [int(word) for word in text.split(",")], default=[2, 4], help="of 1a")
    parser.add_argument("--epochs", type=float, default=5, help="of 1a")
    given = kept_runs.checked(parser)
    document = kept_runs.read(given.output) if given.table else kept_runs.make(cells_of(given), given)
    if given.table or not given.dry_run:
        print(table(document))


if __name__ == "__main__":
    sys.exit(main())
