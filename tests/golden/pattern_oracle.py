#!/usr/bin/env python3
"""Steps of several ranks, in float64: what the test of patterns compares with. Post-local SGD and ZeRO are PyTorch's own
(PostLocalSGDOptimizer, ZeroRedundancyOptimizer), on processes; torchft's DiLoCo runs where it is installed; the others are
by the text of the papers.

Usage: pattern_oracle.py FOLDER. Reads FOLDER/cases.json: {curvature, targets (of each rank), tensors (the number of
elements of each), lr, momentum, steps, cases: [{pattern, ranks, what differs from DEFAULTS, and
  streaming, torchft: parts ([first, end) of each fragment), delay, mixing
  push_sum: matrices (of the rounds, in turn), or topology ("ring" | "torus" | "complete" | "exponential" | pairs of ranks)
  choco: topology, consensus_rate}]}
The gradient of a rank is curvature * (weights - target). Writes FOLDER/result.json: per case the weights of each rank
behind the last step.
"""
import concurrent.futures
import functools
import json
import math
import pathlib
import sys
import threading
from unittest import mock

import numpy
import process_group
import torch
from coder_paper_oracle import count_of, largest
from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as post_local_sgd
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer

DEFAULTS = {"rule": "sgd", "every": 1, "start_step": 0, "delay": 0, "mixing": 0, "outer_lr": 1, "outer_momentum": 0,
            "outer_nesterov": False, "slowmo": False, "share": 1, "error_decay": 1}


def rule_of(data, case):
    """The rule's class in torch.optim, with its options."""
    if case["rule"] == "adamw":
        return functools.partial(torch.optim.AdamW, lr=data["lr"])
    return functools.partial(torch.optim.SGD, lr=data["lr"], momentum=data["momentum"])


def outer_rule_of(case):
    return functools.partial(torch.optim.SGD, lr=case["outer_lr"], momentum=case["outer_momentum"],
                             nesterov=case["outer_nesterov"])


class Rule:
    """A rule over a NumPy array, with the gradient of the moment."""

    def __init__(self, values, make):
        self.values = torch.nn.Parameter(torch.from_numpy(values))  # shares the array's memory
        self.optimizer = make([self.values])

    def step(self, gradient):
        self.values.grad = torch.from_numpy(numpy.array(gradient))
        self.optimizer.step()


def rules_of(data, case, values):
    return [Rule(own, rule_of(data, case)) for own in values]


def local(data, case, gradient, start):
    """Local SGD (Stich 2019), post-local SGD (Lin et al. 2020: mean gradients before start_step), SlowMo (Wang et al.
    2020, algorithm 1), DiLoCo (Douillard et al. 2023, algorithm 1). A share below 1 is SparseLoCo's (Sarfi et al. 2025):
    ranks send the largest elements of what they changed, with error feedback that fades."""
    ranks, own, shared = len(start), numpy.array(start), numpy.array(start[0])
    inner = rules_of(data, case, own)
    outer, slow = Rule(shared, outer_rule_of(case)), numpy.zeros_like(shared)
    kept = numpy.zeros_like(own)
    for t in range(data["steps"]):
        gradients = [gradient(own[rank], rank) for rank in range(ranks)]
        synchronous = t < case["start_step"]
        for rank in range(ranks):
            inner[rank].step(sum(gradients) / ranks if synchronous else gradients[rank])
        if synchronous:
            shared[:] = own[0]
        elif (t + 1 - case["start_step"]) % case["every"] == 0:
            kept = case["error_decay"] * kept + (shared - own)
            sent = numpy.array([largest(values, count_of(case["share"], len(values))) for values in kept])
            kept -= sent
            if case["slowmo"]:
                slow = case["outer_momentum"] * slow + sent.mean(axis=0) / data["lr"]
                shared -= case["outer_lr"] * data["lr"] * slow
            else:
                outer.step(sent.mean(axis=0))
            own[:] = shared
    return own


def streaming(data, case, gradient, start):
    """Streaming DiLoCo, algorithm 2; t counts from 1, and a fragment's offset t_p is (p + 1) H / P."""
    ranks, parts, every = len(start), case["parts"], case["every"]
    local = [numpy.array(values) for values in start]
    inner = rules_of(data, case, local)
    shared = [numpy.array(start[0][first:end]) for first, end in parts]
    outer = [Rule(values, outer_rule_of(case)) for values in shared]
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


def torchft(data, case, gradient, start):
    """torchft's DiLoCo. Its ranks are threads here, and its Manager is one that asks no lighthouse: all averages succeed."""
    from torchft.local_sgd import DiLoCo
    from torchft.manager import Manager
    from torchft.work import _DummyWork
    ranks, own = len(start), numpy.array(start)
    meeting, sent = threading.Barrier(ranks, timeout=60), [None] * ranks

    def train(rank):
        def average(tensor, should_quantize=False):
            sent[rank] = tensor.clone()
            meeting.wait()
            tensor.copy_(sum(sent) / ranks)
            meeting.wait()
            return _DummyWork(tensor)

        manager = mock.create_autospec(Manager, _use_async_quorum=False)
        manager.allreduce.side_effect = average
        manager.should_commit.return_value = True
        manager.current_step.side_effect = lambda: manager.should_commit.call_count
        parts = [torch.nn.Parameter(torch.from_numpy(own[rank, first:end])) for first, end in case["parts"]]
        inner, outer = rule_of(data, case)(parts), [outer_rule_of(case)([part]) for part in parts]
        with DiLoCo(manager, [torch.nn.ParameterList([part]) for part in parts], inner, outer, case["every"],
                    fragment_sync_delay=case["delay"], fragment_update_alpha=case["mixing"]) as diloco:
            diloco._local_step = -case["delay"]  # of torchft a fragment arrives at its offset, of the paper it is sent then
            for _ in range(data["steps"]):
                gradients = torch.from_numpy(gradient(own[rank], rank))
                for part, (first, end) in zip(parts, case["parts"]):
                    part.grad = gradients[first:end]
                inner.step()
        assert manager.should_commit.call_count > 0

    with concurrent.futures.ThreadPoolExecutor(ranks) as pool:
        list(pool.map(train, range(ranks)))
    return own


def mixing_matrix(case, t):
    """Metropolis weights (Xiao, Boyd & Kim 2007) of the graph of the round: doubly stochastic."""
    ranks, topology = case["ranks"], case["topology"]
    linked, everyone = numpy.full((ranks, ranks), topology == "complete"), numpy.arange(ranks)
    if topology in ("ring", "torus"):
        rows = 1 if topology == "ring" else max(n for n in range(1, math.isqrt(ranks) + 1) if ranks % n == 0)
        grid = everyone.reshape(rows, -1)
        for axis, shift in ((0, 1), (0, -1), (1, 1), (1, -1)):
            linked[grid, numpy.roll(grid, shift, axis)] = True
    elif topology == "exponential":
        linked[everyone, everyone ^ (1 << t % (ranks.bit_length() - 1))] = True
    elif topology != "complete":
        for one, other in topology:
            linked[one, other] = linked[other, one] = True
    numpy.fill_diagonal(linked, False)
    degrees = linked.sum(axis=1)
    matrix = linked / (1 + numpy.maximum(degrees[:, None], degrees))
    return matrix + numpy.diag(1 - matrix.sum(axis=1))


def push_sum(data, case, gradient, start):
    """Stochastic gradient push (Assran et al. 2019, algorithm 1), with x kept and z computed from it. Where rows sum to 1,
    too, w stays 1: then it is decentralised SGD (Lian et al. 2017) that mixes behind the step of the rule."""
    x, w, rounds = numpy.array(start), numpy.ones((len(start), 1)), 0
    rules = rules_of(data, case, x)
    for t in range(data["steps"]):
        z = x / w
        for rank, rule in enumerate(rules):
            rule.step(gradient(z[rank], rank))
        if (t + 1) % case["every"] == 0:
            matrices = case.get("matrices")
            matrix = numpy.array(matrices[rounds % len(matrices)]) if matrices else mixing_matrix(case, rounds)
            x[:], w, rounds = matrix @ x, matrix @ w, rounds + 1
    return x / w


def choco(data, case, gradient, start):
    """CHOCO-SGD (Koloskova et al. 2019, algorithm 2), where a rank sends the largest elements; all copies are kept."""
    x, copies, matrix = numpy.array(start), numpy.array(start), mixing_matrix(case, 0)
    rules = rules_of(data, case, x)
    for t in range(data["steps"]):
        for rank, rule in enumerate(rules):
            rule.step(gradient(x[rank], rank))
        if (t + 1) % case["every"] == 0:
            for rank, values in enumerate(x):
                copies[rank] += largest(values - copies[rank], count_of(case["share"], len(values)))
            for rank, weights in enumerate(matrix):
                x[rank] += case["consensus_rate"] * (weights @ (copies - copies[rank]))
    return x


def synchronous(data, case, gradient, start):
    """The mean of all ranks' gradients at the same weights, which a parameter server keeps, or each rank."""
    weights = numpy.array(start[0])
    rule = Rule(weights, rule_of(data, case))
    for _ in range(data["steps"]):
        rule.step(sum(gradient(weights, rank) for rank in range(len(start))) / len(start))
    return [weights] * len(start)


def quantised(data, case, gradient, start):
    """An all-reduce of 8-bit codes in two steps, with error feedback in both, in float32: another rounding would be another
    code. A rank's part of a tensor has one scale."""
    ranks, elements, single = len(start), len(start[0]), numpy.float32
    longest = -(-elements // ranks)
    parts = [(min(rank * longest, elements), min((rank + 1) * longest, elements)) for rank in range(ranks)]
    ends = numpy.cumsum(data["tensors"])
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


# ---- PyTorch's own, on processes ------------------------------------------------------------------------------------


class Quadratic(torch.nn.Module):
    def __init__(self, data, rank):
        super().__init__()
        self.weights = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(count)) for count in data["tensors"]])
        self.curvature, self.target = torch.tensor(data["curvature"]), torch.tensor(data["targets"][rank])

    def forward(self):
        return (self.curvature * (torch.cat(list(self.weights)) - self.target) ** 2).sum() / 2


def optimizer_on_ranks(data, case, model, group):
    if case["pattern"] == "zero":
        rule = rule_of(data, case)
        return ZeroRedundancyOptimizer(model.parameters(), rule.func, process_group=group, **rule.keywords)
    start, every = case["start_step"], case["every"]
    state = post_local_sgd.PostLocalSGDState(group, group, start, post_local_gradient_allreduce=False)
    model.register_comm_hook(state, post_local_sgd.post_localSGD_hook)
    # It averages behind the steps warmup_steps, warmup_steps + period, ..., counted from 0.
    averager = PeriodicModelAverager(every, warmup_steps=start + every - 1, process_group=group)
    return PostLocalSGDOptimizer(rule_of(data, case)(model.parameters()), averager)


def on_processes(rank, data, numbers, folder):
    torch.set_default_dtype(torch.float64)
    results = {}
    for number in numbers:
        case = data["cases"][number]
        group = torch.distributed.new_group(list(range(case["ranks"])))
        if rank >= case["ranks"]:
            continue
        model = torch.nn.parallel.DistributedDataParallel(Quadratic(data, rank), process_group=group)
        optimizer = optimizer_on_ranks(data, case, model, group)
        for _ in range(data["steps"]):
            model.zero_grad()
            model().backward()
            optimizer.step()
        results[number] = torch.cat(list(model.module.weights)).tolist()
    (folder / f"rank_{rank}.json").write_text(json.dumps(results))


def main():
    folder = pathlib.Path(sys.argv[1])
    data = json.loads((folder / "cases.json").read_text())
    data["cases"] = [{**DEFAULTS, **case} for case in data["cases"]]
    curvature, targets = numpy.array(data["curvature"]), numpy.array(data["targets"])

    def gradient(values, rank):
        return curvature * (values - targets[rank])

    by_text = {"streaming": streaming, "local": local, "push_sum": push_sum, "choco": choco, "synchronous": synchronous,
               "quantised": quantised, "torchft": torchft}
    results, of_pytorch = [], []
    for number, case in enumerate(data["cases"]):
        if case["pattern"] in by_text:
            start = numpy.zeros((case["ranks"], len(curvature)))
            results.append([list(values) for values in by_text[case["pattern"]](data, case, gradient, start)])
        else:
            results.append([])
            of_pytorch.append(number)
    size = max((data["cases"][number]["ranks"] for number in of_pytorch), default=0)
    process_group.on_ranks(size, on_processes, data, of_pytorch, folder)
    for rank in range(size):
        for number, weights in json.loads((folder / f"rank_{rank}.json").read_text()).items():
            results[int(number)].append(weights)
    (folder / "result.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()
