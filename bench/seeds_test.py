#!/usr/bin/env python3
"""What seeds.py makes of records, without a build."""
import argparse
import contextlib
import io
import json
import pathlib
import tempfile
import unittest
from unittest import mock

import kept_runs
import ratio
import seeds

SEEDS = [42, 43, 44, 45, 46]


def cell(values, epochs=None, seconds=None, **more):
    return {"seed": 0, "metric": "Prec@1", "values": values, "epochs_to_goal": epochs, "seconds_to_goal": seconds,
            "date": "2026-11-30T10:00:00Z", "build": "abc", "oversubscribed": False,
            "machine": {"cpu": "A Processor", "cores": 2, "memory_gib": 24}, **more}


def document(**cells):
    return {"cells": cells}


def accuracies(study, one, other):
    names = list(seeds.STUDIES[study].sides)
    return document(**{f"{study}.{name}.{seed}": cell([10.0, value]) for name, values in zip(names, (one, other))
                       for seed, value in zip(SEEDS, values)})


class Interval(unittest.TestCase):
    def test_it_is_that_of_students_t(self):
        """Worked by hand: mean 3, standard deviation sqrt(2.5), 2.132 of its fifth's root."""
        mean, low, high = seeds.interval([1, 2, 3, 4, 5])
        self.assertEqual(mean, 3)
        self.assertAlmostEqual(low, 3 - 1.50756, places=4)
        self.assertAlmostEqual(high, 3 + 1.50756, places=4)

    def test_the_whole_of_it_decides(self):
        for low, high, found in ((-2, 2, "met"), (-0.5, 1.9, "met"), (-2.1, 1, "undecided"), (1, 2.1, "undecided"),
                                 (-9, 9, "undecided"), (2.1, 5, "missed"), (-5, -2.1, "missed")):
            self.assertEqual(seeds.verdict(low, high, 2), found, (low, high))


class Comparison(unittest.TestCase):
    def test_seeds_are_paired(self):
        """Seeds are 20 points apart, and the sides half a point: only pairs show that."""
        kept = accuracies("convolutions", [60, 65, 70, 75, 80], [60.5, 65.4, 70.6, 75.5, 80.5])
        row, = seeds.comparisons(kept, "convolutions", SEEDS)
        self.assertEqual((row["sides"], row["verdict"]), (["winograd", "direct"], "met"))
        self.assertAlmostEqual(row["difference"], -0.5)
        self.assertLess(row["interval_90"][1], -0.4)

    def test_noise_is_undecided_and_another_level_is_missed(self):
        base = [60, 65, 70, 75, 80]
        for differences, found in (([9, -9, 9, -9, 0], "undecided"), ([6, 7, 6, 7, 6], "missed"), ([3, 4, 3, 3, 3], "met")):
            kept = accuracies("images", [a + b for a, b in zip(base, differences)], base)
            self.assertEqual(seeds.comparisons(kept, "images", SEEDS)[0]["verdict"], found, differences)

    def test_a_part_of_the_seeds_decides_nothing(self):
        kept = accuracies("images", [60] * 5, [60] * 4)
        row, = seeds.comparisons(kept, "images", SEEDS)
        self.assertEqual((row["verdict"], row["why"]), ("undecided", "4 of 5 seeds are there"))
        self.assertNotIn("interval_90", row)
        self.assertIn("undecided: 4 of 5 seeds are there", seeds.table(kept, ["images"], SEEDS))

    def frameworks(self, missed=None):
        cells = {}
        for side, epochs, per_epoch in (("native", 10, 50), ("torch", 11, 100), ("tensorflow", 10, 200)):
            for seed in SEEDS:
                name = f"frameworks.{side}.{seed}"
                epoch = epochs + (seed == 44)
                cells[name] = cell([70.0, 81.0], epoch, epoch * per_epoch) if name != missed else cell([70.0, 79.0])
        return document(**cells)

    def test_frameworks_are_compared_in_epochs_and_in_seconds(self):
        rows = seeds.comparisons(self.frameworks(), "frameworks", SEEDS)
        self.assertEqual([row["sides"] for row in rows],
                         [["native", "torch"], ["native", "tensorflow"], ["torch", "tensorflow"]])
        self.assertEqual([row["difference"] for row in rows], [-1, 0, 1])
        self.assertAlmostEqual(rows[1]["seconds_ratio"][0], 0.25)
        self.assertEqual({row["verdict"] for row in rows}, {"met"})
        text = seeds.table(self.frameworks(), list(seeds.STUDIES), SEEDS)
        self.assertIn("A Processor, 2 cores, 2026-11-30, 2 ranks x 1 thread, build abc\n", text)
        self.assertIn("| 44 | 11 epochs, 550 s | 12 epochs, 1200 s | 11 epochs, 2200 s |", text)
        self.assertIn("| native - tensorflow | +0.00 (+0.00 to +0.00) | 0.25 (0.25 to 0.25) | 2 epochs | met |", text)

    def test_a_goal_that_was_missed_is_no_number(self):
        kept = self.frameworks(missed="frameworks.torch.43")
        rows = seeds.comparisons(kept, "frameworks", SEEDS)
        self.assertEqual([row["verdict"] for row in rows], ["undecided", "met", "undecided"])
        self.assertEqual(rows[0]["why"], "the goal was missed with 1 of 5 seeds")
        self.assertIn("| 43 | 10 epochs, 500 s | missed, best 79.00 | 10 epochs, 2000 s |",
                      seeds.table(kept, ["frameworks"], SEEDS))

    def test_cores_that_were_shared_are_said(self):
        kept = document(**{"convolutions.direct.42": cell([1.0], oversubscribed=True)})
        self.assertIn("1 thread, oversubscribed,", seeds.table(kept, ["convolutions"], SEEDS))


def record(seed, reached=True):
    evaluations = [{"split": split, "cadence": cadence, "metrics": {"Prec@1": value}}
                   for split, cadence, value in (("train", True, 99), ("test", True, 70), ("test", False, 75), ("test", True, 81))]
    return {"seed": seed, "goal": {"metric": "Prec@1", "split": "test", "reached": reached, "epoch": 2.0, "train_s": 100.5},
            "evaluations": evaluations, "oversubscribed": False, "environment": {"git_describe": "abc"},
            "weights_sha256": "w", "state": "finished"}


class Trainings(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.given = argparse.Namespace(output=self.folder / "seeds.json", home=self.folder / "home", bin=pathlib.Path("/bin"),
                                        data_dir=self.folder, only="", dry_run=False, no_wait=False, studies=list(seeds.STUDIES),
                                        seeds=SEEDS, python=None, images_python="python3")

    def test_each_side_is_trained_with_each_seed(self):
        cells = list(seeds.cells_of(self.given))
        self.assertEqual(len({cell.name for cell in cells}), (3 + 2 + 2) * len(SEEDS))
        self.assertTrue(all(str(seed) in cell.words for cell in cells for seed in [int(cell.name.split(".")[2])]))
        by_name = {cell.name: cell.words for cell in cells}
        self.assertEqual(by_name["convolutions.direct.43"][-4:], ["--convolution", "direct", "--seed", "43"])

    def test_figures_are_those_of_whole_epochs(self):
        found = seeds.figures_of(record(42))
        self.assertEqual((found["values"], found["epochs_to_goal"], found["seconds_to_goal"]), ([70, 81], 2.0, 100.5))
        self.assertIsNone(seeds.figures_of(record(42, reached=False))["epochs_to_goal"])
        with self.assertRaisesRegex(SystemExit, "run x was not evaluated after any epoch"):
            seeds.figures_of({**record(42), "name": "x", "evaluations": []})

    def run_by(self, keeps):
        """What stands in for the programs: `mlbench run` writes a record, tools/keep_result.py copies it."""
        def run(command, **_):
            words = [str(word) for word in command]
            self.ran.append(words)
            if "run" in words:
                ratio.write(self.given.home / "runs" / f"{words[2]}-2" / "run.json", record(int(words[words.index("--seed") + 1])))
            elif keeps:
                ratio.write(pathlib.Path(words[-1]) / "run.json", json.loads((pathlib.Path(words[-2]) / "run.json").read_text()))
            return mock.Mock(returncode=0 if "run" in words or keeps else 1)
        self.ran = []
        return mock.patch("subprocess.run", run)

    def make(self):
        cells = [cell for cell in seeds.cells_of(self.given) if cell.name == "convolutions.direct.43"]
        with contextlib.redirect_stderr(io.StringIO()):
            return kept_runs.make(cells, self.given)["cells"]

    def test_a_run_that_cannot_be_kept_is_refused_and_not_trained_again(self):
        with self.run_by(keeps=False), self.assertRaisesRegex(SystemExit, "not kept"):
            self.make()
        self.assertFalse(self.given.output.exists())
        with self.run_by(keeps=True):
            made = self.make()
        self.assertEqual([words[1].split("/")[-1] for words in self.ran], ["keep_result.py"])
        self.assertEqual(made["convolutions.direct.43"]["values"], [70, 81])
        self.assertTrue((self.folder / "seeds/convolutions-direct-43/run.json").exists())

    def test_the_peer_starts_where_ours_does_and_must_be_whole(self):
        def run(given, name, workers, words):
            self.assertEqual((workers, words[-2:]), (1, ["--set", "optimizer.weight_decay=0"]))
            self.assertEqual(words[words.index("--seed") + 1], "43")
            start = given.home / f"runs/{name.replace('.', '_')}-try1-1/checkpoints/step-2/model.safetensors"
            start.parent.mkdir(parents=True, exist_ok=True)
            start.touch()
            ratio.write(start.parents[2] / "run.json", {"state": "finished"})

        def peer(python, verb, *words):
            self.said.append(verb)
            if verb == "decode":
                words[-1].touch()
                return None
            self.assertEqual((words[1].name, words[2:4]), ("model.safetensors", ("--seed", "43")))
            return {"top1": [50.0] * epochs, "torch": "2", "train_s": 1.0}

        for epochs in (15, 14):
            self.said = []
            with mock.patch.object(kept_runs, "record_of", run), mock.patch.object(seeds.losses, "peer", peer), \
                    mock.patch.object(seeds.losses, "peer_python", return_value="python"):
                if epochs == 15:
                    self.assertEqual(seeds.train_peer(self.given, 43)["values"], [50.0] * 15)
                    self.assertEqual(self.said, ["decode", "train"])
                else:
                    with self.assertRaisesRegex(SystemExit, "evaluated 14 times, not after each of 15 epochs"):
                        seeds.train_peer(self.given, 43)
                    self.assertEqual(self.said, ["train"])

    def test_charts_are_of_what_is_kept_of_the_frameworks(self):
        with mock.patch("subprocess.run") as run:
            seeds.draw(self.given, document(**{"convolutions.direct.42": cell([1.0])}))
            run.assert_not_called()
            seeds.draw(self.given, document(**{"frameworks.torch.42": cell([1.0])}))
        self.assertEqual(run.call_args.args[0][1:3], ["charts", self.folder / "seeds/frameworks-torch-42"])


if __name__ == "__main__":
    unittest.main()
