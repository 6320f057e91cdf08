"""MNIST with Horovod and PyTorch, reported to mlbench: question 1 of the scaling exercise (docs/scaling-exercise.md).

    mlbench run hvd 2 --env PYTHONPATH=python -- python3 examples/horovod/train_mnist.py {run_id} {rank} --data FOLDER
    mlbench run hvd 2 --backend mpi --env PYTHONPATH=python -- python3 examples/horovod/train_mnist.py ...

What Horovod's usage says to add to a script for one process is marked: each rank has its part of the data, the learning
rate is multiplied by the number of ranks (--no-lr-scaling: not), the optimizer averages gradients, rank 0's start is
everybody's. Under mpirun leave {rank} out: the rank is Horovod's.
"""

import argparse
import gzip
import logging
import os
import struct
import sys

import rendezvous


def read_idx(folder, name, torch):
    path = os.path.join(folder, name)
    opened = gzip.open(path + ".gz", "rb") if os.path.exists(path + ".gz") else open(path, "rb")
    with opened as file:
        dimensions = struct.unpack(">HBB", file.read(4))[2]
        shape = struct.unpack(">%dI" % dimensions, file.read(4 * dimensions))
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).reshape(shape)


def load(folder, part, torch):
    images = read_idx(folder, part + "-images-idx3-ubyte", torch).float().unsqueeze(1) / 255
    return torch.utils.data.TensorDataset(images, read_idx(folder, part + "-labels-idx1-ubyte", torch).long())


def make_model(nn):
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding="same"), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding="same"), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 1024), nn.ReLU(), nn.Dropout(0.4), nn.Linear(1024, 10),
    )  # fmt: skip


def train(options):
    # Here, so that --help and the tests of what stands around it need neither.
    import horovod.torch as hvd
    import torch
    from torch import nn

    from mlbench import TopKAccuracy, Tracker, time_to_accuracy_goal, validation_round

    served = rendezvous.serve_if_first(os.environ)  # horovodrun would; kept until the end
    hvd.init()  # Horovod: finds the ranks
    torch.manual_seed(1234)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    data = load(options.data, "train", torch)
    part = torch.utils.data.distributed.DistributedSampler(data, num_replicas=hvd.size(), rank=hvd.rank())  # Horovod
    batches = torch.utils.data.DataLoader(data, batch_size=options.batch_size, sampler=part)
    validation = torch.utils.data.DataLoader(load(options.data, "t10k", torch), batch_size=1000)

    model, loss_func = make_model(nn), nn.CrossEntropyLoss()
    scale = 1 if options.no_lr_scaling else hvd.size()  # Horovod
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr * scale)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())  # Horovod
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)  # Horovod
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)  # Horovod

    metrics = [TopKAccuracy(topk=1)]
    tracker = Tracker(metrics, options.run_id, hvd.rank(), goal=time_to_accuracy_goal(options.target))
    tracker.start()
    for epoch in range(options.epochs):
        part.set_epoch(epoch)
        tracker.train()
        total = 0.0
        for images, labels in batches:
            tracker.batch_start()
            optimizer.zero_grad()
            tracker.record_batch_init()
            output = model(images)
            tracker.record_batch_fwd_pass()
            loss = loss_func(output, labels)
            total += loss.item()
            tracker.record_batch_comp_loss()
            loss.backward()  # Horovod begins to exchange what is ready
            tracker.record_batch_backprop()
            optimizer.synchronize()  # Horovod: what of it was not hidden
            tracker.record_batch_agg()
            with optimizer.skip_synchronize():
                optimizer.step()
            tracker.record_batch_opt_step()
            tracker.batch_end()
        tracker.record_loss(total / len(batches), len(batches), log_to_api=True)
        tracker.epoch_end()
        values, _ = validation_round(validation, model, loss_func, metrics, tracker=tracker)
        logging.info("rank %d, epoch %d: Prec@1 %.2f", hvd.rank(), epoch, values["Prec@1"])
        if tracker.goal_reached:
            break
    hvd.shutdown()
    if served is not None:
        served.shutdown()


def main():
    parser = argparse.ArgumentParser(description="MNIST with Horovod")
    parser.add_argument("run_id", help="the run's id: {run_id}")
    parser.add_argument("rank", nargs="?", help="not used: Horovod knows it")
    parser.add_argument("--data", required=True, help="folder with the four files of MNIST")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=100, help="of each rank")
    parser.add_argument("--lr", type=float, default=1e-4, help="of one rank")
    parser.add_argument("--no-lr-scaling", action="store_true")
    parser.add_argument("--target", type=float, default=99.2, help="validation accuracy in percent that ends it")
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
