#!/usr/bin/env python3
"""The optimum of a linear model in float64: what the end-to-end test of linear models compares against.

Usage: linear_optimum.py FOLDER. Reads FOLDER/case.json (loss, dimension, l2) with features.bin (float32) and labels.bin
(int64); writes optimum.bin (float64), the weights w that minimise the mean of the losses of (x w, y) plus l2 / 2 * |w|^2,
and into result.json {loss: that minimum, below: how much smaller the true one may be}.

The loss "mean_squared_error" has the normal equations (2 / n X^T X + l2 I) w = 2 / n X^T y, which NumPy solves.
"binary_cross_entropy" has torch.optim.LBFGS. The penalty bounds curvature from below, so that the minimum is at most
|gradient|^2 / (2 l2) smaller than what was found.
"""
import json
import pathlib
import sys

import numpy
import torch
import torch.nn.functional as F

LOSSES = {"mean_squared_error": F.mse_loss, "binary_cross_entropy": F.binary_cross_entropy_with_logits}


def normal_equations(x, y, l2):
    hessian = 2 / len(y) * x.T @ x + l2 * torch.eye(x.shape[1], dtype=x.dtype)
    return torch.from_numpy(numpy.linalg.solve(hessian.numpy(), (2 / len(y) * x.T @ y).numpy()))


def lbfgs(objective, dimension):
    w = torch.zeros(dimension, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([w], max_iter=5000, max_eval=10000, tolerance_grad=1e-9, tolerance_change=0,
                                  history_size=50, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = objective(w)
        loss.backward()
        return loss

    optimizer.step(closure)
    return w.detach()


def main():
    torch.set_num_threads(2)
    folder = pathlib.Path(sys.argv[1])
    case = json.loads((folder / "case.json").read_text())
    l2 = case["l2"]
    x = torch.from_numpy(numpy.fromfile(folder / "features.bin", numpy.float32).reshape(-1, case["dimension"])).double()
    y = torch.from_numpy(numpy.fromfile(folder / "labels.bin", numpy.int64)).double()

    def objective(w):
        return LOSSES[case["loss"]](x @ w, y) + l2 / 2 * w @ w

    squared = case["loss"] == "mean_squared_error"
    w = (normal_equations(x, y, l2) if squared else lbfgs(objective, case["dimension"])).requires_grad_()
    loss = objective(w)
    loss.backward()
    w.detach().numpy().tofile(folder / "optimum.bin")
    result = {"loss": loss.item(), "below": (w.grad.square().sum() / (2 * l2)).item()}
    (folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
