#!/usr/bin/env python3
"""The peer of bench/tasks/tiny-imagenet.toml: the same training in plain PyTorch, from a start of ours, on the same samples
in the same order with the same augmentation.

    tiny_imagenet_peer.py decode DATA_DIR IMAGES                of a Python with NumPy and Pillow
    tiny_imagenet_peer.py train IMAGES START [--ranks 2]        of a Python with PyTorch and NumPy

IMAGES is the file that the first call makes of the folder tiny-imagenet-10 in DATA_DIR, START a model.safetensors. Order and
augmentation are computed here from the seed, by the random numbers of src/mlbench/base/random.h. Several ranks are processes
with DistributedDataParallel over Gloo; running statistics are averaged over them for an evaluation, as ours are. Prints one
JSON value: the loss of each step, and Prec@1 after each whole epoch.
"""
import argparse
import json
import math
import pathlib
import struct
import sys
import time
import tomllib

import torch_peer

ROOT = pathlib.Path(__file__).resolve().parents[1]
TASK = ROOT / "bench" / "tasks" / "tiny-imagenet.toml"
SHUFFLE, AUGMENT = 2, 3  # streams of base/random.h
MASK = 2**32 - 1


def task():
    return tomllib.loads(TASK.read_text())


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


def crop(key, sample, pad):
    """(top, left, mirrored) of the square within the padded image; the key is that of the epoch."""
    top, left, flip, _ = philox(key, sample, 0)
    return top * (2 * pad + 1) >> 32, left * (2 * pad + 1) >> 32, bool(flip & 1)


def cut(images, samples, key, pad):
    """Pixels of the samples, padded with zeros, cut and mirrored."""
    import numpy
    count, side = len(samples), images.shape[1]
    padded = numpy.zeros((count, side + 2 * pad, side + 2 * pad, 3), numpy.uint8)
    padded[:, pad:-pad, pad:-pad] = images[samples]
    squares = numpy.empty((count, side, side, 3), numpy.uint8)
    for square, image, sample in zip(squares, padded, samples):
        top, left, mirrored = crop(key, sample, pad)
        found = image[top:top + side, left:left + side]
        square[:] = found[:, ::-1] if mirrored else found
    return squares


def part_of(rank, ranks, samples):
    """Of a global batch, as data/shard.h has it."""
    even, larger = divmod(len(samples), ranks)
    first = rank * even + min(rank, larger)
    return samples[first:first + even + (rank < larger)]


# ---- images --------------------------------------------------------------------------------------------------------------


def samples_of(folder):
    """{split: [(file, label)]}, in the order of the index."""
    classes = sorted(path.name for path in (folder / "train").iterdir() if path.is_dir())
    train = [(path, label) for label, name in enumerate(classes) for path in sorted((folder / "train" / name).rglob("*.JPEG"))]
    rows = [line.split("\t") for line in (folder / "val/val_annotations.txt").read_text().splitlines()]
    return {"train": train, "val": [(folder / "val/images" / row[0], classes.index(row[1])) for row in rows]}


def decode(data_dir, target):
    import numpy
    import PIL.Image
    arrays = {}
    for split, samples in samples_of(data_dir / "tiny-imagenet-10").items():
        arrays[split] = numpy.stack([numpy.asarray(PIL.Image.open(path).convert("RGB")) for path, _ in samples])
        arrays[f"{split}_labels"] = numpy.array([label for _, label in samples])
    partial = target.with_name(f"{target.stem}.partial.npz")
    numpy.savez(partial, **arrays)
    partial.rename(target)


# ---- the training --------------------------------------------------------------------------------------------------------


def make_model(classes):
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
                    ("fc", nn.Linear(512, classes)))


def read_tensors(path):
    """Of a safetensors file: src/mlbench/checkpoint/checkpoint.h."""
    import torch
    data = path.read_bytes()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:begin])
    return {name: torch.frombuffer(bytearray(data[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]]),
                                   dtype=torch.float32).reshape(entry["shape"])
            for name, entry in header.items() if name != "__metadata__" and entry["dtype"] == "F32"}


def rate_of(step, steps, task):
    """Half a cosine: src/mlbench/schedule/schedule.cpp."""
    return task["optimizer"]["lr"] * (1 + math.cos(math.pi * step / (steps - 1))) / 2


class Rank:
    """One process of the training."""

    def __init__(self, options):
        import numpy
        import torch
        torch.set_num_threads(options.threads)
        self.options, self.task, self.torch = options, task(), torch
        if options.ranks > 1:
            torch.distributed.init_process_group("gloo", init_method=f"file://{options.store}", rank=options.rank,
                                                 world_size=options.ranks)
        self.images = dict(numpy.load(options.images))
        self.layout = torch.channels_last if options.channels_last else torch.contiguous_format
        self.model = make_model(self.task["data"]["classes"])
        tensors = read_tensors(options.start)
        for name, tensor in self.model.state_dict().items():
            if not name.endswith("num_batches_tracked"):
                tensor.copy_(tensors[name])
        self.model = self.net = self.model.to(memory_format=self.layout)
        if options.ranks > 1:
            self.net = torch.nn.parallel.DistributedDataParallel(self.model, gradient_as_bucket_view=True,
                                                                 broadcast_buffers=False)
        rule = self.task["optimizer"]
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=rule["lr"], momentum=rule["momentum"],
                                         weight_decay=rule["weight_decay"])

    def sum(self, tensor):
        """Over all ranks, in place."""
        if self.options.ranks > 1:
            self.torch.distributed.all_reduce(tensor)
        return tensor

    def values_of(self, pixels):
        mean, stddev = (self.torch.tensor(self.task["data"][name], dtype=self.torch.float32).reshape(3, 1, 1)
                        for name in ("mean", "stddev"))
        images = self.torch.from_numpy(pixels).permute(0, 3, 1, 2).float()
        return ((images / 255 - mean) / stddev).contiguous(memory_format=self.layout)

    def take_step(self, samples, key, rate):
        """The loss of the global batch."""
        own = part_of(self.options.rank, self.options.ranks, samples)
        images = self.values_of(cut(self.images["train"], own, key, self.task["data"]["pad"]))
        labels = self.torch.from_numpy(self.images["train_labels"][own])
        self.optimizer.param_groups[0]["lr"] = rate
        self.optimizer.zero_grad()
        loss = self.torch.nn.functional.cross_entropy(self.net(images), labels, reduction="sum") / len(samples)
        (loss * self.options.ranks).backward()  # the ranks' gradients are averaged
        self.optimizer.step()
        return self.sum(loss.detach()).item()

    def evaluate(self):
        """Prec@1 of the images for validation, by statistics that are averaged over the ranks."""
        own = [buffer.clone() for buffer in self.model.buffers()]
        for buffer in self.model.buffers():
            if buffer.is_floating_point():
                self.sum(buffer).div_(self.options.ranks)
        self.model.eval()
        right, count = self.torch.zeros(1), len(self.images["val"])
        mine = part_of(self.options.rank, self.options.ranks, range(count))
        with self.torch.no_grad():
            for first in range(mine.start, mine.stop, self.task["data"]["evaluation_batch"]):
                here = slice(first, min(mine.stop, first + self.task["data"]["evaluation_batch"]))
                found = self.model(self.values_of(self.images["val"][here])).argmax(1)
                right += (found == self.torch.from_numpy(self.images["val_labels"][here])).sum()
            for buffer, value in zip(self.model.buffers(), own, strict=True):
                buffer.copy_(value)
        self.model.train()
        return 100 * self.sum(right).item() / count

    def train(self):
        count, batch = len(self.images["train"]), self.options.batch
        per_epoch, epochs = math.ceil(count / batch), self.task["epochs"]
        losses, top1, train_s = [], [], 0.0
        for epoch in range(epochs):
            shuffled, key = order(count, self.options.seed, epoch), derive_key(self.options.seed, AUGMENT, epoch)
            for position in range(per_epoch):
                if len(losses) == self.options.steps:
                    break
                begin = time.perf_counter()
                losses.append(self.take_step(shuffled[position * batch:(position + 1) * batch], key,
                                             rate_of(len(losses), per_epoch * epochs, self.task)))
                train_s += time.perf_counter() - begin
            else:
                top1.append(self.evaluate())
                if self.options.rank == 0:
                    print(f"peer, seed {self.options.seed}: epoch {epoch + 1}, Prec@1 {top1[-1]:.1f}", file=sys.stderr)
                continue
            break
        if self.options.rank == 0:
            print(json.dumps({"torch": self.torch.__version__, "losses": losses, "top1": top1, "train_s": train_s}), flush=True)
        if self.options.ranks > 1:
            self.torch.distributed.barrier()  # a rank that tears down while its peer still works may abort it
            self.torch.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    of_images = verbs.add_parser("decode")
    of_images.add_argument("data_dir", type=pathlib.Path)
    of_images.add_argument("images", type=pathlib.Path)
    training = verbs.add_parser("train")
    training.add_argument("images", type=pathlib.Path)
    training.add_argument("start", type=pathlib.Path)
    training.add_argument("--seed", type=int, default=42)
    training.add_argument("--batch", type=int, default=task()["global_batch"], help="of all ranks (default: the task's)")
    training.add_argument("--ranks", type=int, default=1)
    training.add_argument("--threads", type=int, default=1, help="of each rank")
    training.add_argument("--steps", type=int, help="stop after so many (default: after the task's epochs)")
    training.add_argument("--channels-last", action="store_true")
    training.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    training.add_argument("--store", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.verb == "decode":
        decode(options.data_dir, options.images)
    elif options.rank is None:
        options.device = "cpu"
        sys.exit(torch_peer.start_ranks(__file__, options, sys.argv[1:]))
    else:
        Rank(options).train()


if __name__ == "__main__":
    main()
