#!/usr/bin/env python3
"""The speed peer of `mlbench run --fixed-batch`: a task's model and optimizer in plain PyTorch.

One fixed batch in memory, loss, backward and optimizer step, the parameters of tasks/*.toml. With --ranks > 1:
DistributedDataParallel over Gloo, one process per rank. Prints one JSON line; `median_samples_per_s` (all ranks, from
the median step of rank 0) is what bench/ratio.py compares, --layout, --fused and --compile are the variants to choose
the best from. Run it with the Python that bench/setup_peer.sh prints.
"""
import argparse
import json
import os
import statistics
import tempfile
import time

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import torch
import torch.nn as nn
import torch.nn.functional as F


def mnist_cnn():
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding="same"), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding="same"), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 1024), nn.ReLU(), nn.Dropout(0.4), nn.Linear(1024, 10))


def train(rank, options, store):
    torch.set_num_threads(options.threads)
    torch.set_num_interop_threads(1)
    torch.manual_seed(rank)
    if options.ranks > 1:
        torch.distributed.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=options.ranks)

    model = mnist_cnn()
    assert sum(p.numel() for p in model.parameters()) == 3274634
    features = torch.rand(options.batch, 1, 28, 28)
    labels = torch.randint(0, 10, (options.batch,))
    if options.layout == "nhwc":
        model = model.to(memory_format=torch.channels_last)
        features = features.to(memory_format=torch.channels_last)
    net = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True) if options.ranks > 1 else model
    if options.compile:
        net = torch.compile(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, fused=options.fused)

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(net(features), labels)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(options.warm_up):
        step()
    seconds = []
    for _ in range(options.steps):
        begin = time.perf_counter()
        loss = step()
        seconds.append(time.perf_counter() - begin)
    if rank == 0:
        samples = options.ranks * options.batch
        print(json.dumps({
            "peer": "pytorch " + torch.__version__, "task": "fashion-mnist", "ranks": options.ranks,
            "threads": options.threads, "batch": options.batch, "layout": options.layout, "fused": options.fused,
            "compile": options.compile, "steps": options.steps, "loss": loss.item(),
            "samples_per_s": samples * options.steps / sum(seconds),
            "median_samples_per_s": samples / statistics.median(seconds)}), flush=True)
    if options.ranks > 1:
        torch.distributed.barrier()  # a rank that tears down while its peer still works may abort it
        torch.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2, help="intra-op threads per rank")
    parser.add_argument("--batch", type=int, default=100, help="samples per rank and step")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--warm-up", type=int, default=5, help="steps before the clock starts")
    parser.add_argument("--layout", choices=("nchw", "nhwc"), default="nchw")
    parser.add_argument("--fused", action="store_true", help="the fused SGD kernel")
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    options = parser.parse_args()
    if options.ranks == 1:
        train(0, options, "")
    else:
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(train, (options, folder + "/store"), options.ranks)


if __name__ == "__main__":
    main()
