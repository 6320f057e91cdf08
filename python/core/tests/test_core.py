"""Tests of mlbench_core's paths that need no PyTorch: Tracker, goals, the command line, and ApiClient with a master."""

import datetime
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import types
import unittest
import zipfile
from unittest import mock

FOLDER = os.path.dirname(os.path.abspath(__file__))
PATHS = [os.path.join(FOLDER, "..", ".."), os.path.join(FOLDER, "..")]
sys.path[:0] = [*PATHS, os.path.join(FOLDER, "..", "..", "..", "tests", "master")]

from mlbench_core.evaluation import goals  # noqa: E402
from mlbench_core.utils import AverageMeter, Tracker  # noqa: E402
from mlbench_core.utils.log_metrics import LogMetrics, sink_for  # noqa: E402
from mlbench_core.utils.task_args import task_main  # noqa: E402
from serving import serving  # noqa: E402

try:
    import requests
except ImportError:
    requests = None

MLBENCH = os.environ.get("MLBENCH_TEST_MLBENCH")
WORKER = os.environ.get("MLBENCH_TEST_WORKER", "")
TOP1 = types.SimpleNamespace(name="Prec@1")


class InARun(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        patch = mock.patch.dict(os.environ, {"MLBENCH_RUN_DIR": self.folder})
        patch.start()
        self.addCleanup(patch.stop)

    def tracker(self, rank=0, **more):
        made = Tracker([TOP1], "7", rank, **more)
        self.addCleanup(made.close)
        return made

    def records(self, rank=0):
        with open(os.path.join(self.folder, "metrics", "rank-%d.jsonl" % rank), encoding="utf-8") as file:
            return [json.loads(line) for line in file]


class GoalTest(InARun):
    def reach(self, goal, name, *values):
        tracker = self.tracker(goal=goal)
        tracker.validation()
        reached = []
        for value in values:
            tracker.record_stat(name, value)
            reached.append(tracker.goal_reached)
        tracker.close()
        return reached

    def test_a_factory_is_the_goal_of_its_usual_target(self):
        for factory, name, missed, met in (
            (goals.task1_time_to_accuracy_goal, "Prec@1", 79.9, 80),
            (goals.task1_time_to_accuracy_light_goal, "Prec@1", 69.9, 70),
            (goals.task2_time_to_accuracy_goal, "Prec@1", 88.9, 89),
            (goals.task2_time_to_accuracy_light_goal, "Prec@1", 79.9, 80),
            (goals.task3_time_to_perplexity_goal, "Perplexity", 70.1, 70),
            (goals.task3_time_to_perplexity_light_goal, "Perplexity", 90.1, 90),
            (goals.task4_time_to_bleu_goal, "BLEU-Score", 23.9, 24),
        ):
            for goal in (factory, factory()):
                with self.subTest(goal=factory.__name__, called=goal is not factory):
                    self.assertEqual(self.reach(goal, "global_" + name, missed, met), [False, True])
                    self.assertEqual((goal.metric, goal.split, goal.target), (name, "test", met))

    def test_a_factory_takes_another_target(self):
        self.assertEqual(goals.task4_time_to_bleu_goal(25).target, 25)
        self.assertEqual(goals.task3_time_to_perplexity_goal(threshold=50).target, 50)
        self.assertEqual(goals.time_to_accuracy_goal(91.5).target, 91.5)

    def test_an_uncalled_goal_stands_in_the_record(self):
        self.reach(goals.task1_time_to_accuracy_goal, "global_Prec@1", 85)
        record = self.records()[-1]
        self.assertEqual(record["goal"], {"metric": "Prec@1", "split": "test", "target": 80, "value": 85.0})
        self.assertRegex(record["text"]["TaskResult"], "^80% Top 1 Validation Accuracy reached in ")


class TrackerTest(InARun):
    def test_steps_of_a_category_may_be_one_name_or_none(self):
        tracker = self.tracker(communication_steps="exchange", compute_steps=None, metrics_steps=["a", "b"])
        tracker.start()
        tracker.train()
        tracker.batch_start()
        for name in ("exchange", "fwd_pass", "b", "x"):
            time.sleep(0.002)
            tracker.record_batch_step(name)
        tracker.batch_end()
        for seconds in (
            tracker.get_total_communication_time(),
            tracker.get_total_compute_time(),
            tracker.get_total_metrics_time(),
        ):
            self.assertGreaterEqual(seconds, 0.002)
        self.assertEqual(tracker.get_total_preprocess_time(), 0)

    def test_the_best_and_the_time_of_validations(self):
        tracker = self.tracker()
        self.assertIs(tracker.primary_metric, TOP1)
        tracker.validation()
        for value in (50, 60, 55):
            tracker.validation_start()
            tracker.validation_end()
            tracker.record_metric(TOP1, value)
            tracker.epoch_end()
        self.assertEqual((tracker.best_epoch, tracker.best_metric_value, tracker.is_best()), (1, 60, False))
        self.assertEqual(tracker.get_total_val_time(), sum(tracker.validation_times))
        self.assertEqual(len(tracker.validation_times), 3)
        self.assertEqual(str(tracker), "loss 0 | Prec@1 0")

    def test_it_goes_on_from_its_state(self):
        before = self.tracker(goal=goals.task1_time_to_accuracy_goal)
        before.start()
        before.train()
        before.batch_start()
        before.record_batch_fwd_pass()
        before.batch_end()
        before.record_loss(0.5, 2)
        before.validation()
        before.record_metric(TOP1, 60)
        state = json.loads(json.dumps(before.state_dict()))
        after = self.tracker(rank=1)
        after.load_state_dict(state)
        self.assertEqual(after.state_dict(), before.state_dict())
        self.assertEqual(after.get_total_compute_time(), before.get_total_compute_time())
        after.record_metric(TOP1, 59)
        self.assertFalse(after.is_best())
        after.train()
        after.record_loss(1.5, 2)
        self.assertEqual(after.mean("train_loss"), 1.0)

    def test_an_average(self):
        meter = AverageMeter()
        meter.update(1.0, 3)
        meter.update(5.0)
        meter.update(float("nan"), 0)
        self.assertEqual((meter.avg, meter.sum, meter.count), (2.0, 8.0, 4))

    def test_values_without_a_tracker_go_the_same_way(self):
        tracker = self.tracker()
        tracker.record_stat("x", 1, log_to_api=True)
        LogMetrics.log("7", 0, 3, "val_global_Prec@1", 71)
        LogMetrics.log("7", 0, 3, "Note", "some text")
        self.assertIs(sink_for("7", 0), tracker._sink)
        tracker.close()
        LogMetrics.log("7", 0, 4, "y", 2)
        sink_for("7", 0).close()
        self.assertEqual(
            [(record["values"], record.get("text")) for record in self.records()],
            [
                ({"train_x": 1.0}, None),
                ({"val_global_Prec@1": 71.0}, None),
                ({}, {"Note": "some text"}),
                ({"y": 2.0}, None),
            ],
        )


class TaskArgsTest(InARun):
    def run_main(self, *arguments):
        seen = {}
        with mock.patch.object(sys, "argv", ["main.py", *arguments]):
            task_main(lambda **given: seen.update(given), uid="mine")
        return seen

    def test_what_a_run_gives(self):
        with mock.patch.dict(os.environ, {"MLBENCH_DATA_DIR": "/data", "RANK": "1", "MLBENCH_RUN_ID": "7"}):
            seen = self.run_main("--hosts", "a,b", "--backend", "gloo")
        below = os.path.join(self.folder, "script")
        self.assertEqual(
            seen,
            {
                "run_id": "7",
                "dataset_dir": "/data",
                "ckpt_run_dir": os.path.join(below, "checkpoint", "mine"),
                "output_dir": os.path.join(below, "output", "mine"),
                "rank": 1,
                "backend": "gloo",
                "hosts": "a,b",
                "validation_only": False,
                "gpu": False,
                "light_target": False,
            },
        )
        self.assertTrue(os.path.isdir(seen["ckpt_run_dir"]) and os.path.isdir(seen["output_dir"]))

    def test_what_the_command_line_gives(self):
        seen = self.run_main(
            *("--run_id", "9", "--rank", "3", "--root-dataset", "d", "--root-checkpoint", self.folder + "/c"),
            *("--root-output", self.folder + "/o", "--gpu", "--light", "--validation_only"),
        )
        self.assertEqual((seen["run_id"], seen["rank"], seen["dataset_dir"], seen["backend"]), ("9", 3, "d", "mpi"))
        self.assertEqual((seen["gpu"], seen["light_target"], seen["validation_only"]), (True, True, True))
        self.assertEqual(seen["output_dir"], self.folder + "/o/mine")


class ImportTest(unittest.TestCase):
    def test_only_what_needs_it_imports_torch(self):
        modules = "api" if requests else "evaluation.goals"
        code = "import sys, mlbench_core.%s, mlbench_core.evaluation.goals, mlbench_core.utils.task_args, " % modules
        code += "mlbench_core.utils; sys.exit('torch' in sys.modules)"
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(PATHS))
        self.assertEqual(subprocess.run([sys.executable, "-B", "-c", code], env=environment, check=False).returncode, 0)


@unittest.skipIf(requests is None, "missing capability: requests")
class UrlTest(unittest.TestCase):
    def client(self, environment=None, **options):
        from mlbench_core.api import ApiClient

        with mock.patch.dict(os.environ, environment or {}):
            for name in ("MLBENCH_URL", "MLBENCH_TOKEN_FILE"):
                if name not in (environment or {}):
                    os.environ.pop(name, None)
            return ApiClient(**options)

    def test_where_the_master_is(self):
        self.assertEqual(self.client(url="host:8080").endpoint, "http://host:8080/api/")
        self.assertEqual(self.client(url="host:8080/below/").endpoint, "http://host:8080/below/api/")
        self.assertEqual(self.client(url="https://host").endpoint, "https://host/api/")
        self.assertEqual(self.client({"MLBENCH_URL": "http://m:1"}, in_cluster=False).endpoint, "http://m:1/api/")

    def test_what_is_no_master(self):
        with self.assertRaisesRegex(ValueError, "set MLBENCH_URL"):
            self.client()
        with self.assertRaisesRegex(ValueError, "expected HOST:PORT"):
            self.client(url="ftp://host")

    def test_the_token_goes_to_its_own_master_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "token")
            with open(path, "w", encoding="utf-8") as file:
                file.write("secret\n")
            environment = {"MLBENCH_URL": "http://m:1", "MLBENCH_TOKEN_FILE": path}
            sent = {"Authorization": "Bearer secret"}
            self.assertEqual(self.client(environment)._headers, sent)
            self.assertEqual(self.client(environment, url="elsewhere:1")._headers, {})
            self.assertEqual(self.client(url="elsewhere:1", token="secret")._headers, sent)

    def test_a_run_that_is_none_is_refused_here(self):
        client = self.client(url="127.0.0.1:1")
        for options, said in (
            ({"image": "x", "backend": "MPI"}, "expected one of: PyTorch Cifar-10"),
            ({"image": "PyTorch Cifar-10 ResNet-20"}, "either backend or custom_backend"),
            ({"image": "PyTorch Cifar-10 ResNet-20", "backend": "MPI", "custom_backend": "x"}, "either backend or"),
            ({"image": "PyTorch Cifar-10 ResNet-20", "backend": "x"}, "expected one of: MPI, GLOO, NCCL"),
        ):
            with self.assertRaisesRegex(ValueError, said):
                client.create_run("x", 1, **options)


@unittest.skipIf(requests is None, "missing capability: requests")
@unittest.skipIf(MLBENCH is None or not os.path.exists(MLBENCH), "missing capability: mlbench")
class ApiTest(unittest.TestCase):
    """ApiClient beside a real master that has one finished run of a command."""

    @classmethod
    def setUpClass(cls):
        from mlbench_core.api import ApiClient

        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        environment = dict(
            os.environ,
            MLBENCH_HOME=os.path.join(folder.name, "home"),
            MLBENCH_CORE_LOCK=os.path.join(folder.name, "cores"),
        )
        home = environment["MLBENCH_HOME"]
        os.mkdir(home)
        address = cls.enterClassContext(serving(home, "--legacy-api", environment=environment))
        script = "from mlbench_core.utils import Tracker; import os; t = Tracker([], os.environ['MLBENCH_RUN_ID'], 0); "
        script += "[t.record_stat('x', i, log_to_api=True) for i in range(4)]; t.close()"
        paths = "PYTHONPATH=" + os.pathsep.join(PATHS)
        command = [MLBENCH, "run", "api", "1", "--env", paths, "--", sys.executable, "-B", "-c", script]
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120)
        cls.client = ApiClient(url=address["url"])
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            cls.runs = cls.client.get_runs().result().json()
            if cls.runs and cls.runs[0]["finished_at"]:
                return
            time.sleep(0.1)
        raise RuntimeError("the run is not listed as finished: %s" % cls.runs)

    def test_the_run_and_its_values(self):
        [run] = self.runs
        self.assertEqual((run["name"], run["state"], run["num_workers"]), ("api-1", "finished", 1))
        self.assertEqual(self.client.get_run(run["id"]).result().json()["name"], "api-1")
        series = self.client.get_run_metrics(run["id"], metric_filter="train_x @ 0").result().json()
        self.assertEqual([float(point["value"]) for point in series["train_x @ 0"]], [0, 1, 2, 3])
        last = self.client.get_run_metrics(run["id"], metric_filter="train_x @ 0", last_n=1).result().json()
        self.assertEqual([float(point["value"]) for point in last["train_x @ 0"]], [3])
        self.assertGreaterEqual(len(self.client.get_worker_pods().result().json()), 1)

    def test_since_takes_a_time(self):
        run = self.runs[0]["id"]
        now = datetime.datetime.now(datetime.timezone.utc)
        for since, there in ((now - datetime.timedelta(hours=1), True), (now + datetime.timedelta(hours=1), False)):
            for form in (since, since.replace(tzinfo=None)):
                series = self.client.get_run_metrics(run, since=form, metric_filter="train_x @ 0").result().json()
                self.assertEqual("train_x @ 0" in series, there)

    def test_posted_values_are_kept(self):
        run = self.runs[0]["id"]
        answer = self.client.post_metric(run, "mine @ 0", 1.25, metadata="{rank: 0}").result()
        self.assertEqual((answer.status_code, answer.json()["value"]), (201, "1.25"))
        everything = self.client.get_all_metrics().result().json()
        self.assertEqual(everything["run_metrics"]["api-1"]["mine @ 0"][0]["metadata"], "{rank: 0}")

    def test_the_archive(self):
        archive = self.client.download_run_metrics(self.runs[0]["id"]).result().content
        self.assertIn("result_train_x @ 0.json", zipfile.ZipFile(io.BytesIO(archive)).namelist())

    @unittest.skipUnless(os.path.exists(WORKER), "missing capability: mlbench-worker (MLBENCH_WORKER=OFF)")
    def test_the_master_says_why_it_refuses(self):
        image = "PyTorch Machine Translation GNMT"
        answer = self.client.create_run("refused", 1, num_cpus=1.0, image=image, backend="gloo").result()
        self.assertEqual(answer.status_code, 422)
        self.assertIn("data set wmt16 not found", answer.json()["message"])
        answer = self.client.create_run(
            "refused", 1, 1.0, custom_image_name="a", custom_image_command="b", custom_backend="x", run_all_nodes=True
        ).result()
        self.assertEqual(answer.status_code, 422)
        self.assertIn("custom", answer.json()["message"])
        self.assertEqual(self.client.delete_run("a/../b").result().status_code, 404)


if __name__ == "__main__":
    unittest.main()
