#!/usr/bin/env python3
"""The first steps of Tiny ImageNet are those of PyTorch, in small: tiny_imagenet_losses.py with few images in a step.

    tiny_imagenet_losses_test.py       needs MLBENCH_TEST_MLBENCH, MLBENCH_DATA_DIR, PyTorch and Pillow in MLBENCH_TEST_PYTHON
"""
import json
import os
import pathlib
import subprocess
import sys

BENCH = pathlib.Path(__file__).resolve().parent
PACKED = "tiny-imagenet-10/tiny-imagenet-10.tar.gz"
STEPS, BATCH = 2, 16
SKIPPED = 77


def missing(python, data):
    if not data or not (pathlib.Path(data) / PACKED).is_file():
        return f"MLBENCH_DATA_DIR with {PACKED}"
    if not python or subprocess.run([python, "-c", "import numpy, torch, PIL"], stderr=subprocess.DEVNULL).returncode != 0:
        return "PyTorch and Pillow"
    return ""


def main():
    python, data = os.environ.get("MLBENCH_TEST_PYTHON"), os.environ.get("MLBENCH_DATA_DIR")
    if lack := missing(python, data):
        print(f"tiny_imagenet_losses_test.py: skipped, missing capability: {lack}")
        return SKIPPED
    binaries = pathlib.Path(os.environ["MLBENCH_TEST_MLBENCH"]).parent
    done = subprocess.run([sys.executable, "-B", BENCH / "tiny_imagenet_losses.py", "--data-dir", data, "--bin", binaries,
                           "--steps", str(STEPS), "--batch", str(BATCH), "--threads", "1", "--python", python,
                           "--images-python", python], stdout=subprocess.PIPE, text=True)
    print(done.stdout)
    result = json.loads(done.stdout)
    assert done.returncode == 0 and result["within"], result["largest_difference"]
    assert len(result["losses"]) == STEPS
    # Steps that change nothing would agree, too.
    moved = max(abs(a - b) for a, b in zip(result["losses"], result["losses"][1:]))
    assert moved > 10 * result["limit"], result["losses"]
    return 0


if __name__ == "__main__":
    sys.exit(main())
