"""What pages show of runs, derived again from their figures: the table, and CSV files of charts. Part of rederive.py.

A page says the command that drew its charts, on a line of its own: "mlbench charts RUN... -o OUT --format svg,csv".
Paths begin at the root of the repository. OUT keeps some of what the command draws. Each SVG file has its CSV file
beside it, and the page shows it. The page also has the rows of the table of these runs.

A chart is derived for lines with one run for each number of workers. A curve of several such runs is the one with the
median time.
"""
import csv
import re
import shlex

COMPUTE = ["init", "fwd_pass", "comp_loss", "backprop", "opt_step"]
PER_HOUR = 0.2092  # $, of n1-standard-4: docs/reports.md#prices
WORDS = {"batch_load": "loading", "init": "initialising", "fwd_pass": "forward", "comp_loss": "loss",
         "backprop": "backward", "agg": "communication", "opt_step": "optimizer", "comp_metrics": "metrics",
         "checkpoint": "checkpoint", "wait": "waiting", "transfer": "transfer"}  # of step kinds in charts
FRAMEWORKS = {"onednn": "native"}  # what records of 2026-11 call it
COLUMNS = ["run", "framework", "workers x threads", "epochs to the goal", "time", "computation", "communication",
           "of it waiting", "of it transfer", "other", "samples/s", "speed-up", "cost", "labels"]
CHARTS = re.compile(r"(speedup|cost|communication_compute_ratio|time_for_all_phases(-\d+)?|train_loss|"
                    r"accuracy_(epochs|time))\.(svg|csv)$")


class NoRule(Exception):
    """What a chart shows has no rule here."""


# ---- figures of a run ------------------------------------------------------------------------------------------------


class Shown:
    """What tables and charts take of a run. `figure` gives the figure at a place in the record, or None."""

    def __init__(self, name, record, figure, evaluations, epochs):
        self.name = name
        self.record = record
        self.figure = figure
        self.evaluations = evaluations
        self.epochs = epochs
        self.workers = record["workers"]
        self.framework = FRAMEWORKS.get(record["framework"], record["framework"])
        self.reached = bool(figure("goal.reached"))

    def words(self):
        """What names of lines may say of it."""
        threads = self.record["threads_per_worker"]
        return {self.framework, self.record["backend"], f"{threads} thread{'s' if threads > 1 else ''}",
                "oversubscribed" if self.record["oversubscribed"] else "not oversubscribed"}

    def labels(self):
        data, limits = self.record["data"], self.record["limits"]
        labels = {"synthetic": data.get("synthetic"),
                  "unofficial data": not data.get("synthetic") and data.get("official") is False,
                  "emulated": self.record.get("emulated_step_s") is not None, "open": self.record["division"] == "open", "own task": self.record["division"] == "own",
                  "light": limits.get("light"), "to the end": limits.get("to_the_end"),
                  "oversubscribed": self.record["oversubscribed"]}
        return [label for label, holds in labels.items() if holds]

    def up_to_goal(self, place):
        """Of the steps up to the goal. Records that do not say it are of runs that ended there."""
        if self.reached and self.figure("goal.steps_s.agg") is not None:
            place = "goal." + place
        return self.figure(place)

    def kinds_s(self, of=lambda run, place: run.figure(place)):
        """Seconds of each step kind; of the whole run, or `up_to_goal`."""
        names = COMPUTE + ["batch_load", "agg", "comp_metrics", "checkpoint"]
        return {name: of(self, f"steps_s.{name}") or 0 for name in names}

    def exchange_s(self):
        """Rank 0's waiting and transfer up to the goal; None where there is none, or where computation hid some."""
        wait, transfer = self.up_to_goal("exchange.wait_s"), self.up_to_goal("exchange.transfer_s")
        return None if self.workers == 1 or not wait or not transfer or self.hides() else (wait[0], transfer[0])

    def hides(self):
        return any(self.up_to_goal("exchange.hidden_s") or [])

    def time_s(self):
        """To the goal, or the whole train clock of a run that did not reach it."""
        return self.figure("goal.train_s" if self.reached else "clocks.train_s")

    def cost(self):
        """Up to the evaluation that met the goal, on the wall clock without the preparation of data. A run on a GPU
        has no price."""
        if not self.reached or any(host.get("gpus") for host in self.record["hosts"]):
            return None
        step, split = self.figure("goal.step"), self.record["goal"]["split"]
        wall_s = next(row["wall_s"] for row in self.evaluations if row["step"] == step and row["split"] == split)
        return (wall_s - (self.figure("clocks.prepare_s") or 0)) / 3600 * self.workers * PER_HOUR


# ---- table -----------------------------------------------------------------------------------------------------------


def seconds(value):
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} s"


def row_of(run, base):
    kinds, exchange = run.kinds_s(Shown.up_to_goal), run.exchange_s()
    compute, total = sum(kinds[name] for name in COMPUTE), run.time_s()
    epoch = run.figure("goal.epoch")
    speed_up = base.time_s() / total if base and base.reached and run.reached else None
    cost = run.cost()
    cells = [run.name, run.framework, f"{run.workers} x {run.record['threads_per_worker']}",
             f"{epoch:g}" if run.reached else f"not in {len(run.epochs)}", seconds(total), seconds(compute),
             seconds(kinds["agg"]), *(map(seconds, exchange) if exchange else ("", "")),
             seconds(total - compute - kinds["agg"]),
             f"{run.figure('throughput.samples_per_s'):,.0f}", f"{speed_up:.2f}" if speed_up else "",
             f"{cost:#.2g} $" if cost is not None else "", ", ".join(run.labels())]
    return "| " + " | ".join(cells) + " |"


def table_of(lines):
    """The rows, with the two at the head, of lines of runs: those of a line differ in the number of workers alone."""
    rows = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    for line in lines:
        line = sorted(line, key=lambda run: run.workers)
        base = line[0] if line[-1].workers > line[0].workers else None
        rows += [row_of(run, base) for run in line]
    return [re.sub(r"  +", " ", row) for row in rows]


# ---- charts ----------------------------------------------------------------------------------------------------------


def runs_named(runs, words):
    """Those that the name of a line says, by words that each of them has."""
    found = [run for run in runs if set(words) <= run.words()]
    if not found:
        raise NoRule(f"no run is '{', '.join(words)}'")
    return found


def with_median_time(runs):
    """Of an even number the lower one; the whole train clock where one missed the goal."""
    if not runs:
        raise NoRule("a number of workers that no run has")
    met = all(run.reached for run in runs)
    return sorted(runs, key=lambda run: run.figure("goal.train_s" if met else "clocks.train_s"))[(len(runs) - 1) // 2]


def over_workers(chart, name, workers, runs):
    """Column `name` of a chart over workers: {number of workers: value}."""
    if name == "linear":
        return {k: k / min(workers) for k in workers}
    line = runs_named(runs, name.split(", "))
    by_workers = {run.workers: run for run in line}
    if len(by_workers) < len(line):
        raise NoRule("several runs of one number of workers")
    if chart == "speedup":
        base = by_workers[min(by_workers)]
        return {k: base.figure("goal.train_s") / run.figure("goal.train_s") for k, run in by_workers.items()}
    if chart == "cost":
        return {k: run.cost() for k, run in by_workers.items()}
    kinds = {k: run.kinds_s() for k, run in by_workers.items()}
    return {k: one["agg"] / sum(one[kind] for kind in COMPUTE) for k, one in kinds.items()}


def over_time(chart, name, runs):
    """Column `name` of a curve: {x: y}."""
    found = re.fullmatch(r"(?:(.+), )?k = (\d+)", name)
    if not found:
        raise NoRule(f"the column '{name}'")
    line = runs_named(runs, found[1].split(", ") if found[1] else [])
    run = with_median_time([run for run in line if run.workers == int(found[2])])
    if chart == "train_loss":
        return {row["train_s"]: row["train_loss"] for row in run.epochs}
    goal = run.record["goal"]
    x = "epoch" if chart == "accuracy_epochs" else "train_s"
    return {row[x]: row["metrics"][goal["metric"]] for row in run.evaluations if row["split"] == goal["split"]}


def phases(columns, workers, runs):
    """{(column, number of workers): seconds}: to the goal, or for 1,000 samples where no run reached one."""
    values = {}
    for k in workers:
        run = with_median_time([run for run in runs if run.workers == k])
        if run.hides():
            raise NoRule("a run with overlap")
        unit = 1 if run.reached else run.figure("throughput.samples") / 1000
        kinds, exchange = run.kinds_s(Shown.up_to_goal), run.exchange_s()
        if exchange and sum(exchange) <= kinds["agg"]:
            kinds["agg"] -= sum(exchange)
            kinds["wait"], kinds["transfer"] = exchange
        kinds = {WORDS[kind]: value for kind, value in kinds.items()}
        for name in columns:
            values[name, k] = kinds.get(re.sub(r" \(at (least|most)\)$", "", name), 0) / unit
        missing = {name for name, one in kinds.items() if one > 0} - {re.sub(r" \(.*", "", name) for name in columns}
        if missing:
            raise NoRule(f"no column for {', '.join(sorted(missing))}")
    return values


def derived(path, header, xs, runs):
    """{(column, x): value} of the CSV file of a chart."""
    chart = path.stem
    if chart.startswith("time_for_all_phases"):
        title = re.search(r"Time per kind of step(?:, ([^<]+))?<", path.with_suffix(".svg").read_text())
        if not title:
            raise NoRule("the title of the SVG file")
        return phases(header[1:], xs, runs_named(runs, title[1].split(", ") if title[1] else []))
    columns = {}
    for name in header[1:]:
        if header[0] == "workers":
            columns[name] = over_workers(chart, name, xs, runs)
        elif goal := re.fullmatch(r"goal (.+)", name):
            if float(goal[1]) != runs[0].record["goal"]["target"]:
                raise NoRule(f"the column '{name}'")
            columns[name] = {min(min(xs), 0): float(goal[1]), max(xs): float(goal[1])}
        else:
            columns[name] = over_time(chart, name, runs)
    return {(name, x): value for name, column in columns.items() for x, value in column.items()}


def compared(path, runs):
    """Rows (name, re-derived, as the file has it) of the CSV file of a chart."""
    if not CHARTS.match(path.name):
        raise NoRule("such a chart")
    header, *cells = list(csv.reader(path.read_text().splitlines()))
    kept = {(name, float(row[0])): float(cell) for row in cells for name, cell in zip(header[1:], row[1:]) if cell}
    again = derived(path, header, [float(row[0]) for row in cells], runs)
    # A cell of a stacked bar that is 0 may be there or not.
    places = sorted({place for place in kept | again if kept.get(place) or again.get(place)})
    return [(f"{name} at {x:g}", again.get((name, x)), kept.get((name, x))) for name, x in places]


# ---- pages -----------------------------------------------------------------------------------------------------------


class Command:
    """One "mlbench charts" of a page: the paths of its runs and the folder of its charts."""

    def __init__(self, page, line):
        words = shlex.split(line)
        at = words.index("-o")
        self.line, self.page = line, page
        self.root = next((folder for folder in page.resolve().parents if (folder / words[at + 1]).is_dir()), None)
        self.out = self.root / words[at + 1] if self.root else None
        self.given = words[2:at]

    def inputs(self):
        """In the order of the command; patterns as a shell has them."""
        return [path for word in self.given for path in sorted(self.root.glob(word))]


def commands_of(page):
    text = page.read_text().replace("\\\n", " ")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return [Command(page, line) for line in lines if re.match(r"mlbench charts .*\S -o docs/", line)]


def complaints(command, lines):
    """What is wrong with the page of a command, whose runs make `lines`, apart from the values of its charts."""
    text = command.page.read_text()
    rows = text.splitlines()
    for row in table_of(lines):
        if row not in rows:
            yield f"the page lacks the row: {row}"
    files = sorted(command.out.iterdir())
    if not files:
        yield f"{command.out} has no chart"
    for path in files:
        other = path.with_suffix({".svg": ".csv", ".csv": ".svg"}.get(path.suffix, ".none"))
        if not other.is_file():
            yield f"{path.name} has no {other.name} beside it"
        link = path.relative_to(command.page.resolve().parent).as_posix()
        if path.suffix == ".svg" and f"]({link})" not in text:
            yield f"the page does not show {link}"


def of_no_command(folder, commands):
    """Charts below a folder that no command drew."""
    drawn = {command.out.resolve() for command in commands if command.out}
    return [path for path in sorted(folder.rglob("*.csv")) + sorted(folder.rglob("*.svg"))
            if CHARTS.match(path.name) and path.parent.resolve() not in drawn]
