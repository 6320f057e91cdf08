#!/usr/bin/env python3
"""Many steps of torch.optim on given gradients, in float64 and float32: what the optimizer test compares against.

Usage: optimizer_oracle.py FOLDER. Reads FOLDER/cases.json: {start, lr, gradients (a list per step), cases: [{optimizer,
options, clip_norm (0: none)}]}; writes FOLDER/result.json: per case the parameters after the last step, {float64,
float32}; of ASGD, which keeps the first rate, their average.
"""
import json
import pathlib
import sys

import torch


def run(data, case, dtype):
    averaged = case["optimizer"] == "ASGD"
    parameter = torch.tensor(data["start"], dtype=dtype, requires_grad=True)
    optimizer = getattr(torch.optim, case["optimizer"])([parameter], lr=data["lr"][0], **case["options"])
    for lr, gradient in zip(data["lr"], data["gradients"]):
        if not averaged:
            optimizer.param_groups[0]["lr"] = lr
        parameter.grad = torch.tensor(gradient, dtype=dtype)
        if case["clip_norm"] > 0:
            torch.nn.utils.clip_grad_norm_([parameter], case["clip_norm"])
        optimizer.step()
    return (optimizer.state[parameter]["ax"] if averaged else parameter).tolist()


def main():
    folder = pathlib.Path(sys.argv[1])
    data = json.loads((folder / "cases.json").read_text())
    result = [{"float64": run(data, case, torch.float64), "float32": run(data, case, torch.float32)}
              for case in data["cases"]]
    (folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
