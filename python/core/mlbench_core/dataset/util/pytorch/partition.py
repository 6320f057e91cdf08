"""The parts of a data set that belong to the ranks."""

import random

import torch
import torch.distributed as dist

from mlbench_core.utils.pytorch.distributed import get_backend_tensor


class Partition(torch.utils.data.Dataset):
    """The samples with these indices. Other attributes are those of the data set."""

    def __init__(self, data, indices):
        self.data, self.indices = data, indices

    def __len__(self):
        return len(self.indices)

    def __getitem__(self, index):
        return self.data[self.indices[index]]

    def __getattr__(self, name):
        if name in ("data", "indices") or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.data, name)


class DataPartitioner:
    """Cuts the samples, shuffled by rank 0 with Python's random numbers, into parts of these fractions."""

    def __init__(self, data, rank, shuffle, sizes=(0.7, 0.2, 0.1)):
        indices = list(range(len(data)))
        if shuffle:
            if rank == 0:
                random.shuffle(indices)
            if dist.is_initialized():
                same = get_backend_tensor(torch.tensor(indices, dtype=torch.int64))
                dist.broadcast(same, src=0)
                indices = same.tolist()
        ends = [round(sum(sizes[: i + 1]) * len(data), 6) for i in range(len(sizes))]
        begins = [0, *map(int, ends)]
        self.data = data
        self.partitions = [indices[begin:end] for begin, end in zip(begins, begins[1:])]

    def use(self, partition_ind):
        return Partition(self.data, self.partitions[partition_ind])


def partition_dataset_by_rank(dataset, rank, world_size, distribution="uniform", shuffle=True):
    """This rank's part; the parts of all ranks are the whole, and differ by at most one sample."""
    if distribution != "uniform":
        raise ValueError("distribution is %r; expected uniform" % distribution)
    return DataPartitioner(dataset, rank, shuffle, [1 / world_size] * world_size).use(rank)
