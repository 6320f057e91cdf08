#!/usr/bin/env python3
"""The first steps of Tiny ImageNet are those of PyTorch, in small: tiny_imagenet_losses.py with one rank
and few images in a step.

    tiny_imagenet_losses_test.py       needs MLBENCH_TEST_MLBENCH, MLBENCH_DATA_DIR, PyTorch and Pillow in MLBENCH_TEST_PYTHON
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

BENCH = pathlib.Path(__file__).resolve().parent
PACKED = "tiny-imagenet-10/tiny-imagenet-10.tar.gz"
RANKS, STEPS, BATCH = 1, 2, 16
SKIPPED = 77


def missing(python, data):
    if not data or not (pathlib.Path(data) / PACKED).is_file():
        return f"MLBENCH_DATA_DIR with {PACKED}"
    if not python or subprocess.run([python, "-c", "import numpy, torch, PIL"], stderr=subprocess.DEVNULL).returncode != 0:
        return "PyTorch and Pillow"
    return ""


# It makes a start, and dark and bright images: what the peer's whole training wants.
MADE = """
import json, pathlib, struct, sys
import numpy, torch
import tiny_imagenet_peer as peer
folder = pathlib.Path(sys.argv[1])
labels = numpy.arange(24) % 2
images = numpy.random.default_rng(1).integers(0, 100, (24, 16, 16, 3)) + 150 * labels[:, None, None, None]
images = images.astype(numpy.uint8)
numpy.savez(folder / "images.npz", train=images, train_labels=labels, val=images, val_labels=labels)
torch.manual_seed(1)
header, data = {}, b""
for name, tensor in peer.make_model(10).state_dict().items():
    if tensor.dtype == torch.float32:
        held = tensor.numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(held)]}
        data += held
text = json.dumps(header).encode()
(folder / "start.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
"""


def check_peer(python):
    """A whole training with evaluations. On one rank: of five tries with two, beside other work, one did not end."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-B", "-c", MADE, folder], check=True, env={**os.environ, "PYTHONPATH": str(BENCH)})
        done = subprocess.run([python, "-B", BENCH / "tiny_imagenet_peer.py", "train", f"{folder}/images.npz",
                               f"{folder}/start.safetensors", "--batch", "8"], stdout=subprocess.PIPE, check=True)
    found = json.loads(done.stdout)
    assert (len(found["losses"]), len(found["top1"])) == (45, 15), found
    assert found["top1"][-1] == 100, found["top1"]


def main():
    python, data = os.environ.get("MLBENCH_TEST_PYTHON"), os.environ.get("MLBENCH_DATA_DIR")
    if lack := missing(python, data):
        print(f"tiny_imagenet_losses_test.py: skipped, missing capability: {lack}")
        return SKIPPED
    binaries = pathlib.Path(os.environ["MLBENCH_TEST_MLBENCH"]).parent
    done = subprocess.run([sys.executable, "-B", BENCH / "tiny_imagenet_losses.py", "--data-dir", data, "--bin", binaries,
                           "--ranks", str(RANKS), "--steps", str(STEPS), "--batch", str(BATCH), "--threads", "1",
                           "--python", python, "--images-python", python], stdout=subprocess.PIPE, text=True)
    print(done.stdout)
    result = json.loads(done.stdout)
    assert done.returncode == 0 and result["within"], result["largest_difference"]
    assert len(result["losses"]) == STEPS
    assert result["first_steps_within_limit"] >= 1, result  # all ranks' samples have the loss of one start
    # Steps that change nothing would agree, too.
    moved = max(abs(a - b) for a, b in zip(result["losses"], result["losses"][1:]))
    assert moved > 10 * result["limit"], result["losses"]
    check_peer(python)
    return 0


if __name__ == "__main__":
    sys.exit(main())
