#!/usr/bin/env python3
"""Re-derives the figures of run records from their raw spools, without any of mlbench's code.

usage: rederive.py [-v] [--table] FOLDER...

A FOLDER is a run's (run.json and spool/), or one that holds such folders at any depth. How each figure follows:
docs/record.md. The files of a spool may be compressed (.xz, .gz). Figures that a record does not have, and those that
raw files alone do not tell, are named and skipped. Of runs that differ in the number of workers alone, the speed-ups
are derived, too. So are the tables and charts of pages (.md) in a FOLDER that say their command
"mlbench charts RUN... -o OUT"; a run without spool is taken as recorded there. --table prints the table of the runs in
FOLDER that such a page has.

Prints each figure of a single run, or with -v of every one: re-derived, as recorded. Exit code: 0 all equal; 1 a figure
differs, or a record has no spool; 2 nothing to look at.
"""
import argparse
import collections
import datetime
import gzip
import json
import lzma
import math
import pathlib
import re
import statistics
import struct
import sys

import rederive_pages

KINDS = ["batch_load", "init", "fwd_pass", "comp_loss", "backprop", "agg", "opt_step", "comp_metrics", "checkpoint"]
HEADER = struct.Struct("<8sIIQIIqI20x")
CELLS = {"u64": "Q", "i64": "q", "f64": "d"}
OPEN = {"": open, ".xz": lzma.open, ".gz": gzip.open}
STOP_REASONS = {"goal", "max_steps", "max_epochs", "max_time", "epochs"}  # others are not the task's own end

# exchange_ns, hidden_ns: per step
Step = collections.namedtuple("Step", "first count samples loss_sum lr end_ns kinds exchange_ns hidden_ns")
Segment = collections.namedtuple("Segment", "start_us steps events")


# ---- raw files -------------------------------------------------------------------------------------------------------


def read_records(data, header_bytes, columns):
    names = [struct.unpack_from("<24s8s", data, HEADER.size + 32 * i) for i in range(columns)]
    names = [(name.rstrip(b"\0").decode(), kind.rstrip(b"\0").decode()) for name, kind in names]
    fixed = [(name, CELLS[kind]) for name, kind in names if not kind.endswith("[]")]
    each = [(name, CELLS[kind[:-2]]) for name, kind in names if kind.endswith("[]")]
    record = struct.Struct("<" + "".join(cell for _, cell in fixed))
    offset = header_bytes
    while offset + record.size <= len(data):
        row = dict(zip((name for name, _ in fixed), record.unpack_from(data, offset)))
        offset += record.size
        if offset + 8 * row["count"] * len(each) > len(data):
            break
        for name, cell in each:
            row[name] = struct.unpack_from(f"<{row['count']}{cell}", data, offset)
            offset += 8 * row["count"]
        yield Step(row["first_step"], row["count"], row["samples"], row.get("loss_sum"), row.get("lr"), row["end_ns"],
                   [row[kind + "_ns"] for kind in KINDS], row["exchange_ns"],
                   row.get("hidden_ns", [0] * row["count"]))  # kept results of builds that hid nothing lack it


def read_steps(path):
    """(Unix time of its start in microseconds, its records)"""
    with OPEN[path.suffix if path.suffix in OPEN else ""](path, "rb") as file:
        data = file.read()
    if not data:
        return 0, []
    magic, version, header_bytes, _, _, _, start_us, columns = HEADER.unpack_from(data)
    if magic != b"MLBSTEPS":
        sys.exit(f"rederive.py: {path}: not a spool: it does not start with MLBSTEPS")
    if version != 2:
        sys.exit(f"rederive.py: {path}: a spool of version {version}; this program reads version 2: "
                 "use the mlbench that wrote it")
    return start_us, list(read_records(data, header_bytes, columns))


def read_events(path):
    with OPEN[path.suffix if path.suffix in OPEN else ""](path, "rb") as file:
        lines = file.read().split(b"\n")
    events = []
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue  # the last line of a killed rank
        if isinstance(event, dict) and "event" in event:
            events.append(event)
    return events


def read_spool(folder, least_segments):
    """{rank: [Segment, ...]}, every rank with as many segments"""
    found = {}
    for path in folder.iterdir():
        name = re.fullmatch(r"rank-(\d+)\.seg-(\d+)\.(steps|events)(\.xz|\.gz)?", path.name)
        if name:
            found[int(name[1]), int(name[2]), name[3]] = path
    ranks = {rank for rank, _, _ in found}
    last = max([segment for _, segment, _ in found] + [least_segments])
    spool = {}
    for rank in sorted(ranks):
        spool[rank] = []
        for segment in range(1, last + 1):
            steps, events = found.get((rank, segment, "steps")), found.get((rank, segment, "events"))
            start_us, records = read_steps(steps) if steps else (0, [])
            spool[rank].append(Segment(start_us, records, read_events(events) if events else []))
    return spool


# ---- figures ---------------------------------------------------------------------------------------------------------


def total_ns(step):
    return sum(step.kinds)


def unix_us(stamp):
    if not stamp:
        return None
    since = datetime.datetime.fromisoformat(stamp) - datetime.datetime.fromtimestamp(0, datetime.timezone.utc)
    return since // datetime.timedelta(microseconds=1)


class Run:
    """The figures of one run by their place in the record. `record` gives what was asked for and the supervisor's
    stamps; everything else comes from the spools."""

    def __init__(self, record, spool):
        self.record = record
        self.spool = spool
        self.rank0 = spool[0]
        self.kinds_ns = [sum(s.kinds[i] for one in self.rank0 for s in one.steps) for i in range(len(KINDS))]
        self.train_ns = sum(self.kinds_ns)
        self.samples = sum(s.samples for rank in spool.values() for one in rank for s in one.steps)
        self.segments = self.times()
        self.evaluations = self.latest("evaluation", lambda e: (e["step"], e.get("split", "")), self.evaluation)
        self.epochs = self.latest("epoch", lambda e: e["epoch"], self.epoch)
        self.figures = self.derive()

    def times(self):
        """Of each segment: its own clocks, and those of the segments before it."""
        rows, train_ns, wall_s, elapsed_ns = [], 0, 0.0, 0
        for index, segment in enumerate(self.rank0):
            said = self.record["segments"][index] if index < len(self.record["segments"]) else {}
            launched, ended = unix_us(said.get("started_at")), unix_us(said.get("finished_at"))
            launch_s = max(0, segment.start_us - launched) / 1e6 if launched and segment.start_us else 0.0
            ends = [event.get("end_ns", 0) for event in segment.events] + [step.end_ns for step in segment.steps[-1:]]
            own_wall_s = launch_s + max(ends, default=0) / 1e9
            if launched and ended:
                own_wall_s = max(own_wall_s, (ended - launched) / 1e6)
            own_ns = sum(map(total_ns, segment.steps))
            own_evaluations_ns = sum(e["duration_ns"] for e in segment.events if e["event"] == "evaluation")
            rows.append({"train_before_ns": train_ns, "wall_before_s": wall_s, "elapsed_before_ns": elapsed_ns,
                         "launch_s": launch_s, "train_ns": own_ns, "wall_s": own_wall_s,
                         "steps": sum(step.count for step in segment.steps)})
            train_ns += own_ns
            wall_s += own_wall_s
            elapsed_ns += own_ns + own_evaluations_ns
        return rows

    def latest(self, kind, key, make):
        """Events of a kind in the order of their keys: where two segments have one, the later segment's."""
        found = {}
        for index, segment in enumerate(self.rank0):
            for event in segment.events:
                if event["event"] == kind:
                    found[key(event)] = make(index, event)
        return [found[one] for one in sorted(found)]

    def evaluation(self, index, event):
        times = self.segments[index]
        train_ns = event["train_ns"]
        before_ns = sum(other["duration_ns"] for other in self.rank0[index].events
                        if other["event"] == "evaluation" and other["sequence"] <= event["sequence"])
        row = {name: event.get(name) for name in ("step", "epoch", "samples", "split")}
        row |= {"train_s": (times["train_before_ns"] + train_ns) / 1e9,
                "wall_s": times["wall_before_s"] + times["launch_s"] + event["end_ns"] / 1e9,
                "elapsed_s": (times["elapsed_before_ns"] + train_ns + before_ns) / 1e9,
                "metrics": event.get("metrics", {}), "duration_s": event["duration_ns"] / 1e9, "segment": index + 1,
                "cadence": event["cadence"]}
        return row

    def epoch(self, index, event):
        row = {"epoch": event["epoch"], "train_loss": event.get("train_loss"), "metrics": event.get("metrics", {}),
               "train_s": (self.segments[index]["train_before_ns"] + event["train_ns"]) / 1e9,
               "step": event["step"], "segment": index + 1}
        begin = max((e["step"] for one in self.rank0 for e in one.events
                     if e["event"] == "epoch" and e["epoch"] < event["epoch"]), default=0)
        steps = [step for step in self.rank0[index].steps if begin <= step.first < event["step"]]
        waits, passes = (sum(step.kinds[KINDS.index(kind)] for step in steps for kind in kinds)
                         for kinds in (("batch_load",), ("fwd_pass", "comp_loss", "backprop")))
        on_gpu = str((self.record.get("effective") or {}).get("device")).startswith("cuda")
        if passes and not (on_gpu and not self.record.get("emulated_step_s")):
            row["accelerator_utilisation"] = passes / (passes + waits)
        return row

    def derive(self):
        figures = {"clocks.train_s": self.train_ns / 1e9,
                   "clocks.train_legacy_s": (self.train_ns - self.kinds_ns[0] - self.kinds_ns[-1]) / 1e9}
        prepared = [e["prepare_s"] for one in self.rank0 for e in one.events if e["event"] == "prepared"]
        figures["clocks.prepare_s"] = sum(prepared) if prepared else None
        for name, ns in zip(KINDS, self.kinds_ns):
            figures[f"steps_s.{name}"] = ns / 1e9
        steps = [[step for one in self.spool.get(rank, []) for step in one.steps] for rank in range(self.record["workers"])]
        figures["waited_for_data_s"] = [sum(step.kinds[0] for step in rank) / 1e9 for rank in steps] if all(steps) else None
        figures["throughput.steps"] = sum(one["steps"] for one in self.segments)
        figures["throughput.samples"] = self.samples
        figures["throughput.samples_per_s"] = self.samples / (self.train_ns / 1e9) if self.train_ns else None
        figures["throughput.median_samples_per_s"] = self.median_rate()
        figures["throughput.peak_rss"] = max((e["peak_rss"] for rank in self.spool.values() for one in rank
                                              for e in one.events if "peak_rss" in e), default=None)
        for index, times in enumerate(self.segments[:len(self.record["segments"])]):
            legacy_ns = times["train_ns"] - sum(s.kinds[0] + s.kinds[-1] for s in self.rank0[index].steps)
            figures |= {f"segments[{index}].steps": times["steps"], f"segments[{index}].wall_s": times["wall_s"],
                        f"segments[{index}].train_s": times["train_ns"] / 1e9,
                        f"segments[{index}].train_legacy_s": legacy_ns / 1e9}
        for name, rows in (("evaluations", self.evaluations), ("epochs", self.epochs)):
            figures[f"{name}.length"] = len(rows)
            for index, row in enumerate(rows):
                figures |= {f"{name}[{index}].{key}": value for key, value in row.items()}
        figures |= self.goal() | self.exchange("exchange") | self.end() | self.read_bytes()
        figures["share of communication"] = self.kinds_ns[KINDS.index("agg")] / self.train_ns if self.train_ns else None
        return figures

    def read_bytes(self):
        """What the processes of all ranks read, where each says it."""
        figures = {}

        def add(place, segments, is_end, names, ring):
            ends = [[e for e in segment.events if is_end(e)][-1:] for segment in segments]
            for name, figure in names.items():
                if ends and all(end and name in end[0] for end in ends):
                    figures[f"{place}.{figure}"] = sum(end[0][name] for end in ends)
            if ends and all(end and "ring" in end[0] for end in ends):
                rings = [end[0]["ring"] for end in ends]
                for name in ("takes", "waits"):
                    figures[f"{ring}.{name}"] = sum(one[name] for one in rings)
                figures[f"{ring}.capacity"] = max(one["capacity"] for one in rings)
                figures[f"{ring}.min_fill"] = min(one["min_fill"] for one in rings)
                figures[f"{ring}.mean_fill"] = (sum(one["mean_fill"] * one["takes"] for one in rings) /
                                                figures[f"{ring}.takes"])

        read = {name: name for name in ("device_read_bytes", "call_read_bytes")}
        for index, epoch in enumerate(self.epochs):
            place = f"epochs[{index}]"
            add(place, [rank[epoch["segment"] - 1] for rank in self.spool.values()],
                lambda e: e["event"] == "epoch" and e["epoch"] == epoch["epoch"],
                read | {name: name for name in ("object_bytes", "object_cache_bytes")}, f"{place}.ring")
        add("storage", [segment for rank in self.spool.values() for segment in rank],
            lambda e: e["event"] in ("end", "failure"),
            read | {"object_bytes": "bytes", "object_cache_bytes": "cache_bytes"}, "ring")
        return figures

    def median_rate(self):
        rates = sorted((step.samples * self.record["workers"] / (total_ns(step) / 1e9), step.count)
                       for one in self.rank0 for step in one.steps if total_ns(step) > 0)
        half = sum(count for _, count in rates) / 2
        seen = 0
        for index, (rate, count) in enumerate(rates):
            seen += count
            if seen == half:
                return (rate + rates[index + 1][0]) / 2
            if seen > half:
                return rate
        return None

    def goal(self):
        goal = self.record["goal"]
        if not goal:
            return {}
        higher = goal["higher_is_better"]
        rows = self.epochs if goal["split"] == "train" else [e for e in self.evaluations if e["split"] == goal["split"]]
        rows = [row for row in rows if isinstance(row["metrics"].get(goal["metric"]), (int, float))]
        value = lambda row: row["metrics"][goal["metric"]]
        meets = lambda row: value(row) >= goal["target"] if higher else value(row) <= goal["target"]
        met = next((row for row in rows if row.get("cadence", True) and meets(row)), None)
        best = (max if higher else min)(rows, key=value, default=None)  # the first of equal ones
        figures = {"goal.reached": met is not None}
        for place, row in (("goal", met or best), ("goal.best", best)):
            figures[f"{place}.value"] = value(row) if row else None
            figures |= {f"{place}.{name}": row[name] if row else None for name in ("epoch", "step", "train_s")}
        if met:
            steps = [step for index, one in enumerate(self.rank0[:met["segment"]]) for step in one.steps
                     if index + 1 < met["segment"] or step.first + step.count <= met["step"]]
            figures |= {f"goal.steps_s.{name}": sum(step.kinds[i] for step in steps) / 1e9 for i, name in enumerate(KINDS)}
            if self.record["workers"] > 1:
                figures |= self.exchange("goal.exchange", met["segment"], met["step"])
        return figures

    def exchange(self, place, segment=None, until=math.inf):
        """A rank's exchange of a step less the shortest of that step is waiting, the shortest is transfer; what of it was
        not hidden was exposed. Up to a step of a segment, else of the whole run."""
        segment = segment or len(self.rank0)
        wait_ns, transfer_ns, steps = [0] * len(self.spool), 0, 0
        hidden_ns, exposed_ns = [0] * len(self.spool), [0] * len(self.spool)
        for index in range(segment):
            by_rank = []
            for rank in self.spool.values():
                each = {}
                for step in rank[index].steps:
                    each |= {step.first + i: pair for i, pair in enumerate(zip(step.exchange_ns, step.hidden_ns))}
                by_rank.append(each)
            for number in set.intersection(*map(set, by_rank)):
                if index + 1 == segment and number >= until:
                    continue
                own = [each[number][0] for each in by_rank]
                transfer_ns += min(own)
                steps += 1
                for rank, each in enumerate(by_rank):
                    wait_ns[rank] += own[rank] - min(own)
                    hidden_ns[rank] += each[number][1]
                    exposed_ns[rank] += own[rank] - each[number][1]
        return {f"{place}.steps": steps, f"{place}.wait_s": [ns / 1e9 for ns in wait_ns],
                f"{place}.transfer_s": [transfer_ns / 1e9] * len(self.spool),
                f"{place}.hidden_s": [ns / 1e9 for ns in hidden_ns],
                f"{place}.exposed_s": [ns / 1e9 for ns in exposed_ns]}

    def end(self):
        figures = {}
        hashes = {e.get("weights_sha256", "") for rank in self.spool.values() for e in rank[-1].events
                  if e["event"] == "end"} - {""}
        figures["weights_sha256"] = hashes.pop() if len(hashes) == 1 else None
        reasons = [e["reason"] for e in self.rank0[-1].events if e["event"] == "end"]
        if reasons and reasons[-1] in STOP_REASONS:
            figures["stop_reason"] = reasons[-1]
        return figures


# ---- comparing -------------------------------------------------------------------------------------------------------


def lookup(record, place):
    """Of "evaluations[0].train_s"; KeyError where the record has no such field."""
    value = record
    for name in re.findall(r"[^.\[\]]+", place):
        if isinstance(value, list):
            value = len(value) if name == "length" else value[int(name)] if int(name) < len(value) else {}[name]
        elif value is None:
            raise KeyError(place)
        else:
            value = value[name]
    return value


def recorded(record, name):
    if name == "share of communication":
        return record["steps_s"]["agg"] / record["clocks"]["train_s"] if record["clocks"]["train_s"] else None
    return lookup(record, name)


def equal(a, b):
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, float) or isinstance(b, float):
        return None not in (a, b) and math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return a == b


def compare(rows, verbose):
    """Prints rows (name, re-derived, recorded); the number of those that differ."""
    different = 0
    for name, ours, theirs in rows:
        same = equal(ours, theirs)
        different += not same
        if verbose or not same:
            print(f"  {name:34} {ours!s:>24} {theirs!s:>24}  {'equal' if same else 'DIFFERENT'}")
    return different


def check_run(folder, record, verbose):
    """(the Run, the number of figures that differ)"""
    spool = read_spool(folder / "spool", len(record["segments"]))
    run = Run(record, spool)
    rows, absent = [], set()
    for name, ours in run.figures.items():
        try:
            rows.append((name, ours, recorded(record, name)))
        except KeyError:
            absent.add(re.sub(r"\[\d+\]", "[]", name))
    print(f"{folder}:")
    different = compare(rows, verbose)
    print(f"  {len(rows)} figures, {different or 'none'} different"
          + (f"; not in this record: {', '.join(sorted(absent))}" if absent else ""))
    return run, different


def speed_up_of(runs, seconds):
    """{workers: (time at the smallest number) / (time)} of medians over repeats; empty unless all have one"""
    times = collections.defaultdict(list)
    for run in runs:
        times[run.record["workers"]].append(seconds(run))
    if any(None in group for group in times.values()):
        return {}
    medians = {workers: statistics.median(group) for workers, group in sorted(times.items())}
    first = next(iter(medians.values()))
    return {workers: first / time for workers, time in medians.items()}


def lines_of(runs):
    """Lists of runs that differ in the number of workers alone."""
    groups = collections.defaultdict(list)
    for run in runs:
        record = run.record
        key = [record.get(name) for name in ("task_hash", "overrides", "division", "framework", "backend",
                                             "threads_per_worker", "oversubscribed", "limits", "data", "effective")]
        key += [(host["cpu"], host["cores"]) for host in record["hosts"]]
        groups[json.dumps(key, sort_keys=True)].append(run)
    return groups.values()


def check_speed_ups(runs, verbose):
    different = 0
    for group in lines_of(runs):
        if len({run.record["workers"] for run in group}) < 2:
            continue
        print("speed-up: " + ", ".join(run.record["name"] for run in group))
        rows = []
        for what, ours, theirs in (
                ("to the goal", lambda run: run.figures["goal.train_s"] if run.figures.get("goal.reached") else None,
                 lambda run: run.record["goal"]["train_s"] if (run.record["goal"] or {}).get("reached") else None),
                ("of throughput", lambda run: 1 / run.figures["throughput.samples_per_s"],
                 lambda run: 1 / run.record["throughput"]["samples_per_s"])):
            derived, said = speed_up_of(group, ours), speed_up_of(group, theirs)
            rows += [(f"k = {k}, {what}", derived.get(k), said.get(k)) for k in sorted(derived | said)]
        different += compare(rows, verbose)
    return different


def records_below(folder):
    """Paths of all run records: run.json of folders, and files that are one."""
    if folder.is_file():
        return [folder]
    if (folder / "run.json").is_file():
        return [folder / "run.json"]
    found = []
    for path in sorted(folder.rglob("*.json")):
        record = json.loads(path.read_text())
        if isinstance(record, dict) and {"task_hash", "steps_s", "clocks"} <= record.keys():
            found.append(path)
    return found


# ---- pages -----------------------------------------------------------------------------------------------------------


def has_spool(path):
    return path.name == "run.json" and any(path.parent.glob("spool/rank-0.seg-*.steps*"))


def shown(path):
    """What pages show of the run with this record: from its spools, or else as recorded."""
    record = json.loads(path.read_text())
    if has_spool(path):
        run = Run(record, read_spool(path.parent / "spool", len(record["segments"])))
        return rederive_pages.Shown(path.parent.name, record, run.figures.get, run.evaluations, run.epochs)

    def figure(place):
        try:
            return recorded(record, place)
        except KeyError:
            return None
    return rederive_pages.Shown(record["name"], record, figure, record["evaluations"], record["epochs"])


def check_page(command, verbose):
    """The number of complaints and different figures of what the command of a page drew."""
    print(f"{command.page}: {command.line}")
    if not command.out:
        print("  its folder of charts does not exist: NOT RE-DERIVED")
        return 1
    paths = [path for folder in command.inputs() for path in records_below(folder)]
    if not paths:
        print("  no run records there: NOT RE-DERIVED")
        return 1
    for path in paths:
        if not has_spool(path):
            print(f"  {path.relative_to(command.root)}: no spool: as recorded")
    runs = [shown(path) for path in paths]
    wrong, figures = list(rederive_pages.complaints(command, lines_of(runs))), 0
    different = len(wrong)
    for line in wrong:
        print(f"  {line}: DIFFERENT")
    for path in sorted(command.out.glob("*.csv")):
        try:
            rows = rederive_pages.compared(path, runs)
        except rederive_pages.NoRule as reason:
            print(f"  {path.name}: no rule for {reason}: NOT RE-DERIVED")
            different += 1
            continue
        figures += len(rows)
        different += compare([(f"{path.stem}: {name}", ours, theirs) for name, ours, theirs in rows], verbose)
    print(f"  {figures} figures of charts, {different or 'none'} different")
    return different


def check_pages(folder, verbose):
    """(the number of pages' commands, of what differs)"""
    commands = [one for page in sorted(folder.rglob("*.md")) for one in rederive_pages.commands_of(page)]
    different = sum(check_page(command, verbose) for command in commands)
    for path in rederive_pages.of_no_command(folder, commands):
        print(f"{path}: no page says the command that drew it: NOT RE-DERIVED")
        different += 1
    return len(commands), different


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-v", "--verbose", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    paths = [path for folder in arguments.folders for path in records_below(folder)]
    if arguments.table:
        print("\n".join(rederive_pages.table_of(lines_of([shown(path) for path in paths]))))
        return
    pages = [check_pages(folder, arguments.verbose) for folder in arguments.folders if folder.is_dir()]
    if not paths and not sum(commands for commands, _ in pages):
        parser.error("no run records there")
    verbose = arguments.verbose or len(paths) == 1
    runs, different, missing = [], 0, 0
    for path in paths:
        record = json.loads(path.read_text())
        if has_spool(path):
            if record.get("custom"):
                print(f"{path.parent}: skipped: its figures are a script's own")
                continue
            run, count = check_run(path.parent, record, verbose)
            runs.append(run)
            different += count
        else:
            missing += 1
            print(f"{path}: no spool: NOT RE-DERIVED")
    different += check_speed_ups(runs, verbose) + sum(wrong for _, wrong in pages)
    sys.exit(1 if different or missing else 0)


if __name__ == "__main__":
    main()
