"""Runs train_dist.py with two ranks on made data, and looks at what they reported."""

import gzip
import json
import os
import random
import re
import socket
import struct
import subprocess
import sys
import tempfile
import unittest
import urllib.request
import zipfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
CLIENT = os.path.join(FOLDER, "..", "..", "python")
sys.path.insert(0, os.path.join(FOLDER, "..", "..", "tests", "master"))

from serving import serving  # noqa: E402

MLBENCH = os.environ.get("MLBENCH_TEST_MLBENCH")

try:
    import torch  # noqa: F401
except ImportError:
    torch = None


def write_idx(path, shape, content):
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(struct.pack(">HBB", 0, 8, len(shape)) + struct.pack(">%dI" % len(shape), *shape) + bytes(content))


def make_data(folder, part, count):
    """Images whose class is the row that is bright: easy to learn."""
    draw = random.Random(part)
    labels, pixels = [], bytearray()
    for _ in range(count):
        label = draw.randrange(10)
        labels.append(label)
        image = bytearray(draw.randrange(40) for _ in range(28 * 28))
        for row in (2 * label + 3, 2 * label + 4):
            image[28 * row : 28 * row + 28] = bytes([230]) * 28
        pixels += image
    write_idx(os.path.join(folder, part + "-images-idx3-ubyte.gz"), (count, 28, 28), pixels)
    write_idx(os.path.join(folder, part + "-labels-idx1-ubyte.gz"), (count,), labels)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@unittest.skipIf(torch is None, "missing capability: torch")
class TrainDist(unittest.TestCase):
    def test_two_ranks_train_to_the_goal(self):
        with tempfile.TemporaryDirectory() as folder:
            make_data(folder, "train", 1280)
            make_data(folder, "t10k", 256)
            environment = dict(
                os.environ, PYTHONPATH=CLIENT, MLBENCH_RUN_DIR=folder, MASTER_PORT=str(free_port()), OMP_NUM_THREADS="1"
            )
            environment.pop("MLBENCH_URL", None)
            ranks = [
                subprocess.Popen(
                    [sys.executable, os.path.join(FOLDER, "train_dist.py"), "7", str(rank), "127.0.0.1,127.0.0.1"]
                    + ["--data", folder, "--epochs", "20", "--target", "60"],
                    env=environment,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                for rank in range(2)
            ]
            logs = [rank.communicate(timeout=300)[1] for rank in ranks]
            self.assertEqual([rank.returncode for rank in ranks], [0, 0], logs)
            self.assertTrue(all("Goal Reached!" in log for log in logs), logs)
            lines = []
            for rank in range(2):
                with open(os.path.join(folder, "metrics", "rank-%d.jsonl" % rank), encoding="utf-8") as file:
                    lines.append([json.loads(line) for line in file])
        # Both ranks saw the same accuracy; rank 0 reported it, and the result.
        results = [line["text"]["TaskResult"] for line in lines[0] if "text" in line]
        self.assertEqual(len(results), 1)
        self.assertRegex(results[0], r"^60% Top 1 Validation Accuracy reached in \d+\.\d{3} seconds, Compute: ")
        accuracy = [line["values"]["val_global_Prec@1"] for line in lines[0] if "val_global_Prec@1" in line["values"]]
        self.assertGreaterEqual(accuracy[-1], 60)
        self.assertFalse(any("val_global_Prec@1" in line["values"] for line in lines[1]))
        self.assertTrue(all(line["rank"] == 1 for line in lines[1]))
        losses = [line["values"]["train_loss"] for line in lines[1] if "train_loss" in line["values"]]
        self.assertLess(losses[-1], losses[0])
        # The parts of the result are what the totals say.
        totals = next(line["values"] for line in lines[0] if "text" in line)
        compute = float(re.search(r"Compute: ([0-9.e-]+) seconds", results[0]).group(1))
        kinds = ("fwd_pass", "comp_loss", "backprop", "opt_step")
        self.assertAlmostEqual(compute, sum(totals["global_cum_" + kind] for kind in kinds), places=9)

    @unittest.skipIf(MLBENCH is None, "missing capability: mlbench")
    def test_as_a_run_of_a_master(self):
        with tempfile.TemporaryDirectory() as folder:
            make_data(folder, "train", 1280)
            make_data(folder, "t10k", 256)
            environment = dict(
                os.environ, MLBENCH_HOME=os.path.join(folder, "home"), MLBENCH_CORE_LOCK=os.path.join(folder, "cores")
            )

            def mlbench(*arguments):
                made = subprocess.run(
                    [MLBENCH, *arguments], env=environment, capture_output=True, text=True, timeout=300, check=False
                )
                self.assertEqual(made.returncode, 0, made.stderr)
                return made.stdout

            os.mkdir(environment["MLBENCH_HOME"])
            address = self.enterContext(serving(environment["MLBENCH_HOME"], environment=environment))
            script = [sys.executable, os.path.join(FOLDER, "train_dist.py"), "{run_id}", "{rank}", "{hosts}"]
            script += ["--backend", "{backend}", "--data", folder, "--epochs", "20", "--target", "60"]
            record = json.loads(mlbench("run", "mnist", "2", "--json", "--env", "PYTHONPATH=" + CLIENT, "--", *script))[0]
            self.assertEqual((record["state"], record["exit_codes"]), ("finished", [0, 0]))
            self.assertTrue(record["goal"]["reached"])
            self.assertGreater(record["clocks"]["train_s"], 0)
            self.assertGreaterEqual(record["evaluations"][-1]["metrics"]["Prec@1"], 60)
            self.assertRegex(record["custom"]["result"], "^60% Top 1 Validation Accuracy reached in ")

            with open(address["token_file"], encoding="utf-8") as file:
                token = {"Authorization": "Bearer " + file.read().strip()}
            url = address["url"] + "/api/v1/runs/mnist-2/series?split=train&metric=loss"
            with urllib.request.urlopen(urllib.request.Request(url, headers=token), timeout=60) as answer:
                series = json.load(answer)["series"]
            self.assertEqual([one["rank"] for one in series], [0, 1])
            self.assertEqual(series[0]["count"], len(record["epochs"]))
            self.assertAlmostEqual(series[0]["points"]["mean"][-1], record["epochs"][-1]["train_loss"])

            archive = os.path.join(folder, "mnist.zip")
            mlbench("download", "mnist-2", "-o", archive)
            with zipfile.ZipFile(archive) as members:
                self.assertEqual(members.read("official_result.txt").decode(), record["custom"]["result"])
                losses = json.loads(members.read("result_train_loss @ 1.json"))
            self.assertEqual(len(losses), len(record["epochs"]))
            mlbench("charts", "-o", os.path.join(folder, "charts"), "--format", "csv")
            self.assertIn("Current Global Prec@1: ", mlbench("status", "mnist-2"))


if __name__ == "__main__":
    unittest.main()
