"""Training from shards in a real store, which answers well, slowly, wrongly, or not at all: the weights are those of the disk.

    s3_training_test.py [unittest arguments]     needs MLBENCH_TEST_MLBENCH, MLBENCH_DATA_DIR, and what s3_test.py needs

The store is that of s3_test.py. Between it and the ranks stands fault_proxy.py.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

import fault_proxy
import s3_test

DATA = "tiny-imagenet-10-tar"
PLACE = "s3://images/data"
PACKED = "tiny-imagenet-10/tiny-imagenet-10.tar.gz"
WORKERS = 2
TASK = f"""name = "small"
title = "A small network on small crops"
workers = [1, 2]
loss = "cross_entropy"
batch_size = 50
global_batch = 100
epochs = 1

[data]
name = "{DATA}"
sample_shape = [3, 16, 16]
classes = 10
train_transform = ["random_resized_crop", "scale_255", "normalise"]
eval_transform = ["resize_center_crop", "scale_255", "normalise"]
mean = [0.485, 0.456, 0.406]
stddev = [0.229, 0.224, 0.225]
evaluation_batch = 100

[model]
name = "resnet-cifar"

[optimizer]
name = "centralized_sgd"
lr = 0.1

[evaluation]
every_epoch = true
metrics = ["Prec@1", "loss"]

[goal]
metric = "Prec@1"
split = "test"
target = 100
light_target = 100
"""


class StoredTraining(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="mlbench-s3-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        (cls.folder / "task.toml").write_text(TASK)
        shards = cls.folder / "data" / DATA
        cls.make_shards(shards)
        manifests = [json.loads((shards / split / "shards.json").read_text()) for split in ("train", "val")]
        cls.images = sum(manifest["samples"] for manifest in manifests)
        cls.files = [path for path in sorted(shards.rglob("*")) if path.is_file()]
        cls.swift = s3_test.Swift(cls.folder)
        cls.addClassCleanup(cls.swift.stop)
        cls.swift.put("images")
        for path in cls.files:
            cls.swift.put(f"images/{path.relative_to(cls.folder)}", path.read_bytes())
        cls.proxy = cls.enterClassContext(fault_proxy.FaultProxy(cls.swift.endpoint))
        disk = cls.run_to_end(cls.train("disk", str(cls.folder / "data")))
        cls.weights, cls.data = disk["weights_sha256"], disk["data"]
        cls.mlbench("data", "prepare", DATA, "--data-dir", PLACE)

    @classmethod
    def make_shards(cls, shards):
        with tarfile.open(pathlib.Path(os.environ["MLBENCH_DATA_DIR"]) / PACKED) as packed:
            packed.extractall(cls.folder, filter="data")
        images = cls.folder / "tiny-imagenet-10"
        cls.mlbench("data", "shard", str(images / "train"), "--format", "tar", "--shards", "8", "-o", str(shards / "train"))
        cls.mlbench("data", "shard", str(images / "val" / "images"), "--name", "val", "--format", "tar", "--shards", "1", "-o",
                    str(shards / "val"), "--list", str(images / "val" / "val_annotations.txt"), "--classes",
                    str(shards / "train" / "classes.txt"))

    def setUp(self):
        self.proxy.spoil(lambda number: None)

    @classmethod
    def start(cls, *words, **more):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        endpoint = {"AWS_ENDPOINT_URL_S3": cls.proxy.endpoint} if hasattr(cls, "proxy") else {}
        environment = {**clean, **endpoint, "AWS_ACCESS_KEY_ID": s3_test.USER, "AWS_SECRET_ACCESS_KEY": s3_test.SECRET,
                       "AWS_CONFIG_FILE": "/nonexistent", "MLBENCH_HOME": str(cls.folder / "home"),
                       "MLBENCH_CORE_LOCK": str(cls.folder / "cores"), **more}
        return subprocess.Popen([s3_test.MLBENCH, *words], env=environment, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    @classmethod
    def mlbench(cls, *words, code=0, **more):
        process = cls.start(*words, **more)
        said, _ = process.communicate(timeout=600)
        assert process.returncode == code, f"{words}: exit code {process.returncode}, expected {code}\n{said}"
        return said

    @classmethod
    def train(cls, name, place=PLACE, **more):
        process = cls.start("run", name, str(WORKERS), "--local", "--task", str(cls.folder / "task.toml"), "--data-dir", place,
                            "--framework", "native", "-c", "1", "--decoding-threads", "4", "--checkpoint-every", "10", **more)
        process.run = f"{name}-{WORKERS}"
        return process

    @classmethod
    def record_of(cls, run):
        return json.loads((cls.folder / "home" / "runs" / run / "run.json").read_text())

    @classmethod
    def run_to_end(cls, process):
        said, _ = process.communicate(timeout=600)
        assert process.returncode == 0, f"{process.run}: exit code {process.returncode}\n{said}"
        return cls.record_of(process.run)

    def check(self, record):
        """The storage of a run that has the data and weights of the disk."""
        self.assertEqual(record["weights_sha256"], self.weights)
        self.assertEqual({**record["data"], "origin": None}, {**self.data, "origin": None})
        storage = record["storage"]
        self.assertEqual(storage["kind"], "data s3, run local")
        self.assertEqual(storage["endpoint"], self.proxy.endpoint)
        self.assertEqual(storage["objects"], len(self.files))
        return storage

    def spoiled(self, name, *faults):
        """The storage of a run of whose answers one of twenty is spoiled."""
        self.proxy.spoil(fault_proxy.every(20, *faults))
        storage = self.check(self.run_to_end(self.train(name)))
        self.assertGreater(self.proxy.faults, self.images // 25)
        return storage

    def fails_and_is_resumed(self, name, fault, *texts):
        self.proxy.spoil(lambda number: fault if number > self.images // 3 else None)
        process = self.train(name)
        said, _ = process.communicate(timeout=600)
        self.assertNotEqual(process.returncode, 0, said)
        for text in ("sample ", f" of split 'train': {PLACE}/{DATA}/train/train-0000", f"mlbench resume {process.run}", *texts):
            self.assertIn(text, said)
        self.proxy.spoil(lambda number: None)
        self.mlbench("resume", process.run)
        record = self.record_of(process.run)
        storage = self.check(record)
        self.assertGreater(storage["requests"], self.images, "the first segment failed, and is in it all the same")
        self.assertGreater(storage["bytes"], 0)
        self.assertEqual([segment["start_step"] > 0 for segment in record["segments"]], [False, True])

    def test_a_cold_store(self):
        storage = self.check(self.run_to_end(self.train("cold")))
        self.assertEqual(storage["retries"], 0)
        self.assertEqual(storage["cache_hits"], 0)
        self.assertEqual(storage["requests"], self.proxy.answers + WORKERS)  # a list by each

    def test_a_cold_and_a_warm_cache(self):
        cache = {"MLBENCH_OBJECT_CACHE": str(self.folder / "objects")}
        cold = self.check(self.run_to_end(self.train("filled", **cache)))
        warm = self.check(self.run_to_end(self.train("warm", **cache)))
        shards = [path for path in self.files if path.suffix == ".tar"]
        self.assertGreaterEqual(cold["bytes"], sum(path.stat().st_size for path in shards))
        self.assertLessEqual(cold["requests"], WORKERS * (len(shards) + 1))
        self.assertEqual(warm["bytes"], 0)
        self.assertEqual(warm["requests"], WORKERS)
        self.assertGreaterEqual(warm["cache_hits"], self.images)

    def test_a_store_that_is_killed_and_started_again(self):
        process = self.train("killed")
        while process.poll() is None and self.proxy.answers < self.images // 4:
            time.sleep(0.05)
        self.swift.kill("proxy")
        time.sleep(1)
        self.assertIsNone(process.poll(), "it ended before the store was killed")
        self.swift.start_server("proxy")
        self.assertGreater(self.check(self.run_to_end(process))["retries"], 0)

    def test_cut_and_late_answers(self):
        storage = self.spoiled("cut", "cut", "delay")
        self.assertGreaterEqual(storage["retries"], self.proxy.faults // 2)
        self.assertEqual(storage["requests"], self.proxy.answers + WORKERS)

    def test_wrong_bytes_now_and_then(self):
        self.assertEqual(self.spoiled("damaged", "damage")["retries"], 0)

    def test_wrong_bytes_again_and_again(self):
        self.fails_and_is_resumed("wrong", "damage", "have the SHA-256 ", " of the index (2 reads)")

    def test_a_refusal_in_the_middle(self):
        self.fails_and_is_resumed("refused", "refuse", "the store refuses (403 AccessDenied: Not for you.)",
                                  "check that these credentials may list the bucket and read its objects")


def missing():
    if lack := s3_test.missing():
        return lack
    folder = os.environ.get("MLBENCH_DATA_DIR", "")
    return "" if folder and (pathlib.Path(folder) / PACKED).is_file() else f"MLBENCH_DATA_DIR with {PACKED}"


if __name__ == "__main__":
    if lack := missing():
        print(f"s3_training_test.py: skipped, missing capability: {lack}")
        sys.exit(77)
    unittest.main(verbosity=2)
