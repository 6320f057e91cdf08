#!/usr/bin/env python3
"""Where does compression pay? Methods x bandwidths, to a target. Each method is trained once per number of ranks without a
limit of bandwidth. Its step is then measured for a few steps at each bandwidth of a made network (--netem). The time to the
target at a bandwidth is steps to the target x mean step time (a median would leave out exchanges of every eighth step): no
run of that bandwidth was made, and the table says so. What a coder takes to encode and decode is measured by itself, on the
tensors of the task's model (coder_bench).

    compression.py --home HOME [--data-dir DIR] [--tasks 1a,4b-multi30k] [--workers 2,4] [--rates 50,200,1000,5000]
                   [--steps 32] [--only REGEX] [--dry-run] [-- OPTION...]
    compression.py --home HOME --confirm [...]           whole runs of six cells, chosen from what is kept
    compression.py --table                               what is kept, as Markdown

Options behind -- go to the runs of training alone, such as --light. What is kept in --output is not made again.
"""
import json
import subprocess
import sys

import kept_runs

LATENCY = "0.2ms"
CONFIRMED = 6
# What is sent, in the words of --set. The baseline is 16 bits on the wire, which costs a user one option.
METHODS = {
    "half": ["compression=half"],
    "none": [],
    "top_k_1": ["compression=top_k", "share=0.01"],
    "top_k_0_1": ["compression=top_k", "share=0.001"],
    "top_k_2_bits": ["compression=top_k", "share=0.015625", "chunk=4096", "bits=2"],
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
    "sparse_loco_8": ["pattern=local", "every=8", "compression=top_k", "share=0.015625", "chunk=4096", "bits=2",
                      "error_decay=0.95"],
    "gossip_ring": ["pattern=gossip"],
}
OF_PATTERNS = {"pattern", "every", "outer_momentum"}  # all other options are the coder's
BASELINE = "half"
# By name: as --task takes it; {ranks: (steps to the goal, seconds of a step)} on two cores, about; parameters, about.
TASKS = {
    "1a": ("1a", {2: (2160, 0.28), 4: (1080, 0.56)}, 270e3),
    "4b-multi30k": ("bench/tasks/4b-multi30k.toml", {2: (1600, 0.4), 4: (1600, 0.4)}, 2.6e6),
}


def options_of(method):
    return dict(setting.split("=") for setting in METHODS[method])


def words_of(task, method):
    return ["--task", TASKS[task][0], "--framework", "native",
            *(word for setting in METHODS[method] for word in ("--set", f"optimizer.{setting}"))]


def netem(rate):
    return ["--netem", f"latency={LATENCY},bandwidth={rate}Mbit"]


def about(task, workers):
    """(steps to the goal, seconds of a step)"""
    expected = TASKS[task][1]
    return expected.get(workers) or expected[max(expected)]


def goal_of(record):
    """Where the goal was missed, the record's step and time are those of the best value."""
    goal = record["goal"]
    place = goal if goal["reached"] else {}
    return {"metric": goal["metric"], "target": goal["target"], "reached": goal["reached"],
            "steps_to_goal": place.get("step"), "seconds_to_goal": place.get("train_s"), "best": goal["best"]["value"],
            "rates": record["algorithm"]["rates"], "oversubscribed": record["oversubscribed"],
            "parameters": record["parameters"]}


def step_of(record):
    """Seconds on rank 0: of a step, of its collectives, of its coding."""
    steps = record["throughput"]["steps"]
    step_s = record["clocks"]["train_s"] / steps
    exchange = record["exchange"]
    collectives = (exchange["transfer_s"][0] + exchange["wait_s"][0]) / exchange["steps"]
    coding = record["steps_s"]["agg"] / steps - collectives
    return {"step_s": step_s, "collectives_s": collectives, "coding_s": max(0.0, coding)}


def coding_words(task, workers, method):
    options = options_of(method)
    coder = options.pop("compression", "none")
    return ["coder_bench", "--coder", coder, "--task", TASKS[task][0], "--ranks", str(workers),
            *(word for key, value in options.items() if key not in OF_PATTERNS for word in ("--set", f"{key}={value}"))]


def coding_of(given, words):
    done = subprocess.run([given.bin / words[0], *words[1:]], check=True, stdout=subprocess.PIPE, cwd=kept_runs.ROOT)
    measured = json.loads(done.stdout)
    return {key: measured[key] for key in ("bytes", "encode_ms", "absorb_ms", "copy_ms")}


def bytes_of(method, workers, coded):
    """That a rank hands to the transport in a step, on average."""
    options = options_of(method)
    if options.get("pattern") == "gossip":
        return coded * min(2, workers - 1)  # neighbours on the ring
    return coded / int(options.get("every", 1))


def cells_of(given):
    for task in given.tasks:
        for workers in given.workers:
            steps, step_s = about(task, workers)
            for method in METHODS:
                name = f"{task}.{method}.{workers}"
                words = words_of(task, method)
                yield kept_runs.run_cell(given, f"{name}.to-goal", workers, [*words, *given.options], steps * step_s, goal_of)
                coding = coding_words(task, workers, method)
                yield kept_runs.Cell(f"{name}.coding", coding, 5, lambda words=coding: coding_of(given, words), f"{task}.{workers}")
                for rate in given.rates:
                    # 16 bits of each parameter, at the worst.
                    exchange_s = 2 * 8 * TASKS[task][2] / (rate * 1e6)
                    yield kept_runs.run_cell(given, f"{name}.at-{rate}", workers,
                                             [*words, *netem(rate), "--max-steps", str(given.steps)],
                                             given.steps * (step_s + exchange_s) + 10, step_of, f"{task}.{workers}")


def rows_of(document):
    """What is whole of what is kept, a row for each task, number of workers and method."""
    rows = {}
    for name, cell in document["cells"].items():
        task, method, workers, kind = name.split(".")
        row = rows.setdefault((task, int(workers), method), {"at": {}, "whole": {}})
        if kind == "to-goal":
            row["goal"] = cell
        elif kind == "coding":
            row["coding"] = cell
        else:
            what, rate = kind.split("-")
            row[what][int(rate)] = cell
    return {key: row for key, row in rows.items() if "goal" in row and "coding" in row and row["at"]}


def seconds_at(row, rate):
    """To the goal; None where the training missed it, or the rate was not measured."""
    goal = row["goal"]
    return goal["steps_to_goal"] * row["at"][rate]["step_s"] if goal["reached"] and rate in row["at"] else None


def ratios(rows, task, workers, method):
    """{rate: time to the goal over that of the baseline}, in rising order of rates."""
    row, base = rows[task, workers, method], rows.get((task, workers, BASELINE))
    both = {rate: (seconds_at(row, rate), seconds_at(base, rate) if base else None) for rate in sorted(row["at"])}
    return {rate: ours / theirs for rate, (ours, theirs) in both.items() if ours and theirs}


def break_even(by_rate):
    """(below, above, bandwidth): between which two measured rates compression stops to pay, and where the straight line
    between their ratios over the logarithm of the rate is 1. None: nowhere."""
    rates = list(by_rate)
    for below, above in zip(rates, rates[1:]):
        first, second = by_rate[below], by_rate[above]
        if first < 1 <= second:
            return below, above, below * (above / below) ** ((1 - first) / (second - first))
    return None


def to_confirm(rows):
    """[(task, workers, method, rate)]: what lies below and above a predicted break-even bandwidth, then the fastest cell of
    each rate."""
    chosen = []
    for task, workers, method in rows:
        if found := break_even(ratios(rows, task, workers, method)):
            chosen += [(task, workers, method, found[0]), (task, workers, method, found[1])]
            break
    groups = {}
    for task, workers, method in rows:
        for rate in rows[task, workers, method]["at"]:
            seconds = seconds_at(rows[task, workers, method], rate)
            if seconds:
                groups.setdefault((rate, task, workers), []).append((seconds, method))
    for (rate, task, workers), found in sorted(groups.items()):
        chosen.append((task, workers, min(found)[1], rate))
    return list(dict.fromkeys(chosen))[:CONFIRMED]


def whole_cells(given, rows):
    for task, workers, method, rate in to_confirm(rows):
        yield kept_runs.run_cell(given, f"{task}.{method}.{workers}.whole-{rate}", workers,
                                 [*words_of(task, method), *netem(rate), *given.options],
                                 seconds_at(rows[task, workers, method], rate), goal_of, f"{task}.{workers}")


def cell_text(rows, key, rate):
    row, task_workers = rows[key], key[:2]
    seconds = seconds_at(row, rate)
    if not seconds:
        return f"step {row['at'][rate]['step_s'] * 1e3:.0f} ms" if rate in row["at"] else ""
    beside = ratios(rows, *task_workers, key[2]).get(rate)
    return f"{seconds:.0f} s" + (f" ({beside:.2f})" if beside else "")


def table_of_goals(rows, task, workers):
    own = {key: row for key, row in rows.items() if key[:2] == (task, workers)}
    rates = sorted({rate for row in own.values() for rate in row["at"]})
    goal = next(iter(own.values()))["goal"]
    lines = [f"\n{task}, {workers} ranks{', oversubscribed' if goal['oversubscribed'] else ''}: steps to {goal['metric']} "
             f"{goal['target']:g} without a limit x step time at the bandwidth; in parentheses over 16 bits on the wire\n",
             "| method | " + " | ".join(f"{rate} Mbit/s" for rate in rates) +
             " | pays below | steps | rates | bytes per step | encode, ms | decode, ms |", "|---" * (len(rates) + 7) + "|"]
    for key, row in own.items():
        found, by_rate = break_even(ratios(rows, *key)), ratios(rows, *key)
        pays = (f"{found[2]:.0f} Mbit/s" if found else "" if row["goal"]["reached"] and not by_rate
                else "everywhere here" if by_rate and max(by_rate.values()) < 1 else "nowhere here")
        steps = row["goal"]["steps_to_goal"] if row["goal"]["reached"] else f"missed, best {row['goal']['best']:.1f}"
        lines.append(f"| {key[2]} | " + " | ".join(cell_text(rows, key, rate) for rate in rates) +
                     f" | {'baseline' if key[2] == BASELINE else pays} | {steps} | {row['goal']['rates']} | "
                     f"{bytes_of(key[2], workers, row['coding']['bytes']):,.0f} | {row['coding']['encode_ms']:.2f} | "
                     f"{row['coding']['absorb_ms']:.2f} |")
    return lines


def table_of_steps(rows, task, workers):
    lines = [f"\n{task}, {workers} ranks: ms of a step, of its collectives (waiting and transfer) and of its coding on rank 0; "
             "bytes of a rank over bandwidth x step\n",
             "| method | Mbit/s | step | collectives | coding | utilisation |", "|---|---|---|---|---|---|"]
    for key, row in rows.items():
        for rate, at in sorted(row["at"].items()) if key[:2] == (task, workers) else []:
            used = bytes_of(key[2], workers, row["coding"]["bytes"]) * 8 / (rate * 1e6 * at["step_s"])
            lines.append(f"| {key[2]} | {rate} | {at['step_s'] * 1e3:.1f} | {at['collectives_s'] * 1e3:.1f} | "
                         f"{at['coding_s'] * 1e3:.1f} | {used:.1%} |")
    return lines


def table_of_whole(rows):
    whole = [(key, rate, cell) for key, row in rows.items() for rate, cell in sorted(row["whole"].items())]
    lines = ["\nWhole runs at the bandwidth, beside what is said above\n",
             "| task | ranks | method | Mbit/s | said | run | ratio |", "|---|---|---|---|---|---|---|"]
    for (task, workers, method), rate, cell in whole:
        said, found = seconds_at(rows[task, workers, method], rate), cell["seconds_to_goal"]
        lines.append(f"| {task} | {workers} | {method} | {rate} | {said:.0f} s | {found:.0f} s | {found / said:.2f} |" if found
                     else f"| {task} | {workers} | {method} | {rate} | {said:.0f} s | missed | |")
    return lines if whole else []


def table(document):
    rows, lines = rows_of(document), []
    for task, workers in dict.fromkeys(key[:2] for key in rows):
        lines += table_of_goals(rows, task, workers) + table_of_steps(rows, task, workers)
    return "\n".join(lines + table_of_whole(rows))


def main():
    numbers = lambda text: [int(word) for word in text.split(",")]
    parser = kept_runs.parser_of(__doc__, "compression.json")
    parser.add_argument("--tasks", type=lambda text: text.split(","), default=list(TASKS))
    parser.add_argument("--workers", type=numbers, default=[2, 4])
    parser.add_argument("--rates", type=numbers, default=[50, 200, 1000, 5000], help="Mbit/s")
    parser.add_argument("--steps", type=int, default=32, help="at each rate; a multiple of 8, as local SGD exchanges so often")
    parser.add_argument("--confirm", action="store_true", help=f"whole runs of {CONFIRMED} cells")
    parser.add_argument("options", nargs="*")
    given = kept_runs.checked(parser)
    if unknown := set(given.tasks) - set(TASKS):
        parser.error(f"unknown task {', '.join(sorted(unknown))}; valid: {', '.join(TASKS)}")
    if not given.table:
        made = kept_runs.make(list(whole_cells(given, rows_of(kept_runs.read(given.output))) if given.confirm else cells_of(given)),
                              given)
    if given.table or not given.dry_run:
        print(table(kept_runs.read(given.output) if given.table else made))


if __name__ == "__main__":
    sys.exit(main())
