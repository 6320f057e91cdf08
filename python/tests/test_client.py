"""Tests of the client: no network but this process, no PyTorch but where one is there."""

import gzip
import http.server
import json
import math
import os
import sys
import tempfile
import threading
import time
import types
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import mlbench  # noqa: E402
from mlbench import goals, metrics, sink, tracker  # noqa: E402


# What is no number, no class or no pair: the program's own tests read this table, too.
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/golden/odd_values.json")) as table:
    ODD = json.load(table)


def odd(value):
    """A value of the table: "nan", "inf" and "-inf" stand for themselves."""
    if isinstance(value, list):
        return [odd(one) for one in value]
    return float(value) if value in ("nan", "inf", "-inf") else value


class ListSink:
    def __init__(self):
        self.records = []

    def write(self, record):
        self.records.append(record)

    def close(self, timeout=None):
        pass


class Clock:
    """A clock that moves only when told."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now

    time_ns = staticmethod(time.time_ns)


class TrackerTest(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        patch = mock.patch.object(tracker, "time", self.clock)
        patch.start()
        self.addCleanup(patch.stop)
        self.sink = ListSink()

    def tracker(self, rank=0, **more):
        made = mlbench.Tracker([metrics.TopKAccuracy(1), metrics.TopKAccuracy(5)], "7", rank, sink=self.sink, **more)
        self.addCleanup(made.close)
        made.start()
        made.train()
        return made

    def batch(self, made, **seconds):
        made.batch_start()
        for name, duration in seconds.items():
            self.clock.now += duration
            made.record_batch_step(name)
        self.clock.now += 0.5
        made.batch_end()
        self.clock.now += 10  # between batches nothing counts

    def values(self):
        return [record["values"] for record in self.sink.records]

    def test_times_of_an_epoch(self):
        made = self.tracker()
        self.batch(made, batch_load=1, fwd_pass=2, comp_loss=0.25, backprop=4, agg=3, opt_step=0.5, comp_metrics=0.125)
        self.batch(made, fwd_pass=1, init=0.25)
        made.epoch_end()
        self.assertEqual(
            self.values(),
            [
                {
                    "CumulativeTrainTimeEpoch": 13.125,
                    "batch_load": 1,
                    "fwd_pass": 3,
                    "comp_loss": 0.25,
                    "backprop": 4,
                    "agg": 3,
                    "opt_step": 0.5,
                    "comp_metrics": 0.125,
                    "end": 1.0,
                    "init": 0.25,
                }
            ],
        )
        self.assertEqual(made.get_total_train_time(), 13.125)
        self.assertEqual(made.get_total_compute_time(), 7.75)
        self.assertEqual(made.get_total_communication_time(), 3)
        self.assertEqual(made.get_total_metrics_time(), 0.125)
        self.assertEqual(made.get_total_preprocess_time(), 1)
        self.assertEqual(made.current_epoch, 1)
        self.assertEqual(self.sink.records[0]["step"], 2)

    def test_named_stamps_are_the_steps(self):
        made = self.tracker()
        made.batch_start()
        for name in "load init fwd_pass comp_loss backprop agg opt_step comp_metrics".split():
            self.clock.now += 1
            getattr(made, "record_batch_" + name)()
        made.batch_end()
        made.epoch_end()
        self.assertEqual(self.values()[0]["CumulativeTrainTimeEpoch"], 8)
        self.assertEqual(made.get_total_compute_time(), 4)

    def test_own_step_names_can_be_computation(self):
        made = self.tracker(compute_steps=["forward", "backward"])
        self.batch(made, forward=2, backward=3)
        self.assertEqual(made.get_total_compute_time(), 5)

    def test_a_stamp_outside_a_batch_is_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "without batch_start"):
            self.tracker().record_batch_fwd_pass()
        with self.assertRaisesRegex(RuntimeError, "without validation_start"):
            self.tracker().validation_end()

    def test_values_have_the_prefix_of_where_the_script_is(self):
        made = self.tracker()
        made.record_loss(0.5, log_to_api=True)
        made.record_loss(0.25)  # not reported
        self.assertEqual(made.mean("train_loss"), 0.375)
        made.validation()
        made.record_stat("x", 3, log_to_api=True)
        made.record_metric(made.metrics[0], 71.5, log_to_api=True)
        self.assertEqual(self.values(), [{"train_loss": 0.5}, {"val_x": 3.0}, {"val_Prec@1": 71.5}])

    def test_every_record_has_the_clock_and_the_samples(self):
        made = self.tracker()
        made.record_loss(0.5, log_to_api=True)
        self.batch(made, fwd_pass=2)
        made.log(samples=100, lr=0.1, grad_norm=2)
        made.log(lr=0.05)
        self.batch(made, fwd_pass=1.5)
        made.epoch_end()
        made.log(samples=50)
        made.log(samples=1)
        self.assertEqual(
            [(record["train_s"], record["samples"]) for record in self.sink.records],
            [(0, 0), (2.5, 100), (2.5, 100), (4.5, 100), (4.5, 150), (4.5, 151)],
        )
        values = self.values()
        self.assertEqual(values[1], {"samples_per_s": 40, "lr": 0.1, "gradient_norm": 2})
        self.assertEqual(values[2], {"lr": 0.05})
        self.assertEqual(values[4], {"samples_per_s": 25})
        self.assertEqual(values[5], {}, "no time has passed")

    def test_a_script_that_goes_on_keeps_its_clock_and_its_samples(self):
        made = self.tracker()
        self.batch(made, fwd_pass=2)
        made.log(samples=100)
        later = self.tracker()
        later.load_state_dict(json.loads(json.dumps(made.state_dict())))
        self.batch(later, fwd_pass=1.5)
        later.log(samples=50)
        record = self.sink.records[-1]
        self.assertEqual((record["train_s"], record["samples"], record["values"]), (4.5, 150, {"samples_per_s": 25}))

    def test_the_best_epoch(self):
        made = self.tracker()
        made.validation()
        for value, best in ((70, True), (69, False), (71, True)):
            made.record_metric(made.metrics[0], value)
            self.assertEqual(made.is_best(), best)
            made.epoch_end()
        self.assertEqual(made.best_epoch, 2)
        down = self.tracker(minimize=True)
        down.validation()
        down.record_metric(down.metrics[0], 5)
        down.record_metric(down.metrics[0], 6)
        self.assertFalse(down.is_best())

    def test_odd_values_are_never_the_best(self):
        for row in ODD["best"]:
            made = self.tracker(minimize=not row["higher_is_better"])
            made.validation()
            best = []
            for value in map(odd, row["values"]):
                made.record_metric(made.metrics[0], value)
                best.append(made.is_best())
            self.assertEqual(best, row["best"], row)

    def test_the_mean_loss_of_no_sample_is_no_loss(self):
        made = self.tracker()
        made.record_loss(0.5, 2)
        made.record_loss(math.nan, 0)
        self.assertEqual(made.mean("train_loss"), 0.5)

    def test_validation_time(self):
        made = self.tracker()
        made.validation_start()
        self.clock.now += 7
        made.validation_end()
        self.assertEqual(made.validation_times, [7])

    def test_the_goal_is_reported_once_with_the_totals(self):
        made = self.tracker(goal=goals.task1_time_to_accuracy_goal())
        self.batch(made, fwd_pass=2, agg=1.5)
        made.epoch_end()
        made.validation()
        made.record_stat("global_Prec@1", 79.99, log_to_api=True)
        self.assertFalse(made.goal_reached)
        made.record_stat("global_Prec@1", 80.0, log_to_api=True)
        made.record_stat("global_Prec@1", 90.0)
        self.assertTrue(made.goal_reached)
        record = self.sink.records[-1]
        self.assertEqual(
            record["text"]["TaskResult"],
            "80% Top 1 Validation Accuracy reached in 4.000 seconds, Compute: 2.0 seconds, Communication: 1.5 seconds",
        )
        self.assertEqual(
            record["values"],
            {
                "TotalCumulativeTrainTime": 4.0,
                "global_cum_CumulativeTrainTimeEpoch": 4.0,
                "global_cum_agg": 1.5,
                "global_cum_end": 0.5,
                "global_cum_fwd_pass": 2.0,
            },
        )
        self.assertEqual(record["goal"], {"metric": "Prec@1", "split": "test", "target": 80, "value": 80.0})
        self.assertEqual(sum("text" in one for one in self.sink.records), 1)

    def test_other_ranks_see_the_goal_and_report_nothing(self):
        made = self.tracker(rank=1, goal=goals.task1_time_to_accuracy_goal())
        made.validation()
        made.record_stat("global_Prec@1", 85)
        self.assertTrue(made.goal_reached)
        self.assertEqual(self.sink.records, [])


class GoalTest(unittest.TestCase):
    def check(self, goal, name, met, missed, opening):
        seconds = types.SimpleNamespace(
            get_total_train_time=lambda: 106.91,
            get_total_compute_time=lambda: 53.0,
            get_total_communication_time=lambda: 45.5,
            get_total_metrics_time=lambda: 0.0,
            get_total_preprocess_time=lambda: 0.25,
        )
        self.assertIsNone(goal(name, missed, seconds))
        self.assertIsNone(goal("train_loss", met, seconds))
        self.assertEqual(
            goal(name, met, seconds),
            opening + " reached in 106.910 seconds, Compute: 53.0 seconds, Communication: 45.5 seconds, "
            "Pre-processing: 0.25 seconds",
        )

    def test_texts(self):
        accuracy = "val_global_Prec@1"
        self.check(goals.task1_time_to_accuracy_goal(), accuracy, 80, 79.9, "80% Top 1 Validation Accuracy")
        self.check(goals.task1_time_to_accuracy_light_goal(), accuracy, 70, 69, "70% Top 1 Validation Accuracy")
        self.check(goals.task2_time_to_accuracy_goal(), accuracy, 89, 88, "89% Top 1 Validation Accuracy")
        self.check(goals.task2_time_to_accuracy_light_goal(), accuracy, 80, 79, "80% Top 1 Validation Accuracy")
        self.check(goals.time_to_accuracy_goal(91.5), accuracy, 91.5, 91.4, "91.5% Top 1 Validation Accuracy")
        perplexity = "val_global_Perplexity"
        self.check(goals.task3_time_to_perplexity_goal(), perplexity, 70, 70.1, "Validation Perplexity of 70")
        self.check(goals.task3_time_to_perplexity_light_goal(), perplexity, 90, 91, "Validation Perplexity of 90")
        self.check(goals.task4_time_to_bleu_goal(), "val_global_BLEU-Score", 24, 23.9, "Validation BLEU-Score of 24")
        self.check(goals.task4_time_to_bleu_goal(25), "val_global_BLEU-Score", 25, 24, "Validation BLEU-Score of 25")


    def test_the_declared_goal(self):
        self.assertIsNone(mlbench.declared_goal({}))
        declared = {"metric": "Prec@1", "split": "test", "target": 65, "higher_is_better": True}
        goal = mlbench.declared_goal({"MLBENCH_GOAL": json.dumps(declared)})
        self.check(goal, "val_global_Prec@1", 65, 64.9, "Validation Prec@1 of 65")
        self.assertEqual((goal.metric, goal.split, goal.target), ("Prec@1", "test", 65))
        declared = {"metric": "loss", "split": "train", "target": 0.5, "higher_is_better": False}
        goal = mlbench.declared_goal({"MLBENCH_GOAL": json.dumps(declared)})
        seen = mlbench.Tracker([], "7", 0, sink=ListSink())
        self.addCleanup(seen.close)
        self.assertIsNone(goal("val_global_loss", 0.4, seen))
        self.assertIsNone(goal("train_loss", 0.6, seen))
        self.assertIn("Training loss of 0.5 reached", goal("train_loss", 0.5, seen))

    def test_odd_values_meet_none(self):
        factories = {"Prec@1": goals.time_to_accuracy_goal, "Perplexity": goals.time_to_perplexity_goal,
                     "BLEU-Score": goals.time_to_bleu_goal}  # fmt: skip
        for row in ODD["goals"]:
            goal = factories[row["metric"]](row["target"])
            seen = mlbench.Tracker([], "7", 0, sink=ListSink())
            self.addCleanup(seen.close)
            met = [goal("val_global_" + row["metric"], odd(value), seen) is not None for value in row["values"]]
            self.assertEqual(met, row["met"], row)


class MetricTest(unittest.TestCase):
    METRICS = {"Prec@1": metrics.TopKAccuracy(1), "Prec@5": metrics.TopKAccuracy(5), "F1-Score": metrics.F1Score(),
               "Dice Coefficient": metrics.DiceCoefficient(), "Perplexity": metrics.Perplexity(),
               "BLEU": metrics.BLEUScore()}  # fmt: skip

    def value_of(self, row):
        batches = [{key: odd(value) for key, value in batch.items()} for batch in row["batches"]]
        if row["metric"] == "loss":
            loader = [(batch["loss"], [0] * batch["samples"]) for batch in batches]
            return mlbench.validation_round(loader, lambda data: data, lambda output, target: output, [])[1]
        metric = self.METRICS[row["metric"]]
        metric.reset()
        for batch in batches:
            if "loss" in batch:
                metric.update(batch["loss"], None, [0] * batch["samples"])
            else:
                keys = ("scores", "labels") if "scores" in batch else ("hypotheses", "references")
                metric.update(*(batch[key] for key in keys))
        return metric.average()

    def test_odd_values_count_as_the_table_says(self):
        for row in ODD["metrics"]:
            with self.subTest(row=row):
                if row["value"] == "refused":
                    self.assertRaises(ValueError, self.value_of, row)
                    continue
                value, expected = self.value_of(row), odd(row["value"])
                if math.isnan(expected):
                    self.assertTrue(math.isnan(value), value)
                else:
                    self.assertTrue(value == expected or abs(value - expected) < 1e-8, value)

    def test_what_is_no_class_or_score_is_refused(self):
        accuracy, f1, bleu = metrics.TopKAccuracy(1), metrics.F1Score(), metrics.BLEUScore()
        scores = [[0.1, 0.2, 0.7]]
        for call in (
            lambda: accuracy(scores, [0.5]),
            lambda: accuracy(scores, [math.nan]),
            lambda: accuracy(scores, [math.inf]),
            lambda: accuracy(scores, [None]),
            lambda: accuracy(scores, ["2"]),
            lambda: accuracy([[0.1, 0.9], [0.1, 0.2, 0.7]], [1, 1]),
            lambda: accuracy([[[0.1, 0.9], [0.8, 0.2]]], [1]),
            lambda: accuracy([[None, 0.9]], [1]),
            lambda: f1(["0.9"], [1]),
            lambda: bleu("a b c d", "a b c d"),
        ):
            self.assertRaises(ValueError, call)

    def test_rows_may_be_arrays(self):
        class Array(list):
            def tolist(self):
                return list(self)

        self.assertEqual(metrics.TopKAccuracy(1)([Array([0.1, 0.9]), Array([0.8, 0.2])], Array([1, 1])), 50.0)
        self.assertAlmostEqual(metrics.BLEUScore()([Array([1, 2, 3, 4])], [Array([1, 2, 3, 4])]), 100.0)

    def test_top_k(self):
        output, target = [[0.1, 0.7, 0.2], [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]], [1, 1, 0]
        self.assertAlmostEqual(metrics.TopKAccuracy(1)(output, target), 100 / 3)
        self.assertAlmostEqual(metrics.TopKAccuracy(2)(None, output, target), 200 / 3)
        self.assertEqual(metrics.TopKAccuracy(2).name, "Prec@2")
        with self.assertRaisesRegex(ValueError, "top 3 of 3"):
            metrics.TopKAccuracy(3)(output, target)

    def test_ties_take_the_lowest_class(self):
        self.assertEqual(metrics.TopKAccuracy(1)([[0.5, 0.5], [0.5, 0.5]], [0, 1]), 50.0)

    def test_one_column_is_the_probability_of_class_1(self):
        self.assertEqual(metrics.TopKAccuracy(1)([[0.9], [0.2], [0.6]], [[1], [0], [0]]), 200 / 3)
        self.assertEqual(metrics.TopKAccuracy(1)([0.9, 0.2], [1, 1]), 50.0)

    def test_averages_are_over_samples_not_batches(self):
        metric = metrics.TopKAccuracy(1)
        metric.update([[0, 1]], [1])
        metric.update([[0, 1], [0, 1], [0, 1]], [0, 0, 0])
        self.assertEqual(metric.average(), 25.0)
        metric.reset()
        with self.assertRaisesRegex(RuntimeError, "before update"):
            metric.average()

    def test_perplexity(self):
        metric = metrics.Perplexity()
        metric.update(1.0, None, [0])
        metric.update(2.0, None, [0, 0, 0])
        self.assertAlmostEqual(metric.average(), math.exp(7 / 4))

    def test_f1_and_dice(self):
        output, target = [0.9, 0.6, 0.2, 0.7], [1, 0, 1, 1]
        self.assertAlmostEqual(metrics.F1Score()(output, target), 2 / 3, places=6)
        self.assertAlmostEqual(metrics.DiceCoefficient()(output, target), (2 * 1.8 + 1e-4) / (2.4 + 3 + 1e-4))

    def test_bleu(self):
        words = "the cat sat on the mat"
        self.assertAlmostEqual(metrics.BLEUScore()([words], [words]), 100.0)
        # Hits 5/6, 3/5, 2/4, 1/3 for n = 1 to 4; equal lengths.
        value = metrics.BLEUScore()(["the cat sat on a mat"], [words])
        self.assertAlmostEqual(value, 100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)
        # A prefix is right in all its n-grams, and too short.
        value = metrics.BLEUScore()(["the cat sat on the"], [words])
        self.assertAlmostEqual(value, 100 * math.exp(1 - 6 / 5))
        self.assertEqual(metrics.BLEUScore()(["a b"], [words]), 0.0)


class ValidationTest(unittest.TestCase):
    def test_round(self):
        records = ListSink()
        made = mlbench.Tracker([metrics.TopKAccuracy(1)], "7", 0, goals.time_to_accuracy_goal(75), sink=records)
        self.addCleanup(made.close)
        loader = [([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]], [0, 1, 0]), ([[0.6, 0.4]], [1]), ([[1, 0]], [1])]
        losses = iter([0.3, 0.7])
        values, loss = mlbench.validation_round(
            loader, lambda data: data, lambda output, target: next(losses), made.metrics, tracker=made,
            max_batch_per_epoch=2,
        )  # fmt: skip
        self.assertEqual(values, {"Prec@1": 75.0})
        self.assertAlmostEqual(loss, 0.4)
        self.assertEqual(
            [list(record["values"]) for record in records.records[:4]],
            [["val_loss"], ["val_global_loss"], ["val_Prec@1"], ["val_global_Prec@1"]],
        )
        self.assertTrue(made.goal_reached)
        self.assertEqual(len(made.validation_times), 1)
        with self.assertRaisesRegex(ValueError, "no batch"):
            mlbench.validation_round([], None, None, [])

    def test_a_diverged_model_reaches_no_goal(self):
        made = mlbench.Tracker([metrics.TopKAccuracy(1)], "7", 0, goals.task1_time_to_accuracy_goal(), sink=ListSink())
        self.addCleanup(made.close)
        loader = [([1, 2, 3, 4], [0, 3, 5, 9])]
        values, loss = mlbench.validation_round(
            loader, lambda data: [[math.nan] * 10] * len(data), lambda output, target: math.nan, made.metrics,
            tracker=made,
        )  # fmt: skip
        self.assertEqual(values, {"Prec@1": 0.0})
        self.assertTrue(math.isnan(loss))
        self.assertFalse(made.goal_reached)

    def test_training_batches(self):
        records = ListSink()
        made = mlbench.Tracker([metrics.TopKAccuracy(1)], "7", 0, sink=records)
        self.addCleanup(made.close)
        for index in range(26):
            mlbench.record_train_batch_stats(index, 0.5, [[0, 1]], [1], made.metrics, made)
        self.assertEqual([record["values"] for record in records.records], [{"train_loss": 0.5}, {"train_Prec@1": 100.0}] * 2)


class PredictionsTest(unittest.TestCase):
    def written(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            path = mlbench.write_predictions([9], environment={"MLBENCH_RUN_DIR": folder})  # earlier ones
            self.assertEqual(mlbench.write_predictions(*arguments, environment={"MLBENCH_RUN_DIR": folder}), path)
            self.assertEqual(os.listdir(folder), ["predictions.jsonl"])
            with open(path, encoding="utf-8") as file:
                return [json.loads(line) for line in file]

    def test_classes_and_scores_in_the_order_of_the_set(self):
        self.assertEqual(self.written([3, 1.0]), [{"index": 0, "label": 3}, {"index": 1, "label": 1}])
        self.assertEqual(self.written([[0.25, 0.75]]), [{"index": 0, "scores": [0.25, 0.75]}])
        self.assertEqual(self.written([4, 5], [1, 0]), [{"index": 1, "label": 4}, {"index": 0, "label": 5}])

    def test_what_is_no_prediction_is_refused(self):
        for wrong in (([0.5],), ([[math.nan]],), ([1, 2], [0])):
            with self.assertRaises(ValueError):
                self.written(*wrong)

    def test_without_a_run_nothing_is_written(self):
        self.assertIsNone(mlbench.write_predictions([1], environment={}))


class FileTest(unittest.TestCase):
    def test_appends_lines_to_the_run_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(2):  # a script that was started again
                made = mlbench.Tracker([], "7", 3, environment={"MLBENCH_RUN_DIR": folder})
                made.record_stat("x", float("nan"), log_to_api=True)
                made.record_stat("y", 1.5, log_to_api=True)
                made.close()
            with open(os.path.join(folder, "metrics", "rank-3.jsonl"), encoding="utf-8") as file:
                lines = [json.loads(line) for line in file]
        self.assertEqual([line["values"] for line in lines], [{"train_x": None}, {"train_y": 1.5}] * 2)
        self.assertEqual(lines[0]["rank"], 3)

    def test_a_record_is_json_whatever_a_goal_says(self):
        with tempfile.TemporaryDirectory() as folder:
            made = sink.FileSink(folder, 0)
            made.write({"values": {"x": math.inf}, "goal": {"metric": "m", "target": -math.inf, "value": math.nan}})
            made.close()
            with open(os.path.join(folder, "metrics", "rank-0.jsonl"), encoding="utf-8") as file:
                line = json.loads(file.read())
        self.assertEqual(line, {"values": {"x": None}, "goal": {"metric": "m", "target": None, "value": None}})

    def test_the_folder_goes_before_the_master(self):
        with tempfile.TemporaryDirectory() as folder:
            made = mlbench.Tracker([], "7", 0, environment={"MLBENCH_RUN_DIR": folder, "MLBENCH_URL": "http://127.0.0.1:1"})
            made.record_stat("x", 1, log_to_api=True)
            made.close()
            self.assertTrue(os.path.getsize(os.path.join(folder, "metrics", "rank-0.jsonl")) > 0)

    def test_without_a_run_nothing_is_written(self):
        made = mlbench.Tracker([], "7", 0, environment={})
        made.record_stat("x", 1, log_to_api=True)
        made.close()


class Master(http.server.BaseHTTPRequestHandler):
    """Answers with the statuses in `answers`, then 200; keeps what it accepted, each sequence of a rank once."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.answers.pop(0) if self.server.answers else 200
        if status == 200:
            for line in map(json.loads, gzip.decompress(body).decode().splitlines()):
                rank = str(line["rank"])
                if line["sequence"] > self.server.last.get(rank, 0):
                    self.server.last[rank] = line["sequence"]
                    self.server.accepted.append(line)
            self.server.requests.append((self.path, self.headers["Authorization"], self.headers["Content-Encoding"]))
        answer = json.dumps({"last_sequence": self.server.last}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *arguments):
        pass


class HttpTest(unittest.TestCase):
    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Master)
        self.server.answers, self.server.accepted, self.server.requests = [], [], []
        self.server.last = {}
        thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]

    def test_posts_batches_with_the_token(self):
        with tempfile.TemporaryDirectory() as folder:
            token = os.path.join(folder, "token")
            with open(token, "w", encoding="utf-8") as file:
                file.write("secret\n")
            made = mlbench.Tracker(
                [], "7", 1, environment={"MLBENCH_URL": self.url, "MLBENCH_TOKEN_FILE": token, "MLBENCH_RUN_ID": "42"}
            )
            for value in range(1000):
                made.record_stat("x", value, log_to_api=True)
            made.close()
        self.assertEqual([one["values"]["train_x"] for one in self.server.accepted], list(range(1000)))
        self.assertEqual(set(self.server.requests), {("/api/v1/runs/42/points", "Bearer secret", "gzip")})
        self.assertLess(len(self.server.requests), 100)

    def test_sends_again_when_the_master_is_busy(self):
        self.server.answers += [503, 429, 500]
        made = sink.HttpSink(self.url, 7, "", pause=0.01)
        made.write({"rank": 0, "values": {"x": 1}})
        made.close()
        self.assertEqual(self.server.accepted, [{"rank": 0, "values": {"x": 1}, "sequence": 1}])

    def test_a_script_that_starts_again_goes_on_whatever_the_clock_says(self):
        for now in (2_000_000_000, 1_000_000_000, 1_000_000_000):
            with mock.patch.object(time, "time_ns", lambda now=now: now * 10**9):
                made = mlbench.Tracker([], "7", 1, environment={"MLBENCH_URL": self.url})
                made.record_stat("x", now, log_to_api=True)
                made.record_stat("y", now, log_to_api=True)
                made.close()
        self.assertEqual([one["sequence"] for one in self.server.accepted], [1, 2, 3, 4, 5, 6])

    def test_a_refusal_is_logged_and_training_goes_on(self):
        self.server.answers += [422]
        made = sink.HttpSink(self.url, 7, "", pause=0.01)
        with self.assertLogs("mlbench", "WARNING") as logged:
            made.write({"rank": 0, "values": {"x": 1}})
            while not logged.output:
                time.sleep(0.01)
            made.write({"rank": 0, "values": {"x": 2}})
            made.close()
        self.assertIn("the master answered 422", logged.output[0])
        self.assertEqual(self.server.accepted, [{"rank": 0, "values": {"x": 2}, "sequence": 1}])

    def test_a_master_that_is_gone_does_not_keep_the_script(self):
        made = sink.HttpSink("http://127.0.0.1:1", 7, "", pause=0.01)
        with self.assertLogs("mlbench", "WARNING") as logged:
            made.write({"values": {"x": 1}})
            made.close(timeout=0.3)
        self.assertIn("records are lost", logged.output[0])

    def test_a_wrong_url_is_an_error_at_once(self):
        with self.assertRaisesRegex(ValueError, "MLBENCH_URL is 'ftp://x'"):
            sink.HttpSink("ftp://x", 7, "")


if __name__ == "__main__":
    unittest.main()
