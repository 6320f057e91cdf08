#!/usr/bin/env python3
"""Logistic regression of task 2a in plain PyTorch on libsvm text files: the accuracy to expect of ours.

Usage: logistic_peer.py TRAIN TEST --dimension D [--lr 4] [--batch 128] [--epochs 164] [--l2 2.5e-6] [--seed 42]
Files may be gzipped. Plateau decay as the task has it (x0.5 after 2 evaluations without 0.01 less validation loss,
floor 1e-3). Prints one line of JSON: first epoch at which the test accuracy was best, that accuracy, and the last ones.
"""
import argparse
import gzip
import json

import numpy
import torch
import torch.nn.functional as F


def read(path, dimension):
    rows, labels = [], []
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as lines:
        for line in lines:
            label, *pairs = line.split()
            row = numpy.zeros(dimension, numpy.float32)
            for pair in pairs:
                index, value = pair.split(":")
                row[int(index) - 1] = float(value)
            rows.append(row)
            labels.append(1.0 if float(label) > 0 else 0.0)
    return torch.from_numpy(numpy.stack(rows)), torch.tensor(labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("--dimension", type=int, required=True)
    parser.add_argument("--lr", type=float, default=4)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=164)
    parser.add_argument("--l2", type=float, default=2.5e-6)
    parser.add_argument("--seed", type=int, default=42)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    features, labels = read(options.train, options.dimension)
    test_features, test_labels = read(options.test, options.dimension)
    model = torch.nn.Linear(options.dimension, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr)
    # Ours counts the second evaluation without improvement; PyTorch acts on the one after `patience`.
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=0.5, patience=1, threshold=0.01, threshold_mode="abs", min_lr=1e-3 * options.lr)

    def loss_of(x, y):
        return F.binary_cross_entropy_with_logits(model(x).squeeze(1), y) + options.l2 / 2 * model.weight.square().sum()

    def evaluate(x, y):
        with torch.no_grad():
            right = ((model(x).squeeze(1) > 0) == (y > 0.5)).float().mean().item()
            return 100 * right, loss_of(x, y).item()

    best, best_epoch = 0, 0
    for epoch in range(1, options.epochs + 1):
        order = torch.randperm(len(labels))
        for rows in order.split(options.batch):
            optimizer.zero_grad()
            loss_of(features[rows], labels[rows]).backward()
            optimizer.step()
        accuracy, loss = evaluate(test_features, test_labels)
        plateau.step(loss)
        if accuracy > best:
            best, best_epoch = accuracy, epoch
    train_accuracy, train_loss = evaluate(features, labels)
    print(json.dumps({"torch": torch.__version__, "best_test": round(best, 2), "best_epoch": best_epoch,
                      "test": round(accuracy, 2), "test_loss": round(loss, 4),
                      "train": round(train_accuracy, 2), "train_loss": round(train_loss, 4)}))


if __name__ == "__main__":
    main()
