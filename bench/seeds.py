#!/usr/bin/env python3
"""Is one side as good as another over seeds? Three comparisons of whole trainings, with five seeds on two ranks of one thread:

    frameworks     task 1a to its goal by native, torch and tensorflow: epochs and seconds
    convolutions   task 1a for ten epochs by native, with Winograd's order and with direct convolutions: Prec@1
    images         bench/tasks/tiny-imagenet.toml by native and by PyTorch (tiny_imagenet_peer.py), from one start: Prec@1

    seeds.py --home HOME [--data-dir DIR] [--studies frameworks,images] [--seeds 42,43] [--only REGEX] [--dry-run]
    seeds.py --table                                    what is kept, as Markdown

Two sides are compared by the differences of their pairs, one for each seed: the 90 % interval of the mean by Student's t.
Met: the whole interval is within the limit; missed: none of it is; else undecided. A run that missed its goal has no place in
an interval, and the table says how many did. What is kept in --output is not made again; beside it lie records and spools of
our runs (tools/keep_result.py, which refuses runs that failed) and the charts of the frameworks. Exit code 0: all are met; 1:
one is missed; 3: one is undecided or has seeds missing.
"""
import argparse
import dataclasses
import itertools
import json
import math
import pathlib
import statistics
import subprocess
import sys

import kept_runs
import ratio
import tiny_imagenet_losses as losses
import tiny_imagenet_peer

RANKS = 2
# Student's t of 95 % by degrees of freedom, from which a two-sided interval of 90 % is made.
T_95 = {1: 6.314, 2: 2.920, 3: 2.353, 4: 2.132, 5: 2.015, 6: 1.943, 7: 1.895, 8: 1.860, 9: 1.833}


@dataclasses.dataclass
class Study:
    title: str
    unit: str
    limit: float  # of the difference of two sides, in that unit
    words: list[str]  # of the runs of all sides
    sides: dict[str, tuple[list[str], float]]  # further words, about the minutes of a training on two cores
    to_goal: bool = False  # compared are epochs to the goal, else the metric at the end


PEER = "pytorch"
STUDIES = {
    "frameworks": Study("1a to Prec@1 80 %", "epochs", 2, ["--task", "1a"],
                        {name: (["--framework", name], minutes) for name, minutes in
                         (("native", 11), ("torch", 18), ("tensorflow", 25))}, to_goal=True),
    "convolutions": Study("1a, ten epochs", "points of Prec@1", 2,
                          ["--task", "1a", "--framework", "native", "--max-epochs", "10", "--to-the-end"],
                          {name: (["--convolution", name], minutes) for name, minutes in (("winograd", 10), ("direct", 15))}),
    "images": Study("ResNet-18 on ten classes of Tiny ImageNet", "points of Prec@1", 4,
                    ["--task", "bench/tasks/tiny-imagenet.toml", "--framework", "native", "--to-the-end"],
                    {"native": ([], 65), PEER: ([], 90)}),
}


# ---- trainings ----


def kept_folder(given, name):
    return given.output.with_suffix("") / name.replace(".", "-")


def figures_of(record):
    """What is kept of a run of ours."""
    goal = record["goal"]
    ends = [one for one in record["evaluations"] if one["split"] == goal["split"] and one["cadence"]]
    if not ends:
        raise SystemExit(f"run {record['name']} was not evaluated after any epoch")
    return {"seed": record["seed"], "metric": goal["metric"], "values": [one["metrics"][goal["metric"]] for one in ends],
            "epochs_to_goal": goal["epoch"] if goal["reached"] else None,
            "seconds_to_goal": goal["train_s"] if goal["reached"] else None, "oversubscribed": record["oversubscribed"],
            "build": record["environment"]["git_describe"], "weights_sha256": record["weights_sha256"]}


def train_ours(given, name, words):
    """A run is kept with its spools before its figures are, and the figures are those of what is kept."""
    folder = kept_folder(given, name)
    if not folder.exists():
        kept_runs.record_of(given, name, RANKS, words)
        kept_runs.keep(kept_runs.find_run(given.home, name.replace(".", "_"), RANKS)[1], folder)
    return figures_of(json.loads((folder / "run.json").read_text()))


def with_images(given):
    """The same options, with the folder of the images as data."""
    given.home.mkdir(parents=True, exist_ok=True)
    return argparse.Namespace(**{**vars(given), "data_dir": losses.unpacked(pathlib.Path(given.data_dir), given.home)})


def peer_words(given, seed):
    return ["--seed", str(seed), "--ranks", str(RANKS), "--threads", "1"]


def train_peer(given, seed):
    given, images, start = with_images(given), given.home / "images.npz", f"start.{seed}"
    words = STUDIES["images"].words[:4]
    kept_runs.record_of(given, start, 1, [*words, "--seed", str(seed), *losses.START])
    parameters = losses.start_of(kept_runs.find_run(given.home, start.replace(".", "_"), 1)[1])
    if not images.exists():
        losses.peer(given.images_python, "decode", given.data_dir, images)
    python = given.python or losses.peer_python()
    trained = losses.peer(python, "train", images, parameters, *peer_words(given, seed))
    epochs = tiny_imagenet_peer.task()["epochs"]
    if len(trained["top1"]) != epochs:
        raise SystemExit(f"the peer of seed {seed} evaluated {len(trained['top1'])} times, not after each of {epochs} epochs")
    return {"seed": seed, "metric": "Prec@1", "values": trained["top1"], "torch": trained["torch"], "train_s": trained["train_s"]}


def cells_of(given):
    """Seed by seed, so that what is made first are whole pairs."""
    for study, seed in itertools.product(given.studies, given.seeds):
        for side, (words, minutes) in STUDIES[study].sides.items():
            name = f"{study}.{side}.{seed}"
            if side == PEER:
                yield kept_runs.Cell(name, ["tiny_imagenet_peer.py", "train", *peer_words(given, seed)], 60 * minutes,
                                     lambda seed=seed: train_peer(given, seed))
                continue
            words = [*STUDIES[study].words, *words, "--seed", str(seed)]
            use = with_images if study == "images" else lambda given: given
            yield kept_runs.Cell(name, ["mlbench", "run", "NAME", str(RANKS), *words], 60 * minutes,
                                 lambda name=name, words=words, use=use: train_ours(use(given), name, words),
                                 f"{study}.{seed}" if STUDIES[study].to_goal else "")


# ---- what follows from them ----


def sides_of(document, study):
    """{side: {seed: figures}} of what is kept."""
    found = {side: {} for side in STUDIES[study].sides}
    for name, cell in document["cells"].items():
        kind, side, seed = name.split(".")
        if kind == study:
            found[side][int(seed)] = cell
    return found


def value_of(study, cell):
    """What is compared; None of a run that missed its goal."""
    return cell["epochs_to_goal"] if STUDIES[study].to_goal else cell["values"][-1]


def interval(differences):
    """(mean, low, high): 90 %."""
    mean, count = statistics.fmean(differences), len(differences)
    reach = T_95[count - 1] * statistics.stdev(differences) / math.sqrt(count)
    return mean, mean - reach, mean + reach


def verdict(low, high, limit):
    return "met" if max(-low, high) <= limit else "missed" if low > limit or high < -limit else "undecided"


def compare(study, sides, seeds, one, other):
    """Of all seeds of the study: a part of them gives no interval, which could be stopped when it pleases."""
    pairs = [(sides[one].get(seed), sides[other].get(seed)) for seed in seeds]
    row = {"sides": [one, other], "limit": STUDIES[study].limit, "verdict": "undecided"}
    if not all(a and b for a, b in pairs):
        return {**row, "why": f"{sum(bool(a and b) for a, b in pairs)} of {len(pairs)} seeds are there"}
    values = [(value_of(study, a), value_of(study, b)) for a, b in pairs]
    if missed := sum(None in pair for pair in values):
        return {**row, "why": f"the goal was missed with {missed} of {len(pairs)} seeds"}
    mean, low, high = interval([a - b for a, b in values])
    row |= {"difference": mean, "interval_90": [low, high], "verdict": verdict(low, high, row["limit"])}
    if STUDIES[study].to_goal:
        logs = interval([math.log(a["seconds_to_goal"] / b["seconds_to_goal"]) for a, b in pairs])
        row["seconds_ratio"] = [math.exp(value) for value in logs]
    return row


def comparisons(document, study, seeds):
    sides = sides_of(document, study)
    return [compare(study, sides, seeds, one, other) for one, other in itertools.combinations(sides, 2)]


# ---- tables ----


def cell_text(study, cell):
    if not cell:
        return ""
    if not STUDIES[study].to_goal:
        return f"{cell['values'][-1]:.2f}"
    if cell["epochs_to_goal"] is None:
        return f"missed, best {max(cell['values']):.2f}"
    return f"{cell['epochs_to_goal']:g} epochs, {cell['seconds_to_goal']:.0f} s"


def comparison_text(row, unit):
    names = " - ".join(row["sides"])
    if "difference" not in row:
        return f"| {names} | | | {row['limit']:g} {unit} | {row['verdict']}: {row['why']} |"
    ratio_text = ratio.with_interval(row["seconds_ratio"][0], row["seconds_ratio"][1:]) if "seconds_ratio" in row else ""
    return (f"| {names} | {ratio.with_interval(row['difference'], row['interval_90'], '+.2f')} | {ratio_text} | "
            f"{row['limit']:g} {unit} | {row['verdict']} |")


def labels_of(document, cells):
    """Where, when and by which builds."""
    dates = sorted(cell["date"][:10] for cell in cells)
    machines = sorted({f"{cell['machine']['cpu']}, {cell['machine']['cores']} cores" for cell in cells})
    builds = sorted({cell["build"] for cell in cells if "build" in cell})
    torch = sorted({cell["torch"] for cell in cells if "torch" in cell})
    label = ", oversubscribed" if any(cell.get("oversubscribed") for cell in cells) else ""
    said = [*machines, " to ".join(dict.fromkeys((dates[0], dates[-1]))),
            f"{RANKS} ranks x 1 thread{label}", *(f"build {build}" for build in builds), *(f"PyTorch {one}" for one in torch)]
    return ", ".join(said)


def table_of(document, study, seeds):
    sides = sides_of(document, study)
    cells = [cell for by_seed in sides.values() for cell in by_seed.values()]
    if not cells:
        return []
    lines = [f"\n{STUDIES[study].title}: {labels_of(document, cells)}\n", "| seed | " + " | ".join(sides) + " |",
             "|---" * (len(sides) + 1) + "|"]
    for seed in sorted({seed for by_seed in sides.values() for seed in by_seed}):
        lines.append(f"| {seed} | " + " | ".join(cell_text(study, by_seed.get(seed)) for by_seed in sides.values()) + " |")
    lines += ["\n| | mean difference, 90 % interval | ratio of seconds | limit | verdict |", "|---|---|---|---|---|"]
    return lines + [comparison_text(row, STUDIES[study].unit) for row in comparisons(document, study, seeds)]


def table(document, studies, seeds):
    return "\n".join(line for study in studies for line in table_of(document, study, seeds))


def draw(given, document):
    """Accuracy over time of the frameworks, from the runs that are kept."""
    kept = [kept_folder(given, name) for name in document["cells"] if name.startswith("frameworks.")]
    if kept:
        subprocess.run([given.bin / "mlbench", "charts", *kept, "-o", given.output.with_suffix("") / "charts", "--lines",
                        "framework", "--format", "svg,csv"], check=True, stdout=subprocess.DEVNULL)


def main():
    parser = kept_runs.parser_of(__doc__, "seeds.json")
    parser.add_argument("--studies", type=lambda text: text.split(","), default=list(STUDIES))
    parser.add_argument("--seeds", type=lambda text: [int(word) for word in text.split(",")], default=[42, 43, 44, 45, 46],
                        help="2 to 10, with commas between them (default: 42 to 46)")
    parser.add_argument("--python", help="a Python with PyTorch (default: what bench/setup_peer.sh prints)")
    parser.add_argument("--images-python", default="/usr/bin/python3", help="one with NumPy and Pillow (default: %(default)s)")
    given = kept_runs.checked(parser)
    if unknown := set(given.studies) - set(STUDIES):
        parser.error(f"unknown study {', '.join(sorted(unknown))}; valid: {', '.join(STUDIES)}")
    if len(set(given.seeds)) != len(given.seeds) or len(given.seeds) - 1 not in T_95:
        parser.error(f"--seeds: {len(given.seeds)} given; expected 2 to {max(T_95) + 1} different ones")
    if "images" in given.studies and not (given.table or given.dry_run or given.data_dir):
        parser.error("--data-dir is missing: give the folder above tiny-imagenet-10")
    document = kept_runs.read(given.output) if given.table else kept_runs.make(list(cells_of(given)), given)
    if given.dry_run:
        return 0
    if not given.table:
        draw(given, document)
    print(table(document, given.studies, given.seeds))
    return ratio.exit_code_of([row for study in given.studies for row in comparisons(document, study, given.seeds)])


if __name__ == "__main__":
    sys.exit(main())
