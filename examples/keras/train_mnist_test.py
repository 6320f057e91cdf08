"""Runs train_mnist.py with Keras and TensorFlow as a custom run of two ranks, and looks at what they reported."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(FOLDER, "..", "..")
CLIENT = os.path.join(ROOT, "python")
sys.path[:0] = [os.path.join(FOLDER, "..", "pytorch"), os.path.join(ROOT, "bench")]

from keras_peer_test import python_of_keras  # noqa: E402
from train_dist_test import make_data  # noqa: E402

MLBENCH = os.environ["MLBENCH_TEST_MLBENCH"]
PYTHON = None  # one with Keras

# Two ranks with half a batch each end where one with the whole batch does.
HALVES = """
import os, sys
sys.path.insert(0, sys.argv[1])
import keras, numpy
from ranks import Ranks
from train_mnist import AveragingAdam
ranks = Ranks(os.environ)
assert ranks.sums([1, 10 * ranks.rank]) == [2, 10], ranks.sums([1, 10 * ranks.rank])
draw = numpy.random.default_rng(1)
x, y = draw.random((8, 5), numpy.float32), draw.integers(3, size=8)
weights = []
for optimizer, part in ((AveragingAdam(ranks, learning_rate=0.1), slice(ranks.rank, None, 2)),
                        (keras.optimizers.Adam(learning_rate=0.1), slice(None))):
    keras.utils.set_random_seed(7)
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3, activation="softmax")])
    start = model.get_weights()
    model.compile(optimizer, "sparse_categorical_crossentropy", jit_compile=False)
    model.fit(x[part], y[part], batch_size=8, epochs=5, shuffle=False, verbose=0)
    weights.append(model.get_weights())
for own, whole, before in zip(*weights, start):
    numpy.testing.assert_allclose(own, whole, rtol=1e-4, atol=1e-5)
    assert numpy.abs(own - before).max() > 0.1, own
print("equal")
"""

SEVERAL_STEPS_AT_ONCE = """
import sys
sys.path.insert(0, sys.argv[1])
import keras, numpy
from mlbench import TopKAccuracy, Tracker
from tracker_callback import TrackerCallback
model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3, activation="softmax")])
model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"], steps_per_execution=2)
data = numpy.zeros((8, 5)), numpy.zeros(8)
callback = TrackerCallback(Tracker([TopKAccuracy(1)], "1", 0), 4, 8)
try:
    model.fit(*data, batch_size=4, validation_data=data, verbose=0, callbacks=[callback])
except ValueError as error:
    print(error)
"""


class AsARun(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.environment = dict(
            os.environ,
            MLBENCH_HOME=os.path.join(self.folder, "home"),
            MLBENCH_CORE_LOCK=os.path.join(self.folder, "cores"),
        )

    def run_of(self, *words):
        """The record of a run of two ranks."""
        made = subprocess.run(
            [MLBENCH, "run", "keras", "2", "--local", "--json", "--env", "PYTHONPATH=" + CLIENT, "--", PYTHON, "-B", *words],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        self.assertEqual(made.returncode, 0, made.stderr)
        record = json.loads(made.stdout)[0]
        self.assertEqual((record["state"], record["exit_codes"]), ("finished", [0, 0]))
        return record

    def test_two_ranks_train_to_the_goal(self):
        make_data(self.folder, "train", 1283)
        make_data(self.folder, "t10k", 257)
        words = [os.path.join(FOLDER, "train_mnist.py"), "{run_id}", "--data", self.folder, "--batch-size", "32"]
        record = self.run_of(*words, "--epochs", "20", "--target", "60", "--lr", "1e-3")
        self.assertTrue(record["goal"]["reached"])
        self.assertRegex(record["custom"]["result"], "^60% Top 1 Validation Accuracy reached in ")
        self.assertGreaterEqual(record["evaluations"][-1]["metrics"]["Prec@1"], 60)
        epochs = len(record["epochs"])
        self.assertEqual(len(record["evaluations"]), epochs)
        self.assertLess(record["evaluations"][-1]["metrics"]["loss"], 2.3)  # what guessing has
        self.assertGreater(record["steps_s"]["backprop"], 0)
        self.assertGreater(record["throughput"]["samples_per_s"], 0)
        # 20 full batches of each rank and epoch; the accuracy is that of all 257 samples, and rank 0 alone says it.
        lines = [self.lines_of(record, rank) for rank in range(2)]
        for rank in range(2):
            last = lines[rank][-1]
            self.assertEqual((last["step"], last["samples"]), (20 * epochs, 32 * 20 * epochs))
        right = record["evaluations"][-1]["metrics"]["Prec@1"] * 257 / 100
        self.assertAlmostEqual(right, round(right), places=6)
        self.assertFalse(any("val_global_Prec@1" in line["values"] for line in lines[1]))
        rates = [line["values"]["lr"] for line in lines[1] if "lr" in line["values"]]
        self.assertAlmostEqual(rates[0], 2e-3, delta=1e-9)  # Keras has it as a float32

    def lines_of(self, record, rank):
        path = os.path.join(self.environment["MLBENCH_HOME"], "runs", "keras-2", "metrics", "rank-%d.jsonl" % rank)
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def test_two_ranks_are_one_with_their_batches(self):
        self.run_of("-c", HALVES, FOLDER)
        for rank in range(2):
            said = subprocess.run(
                [MLBENCH, "logs", "keras-2", "--rank", str(rank), "--stdout"],
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
            self.assertIn("equal", said.stdout)

    def test_several_steps_at_once_are_refused(self):
        said = subprocess.run(
            [PYTHON, "-B", "-c", SEVERAL_STEPS_AT_ONCE, FOLDER],
            env=dict(self.environment, PYTHONPATH=CLIENT),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        self.assertEqual(said.stdout, "steps_per_execution is 2; expected 1, so that each step has its time\n", said.stderr)


if __name__ == "__main__":
    PYTHON = python_of_keras()
    unittest.main()
