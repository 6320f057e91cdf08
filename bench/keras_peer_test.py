#!/usr/bin/env python3
"""keras_peer.py trains as torch_peer.py does: the same losses from one stored start, in every variant. Nothing is timed.

They are compared in float64: in float32 PyTorch is 2e-3 away from itself in float64 after three steps, for values next to
the kink of a ReLU fall on other sides. The fused batch norm has float32 alone, so its losses are compared after one step.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import keras_peer
import ratio

BENCH = pathlib.Path(__file__).resolve().parent
BATCH, STEPS = 16, 4
# Keras has the learning rate as a float32.
TOLERANCES = {"float64": [1e-7] * STEPS, "float32": [1e-5, 1e-4]}
VARIANTS = [("float64",), ("float64", "--jit-compile"), ("float32", "--fused-norm"), ("float32", "--fused-norm", "--jit-compile")]


def train_by_torch(folder):
    """Writes start and batch, and prints the losses in float64."""
    import numpy
    import torch
    import torch_peer_rank
    torch.set_num_threads(1)
    torch.manual_seed(1)
    make_model, _, shape, _, make_optimizer, arguments = torch_peer_rank.TASKS["1a"]
    model = make_model()
    images, labels = torch.rand(BATCH, *shape), torch.randint(0, 10, (BATCH,))
    numpy.savez(folder / "batch.npz", images=images.numpy(), labels=labels.numpy())
    numpy.savez(folder / "start.npz", *(value.detach().numpy() for value in model.parameters()))
    model, images = model.double(), images.double()
    optimizer = make_optimizer(model.parameters(), **arguments)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(json.dumps(losses))


def train_by_keras(folder, options):
    """Prints the losses from that start on that batch, which all ranks have."""
    import keras
    import keras_peer_rank
    import numpy
    keras.config.set_floatx(options.floats)
    average = keras_peer_rank.average_over(options)
    model = keras_peer_rank.resnet20(keras_peer_rank.FusedNorm if options.fused_norm else keras_peer_rank.keras_norm)
    values = numpy.load(folder / "start.npz").values()
    for variable, value in zip(model.trainable_variables, values, strict=True):
        variable.assign(value.transpose(2, 3, 1, 0) if value.ndim == 4 else value.T)
    batch = numpy.load(folder / "batch.npz")
    images, labels = batch["images"].transpose(0, 2, 3, 1).astype(options.floats), batch["labels"].astype(numpy.int32)
    step = keras_peer_rank.make_step(model, options.jit_compile, average)
    print(json.dumps([float(step(images, labels)) for _ in range(STEPS)]))


def python_of_keras():
    made = subprocess.run([BENCH / "setup_wheels.sh", "keras"], capture_output=True, text=True)
    if made.returncode != 0:
        print(made.stdout + made.stderr)
        print("SKIPPED: missing capability: the packages of bench/keras.txt")
        sys.exit(77)
    return made.stdout.strip()


class Peer(unittest.TestCase):
    def start(self, python, *words):
        return subprocess.Popen([python, "-B", *map(str, words)], stdout=subprocess.PIPE, text=True)

    def output(self, process):
        said, _ = process.communicate(timeout=900)
        self.assertEqual(process.returncode, 0, said)
        return said

    def test_losses_are_those_of_pytorch(self):
        with tempfile.TemporaryDirectory() as folder:
            torch = os.environ.get("MLBENCH_TEST_PYTHON")
            if not torch:
                self.skipTest("missing capability: torch")
            expected = json.loads(self.output(self.start(torch, __file__, "--torch", folder)))
            self.assertLess(expected[-1], expected[0] - 0.01)
            for floats, *variant in VARIANTS:
                process = self.start(PYTHON, __file__, "--keras", folder, "--floats", floats, *variant)
                self.check(json.loads(self.output(process)), expected, floats, variant)
            # Gradients are means over ranks: two with one batch are one with it.
            with keras_peer.cluster(2) as os.environ["TF_CONFIG"]:
                ranks = [self.start(PYTHON, __file__, "--keras", folder, "--ranks", 2, "--rank", rank) for rank in range(2)]
                for rank in ranks:
                    self.check(json.loads(self.output(rank)), expected, "float64", "two ranks")

    def check(self, losses, expected, floats, what):
        self.assertEqual((len(losses), len(expected)), (STEPS, STEPS))
        for step, tolerance in enumerate(TOLERANCES[floats]):
            self.assertAlmostEqual(losses[step], expected[step], delta=tolerance, msg=f"{what}, step {step}: {losses} {expected}")

    def test_it_says_what_ratio_compares(self):
        for words, ranks in ([], 1), (["--fused-norm", "--jit-compile", "--ranks", 2], 2):
            counts = ["--threads", 1, "--batch", 4, "--steps", 2, "--warm-up", 1]
            document = ratio.last_json(self.output(self.start(PYTHON, BENCH / "keras_peer.py", *counts, *words)))
            self.assertGreater(ratio.value_of(document, "median_samples_per_s"), 0)
            self.assertTrue(0.1 < document["first_step_s"] < 900, document)
            self.assertGreater(document["peak_rss"], 1e8, "TensorFlow alone takes more")
            self.assertEqual((document["ranks"], document["batch"], document["jit_compile"]), (ranks, 4, ranks == 2))


def main():
    global PYTHON
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", type=pathlib.Path)
    parser.add_argument("--keras", type=pathlib.Path)
    parser.add_argument("--floats", choices=TOLERANCES, default="float64")
    parser.add_argument("--fused-norm", action="store_true")
    parser.add_argument("--jit-compile", action="store_true")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--rank", type=int, default=0)
    options = parser.parse_args()
    if options.torch:
        train_by_torch(options.torch)
    elif options.keras:
        train_by_keras(options.keras, options)
    else:
        PYTHON = python_of_keras()
        unittest.main()


if __name__ == "__main__":
    main()
