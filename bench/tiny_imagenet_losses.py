#!/usr/bin/env python3
"""Does training from JPEG files take the steps of PyTorch? The losses of the first steps of bench/tasks/tiny-imagenet.toml,
from one stored start, on the same samples in the same order with the same augmentation (tiny_imagenet_peer.py).

    tiny_imagenet_losses.py --data-dir DIR [--bin build/release/bin] [--ranks 1] [--steps 20] [--output FILE]

DIR has the folder tiny-imagenet-10, unpacked or with tiny-imagenet-10.tar.gz. The start is the checkpoint of a run whose
steps are emulated. A loss is that of the batch of all ranks. --python is a Python with PyTorch (default: that of
bench/setup_peer.sh), --images-python one with NumPy and Pillow.

PyTorch goes the same way twice, the second time with channels last: its additions have another order then, so they round
differently, and from step to step this grows. A loss may differ by --limit, or by twice what PyTorch differs from itself up to
that step. Prints what it found as JSON. `all_within_limit` is the verdict by --limit alone, `torch_all_within_limit` the same of
PyTorch beside itself. Exits with 1 where a loss differs by more than it may.
"""
import argparse
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

import tiny_imagenet_peer

ROOT = pathlib.Path(__file__).resolve().parents[1]
# The gradients of an emulated step are zeros, so without weight decay its checkpoint is the start. Such a run writes none at
# its end.
START = ["--max-steps", "2", "--compute", "emulated=0.01ms", "--checkpoint-every", "1", "--set", "optimizer.weight_decay=0"]


def start_of(run):
    """The parameters in the folder of a run by START."""
    return next((run / "checkpoints").glob("step-*/model.safetensors"))


def losses_of(spool):
    """Of the batches of all ranks, from their step records."""
    sys.path.insert(0, str(ROOT / "tools"))
    import rederive
    ranks = [rederive.read_steps(path)[1] for path in sorted(spool.glob("rank-*.seg-1.steps"))]
    if any(record.count > 1 for records in ranks for record in records):
        raise SystemExit(f"{spool}: several steps in a record, which has one sum of their losses")
    return [sum(record.loss_sum for record in step) / sum(record.samples for record in step)
            for step in zip(*ranks, strict=True)]


# ---- the comparison -----------------------------------------------------------------------------------------------------


def train_by_mlbench(folder, name, ranks, options, *more):
    """The folder of the run."""
    subprocess.run([options.bin / "mlbench", "run", name, str(ranks), "--local", "--task", tiny_imagenet_peer.TASK,
                    "--data-dir", options.data_dir, "--framework", options.framework, "-c", str(options.threads), "--seed",
                    str(options.seed), "--set", f"batch_size={options.batch}", "--set", f"global_batch={options.batch}", *more],
                   env={**os.environ, "MLBENCH_HOME": str(folder / "home"), "MLBENCH_CORE_LOCK": str(folder / "lock")},
                   check=True, stdout=sys.stderr)
    return folder / f"home/runs/{name}-{ranks}"


def peer(python, *words):
    """What tiny_imagenet_peer.py prints."""
    done = subprocess.run([python, "-B", ROOT / "bench/tiny_imagenet_peer.py", *map(str, words)], check=True,
                          stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout) if done.stdout else None


def verdict(ours, torch, torch_again, limit):
    """What follows from the losses."""
    away = [abs(a - b) for a, b in zip(ours, torch, strict=True)]
    own = list(itertools.accumulate((abs(a - b) for a, b in zip(torch_again, torch, strict=True)), max))
    first_steps = lambda differences: len(list(itertools.takewhile(lambda one: one <= limit, differences)))
    return {"limit": limit, "largest_difference": max(away), "torch_from_itself": own[-1],
            "first_steps_within_limit": first_steps(away), "torch_first_steps_within_limit": first_steps(own),
            "all_within_limit": max(away) <= limit, "torch_all_within_limit": own[-1] <= limit,
            "within": all(one <= max(limit, 2 * its) for one, its in zip(away, own))}


def compare(folder, options):
    start = start_of(train_by_mlbench(folder, "start", 1, options, *START))
    run = train_by_mlbench(folder, "steps", options.ranks, options, "--max-steps", str(options.steps))
    ours, images = losses_of(run / "spool"), folder / "images.npz"
    peer(options.images_python, "decode", options.data_dir, images)
    words = ["train", images, start, "--batch", options.batch, "--seed", options.seed, "--ranks", options.ranks, "--threads",
             options.threads, "--steps", options.steps]
    torch = peer(options.python, *words)
    other = peer(options.python, *words, "--channels-last")
    return {"framework": options.framework, "torch": torch["torch"], "ranks": options.ranks, "batch": options.batch,
            "seed": options.seed, "threads": options.threads, "losses": ours, "torch_losses": torch["losses"],
            "torch_losses_channels_last": other["losses"], **verdict(ours, torch["losses"], other["losses"], options.limit)}


def unpacked(data_dir, folder):
    """The folder above the images, which stay in `folder`."""
    packed, target = data_dir / "tiny-imagenet-10" / "tiny-imagenet-10.tar.gz", folder / "data"
    if not packed.is_file():
        return data_dir
    if not target.exists():
        partial = folder / "data.partial"
        with tarfile.open(packed) as archive:
            archive.extractall(partial, filter="data")
        partial.rename(target)
    return target


def peer_python():
    return subprocess.run([ROOT / "bench/setup_peer.sh"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--data-dir", type=pathlib.Path, required=True)
    parser.add_argument("--framework", default="native")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--threads", type=int, help="of each rank (default: its share of the cores)")
    parser.add_argument("--limit", type=float, default=1e-3)
    parser.add_argument("--python", help="a Python with PyTorch (default: what bench/setup_peer.sh prints)")
    parser.add_argument("--images-python", default="/usr/bin/python3", help="one with NumPy and Pillow (default: %(default)s)")
    parser.add_argument("--output", type=pathlib.Path, help="where to write the JSON, too")
    options = parser.parse_args()
    options.threads = options.threads or max(1, len(os.sched_getaffinity(0)) // options.ranks)
    options.python = options.python or peer_python()
    with tempfile.TemporaryDirectory() as folder:
        options.data_dir = unpacked(options.data_dir, pathlib.Path(folder))
        result = compare(pathlib.Path(folder), options)
    text = json.dumps(result, indent=1) + "\n"
    if options.output:
        options.output.write_text(text)
    print(text, end="")
    sys.exit(0 if result["within"] else 1)


if __name__ == "__main__":
    main()
