#!/usr/bin/env python3
"""Many steps of published optimizers on given gradients, in float64 and float32: what the optimizer test compares against.

Usage: optimizer_oracle.py FOLDER. Reads FOLDER/cases.json: {start, lr, gradients (a list per step), cases: [{optimizer (of
torch.optim, or PACKAGE.NAME), shape, options, clip_norm (0: none), bfloat16 (whether Muon may round to it)}]}; writes
FOLDER/result.json: per case {package (and version), float64 (parameters after the last step; of ASGD, which keeps the first
rate, their average), error (how far those in float32 are from them)}.
"""
import importlib.metadata
import json
import pathlib
import sys
from unittest import mock

import torch


def run(data, case, dtype):
    averaged = case["optimizer"] == "ASGD"
    package, _, name = case["optimizer"].rpartition(".")
    make = getattr(importlib.import_module(package or "torch.optim"), name)
    options = {"adjust_lr_fn" if key == "adjust_lr" else key: value for key, value in case["options"].items()}
    parameter = torch.tensor(data["start"], dtype=dtype).reshape(case["shape"]).requires_grad_()
    optimizer = make([parameter], lr=data["lr"][0], **options)
    if package == "schedulefree":
        optimizer.train()
    for lr, gradient in zip(data["lr"], data["gradients"]):
        if not averaged:
            optimizer.param_groups[0]["lr"] = lr
        parameter.grad = torch.tensor(gradient, dtype=dtype).reshape(case["shape"])
        if case["clip_norm"] > 0:
            torch.nn.utils.clip_grad_norm_([parameter], case["clip_norm"])
        # Muon rounds to torch.bfloat16, whatever that is.
        with mock.patch.object(torch, "bfloat16", torch.bfloat16 if case["bfloat16"] else dtype):
            optimizer.step()
    if package == "schedulefree":
        optimizer.eval()
    return (optimizer.state[parameter]["ax"] if averaged else parameter.detach()).double().flatten()


def answer(data, case):
    exact, single = run(data, case, torch.float64), run(data, case, torch.float32)
    package = case["optimizer"].rpartition(".")[0] or "torch"
    return {"package": f"{package} {importlib.metadata.version(package)}",
            "float64": [float(f"{value:.12g}") for value in exact], "error": (single - exact).norm().item()}


def main():
    folder = pathlib.Path(sys.argv[1])
    data = json.loads((folder / "cases.json").read_text())
    (folder / "result.json").write_text(json.dumps([answer(data, case) for case in data["cases"]]))


if __name__ == "__main__":
    main()
