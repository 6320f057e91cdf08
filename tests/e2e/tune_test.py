#!/usr/bin/env python3
"""`mlbench tune` with real runs on made rows. Killed and typed again, it neither loses nor repeats a trial. Its winner is the
one that the records give, and `mlbench run` trains with it. Points of a space are drawn as by AlgoPerf: 5 trials in 3 studies.
"""

import json
import math
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

TASK = ("--task 2a --data madelon --synthetic --set goal.target=60 --set goal.light_target=55 --threads-per-worker 1 "
        "--local").split()
PATIENCE_S = 180


class TuneTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.environment = {**os.environ, "MLBENCH_HOME": str(self.folder / "home"),
                            "MLBENCH_CORE_LOCK": str(self.folder / "cores")}

    def start(self, *words):
        process = subprocess.Popen([os.environ["MLBENCH_TEST_MLBENCH"], *words], env=self.environment, cwd=self.folder,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        return process

    def mlbench(self, *words):
        process = self.start(*words)
        said, messages = process.communicate(timeout=2 * PATIENCE_S)
        self.assertEqual(process.returncode, 0, said + messages)
        return said, messages

    def records(self):
        records = [json.loads(path.read_text()) for path in self.folder.glob("home/runs/*/run.json")]
        return {record["name"]: record for record in sorted(records, key=lambda record: record["id"])}

    def state(self, name):
        return self.records().get(name, {}).get("state")

    def wait_while(self, condition):
        deadline = time.monotonic() + PATIENCE_S
        while condition():
            self.assertLess(time.monotonic(), deadline, self.records())
            time.sleep(0.01)

    def settings(self, overrides):
        return {one["key"]: one["value"] for one in overrides if one["key"].startswith("optimizer.")}

    def test_killed_and_typed_again(self):
        # The lower rate reaches no target, so the third trial lasts until the cap: it is killed there.
        words = ["tune", "t", "1", *TASK, "--grid", "optimizer.lr=4,1e-12", "--grid", "optimizer.momentum=0,0.9",
                 "--max-time", "4s", "-o", "out"]
        killed = self.start(*words)
        self.wait_while(lambda: killed.poll() is None and self.state("t.t3-1") != "running")
        killed.kill()
        killed.communicate(timeout=PATIENCE_S)
        self.wait_while(lambda: self.state("t.t3-1") == "running")
        before = self.records()
        self.assertEqual({name: record["state"] for name, record in before.items()},
                         {"t.t1-1": "finished", "t.t2-1": "finished", "t.t3-1": "failed"})

        said, messages = self.mlbench(*words, "--json")
        for name in ("t.t1-1", "t.t2-1"):
            self.assertIn(f"{name} is kept", messages)
        after, tuning = self.records(), json.loads(said)
        self.assertEqual(list(after), ["t.t1-1", "t.t2-1", "t.t3-1", "t.t3-1.2", "t.t4-1"])
        self.assertEqual({name: after[name] for name in before}, before)
        trials = tuning["trials"]
        self.assertEqual([trial["runs"] for trial in trials], [["t.t1-1"], ["t.t2-1"], ["t.t3-1.2"], ["t.t4-1"]])
        points = [{"optimizer.lr": lr, "optimizer.momentum": momentum} for lr in ("4", "1e-12") for momentum in ("0", "0.9")]
        self.assertEqual([self.settings(after[trial["runs"][0]]["overrides"]) for trial in trials], points)
        self.check_winner(after, tuning)

        self.assertEqual(json.loads(self.mlbench(*words, "--json")[0]), tuning)
        self.assertEqual(self.records(), after, "all trials are there, so nothing runs")
        winner = trials[tuning["winner"] - 1]
        table, _ = self.mlbench(*words)
        self.assertIn(f"winner: {winner['settings']} (trial {tuning['winner']} of 4; one repeat", table)

        self.mlbench("run", "best", "1", *TASK, "--set", "@out/winner.set")
        best = self.records()["best-1"]
        self.assertEqual(self.settings(best["overrides"]), points[tuning["winner"] - 1])
        algorithm = best["algorithm"]
        self.assertEqual((algorithm["lr"], algorithm["options"]["momentum"]),
                         tuple(map(float, points[tuning["winner"] - 1].values())))
        self.assertEqual((algorithm["rates"], algorithm["tuned_trials"]), ("tuned", 4))

    def check_winner(self, records, tuning):
        """The winner has the least product of steps to the target and the median time of a step, by the records."""
        times = []
        for trial in tuning["trials"]:
            [record] = [records[name] for name in trial["runs"]]
            told, goal = record["throughput"], record["goal"]
            times.append(goal["step"] * told["samples"] / told["steps"] / told["median_samples_per_s"]
                         if goal["reached"] else math.inf)
            self.assertAlmostEqual(trial["target_s"] or math.inf, times[-1], delta=1e-6 * times[0])
        self.assertEqual([math.isinf(one) for one in times], [False, False, True, True])
        self.assertEqual(tuning["winner"], times.index(min(times)) + 1)

    def test_points_of_a_space(self):
        words = ["tune", "s", "1", *TASK, "--space", "optimizer.lr=0.4..40", "--space", "optimizer.momentum=0,0.5,0.9",
                 "--max-epochs", "10", "--json"]

        def planned(*more):
            return {plan["name"]: plan["spec"] for plan in json.loads(self.mlbench(*words, "--dry-run", *more)[0])}

        plans = planned("--studies", "3")
        points = {name: self.settings(plan["overrides"]) for name, plan in plans.items()}
        self.assertEqual(list(plans), [f"s.s{study}.t{trial}-1" for study in (1, 2, 3) for trial in (1, 2, 3, 4, 5)])
        self.assertEqual(planned("--studies", "3"), plans)
        self.assertNotEqual([self.settings(plan["overrides"]) for plan in planned("--studies", "3", "--seed", "7").values()],
                            list(points.values()))
        rates = [float(point["optimizer.lr"]) for point in points.values()]
        self.assertEqual(len(set(rates)), 15)
        self.assertTrue(all(0.4 <= rate <= 40 for rate in rates), rates)
        for study in range(3):
            # Half an axis has two or three of any five successive points of a base-2 sequence, whatever the shift.
            self.assertIn(sum(rate < 4 for rate in rates[5 * study:5 * study + 5]), (2, 3), rates)

        tuning = json.loads(self.mlbench(*words, "--studies", "2", "--trials", "2", "-o", "out")[0])
        records = self.records()
        self.assertEqual(list(records), ["s.s1.t1-1", "s.s1.t2-1", "s.s2.t1-1", "s.s2.t2-1"])
        for name, record in records.items():
            self.assertEqual((self.settings(record["overrides"]), record["seed"]), (points[name], plans[name]["seed"]))
        self.assertEqual([(trial["study"], trial["trial"]) for trial in tuning["trials"]], [(1, 1), (1, 2), (2, 1), (2, 2)])
        self.assertEqual(len({record["seed"] for record in records.values()}), 2, "a study has a seed of its own")


if __name__ == "__main__":
    unittest.main()
