"""Runs of two ranks whose figures were computed by hand: what is right passes, each figure that is wrong is found."""

import contextlib
import copy
import io
import json
import lzma
import pathlib
import struct
import sys
import tempfile
import unittest
import unittest.mock

import rederive

SECOND = 1_000_000_000
START_US = 1_795_000_000_000_000  # 2026-11-18T11:06:40Z, a quarter of a second after the launch
KINDS = ["batch_load", "init", "fwd_pass", "comp_loss", "backprop", "agg", "opt_step", "comp_metrics", "checkpoint"]


def step(first, count, samples, end_s, exchange_s, hidden_s=None, **kinds_s):
    return {"first": first, "count": count, "samples": samples, "end_ns": round(end_s * SECOND),
            "exchange_ns": [round(one * SECOND) for one in exchange_s],
            "hidden_ns": [round(one * SECOND) for one in hidden_s or [0] * count],
            "kinds": [round(kinds_s.get(kind, 0) * SECOND) for kind in KINDS]}


def spool_of(steps, hidden=True):
    names = ["sequence", "first_step", "count", "epoch", "samples"]
    columns = [(name, "u64") for name in names] + [("end_ns", "i64"), ("later", "f64")]  # one of a later version
    columns += [("later_each", "i64[]")] + [(f"{kind}_ns", "i64") for kind in KINDS]
    columns += [("exchange_ns", "i64[]")] + ([("hidden_ns", "i64[]")] if hidden else [])
    data = struct.pack("<8sIIQIIqI20x", b"MLBSTEPS", 2, 64 + 32 * len(columns), 7, 1, 0, START_US, len(columns))
    for name, kind in columns:
        data += struct.pack("<24s8s", name.encode(), kind.encode())
    for sequence, one in enumerate(steps):
        count = one["count"]
        data += struct.pack("<5Qqd", sequence, one["first"], count, 0, one["samples"], one["end_ns"], 0.5)
        data += struct.pack("<9q", *one["kinds"]) + struct.pack(f"<{count}q", *[-1] * count)
        data += struct.pack(f"<{count}q", *one["exchange_ns"])
        if hidden:
            data += struct.pack(f"<{count}q", *one["hidden_ns"])
    return data


def evaluation(sequence, number, accuracy, train_s, end_s, cadence=True):
    return {"event": "evaluation", "sequence": sequence, "end_ns": round(end_s * SECOND), "step": number,
            "epoch": number / 2, "samples": 20 * number, "split": "test", "metrics": {"Prec@1": accuracy},
            "train_ns": round(train_s * SECOND), "duration_ns": SECOND, "cadence": cadence}


def evaluated(number, accuracy, train_s, wall_s, elapsed_s, segment=1):
    return {"step": number, "epoch": number / 2, "samples": 20 * number, "split": "test", "train_s": train_s,
            "wall_s": wall_s, "metrics": {"Prec@1": accuracy}, "duration_s": 1.0, "segment": segment, "cadence": True,
            "elapsed_s": elapsed_s}


STEPS = [
    [step(0, 1, 10, 0.5, [0.1], batch_load=0.1, fwd_pass=0.3, agg=0.1),
     step(1, 2, 10, 2.5, [0.1, 0.1], [0.025, 0.1], fwd_pass=0.7, agg=0.2, checkpoint=0.1)],
    [step(0, 1, 10, 0.5, [0.2], fwd_pass=0.3, agg=0.2), step(1, 2, 10, 2.5, [0.05, 0.1], fwd_pass=0.9, agg=0.1)],
]
EVENTS = [
    [{"event": "prepared", "sequence": 0, "end_ns": 0, "prepare_s": 2.0, "data": {}},
     {"event": "begin", "sequence": 1, "end_ns": 0, "peak_rss": 5},
     evaluation(2, 1, 70.0, 0.5, 1.5),
     {"event": "epoch", "sequence": 3, "end_ns": 2500000000, "step": 3, "epoch": 1, "train_ns": 1500000000,
      "train_loss": 0.5, "metrics": {"Prec@1": 60.0}},
     evaluation(4, 3, 85.0, 1.5, 3.5),
     {"event": "end", "sequence": 5, "end_ns": 3600000000, "step": 3, "reason": "goal", "weights_sha256": "ab"}],
    [{"event": "end", "sequence": 0, "end_ns": 3600000000, "step": 3, "reason": "goal", "weights_sha256": "ab",
      "peak_rss": 7}],
]
RECORD = {
    "name": "r-2", "task_hash": "00", "overrides": [], "division": "closed", "framework": "torch", "backend": "gloo",
    "workers": 2, "threads_per_worker": 1, "oversubscribed": False, "limits": {}, "data": {}, "effective": {},
    "hosts": [{"cpu": "c", "cores": 2}], "custom": None, "stop_reason": "goal", "weights_sha256": "ab",
    "segments": [{"started_at": "2026-11-18T11:06:39.750000Z", "finished_at": "2026-11-18T11:06:44.000000Z",
                  "steps": 3, "wall_s": 4.25, "train_s": 1.5, "train_legacy_s": 1.3}],
    "goal": {"metric": "Prec@1", "split": "test", "target": 80.0, "higher_is_better": True, "reached": True,
             "value": 85.0, "epoch": 1.5, "step": 3, "train_s": 1.5,
             "best": {"value": 85.0, "epoch": 1.5, "step": 3, "train_s": 1.5}},
    "clocks": {"prepare_s": 2.0, "train_s": 1.5, "train_legacy_s": 1.3},
    "steps_s": {"batch_load": 0.1, "init": 0, "fwd_pass": 1.0, "comp_loss": 0, "backprop": 0, "agg": 0.3, "opt_step": 0,
                "comp_metrics": 0, "checkpoint": 0.1},
    "waited_for_data_s": [0.1, 0.0],
    "throughput": {"samples_per_s": 40 / 1.5, "median_samples_per_s": 20.0, "peak_rss": 7, "samples": 40, "steps": 3},
    "evaluations": [evaluated(1, 70.0, 0.5, 1.75, 1.5), evaluated(3, 85.0, 1.5, 3.75, 3.5)],
    "epochs": [{"epoch": 1, "train_loss": 0.5, "metrics": {"Prec@1": 60.0}, "train_s": 1.5, "step": 3, "segment": 1,
                "accelerator_utilisation": 1.0 / 1.1}],
    "exchange": {"wait_s": [0.05, 0.1], "transfer_s": [0.25, 0.25], "exposed_s": [0.175, 0.35], "hidden_s": [0.125, 0],
                 "exact": True, "steps": 3},
}


def ended_at_goal(record):
    """What the run took to its goal is what it took."""
    record["goal"] |= {name: copy.deepcopy(record[name]) for name in ("steps_s", "exchange") if name in record}


ended_at_goal(RECORD)
# Up to step 1 alone.
AFTER_ONE_STEP = {
    "steps_s": RECORD["steps_s"] | {"fwd_pass": 0.3, "agg": 0.1, "checkpoint": 0},
    "exchange": {"wait_s": [0.0, 0.1], "transfer_s": [0.1, 0.1], "exposed_s": [0.1, 0.2], "hidden_s": [0, 0],
                 "exact": True, "steps": 1},
}


def numbers(value, place=()):
    """The places of all figures below: what a test changes."""
    if isinstance(value, dict):
        return [found for key, one in value.items() for found in numbers(one, place + (key,))]
    if isinstance(value, list):
        return [found for key, one in enumerate(value) for found in numbers(one, place + (key,))]
    return [place] if isinstance(value, (int, float, bool)) else []


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        self.addCleanup(self.folder.cleanup)

    def write(self, record=RECORD, steps=(STEPS,), events=(EVENTS,), name="r-2", encode=spool_of, pack=None):
        run = self.root / name
        (run / "spool").mkdir(parents=True, exist_ok=True)
        (run / "run.json").write_text(json.dumps(record))
        for segment, (of_steps, of_events) in enumerate(zip(steps, events), 1):
            for rank in range(len(of_steps)):
                stem = run / "spool" / f"rank-{rank}.seg-{segment}"
                lines = "".join(json.dumps(event) + "\n" for event in of_events[rank]).encode()
                for ending, data in (("steps", encode(of_steps[rank])), ("events", lines)):
                    path = pathlib.Path(f"{stem}.{ending}{'.xz' if pack else ''}")
                    path.write_bytes(pack(data) if pack else data)

    def run_it(self, *arguments):
        output, code = io.StringIO(), 0
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output), \
                unittest.mock.patch.object(sys, "argv", ["rederive.py", *map(str, arguments or [self.root])]):
            try:
                rederive.main()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 1
                print("" if isinstance(end.code, int) else end.code)
        return code, output.getvalue()

    def expect(self, code, text=""):
        got, output = self.run_it()
        self.assertEqual(got, code, output)
        self.assertIn(text, output)
        return output


class Rederive(Case):
    def test_what_is_right(self):
        self.write()
        self.expect(0, ", none different\n")

    def test_the_waiting_of_a_rank_without_a_spool_is_not_known(self):
        self.write(steps=(STEPS[:1],), events=(EVENTS[:1],))
        run = rederive.Run(RECORD, rederive.read_spool(self.root / "r-2" / "spool", 1))
        self.assertIsNone(run.figures["waited_for_data_s"])

    def test_each_wrong_figure_is_found(self):
        given = {"goal": ["target", "higher_is_better"], "exchange": ["exact"]}  # by the task, or not derived
        for place in numbers({key: RECORD[key] for key in ("segments", "goal", "clocks", "steps_s", "waited_for_data_s",
                                                           "throughput", "evaluations", "epochs", "exchange")}):
            if place[-1] in given.get(place[0], []) or place[-1] == "exact":
                continue
            record = copy.deepcopy(RECORD)
            at = record
            for key in place[:-1]:
                at = at[key]
            at[place[-1]] = not at[place[-1]] if isinstance(at[place[-1]], bool) else at[place[-1]] + 1e-3
            self.write(record)
            with self.subTest(place):
                self.expect(1, "DIFFERENT")

    def test_bytes_read_are_sums_over_ranks_that_say_so(self):
        events, record = copy.deepcopy(EVENTS), copy.deepcopy(RECORD)
        events[1].insert(0, {"event": "epoch", "sequence": 0, "end_ns": 1, "step": 3, "epoch": 1})
        for event in (events[0][3], events[0][5], events[1][0], events[1][1]):
            event |= {"device_read_bytes": 4096, "call_read_bytes": 10}
        del events[1][1]["call_read_bytes"]
        record["epochs"][0] |= {"device_read_bytes": 8192, "call_read_bytes": 20}
        record["storage"] = {"device_read_bytes": 8192}
        self.write(record, events=(events,))
        self.expect(0, ", none different\n")
        record["storage"]["device_read_bytes"] = 4096
        self.write(record, events=(events,))
        self.expect(1, "storage.device_read_bytes")

    def test_rings_are_those_of_all_ranks(self):
        events, record = copy.deepcopy(EVENTS), copy.deepcopy(RECORD)
        events[1].insert(0, {"event": "epoch", "sequence": 0, "end_ns": 1, "step": 3, "epoch": 1})
        for event, takes, fill in ((events[0][3], 1, 2.0), (events[0][5], 1, 2.0), (events[1][0], 3, 1.0),
                                   (events[1][1], 3, 1.0)):
            event["ring"] = {"capacity": 3, "takes": takes, "waits": 1, "mean_fill": fill, "min_fill": int(fill)}
        ring = {"capacity": 3, "takes": 4, "waits": 2, "mean_fill": 1.25, "min_fill": 1}
        record["epochs"][0]["ring"] = copy.deepcopy(ring)
        record["ring"] = ring
        self.write(record, events=(events,))
        self.expect(0, ", none different\n")
        for name in ring:
            wrong = copy.deepcopy(record)
            wrong["ring"][name] += 1
            self.write(wrong, events=(events,))
            self.expect(1, f"ring.{name}")

    def test_compressed(self):
        self.write(pack=lzma.compress)
        self.expect(0)

    def test_another_version_is_refused(self):
        for version in (1, 3):
            self.write(encode=lambda steps: b"MLBSTEPS" + bytes([version]) + spool_of(steps)[9:])
            self.expect(1, f"a spool of version {version}; this program reads version 2: use the mlbench that wrote it")

    def test_a_spool_that_does_not_say_what_was_hidden_hid_nothing(self):
        record = copy.deepcopy(RECORD)
        record["exchange"] |= {"exposed_s": [0.3, 0.35], "hidden_s": [0, 0]}
        ended_at_goal(record)
        self.write(record, encode=lambda steps: spool_of(steps, hidden=False))
        self.expect(0)

    def test_fields_that_a_record_lacks_are_named(self):
        record = copy.deepcopy(RECORD)
        del record["exchange"], record["goal"]["best"], record["evaluations"][0]["elapsed_s"]
        self.write(record)
        self.expect(0, "not in this record: evaluations[].elapsed_s, exchange.exposed_s, ")

    def test_the_incomplete_record_of_a_killed_rank(self):
        self.write(encode=lambda steps: spool_of(steps) + b"\1" * 40)
        self.expect(0)

    def test_an_evaluation_that_a_limit_brought_about_meets_no_goal(self):
        events = copy.deepcopy(EVENTS)
        events[0][4]["cadence"] = False
        self.write(events=(events,))
        self.expect(1, "goal.reached")
        record = copy.deepcopy(RECORD)
        record["evaluations"][1]["cadence"] = record["goal"]["reached"] = False
        self.write(record, events=(events,))
        self.expect(0)

    def test_a_run_that_went_on_past_its_goal_has_the_sums_up_to_it(self):
        record = copy.deepcopy(RECORD)
        record["goal"] |= {"target": 70.0, "value": 70.0, "epoch": 0.5, "step": 1, "train_s": 0.5}
        self.write(record)
        self.expect(1, "goal.steps_s.fwd_pass")
        record["goal"] |= AFTER_ONE_STEP
        self.write(record)
        self.expect(0, ", none different\n")

    def test_a_goal_that_lies_below(self):
        events, record = copy.deepcopy(EVENTS), copy.deepcopy(RECORD)
        for index, loss in ((0, 0.8), (1, 0.9)):
            events[0][2 + 2 * index]["metrics"] = record["evaluations"][index]["metrics"] = {"loss": loss}
        best = {"value": 0.8, "epoch": 0.5, "step": 1, "train_s": 0.5}
        record["goal"] |= {"metric": "loss", "target": 0.8, "higher_is_better": False} | best | {"best": best}
        record["goal"] |= AFTER_ONE_STEP
        self.write(record, events=(events,))
        self.expect(0)

    def test_a_step_done_again_counts_twice_and_its_evaluation_is_the_later_one(self):
        again = [[step(1, 2, 10, 2.0, [0.1, 0.1], fwd_pass=1.0)], [step(1, 2, 10, 2.0, [0.1, 0.1], fwd_pass=1.0)]]
        later = [[evaluation(0, 3, 90.0, 1.0, 3.0), {**EVENTS[0][5], "end_ns": 3 * SECOND}], [EVENTS[1][0]]]
        record = copy.deepcopy(RECORD)
        record["segments"].append({"started_at": None, "finished_at": None, "steps": 2, "wall_s": 3.0, "train_s": 1.0,
                                   "train_legacy_s": 1.0})
        record["clocks"] |= {"train_s": 2.5, "train_legacy_s": 2.3}
        record["steps_s"]["fwd_pass"] = 2.0
        record["throughput"] |= {"samples_per_s": 60 / 2.5, "samples": 60, "steps": 5}
        record["evaluations"][1] = evaluated(3, 90.0, 2.5, 4.25 + 3.0, 3.5 + 2.0, segment=2)
        met = {"value": 90.0, "epoch": 1.5, "step": 3, "train_s": 2.5}
        record["goal"] |= met | {"best": met}
        record["exchange"] |= {"transfer_s": [0.45, 0.45], "exposed_s": [0.375, 0.55], "steps": 5}
        ended_at_goal(record)
        self.write(record, steps=(STEPS, again), events=(EVENTS, later))
        self.expect(0)

    def test_speed_up(self):
        one = copy.deepcopy(RECORD)
        one |= {"name": "r-1", "workers": 1, "exchange": None, "waited_for_data_s": [0.1]}
        one["throughput"] |= {"samples_per_s": 20 / 1.5, "samples": 20, "median_samples_per_s": 10.0, "peak_rss": 5}
        self.write()
        self.write(one, steps=(STEPS[:1],), events=(EVENTS[:1],), name="r-1")
        code, output = self.run_it("-v", self.root)
        self.assertEqual(code, 0, output)
        self.assertRegex(output, r"k = 2, to the goal +1.0 +1.0  equal")
        self.assertRegex(output, r"k = 2, of throughput +2.0\d* +2.0\d*  equal")

    def test_a_record_without_spools(self):
        (self.root / "alone.json").write_text(json.dumps(RECORD))
        self.expect(1, "alone.json: no spool: NOT RE-DERIVED")

    def test_a_folder_without_records(self):
        self.expect(2, "no run records there")


# What the runs of a page have, computed by hand. With 1 worker three times the computation, so 3.5 s in place of 1.5.
TABLE = """
| run | framework | workers x threads | epochs to the goal | time | computation | communication | of it waiting |\
 of it transfer | other | samples/s | speed-up | cost | labels |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
| r-1 | torch | 1 x 1 | 1.5 | 3.50 s | 3.00 s | 0.30 s | | | 0.20 s | 6 | 1.00 | 0.00010 $ | synthetic |
| r-2 | torch | 2 x 1 | 1.5 | 1.50 s | 1.00 s | 0.30 s | 0.05 s | 0.25 s | 0.20 s | 27 | 2.33 | 0.00020 $ | synthetic |
""".replace("\\\n", "")
CHARTS = {
    "speedup": 'workers,"torch, gloo",linear\n1,1,1\n2,2.3333333333333335,2\n',
    "cost": 'workers,"torch, gloo"\n1,0.00010169444444444444\n2,0.00020338888888888888\n',
    "communication_compute_ratio": 'workers,"torch, gloo"\n1,0.1\n2,0.3\n',
    "time_for_all_phases": "workers,loading,forward,communication,waiting,transfer,checkpoint\n"
                           "1,0.1,3,0.3,0,0,0.1\n2,0.1,1,0,0.05,0.25,0.1\n",
    "train_loss": '"train clock, seconds",k = 1,k = 2\n1.5,,0.5\n3.5,0.5,\n',
    "accuracy_epochs": "epochs,k = 1,k = 2,goal 80\n0,,,80\n0.5,70,70,\n1.5,85,85,80\n",
    "accuracy_time": '"train clock, seconds",k = 1,k = 2,goal 80\n0,,,80\n0.5,,70,\n1,70,,\n1.5,,85,\n3.5,85,,80\n',
}
COMMAND = "mlbench charts docs/results/t/r-? -o docs/results/t/charts --format svg,csv"
PAGE = COMMAND + "\n" + TABLE + "".join(f"\n![{name}](t/charts/{name}.svg)" for name in CHARTS) + "\n"


def run_of_two():
    """(record, steps, events) of a run without overlap."""
    record = copy.deepcopy(RECORD) | {"data": {"synthetic": True}}
    record["exchange"] |= {"exposed_s": [0.3, 0.35], "hidden_s": [0, 0]}
    ended_at_goal(record)
    return record, STEPS, EVENTS


def run_of_one():
    record = copy.deepcopy(RECORD) | {"name": "r-1", "workers": 1, "exchange": None, "data": {"synthetic": True},
                                      "waited_for_data_s": [0.1]}
    longer = {"train_s": 3.5, "train_legacy_s": 3.3}
    record["segments"][0] |= longer
    record["clocks"] |= longer
    record["steps_s"]["fwd_pass"] = 3.0
    record["throughput"] |= {"samples_per_s": 20 / 3.5, "samples": 20, "median_samples_per_s": 4.0, "peak_rss": 5}
    record["evaluations"] = [evaluated(1, 70.0, 1.0, 1.75, 2.0), evaluated(3, 85.0, 3.5, 3.75, 5.5)]
    record["epochs"][0]["accelerator_utilisation"] = 3.0 / 3.1
    record["epochs"][0]["train_s"] = record["goal"]["train_s"] = record["goal"]["best"]["train_s"] = 3.5
    ended_at_goal(record)
    steps = [[step(0, 1, 10, 0.5, [0.1], batch_load=0.1, fwd_pass=0.8, agg=0.1),
              step(1, 2, 10, 2.5, [0.1, 0.1], fwd_pass=2.2, agg=0.2, checkpoint=0.1)]]
    events = copy.deepcopy(EVENTS[:1])
    for index, train_s in ((2, 1.0), (3, 3.5), (4, 3.5)):
        events[0][index]["train_ns"] = round(train_s * SECOND)
    return record, steps, events


class Pages(Case):
    """A page that shows two runs."""

    def setUp(self):
        super().setUp()
        self.top, self.root = self.root, self.root / "docs" / "results" / "t"
        for record, steps, events in (run_of_one(), run_of_two()):
            self.write(record, steps=(steps,), events=(events,), name=record["name"],
                       encode=lambda steps: spool_of(steps, hidden=False))
        self.charts, self.page = self.root / "charts", self.root.parent / "t.md"
        self.charts.mkdir()
        for name, cells in CHARTS.items():
            (self.charts / f"{name}.csv").write_text(cells)
            (self.charts / f"{name}.svg").write_text("<tspan>t: Time per kind of step</tspan>")
        self.page.write_text(PAGE)
        self.root = self.root.parent

    def test_what_is_right(self):
        self.expect(0, "31 figures of charts, none different")

    def test_each_wrong_cell_of_a_chart_is_found(self):
        changed = 0
        for name, cells in CHARTS.items():
            head, *rows = [line.split(",") for line in cells.replace("torch, gloo", "torch").splitlines()]
            for row in rows:
                for column, cell in enumerate(row):
                    if column > 0 and cell not in ("", "0"):
                        row[column] = str(float(cell) + 1e-3)
                        changed += 1
            (self.charts / f"{name}.csv").write_text("\n".join(",".join(row) for row in [head, *rows]))
        output = self.expect(1, f"31 figures of charts, {changed} different")
        self.assertEqual(output.count("DIFFERENT"), changed)

    def test_names_of_lines_that_are_others(self):
        for name, other, of in (("k = 1,k = 2", "k = 2,k = 1", "train_loss"), ("torch", "native", "speedup"),
                                ("gloo", "mpi", "cost"), ("goal 80", "goal 81", "accuracy_time"),
                                ("k = 1", "one", "accuracy_epochs"), ("waiting", "idling", "time_for_all_phases")):
            (self.charts / f"{of}.csv").write_text(CHARTS[of].replace(name, other))
            with self.subTest(of):
                self.expect(1, of)
            (self.charts / f"{of}.csv").write_text(CHARTS[of])
        (self.charts / "time_for_all_phases.svg").write_text("<tspan>t: Time per kind of step, native</tspan>")
        self.expect(1, "time_for_all_phases.csv: no rule for no run is 'native'")

    def test_each_wrong_row_of_a_table_is_found(self):
        for found, other in (("| 3.50 s |", "| 3.51 s |"), ("| 2.33 |", "| 2.34 |"), ("| 27 |", "| 28 |"),
                             ("| 0.25 s |", "| 0.26 s |"), ("0.00020", "0.00045"), ("| synthetic |", "| |")):
            self.page.write_text(PAGE.replace(found, other))
            with self.subTest(found):
                self.expect(1, "the page lacks the row: | r-")

    def test_charts_that_do_not_stand_together(self):
        self.page.write_text(PAGE.replace("](t/charts/cost.svg)", "](t/cost.svg)"))
        self.expect(1, "the page does not show t/charts/cost.svg")
        self.page.write_text(PAGE)
        (self.charts / "cost.csv").unlink()
        self.expect(1, "cost.svg has no cost.csv beside it")

    def test_a_chart_without_a_rule(self):
        for ending in ("csv", "svg"):
            (self.charts / f"price_index.{ending}").write_text("workers,1\n1,1\n")
        self.expect(1, "price_index.csv: no rule for such a chart: NOT RE-DERIVED")

    def test_a_page_without_its_command(self):
        self.page.write_text(PAGE.replace(COMMAND, ""))
        self.expect(1, "cost.csv: no page says the command that drew it: NOT RE-DERIVED")
        self.page.write_text(PAGE.replace("/charts --", "/other --"))
        self.expect(1, "its folder of charts does not exist: NOT RE-DERIVED")
        self.page.write_text(PAGE.replace("r-? -o", "s-? -o"))
        self.expect(1, "no run records there: NOT RE-DERIVED")

    def test_runs_without_spools_are_taken_as_recorded(self):
        kept = self.top / "earlier"
        kept.mkdir()
        for record in (run_of_one()[0], run_of_two()[0]):
            (kept / f"{record['name']}.json").write_text(json.dumps(record))
        self.page.write_text(PAGE.replace("docs/results/t/r-? -o", "earlier/r-?.json -o"))
        self.expect(0, "earlier/r-1.json: no spool: as recorded")

    def test_the_table_of_runs(self):
        code, output = self.run_it("--table", self.root)
        self.assertEqual((code, output.strip()), (0, TABLE.strip()))


if __name__ == "__main__":
    unittest.main()
