"""A script of the shape of MLBench's tutorial "Adding an existing PyTorch training script into MLBench": the same calls
of mlbench_core in the same order, the goal's factory uncalled. Only the data come from a folder instead of
torchvision."""

import argparse
import gzip
import logging
import os
import random
import sys
from math import ceil

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn, optim

from mlbench_core.controlflow.pytorch import validation_round
from mlbench_core.evaluation.goals import task1_time_to_accuracy_goal
from mlbench_core.evaluation.pytorch.metrics import TopKAccuracy
from mlbench_core.utils import Tracker


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            *(nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU()),
            *(nn.Conv2d(10, 20, 5), nn.Dropout2d(), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()),
        )
        self.classifier = nn.Sequential(nn.Linear(320, 50), nn.ReLU(), nn.Dropout(), nn.Linear(50, 10))

    def forward(self, x):
        return F.log_softmax(self.classifier(self.features(x)), dim=1)


def load(folder, part):
    def read(name, header):
        with gzip.open(os.path.join(folder, "%s-%s.gz" % (part, name))) as file:
            return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8)

    images = read("images-idx3-ubyte", 16).view(-1, 1, 28, 28).float() / 255
    return torch.utils.data.TensorDataset((images - 0.1307) / 0.3081, read("labels-idx1-ubyte", 8).long())


def partition(folder, part):
    """This rank's share of the set, in batches: 128 of all ranks together."""
    data, size = load(folder, part), dist.get_world_size()
    indices = list(range(len(data)))
    random.Random(1234).shuffle(indices)
    batch = int(128 / float(size))
    own = torch.utils.data.Subset(data, indices[dist.get_rank() :: size])
    return torch.utils.data.DataLoader(own, batch_size=batch, shuffle=True), batch


def average_gradients(model):
    size = float(dist.get_world_size())
    for param in model.parameters():
        dist.all_reduce(param.grad.data, op=dist.ReduceOp.SUM)
        param.grad.data /= size


def run(rank, run_id, folder):
    torch.manual_seed(1234)
    train_set, bsz = partition(folder, "train")
    val_set, bsz_val = partition(folder, "t10k")
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    metrics = [TopKAccuracy(topk=1), TopKAccuracy(topk=5)]
    loss_func = nn.NLLLoss()

    goal = task1_time_to_accuracy_goal

    tracker = Tracker(metrics, run_id, rank, goal=goal)

    num_batches = ceil(len(train_set.dataset) / float(bsz))
    num_batches_val = ceil(len(val_set.dataset) / float(bsz_val))

    tracker.start()
    for epoch in range(10):
        tracker.train()

        epoch_loss = 0.0
        for data, target in train_set:
            tracker.batch_start()

            optimizer.zero_grad()
            output = model(data)

            tracker.record_batch_step("forward")

            loss = loss_func(output, target)
            epoch_loss += loss.data.item()

            tracker.record_batch_step("loss")

            loss.backward()

            tracker.record_batch_step("backward")

            average_gradients(model)
            optimizer.step()

            tracker.batch_end()

        tracker.record_loss(epoch_loss, num_batches, log_to_api=True)

        logging.debug("Rank %s, epoch %s: %s", dist.get_rank(), epoch, epoch_loss / num_batches)

        validation_round(val_set, model, loss_func, metrics, run_id, rank,
                         "fp32", transform_target_type=None, use_cuda=False,
                         max_batch_per_epoch=num_batches_val, tracker=tracker)  # fmt: skip

        tracker.epoch_end()

        if tracker.goal_reached:
            logging.debug("Goal Reached!")
            return


def init_processes(rank, run_id, hosts, folder, backend="gloo"):
    hosts = hosts.split(",")
    os.environ["MASTER_ADDR"] = hosts[0]  # the first worker is the master worker
    os.environ["MASTER_PORT"] = "29500"
    os.environ["WORLD_SIZE"] = str(len(hosts))
    os.environ["RANK"] = str(rank)
    dist.init_process_group(backend, rank=rank, world_size=len(hosts))
    run(rank, run_id, folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Process run parameters")
    parser.add_argument("--run_id", type=str, help="The id of the run")
    parser.add_argument("--rank", type=int, help="The rank of this worker")
    parser.add_argument("--hosts", type=str, help="The list of hosts")
    parser.add_argument("--data", type=str, help="The folder of MNIST's four files")
    args = parser.parse_args()
    logging.basicConfig(stream=sys.stdout, level=logging.DEBUG)
    init_processes(args.rank, args.run_id, args.hosts, args.data)
