#!/usr/bin/env python3
"""Does training from JPEG files take the steps of PyTorch? The losses of the first steps of bench/tasks/tiny-imagenet.toml on
one rank, from one stored start, on the same samples in the same order with the same augmentation.

    tiny_imagenet_losses.py --data-dir DIR [--bin build/release/bin] [--steps 20] [--output FILE]

DIR has the folder tiny-imagenet-10, unpacked or with tiny-imagenet-10.tar.gz. The start is the checkpoint of a run whose
steps are emulated. Order and augmentation are computed here from the seed, by the random numbers of
src/mlbench/base/random.h, and Pillow decodes the images. The learning rates are those of the step records. --python is a
Python with PyTorch (default: that of bench/setup_peer.sh), --images-python one with NumPy and Pillow.

PyTorch goes the same way twice, the second time with channels last: its additions have another order then, so they round
differently, and from step to step this grows. A loss may differ by --limit, or by twice what PyTorch differs from itself up to
that step. Prints what it found as JSON, with the number of first steps within --limit alone; exits with 1 where one differs
by more.
"""
import argparse
import itertools
import json
import os
import pathlib
import struct
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
TASK = ROOT / "bench" / "tasks" / "tiny-imagenet.toml"
SIDE, PAD, CLASSES = 64, 8, 10
MEAN, STDDEV = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
MOMENTUM, WEIGHT_DECAY = 0.9, 5e-4
SHUFFLE, AUGMENT = 2, 3  # streams of base/random.h
MASK = 2**32 - 1


# ---- order and augmentation: base/random.cpp, data/shard.cpp, data/transform.cpp ----------------------------------------


def philox(key, low, high):
    """Four numbers of 32 bits (Philox4x32-10)."""
    c = [low & MASK, low >> 32, high & MASK, high >> 32]
    k0, k1 = key & MASK, key >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [p1 >> 32 ^ c[1] ^ k0, p1 & MASK, p0 >> 32 ^ c[3] ^ k1, p0 & MASK]
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c


def derive_key(seed, *labels):
    for position, label in enumerate(labels, 1):
        low, high, *_ = philox(seed, label, position)
        seed = high << 32 | low
    return seed


def numbers(key):
    """Numbers of 64 bits without end."""
    counter = 0
    while True:
        a, b, c, d = philox(key, counter, 0)
        yield b << 32 | a
        yield d << 32 | c
        counter += 1


def below(bound, source):
    product = next(source) * bound
    if product % 2**64 < bound:
        while product % 2**64 < (2**64 - bound) % bound:
            product = next(source) * bound
    return product >> 64


def order(samples, seed, epoch):
    """The samples of an epoch, by Fisher and Yates."""
    source, shuffled = numbers(derive_key(seed, SHUFFLE, epoch)), list(range(samples))
    for left in range(samples, 1, -1):
        chosen = below(left, source)
        shuffled[left - 1], shuffled[chosen] = shuffled[chosen], shuffled[left - 1]
    return shuffled


def crop(seed, epoch, sample):
    """(top, left, mirrored) of the square within the padded image."""
    top, left, flip, _ = philox(derive_key(seed, AUGMENT, epoch), sample, 0)
    return top * (2 * PAD + 1) >> 32, left * (2 * PAD + 1) >> 32, bool(flip & 1)


# ---- what the parts are made of -----------------------------------------------------------------------------------------


def write_batches(folder, options):
    """Pixels, cut as in the first steps, and labels. Of --images-python."""
    import numpy
    import PIL.Image
    train = options.data_dir / "tiny-imagenet-10" / "train"
    classes = sorted(path.name for path in train.iterdir() if path.is_dir())
    samples = [(path, label) for label, name in enumerate(classes) for path in sorted((train / name).rglob("*.JPEG"))]
    chosen = order(len(samples), options.seed, 0)[:options.steps * options.batch]
    if len(chosen) < options.steps * options.batch:
        raise SystemExit(f"{options.steps} steps of {options.batch} are more than an epoch of {len(samples)} samples")
    pixels = numpy.zeros((len(chosen), SIDE, SIDE, 3), numpy.uint8)
    for number, sample in enumerate(chosen):
        top, left, mirrored = crop(options.seed, 0, sample)
        padded = numpy.zeros((SIDE + 2 * PAD, SIDE + 2 * PAD, 3), numpy.uint8)
        padded[PAD:-PAD, PAD:-PAD] = numpy.asarray(PIL.Image.open(samples[sample][0]).convert("RGB"))
        square = padded[top:top + SIDE, left:left + SIDE]
        pixels[number] = square[:, ::-1] if mirrored else square
    labels = numpy.array([samples[sample][1] for sample in chosen])
    numpy.savez(folder / "batches.npz", pixels=pixels, labels=labels)


def make_model():
    """ResNet-18 with a stem of 3 x 3, its tensors named as in our checkpoints."""
    import collections
    import torch.nn as nn
    import torch.nn.functional as F

    def convolution(inputs, outputs, kernel, stride):
        return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)

    def in_order(*parts):
        return nn.Sequential(collections.OrderedDict(parts))

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.conv1, self.bn1 = convolution(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
            self.conv2, self.bn2 = convolution(outputs, outputs, 3, 1), nn.BatchNorm2d(outputs)
            self.shortcut = nn.Sequential()
            if stride != 1:
                self.shortcut = in_order(("conv", convolution(inputs, outputs, 1, stride)), ("bn", nn.BatchNorm2d(outputs)))

        def forward(self, x):
            y = F.relu(self.bn1(self.conv1(x)))
            return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))

    def stage(inputs, outputs):
        return in_order(("block1", Block(inputs, outputs, outputs // inputs)), ("block2", Block(outputs, outputs, 1)))

    stem = in_order(("conv", convolution(3, 64, 3, 1)), ("bn", nn.BatchNorm2d(64)), ("relu", nn.ReLU()))
    return in_order(("stem", stem), ("stage1", stage(64, 64)), ("stage2", stage(64, 128)), ("stage3", stage(128, 256)),
                    ("stage4", stage(256, 512)), ("pool", nn.AdaptiveAvgPool2d(1)), ("flatten", nn.Flatten()),
                    ("fc", nn.Linear(512, CLASSES)))


def read_tensors(path):
    """Of a safetensors file: src/mlbench/checkpoint/checkpoint.h."""
    import torch
    data = path.read_bytes()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:begin])
    return {name: torch.frombuffer(bytearray(data[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]]),
                                   dtype=torch.float32).reshape(entry["shape"])
            for name, entry in header.items() if name != "__metadata__" and entry["dtype"] == "F32"}


def train_by_torch(folder, options):
    """Prints the losses. Of --python."""
    import numpy
    import torch
    torch.set_num_threads(options.threads)
    layout = torch.channels_last if options.channels_last else torch.contiguous_format
    model = make_model()
    tensors = read_tensors(next((folder / "home/runs/start-1/checkpoints").glob("step-*/model.safetensors")))
    for name, tensor in model.state_dict().items():
        if not name.endswith("num_batches_tracked"):
            tensor.copy_(tensors[name])
    model = model.to(memory_format=layout)
    batches = numpy.load(folder / "batches.npz")
    mean, stddev = (torch.tensor(values, dtype=torch.float32).reshape(3, 1, 1) for values in (MEAN, STDDEV))
    optimizer = torch.optim.SGD(model.parameters(), lr=1, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY)
    losses = []
    for step, rate in enumerate(options.rates):
        here = slice(step * options.batch, (step + 1) * options.batch)
        pixels = torch.from_numpy(batches["pixels"][here]).permute(0, 3, 1, 2).float()
        images = ((pixels / 255 - mean) / stddev).contiguous(memory_format=layout)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), torch.from_numpy(batches["labels"][here]))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(json.dumps({"torch": torch.__version__, "losses": losses}))


def losses_and_rates(path):
    """Of the steps of a file of step records."""
    sys.path.insert(0, str(ROOT / "tools"))
    import rederive
    records = rederive.read_steps(path)[1]
    if any(record.count > 1 for record in records):
        raise SystemExit(f"{path}: several steps in a record, which has one sum of their losses")
    return [record.loss_sum / record.samples for record in records], [record.lr for record in records]


# ---- the comparison -----------------------------------------------------------------------------------------------------


def train_by_mlbench(folder, name, steps, options, *more):
    subprocess.run([options.bin / "mlbench", "run", name, "1", "--local", "--task", TASK, "--data-dir", options.data_dir,
                    "--framework", options.framework, "-c", str(options.threads), "--seed", str(options.seed), "--max-steps",
                    str(steps), "--set", f"batch_size={options.batch}", "--set", f"global_batch={options.batch}", *more],
                   env={**os.environ, "MLBENCH_HOME": str(folder / "home"), "MLBENCH_CORE_LOCK": str(folder / "lock")},
                   check=True, stdout=sys.stderr)


def part(python, *words):
    done = subprocess.run([python, "-B", __file__, *map(str, words)], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout) if done.stdout else None


def verdict(ours, torch, torch_again, limit):
    """What follows from the losses."""
    away = [abs(a - b) for a, b in zip(ours, torch, strict=True)]
    own = list(itertools.accumulate((abs(a - b) for a, b in zip(torch_again, torch, strict=True)), max))
    first_steps = lambda differences: len(list(itertools.takewhile(lambda one: one <= limit, differences)))
    return {"limit": limit, "largest_difference": max(away), "torch_from_itself": own[-1],
            "first_steps_within_limit": first_steps(away), "torch_first_steps_within_limit": first_steps(own),
            "within": all(one <= max(limit, 2 * its) for one, its in zip(away, own))}


def compare(folder, options):
    # The gradients of an emulated step are zeros, so without weight decay its checkpoint is the start. Such a run writes
    # none at its end.
    train_by_mlbench(folder, "start", 2, options, "--compute", "emulated=0.01ms", "--checkpoint-every", "1", "--set",
                     "optimizer.weight_decay=0")
    train_by_mlbench(folder, "steps", options.steps, options)
    ours, rates = losses_and_rates(folder / "home/runs/steps-1/spool/rank-0.seg-1.steps")
    same = ["--data-dir", options.data_dir, "--batch", options.batch, "--seed", options.seed, "--threads", options.threads,
            "--steps", options.steps]
    part(options.images_python, "--images", folder, *same)
    torch = ["--torch", folder, *same, "--rates", *map(repr, rates)]
    peer = part(options.python, *torch)
    other = part(options.python, *torch, "--channels-last")
    return {"framework": options.framework, "torch": peer["torch"], "batch": options.batch, "seed": options.seed,
            "threads": options.threads, "learning_rates": rates, "losses": ours, "torch_losses": peer["losses"],
            "torch_losses_channels_last": other["losses"], **verdict(ours, peer["losses"], other["losses"], options.limit)}


def unpacked(data_dir, folder):
    """The folder above the images."""
    packed = data_dir / "tiny-imagenet-10" / "tiny-imagenet-10.tar.gz"
    if not packed.is_file():
        return data_dir
    with tarfile.open(packed) as archive:
        archive.extractall(folder / "data", filter="data")
    return folder / "data"


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
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--limit", type=float, default=1e-3)
    parser.add_argument("--python", help="a Python with PyTorch (default: what bench/setup_peer.sh prints)")
    parser.add_argument("--images-python", default="/usr/bin/python3", help="one with NumPy and Pillow (default: %(default)s)")
    parser.add_argument("--output", type=pathlib.Path, help="where to write the JSON, too")
    parser.add_argument("--images", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--torch", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--channels-last", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--rates", type=float, nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.images:
        return write_batches(options.images, options)
    if options.torch:
        return train_by_torch(options.torch, options)
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
