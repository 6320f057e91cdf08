"""Distributed synchronous SGD on MNIST or Fashion-MNIST, reported to mlbench.

The script of MLBench's tutorial "Adding an existing PyTorch training script into MLBench". What differs from its text:
imports, what does not run as printed (`world_size=len(world_size)`, `dist_get_rank`, `size = ...` without the size, a goal
factory in place of a goal, a sum recorded as a mean), step names that MLBench's result knows, and data from a folder
instead of a download.

    python3 train_dist.py RUN_ID RANK HOSTS --data FOLDER

HOSTS is a comma-separated list with one entry per rank; the first one is where rank 0 listens.
"""

import argparse
import gzip
import logging
import os
import random
import struct
import sys
from math import ceil

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

from mlbench import TopKAccuracy, Tracker, task1_time_to_accuracy_goal, time_to_accuracy_goal, validation_round


class Partition:
    """The samples of one rank."""

    def __init__(self, data, index):
        self.data, self.index = data, index

    def __len__(self):
        return len(self.index)

    def __getitem__(self, index):
        return self.data[self.index[index]]


class DataPartitioner:
    """Shuffles the samples, the same way on every rank, and cuts them into parts."""

    def __init__(self, data, sizes, seed=1234):
        self.data, self.partitions = data, []
        indexes = list(range(len(data)))
        random.Random(seed).shuffle(indexes)
        for size in sizes:
            part = int(size * len(data))
            self.partitions.append(indexes[:part])
            indexes = indexes[part:]

    def use(self, rank):
        return Partition(self.data, self.partitions[rank])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, kernel_size=5)
        self.conv2 = nn.Conv2d(10, 20, kernel_size=5)
        self.conv2_drop = nn.Dropout2d()
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2_drop(self.conv2(x)), 2))
        x = x.view(-1, 320)
        x = F.relu(self.fc1(x))
        x = F.dropout(x, training=self.training)
        return F.log_softmax(self.fc2(x), dim=1)


def read_idx(folder, name):
    """A file of the MNIST format, packed or plain."""
    path = os.path.join(folder, name)
    opened = gzip.open(path + ".gz", "rb") if os.path.exists(path + ".gz") else open(path, "rb")
    with opened as file:
        dimensions = struct.unpack(">HBB", file.read(4))[2]
        shape = struct.unpack(">%dI" % dimensions, file.read(4 * dimensions))
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).reshape(shape)


def load(folder, part):
    images = read_idx(folder, part + "-images-idx3-ubyte").float().unsqueeze(1) / 255
    labels = read_idx(folder, part + "-labels-idx1-ubyte").long()
    return torch.utils.data.TensorDataset((images - 0.1307) / 0.3081, labels)


def partition_dataset(folder, part):
    size = dist.get_world_size()
    bsz = int(128 / float(size))
    partition = DataPartitioner(load(folder, part), [1.0 / size for _ in range(size)]).use(dist.get_rank())
    return torch.utils.data.DataLoader(partition, batch_size=bsz, shuffle=part == "train"), bsz


def average_gradients(model):
    size = float(dist.get_world_size())
    for param in model.parameters():
        dist.all_reduce(param.grad.data, op=dist.ReduceOp.SUM)
        param.grad.data /= size


def run(rank, run_id, options):
    """Distributed Synchronous SGD Example"""
    torch.manual_seed(1234)
    train_set, bsz = partition_dataset(options.data, "train")
    val_set, bsz_val = partition_dataset(options.data, "t10k")
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    metrics = [TopKAccuracy(topk=1), TopKAccuracy(topk=5)]
    loss_func = nn.NLLLoss()

    goal = time_to_accuracy_goal(options.target) if options.target else task1_time_to_accuracy_goal()
    tracker = Tracker(metrics, run_id, rank, goal=goal)

    num_batches = ceil(len(train_set.dataset) / float(bsz))
    num_batches_val = ceil(len(val_set.dataset) / float(bsz_val))

    tracker.start()
    for epoch in range(options.epochs):
        tracker.train()
        epoch_loss = 0.0
        for data, target in train_set:
            tracker.batch_start()
            optimizer.zero_grad()
            tracker.record_batch_init()
            output = model(data)
            tracker.record_batch_fwd_pass()
            loss = loss_func(output, target)
            epoch_loss += loss.item()
            tracker.record_batch_comp_loss()
            loss.backward()
            tracker.record_batch_backprop()
            average_gradients(model)
            tracker.record_batch_agg()
            optimizer.step()
            tracker.record_batch_opt_step()
            tracker.batch_end()
        tracker.record_loss(epoch_loss / num_batches, num_batches, log_to_api=True)
        logging.info("Rank %s, epoch %s: %s", dist.get_rank(), epoch, epoch_loss / num_batches)
        tracker.epoch_end()

        values, _ = validation_round(
            val_set, model, loss_func, metrics, tracker=tracker, max_batch_per_epoch=num_batches_val
        )
        logging.info("Rank %s, epoch %s: Prec@1 %.2f", dist.get_rank(), epoch, values["Prec@1"])
        if tracker.goal_reached:
            logging.info("Goal Reached!")
            return


def init_processes(options):
    """Initialize the distributed environment."""
    hosts = options.hosts.split(",")
    os.environ.setdefault("MASTER_ADDR", hosts[0])  # first worker is the master worker
    os.environ.setdefault("MASTER_PORT", "29500")
    os.environ["WORLD_SIZE"] = str(len(hosts))
    os.environ["RANK"] = str(options.rank)
    dist.init_process_group(options.backend, rank=options.rank, world_size=len(hosts))
    try:
        run(options.rank, options.run_id, options)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Process run parameters")
    parser.add_argument("run_id", type=str, help="The id of the run")
    parser.add_argument("rank", type=int, help="The rank of this worker")
    parser.add_argument("hosts", type=str, help="The list of hosts")
    parser.add_argument("--data", required=True, help="The folder with the four files of MNIST or Fashion-MNIST")
    parser.add_argument("--backend", default="gloo")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--target", type=float, help="Validation accuracy in percent (default: that of task 1a, 80)")
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    init_processes(parser.parse_args())
