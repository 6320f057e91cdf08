"""The real client of MLflow against `mlbench serve`: argument 1 is its URL, argument 2 the file with its token."""

import json
import math
import os
import sys
import unittest
import urllib.request

URL, TOKEN_FILE = sys.argv[1], sys.argv[2]
with open(TOKEN_FILE, encoding="utf-8") as file:
    os.environ["MLFLOW_TRACKING_TOKEN"] = file.read().strip()
os.environ["MLFLOW_TRACKING_URI"] = URL
os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "0"

import mlflow  # noqa: E402
from mlflow.entities import Metric, Param, RunTag  # noqa: E402
from mlflow.exceptions import MlflowException  # noqa: E402


def listed_runs():
    request = urllib.request.Request(
        f"{URL}/api/v1/runs?tracked=true&label=mlflow&limit=1000",
        headers={"Authorization": "Bearer " + os.environ["MLFLOW_TRACKING_TOKEN"]},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["runs"]


class Client(unittest.TestCase):
    def setUp(self):
        self.client = mlflow.MlflowClient()

    def test_the_way_of_scripts(self):
        mlflow.set_experiment("fluent")  # get-by-name, then create
        with mlflow.start_run(run_name="first") as run:
            mlflow.log_params({"lr": 0.1, "batch": 32})
            for step in range(5):
                mlflow.log_metric("loss", 1.0 / (step + 1), step=step)
            mlflow.log_metrics({"acc": 0.5, "f1": 0.25}, step=4)
            mlflow.set_tag("colour", "red")
        seen = self.client.get_run(run.info.run_id)
        self.assertEqual((seen.info.status, seen.info.run_name), ("FINISHED", "first"))
        self.assertGreaterEqual(seen.info.end_time, seen.info.start_time)
        self.assertEqual(seen.data.params, {"lr": "0.1", "batch": "32"})
        self.assertEqual(seen.data.metrics, {"loss": 0.2, "acc": 0.5, "f1": 0.25})
        self.assertEqual(seen.data.tags["colour"], "red")
        history = self.client.get_metric_history(run.info.run_id, "loss")
        self.assertEqual([(one.step, one.value) for one in history], [(step, 1.0 / (step + 1)) for step in range(5)])
        listed = [one for one in listed_runs() if one["name"] == "mlflow:" + run.info.run_id]
        self.assertEqual([(one["title"], one["state"], one["experiment"]) for one in listed], [("first", "finished", "fluent")])
        # What the client prints as "View run".
        self.assertEqual(listed[0]["experiment_id"], run.info.experiment_id)
        with self.assertRaises(ValueError), mlflow.start_run() as failed:
            raise ValueError("training broke")
        self.assertEqual(self.client.get_run(failed.info.run_id).info.status, "FAILED")

    def test_experiments(self):
        made = self.client.create_experiment("grid", tags={"team": "a"})
        self.assertEqual(self.client.get_experiment_by_name("grid").experiment_id, made)
        self.assertEqual(self.client.get_experiment(made).tags, {"team": "a"})
        self.assertIsNone(self.client.get_experiment_by_name("none"))
        self.assertEqual(self.client.get_experiment("0").name, "Default")
        self.assertIn("grid", [one.name for one in self.client.search_experiments()])
        with self.assertRaisesRegex(MlflowException, "already") as caught:
            self.client.create_experiment("grid")
        self.assertEqual(caught.exception.error_code, "RESOURCE_ALREADY_EXISTS")

    def test_batches_and_searching(self):
        experiment = self.client.create_experiment("search")
        runs = []
        for number in range(12):
            run = self.client.create_run(experiment, run_name="r%d" % number)
            metrics = [Metric("acc", number / 10, 1_700_000_000_000 + number, number)]
            metrics += [Metric("x", float(i), 1_700_000_000_000, i) for i in range(900)]
            params = [Param("parity", "odd" if number % 2 else "even")]
            self.client.log_batch(run.info.run_id, metrics, params, [RunTag("number", str(number))])
            runs.append(run.info.run_id)
        self.client.set_terminated(runs[0], status="KILLED")
        names = lambda **more: [one.info.run_name for one in self.client.search_runs([experiment], **more)]  # noqa: E731
        self.assertEqual(names(order_by=["metrics.acc ASC"], max_results=3), ["r0", "r1", "r2"])
        found = names(filter_string="metrics.acc >= 0.5 and params.parity = 'odd'", order_by=["metrics.acc DESC"])
        self.assertEqual(found, ["r11", "r9", "r7", "r5"])
        self.assertEqual(names(filter_string="attributes.status = 'KILLED'"), ["r0"])
        self.assertEqual(names(filter_string="tags.number = '7'"), ["r7"])
        with self.assertRaisesRegex(MlflowException, "cannot be read"):
            names(filter_string="metrics.acc >>> 1")
        page = self.client.search_runs([experiment], max_results=5, order_by=["metrics.acc"])
        rest = self.client.search_runs([experiment], max_results=50, order_by=["metrics.acc"], page_token=page.token)
        self.assertEqual([one.info.run_id for one in page] + [one.info.run_id for one in rest], runs)
        self.assertEqual(len(self.client.get_metric_history(runs[3], "x")), 900)

    def test_what_is_wrong_is_said(self):
        run = self.client.create_run("0").info.run_id
        self.client.log_param(run, "a", 1)
        self.client.log_param(run, "a", 1)  # the same again is no change
        with self.assertRaisesRegex(MlflowException, "a parameter never changes"):
            self.client.log_param(run, "a", 2)
        self.client.log_metric(run, "odd", math.nan)
        self.client.log_metric(run, "big", math.inf)
        metrics = self.client.get_run(run).data.metrics
        self.assertTrue(math.isnan(metrics["odd"]))
        self.assertEqual(metrics["big"], math.inf)
        with self.assertRaises(MlflowException) as caught:
            self.client.get_run("0" * 32)
        self.assertEqual(caught.exception.error_code, "RESOURCE_DOES_NOT_EXIST")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
