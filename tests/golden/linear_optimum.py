#!/usr/bin/env python3
"""The optimum of linear regression in NumPy, in float64: what the end-to-end test of linear regression compares against.

Usage: linear_optimum.py FOLDER. Reads FOLDER/case.json (dimension, l2) with features.bin (float32) and labels.bin
(int64); writes optimum.bin (float64), the weights w that minimise the mean of (x w - y)^2 plus l2 / 2 * |w|^2, and that
minimum into result.json. They solve the normal equations (2 / n X^T X + l2 I) w = 2 / n X^T y.
"""
import json
import pathlib
import sys

import numpy


def main():
    folder = pathlib.Path(sys.argv[1])
    case = json.loads((folder / "case.json").read_text())
    x = numpy.fromfile(folder / "features.bin", numpy.float32).reshape(-1, case["dimension"]).astype(numpy.float64)
    y = numpy.fromfile(folder / "labels.bin", numpy.int64).astype(numpy.float64)
    hessian = 2 / len(y) * x.T @ x + case["l2"] * numpy.eye(case["dimension"])
    w = numpy.linalg.solve(hessian, 2 / len(y) * x.T @ y)
    w.tofile(folder / "optimum.bin")
    squared_error = ((x @ w - y) ** 2).mean()
    result = {"squared_error": squared_error, "loss": squared_error + case["l2"] / 2 * w @ w}
    (folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
