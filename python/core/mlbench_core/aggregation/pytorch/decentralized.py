"""Aggregation among neighbours."""

import torch
import torch.distributed as dist

from mlbench_core.aggregation.pytorch.aggregation import Aggregation


class DecentralizedAggregation(Aggregation):
    """The plain mean of this rank and its neighbours, each of which must have this rank among its own."""

    def __init__(self, rank, neighbors, use_cuda=False):
        super().__init__(use_cuda)
        if rank in neighbors:
            raise ValueError("rank %d is its own neighbour" % rank)
        self.rank, self.neighbors = rank, list(neighbors)

    def _agg(self, data, op="avg_world", denom=None):
        if op != "avg_world":
            raise ValueError("op is %r; expected avg_world" % op)
        received = [torch.empty_like(data) for _ in self.neighbors]
        works = [dist.isend(data, dst=neighbor) for neighbor in self.neighbors]
        works += [dist.irecv(tensor, src=neighbor) for tensor, neighbor in zip(received, self.neighbors)]
        for work in works:
            work.wait()
        return torch.stack([data, *received]).mean(0)
