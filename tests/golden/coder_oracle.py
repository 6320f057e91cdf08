#!/usr/bin/env python3
"""Steps of PyTorch's communication hooks on given gradients, two ranks: what the test of coders compares against. For
ACP-SGD, which PyTorch lacks, NumPy as the paper has it (Zhang et al. 2023).

Usage: coder_oracle.py FOLDER. Reads FOLDER/cases.json: {cases: [{hook ("power_sgd" | "batched_power_sgd" | "acp_sgd" |
"fp16"), shape, vector (elements), rank, q (the first Q, row by row), gradients: per step and rank, matrix then vector}]}. Writes
FOLDER/result.json: per case, computed in float32 and in float64, the averaged gradient of each step, matrix then vector.
"""
import json
import pathlib
import sys

import numpy
import process_group
import torch
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power_sgd

VANILLA = 2  # DDP divides its buckets anew in its second step


class Given(torch.nn.Module):
    """The gradient of its output is what it is given: the matrix's, which is computed first, then the vector's."""

    def __init__(self, shape, vector):
        super().__init__()
        self.matrix = torch.nn.Parameter(torch.zeros(shape))
        self.vector = torch.nn.Parameter(torch.zeros(vector))

    def forward(self, gradient):
        split = self.matrix.numel()
        vector = (self.vector * gradient[split:]).sum()
        return (self.matrix.view(-1) * gradient[:split]).sum() + vector


orthogonalise = power_sgd._orthogonalize


def orthogonalise_all(matrices, epsilon=0):
    orthogonalise(matrices if matrices.dim() == 3 else matrices.unsqueeze(0), epsilon)


# batched_powerSGD_hook hands over one matrix where PyTorch (1.13 to 2.15) expects several: as it is, it stops there.
power_sgd._orthogonalize = orthogonalise_all


def batched_hook(state, bucket):
    dimensions = [parameter.dim() for parameter in bucket.parameters()]
    assert state.iter < VANILLA or dimensions == sorted(dimensions, reverse=True), "the matrix comes first"
    return power_sgd.batched_powerSGD_hook(state, bucket)


def register(model, case):
    if case["hook"] == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
        return None
    state = power_sgd.PowerSGDState(None, matrix_approximation_rank=case["rank"], start_powerSGD_iter=VANILLA,
                                    min_compression_rate=1)
    batched = case["hook"] == "batched_power_sgd"
    model.register_comm_hook(state, batched_hook if batched else power_sgd.powerSGD_hook)
    return state


def run(rank, case, dtype):
    torch.set_default_dtype(dtype)
    model = torch.nn.parallel.DistributedDataParallel(Given(case["shape"], case["vector"]))
    state = register(model, case)
    steps = [torch.zeros(len(case["gradients"][0][0]))] * VANILLA
    steps += [torch.tensor(step[rank]) for step in case["gradients"]]
    results = []
    for number, gradient in enumerate(steps):
        if state is not None and number == VANILLA:
            q = torch.tensor(case["q"])
            batched = case["hook"] == "batched_power_sgd"
            state.q_memory_dict[0] = q.view(-1, case["rank"]) if batched else q
            state.p_memory_dict[0] = torch.empty_like(state.q_memory_dict[0]) if batched else \
                torch.empty(case["shape"][0] * case["rank"])
        model.zero_grad()
        model(gradient).backward()
        results.append(torch.cat([model.module.matrix.grad.view(-1), model.module.vector.grad]).tolist())
    return results[VANILLA:]


def run_acp_sgd(case, dtype):
    """Means over the ranks, and an error of each rank that its own factor leaves."""
    ranks, rows, rank = len(case["gradients"][0]), case["shape"][0], case["rank"]
    q = numpy.array(case["q"], dtype).reshape(-1, rank)
    split = rows * q.shape[0]
    errors = [numpy.zeros((rows, q.shape[0]), dtype)] * ranks
    results = []
    for number, gradients in enumerate(numpy.array(case["gradients"], dtype)):
        whole = [gradients[one][:split].reshape(rows, -1) + errors[one] for one in range(ranks)]
        if number % 2 == 0:
            q = numpy.linalg.qr(q)[0]
            own = [m @ q for m in whole]
            errors = [m - factor @ q.T for m, factor in zip(whole, own)]
            p = sum(own) / ranks
        else:
            p = numpy.linalg.qr(p)[0]
            own = [m.T @ p for m in whole]
            errors = [m - p @ factor.T for m, factor in zip(whole, own)]
            q = sum(own) / ranks
        results.append((p @ q.T).ravel().tolist() + gradients[:, split:].mean(axis=0).tolist())
    return results


def results_of(rank, case):
    if case["hook"] == "acp_sgd":
        return {"float32": run_acp_sgd(case, numpy.float32), "float64": run_acp_sgd(case, numpy.float64)}
    return {"float32": run(rank, case, torch.float32), "float64": run(rank, case, torch.float64)}


def work(rank, folder):
    cases = json.loads((folder / "cases.json").read_text())["cases"]
    results = [results_of(rank, case) for case in cases]
    if rank == 0:
        (folder / "result.json").write_text(json.dumps(results))


def main():
    process_group.on_ranks(2, work, pathlib.Path(sys.argv[1]))


if __name__ == "__main__":
    main()
