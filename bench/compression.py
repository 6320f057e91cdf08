#!/usr/bin/env python3
"""Where does compression pay? Algorithms x bandwidths, to a target. Each algorithm is trained once per number of ranks
without a limit of bandwidth. Its step is then measured for a few steps at each bandwidth of a made network (--netem). The
time to the target at a bandwidth is steps to the target x mean step time (a median would leave out exchanges of every eighth
step): no run of that bandwidth was made, and the table says so. Coding is what the exchange takes beside its collectives.

    compression.py --data-dir DIR [--bin build/release/bin] [--home HOME] [--output docs/results/compression]
                   [--task 1a] [--workers 2,4] [--rates 50,200,1000,5000] [--steps 32] [--only NAME,NAME] [-- OPTION...]
    compression.py --table [--output DIR]                what is kept, as Markdown

Options behind -- go to the runs of training alone, such as --max-epochs 8. Runs that have finished in HOME are kept.
Writes OUTPUT/table.json.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

LATENCY = "0.2ms"
# What is sent, in the words of --set. The baseline is 16 bits on the wire, which costs a user one option.
METHODS = {
    "half": ["compression=half"],
    "none": [],
    "top_k_1": ["compression=top_k", "share=0.01"],
    "top_k_0.1": ["compression=top_k", "share=0.001"],
    "random_k_1": ["compression=random_k", "share=0.01"],
    "ef_sign": ["compression=ef_sign"],
    "one_bit": ["compression=one_bit"],
    "qsgd_4": ["compression=qsgd", "bits=4"],
    "int8": ["compression=int8"],
    "natural": ["compression=natural"],
    "power_sgd_1": ["compression=power_sgd", "rank=1"],
    "power_sgd_4": ["compression=power_sgd", "rank=4"],
    "local_8": ["pattern=local", "every=8"],
    "slowmo_8": ["pattern=local", "every=8", "outer_momentum=0.5"],
    "gossip_ring": ["pattern=gossip"],
}
BASELINE = "half"


class Runs:
    def __init__(self, given):
        self.given = given
        self.environment = {**os.environ, "MLBENCH_HOME": str(given.home)}

    def record(self, name, workers, method, options):
        """The record of a finished run of that name, which is made where it is not there."""
        kept = self.given.home / "runs" / f"{name}-{workers}" / "run.json"
        if kept.exists():
            record = json.loads(kept.read_text())
            if record["state"] == "finished":
                return record
            raise SystemExit(f"{name}-{workers} is {record['state']}: delete it (mlbench delete {name}-{workers}) and go on")
        words = [self.given.bin / "mlbench", "run", name, workers, "--task", self.given.task, "--data-dir", self.given.data_dir,
                 "--threads-per-worker", 1, "--local", *options]
        for setting in METHODS[method]:
            words += ["--set", f"optimizer.{setting}"]
        print(*words[1:], flush=True)
        done = subprocess.run(list(map(str, words)), env=self.environment, stdout=subprocess.DEVNULL)
        if done.returncode not in (0, 1):  # 1: the goal was not reached
            raise SystemExit(f"{name}: exit code {done.returncode}")
        return json.loads(kept.read_text())


def step_of(record):
    """Seconds on rank 0: of a step, of its collectives, of its coding."""
    steps = record["throughput"]["steps"]
    step_s = record["clocks"]["train_s"] / steps
    exchange = record["exchange"]
    collectives = (exchange["transfer_s"][0] + exchange["wait_s"][0]) / exchange["steps"]
    coding = record["steps_s"]["agg"] / steps - collectives
    return {"step_s": step_s, "collectives_s": collectives, "coding_s": max(0.0, coding)}


def measure(given):
    runs = Runs(given)
    rows = []
    for workers in given.workers:
        for method in given.only or METHODS:
            trained = runs.record(f"to-goal.{method}", workers, method, given.options)
            goal = trained["goal"]
            row = {"task": given.task, "workers": workers, "method": method, "settings": METHODS[method],
                   "metric": goal["metric"], "target": goal["target"], "reached": goal["reached"],
                   "steps_to_goal": goal["step"] if goal["reached"] else None, "best": goal["best"]["value"],
                   "rates": trained["algorithm"]["rates"], "oversubscribed": trained["oversubscribed"], "at": {}}
            for rate in given.rates:
                timed = runs.record(f"at-{rate}.{method}", workers, method,
                                    ["--netem", f"latency={LATENCY},bandwidth={rate}Mbit", "--max-steps", given.steps])
                row["at"][str(rate)] = step_of(timed)
            rows.append(row)
            given.output.mkdir(parents=True, exist_ok=True)
            (given.output / "table.json").write_text(json.dumps(rows, indent=1) + "\n")
    return rows


def table(rows):
    lines = []
    for workers in sorted({row["workers"] for row in rows}):
        own = [row for row in rows if row["workers"] == workers]
        rates = list(own[0]["at"])
        base = next(row for row in own if row["method"] == BASELINE)
        lines.append(f"\n{own[0]['task']}, {workers} ranks{', oversubscribed' if own[0]['oversubscribed'] else ''}: seconds to "
                     f"{own[0]['metric']} {own[0]['target']:g}, in parentheses over 16 bits on the wire\n")
        lines.append("| method | steps | coding ms | " + " | ".join(f"{rate} Mbit/s" for rate in rates) + " |")
        lines.append("|---" * (3 + len(rates)) + "|")
        for row in own:
            cells = []
            for rate in rates:
                step = row["at"][rate]["step_s"]
                if row["reached"] and base["reached"]:
                    seconds, beside = row["steps_to_goal"] * step, base["steps_to_goal"] * base["at"][rate]["step_s"]
                    cells.append(f"{seconds:.0f} ({seconds / beside:.2f})")
                else:
                    cells.append(f"best {row['best']:.1f}; step {step * 1e3:.0f} ms")
            coding = min(at["coding_s"] for at in row["at"].values()) * 1e3
            lines.append(f"| {row['method']} | {row['steps_to_goal'] or 'missed'} | {coding:.1f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--home", type=pathlib.Path, default=pathlib.Path("compression-home"))
    parser.add_argument("--data-dir", type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("docs/results/compression"))
    parser.add_argument("--task", default="1a")
    parser.add_argument("--workers", type=lambda text: [int(word) for word in text.split(",")], default=[2, 4])
    parser.add_argument("--rates", type=lambda text: [int(word) for word in text.split(",")], default=[50, 200, 1000, 5000])
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--only", type=lambda text: text.split(","))
    parser.add_argument("--table", action="store_true")
    parser.add_argument("options", nargs="*")
    given = parser.parse_args()
    if given.table:
        print(table(json.loads((given.output / "table.json").read_text())))
        return
    if not given.data_dir:
        sys.exit("compression.py needs --data-dir DIR, where the task's data lie")
    print(table(measure(given)))


if __name__ == "__main__":
    main()
