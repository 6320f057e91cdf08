"""One rank of the speed peer: models, the step and its clock. torch_peer.py starts it."""
import json
import math
import os
import pathlib
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def mnist_cnn():
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding="same"), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding="same"), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 1024), nn.ReLU(), nn.Dropout(0.4), nn.Linear(1024, 10))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def resnet20():
    layers = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    inputs = 16
    for outputs in (16, 32, 64):
        for i in range(3):
            layers.append(Block(inputs, outputs, 2 if i == 0 and outputs != 16 else 1))
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def of_imagenet(model):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "golden"))
    import imagenet_models
    return imagenet_models.make({"model": model, "options": {}, "smooth": False}, 1000, F.dropout)


L2 = 2.5e-6  # of 2a: the loss contains L2 / 2 * ||w||^2
SGD, ADAM = torch.optim.SGD, torch.optim.Adam
# model, its parameters, sample shape, batch per rank, optimizer and its arguments
TASKS = {
    "fashion-mnist": (mnist_cnn, 3274634, (1, 28, 28), 100, SGD, {"lr": 0.05, "momentum": 0.9}),
    "mnist": (mnist_cnn, 3274634, (1, 28, 28), 100, ADAM, {"lr": 1e-4}),
    "1a": (resnet20, 272474, (3, 32, 32), 128, SGD,
           {"lr": 0.02, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-4}),
    "resnet50": (lambda: of_imagenet("resnet50"), 25557032, (3, 224, 224), 16, SGD,
                 {"lr": 0.005, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-4}),
    "vgg16": (lambda: of_imagenet("vgg16"), 138357544, (3, 224, 224), 16, SGD,
              {"lr": 0.005, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-4}),
    "2a": (lambda: nn.Linear(2000, 1, bias=False), 2000, (2000,), 128, SGD, {"lr": 4}),
}


def fixed_batch(net, options, batch, shape):
    """(loss of a batch, batch of a step): always the same images and labels."""
    features = torch.rand(batch, *shape, device=options.device)
    labels = torch.randint(0, 10, (batch,), device=options.device)
    if options.layout == "nhwc":
        features = features.to(memory_format=torch.channels_last)
    return lambda x, y: F.cross_entropy(net(x), y), lambda step: (features, labels)


def shuffled_rows(net, weight, options, batch):
    """(loss of a batch, batch of a step): this rank's next rows of one permutation after the other of the whole set."""
    features = torch.from_file(str(options.rows_file), size=options.rows * weight.numel()).view(options.rows, -1)
    # All ranks have the same labels. Drawing them reads each row once, so that all are mapped before the clock starts.
    shared = torch.Generator().manual_seed(0)
    scores = features @ torch.randn(weight.numel(), generator=shared)
    labels = torch.bernoulli(torch.sigmoid(6 * scores), generator=shared)
    per_epoch = options.rows // (batch * options.ranks)
    epochs = math.ceil((options.warm_up + options.steps) / per_epoch)
    order = torch.cat([torch.randperm(options.rows, generator=shared)[:per_epoch * batch * options.ranks]
                       for _ in range(epochs)])

    def loss_of(rows):
        logits = net(features.index_select(0, rows)).squeeze(1)
        return F.binary_cross_entropy_with_logits(logits, labels[rows]) + L2 / 2 * weight.square().sum()

    def batch_of(step):
        first = (step * options.ranks + options.rank) * batch
        return (order[first:first + batch],)

    return loss_of, batch_of


def cores_with_bound_threads():
    """Those to which a thread of this process is bound."""
    masks = [os.sched_getaffinity(int(thread)) for thread in os.listdir("/proc/self/task")]
    return {core for mask in masks if len(mask) == 1 for core in mask}


def train(options):
    torch.set_num_threads(options.threads)
    torch.set_num_interop_threads(1)
    torch.backends.cudnn.allow_tf32 = False  # on a GPU: float32, as with ours
    torch.manual_seed(options.rank)
    if options.ranks > 1:
        torch.distributed.init_process_group("gloo", init_method="file://" + options.store, rank=options.rank,
                                             world_size=options.ranks)

    make_model, parameters, shape, batch, make_optimizer, arguments = TASKS[options.task]
    batch = options.batch or batch
    if shape[-1] == 224:
        shape = (3, options.pixels, options.pixels)
    model = make_model().to(options.device)
    assert sum(p.numel() for p in model.parameters()) == parameters
    if options.layout == "nhwc":
        model = model.to(memory_format=torch.channels_last)
    net = model
    if options.ranks > 1:  # as ours, each rank goes on with its own running statistics
        net = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, broadcast_buffers=False)
    optimizer = make_optimizer(model.parameters(), fused=options.fused or None, **arguments)
    if options.task == "2a":
        loss_of, batch_of = shuffled_rows(net, model.weight, options, batch)
    else:
        loss_of, batch_of = fixed_batch(net, options, batch, shape)
    if options.compile:
        loss_of = torch.compile(loss_of)

    def step(inputs):
        optimizer.zero_grad()
        with torch.autocast(options.device, torch.bfloat16, enabled=options.amp):
            loss = loss_of(*inputs)
        loss.backward()
        optimizer.step()
        if options.device == "cuda":
            torch.cuda.synchronize()
        return loss

    first_loss = step(batch_of(0))
    for i in range(1, options.warm_up):
        step(batch_of(i))
    seconds = []
    for i in range(options.warm_up, options.warm_up + options.steps):
        begin = time.perf_counter()
        step(batch_of(i))
        seconds.append(time.perf_counter() - begin)
    last_loss = step(batch_of(0))
    assert last_loss < first_loss, f"the loss on the first batch did not fall: {first_loss} -> {last_loss}"
    if options.rank == 0:
        samples = options.ranks * batch
        print(json.dumps({
            "peer": "pytorch " + torch.__version__, "task": options.task, "device": options.device, "ranks": options.ranks,
            "threads": options.threads, "pinned": len(cores_with_bound_threads()) >= options.threads, "batch": batch,
            "layout": options.layout, "fused": options.fused, "compile": options.compile, "amp": options.amp,
            "steps": options.steps, "parameters": parameters, "first_loss": first_loss.item(),
            "last_loss": last_loss.item(), "samples_per_s": samples * options.steps / sum(seconds),
            "median_samples_per_s": samples / statistics.median(seconds)}), flush=True)
    if options.ranks > 1:
        torch.distributed.barrier()  # a rank that tears down while its peer still works may abort it
        torch.distributed.destroy_process_group()
