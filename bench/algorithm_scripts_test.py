#!/usr/bin/env python3
"""What the scripts about algorithms make of results, without a build: kept_runs, compression, algorithms, coder_pairs."""
import argparse
import contextlib
import io
import json
import math
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

import algorithms
import coder_pairs
import coder_peer
import compression
import kept_runs
import pairs
import ratio


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.given = argparse.Namespace(output=self.folder / "kept.json", home=self.folder / "home", bin=pathlib.Path("/bin"),
                                        data_dir=None, only="", dry_run=False, no_wait=False, workers=[2], options=[], steps=8,
                                        tasks=["1a"], rates=[50, 200], epochs=2)

    def record(self, name, **record):
        folder = self.given.home / "runs" / name
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps(record))


class Cells(WithFolder):
    def cells(self, fails=None, timed_with=""):
        def measure(name):
            if name == fails:
                raise SystemExit(name)
            return {"value": len(name)}

        return [kept_runs.Cell(name, ["run", name], 60, lambda name=name: measure(name), timed_with) for name in ("a", "bb", "ccc")]

    def make(self, cells):
        with contextlib.redirect_stderr(io.StringIO()):
            return kept_runs.make(cells, self.given)

    def test_each_is_kept_as_soon_as_it_is_made_and_not_made_again(self):
        with self.assertRaises(SystemExit):
            self.make(self.cells(fails="ccc"))
        self.assertEqual(list(kept_runs.read(self.given.output)["cells"]), ["a", "bb"])
        made = self.make([*self.cells(fails="a")[:2], *self.cells()[2:]])
        self.assertEqual({name: cell["value"] for name, cell in made["cells"].items()}, {"a": 1, "bb": 2, "ccc": 3})
        self.assertEqual(made, kept_runs.read(self.given.output))

    def test_one_of_other_options_is_refused(self):
        self.make(self.cells())
        other = kept_runs.Cell("bb", ["run", "bb", "--light"], 60, dict)
        with self.assertRaisesRegex(SystemExit, "'bb' is of 'run bb', not of 'run bb --light'"):
            self.make([other])

    def test_times_are_of_one_machine_and_what_is_not_timed_may_be_of_any(self):
        self.make(self.cells(timed_with="1a.2")[:1])
        with mock.patch("ratio.machine", return_value={"cpu": "another"}):
            with self.assertRaisesRegex(SystemExit, "'bb' is of another machine"):
                self.make(self.cells(timed_with="1a.2"))
            self.make(self.cells(timed_with="1a.4")[1:2])
            made = self.make(self.cells()[2:])["cells"]
        self.assertEqual([made[name]["machine"]["cpu"] for name in ("bb", "ccc")], ["another", "another"])

    def test_only_those_that_are_found_are_made(self):
        self.given.only = "^(a|bb)$"
        self.assertEqual(list(self.make(self.cells())["cells"]), ["a", "bb"])

    def test_a_dry_run_says_what_is_missing_and_how_long_it_takes(self):
        self.make(self.cells()[:1])
        self.given.dry_run = True
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            kept_runs.make(self.cells(fails="bb"), self.given)
        lines = said.getvalue().splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["bb", "ccc", "#"])
        self.assertEqual(lines[-1], "# about 2 min in all")

    def test_a_run_that_was_cut_off_stays_and_one_that_finished_is_taken(self):
        self.record("a-try1-2", state="lost")
        self.assertEqual(kept_runs.find_run(self.given.home, "a", 2)[0], "a-try2")
        self.record("a-try2-2", state="finished", value=7)
        self.assertEqual(kept_runs.record_of(self.given, "a", 2, [])["value"], 7)
        for code in (1, 2, 5):
            with mock.patch("subprocess.run", return_value=mock.Mock(returncode=code)) as ran:
                with self.assertRaisesRegex(SystemExit, f"b.c: exit code {code}: /bin/mlbench run b_c-try1 4 --task 1a"):
                    kept_runs.record_of(self.given, "b.c", 4, ["--task", "1a"])
            self.assertEqual(ran.call_args.kwargs["env"]["MLBENCH_HOME"], str(self.given.home))


def trained(steps, reached=True):
    return {"metric": "Prec@1", "target": 80.0, "reached": reached, "steps_to_goal": steps, "seconds_to_goal": None,
            "best": 81.5, "rates": "task", "oversubscribed": False, "parameters": 1000}


def at(step_s):
    return {"step_s": step_s, "collectives_s": step_s / 2, "coding_s": 0.001}


# 16 bits: 10 s at 50 Mbit/s, 5 s at 200. Top-k needs more steps, and takes as long at either.
KEPT = {
    "1a.half.2.to-goal": trained(100), "1a.half.2.at-50": at(0.1), "1a.half.2.at-200": at(0.05),
    "1a.top_k_1.2.to-goal": trained(120), "1a.top_k_1.2.at-50": at(0.05), "1a.top_k_1.2.at-200": at(0.05),
    "1a.local_8.2.to-goal": trained(None, reached=False), "1a.local_8.2.at-50": at(0.02), "1a.local_8.2.at-200": at(0.02),
    **{f"1a.{method}.2.coding": {"bytes": sent, "encode_ms": 1.25, "absorb_ms": 0.5, "copy_ms": 0.1}
       for method, sent in (("half", 2000), ("top_k_1", 80), ("local_8", 4000))}}


class Compression(WithFolder):
    rows = compression.rows_of({"cells": KEPT})

    def test_each_method_is_trained_once_and_timed_at_each_rate(self):
        names = [cell.name for cell in compression.cells_of(self.given)]
        self.assertEqual(len(names), len(compression.METHODS) * 4)
        self.assertEqual(names[:4], ["1a.half.2.to-goal", "1a.half.2.coding", "1a.half.2.at-50", "1a.half.2.at-200"])
        self.assertGreaterEqual(len(compression.METHODS), 12)

    def test_the_time_is_steps_to_the_goal_times_the_step_at_the_rate(self):
        self.assertAlmostEqual(compression.seconds_at(self.rows["1a", 2, "half"], 50), 10)
        self.assertIsNone(compression.seconds_at(self.rows["1a", 2, "local_8"], 50))
        by_rate = compression.ratios(self.rows, "1a", 2, "top_k_1")
        self.assertAlmostEqual(by_rate[50], 0.6)
        self.assertAlmostEqual(by_rate[200], 1.2)

    def test_it_pays_below_the_rate_where_both_take_as_long(self):
        below, above, rate = compression.break_even({50: 0.6, 200: 1.2, 1000: 1.3})
        self.assertEqual((below, above), (50, 200))
        self.assertAlmostEqual(rate, 50 * 4 ** (0.4 / 0.6))
        self.assertIsNone(compression.break_even({50: 1.1, 200: 1.2}))
        self.assertIsNone(compression.break_even({50: 0.5, 200: 0.6}))

    def test_whole_runs_are_of_both_sides_of_a_break_even_and_of_the_fastest(self):
        chosen = compression.to_confirm(self.rows)
        self.assertEqual(chosen[:2], [("1a", 2, "top_k_1", 50), ("1a", 2, "top_k_1", 200)])
        self.assertIn(("1a", 2, "half", 200), chosen)
        self.assertLessEqual(len(chosen), compression.CONFIRMED)
        self.assertIn("bandwidth=50Mbit", list(compression.whole_cells(self.given, self.rows))[0].words[-1])

    def test_bytes_are_those_of_the_pattern(self):
        self.assertEqual(compression.bytes_of("local_8", 2, 4000), 500)
        self.assertEqual([compression.bytes_of("gossip_ring", workers, 4000) for workers in (1, 2, 4)], [0, 4000, 8000])
        self.assertEqual(compression.coding_words("1a", 2, "local_8")[1:3], ["--coder", "none"])
        self.assertEqual(compression.coding_words("1a", 2, "top_k_1")[-2:], ["--set", "share=0.01"])
        self.assertEqual(compression.bytes_of("sparse_loco_8", 2, 4000), 500)
        self.assertEqual(compression.coding_words("1a", 2, "sparse_loco_8")[7:11:2], ["--set", "--set"])
        self.assertEqual(compression.coding_words("1a", 2, "sparse_loco_8")[8:11:2], ["share=0.015625", "chunk=4096"])

    def test_the_table_says_what_was_measured_and_what_was_not(self):
        whole = {"1a.half.2.whole-50": {**trained(100), "seconds_to_goal": 11.0}}
        table = compression.table({"cells": {**KEPT, **whole}})
        self.assertIn("steps to Prec@1 80 without a limit x step time at the bandwidth", table)
        self.assertIn("| top_k_1 | 6 s (0.60) | 6 s (1.20) | 126 Mbit/s | 120 | task | 80 | 1.25 | 0.50 |", table)
        self.assertIn("| local_8 | step 20 ms | step 20 ms | nowhere here | missed, best 81.5 |", table)
        self.assertIn("| half | 50 | 100.0 | 50.0 | 1.0 | 0.3% |", table)
        self.assertIn("| 1a | 2 | half | 50 | 10 s | 11 s | 1.10 |", table)

    def test_without_a_baseline_nothing_is_said_of_paying(self):
        alone = {name: cell for name, cell in KEPT.items() if ".half." not in name}
        self.assertIn("| top_k_1 | 6 s | 6 s |  | 120 |", compression.table({"cells": alone}))

    def test_a_goal_that_was_missed_has_no_steps_and_no_seconds(self):
        goal = {"metric": "Prec@1", "target": 80.0, "reached": False, "step": 7, "train_s": 2.0, "best": {"value": 79.0}}
        record = {"goal": goal, "algorithm": {"rates": "task"}, "oversubscribed": False, "parameters": 1000}
        found = compression.goal_of(record)
        self.assertEqual((found["steps_to_goal"], found["seconds_to_goal"], found["best"]), (None, None, 79.0))
        whole = {"1a.half.2.whole-50": found}
        self.assertIn("| 1a | 2 | half | 50 | 10 s | missed | |", compression.table({"cells": {**KEPT, **whole}}))
        found = compression.goal_of({**record, "goal": {**goal, "reached": True}})
        self.assertEqual((found["steps_to_goal"], found["seconds_to_goal"]), (7, 2.0))

    def test_a_step_is_divided_into_collectives_and_coding(self):
        record = {"throughput": {"steps": 10}, "clocks": {"train_s": 2}, "steps_s": {"agg": 1},
                  "exchange": {"transfer_s": [0.3, 0.3], "wait_s": [0.5, 0.1], "steps": 10}}
        found = compression.step_of(record)
        self.assertAlmostEqual(found["step_s"], 0.2)
        self.assertAlmostEqual(found["collectives_s"], 0.08)
        self.assertAlmostEqual(found["coding_s"], 0.02)


class Algorithms(WithFolder):
    def curve(self, values, **more):
        return {"metric": "Prec@1", "values": values, "seconds": [2.0 * (number + 1) for number in range(len(values))],
                "target": 80.0, "reached": True, "steps_to_goal": 1000, "rates": "task", "lr": 0.02, "oversubscribed": False,
                **more}

    def test_every_algorithm_runs_both_tasks(self):
        cells = {cell.name: cell.words for cell in algorithms.cells_of(self.given)}
        self.assertEqual(set(cells), {f"{task}.{method}.{workers}" for task, workers in (("1a", 2), ("2a", 4))
                                      for method in algorithms.METHODS})
        self.assertEqual(cells["2a.diloco.4"][-2:], ["--set", "schedule.lr_by_workers.4=0.1"])
        self.assertIn("--to-the-end", cells["1a.sgd.2"])

    def test_a_curve_is_that_of_the_test_set_and_its_rate_that_of_the_workers(self):
        record = {"workers": 4, "oversubscribed": True, "weights_sha256": "0", "task": "2a",
                  "goal": {"metric": "Prec@1", "target": 80.0, "reached": True, "step": 7},
                  "algorithm": {"rates": "given", "lr": 200, "schedule": {"lr_by_workers": {"4": 0.1}}},
                  "evaluations": [{"split": split, "epoch": 1.0, "train_s": 2.0, "metrics": {"Prec@1": value}}
                                  for split, value in (("train", 99), ("test", 81))]}
        found = algorithms.curve_of(record)
        self.assertEqual((found["values"], found["lr"], found["steps_to_goal"]), ([81], 0.1, 7))

    def test_the_table_has_curves_beside_that_of_sgd(self):
        cells = {"1a.sgd.2": self.curve([40.0, 50.0]), "1a.muon.2": self.curve([45.0, 52.5], rates="given", lr=0.001),
                 "2a.sgd.4": self.curve([84.5], oversubscribed=True)}
        table = algorithms.table({"cells": cells})
        self.assertIn("| muon | given, 0.001 | 45.00 | 52.50 | +2.50 |", table)
        self.assertIn("2a, 4 ranks, oversubscribed, made rows: Prec@1 80", table)
        self.assertIn("| sgd | task, 0.02 | 1000 | 2.0 | 84.50 |", table)


# A program that takes turns, in place of coder_bench, update_bench and the peer's Python. Ours take 10 ms and the triad 12.
PROGRAM = """#!{python}
import json, pathlib, sys
print(json.dumps({{"warm": True}}), flush=True)
feedback = "error_feedback=true" in sys.argv
for _ in sys.stdin:
    print(json.dumps({{"median_steps_per_s": {steps_per_s} + ("--compile" in sys.argv), "encode_ms": 24 if feedback else 10,
                      "update_ms": 10, "triad_ms": 12}}), flush=True)
print(json.dumps({{"elements": 1000, "bytes": {sent}, "error_per_mille": {error}, "arguments": sys.argv[1:]}}), flush=True)
"""


class CoderPairs(WithFolder):
    def program(self, name, steps_per_s=4.0, sent=1000, error=600):
        path = self.folder / name
        path.write_text(PROGRAM.format(python=sys.executable, steps_per_s=steps_per_s, sent=sent, error=error))
        path.chmod(0o755)
        return str(path)

    def main(self, *words, **of_peer):
        """(exit code, what is kept, what was printed)"""
        for name in ("coder_bench", "update_bench"):
            self.program(name)
        output = self.folder / "kept.json"
        arguments = ["coder_pairs.py", "--bin", str(self.folder), "--pairs", "3", "--output", str(output), *words]
        if of_peer:
            arguments += ["--python", self.program("python", **of_peer)]
        said = io.StringIO()
        with mock.patch("sys.argv", arguments), contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
            code = coder_pairs.main()
        return code, json.loads(output.read_text()) if output.exists() else None, said.getvalue()

    def test_every_part_is_measured_in_turns_and_judged(self):
        code, kept, said = self.main(steps_per_s=2.0, sent=1005)
        rows = {row["what"]: row for row in kept["rows"]}
        self.assertEqual((code, len(rows)), (0, len(coder_pairs.CODERS) + 2 + len(coder_pairs.RULES)))
        self.assertEqual({row["verdict"] for row in rows.values()}, {"met"})
        self.assertEqual(rows["power_sgd, steps/s"]["ratio"], 2)
        self.assertEqual(rows["qsgd_4_bits, steps/s"]["ratio"], 4 / 3)  # the compiled variant is the faster one
        self.assertEqual(len(rows["ef_sign, steps/s"]["ours"]["values"]), 3)
        self.assertIn("| top 1 % of 10 million over 15 ms, ms | 10.00 | 15.00 | 0.67 (0.67 to 0.67) | 1 | met |", said)
        self.assertIn("| error feedback over its bytes / bandwidth, ms | 14.00 | 12.00 | 1.17 (1.17 to 1.17) | 1.3 | met |", said)
        self.assertIn("| triad over update adam, ms | 10.00 | 12.00 | 1.20 (1.20 to 1.20) | 0.9 | met |", said)
        self.assertNotIn(str(self.folder), json.dumps(kept), "a path of this machine would be kept")

    def test_a_peer_that_is_faster_is_missed(self):
        code, kept, _ = self.main("--only", "coder.qsgd_4_bits", steps_per_s=4.5)
        self.assertEqual((code, [row["verdict"] for row in kept["rows"]]), (1, ["missed"]))

    def test_a_peer_that_does_other_work_is_no_peer(self):
        for other in ({"sent": 900}, {"error": 700}):
            self.assertEqual(self.main("--only", "coder.ef_sign", **other)[:2], (2, None), other)

    def test_limits_are_those_of_times(self):
        def rows(without, with_feedback, triad):
            return coder_pairs.judge_selection({"without": [{"encode_ms": without}] * 3, "with": [{"encode_ms": with_feedback}] * 3,
                                                "triad": [{"triad_ms": triad}] * 3})

        for times, verdicts in (((14.9, 27.8, 10), ["met", "met"]), ((15.1, 28.0, 10), ["missed", "met"]),
                                ((10, 23.2, 10), ["met", "missed"])):
            self.assertEqual([row["verdict"] for row in rows(*times)], verdicts, times)
        self.assertEqual([pairs.at_most(*ends, 1) for ends in ((0.8, 1), (0.9, 1.1), (1.1, 1.2))], ["met", "undecided", "missed"])

    def test_which_program_begins_alternates(self):
        order = []
        with mock.patch.object(ratio.Turns, "turn", lambda program: order.append(program.command.split()[0]) or {}):
            self.given.pairs, self.given.python, self.given.bin = 2, None, self.folder
            for name in ("coder_bench", "update_bench"):
                self.program(name)
            with contextlib.redirect_stderr(io.StringIO()):
                coder_pairs.take_turns(self.given, {"one": "coder_bench --coder none", "other": "update_bench --rule sgd"})
        self.assertEqual(order, ["coder_bench", "update_bench", "update_bench", "coder_bench"])

    def test_a_dry_run_says_what_would_be_run(self):
        code, kept, said = self.main("--dry-run", "--only", "^(coder.power|update.lion)")
        self.assertEqual((code, kept), (0, None))
        self.assertEqual([line.split()[0] for line in said.splitlines()], ["coder.power_sgd"] * 3 + ["#", "update.lion", "#"])
        self.assertIn("PYTHON -B bench/coder_peer.py power_sgd --same-shapes --steps 10", said)

    def test_the_peer_has_the_tensors_of_resnet_50(self):
        counts = [math.prod(shape) for shape in coder_peer.shapes_of_resnet50()]
        self.assertEqual((len(counts), sum(counts)), (161, 25_557_032))


if __name__ == "__main__":
    unittest.main(verbosity=2)
