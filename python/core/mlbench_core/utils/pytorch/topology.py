"""Which ranks share a host, and the GPU of each."""

import os
import socket

import torch
import torch.distributed as dist


class FCGraph:
    """All ranks, each connected to each."""

    def __init__(self, rank, world_size, use_cuda=False):
        self.rank, self.world_size, self.use_cuda = rank, world_size, use_cuda

    @property
    def current_device_name(self):
        return "cuda:%d" % torch.cuda.current_device() if self.use_cuda else "cpu"

    @property
    def current_device(self):
        return torch.device(self.current_device_name)

    def assigned_gpu_id(self):
        """Takes the GPU of this rank's number on its host; where a rank sees one GPU alone, that one."""
        torch.cuda.set_device(self.rank_on_host() % torch.cuda.device_count())

    def rank_on_host(self):
        """LOCAL_RANK where the launcher says it, else the number of lower ranks with the same name of their host."""
        if "LOCAL_RANK" in os.environ:
            return int(os.environ["LOCAL_RANK"])
        names = [None] * self.world_size
        dist.all_gather_object(names, socket.gethostname())
        return names[: self.rank].count(names[self.rank])

    def __str__(self):
        return self.current_device_name
