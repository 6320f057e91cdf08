#!/usr/bin/env python3
"""Steps of Dion as its paper has them (Ahn et al. 2025, algorithm 1), in NumPy: what the test of the rule compares against.

Usage: dion_oracle.py FOLDER. Reads FOLDER/cases.json: {tensors: [{rows (0: a vector, which AdamW steps), start, basis
(the first Q, row by row), gradients (a list per step)}], lr (per step), momentum, weight_decay}. Writes
FOLDER/result.json: {float64, float32}, of each tensor the weights behind each step.
"""
import json
import pathlib
import sys

import numpy


def matrix_steps(tensor, data, dtype):
    rows = tensor["rows"]
    weights = numpy.array(tensor["start"], dtype).reshape(rows, -1)
    columns = weights.shape[1]
    q = numpy.array(tensor["basis"], dtype).reshape(columns, -1)
    mu, momentum = dtype(data["momentum"]), numpy.zeros_like(weights)
    for lr, gradient in zip(data["lr"], tensor["gradients"]):
        b = momentum + numpy.array(gradient, dtype).reshape(rows, columns)
        p = numpy.linalg.qr(b @ q)[0]
        r = b.T @ p
        momentum = b - (1 - mu) * (p @ r.T)
        q = r / (numpy.linalg.norm(r, axis=0) + dtype(1e-8))
        weights = dtype(1 - lr * data["weight_decay"]) * weights - dtype(lr * (rows / columns) ** 0.5) * (p @ q.T)
        yield weights


def vector_steps(tensor, data, dtype):
    weights = numpy.array(tensor["start"], dtype)
    m, v = numpy.zeros_like(weights), numpy.zeros_like(weights)
    for number, (lr, gradient) in enumerate(zip(data["lr"], tensor["gradients"]), 1):
        g = numpy.array(gradient, dtype)
        m, v = dtype(0.9) * m + dtype(0.1) * g, dtype(0.999) * v + dtype(0.001) * g * g
        step = m / dtype(1 - 0.9 ** number) / (numpy.sqrt(v / dtype(1 - 0.999 ** number)) + dtype(1e-8))
        weights = dtype(1 - lr * data["weight_decay"]) * weights - dtype(lr) * step
        yield weights


def run(data, dtype):
    steps_of = [matrix_steps if tensor["rows"] > 0 else vector_steps for tensor in data["tensors"]]
    return [[weights.ravel().tolist() for weights in steps(tensor, data, dtype)]
            for steps, tensor in zip(steps_of, data["tensors"])]


def main():
    folder = pathlib.Path(sys.argv[1])
    data = json.loads((folder / "cases.json").read_text())
    result = {"float64": run(data, numpy.float64), "float32": run(data, numpy.float32)}
    (folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
