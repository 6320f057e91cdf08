#!/usr/bin/env python3
"""Steps of logistic or linear regression in plain PyTorch, in float64 and float32: what the golden test of task 2a
compares against.

Usage: logistic_regression.py FOLDER. Reads FOLDER/case.json (loss, dimension, batches as lists of rows, lr of each step,
l1, l2) with start.bin, features.bin (float32) and labels.bin (int64); writes for each precision P the gradient of the first
step and the weights after the last one (gradients_P.bin, parameters_P.bin, float64), and the loss of every step and
the outputs of the last batch, probabilities or numbers, into result.json.
"""
import json
import pathlib
import sys

import numpy
import torch
import torch.nn.functional as F


def train(case, folder, dtype):
    def read(name, numpy_type, shape):
        return torch.from_numpy(numpy.fromfile(folder / name, numpy_type).reshape(shape))

    features = read("features.bin", numpy.float32, [-1, case["dimension"]]).to(dtype)
    labels = read("labels.bin", numpy.int64, [-1]).to(dtype)
    model = torch.nn.Linear(case["dimension"], 1, bias=False, dtype=dtype)
    with torch.no_grad():
        model.weight.copy_(read("start.bin", numpy.float32, [1, -1]))
    optimizer = torch.optim.SGD(model.parameters(), lr=1)

    def write(what, tensor):
        name = f"{what}_{str(dtype).split('.')[1]}.bin"
        tensor.detach().numpy().astype(numpy.float64).ravel().tofile(folder / name)

    losses = []
    for step, (rows, lr) in enumerate(zip(case["batches"], case["lr"])):
        optimizer.param_groups[0]["lr"] = lr
        optimizer.zero_grad()
        outputs = model(features[rows]).squeeze(1)
        if case["loss"] == "binary_cross_entropy":
            outputs = torch.sigmoid(outputs)
            loss = F.binary_cross_entropy(outputs, labels[rows])
        else:
            loss = F.mse_loss(outputs, labels[rows])
        loss = loss + case["l1"] * model.weight.abs().sum() + case["l2"] / 2 * model.weight.square().sum()
        loss.backward()
        if step == 0:
            write("gradients", model.weight.grad)
        optimizer.step()
        losses.append(loss.item())
    write("parameters", model.weight)
    return {"losses": losses, "outputs": outputs.tolist()}


def main():
    torch.set_num_threads(2)
    folder = pathlib.Path(sys.argv[1])
    case = json.loads((folder / "case.json").read_text())
    result = {str(dtype).split(".")[1]: train(case, folder, dtype) for dtype in (torch.float64, torch.float32)}
    (folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
