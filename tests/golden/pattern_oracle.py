#!/usr/bin/env python3
"""Steps of several ranks by the text of the papers, in float64: what the test of patterns compares with.

Usage: pattern_oracle.py FOLDER. Reads FOLDER/cases.json: {curvature, targets (of each rank), lr, momentum, steps, cases:
[{pattern: "streaming", every, parts ([first, end) of each fragment), delay, mixing, outer_lr, outer_momentum, nesterov}
or {pattern: "push_sum", matrices (of the rounds, in turn)}]}. The gradient of a rank is curvature * (weights - target).
Writes FOLDER/result.json: per case the weights of each rank behind the last step.
"""
import json
import pathlib
import sys

import numpy
import torch


class Sgd:
    """torch.optim.SGD over a NumPy array, with the gradient of the moment."""

    def __init__(self, values, lr, momentum, nesterov=False):
        self.values = torch.nn.Parameter(torch.from_numpy(values))  # shares the array's memory
        self.optimizer = torch.optim.SGD([self.values], lr=lr, momentum=momentum, nesterov=nesterov)

    def step(self, gradient):
        self.values.grad = torch.from_numpy(numpy.array(gradient))
        self.optimizer.step()


def streaming(data, case, gradient, start):
    """Streaming DiLoCo, algorithm 2; t counts from 1, and a fragment's offset t_p is (p + 1) H / P."""
    ranks, parts, every = len(start), case["parts"], case["every"]
    local = [numpy.array(values) for values in start]
    inner = [Sgd(values, data["lr"], data["momentum"]) for values in local]
    shared = [numpy.array(start[0][first:end]) for first, end in parts]
    outer = [Sgd(values, case["outer_lr"], case["outer_momentum"], case["nesterov"]) for values in shared]
    offsets = [(p + 1) * every // len(parts) for p in range(len(parts))]
    sent = {}
    for t in range(1, data["steps"] + 1):
        for rank in range(ranks):
            inner[rank].step(gradient(local[rank], rank))
        for p, (first, end) in enumerate(parts):
            if t >= offsets[p] and (t - offsets[p]) % every == 0:
                sent[p, t] = sum(shared[p] - local[rank][first:end] for rank in range(ranks)) / ranks
            if (p, t - case["delay"]) not in sent:
                continue
            outer[p].step(sent[p, t - case["delay"]])
            for rank in range(ranks):
                local[rank][first:end] = (case["mixing"] * local[rank][first:end] + (1 - case["mixing"]) * shared[p])
    return local


def push_sum(data, case, gradient, start):
    """Stochastic gradient push, algorithm 1, with x kept and z computed from it."""
    x, w = numpy.array(start), numpy.ones((len(start), 1))
    rules = [Sgd(x[rank], data["lr"], data["momentum"]) for rank in range(len(x))]
    for t in range(data["steps"]):
        z = x / w
        for rank, rule in enumerate(rules):
            rule.step(gradient(z[rank], rank))
        matrix = numpy.array(case["matrices"][t % len(case["matrices"])])
        x[:], w = matrix @ x, matrix @ w
    return list(x / w)


def main():
    folder = pathlib.Path(sys.argv[1])
    data = json.loads((folder / "cases.json").read_text())
    curvature, targets = numpy.array(data["curvature"]), numpy.array(data["targets"])

    def gradient(values, rank):
        return curvature * (values - targets[rank])

    patterns = {"streaming": streaming, "push_sum": push_sum}
    results = []
    for case in data["cases"]:
        start = numpy.zeros((case["ranks"], len(curvature)))
        results.append([list(values) for values in patterns[case["pattern"]](data, case, gradient, start)])
    (folder / "result.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()
