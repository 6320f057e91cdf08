#!/usr/bin/env python3
"""Steps of several ranks by the text of the papers, in float64: what the test of patterns compares with.

Usage: pattern_oracle.py FOLDER. Reads FOLDER/cases.json: {curvature, targets (of each rank), lr, momentum, steps, cases:
[{pattern: "streaming", every, parts ([first, end) of each fragment), delay, mixing, outer_lr, outer_momentum, nesterov}
or {pattern: "push_sum", matrices (of the rounds, in turn)}
or {pattern: "server"}
or {pattern: "quantised", tensors (the number of elements of each)}]}. The gradient of a rank is curvature * (weights - target).
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


def server(data, case, gradient, start):
    """A parameter server: torch.optim.SGD over the mean of the workers' gradients at the weights that it sent them."""
    weights = numpy.array(start[0])
    rule = Sgd(weights, data["lr"], data["momentum"])
    for _ in range(data["steps"]):
        rule.step(sum(gradient(weights, rank) for rank in range(len(start))) / len(start))
    return [weights] * len(start)


def quantised(data, case, gradient, start):
    """An all-reduce of 8-bit codes in two steps, with error feedback in both, in float32: another rounding would be another
    code. A rank's part of a tensor has one scale."""
    ranks, elements, single = len(start), len(start[0]), numpy.float32
    longest = -(-elements // ranks)
    parts = [(min(rank * longest, elements), min((rank + 1) * longest, elements)) for rank in range(ranks)]
    ends = numpy.cumsum(case["tensors"])
    cuts = sorted({0, *(int(end) for end in ends), *(end for _, end in parts)})

    def coded(values, kept, first):
        wanted, sent = kept + values, numpy.zeros_like(values)
        for begin, end in zip(cuts, cuts[1:]):
            piece = slice(begin - first, end - first)
            if begin < first or end > first + len(values):
                continue
            scale = numpy.abs(wanted[piece]).max() / single(127)
            if scale > 0:
                sent[piece] = scale * numpy.clip(numpy.rint(wanted[piece] * (single(1) / scale)), -127, 127)
        kept[:] = wanted - sent
        return sent

    weights = [numpy.array(values, single) for values in start]
    momenta = [numpy.zeros(elements, single) for _ in start]
    kept = [numpy.zeros(elements, single) for _ in start]
    kept_of_sums = numpy.zeros(elements, single)
    for step in range(data["steps"]):
        shares = [(gradient(weights[rank].astype(float), rank) / ranks).astype(single) for rank in range(ranks)]
        sent = [coded(shares[rank], kept[rank], 0) for rank in range(ranks)]
        total = numpy.zeros(elements, single)
        for values in sent:
            total += values
        for first, end in parts:
            total[first:end] = coded(total[first:end], kept_of_sums[first:end], first)
        for rank in range(ranks):
            momenta[rank] = single(data["momentum"]) * momenta[rank] + total
            weights[rank] -= single(data["lr"]) * momenta[rank]
    return [values.astype(float) for values in weights]


def main():
    folder = pathlib.Path(sys.argv[1])
    data = json.loads((folder / "cases.json").read_text())
    curvature, targets = numpy.array(data["curvature"]), numpy.array(data["targets"])

    def gradient(values, rank):
        return curvature * (values - targets[rank])

    patterns = {"streaming": streaming, "push_sum": push_sum, "server": server, "quantised": quantised}
    results = []
    for case in data["cases"]:
        start = numpy.zeros((case["ranks"], len(curvature)))
        results.append([list(values) for values in patterns[case["pattern"]](data, case, gradient, start)])
    (folder / "result.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()
