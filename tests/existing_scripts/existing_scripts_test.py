"""Scripts that were written for mlbench_core, as custom runs of two ranks with PyTorch on a CPU: their records, and
their runs beside those of the same tasks."""

import gzip
import json
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
CLIENT = [os.path.join(FOLDER, "..", "..", "python", below) for below in ("", "core")]
DATA = os.environ.get("MLBENCH_DATA_DIR", "")
sys.path[:0] = CLIENT

try:
    import torch  # noqa: F401
except ImportError:
    torch = None


def data_of(*names):
    """Paths below the data folder; the test is skipped where one is missing."""
    paths = [os.path.join(DATA, name) for name in names]
    missing = [path for path in paths if not DATA or not os.path.exists(path)]
    if missing:
        raise unittest.SkipTest("missing capability: data (%s)" % ", ".join(names))
    return paths


def first_images(folder, part, count):
    """The first images of a published file of MNIST, in `folder`."""
    for name, header, size in (("images-idx3-ubyte", 16, 28 * 28), ("labels-idx1-ubyte", 8, 1)):
        [path] = data_of("mnist/%s-%s.gz" % (part, name))
        with gzip.open(path) as file:
            head, content = bytearray(file.read(header)), file.read(count * size)
        head[4:8] = struct.pack(">I", count)
        with gzip.open(os.path.join(folder, os.path.basename(path)), "wb", compresslevel=1) as file:
            file.write(bytes(head) + content)


def made_cifar(folder, train, test):
    """Made images in the files of CIFAR-10: the class says which tenth of the rows is bright."""
    below = os.path.join(folder, "cifar-10", "cifar-10-batches-bin")
    os.makedirs(below)
    draw = random.Random(1)

    def records(count):
        made = bytearray()
        for _ in range(count):
            label = draw.randrange(10)
            image = bytearray(draw.randrange(60) for _ in range(3 * 32 * 32))
            for plane in range(3):
                begin = (plane * 32 + 3 * label) * 32
                image[begin : begin + 4 * 32] = bytes([255]) * (4 * 32)
            made += bytes([label]) + image
        return made

    for i in range(1, 6):
        with open(os.path.join(below, "data_batch_%d.bin" % i), "wb") as file:
            file.write(records(train // 5))
    with open(os.path.join(below, "test_batch.bin"), "wb") as file:
        file.write(records(test))


def made_rows(folder, train, test):
    """Made rows of unit norm in the files of epsilon; a plane separates the classes."""
    draw = random.Random(1)
    for part, count in (("train", train), ("test", test)):
        with open(os.path.join(folder, "epsilon_" + part), "w", encoding="ascii") as file:
            for _ in range(count):
                label = draw.choice((-1, 1))
                row = [draw.gauss(0.02 * label if i < 1000 else 0, 0.02) for i in range(2000)]
                norm = sum(x * x for x in row) ** 0.5
                words = ("%d:%.6g" % (i + 1, x / norm) for i, x in enumerate(row))
                file.write("%d %s\n" % (label, " ".join(words)))


@unittest.skipIf(torch is None, "missing capability: torch")
class ExistingScripts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.environment = dict(
            os.environ,
            MLBENCH_HOME=os.path.join(self.folder, "home"),
            MLBENCH_CORE_LOCK=os.path.join(self.folder, "cores"),
        )
        self.data = os.path.join(self.folder, "data")
        os.mkdir(self.data)

    def mlbench(self, *arguments):
        command = [os.environ["MLBENCH_TEST_MLBENCH"], *arguments]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=900, check=False)
        self.assertEqual(done.returncode, 0, "%s\n%s\n%s" % (command, done.stdout, done.stderr))
        return done.stdout

    def run_script(self, name, script, *options):
        """The record of a run of two ranks."""
        command = ["run", name, "2", "--local", "--json", "--env", "PYTHONPATH=" + os.pathsep.join(CLIENT)]
        command += ["--", sys.executable, "-B", os.path.join(FOLDER, script)]
        command += ["--run_id", "{run_id}", "--rank", "{rank}", "--hosts", "{hosts}", *options]
        return json.loads(self.mlbench(*command))[0]

    def check_record(self, record, metrics):
        """What a script of mlbench_core tells by itself: epochs with losses, evaluations with metrics, times."""
        self.assertEqual((record["state"], record["exit_codes"]), ("finished", [0, 0]))
        losses = [epoch["train_loss"] for epoch in record["epochs"]]
        self.assertGreaterEqual(len(losses), 1)
        self.assertTrue(all(loss is not None and loss > 0 for loss in losses), losses)
        self.assertEqual(len(record["evaluations"]), len(losses))
        for evaluation in record["evaluations"]:
            self.assertEqual(sorted(evaluation["metrics"]), sorted(["loss", *metrics]))
        self.assertGreater(record["clocks"]["train_s"], 0)
        self.assertEqual(record["epochs"][-1]["train_s"], record["clocks"]["train_s"])

    def check_goal(self, record, target):
        goal = record["goal"]
        self.assertEqual((goal["metric"], goal["split"], goal["target"]), ("Prec@1", "test", target))
        self.assertTrue(goal["reached"])
        self.assertGreaterEqual(goal["value"], target)
        self.assertEqual(goal["value"], record["evaluations"][-1]["metrics"]["Prec@1"])
        self.assertTrue(all(one["metrics"]["Prec@1"] < target for one in record["evaluations"][:-1]))
        self.assertRegex(record["custom"]["result"], r"^%d%% Top 1 Validation Accuracy reached in [0-9.]+ sec" % target)

    def check_steps(self, record, kinds):
        for kind, seconds in record["steps_s"].items():
            (self.assertGreater if kind in kinds else self.assertEqual)(seconds, 0, kind)

    def check_beside(self, record, metric, task, *options):
        """The run stands beside one of the task, without a ratio: the clocks of a script are its own. The metric is
        that of the script's goal, and the loss where it met none."""
        name = record["name"]
        self.mlbench("run", "reference", "2", "--local", "--task", task, *options)
        compared = json.loads(self.mlbench("compare", name, "reference-2", "--json"))
        own, reference = compared["runs"]
        self.assertEqual((own["name"], reference["name"]), (name, "reference-2"))
        self.assertIn("custom", own["labels"])
        goal = record["goal"]
        self.assertEqual(own["time_to_goal_s"]["values"], [goal["train_s"]] if goal and goal["reached"] else [])
        self.assertIsNotNone(reference["samples_per_s"]["mean"])
        self.assertIn("division", reference["differs_in"])
        self.assertIn("no ratio", reference["no_ratio"])
        self.assertEqual(compared["metric"], metric)
        listed = self.mlbench("status")
        self.assertTrue(name in listed and "reference-2" in listed, listed)
        self.assertIn("Current Global Prec@1: ", self.mlbench("status", name))

    def test_mnist_tutorial(self):
        with socket.socket() as probe:  # the tutorial's port is fixed
            try:
                probe.bind(("127.0.0.1", 29500))
            except OSError:
                self.skipTest("missing capability: port 29500, which another program has")
        first_images(self.data, "train", 12000)
        first_images(self.data, "t10k", 1000)
        record = self.run_script("tutorial", "mnist_tutorial.py", "--data", self.data)
        self.check_record(record, ["Prec@1", "Prec@5"])
        self.check_goal(record, 80)
        losses = [epoch["train_loss"] for epoch in record["epochs"]]
        self.assertEqual(losses, sorted(losses, reverse=True))
        self.check_beside(record, "Prec@1", "mnist", "--max-steps", "2")

    def test_cifar10_resnet20(self):
        made_cifar(self.data, 640, 128)
        options = ["--backend", "{backend}", "--root-dataset", self.data]
        record = self.run_script("cifar", "cifar10_resnet20.py", *options, "--light")
        self.check_record(record, ["Prec@1", "Prec@5"])
        self.check_goal(record, 70)
        kinds = "batch_load init fwd_pass comp_loss backprop agg opt_step comp_metrics".split()
        self.check_steps(record, kinds)
        logs = self.mlbench("logs", "cifar-2", "--rank", "1")
        self.assertIn("Goal Reached!", logs)
        # The checkpoints lie in the run's folder; the mean of the ranks' models is evaluated for each.
        folder = os.path.join(self.environment["MLBENCH_HOME"], "runs", "cifar-2", "script")
        checkpoints = os.path.join(folder, "checkpoint")
        epochs = range(1, len(record["epochs"]) + 1)
        names = ["%d_%d.pth.tar" % (epoch, rank) for epoch in epochs for rank in range(2)]
        found = [name for name in os.listdir(os.path.join(checkpoints, "allreduce")) if name.endswith(".pth.tar")]
        self.assertEqual(sorted(found), sorted([*names, "model_best.pth.tar"]))
        kept = os.path.join(self.folder, "kept")
        shutil.copytree(checkpoints, kept)
        options += ["--root-checkpoint", kept, "--root-output", os.path.join(self.folder, "evaluated")]
        evaluated = self.run_script("evaluated", "cifar10_resnet20.py", *options, "--validation_only")
        self.assertEqual((evaluated["state"], evaluated["epochs"]), ("finished", []))
        with open(os.path.join(self.folder, "evaluated", "allreduce", "val_stats.json"), encoding="utf-8") as file:
            stats = json.load(file)
        self.assertEqual([one["epoch"] for one in stats], list(epochs))
        self.assertGreaterEqual(stats[-1]["Prec@1"], 60)
        self.check_beside(record, "Prec@1", "1a", "--synthetic", "--max-steps", "2")

    def test_epsilon_logistic_regression(self):
        made_rows(self.data, 2000, 400)
        options = ["--backend", "{backend}", "--root-dataset", self.data]
        record = self.run_script("epsilon", "epsilon_logistic_regression.py", *options)
        self.check_record(record, ["Prec@1", "F1-Score", "Dice Coefficient"])
        self.check_goal(record, 89)
        kinds = "batch_load init fwd_pass comp_loss backprop agg opt_step comp_metrics".split()
        self.check_steps(record, kinds)

    def test_epsilon_sample(self):
        """The published rows that are here are too few for the goal: all 20 epochs pass, and the loss falls."""
        for part, path in zip(("train", "test"), data_of("svm/epsilon_subset.train.gz", "svm/epsilon_subset.test.gz")):
            shutil.copyfile(path, os.path.join(self.data, "epsilon_%s.gz" % part))
        options = ["--backend", "{backend}", "--root-dataset", self.data]
        record = self.run_script("sample", "epsilon_logistic_regression.py", *options)
        self.check_record(record, ["Prec@1", "F1-Score", "Dice Coefficient"])
        self.assertEqual(len(record["epochs"]), 20)
        self.assertLess(record["epochs"][-1]["train_loss"], record["epochs"][0]["train_loss"])
        self.assertFalse(record["goal"] and record["goal"]["reached"])
        self.check_beside(record, "loss", "2a", "--data", "epsilon-sample", "--max-epochs", "2")

    def test_published_images(self):
        """CIFAR-10 as it was published, from its archive."""
        data_of("cifar-10/cifar-10-binary.tar.xz")
        from mlbench_core.dataset.imagerecognition.pytorch import CIFAR10V1

        images = CIFAR10V1(DATA, train=False)
        self.assertEqual(len(images), 10000)
        self.assertEqual([images.targets.count(label) for label in range(10)], [1000] * 10)
        self.assertEqual(images[0][1], 3)  # a cat


if __name__ == "__main__":
    unittest.main()
