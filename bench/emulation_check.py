#!/usr/bin/env python3
"""Does an emulated accelerator wait for data as a real one does? A small model trains on JPEGs, and its median step becomes
--compute emulated=STEP. Then the accelerator utilisation (docs/rules.md) of both runs agrees within 2 points.

    emulation_check.py [--bin build/release/bin] [--images IMAGES.tar] [--pairs 7] [--output docs/results/emulation-check.json]
    emulation_check.py --table [--output FILE]         what is kept, as Markdown

One rank computes on one thread and decodes on another. Images of two sizes are fed: small ones, which are there in time, and
large ones, for which both accelerators wait. Of each size there are --pairs pairs of a real run and an emulated one after it.
The 95 % interval of their median difference within 2 points: met; beyond: missed; else undecided. Prints a line per pair and
writes the JSON. Exits with 1 where a size is missed, with 3 where one is undecided. Two cores; Pillow in --images-python.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import ddl_trials
import pairs
import ratio

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import rederive  # noqa: E402

AREAS = {"small": 0.05, "large": 0.6}  # times the pixels of an image of ddl_trials.py
STEPS, BATCH = 60, 8
LIMIT = 0.02  # of 1, the utilisation of an accelerator that never waits
PASSES = ("fwd_pass", "comp_loss", "backprop")


def make_images(given, folder, area):
    words = [given.images_python, "-B", ROOT / "bench/ddl_trials.py", "--make", folder, "--area", str(area)]
    subprocess.run(words + (["--images", given.images] if given.images else []), check=True, stdout=subprocess.DEVNULL)
    return folder / "data"


def utilisation_of(record):
    """As docs/record.md has it."""
    passes = sum(record["steps_s"][kind] for kind in PASSES)
    return passes / (passes + record["steps_s"]["batch_load"])


def median_compute_s(steps):
    """Of step records: seconds of forward pass, loss and backward pass."""
    places = [rederive.KINDS.index(kind) for kind in PASSES]
    return statistics.median(sum(step.kinds[place] for place in places) / step.count / 1e9 for step in steps)


def train(given, folder, name, data, *more):
    """(the record, the median time of its steps that an accelerator computes)"""
    home = folder / "home"
    done = subprocess.run([given.bin / "mlbench", "run", name, "1", "--local", "--task", folder / "task.toml", "--data-dir", data,
                           "--framework", "native", "-c", "1", "--decoding-threads", "1", "--max-steps", str(STEPS), *more,
                           "--home", home, "--json"], check=True, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "MLBENCH_CORE_LOCK": str(folder / "lock")})
    record = ratio.last_json(done.stdout)
    _, steps = rederive.read_steps(home / "runs" / record["name"] / "spool" / "rank-0.seg-1.steps")
    return record, median_compute_s(steps)


def pair_of(given, folder, name, data):
    real, step_s = train(given, folder, name + "-real", data)
    emulated, _ = train(given, folder, name + "-emulated", data, "--compute", f"emulated={step_s * 1e3:.3f}ms")
    used, used_emulated = utilisation_of(real), utilisation_of(emulated)
    return {"step_s": step_s, "emulated_step_s": emulated["emulated_step_s"], "real": used, "emulated": used_emulated,
            "difference": used_emulated - used}


def verdict(differences):
    low, high = pairs.interval(differences)
    if -LIMIT <= low and high <= LIMIT:
        return "met", [low, high]
    return "missed" if low > LIMIT or high < -LIMIT else "undecided", [low, high]


def row_of(size, measured):
    kind, interval = verdict([pair["difference"] for pair in measured])
    medians = {name: statistics.median(pair[name] for pair in measured) for name in ("step_s", "real", "emulated", "difference")}
    return {"images": size, "area": AREAS[size], **medians, "interval_95": interval, "verdict": kind, "pairs": measured}


def table_of(document):
    return ratio.table("| images | step, ms | real | emulated | difference, points | |", (
        f"{row['images']} | {row['step_s'] * 1e3:.1f} | {row['real']:.1%} | {row['emulated']:.1%} | "
        f"{ratio.with_interval(100 * row['difference'], [100 * end for end in row['interval_95']], '+.1f')} | {row['verdict']}"
        for row in document["rows"]))


def main():
    parser = ratio.parser_of(__doc__, "emulation-check.json")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--images", help="a tar file of JPEGs that are made larger or smaller (default: made images)")
    parser.add_argument("--images-python", default="/usr/bin/python3", help="one with Pillow (default: %(default)s)")
    given = parser.parse_args()
    if given.table:
        return print(table_of(json.loads(given.output.read_text())))
    document = {"date": ratio.now()[:10], "machine": ratio.machine(), "load_before": os.getloadavg()[0],
                "limit": LIMIT, "rows": []}
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        (folder / "task.toml").write_text(ddl_trials.task_of("emulation", "A small model on images", 1, BATCH, 100, 32, 100))
        for size, area in AREAS.items():
            data, measured = make_images(given, folder / size, area), []
            for number in range(given.pairs):
                measured.append(pair_of(given, folder, f"{size}{number}", data))
                print(f"{size}: {json.dumps(measured[-1])}", flush=True)
            document["rows"].append(row_of(size, measured))
            ratio.write(given.output, document)
    print(table_of(document))
    return ratio.exit_code_of(document["rows"])


if __name__ == "__main__":
    sys.exit(main())
